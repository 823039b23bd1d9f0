// SPDX-License-Identifier: Apache-2.0
// The bench of an agent that works outside a search: it reads the run's record, whether the search is running
// or stopped, and writes only submissions.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/benches/worker_bench.hpp"
#include "engine/search/search.hpp"
#include "engine/store/record.hpp"
#include "engine/store/run_folder.hpp"
#include "engine/store/tool_results.hpp"

namespace cultivar {

class RunBench : public WorkerBench {
 public:
  struct Where {
    std::filesystem::path run_folder;
    Runtime runtime;
    std::vector<std::filesystem::path> knowledge;
    std::optional<int> device;   // if set, used instead of the search's first device
    std::string resume_command;  // "cultivar resume runs/x", to show to the user
  };
  // Throws when the run cannot be used: InputError, MissingError, std::runtime_error.
  explicit RunBench(Where);

  std::string situation() const override;
  std::string caveat() const override;
  Expected<std::vector<KernelRow>> kernels(const KernelQuery&) const override;
  Expected<Kernel> kernel(const std::string& id) const override;
  std::vector<KernelRow> drafts() const override;
  Expected<void> share(const ToolOutcome&) override;
  std::string similar(const Variant&, const std::string& from) const override;
  Expected<Outlook> outlook(const std::string& id) const override;
  std::filesystem::path notes_file() const override;
  bool takes_submissions() const override { return true; }
  Expected<std::string> submit(const Variant&, const std::string& note, const std::string& from) override;

 protected:
  std::optional<Facts> known_facts() const override { return facts_; }
  std::string device_words() const override { return device_words_; }
  Ceilings known_ceilings() const override { return ceilings_; }

 private:
  struct Opened {
    RunFacts facts;
    Config config;
  };
  static Opened open(const Where&);
  static BenchSettings settings_of(const Where&, const Opened&);
  RunBench(Where, const Opened&);

  Where where_;
  RunFacts run_;
  std::vector<int> devices_of_search_;
  std::optional<Facts> facts_;
  std::string device_words_;
  Ceilings ceilings_;
  ConversationLog own_;
  mutable std::mutex mutex_;  // guards own_
};

}  // namespace cultivar

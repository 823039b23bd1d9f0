// The bench of an agent that works beside a search: it reads the run's record, running or stopped, and writes
// nothing but submissions.
#pragma once

#include <nlohmann/json.hpp>

#include "engine/agent/worker_bench.hpp"
#include "engine/run_folder.hpp"
#include "engine/search.hpp"
#include "engine/store/record.hpp"

namespace cultivar {

class RunBench : public WorkerBench {
 public:
  struct Where {
    std::filesystem::path run_folder;
    Surface surface;
    std::vector<std::filesystem::path> knowledge;
    std::filesystem::path variant_format;
    std::optional<int> device;   // another than the search's own first one
    std::string resume_command;  // "cultivar resume runs/x", to be shown
  };
  // Throws what is wrong with the run: InputError, MissingError, std::runtime_error.
  explicit RunBench(Where);

  std::string situation() const override;
  std::string caveat() const override;
  Expected<std::vector<KernelRow>> kernels(const KernelQuery&) const override;
  Expected<Kernel> kernel(const std::string& id) const override;
  bool takes_submissions() const override { return true; }
  Expected<std::string> submit(const Variant&, const std::string& note, const std::string& from) override;

 protected:
  std::optional<Facts> known_facts() const override { return facts_; }
  std::string device_words() const override { return device_words_; }

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
};

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// Tells the configured receivers what happens in a search, and keeps its metrics file: see engine/notify.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/config.hpp"
#include "engine/notify/metrics.hpp"
#include "engine/notify/notifier.hpp"
#include "engine/search/search_callbacks.hpp"
#include "engine/store/record.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {

// Not thread-safe: for the thread of the search loop. It decides nothing and never blocks, except in
// ended(), for the notifier's farewell.
class Announcements {
 public:
  // `shown`: the callbacks of the caller, which outlive it.
  Announcements(const Config&, std::filesystem::path run_folder, const SearchCallbacks& shown);

  // Those of the caller, and in addition whoever is to be told. Valid during its lifetime.
  SearchCallbacks callbacks();
  // `stop`: the name of why the search ended. A summary without budgets: the record could not be read.
  // Returns what could not be delivered. May take as long as the notifier's farewell.
  std::vector<std::string> ended(const std::string& stop, const Summary&);

 private:
  // Of each budget that there can be: its key in the configuration, what is used, and the limit (0: none).
  struct Use {
    const char* kind;
    double used, limit;
  };
  std::vector<Use> uses() const;
  void heard(const Event&);
  void heard(const Progress&);
  void tell(Occasion, double elapsed_s, const std::string& text, IndividualId);
  void tell_promoted();
  void show(const Summary&);
  void watch_budgets();
  void watch_models();
  void tell_troubles(double elapsed_s);
  void write_metrics(const std::string& state);

  const SearchCallbacks& shown_;
  const std::string name_, folder_;
  const Budget budget_;
  Notifier notifier_;
  std::unique_ptr<MetricsFile> metrics_;
  Progress last_;
  std::optional<Event> promoted_ = {};  // told with the next progress, which has it as the best
  double next_metrics_s_ = 0.0, next_trouble_s_ = 0.0;  // in elapsed time
  int troubles_ = 0;                                    // not told yet
  std::map<std::string, bool> nearly_spent_;            // by budget: told
  std::optional<double> paused_since_s_ = {};           // since when no language model is available
  double paused_last_s_ = 0.0;
  bool paused_told_ = false;
};

}  // namespace cultivar

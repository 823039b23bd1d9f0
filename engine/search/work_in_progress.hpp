// SPDX-License-Identifier: Apache-2.0
// The individuals in the pipeline and what is done with each, for the progress line.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/search/job.hpp"
#include "evaluators/system/clock.hpp"

namespace cultivar {

// Thread-safe.
class WorkInProgress {
 public:
  struct Entry {
    IndividualId id = 0;
    InFlight::Doing doing = InFlight::Doing::waiting_for_compiler;
    std::string note = {};  // what its worker says
    Clock::time_point since = Clock::now();
  };

  void put(const Job& job, InFlight::Doing doing) {
    if (job.id == 0) return;
    const std::lock_guard lock(mutex_);
    entries_.insert_or_assign(&job, Entry{job.id, doing});
  }
  void remove(const Job& job) {
    const std::lock_guard lock(mutex_);
    entries_.erase(&job);
  }
  void note(const Job& job, std::string text) {
    const std::lock_guard lock(mutex_);
    if (const auto found = entries_.find(&job); found != entries_.end()) found->second.note = std::move(text);
  }
  // What the individual that is furthest is at, and for how long: "#1 is being compiled (12 s)". One that is
  // compiled for a duel or a confirmation goes first, since all others wait for it. Empty if none is on its
  // way to its measurement, if it has been there for a shorter time, or during a duel or a confirmation.
  std::string step(double least_seconds) const;
  std::vector<Entry> entries() const {  // sorted by individual
    const std::lock_guard lock(mutex_);
    std::vector<Entry> all;
    for (const auto& [job, entry] : entries_) all.push_back(entry);
    std::ranges::sort(all, {}, &Entry::id);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::map<const Job*, Entry> entries_;
};

}  // namespace cultivar

// The individuals in the pipeline and what is done with each, for the progress line.
#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/search/job.hpp"

namespace cultivar {

// Thread-safe.
class WorkInProgress {
 public:
  struct Entry {
    IndividualId id = 0;
    InFlight::Doing doing = InFlight::Doing::waiting_for_compiler;
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
  void note(std::string text) {  // what the device is doing
    const std::lock_guard lock(mutex_);
    note_ = std::move(text);
  }
  std::vector<Entry> entries() const {  // sorted by individual
    const std::lock_guard lock(mutex_);
    std::vector<Entry> all;
    for (const auto& [job, entry] : entries_) all.push_back(entry);
    std::ranges::sort(all, {}, &Entry::id);
    return all;
  }
  std::string device_note() const {
    const std::lock_guard lock(mutex_);
    return note_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<const Job*, Entry> entries_;
  std::string note_;
};

}  // namespace cultivar

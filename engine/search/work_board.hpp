// What the devices and compilers are at, for the progress line.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "population/individual.hpp"

namespace cultivar {

// Thread-safe.
class WorkBoard {
 public:
  using Doing = std::vector<std::pair<IndividualId, std::string>>;

  void put(IndividualId id, std::string doing) {
    const std::lock_guard lock(mutex_);
    const auto place = std::ranges::find(doing_, id, &Doing::value_type::first);
    if (place != doing_.end())
      place->second = std::move(doing);
    else
      doing_.emplace_back(id, std::move(doing));
  }
  void remove(IndividualId id) {
    const std::lock_guard lock(mutex_);
    std::erase_if(doing_, [&](const auto& entry) { return entry.first == id; });
  }
  void note(std::string text) {  // of the device
    const std::lock_guard lock(mutex_);
    note_ = std::move(text);
  }
  Doing doing() const {
    const std::lock_guard lock(mutex_);
    return doing_;
  }
  std::string device_note() const {
    const std::lock_guard lock(mutex_);
    return note_;
  }

 private:
  mutable std::mutex mutex_;
  Doing doing_;
  std::string note_;
};

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// Defines every path of a run.
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path database() const {
    return folder_ / "run.db";
  }                                                                    // next to it run.db-wal and run.db-shm
  std::filesystem::path lock() const { return folder_ / "run.lock"; }  // held by the one process that writes
  std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }
  std::filesystem::path tasks() const {
    return folder_ / "task";
  }  // task/NAME: the task as it was at the start
  std::filesystem::path submissions() const { return folder_ / "submissions"; }  // the inbox of `submit`
  std::filesystem::path notes() const { return folder_ / "notes.txt"; }          // of agents, for each other
  std::filesystem::path conversations() const {
    return folder_ / "conversations";
  }  // of agents outside of the search, with their drafts
  // The waiting files, oldest first: their names start with the time. At most `most`.
  std::vector<std::filesystem::path> submitted(std::size_t most = std::size_t(-1)) const;
  std::filesystem::path witness() const {
    return folder_ / "run.extent";
  }  // how much the record held after its last step
  std::filesystem::path log() const { return folder_ / "search.log"; }  // what a detached search prints
  std::filesystem::path portfolio() const {
    return folder_ / "portfolio.json";
  }  // which kernels `cultivar portfolio` chose
  std::filesystem::path portfolio_so_far() const {
    return folder_ / "portfolio.begun.json";
  }  // what it decided before it was interrupted
  std::filesystem::path portfolio_over() const {
    return folder_ / "portfolio.over.jsonl";
  }  // what `cultivar portfolio --over` measured
  // Whether the folder can become a run: it is empty, or holds only logs and what a search left that was
  // killed before it had made its record.
  bool is_unused() const;
  std::filesystem::path damaged() const { return folder_ / "damaged"; }  // files moved aside by a recovery

 private:
  std::filesystem::path folder_;
};

inline bool RunFolder::is_unused() const {
  std::error_code failed, absent;
  const bool begun = std::filesystem::exists(lock(), absent) && !std::filesystem::exists(database(), absent);
  const auto unfinished = [&](const std::filesystem::path& path) {
    if (path == checkpoints() || path == submissions()) return std::filesystem::is_empty(path, absent);
    return path == lock() || path == tasks() || path.filename().string().starts_with("run.db.new");
  };
  std::filesystem::directory_iterator at(folder_, failed);
  for (const std::filesystem::directory_iterator end; !failed && at != end; at.increment(failed))
    if (!at->path().filename().string().starts_with(log().filename().string()) &&
        !(begun && unfinished(at->path())))
      return false;
  return !failed;
}

inline std::vector<std::filesystem::path> RunFolder::submitted(std::size_t most) const {
  std::vector<std::string> names;
  std::error_code failed;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at(submissions(), failed); !failed && at != end;
       at.increment(failed))
    if (at->path().extension() == ".json") names.push_back(at->path().filename().string());
  const auto kept = names.begin() + static_cast<std::ptrdiff_t>(std::min(most, names.size()));
  std::partial_sort(names.begin(), kept, names.end());
  std::vector<std::filesystem::path> files;
  for (auto name = names.begin(); name != kept; ++name) files.push_back(submissions() / *name);
  return files;
}

// Ensures that one process writes a run. The kernel releases the lock when the process ends, so there are no
// stale locks.
class RunLock {
 public:
  // When it is held, the Error names the process.
  static Expected<RunLock> take(const RunFolder&);
  // The process that holds the lock now, or nullopt. Does not take the lock.
  static std::optional<int> holder(const RunFolder&);

  RunLock(RunLock&&) noexcept;
  RunLock& operator=(RunLock&&) noexcept;
  ~RunLock();

 private:
  explicit RunLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

}  // namespace cultivar

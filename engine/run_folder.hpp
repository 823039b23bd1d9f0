// Every path of a run is made here.
#pragma once

#include <filesystem>
#include <utility>

namespace cultivar {

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path database() const { return folder_ / "run.db"; }  // with -wal and -shm beside it
  std::filesystem::path lock() const { return folder_ / "run.lock"; }  // held by the one process that writes
  std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }
  std::filesystem::path tasks() const {
    return folder_ / "task";
  }  // task/NAME: the task as it was at the start
  std::filesystem::path submissions() const { return folder_ / "submissions"; }  // the inbox of `submit`
  std::filesystem::path damaged() const { return folder_ / "damaged"; }          // what a recovery put aside

 private:
  std::filesystem::path folder_;
};

}  // namespace cultivar

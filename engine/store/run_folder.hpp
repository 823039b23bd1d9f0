// Defines every path of a run.
#pragma once

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

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
  std::vector<std::filesystem::path> submitted() const;                  // waiting files, oldest first
  std::filesystem::path damaged() const { return folder_ / "damaged"; }  // files moved aside by a recovery

 private:
  std::filesystem::path folder_;
};

inline std::vector<std::filesystem::path> RunFolder::submitted() const {
  std::vector<std::filesystem::path> files;  // their names start with the time
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(submissions(), none))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

}  // namespace cultivar

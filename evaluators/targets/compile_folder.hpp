// A folder for one compile, gone when it is over; what killed processes left behind is swept up.
#pragma once

#include <filesystem>

namespace cultivar {

class CompileFolder {
 public:
  // Inside `parent`, with a name of its own and a folder `out` that a compiler may write into.
  explicit CompileFolder(const std::filesystem::path& parent);
  ~CompileFolder();
  CompileFolder(const CompileFolder&) = delete;
  CompileFolder& operator=(const CompileFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path out() const { return path_ / "out"; }

 private:
  std::filesystem::path path_;
};

// Removes what is older than an hour.
void remove_leftovers(const std::filesystem::path& parent);

}  // namespace cultivar

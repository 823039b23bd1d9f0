// SPDX-License-Identifier: Apache-2.0
// A folder for one compile, removed when the compile ends. Leftovers of killed processes are removed later.
#pragma once

#include <filesystem>
#include <string>

namespace cultivar {

class CompileFolder {
 public:
  // Creates a uniquely named folder inside `parent`, with a subfolder `out` that the compiler may write to.
  explicit CompileFolder(const std::filesystem::path& parent);
  ~CompileFolder();
  CompileFolder(const CompileFolder&) = delete;
  CompileFolder& operator=(const CompileFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path out() const { return path_ / "out"; }

 private:
  std::filesystem::path path_;
};

// Why nothing can be written into this folder of the cache; empty if it can. For compiles that failed: a
// compiler whose output finds no room fails, too.
std::string why_unwritable(const std::filesystem::path& folder);

// Removes everything in it older than one hour.
void remove_leftovers(const std::filesystem::path& parent);

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// What makes a binary of a kernel's text (stages 1 and 2), in a compile worker. Each language is one folder
// beside this file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "evaluators/devices/binary.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// The requirements for a compiler.
struct CompilerOrder {
  const Task& task;
  const std::filesystem::path& cache;
  const std::string& architecture;  // empty: the target's default
  const std::string& python;        // an interpreter: a path or a name in PATH
};

class Compiler {  // thread-safe
 public:
  virtual ~Compiler() = default;
  virtual CompilerInfo info() const = 0;
  virtual tl::expected<Binary, CompileFailure> compile(const Variant&, const std::vector<std::string>& macros,
                                                       double deadline_s) = 0;
  // The same source once more, slow, with a counter for each basic block and, on the cpu, with checks of the
  // compiler's own. Only for a variant that compile() accepts. An Error says why there is none; it is no
  // fault of the variant's.
  virtual Expected<Binary> compile_check_build(const Variant&, const std::vector<std::string>& /*macros*/,
                                               double /*deadline_s*/) {
    return failure("check build", "this language has none");
  }
  // The same source once more, optimized, in which an overflow of signed integers ends the run: what a
  // compiler makes of one may differ from build to build. Otherwise as compile_check_build.
  virtual Expected<Binary> compile_overflow_build(const Variant&, const std::vector<std::string>& /*macros*/,
                                                  double /*deadline_s*/) {
    return failure("overflow build", "this language has none");
  }
};

// A folder for one compile, removed when the compile ends. Leftovers of killed processes are removed later.
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

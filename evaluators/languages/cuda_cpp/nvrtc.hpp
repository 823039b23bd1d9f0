// SPDX-License-Identifier: Apache-2.0
// NVRTC, loaded at run time. Only cultivar-nvrtc uses it, one sandboxed process per compile, because
// compilers crash, hang and read files.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

class Nvrtc {  // one compile at a time
 public:
  // The Error says why it cannot be loaded.
  static Expected<Nvrtc> load(const std::filesystem::path& library);
  Nvrtc(Nvrtc&&) noexcept;
  Nvrtc& operator=(Nvrtc&&) noexcept;
  ~Nvrtc();

  int major() const;
  int minor() const;
  std::vector<int> architectures() const;  // 75, 80, ...

  struct Result {
    bool compiled = false;
    std::string log;         // errors and warnings of the compiler and of ptxas
    std::string cubin, ptx;  // as far as the compile succeeded
  };
  struct Header {
    std::string name, text;
  };
  // `name` is the name of the source in messages. Headers are passed in memory and found by name before any
  // file.
  Result compile(const std::string& source, const std::string& name, const std::vector<Header>& headers,
                 const std::vector<std::string>& options) const;

 private:
  struct Entries;
  explicit Nvrtc(std::unique_ptr<Entries>);
  std::unique_ptr<Entries> entries_;
};

}  // namespace cultivar

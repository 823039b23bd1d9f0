// SPDX-License-Identifier: Apache-2.0
// The program cultivar-opencl, in which OpenCL lives, in a sandbox: compilers and cells are started by this.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/devices/ceilings.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/system/sandbox.hpp"

namespace cultivar {

// The first OpenCL device of this machine, as its driver describes it.
struct OpenclDeviceWords {
  std::string name, platform, version, driver;
  bool processor = true;  // its kernels run on the host's cores
  double compute_units = 1, group_max = 1, local_bytes_max = 0, cache_bytes = 0, vector_floats = 1;
  int others = 0;  // further devices of the machine, which are not used

  std::string identity() const { return platform + ", " + name + ", " + version + ", driver " + driver; }
};

class OpenclProgram {  // thread-safe
 public:
  // `program`: the path of cultivar-opencl; empty: beside the running program. Throws MissingError, with the
  // remedy, if this build has none.
  explicit OpenclProgram(std::filesystem::path program = {});

  // Started once. Throws MissingError if OpenCL has no device.
  const OpenclDeviceWords& device() const { return device_; }
  const Sandbox& sandbox() const { return sandbox_; }
  // Peak rates of the device, measured now. Throws MissingError.
  Ceilings measured_ceilings() const;

  // One start of the program: mode and arguments. `folder` is all that it may write to (no file of more than
  // `most_output_bytes`), and its working folder. The files in `readable` are seen under their own names.
  // `tool`: a program of /usr with options, in front of it.
  struct Start {
    ProcessOptions process;
    std::optional<FileAccessRules> walls;  // where bubblewrap does not isolate it
    // The walls are part of this object: do not move it between this and the start.
    Expected<ChildProcess> spawn();
  };
  Start start(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
              const std::vector<std::filesystem::path>& readable = {},
              const std::vector<std::string>& tool = {}) const;
  // A program of /usr by itself, with its arguments, in the same sandbox.
  Start start_tool(const std::vector<std::string>& command, const std::filesystem::path& folder) const;
  // How the program sees the folder.
  std::string inside(const std::filesystem::path& folder) const;

  std::string isolation() const;
  std::string weakness() const;  // empty if nothing

 private:
  std::optional<FileAccessRules> walls_around(const std::filesystem::path& folder,
                                              const std::vector<std::filesystem::path>& readable) const;
  Start started(const std::vector<std::string>& command, const std::filesystem::path& folder,
                const std::vector<std::filesystem::path>& readable, bool with_tool) const;
  std::filesystem::path program_;
  Sandbox sandbox_;
  OpenclDeviceWords device_;
};

// A folder of its own below the system's folder for temporary files, removed with this object.
class ScratchFolder {
 public:
  ScratchFolder();  // throws MissingError if none can be made
  ScratchFolder(ScratchFolder&&) noexcept;
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/opencl/code/opencl_program.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "evaluators/system/cores.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

constexpr double kReplySeconds = 60.0;
constexpr const char* kInside = "/cultivar-opencl";
constexpr const char* kFolderInside = "/work";
// What drivers read besides /usr: which drivers there are, and what the machine consists of.
constexpr const char* kDrivers = "/etc/OpenCL";
constexpr const char* kMachine = "/sys/devices/system";

bool there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Device files of cards, where there are any. A container may have any of NVIDIA's, by the card's number.
std::vector<std::string> card_files() {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == "dri" || name == "kfd" || (name.starts_with("nvidia") && entry.is_character_file(ignored)))
      files.push_back(entry.path().string());
  }
  return files;
}

std::vector<std::string> environment(const std::string& folder) {
  return {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "HOME=" + folder, "TMPDIR=" + folder,
          // PoCL compiles and links kernels again for each size of a group, in a folder of its own.
          "POCL_CACHE_DIR=" + folder, fmt::format("POCL_MAX_PTHREAD_COUNT={}", usable_cores().size())};
}

// What the program prints in a mode that needs nothing else.
nlohmann::json reply_to(const OpenclProgram& program, const std::string& mode) {
  const ScratchFolder scratch;
  OpenclProgram::Start start = program.start({mode}, scratch.path());
  start.process.pipe_output = false;
  auto child = start.spawn();
  if (!child) throw MissingError("cannot start cultivar-opencl: " + child.error().message);
  if (!child->wait_or_kill(deadline_in(kReplySeconds)))
    throw MissingError(
        fmt::format("the OpenCL drivers of this machine do not answer within {:g} s", kReplySeconds));
  const std::string said = child->captured();
  // Drivers may print warnings before it.
  const std::size_t line = said.find_last_of('\n', said.find_last_not_of('\n'));
  nlohmann::json reply =
      nlohmann::json::parse(line == said.npos ? said : said.substr(line + 1), nullptr, false);
  if (!child->poll()->success() || reply.is_discarded())
    throw MissingError(fmt::format("cultivar-opencl {}: {}", child->poll()->describe(), said));
  return reply;
}

}  // namespace

OpenclProgram::OpenclProgram(fs::path program) : program_(std::move(program)) {
  if (program_.empty()) program_ = fs::read_symlink("/proc/self/exe").parent_path() / "cultivar-opencl";
  program_ = fs::absolute(program_);
  if (find_program(program_.string()).empty())
    throw MissingError(fmt::format(
        "{} is missing: this build has no OpenCL. Install opencl-headers and ocl-icd-opencl-dev (and "
        "pocl-opencl-icd, for a processor), and build again",
        program_.string()));
  const nlohmann::json list = reply_to(*this, "list");
  if (list.empty())
    throw MissingError(
        "OpenCL has no device here: apt-get install pocl-opencl-icd for this machine's processor, or the "
        "driver of "
        "your card");
  const nlohmann::json& first = list.front();
  for (const auto& [name, place] : {std::pair("name", &device_.name),
                                    {"platform", &device_.platform},
                                    {"version", &device_.version},
                                    {"driver", &device_.driver}})
    first.at(name).get_to(*place);
  first.at("processor").get_to(device_.processor);
  for (const auto& [name, place] : {std::pair("compute_units", &device_.compute_units),
                                    {"group_max", &device_.group_max},
                                    {"local_bytes_max", &device_.local_bytes_max},
                                    {"cache_bytes", &device_.cache_bytes},
                                    {"vector_floats", &device_.vector_floats}})
    first.at(name).get_to(*place);
  if (device_.processor)
    device_.compute_units = std::min(device_.compute_units, static_cast<double>(usable_cores().size()));
  device_.others = static_cast<int>(list.size()) - 1;
}

Ceilings OpenclProgram::measured_ceilings() const {
  const nlohmann::json rates = reply_to(*this, "ceilings");
  Ceilings measured;
  rates.at("flops").get_to(measured.flops);
  rates.at("bytes_per_second").get_to(measured.bytes_per_second);
  rates.at("cached_bytes_per_second").get_to(measured.cached_bytes_per_second);
  rates.at("handshake_s").get_to(measured.handshake_s);
  return measured;
}

std::optional<FileAccessRules> OpenclProgram::walls_around(const fs::path& folder,
                                                           const std::vector<fs::path>& readable) const {
  std::vector<fs::path> read{
      "/usr",   "/bin",   "/lib",          "/lib64",        "/etc/alternatives", "/etc/ld.so.cache",
      kDrivers, kMachine, "/proc/meminfo", "/proc/cpuinfo", "/dev/urandom",      folder,
      program_};
  read.insert(read.end(), readable.begin(), readable.end());
  std::vector<fs::path> write{folder, "/dev/null"};
  for (const std::string& card : card_files())  // and what their drivers read
    write.emplace_back(card), read.emplace_back("/proc"), read.emplace_back("/sys");
  auto rules = FileAccessRules::make(read, write);
  if (!rules) return std::nullopt;
  return std::move(*rules);
}

std::string OpenclProgram::inside(const fs::path& folder) const {
  return sandbox_.usable() ? std::string(kFolderInside) : folder.string();
}

OpenclProgram::Start OpenclProgram::start(const std::vector<std::string>& arguments, const fs::path& folder,
                                          const std::vector<fs::path>& readable,
                                          const std::vector<std::string>& tool) const {
  std::vector<std::string> command = tool;
  command.push_back(sandbox_.usable() ? kInside : program_.string());
  command.insert(command.end(), arguments.begin(), arguments.end());
  return started(command, folder, readable, !tool.empty());
}

OpenclProgram::Start OpenclProgram::start_tool(const std::vector<std::string>& command,
                                               const fs::path& folder) const {
  return started(command, folder, {}, true);
}

OpenclProgram::Start OpenclProgram::started(const std::vector<std::string>& command, const fs::path& folder,
                                            const std::vector<fs::path>& readable, bool with_tool) const {
  Start start;
  ProcessOptions& process = start.process;
  const std::vector<std::string> variables = environment(inside(folder));
  if (sandbox_.usable()) {
    std::vector<SandboxMount> mounts{
        {program_, kInside}, {folder, kFolderInside, true}, {kMachine, kMachine}};
    if (there(kDrivers)) mounts.push_back({kDrivers, kDrivers});
    for (const fs::path& file : readable) mounts.push_back({file, file});
    std::vector<std::string> flags{"--new-session", "--dev",   "/dev",       "--tmpfs",
                                   "/tmp",          "--chdir", kFolderInside};
    for (const std::string& card : card_files())
      flags.insert(flags.end(), {"--dev-bind", card, card, "--ro-bind", "/sys", "/sys", "--proc", "/proc"});
    // A tool looks for its own parts beside its program (/proc/self/exe).
    if (with_tool) flags.insert(flags.end(), {"--proc", "/proc"});
    for (const std::string& variable : variables) {
      const std::size_t equals = variable.find('=');
      flags.insert(flags.end(), {"--setenv", variable.substr(0, equals), variable.substr(equals + 1)});
    }
    process.command = sandbox_.command(mounts, flags);
  } else {
    start.walls = walls_around(folder, readable);
    std::vector<fs::path> needed = readable;
    needed.insert(needed.end(), {program_, folder});
    process.privileges = sandbox_.privileges_outside(needed, folder);
    process.folder = folder;
    process.environment = variables;
  }
  process.command.insert(process.command.end(), command.begin(), command.end());
  process.pipe_input = process.pipe_output = false;
  process.captured_bytes = 32 << 10;
  process.expendable = true;
  process.limits = {{RLIMIT_CORE, 0}, {RLIMIT_FSIZE, most_output_bytes}};
  return start;
}

Expected<ChildProcess> OpenclProgram::Start::spawn() {
  if (walls) process.walls = &*walls;
  return ChildProcess::spawn(process);
}

std::string OpenclProgram::isolation() const {
  if (sandbox_.usable())
    return "OpenCL's compiler and kernels run in bubblewrap: no network, no home, read-only /usr, one folder "
           "that is "
           "written, bounded output and time";
  return fmt::format("OpenCL's compiler and kernels run {}, with bounded output and time; no bubblewrap: {}",
                     sandbox_.outside_in_words(), sandbox_.obstacle());
}

std::string OpenclProgram::weakness() const {
  if (sandbox_.usable()) return {};
  std::string words = fmt::format(
      "OpenCL kernels and their compiler run in a weaker sandbox, {} and outside bubblewrap ({}); to have "
      "both, allow "
      "user namespaces for this process",
      sandbox_.outside_in_words(), sandbox_.obstacle());
  if (!walls_around("/usr", {}))
    words += ". Without Landlock a kernel's source can also include any file that this user can read";
  return words;
}

ScratchFolder::ScratchFolder() {
  std::string name = (fs::temp_directory_path() / "cultivar-opencl-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw MissingError(fmt::format("no folder can be made in {}", fs::temp_directory_path().string()));
  path_ = name;
}
ScratchFolder::ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace cultivar

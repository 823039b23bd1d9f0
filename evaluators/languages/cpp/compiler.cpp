// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/cpp/compiler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>

#include "evaluators/devices/cpu/code/screen.hpp"
#include "evaluators/languages/binary_cache.hpp"
#include "evaluators/languages/cpp/argument_check.hpp"
#include "evaluators/languages/cpp/check_build.hpp"
#include "evaluators/profile/disassembly.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/memory_limit.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/system/sandbox.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

// Part of the cache key: increase it whenever the screen rejects more, so that cached kernels are screened
// again.
constexpr int screen_version = 6;

// Whether the compiler's driver says, at the end of its output, that SIGKILL ended a part of it (cc1plus, as,
// ld). Its own limits do not send that signal: memory ends with a message, files with SIGXFSZ, and processor
// time later than the deadline.
bool a_part_was_killed(std::string_view log) {
  constexpr std::string_view last = "\ncompilation terminated.\n";
  if (!log.ends_with(last)) return false;
  log.remove_suffix(last.size());
  const std::string_view line = log.substr(log.rfind('\n') + 1);
  // Nothing may follow the program's name: a source can have these words in an error of its own.
  constexpr std::string_view words = ": fatal error: Killed signal terminated program ";
  const auto at = line.find(words);
  return (at != line.npos && line.find_first_of(": ", at + words.size()) == line.npos) ||
         line.ends_with(" terminated with signal 9 [Killed]");
}

const std::vector<std::string>& fixed_flags() {
  static const std::vector<std::string> flags{
      "-x", "c++", "-std=c++20", "-O3", "-march=native", "-ffp-contract=fast", "-fno-exceptions", "-fno-rtti",
      "-shared", "-fPIC", "-nostartfiles", "-fvisibility=default", "-fno-ident",
      "-g1",  // line numbers, for profiles; the code stays the same
      "-fstack-usage", "-fdiagnostics-color=never", "-fmax-errors=20", "-Wl,-z,now", "-Wl,-z,relro",
      "-Wl,-z,noexecstack", "-Wl,--as-needed", "-Wl,--build-id=none",
      // A kernel may not depend on when it was compiled.
      "-D__DATE__=kernels_may_not_know_the_date", "-D__TIME__=kernels_may_not_know_the_time",
      "-D__TIMESTAMP__=kernels_may_not_know_the_time", "-Wno-builtin-macro-redefined"};
  return flags;
}

// The first line of the text that compiles other code for other instruction sets; empty: there is none. No
// check of this machine compiles that code, but an export elsewhere would.
std::string other_instruction_sets(std::string_view source) {
  constexpr std::string_view kConditions[] = {"if", "ifdef", "ifndef", "elif"};
  constexpr std::string_view kSets[] = {"__AVX", "__SSE", "__FMA__",      "__F16C__",
                                        "__BMI", "__AMX", "__ARM_FEATURE"};
  int number = 0;
  for (const std::string_view line : lines_of(source)) {
    ++number;
    const std::size_t mark = line.find_first_not_of(" \t");
    if (mark == line.npos || line[mark] != '#') continue;
    const std::size_t first = line.find_first_not_of(" \t", mark + 1);
    if (first == line.npos) continue;
    const std::string_view word = line.substr(first, line.find_first_of(" \t(!", first) - first);
    if (std::ranges::find(kConditions, word) != std::end(kConditions) &&
        std::ranges::any_of(kSets, [&](std::string_view set) { return line.find(set) != line.npos; }))
      return fmt::format("line {}: {}", number, line.substr(mark));
  }
  return {};
}

// Runs a program to completion and returns its output; empty on failure.
std::string printed_by(std::vector<std::string> command) {
  ProcessOptions options;
  options.command = std::move(command);
  options.pipe_input = options.pipe_output = false;
  options.captured_bytes = 1 << 20;
  // A call that somebody killed says nothing of the compiler: it is repeated.
  for (int attempt = 1;; ++attempt) {
    auto child = ChildProcess::spawn(options);
    if (!child || !child->wait_or_kill(deadline_in(20.0))) return {};
    const ExitStatus status = *child->poll();
    if (status.success()) return child->captured();
    if (status.signal == 0 || attempt == 3) return {};
  }
}

std::string find_compiler(const std::string& wanted) {
  if (!wanted.empty()) {
    const auto found = find_program(wanted);
    if (found.empty())
      throw MissingError(fmt::format("cannot find the compiler {}; install it or name another one", wanted));
    return found.string();
  }
  for (const char* name : {"c++", "g++", "clang++"})
    if (const auto found = find_program(name); !found.empty()) return found.string();
  throw MissingError("no C++ compiler (c++, g++ or clang++) is in PATH; install g++");
}

// The largest stack frame of any function, from gcc's .su file: "place:function<TAB>bytes<TAB>static".
double stack_bytes(const fs::path& folder) {
  double largest = 0.0;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    if (file.path().extension() != ".su") continue;
    std::ifstream in(file.path());
    for (std::string line; std::getline(in, line);) {
      const auto tab = line.find('\t');
      if (tab != std::string::npos) largest = std::max(largest, std::atof(line.c_str() + tab));
    }
  }
  return largest;
}

tl::unexpected<CompileFailure> fail(Stage stage, std::string reason, std::string diagnostics,
                                    bool late = false) {
  return tl::make_unexpected(CompileFailure{stage, std::move(reason), std::move(diagnostics), late});
}

tl::unexpected<CompileFailure> cannot_write(const fs::path& cache, const std::string& why) {
  return tl::make_unexpected(CompileFailure{
      .reason = std::string(words_of(HostFault::cache_unwritable)),
      .diagnostics =
          fmt::format("cannot write the cache {} ({}); free disk space or correct the folder's owner",
                      cache.string(), why),
      .host_fault = HostFault::cache_unwritable});
}

// "variant.cpp:3:5: error: ..." becomes that line without the folder: the reason in one line.
std::string first_error(const std::string& messages) {
  std::string first;
  for (const std::string_view line : lines_of(messages)) {
    if (line.find("error:") != line.npos || line.find("undefined reference") != line.npos)
      return std::string(line);
    if (first.empty()) first = line;
  }
  return first;
}

}  // namespace

std::string_view flags_of_exports() {
  return "-std=c++20 -O3 -march=native -ffp-contract=fast -fno-exceptions -fno-rtti -fPIC";
}

struct CpuCompiler::State {
  explicit State(CpuCompilerOptions o) : options(std::move(o)), cache(options.cache / "cpu", ".so") {}

  CpuCompilerOptions options;
  BinaryCache cache;
  Sandbox sandbox;
  std::string program, identity;
  std::atomic<std::size_t> compilations{0};

  static Expected<FileAccessRules> no_walls() {
    return failure("landlock", "not used: bubblewrap isolates the compiler");
  }
  // Writes the variant's files into a folder that holds nothing else.
  static Expected<void> write_source(const fs::path& folder, std::string_view source,
                                     const std::string& checks) {
    const SourceFiles files = split_source(source);
    std::error_code error;
    fs::create_directories(folder, error);
    if (auto written = write_atomically(folder / "variant.cpp", std::string(files.main) + checks); !written)
      return written;
    for (const HeaderFile& header : files.headers)
      if (header_name_trouble(header.name).empty())  // lint has already checked the name
        if (auto written = write_atomically(folder / header.name, header.text); !written) return written;
    return {};
  }

  // Allows reading the compiler, its headers and libraries, and the variant's own folder.
  Expected<FileAccessRules> walls_around(const fs::path& folder) const {
    return FileAccessRules::make({"/usr", "/bin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache",
                                  folder, fs::canonical(program).parent_path().parent_path()},
                                 {folder / "out", "/dev/null"});
  }

  // `more`: further options and files, behind the others.
  tl::expected<void, CompileFailure> run_compiler(const fs::path& folder,
                                                  const std::vector<std::string>& macros, double deadline_s,
                                                  std::string& log,
                                                  const std::vector<std::string>& more = {}) {
    ProcessOptions process;
    const fs::path out = folder / "out";
    const auto walls = sandbox.usable() ? no_walls() : walls_around(folder);
    // Relative to the working folder: another user may be unable to walk the path of the cache.
    const fs::path out_inside = sandbox.usable() ? "/out" : "../out";
    if (sandbox.usable()) {
      std::vector<SandboxMount> mounts{{folder / "src", "/src"}, {out, "/out", true}};
      // A compiler outside /usr (such as a conda environment) needs its whole tree mounted.
      if (const auto real = fs::canonical(program); !real.string().starts_with("/usr/"))
        mounts.push_back({real.parent_path().parent_path(), real.parent_path().parent_path()});
      process.command =
          sandbox.command(mounts, {"--dev", "/dev", "--tmpfs", "/tmp", "--setenv", "PATH", "/usr/bin:/bin",
                                   "--setenv", "LC_ALL", "C.UTF-8", "--chdir", "/src"});
    } else {
      if (walls) process.walls = &*walls;
      process.privileges = sandbox.privileges_outside({program}, folder);
      process.folder = folder / "src";
      process.environment = std::vector<std::string>{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8",
                                                     "TMPDIR=" + out_inside.string()};
    }
    process.command.push_back(program);
    process.command.insert(process.command.end(), fixed_flags().begin(), fixed_flags().end());
    for (const auto& macro : macros) process.command.push_back("-D" + macro);
    process.command.insert(process.command.end(),
                           {"variant.cpp", "-o", (out_inside / "variant.so").string(), "-lm"});
    process.command.insert(process.command.end(), more.begin(), more.end());
    process.pipe_input = process.pipe_output = false;
    process.captured_bytes = 32 << 10;
    process.expendable = true;
    process.limits = {{RLIMIT_CORE, 0},
                      {RLIMIT_AS, options.memory_bytes},
                      {RLIMIT_FSIZE, most_output_bytes},
                      {RLIMIT_CPU, static_cast<std::size_t>(deadline_s) + 5}};
    const std::uint64_t memory_kills = out_of_memory_kills();
    auto child = ChildProcess::spawn(process);
    if (!child) throw MissingError("cannot start the compiler: " + child.error().message);
    ++compilations;
    const bool in_time = child->wait_or_kill(deadline_in(deadline_s));
    log = child->captured();
    if (!in_time)
      return fail(
          Stage::compile, fmt::format("the compiler did not finish within {:g} s", deadline_s),
          "The compiler was killed. Reduce template instantiations, loop unrolling or included headers.\n" +
              log,
          true);
    const ExitStatus status = *child->poll();
    if (status.success()) return {};
    if (out_of_memory_kills() > memory_kills)
      return tl::make_unexpected(
          CompileFailure{.reason = "the compiler was killed for lack of memory",
                         .diagnostics = fmt::format("The compiler {}, by the system at {}.\n{}",
                                                    status.describe(), memory_limit_in_words(), log),
                         .host_fault = HostFault::out_of_memory});
    if (const std::string why = why_unwritable(out); !why.empty()) return cannot_write(options.cache, why);
    if (sent_from_outside(status.signal) || sent_from_outside(status.code - 128) || a_part_was_killed(log))
      return tl::make_unexpected(CompileFailure{.reason = "the compiler was killed from outside",
                                                .diagnostics = log,
                                                .host_fault = HostFault::killed});
    if (status.signal != 0 || status.code > 128 ||
        log.find("File size limit exceeded") != std::string::npos ||
        log.find("memory exhausted") != std::string::npos || log.find("out of memory") != std::string::npos)
      return fail(Stage::compile, "the compiler exceeded its limits",
                  fmt::format("The compiler {} ({} of memory, {} of output allowed).\n{}", status.describe(),
                              limit_in_words(RLIMIT_AS, options.memory_bytes),
                              limit_in_words(RLIMIT_FSIZE, most_output_bytes), log));
    return fail(Stage::compile, first_error(log), log);
  }

  std::string isolation() const {
    if (sandbox.usable())
      return "compilers run in bubblewrap: no network, no home, read-only /usr, bounded memory, output and "
             "time";
    if (const auto walls = walls_around("/usr"); walls)
      return fmt::format(
          "compilers run {} with bounded memory, output and time, and may read nothing but /usr (Landlock); "
          "no bubblewrap: {}",
          sandbox.outside_in_words(), sandbox.obstacle());
    else
      return fmt::format(
          "compilers run with bounded memory, output and time, but can read this user's files ({}; {})",
          sandbox.obstacle(), walls.error().message);
  }

  std::string weakness() const {
    std::string words = clock_instructions_fault()
                            ? ""
                            : "this machine, probably a virtual one, accepts that rdtsc "
                              "shall fault (prctl PR_SET_TSC) and lets "
                              "it run: kernels with such an instruction are refused, "
                              "but one hidden inside another is not found";
    if (sandbox.usable()) return words;
    if (!words.empty()) words += ". ";
    words += fmt::format(
        "kernels and their compilers run in a weaker sandbox, {} and outside bubblewrap ({}); to have both, "
        "allow user namespaces for this process",
        sandbox.outside_in_words(), sandbox.obstacle());
    if (!walls_around("/usr"))
      words +=
          ". Without Landlock a kernel's source can also include any file that this user can read, and "
          "messages can reveal its contents";
    return words;
  }
};

CpuCompiler::CpuCompiler(CpuCompilerOptions options) : state_(std::make_unique<State>(std::move(options))) {
  State& s = *state_;
  s.options.cache = fs::absolute(s.options.cache);
  s.cache = BinaryCache(s.options.cache / "cpu", ".so");
  remove_leftovers(s.options.cache / "tmp");
  s.program = find_compiler(s.options.program);
  const std::string version = printed_by({s.program, "--version"});
  if (version.empty()) throw MissingError(fmt::format("{} --version failed", s.program));
  // Records what -march=native means here: machines of several kinds may share one cache.
  const std::string machine =
      printed_by({s.program, "-march=native", "-dM", "-E", "-x", "c++", "/dev/null"}) +
      printed_by({s.program, "-march=native", "-###", "-E", "-x", "c++", "/dev/null"});
  s.identity = fmt::format("{} {} machine={}", version.substr(0, version.find('\n')),
                           fmt::join(fixed_flags(), " "), sha256_hex(machine).substr(0, 16));
}

CpuCompiler::~CpuCompiler() = default;
CompilerInfo CpuCompiler::info() const {
  return {state_->identity, state_->isolation(), state_->weakness()};
}
std::size_t CpuCompiler::compilations() const {
  return state_->compilations;
}

tl::expected<Binary, CompileFailure> CpuCompiler::compile(const Variant& variant,
                                                          const std::vector<std::string>& macros,
                                                          double deadline_s) {
  State& s = *state_;
  std::vector<std::string> kernels;
  for (const auto& launch : variant.manifest.launch) kernels.push_back(launch.kernel);
  const std::string checks = argument_checks(variant.manifest);
  const std::string key =
      sha256_hex(fmt::format("{}\nscreen {}{}\n{}\n{}\n{}\n{}", s.identity, screen_version,
                             clock_instructions_fault() ? "" : " clocks", fmt::join(macros, "\n"),
                             fmt::join(kernels, " "), checks, variant.source));
  if (auto cached = s.cache.find(key)) return *cached;
  if (const std::string line = s.options.own_code ? "" : other_instruction_sets(variant.source);
      !line.empty())
    return fail(
        Stage::compile, "other code for other instruction sets, which no check compiles: " + line,
        "Where the kernel is exported to, the other branch may be compiled, unchecked. Write the code of one "
        "branch without the condition: plain loops are compiled for the machine, and intrinsics that it "
        "lacks are an error there.\n");

  const CompileFolder folder(s.options.cache / "tmp");
  Binary binary;
  binary.macros = macros;
  // The second time without the checks, if the compiler cannot make them.
  for (const std::string& appended : {checks, std::string()}) {
    if (const auto written = State::write_source(folder.path() / "src", variant.source, appended); !written)
      return cannot_write(s.options.cache, written.error().message);
    const auto done = s.run_compiler(folder.path(), macros, deadline_s, binary.log);
    if (done) break;
    if (auto mismatched = mismatched_arguments(variant.manifest, binary.log); mismatched && !appended.empty())
      return tl::make_unexpected(std::move(*mismatched));
    if (appended.empty() || !speaks_of_argument_checks(binary.log)) return tl::make_unexpected(done.error());
  }

  const fs::path object = folder.path() / "out" / "variant.so";
  const auto bytes = read_file(object);
  if (!bytes)
    if (const std::string why = why_unwritable(folder.out()); !why.empty())
      return cannot_write(s.options.cache, why);
  if (!bytes) return fail(Stage::compile, "the compiler wrote no shared object", binary.log);
  const auto image = read_elf(std::as_bytes(std::span(*bytes)));
  if (!image)
    return fail(Stage::screen, "the shared object is malformed: " + image.error().message,
                "Its tables are the linker's: remove directives for sections of the linker from inline "
                "assembly.\n" +
                    binary.log);
  if (const auto verdict = screen(*image, kernels); !verdict.passed())
    return fail(Stage::screen, verdict.reason, verdict.diagnostics);
  if (!clock_instructions_fault())
    if (const std::string clock = clock_instruction_in(*image, object); !clock.empty())
      return fail(
          Stage::screen, "the kernel reads a clock: " + clock,
          "No kernel needs the time. On other machines the instruction faults; this one cannot forbid it.");
  binary.machine_code = machine_code_hash(*image, kernels);
  double text = 0.0, constants = 0.0;
  for (const auto& section : image->sections) {
    if (section.name.starts_with(".text")) text += static_cast<double>(section.bytes);
    if (section.name.starts_with(".rodata")) constants += static_cast<double>(section.bytes);
  }
  binary.resources.values = {{"text_bytes", text},
                             {"constant_bytes", constants},
                             {"stack_bytes", stack_bytes(object.parent_path())}};
  auto stored = s.cache.store(key, object, std::move(binary));
  if (!stored) return cannot_write(s.options.cache, stored.error().message);
  return *stored;
}

Expected<Binary> CpuCompiler::compile_check_build(const Variant& variant,
                                                  const std::vector<std::string>& macros, double deadline_s) {
  State& s = *state_;
  const auto forms = check_build_flags(variant.source);
  const std::string key =
      sha256_hex(fmt::format("{}\ncheck build {}\n{}\n{}\n{}", s.identity, fmt::join(forms.front(), " "),
                             check_build_source(), fmt::join(macros, "\n"), variant.source));
  if (auto cached = s.cache.find(key)) return *cached;
  Binary binary;
  binary.macros = macros;
  std::string trouble;
  for (const std::vector<std::string>& form : forms) {
    const CompileFolder folder(s.options.cache / "tmp");
    auto written = State::write_source(folder.path() / "src", variant.source, {});
    if (written) written = write_atomically(folder.path() / "src" / check_build_file, check_build_source());
    if (!written) return tl::make_unexpected(written.error());
    std::vector<std::string> more{std::string(check_build_file)};
    more.insert(more.end(), form.begin(), form.end());
    if (auto done = s.run_compiler(folder.path(), macros, deadline_s, binary.log, more); !done) {
      trouble = done.error().reason;
      continue;
    }
    const fs::path object = folder.path() / "out" / "variant.so";
    const auto listing = disassembled(object, {"-l", "--inlines"});
    if (!listing) return tl::make_unexpected(listing.error());
    std::vector<std::string> files{"variant.cpp"};
    for (const HeaderFile& header : split_source(variant.source).headers) files.emplace_back(header.name);
    binary.blocks = blocks_in(*listing, files);
    if (binary.blocks.empty()) return failure("check build", "no block of it has a known line");
    for (const CodeBlock& block : binary.blocks)
      binary.counters = std::max(binary.counters, block.counter + 1);
    binary.counters += check_build_table;
    return s.cache.store(key, object, std::move(binary));
  }
  return failure("check build", "it does not compile: " + trouble);
}

Expected<Binary> CpuCompiler::compile_overflow_build(const Variant& variant,
                                                     const std::vector<std::string>& macros,
                                                     double deadline_s) {
  State& s = *state_;
  const std::vector<std::string> flags{"-fsanitize=signed-integer-overflow",
                                       "-fsanitize-undefined-trap-on-error", "-w"};
  const std::string key =
      sha256_hex(fmt::format("{}\noverflow build {}\n{}\n{}", s.identity, fmt::join(flags, " "),
                             fmt::join(macros, "\n"), variant.source));
  if (auto cached = s.cache.find(key)) return *cached;
  Binary binary;
  binary.macros = macros;
  const CompileFolder folder(s.options.cache / "tmp");
  if (auto written = State::write_source(folder.path() / "src", variant.source, {}); !written)
    return tl::make_unexpected(written.error());
  if (auto done = s.run_compiler(folder.path(), macros, deadline_s, binary.log, flags); !done)
    return failure("overflow build", "it does not compile: " + done.error().reason);
  return s.cache.store(key, folder.path() / "out" / "variant.so", std::move(binary));
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/opencl_c/compiler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "evaluators/devices/opencl/code/cell_layout.hpp"
#include "evaluators/devices/opencl/code/opencl_program.hpp"
#include "evaluators/devices/opencl/code/screen.hpp"
#include "evaluators/languages/binary_cache.hpp"
#include "evaluators/languages/opencl_c/check_build.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/memory_limit.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

// Part of the cache key: increase it whenever the screen rejects more.
constexpr int kScreenVersion = 3;
constexpr std::size_t kMemoryBytes = std::size_t{8} << 30;  // of addresses: LLVM maps much and uses little

tl::unexpected<CompileFailure> fail(Stage stage, std::string reason, std::string diagnostics,
                                    bool late = false) {
  return tl::make_unexpected(CompileFailure{stage, std::move(reason), std::move(diagnostics), late});
}
tl::unexpected<CompileFailure> fail(HostFault fault, std::string diagnostics) {
  return tl::make_unexpected(CompileFailure{
      .reason = std::string(words_of(fault)), .diagnostics = std::move(diagnostics), .host_fault = fault});
}

// Messages name the driver's own copy of the source; "/work/tempfile_ab12.cl:3:5" becomes "variant.cl:3:5".
std::string with_own_names(std::string_view log) {
  std::string text;
  for (const std::string_view line : lines_of(log)) {
    std::string words(line);
    for (std::size_t end = words.find(".cl:"); end != words.npos; end = words.find(".cl:", end + 4)) {
      std::size_t begin = words.find_last_of(" \t", end);
      begin = begin == words.npos ? 0 : begin + 1;
      words.replace(begin, end - begin, "variant");
      end = begin + std::string_view("variant").size();
    }
    text += words + "\n";
  }
  return text;
}

// The program of this compile as PoCL keeps it, in a folder below its cache; empty: another driver.
std::string kept_bitcode(const fs::path& place) {
  std::error_code none;
  for (fs::recursive_directory_iterator at(place, none), end; !none && at != end; at.increment(none))
    if (at->path().filename() == "program.bc")
      return read_unlinked_file(at->path(), most_output_bytes).value_or("");
  return {};
}

std::string first_error(const std::string& messages) {
  std::string first;
  for (const std::string_view line : lines_of(messages)) {
    if (line.find("error") != line.npos || line.find("annot find symbol") != line.npos)
      return std::string(line);
    if (first.empty()) first = line;
  }
  return first.empty() ? "the compiler gave no message" : first;
}

using nlohmann::json;

bool is_pointer(const Manifest& manifest, const Task& task, const ArgumentSpec& argument) {
  return task.tensor(argument.text) != nullptr ||
         std::ranges::find(manifest.workspace, argument.text, &WorkspaceSpec::name) !=
             manifest.workspace.end();
}

Dtype type_of(const Task& task, const ArgumentSpec& argument) {
  if (argument.type) return *argument.type;
  const auto parameter = std::ranges::find(task.parameters, argument.text, &Parameter::name);
  return parameter == task.parameters.end() ? Dtype::i32 : parameter->type;
}

// "unsigned int" and "uint" are one type; drivers report either.
std::string plain(std::string type) {
  for (const auto& [longer, shorter] : {std::pair("unsigned char", "uchar"),
                                        {"unsigned short", "ushort"},
                                        {"unsigned int", "uint"},
                                        {"unsigned long", "ulong"}})
    if (type == longer) return shorter;
  return type;
}

std::string trouble_of(const Manifest& manifest, const Task& task, const KernelLaunch& launch,
                       const json& kernels) {
  if (!kernels.contains(launch.kernel))
    return fmt::format("the source defines no kernel '{}'", launch.kernel);
  const json& parameters = kernels.at(launch.kernel);
  const bool has_local = !launch.values("local_bytes").empty();
  if (parameters.size() != launch.args.size() + (has_local ? 1 : 0))
    return fmt::format("kernel '{}' has {} parameters, but the manifest gives {} arguments{}", launch.kernel,
                       parameters.size(), launch.args.size(), has_local ? " and local_bytes" : "");
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto space = parameters[i].at("space").get<std::string>();
    const std::string type = plain(parameters[i].at("type").get<std::string>());
    if (space.empty()) continue;  // the driver does not tell
    const auto wants = [&](std::string_view what) {
      return fmt::format("parameter {} of kernel '{}' is {} {}, but its argument is {}", i + 1, launch.kernel,
                         space == "private" ? "of the type" : "a __" + space, type, what);
    };
    if (i == launch.args.size()) return space == "local" ? "" : wants("local_bytes, a __local pointer");
    const ArgumentSpec& argument = launch.args[i];
    if (is_pointer(manifest, task, argument)) {
      if (space != "global" && space != "constant")
        return wants(fmt::format("'{}', a __global pointer", argument.text));
      continue;
    }
    const std::string_view wanted = opencl_type(type_of(task, argument));
    if (space != "private" || (!type.empty() && type != wanted))
      return wants(fmt::format("'{}' of the type {}", argument.text, wanted));
  }
  return {};
}

}  // namespace

std::string_view opencl_flags() {
  return "-cl-std=CL1.2 -cl-kernel-arg-info";
}

struct OpenclCompiler::State {
  State(OpenclCompilerOptions o, const Task& t)
      : folder(fs::absolute(o.cache)), task(t), cache(folder, ".clbin"), program(o.program) {}

  fs::path folder;
  Task task;
  BinaryCache cache;
  OpenclProgram program;

  std::string identity() const { return fmt::format("{} {}", program.device().identity(), opencl_flags()); }

  Expected<void> write_source(const fs::path& place, std::string_view source) const {
    const SourceFiles files = split_source(source);
    if (auto written = write_atomically(place / "variant.cl", std::string(files.main)); !written)
      return written;
    for (const HeaderFile& header : files.headers)
      if (header_name_trouble(header.name).empty())  // lint has already checked the name
        if (auto written = write_atomically(place / header.name, header.text); !written) return written;
    return {};
  }

  // The compiler's messages; its files lie in `place` then.
  tl::expected<std::string, CompileFailure> run_compiler(const fs::path& place,
                                                         const std::vector<std::string>& macros,
                                                         double deadline_s,
                                                         std::string_view more = "") const {
    const std::string inside = program.inside(place);
    std::string options = fmt::format("{}{} -I {}", opencl_flags(), more, inside);
    for (const std::string& macro : macros) options += " -D " + macro;
    OpenclProgram::Start start = program.start({"compile", inside + "/variant.cl", inside, options}, place);
    start.process.limits.emplace_back(RLIMIT_CPU, static_cast<std::size_t>(deadline_s) + 5);
    // Drivers of cards reserve more addresses than they use memory: with a limit there would be no card.
    if (program.device().processor) start.process.limits.emplace_back(RLIMIT_AS, kMemoryBytes);
    const std::uint64_t memory_kills = out_of_memory_kills();
    auto child = start.spawn();
    if (!child)
      return fail(HostFault::worker_lost, "cannot start the OpenCL compiler: " + child.error().message);
    if (!child->wait_or_kill(deadline_in(deadline_s)))
      return fail(Stage::compile, fmt::format("the OpenCL compiler did not finish within {:g} s", deadline_s),
                  "The compiler was killed. Reduce loop unrolling and the size of private arrays.\n", true);
    const ExitStatus status = *child->poll();
    const std::string log = with_own_names(read_file(place / "variant.log").value_or(""));
    if (status.success()) return log;
    if (status.code == 3) throw MissingError(child->captured());
    if (out_of_memory_kills() > memory_kills)
      return fail(HostFault::out_of_memory, fmt::format("The OpenCL compiler {}, by the system at {}.\n",
                                                        status.describe(), memory_limit_in_words()));
    if (const std::string why = why_unwritable(place); !why.empty())
      return fail(HostFault::cache_unwritable, why);
    if (sent_from_outside(status.signal) || sent_from_outside(status.code - 128))
      return fail(HostFault::killed, "The OpenCL compiler was killed from outside.\n");
    if (status.code == 1) return fail(Stage::compile, first_error(log), log);
    return fail(
        Stage::compile, "the OpenCL compiler failed on this source",
        fmt::format("It {} ({}{} of output allowed).\n{}{}", status.describe(),
                    program.device().processor ? limit_in_words(RLIMIT_AS, kMemoryBytes) + " of memory, "
                                               : std::string(),
                    limit_in_words(RLIMIT_FSIZE, most_output_bytes), child->captured(), log));
  }

  // Why a variant's own inline assembly is refused; empty: it has none that is seen. Words that macros put
  // together are seen where the driver keeps LLVM's form of the program and its clang is installed.
  Expected<std::string> assembly_in(const fs::path& place, const Variant& variant,
                                    const std::vector<std::string>& macros, double deadline_s) const {
    const SourceFiles files = split_source(variant.source);
    std::string found = assembly_in_source("variant.cl", files.main);
    for (const HeaderFile& header : files.headers)
      if (found.empty()) found = assembly_in_source(header.name, header.text);
    for (const std::string& macro : macros)
      if (found.empty()) found = assembly_in_source("the macro " + macro, macro);
    if (!found.empty()) return found;
    const std::string kept = kept_bitcode(place), version = clang_of(kept);
    const std::string clang = "/usr/bin/clang-" + version;
    if (version.empty() || find_program(clang).empty()) return found;
    if (const auto written = write_atomically(place / "own.bc", kept); !written)
      return tl::make_unexpected(written.error());
    const auto text = translated(clang, place, "own.bc", "own.ll", deadline_s);
    if (!text) return tl::make_unexpected(text.error());
    if (has_assembly(*text)) found = "a macro of variant.cl makes inline assembly";
    return found;
  }

  // LLVM's bitcode as text, or text as bitcode, by the driver's own clang.
  Expected<std::string> translated(const std::string& clang, const fs::path& place, const std::string& from,
                                   const std::string& to, double deadline_s) const {
    const std::string inside = program.inside(place);
    OpenclProgram::Start start = program.start_tool(
        {clang, "-x", "ir", "-Xclang", "-disable-llvm-passes", "-w", to.ends_with(".ll") ? "-S" : "-c",
         "-emit-llvm", inside + "/" + from, "-o", inside + "/" + to},
        place);
    start.process.limits.insert(
        start.process.limits.end(),
        {{RLIMIT_AS, kMemoryBytes}, {RLIMIT_CPU, static_cast<std::size_t>(deadline_s) + 5}});
    auto child = start.spawn();
    if (!child)
      return failure("check build", fmt::format("{} cannot be started: {}", clang, child.error().message));
    if (!child->wait_or_kill(deadline_in(deadline_s)) || !child->poll()->success())
      return failure("check build",
                     fmt::format("{} does not translate the driver's program: {}", clang, child->captured()));
    auto text = read_unlinked_file(place / to, most_output_bytes);
    if (!text) return failure("check build", clang + " wrote no file");
    return std::move(*text);
  }
};

OpenclCompiler::OpenclCompiler(OpenclCompilerOptions options, const Task& task)
    : state_(std::make_unique<State>(std::move(options), task)) {
  remove_leftovers(state_->folder / "tmp");
}
OpenclCompiler::~OpenclCompiler() = default;

CompilerInfo OpenclCompiler::info() const {
  return {state_->identity(), state_->program.isolation(), state_->program.weakness()};
}

tl::expected<Binary, CompileFailure> OpenclCompiler::compile(const Variant& variant,
                                                             const std::vector<std::string>& macros,
                                                             double deadline_s) {
  State& s = *state_;
  const std::string key = sha256_hex(fmt::format("{}\nscreen {}\n{}\n{}", s.identity(), kScreenVersion,
                                                 fmt::join(macros, "\n"), variant.source));
  if (auto cached = s.cache.find(key)) return *cached;
  const CompileFolder folder(s.folder / "tmp");
  const fs::path place = folder.out();
  if (const auto written = s.write_source(place, variant.source); !written)
    return fail(HostFault::cache_unwritable, written.error().message);
  auto log = s.run_compiler(place, macros, deadline_s);
  if (!log) return tl::make_unexpected(log.error());
  const auto bytes = read_unlinked_file(place / "variant.bin", most_output_bytes);
  const auto said = read_unlinked_file(place / "variant.json", most_output_bytes);
  if (!bytes || !said) return fail(Stage::compile, "the OpenCL compiler wrote no program", *log);
  if (const std::string trouble = parameter_trouble(variant.manifest, s.task, *said); !trouble.empty())
    return fail(
        Stage::compile, trouble,
        trouble +
            "\n`args` lists one argument for each parameter, in order: tensors and workspaces are __global "
            "pointers, dimensions are int, and {value: ..., type: ...} gives another type; `local_bytes` "
            "adds one __local pointer at the end. (A macro replaces a parameter of the same name.)\n");
  const OpenclCode code = examine_opencl_code(std::as_bytes(std::span(*bytes)), place);
  if (!code.verdict.passed()) return fail(Stage::screen, code.verdict.reason, code.verdict.diagnostics);
  const auto assembly = s.assembly_in(place, variant, macros, deadline_s);
  if (!assembly)
    return fail(Stage::screen, "the program cannot be examined for inline assembly", assembly.error().text());
  if (!assembly->empty())
    return fail(Stage::screen, *assembly,
                "Remove it: OpenCL C has no inline assembly, and what it does cannot be examined. OpenCL's "
                "functions and vector types reach the same instructions.\n");
  Binary binary;
  binary.macros = macros;
  binary.machine_code = code.hash;
  binary.log = *log;
  if (code.text_bytes > 0) binary.resources.values = {{"text_bytes", code.text_bytes}};
  auto stored = s.cache.store(key, place / "variant.bin", std::move(binary));
  if (!stored) return fail(HostFault::cache_unwritable, stored.error().message);
  return *stored;
}

Expected<Binary> OpenclCompiler::compile_check_build(const Variant& variant,
                                                     const std::vector<std::string>& macros,
                                                     double deadline_s) {
  const State& s = *state_;
  constexpr int kForm = 1;  // increase it whenever the counters change
  const std::string key = sha256_hex(fmt::format("{}\ncheck build {}\n{}\n{}", s.identity(), kForm,
                                                 fmt::join(macros, "\n"), variant.source));
  if (auto cached = s.cache.find(key)) return *cached;
  const CompileFolder folder(s.folder / "tmp");
  const fs::path place = folder.out();
  if (const auto written = s.write_source(place, variant.source); !written)
    return tl::make_unexpected(written.error());
  if (const auto log = s.run_compiler(place, macros, deadline_s, " -g -cl-opt-disable"); !log)
    return failure("check build", "it does not compile: " + log.error().reason);
  const std::string kept = kept_bitcode(place);
  const std::string version = clang_of(kept);
  if (version.empty())
    return failure(
        "check build",
        fmt::format("blocks are counted where PoCL is the driver, which keeps LLVM's bitcode; {} does not",
                    s.program.device().platform));
  const std::string clang = "/usr/bin/clang-" + version;
  if (find_program(clang).empty())
    return failure("check build", fmt::format("{} is missing, with which blocks are counted: apt-get install "
                                              "clang-{}",
                                              clang, version));
  if (const auto written = write_atomically(place / "own.bc", kept); !written)
    return tl::make_unexpected(written.error());
  const auto text = s.translated(clang, place, "own.bc", "own.ll", deadline_s);
  if (!text) return tl::make_unexpected(text.error());
  std::vector<std::string> headers;
  for (const HeaderFile& header : split_source(variant.source).headers) headers.emplace_back(header.name);
  CountedIr counted = with_counters(*text, "variant.cl", headers, opencl::counters_address);
  if (counted.blocks.empty()) return failure("check build", "no block of it has a known line");
  if (counted.counters > opencl::most_counters) return failure("check build", "it has too many blocks");
  if (const auto written = write_atomically(place / "counted.ll", counted.text); !written)
    return tl::make_unexpected(written.error());
  const auto bitcode = s.translated(clang, place, "counted.ll", "counted.bc", deadline_s);
  if (!bitcode) return tl::make_unexpected(bitcode.error());
  const auto own = read_unlinked_file(place / "variant.bin", most_output_bytes);
  const auto program = own ? with_bitcode(*own, kept, *bitcode)
                           : failure("check build", "the OpenCL compiler wrote no program");
  if (!program) return tl::make_unexpected(program.error());
  if (const auto written = write_atomically(place / "counted.bin", *program); !written)
    return tl::make_unexpected(written.error());
  Binary binary;
  binary.macros = macros;
  binary.machine_code = sha256_hex(*program);
  binary.blocks = std::move(counted.blocks);
  binary.counters = counted.counters;
  return s.cache.store(key, place / "counted.bin", std::move(binary));
}

std::string_view opencl_type(Dtype type) {
  constexpr std::array<std::string_view, dtype_count> types{"double", "float", "half",  "ushort", "long",
                                                            "int",    "short", "char",  "ulong",  "uint",
                                                            "ushort", "uchar", "uchar", "uchar"};
  return types.at(static_cast<std::size_t>(type));
}

std::string parameter_trouble(const Manifest& manifest, const Task& task, const std::string& reported) {
  try {
    const json kernels = json::parse(reported);
    for (const KernelLaunch& launch : manifest.launch)
      if (std::string trouble = trouble_of(manifest, task, launch, kernels); !trouble.empty()) return trouble;
    return {};
  } catch (const json::exception& error) {
    return fmt::format("the OpenCL compiler's report is malformed: {}", error.what());
  }
}

}  // namespace cultivar

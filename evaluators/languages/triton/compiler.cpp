// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/triton/compiler.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>

#include "embedded/triton_python.hpp"
#include "evaluators/devices/cuda/code/cubin.hpp"
#include "evaluators/devices/cuda/code/diagnostics.hpp"
#include "evaluators/devices/cuda/code/ptx_coverage.hpp"
#include "evaluators/devices/cuda/code/ptx_text.hpp"
#include "evaluators/devices/cuda/code/screen.hpp"
#include "evaluators/languages/binary_cache.hpp"
#include "evaluators/languages/triton/order.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/memory_limit.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/system/sandbox.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kKeptLogBytes = 32 << 10;
// Part of the cache key: increase it whenever the screen rejects more or more is told of a binary.
constexpr int kScreenVersion = 1;
constexpr std::int64_t kMostSharedBytes = 232448;  // of a block, on any card

tl::unexpected<CompileFailure> fail(Stage stage, std::string reason, std::string diagnostics,
                                    bool late = false) {
  return tl::make_unexpected(CompileFailure{stage, std::move(reason), std::move(diagnostics), late});
}
tl::unexpected<CompileFailure> fail(HostFault fault, std::string diagnostics) {
  return tl::make_unexpected(CompileFailure{
      .reason = std::string(words_of(fault)), .diagnostics = std::move(diagnostics), .host_fault = fault});
}

PythonFiles python_files() {
  PythonFiles files;
  for (const auto& [name, text] : triton_python::all)
    files.emplace_back("cultivar_triton/" + std::string(name), text);
  return files;
}

// 90 for "sm_90a".
int number_of(const std::string& architecture) {
  return architecture.starts_with("sm_") ? std::atoi(architecture.c_str() + 3) : 0;
}

// The assembler that comes with this Triton.
Expected<fs::path> ptxas_of(const Interpreter& python, int architecture) {
  const fs::path folder = fs::path(python.triton_at) / "backends/nvidia/bin";
  std::vector<fs::path> places{folder / "ptxas", "/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas"};
  if (architecture >= 100) places.insert(places.begin(), folder / "ptxas-blackwell");
  std::error_code ignored;
  for (const fs::path& place : places)
    if (fs::is_regular_file(place, ignored)) return fs::canonical(place, ignored);
  return failure(ErrorKind::missing, "find ptxas",
                 fmt::format("Triton {} has no ptxas in {} (install the wheel of PyPI)", python.triton,
                             folder.string()));
}

struct TritonOutput {
  std::string ptx;
  LaunchChoices chosen;
};

}  // namespace

struct TritonCompiler::State {
  State(TritonCompilerOptions o, const Task& t)
      : options(std::move(o)),
        task(t),
        cache(fs::absolute(options.cache) / "triton", ".cubin"),
        counted(fs::absolute(options.cache) / "triton-check", ".ptx") {
    options.cache = fs::absolute(options.cache) / "triton";
  }

  TritonCompilerOptions options;
  Task task;
  BinaryCache cache, counted;
  Interpreter python;
  fs::path sources, ptxas;
  std::string identity;

  // Python looks for modules in its working folder: one in which nobody else has put any.
  ProcessOptions limited(double deadline_s, const CompileFolder& folder) const {
    ProcessOptions process;
    process.folder = folder.out();
    process.pipe_input = process.pipe_output = false;
    process.captured_bytes = kKeptLogBytes;
    process.limits = {{RLIMIT_AS, options.memory_bytes},
                      {RLIMIT_FSIZE, most_output_bytes},
                      {RLIMIT_CPU, static_cast<std::size_t>(deadline_s) + 5}};
    return process;
  }

  // Waits for one of the two processes. The words it left, if it ended by itself with 0 or 1.
  tl::expected<std::string, CompileFailure> finish(Expected<ChildProcess> child, const std::string& who,
                                                   std::uint64_t memory_kills, Clock::time_point deadline,
                                                   double deadline_s, const fs::path& folder) const {
    if (!child)
      return fail(HostFault::worker_lost, fmt::format("cannot start {}: {}", who, child.error().message));
    if (!child->wait_or_kill(deadline))
      return fail(Stage::compile, fmt::format("{} did not finish within {:g} s", who, deadline_s),
                  "The compiler was killed. Reduce tl.static_range, the sizes of blocks and num_stages; look "
                  "for functions that call themselves.",
                  true);
    const ExitStatus status = *child->poll();
    const std::string said = child->captured();
    if (status.code == 3) throw MissingError(plain_text(said));
    if (status.signal == 0 && (status.code == 0 || status.code == 1)) return said;
    if (out_of_memory_kills() > memory_kills)
      return fail(HostFault::out_of_memory, fmt::format("{} {}, by the system at {}.\n{}", who,
                                                        status.describe(), memory_limit_in_words(), said));
    if (const std::string why = why_unwritable(folder); !why.empty())
      return fail(HostFault::cache_unwritable, why);
    if (sent_from_outside(status.signal) || sent_from_outside(status.code - 128))
      return fail(HostFault::killed, who + " was killed from outside.\n" + said);
    return fail(Stage::compile, who + " crashed on this source",
                fmt::format("{} {} (limits: {} of memory, {} of output).\n{}", who, status.describe(),
                            limit_in_words(RLIMIT_AS, options.memory_bytes),
                            limit_in_words(RLIMIT_FSIZE, most_output_bytes), said));
  }

  // The source as PTX. Whatever the process wrote is foreign: it has handled the source.
  tl::expected<TritonOutput, CompileFailure> run_triton(const CompileFolder& folder, const Variant& variant,
                                                        const std::vector<std::string>& macros,
                                                        double deadline_s) const {
    const auto order = triton_order(variant, task, macros, number_of(options.architecture));
    if (!order) return tl::make_unexpected(order.error());
    json whole = json::parse(*order);
    const fs::path source = folder.path() / "variant.py", question = folder.path() / "order.json";
    whole["source"] = source.string();
    whole["folder"] = folder.out().string();
    for (const auto& [file, text] : {std::pair(source, variant.source), {question, whole.dump()}})
      if (const auto written = write_atomically(file, text); !written)
        return fail(HostFault::cache_unwritable, written.error().message);
    const std::uint64_t kills = out_of_memory_kills();
    const auto deadline = deadline_in(deadline_s);
    auto said = finish(start_python(python,
                                    {.module = "cultivar_triton.build",
                                     .arguments = {question.string()},
                                     .sources = sources,
                                     .readable = {source, question},
                                     .writable = {folder.out()}},
                                    limited(deadline_s, folder)),
                       "Triton", kills, deadline, deadline_s, folder.out());
    if (!said) return tl::make_unexpected(said.error());
    const auto text = read_unlinked_file(folder.out() / "result.json", most_output_bytes);
    const json result = text ? json::parse(*text, nullptr, false) : json();
    try {
      if (result.is_object() && result.contains("refused")) return refused(result.at("refused"), *said);
      return taken(result, variant, folder);
    } catch (const json::exception&) {
      return fail(Stage::compile, "Triton failed on this source", cut(plain_text(*said), kKeptLogBytes));
    }
  }

  static tl::unexpected<CompileFailure> refused(const json& why, const std::string& said) {
    const int line = why.at("line").get<int>();
    std::string reason = plain_line(why.at("reason").get<std::string>(), 400);
    if (line > 0) reason = fmt::format("line {}: {}", line, reason);
    std::string words = plain_text(why.at("remedy").get<std::string>());
    if (!said.empty()) words += "\n" + plain_text(said);
    return fail(why.at("stage") == "screen" ? Stage::screen : Stage::compile, std::move(reason),
                cut(words, kKeptLogBytes));
  }

  tl::expected<TritonOutput, CompileFailure> taken(const json& result, const Variant& variant,
                                                   const CompileFolder& folder) const {
    TritonOutput output;
    std::vector<TritonKernelText> texts;
    for (const KernelLaunch& launch : variant.manifest.launch) {
      if (output.chosen.contains(launch.kernel)) continue;
      const json& facts = result.at("kernels").at(launch.kernel);
      const auto shared = facts.at("shared").get<std::int64_t>();
      if (shared < 0 || shared > kMostSharedBytes)
        return fail(Stage::screen,
                    fmt::format("kernel '{}' needs {} bytes of shared memory; the limit is {}", launch.kernel,
                                shared, kMostSharedBytes),
                    "Use smaller blocks, or fewer num_stages.");
      output.chosen[launch.kernel] = {};
      if (shared > 0) output.chosen[launch.kernel]["shared"] = {shared};
      auto ptx = read_unlinked_file(folder.out() / (launch.kernel + ".ptx"), most_output_bytes);
      if (!ptx) return fail(Stage::compile, "Triton wrote no PTX", ptx.error().message);
      texts.push_back({launch.kernel, std::move(*ptx), launch.args.size()});
    }
    auto module = one_module(texts);
    if (!module) return fail(Stage::screen, module.error().message, "Use pointers, or tl.make_block_ptr.");
    output.ptx = std::move(*module);
    return output;
  }

  // Machine code of the PTX in out/variant.ptx, as out/variant.cubin; the messages of ptxas.
  tl::expected<std::string, CompileFailure> assemble(const CompileFolder& folder, const std::string& ptx,
                                                     double deadline_s) const {
    const fs::path text = folder.out() / "variant.ptx", code = folder.out() / "variant.cubin";
    std::error_code ignored;
    fs::remove_all(folder.out(), ignored);  // of the other process
    fs::create_directories(folder.out(), ignored);
    if (const auto written = write_atomically(text, ptx); !written)
      return fail(HostFault::cache_unwritable, written.error().message);
    const std::uint64_t kills = out_of_memory_kills();
    auto log = finish(
        start_python(python,
                     {.module = "cultivar_triton.build",
                      .arguments = {"--assemble", ptxas.string(), "-v", "-lineinfo",
                                    "--gpu-name=" + options.architecture, text.string(), "-o", code.string()},
                      .sources = sources,
                      .readable = {ptxas.parent_path()},
                      .writable = {folder.out()}},
                     limited(deadline_s, folder)),
        "ptxas", kills, deadline_in(deadline_s), deadline_s, folder.out());
    if (log && !fs::exists(code, ignored))
      return fail(Stage::compile, plain_line(first_error(*log), 400), cut(plain_text(*log), kKeptLogBytes));
    return log;
  }

  // Blocks of another size than the manifest's: the code has warps of its own.
  static std::string odd_block(const Cubin& cubin, const std::string& order) {
    for (const json& kernel : json::parse(order).at("kernels")) {
      const CubinKernel* const code = cubin.kernel(kernel.at("name").get<std::string>());
      const auto threads = 32 * kernel.at("num_warps").get<std::uint32_t>();
      if (code != nullptr && code->threads_exactly && code->threads_exactly->at(0) != threads)
        return fmt::format("kernel '{}' was compiled for blocks of {} threads instead of 32 * num_warps",
                           code->name, code->threads_exactly->at(0));
    }
    return {};
  }
};

TritonCompiler::TritonCompiler(TritonCompilerOptions options, const Task& task)
    : state_(std::make_unique<State>(std::move(options), task)) {
  State& s = *state_;
  remove_leftovers(s.options.cache / "tmp");
  auto python = find_interpreter(s.options.python, PythonNeeds::triton);
  if (!python) throw MissingError(python.error().message);
  s.python = std::move(*python);
  const auto ptxas = ptxas_of(s.python, number_of(s.options.architecture));
  if (!ptxas) throw MissingError(ptxas.error().message);
  s.ptxas = *ptxas;
  const auto sources = place_python_files(python_files(), s.options.cache);
  if (!sources) throw std::runtime_error(sources.error().message);
  s.sources = *sources;
  std::string files;
  for (const auto& [name, text] : python_files()) files += sha256_hex(text);
  s.identity = fmt::format("Triton {} {} python={} {} files={}", s.python.triton, s.options.architecture,
                           s.python.version, s.python.triton_at, sha256_hex(files).substr(0, 16));
}
TritonCompiler::~TritonCompiler() = default;

CompilerInfo TritonCompiler::info() const {
  const Sandbox sandbox;
  return {
      state_->identity,
      sandbox.usable()
          ? "Triton runs in bubblewrap: no network, no home folder, no GPU, a read-only system, "
            "limited memory, output and time"
          : fmt::format("Triton runs with limited memory, output and time ({}); no bubblewrap: {}",
                        sandbox.outside_in_words(), sandbox.obstacle()),
      FileAccessRules::make({"/usr"}, {}) || sandbox.usable()
          ? std::string()
          : "Triton can read all files of this user; install bubblewrap and allow user namespaces for this "
            "process"};
}

tl::expected<Binary, CompileFailure> TritonCompiler::compile(const Variant& variant,
                                                             const std::vector<std::string>& macros,
                                                             double deadline_s) {
  State& s = *state_;
  const auto order = triton_order(variant, s.task, macros, number_of(s.options.architecture));
  if (!order) return tl::make_unexpected(order.error());
  const std::string key = sha256_hex(fmt::format("{}\nscreen {} {}\n{}\n{}", s.identity, kScreenVersion,
                                                 s.options.limits.spill_bytes, *order, variant.source));
  if (auto cached = s.cache.find(key)) {
    cached->macros = macros;
    return *cached;
  }
  const CompileFolder folder(s.options.cache / "tmp");
  const auto made = s.run_triton(folder, variant, macros, deadline_s);
  if (!made) return tl::make_unexpected(made.error());
  const auto log = s.assemble(folder, made->ptx, deadline_s);
  if (!log) return tl::make_unexpected(log.error());
  std::vector<std::string> kernels;
  for (const KernelLaunch& launch : variant.manifest.launch) kernels.push_back(launch.kernel);
  const fs::path object = folder.out() / "variant.cubin";
  const std::string bytes = read_unlinked_file(object, most_output_bytes).value_or("");
  const auto cubin = read_cubin(std::as_bytes(std::span(bytes)), kernels);
  if (!cubin) return fail(Stage::screen, "the machine code is malformed: " + cubin.error().message, *log);
  if (const auto verdict = screen(*cubin, made->ptx, *log, variant.manifest, s.options.limits, false);
      !verdict.passed())
    return fail(Stage::screen, verdict.reason, verdict.diagnostics);
  if (const std::string odd = State::odd_block(*cubin, *order); !odd.empty())
    return fail(Stage::screen, odd, "Specialization of warps is not supported here: remove warp_specialize.");
  Binary binary;
  binary.macros = macros;
  binary.machine_code = sha256_hex(cubin->code_hash + json(made->chosen).dump());
  binary.log = cut(without_times(*log), kKeptLogBytes);
  binary.resources = resources_of(*cubin, *log, kernels);
  // Of the whole block: a plan that was made without the binary knows nothing of it.
  double& shared = binary.resources.values["shared_bytes"];
  for (const auto& [kernel, keys] : made->chosen)
    if (const auto found = keys.find("shared"); found != keys.end())
      shared = std::max(shared, static_cast<double>(found->second.front()));
  if (const auto ptx = read_ptx(made->ptx)) binary.resources.shares = instruction_shares(*ptx, kernels);
  binary.chosen = made->chosen;
  auto stored = s.cache.store(key, object, std::move(binary));
  if (!stored) return fail(HostFault::cache_unwritable, stored.error().message);
  return *stored;
}

Expected<Binary> TritonCompiler::compile_check_build(const Variant& variant,
                                                     const std::vector<std::string>& macros,
                                                     double deadline_s) {
  State& s = *state_;
  const auto order = triton_order(variant, s.task, macros, number_of(s.options.architecture));
  if (!order) return failure("check build", order.error().reason);
  constexpr int form = 1;  // increase it whenever the counters change
  const std::string key =
      sha256_hex(fmt::format("{}\ncheck build {}\n{}\n{}", s.identity, form, *order, variant.source));
  if (auto cached = s.counted.find(key)) {
    cached->macros = macros;
    return *cached;
  }
  const CompileFolder folder(s.options.cache / "tmp");
  const auto made = s.run_triton(folder, variant, macros, deadline_s);
  if (!made) return failure("check build", "it does not compile: " + made.error().reason);
  auto counted = with_counters(made->ptx, {"variant.py"});
  if (!counted) return tl::make_unexpected(counted.error());
  if (counted->blocks.empty()) return failure("check build", "no block of it has a known line");
  const fs::path object = folder.path() / "counted.ptx";
  if (auto written = write_atomically(object, counted->text); !written)
    return tl::make_unexpected(written.error());
  Binary binary;
  binary.macros = macros;
  binary.chosen = made->chosen;
  binary.blocks = std::move(counted->blocks);
  binary.counters = counted->counters;
  return s.counted.store(key, object, std::move(binary));
}

}  // namespace cultivar

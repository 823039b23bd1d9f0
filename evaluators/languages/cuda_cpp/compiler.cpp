// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/cuda_cpp/compiler.hpp"

#include <fmt/format.h>

#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>

#include "evaluators/devices/cuda/code/cubin.hpp"
#include "evaluators/devices/cuda/code/diagnostics.hpp"
#include "evaluators/devices/cuda/code/ptx_coverage.hpp"
#include "evaluators/devices/cuda/code/ptx_text.hpp"
#include "evaluators/languages/binary_cache.hpp"
#include "evaluators/languages/cuda_cpp/toolkit.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/memory_limit.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/system/sandbox.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kept_log_bytes = 32 << 10;
// Part of the cache key: increase it whenever the screen rejects more or more is told of a binary, so that
// cached kernels are screened again.
constexpr int screen_version = 9;

const std::vector<std::string>& fixed_flags() {
  static const std::vector<std::string> flags{"--std=c++20", "--generate-line-info", "--ptxas-options=-v"};
  return flags;
}

tl::unexpected<CompileFailure> fail(HostFault fault, std::string diagnostics) {
  return tl::make_unexpected(CompileFailure{
      .reason = std::string(words_of(fault)), .diagnostics = std::move(diagnostics), .host_fault = fault});
}

tl::unexpected<CompileFailure> fail(Stage stage, std::string reason, std::string diagnostics,
                                    bool late = false) {
  return tl::make_unexpected(CompileFailure{stage, std::move(reason), std::move(diagnostics), late});
}

// The cultivar-nvrtc program of this build.
fs::path beside_this_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path() / "cultivar-nvrtc";
}

// 90 for "sm_90a"; 0 if the name has another form.
int number_of(const std::string& architecture) {
  return architecture.starts_with("sm_") ? std::atoi(architecture.c_str() + 3) : 0;
}

bool below(const fs::path& path, const char* folder) {
  return path.string().starts_with(folder);
}

}  // namespace

struct CudaCompiler::State {
  explicit State(CudaCompilerOptions o)
      : options(std::move(o)),
        cache(fs::absolute(options.cache) / "cuda", ".cubin"),
        counted(fs::absolute(options.cache) / "cuda-check", ".ptx") {
    options.cache = fs::absolute(options.cache);
    if (options.program.empty()) options.program = beside_this_program();
    if (options.best_walls != CudaCompilerOptions::Walls::bubblewrap)
      sandbox = Sandbox::none("disabled by an option");
  }

  // Allows reading the compiler, its headers and libraries, and the variant's own folder.
  Expected<FileAccessRules> walls_around(const fs::path& folder) const {
    if (options.best_walls == CudaCompilerOptions::Walls::none)
      return failure("landlock", "disabled by an option");
    std::vector<fs::path> readable{"/usr",
                                   "/bin",
                                   "/lib",
                                   "/lib64",
                                   "/etc/alternatives",
                                   "/etc/ld.so.cache",
                                   "/dev/urandom",
                                   "/dev/zero",
                                   folder,
                                   fs::canonical(options.program),
                                   toolkit.library.parent_path()};
    readable.insert(readable.end(), toolkit.includes.begin(), toolkit.includes.end());
    return FileAccessRules::make(readable, {folder / "out", "/dev/null"});
  }

  CudaCompilerOptions options;
  BinaryCache cache, counted;  // counted: PTX with counters
  Sandbox sandbox;
  CudaToolkit toolkit;
  std::string identity;
  std::vector<std::string> flags;
  std::atomic<std::size_t> compilations{0};

  // The contents of the headers are part of what is compiled.
  std::string headers_hash() const {
    std::string all;
    for (const fs::path& include : toolkit.includes)
      for (const char* name : {"cuda_fp16.h", "cuda_fp16.hpp", "cuda_bf16.h", "cuda_bf16.hpp", "cuda_fp8.h",
                               "cuda_fp8.hpp", "cuda/std/detail/libcxx/include/__config"})
        if (const auto text = read_file(include / name)) all += *text;
    return sha256_hex(all).substr(0, 16);
  }

  std::vector<std::string> command(const CompileFolder& folder,
                                   const std::vector<std::string>& macros) const {
    const bool inside = sandbox.usable();
    std::vector<std::string> words;
    if (inside) {
      std::vector<SandboxMount> mounts{{options.program, "/cultivar-nvrtc"},
                                       {folder.path() / "variant.cu", "/src/variant.cu"},
                                       {folder.out(), "/out", true}};
      std::vector<fs::path> needed = toolkit.includes;
      needed.push_back(toolkit.library.parent_path());
      for (const fs::path& path : needed)
        if (!below(path, "/usr/")) mounts.push_back({path, path});
      words = sandbox.command(
          mounts, {"--dev", "/dev", "--tmpfs", "/tmp", "--setenv", "LC_ALL", "C.UTF-8", "--chdir", "/src"});
    }
    words.insert(words.end(),
                 {inside ? "/cultivar-nvrtc" : options.program.string(), "compile", toolkit.library.string(),
                  inside ? "/src/variant.cu" : (folder.path() / "variant.cu").string(),
                  inside ? "/out" : folder.out().string(), "--gpu-architecture=" + options.architecture});
    words.insert(words.end(), flags.begin(), flags.end());
    for (const fs::path& include : toolkit.includes) words.push_back("--include-path=" + include.string());
    for (const std::string& macro : macros) words.push_back("--define-macro=" + macro);
    return words;
  }

  // The files that the compiler wrote.
  struct Output {
    std::string cubin, ptx, log;
  };

  tl::expected<Output, CompileFailure> run_compiler(const CompileFolder& folder,
                                                    const std::vector<std::string>& macros,
                                                    double deadline_s) {
    ProcessOptions process;
    process.command = command(folder, macros);
    const Expected<FileAccessRules> walls =
        sandbox.usable() || options.trusted ? failure("landlock", "not needed") : walls_around(folder.path());
    if (walls) process.walls = &*walls;
    if (!sandbox.usable()) {
      if (!options.trusted) {
        std::vector<fs::path> needed = toolkit.includes;
        needed.insert(needed.end(), {toolkit.library, folder.path()});
        process.privileges = sandbox.privileges_outside(needed, folder.path());
      }
      process.folder = folder.path();
      process.environment = std::vector<std::string>{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"};
    }
    process.pipe_input = process.pipe_output = false;
    process.captured_bytes = kept_log_bytes;
    process.expendable = true;
    process.limits = {{RLIMIT_CORE, 0},
                      {RLIMIT_AS, options.memory_bytes},
                      {RLIMIT_FSIZE, most_output_bytes},
                      {RLIMIT_CPU, static_cast<std::size_t>(deadline_s) + 5}};
    const std::uint64_t memory_kills = out_of_memory_kills();
    auto child = ChildProcess::spawn(process);
    if (!child) return fail(HostFault::worker_lost, "cannot start NVRTC: " + child.error().message);
    ++compilations;
    if (!child->wait_or_kill(deadline_in(deadline_s)))
      return fail(
          Stage::compile, fmt::format("NVRTC did not finish within {:g} s", deadline_s),
          "The compiler was killed. Reduce template instantiations, loop unrolling or included headers.",
          true);
    const ExitStatus status = *child->poll();
    Output output;
    output.log = read_file(folder.out() / "variant.log").value_or("");
    output.ptx = read_file(folder.out() / "variant.ptx").value_or("");
    if (status.code == 3) throw MissingError(child->captured());
    if (!status.success() && out_of_memory_kills() > memory_kills)
      return fail(HostFault::out_of_memory,
                  fmt::format("NVRTC {}, by the system at {}.\n{}", status.describe(),
                              memory_limit_in_words(), child->captured()));
    if (!status.success())
      if (const std::string why = why_unwritable(folder.out()); !why.empty())
        return fail(HostFault::cache_unwritable, why);
    if (sent_from_outside(status.signal) || sent_from_outside(status.code - 128))
      return fail(HostFault::killed, "NVRTC was killed from outside.\n" + child->captured());
    if (!status.success() && status.code != 1)
      return fail(
          Stage::compile, "NVRTC crashed on this source",
          fmt::format("NVRTC {} (limits: {} of memory, {} of output).\n{}{}", status.describe(),
                      limit_in_words(RLIMIT_AS, options.memory_bytes),
                      limit_in_words(RLIMIT_FSIZE, most_output_bytes), child->captured(), output.log));
    if (status.code == 1) {
      if (auto verdict = screen_errors(output.log); !verdict.passed())
        return fail(Stage::screen, verdict.reason, cut(verdict.diagnostics, kept_log_bytes));
      if (const std::string name = colliding_macro(output.log, macros); !name.empty())
        return fail(
            Stage::compile,
            fmt::format("the macro {} collides with a name in NVRTC's headers: {}", name,
                        first_error(output.log)),
            fmt::format(
                "Tunables and the names in `specialize` are macros and also affect the toolkit's headers. "
                "Rename the tunable {0}, or remove the dimension {0} from `specialize` and "
                "pass it as an argument.\n{1}",
                name, repair_words(output.log, output.ptx, kept_log_bytes)));
      return fail(Stage::compile, first_error(output.log),
                  repair_words(output.log, output.ptx, kept_log_bytes));
    }
    auto cubin = read_file(folder.out() / "variant.cubin");
    if (!cubin) return fail(Stage::compile, "NVRTC wrote no machine code", output.log);
    output.cubin = std::move(*cubin);
    return output;
  }

  std::string isolation() const {
    if (sandbox.usable())
      return "NVRTC runs in bubblewrap: no network, no home folder, read-only /usr, limited memory, output "
             "and time";
    if (walls_around("/usr"))
      return fmt::format(
          "NVRTC runs with limited memory, output and time, and can read only /usr and its own toolkit "
          "(Landlock); no bubblewrap: {}",
          sandbox.obstacle());
    return fmt::format(
        "NVRTC runs with limited memory, output and time but can read this user's files, so variants may "
        "include only the toolkit's headers: no bubblewrap ({}), no Landlock",
        sandbox.obstacle());
  }

  std::string weakness() const {
    if (sandbox.usable() || walls_around("/usr")) return {};
    return "the kernel compiler can read all files of this user, and only the text of a source is checked "
           "for include directives; install bubblewrap and allow user namespaces for this process";
  }
};

CudaCompiler::CudaCompiler(CudaCompilerOptions options)
    : state_(std::make_unique<State>(std::move(options))) {
  State& s = *state_;
  remove_leftovers(s.options.cache / "tmp");
  auto toolkit = find_cuda_toolkit(s.options.program, s.options.library);
  if (!toolkit) throw MissingError(toolkit.error().message);
  s.toolkit = std::move(*toolkit);
  const int wanted = number_of(s.options.architecture);
  const auto& known = s.toolkit.architectures;
  if (std::find(known.begin(), known.end(), wanted) == known.end())
    throw MissingError(
        fmt::format("NVRTC {} does not support '{}'; it supports {}. Install a CUDA toolkit that does",
                    s.toolkit.version(), s.options.architecture, fmt::join(known, ", ")));
  s.flags = fixed_flags();
  s.flags.insert(s.flags.end(), s.options.flags.begin(), s.options.flags.end());
  s.identity = fmt::format("NVRTC {} {} {} headers={}", s.toolkit.version(), s.options.architecture,
                           fmt::join(s.flags, " "), s.headers_hash());
}

CudaCompiler::~CudaCompiler() = default;
CompilerInfo CudaCompiler::info() const {
  return {state_->identity, state_->isolation(), state_->weakness()};
}
std::size_t CudaCompiler::compilations() const {
  return state_->compilations;
}

tl::expected<Binary, CompileFailure> CudaCompiler::compile(const Variant& variant,
                                                           const std::vector<std::string>& macros,
                                                           double deadline_s) {
  State& s = *state_;
  std::vector<std::string> kernels, arguments;
  for (const auto& launch : variant.manifest.launch) {
    kernels.push_back(launch.kernel);
    for (const auto& argument : launch.args)
      arguments.push_back(fmt::format("{}:{}", argument.text, argument.type ? name_of(*argument.type) : ""));
  }
  const std::string key =
      sha256_hex(fmt::format("{}\nscreen {}\n{} {}\n{}\n{}\n{}\n{}", s.identity, screen_version,
                             s.options.trusted, s.options.limits.spill_bytes, fmt::join(macros, "\n"),
                             fmt::join(kernels, " "), fmt::join(arguments, " "), variant.source));
  if (auto cached = s.cache.find(key)) return *cached;

  if (!s.options.trusted && !s.sandbox.usable() && !s.walls_around("/usr"))
    if (const std::string odd = include_beyond(variant.source, s.toolkit.includes); !odd.empty())
      return fail(Stage::screen, fmt::format("the source includes a file that may not be read here: {}", odd),
                  "Without bubblewrap and without Landlock the compiler can read all of this user's files: "
                  "include only the toolkit's own headers, by their plain names, as in <cuda_bf16.h>, or "
                  "install bubblewrap.");
  // The variant's headers are found before all others, even from inside the toolkit's headers.
  for (const HeaderFile& header : split_source(variant.source).headers)
    for (const fs::path& include : s.toolkit.includes)
      if (std::error_code ignored; fs::exists(include / header.name, ignored))
        return fail(Stage::screen,
                    fmt::format("the header {} has the same name as a toolkit header", header.name),
                    "Rename the header in its marker line, in `headers` and where it is included.");
  const CompileFolder folder(s.options.cache / "tmp");
  if (auto written = write_atomically(folder.path() / "variant.cu", variant.source); !written)
    return fail(HostFault::cache_unwritable, written.error().message);
  const auto output = s.run_compiler(folder, macros, deadline_s);
  if (!output) return tl::make_unexpected(output.error());
  const auto cubin = read_cubin(std::as_bytes(std::span(output->cubin)), kernels);
  if (!cubin)
    return fail(Stage::screen, "the machine code is malformed: " + cubin.error().message, output->log);
  if (const auto verdict =
          screen(*cubin, output->ptx, output->log, variant.manifest, s.options.limits, s.options.trusted);
      !verdict.passed())
    return fail(Stage::screen, verdict.reason, verdict.diagnostics);

  Binary binary;
  binary.macros = macros;
  binary.machine_code = cubin->code_hash;
  binary.log = cut(without_times(output->log), kept_log_bytes);
  binary.resources = resources_of(*cubin, output->log, kernels);
  if (const auto ptx = read_ptx(output->ptx)) binary.resources.shares = instruction_shares(*ptx, kernels);
  auto stored = s.cache.store(key, folder.out() / "variant.cubin", std::move(binary));
  if (!stored) return fail(HostFault::cache_unwritable, stored.error().message);
  return *stored;
}

Expected<Binary> CudaCompiler::compile_check_build(const Variant& variant,
                                                   const std::vector<std::string>& macros,
                                                   double deadline_s) {
  State& s = *state_;
  constexpr int form = 1;  // increase it whenever the counters change
  const std::string key = sha256_hex(
      fmt::format("{}\ncheck build {}\n{}\n{}", s.identity, form, fmt::join(macros, "\n"), variant.source));
  if (auto cached = s.counted.find(key)) return *cached;
  const CompileFolder folder(s.options.cache / "tmp");
  if (auto written = write_atomically(folder.path() / "variant.cu", variant.source); !written)
    return tl::make_unexpected(written.error());
  std::vector<std::string> own = macros;
  own.emplace_back("CULTIVAR_CHECK=1");
  const auto output = s.run_compiler(folder, own, deadline_s);
  if (!output) return failure("check build", "it does not compile: " + output.error().reason);
  std::vector<std::string> files{"variant.cu"};
  for (const HeaderFile& header : split_source(variant.source).headers) files.emplace_back(header.name);
  auto counted = with_counters(output->ptx, files);
  if (!counted) return tl::make_unexpected(counted.error());
  if (counted->blocks.empty()) return failure("check build", "no block of it has a known line");
  const fs::path object = folder.out() / "counted.ptx";
  if (auto written = write_atomically(object, counted->text); !written)
    return tl::make_unexpected(written.error());
  Binary binary;
  binary.macros = macros;
  binary.blocks = std::move(counted->blocks);
  binary.counters = counted->counters;
  return s.counted.store(key, object, std::move(binary));
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/screen.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>

#include "evaluators/devices/cuda/code/diagnostics.hpp"
#include "evaluators/devices/cuda/code/ptx_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

// The number before this text: 12 in "Used 12 registers, used 1 barriers".
std::uint32_t number_before(std::string_view line, std::string_view words) {
  std::size_t at = line.find(words);
  if (at == line.npos || at == 0) return 0;
  std::size_t begin = at;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  return static_cast<std::uint32_t>(
      std::strtoul(std::string(line.substr(begin, at - begin)).c_str(), nullptr, 10));
}

std::string quoted(std::string_view line) {
  const std::size_t begin = line.find('\''), end = begin == line.npos ? begin : line.find('\'', begin + 1);
  return end == line.npos ? "" : std::string(line.substr(begin + 1, end - begin - 1));
}

bool contains(std::string_view text, std::string_view what) {
  return text.find(what) != text.npos;
}

// "vtable for B" for _ZTV1B. Only mangled names are demangled: a plain name may read as a mangled type, as
// `g` does (__float128).
std::string readable(const std::string& name) {
  if (!name.starts_with("_Z")) return name;
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text != nullptr ? std::string(text.get()) : name;
}

ScreenVerdict screen_variables(const Cubin& cubin, std::string_view ptx) {
  const std::vector<WritableVariable> writable = writable_variables(cubin, ptx);
  if (writable.empty()) return {};
  std::vector<std::string> named;
  for (const WritableVariable& v : writable) {
    if (named.size() == 5) {
      named.push_back(fmt::format("and {} more", writable.size() - named.size()));
      break;
    }
    named.push_back(fmt::format("{} ({})", cut(readable(v.name), 100), v.why));
  }
  return {fmt::format("the kernel has variables that it may write: {}", fmt::join(named, ", ")),
          "A kernel may not keep state between runs. Put state into a workspace of the manifest (`zero: "
          "true` for counters) and tables into __constant__ or constexpr arrays that are only read, in the "
          "kernel or in functions that are inlined. Index them by numbers, so that the address of the table "
          "is only copied, added to and loaded from. A table whose address is compared, shifted, masked or "
          "stored, or goes to a function that is not inlined, to another variable or to inline assembly "
          "other than ld and the source of cp.async, counts as written."};
}

bool is_clock(std::string_view name) {
  return name.starts_with("%clock") || name.starts_with("%globaltimer") ||
         (name.starts_with("%pm") && name.size() > 3 && name[3] >= '0' && name[3] <= '9');
}

// Registers that differ from launch to launch, or that belong to the driver or the debugger.
bool tells_launches_apart(std::string_view name) {
  return name == "%gridid" || name == "%current_graph_exec" || name.starts_with("%envreg") ||
         name.starts_with("%devtool") || name.starts_with("%atexit");
}

// Checks the names of special registers in the assembly, which no macro, pasted string or #line can hide.
// Headers are included: a toolkit function that waits with a time-out also reads a clock.
ScreenVerdict screen_registers(const Ptx& ptx, const Manifest& manifest) {
  const bool cooperative = std::any_of(manifest.launch.begin(), manifest.launch.end(),
                                       [](const KernelLaunch& l) { return l.flag("cooperative"); });
  for (const PtxStatement& s : ptx.statements)
    for (const PtxToken& t : s.tokens) {
      if (t.kind != PtxToken::Kind::name) continue;
      if (is_clock(t.text))
        return {fmt::format("the kernel reads a clock ({})", t.text),
                "A kernel may not read the time. Remove clock(), clock64(), __globaltimer(), <chrono> and "
                "inline assembly that reads %clock, %clock64, %globaltimer or %pm0 to %pm7. The waiting "
                "functions of <cuda/...> also read a clock, for their back-off: wait() of cuda::barrier, "
                "cuda::pipeline, cuda::atomic and cuda::semaphore. Wait in inline assembly instead: "
                "mbarrier.try_wait in a loop, on your own mbarrier object or on "
                "cuda::device::barrier_native_handle(barrier); cp.async.wait_group for copies; "
                "__syncthreads() for all threads of a block."};
      if (tells_launches_apart(t.text) && !(cooperative && leads_to_grid_barrier(t.text)))
        return {fmt::format("the kernel reads a register that differs between launches ({})", t.text),
                "A kernel must compute the same in every run. Remove inline assembly that reads %gridid (a "
                "launch counter), %envreg or other registers of the driver. Grid-wide synchronization by "
                "cooperative groups needs `cooperative: true` in its launch."};
    }
  if (const std::string where = beyond_grid_barrier(ptx); !where.empty())
    return {fmt::format("the kernel uses the driver's memory for more than the grid barrier ({})", where),
            "Only this_grid().sync() of cooperative groups may use %envreg1 and %envreg2, in the kernel or "
            "in functions that are inlined, because the memory that they point to outlives the launch. Put "
            "state into a workspace of the manifest."};
  return {};
}

bool for_indirect_calls(const PtxStatement& s) {
  return s.opcode() == ".callprototype" || s.opcode() == ".calltargets";
}

// `call (result), name, (arguments)`. An indirect call has one operand more: the possible targets or their
// prototype.
template <typename Known>
bool names_its_function(const PtxStatement& call, Known known) {
  const std::vector<PtxTokens> operands = call.operands();
  const auto list = [&](std::size_t i) {
    return i < operands.size() && !operands[i].empty() && operands[i].front().is("(");
  };
  const std::size_t target = list(0) ? 1 : 0, end = target + 1 + (list(target + 1) ? 1 : 0);
  return operands.size() == end && operands[target].size() == 1 && known(operands[target].front());
}

// Code lies in the same memory as data: a kernel with the address of a function could store data there.
ScreenVerdict screen_functions(const Ptx& ptx, const Manifest& manifest) {
  std::set<std::string_view> functions;
  for (const PtxStatement& s : ptx.statements)
    if (s.function_head() && !s.function_name().empty()) functions.insert(s.function_name());
  for (const KernelLaunch& launch : manifest.launch)
    if (!functions.contains(launch.kernel))
      return {fmt::format("the compiler's assembly does not contain kernel '{}'", launch.kernel),
              "A kernel that cannot be screened is not run. Compile it again."};
  const auto known = [&](const PtxToken& t) {
    return t.kind == PtxToken::Kind::name && functions.contains(t.text);
  };
  for (const PtxStatement& s : ptx.statements) {
    const bool call = !s.directive() && s.opcode() == "call";
    if (for_indirect_calls(s) || (call && !names_its_function(s, known)))
      return {fmt::format("the kernel calls a function by its address ({}'{}')", ptx.place_of(s),
                          s.spelled_opcode()),
              "The code that would run cannot be screened. Call functions by name: the compiler must "
              "be able to resolve or inline every call. Instead of a function pointer, a table of functions "
              "or a virtual function, use a template, a lambda or a switch."};
    if (call || s.function_head()) continue;
    for (const PtxToken& t : s.tokens)  // initializers included
      if (known(t))
        return {fmt::format("the kernel takes the address of a function ({})",
                            cut(readable(std::string(t.text)), 100)),
                "Call functions by name: a pointer to code could be used for writing."};
  }
  return {};
}

// Instructions for which no honest kernel has a use, and a cheat has.
ScreenVerdict screen_instructions(const Ptx& ptx) {
  for (const PtxStatement& s : ptx.statements) {
    if (s.directive()) continue;
    if (s.opcode() == "discard")
      return {
          fmt::format("the kernel discards cached memory ({}'{}')", ptx.place_of(s), s.spelled_opcode()),
          "What the memory held before, such as results of an earlier run, could come back. Remove it: an "
          "output that is completely overwritten needs no discard."};
    const PtxTokens modifiers = s.modifiers();
    if (std::any_of(modifiers.begin(), modifiers.end(), [](const PtxToken& m) { return m.is(".mmio"); }))
      return {fmt::format("the kernel accesses memory as a device's registers ({}'{}')", ptx.place_of(s),
                          s.spelled_opcode()),
              "Tensors and workspaces are plain memory. Use ld.relaxed or ld.volatile instead of ld.mmio."};
  }
  if (const std::string where = beyond_parameters(ptx); !where.empty())
    return {fmt::format("the kernel reaches beyond its parameters ({})", where),
            "Behind a kernel's parameters lie the arguments of other launches. Read a parameter by its name. "
            "The address of a tensor map may be copied and selected, and go to cp.async.bulk.tensor, "
            "prefetch.tensormap and fence.proxy.tensormap, in the kernel or in functions that are inlined; "
            "not into sums, stores, comparisons or functions that are not inlined."};
  return {};
}

ScreenVerdict screen_assembly(std::string_view text, const Manifest& manifest) {
  const auto ptx = read_ptx(text);
  if (!ptx)
    return {"the kernel's PTX cannot be analyzed: it has " + ptx.error().message,
            "Write inline assembly in NVRTC's own style: statements that end in semicolons, plain comments."};
  if (auto verdict = screen_functions(*ptx, manifest); !verdict.passed()) return verdict;
  if (auto verdict = screen_instructions(*ptx); !verdict.passed()) return verdict;
  return screen_registers(*ptx, manifest);
}

ScreenVerdict screen_externals(const std::vector<std::string>& externals) {
  const auto uses = [&](std::string_view name) {
    return std::find(externals.begin(), externals.end(), name) != externals.end();
  };
  if (uses("malloc") || uses("free"))
    return {"the kernel allocates memory on the device (malloc, free, new or delete)",
            "The device heap outlives the run and is slow. Declare a workspace in the manifest instead."};
  if (uses("vprintf"))
    return {"the kernel calls printf", "Remove it: nothing reads the output, and it slows the kernel."};
  if (uses("__assertfail"))
    return {"the kernel uses assert", "Remove it, or call __trap() where the kernel must stop."};
  for (const std::string& name : externals)
    if (name.starts_with("cudaLaunch") || name.starts_with("cudaGetParameterBuffer") || contains(name, "CDP"))
      return {"the kernel launches kernels from the device",
              "Only the manifest launches kernels: list every kernel under `launch`, in order."};
  if (externals.empty()) return {};
  return {fmt::format("the kernel calls {}, which the source does not define", fmt::join(externals, ", ")),
          "Variants are not linked with any library: define it in the source or its headers."};
}

// False for output of the source's own #warning or #error.
bool of_ptxas(std::string_view line) {
  return line.starts_with("ptxas ");
}

ScreenVerdict screen_warnings(std::string_view log) {
  for (const std::string_view line : lines_of(log)) {
    if (!of_ptxas(line)) continue;
    if (contains(line, "(C7508)"))
      return {"setmaxnreg is ignored by ptxas (C7508)",
              fmt::format(
                  "{}\nGive the kernel __launch_bounds__(threads, 1), so that its register count at entry is "
                  "known, and put each role into one branch of a single if/else.",
                  line)};
    if (contains(line, "(C7510)") || contains(line, "(C7517)") ||
        contains(line, "wgmma.mma_async instructions are serialized"))
      return {"wgmma is serialized by ptxas" +
                  (contains(line, "(C75") ? " " + std::string(line.substr(line.find("(C75"), 7)) : ""),
              fmt::format(
                  "{}\nDo not touch the accumulators between wgmma.fence and wgmma.wait_group: no reads, no "
                  "writes, no function call that is not inlined, no index known only at run time. Issue "
                  "every wgmma of a group in straight-line code, and keep accumulators and everything else "
                  "live within the register limit of a thread.",
                  line)};
  }
  return {};
}

ScreenVerdict screen_spills(std::string_view log, const Manifest& manifest, const CodeLimits& limits) {
  for (const PtxasReport& r : read_ptxas_log(log)) {
    const bool planned = std::any_of(manifest.launch.begin(), manifest.launch.end(),
                                     [&](const KernelLaunch& l) { return l.kernel == r.kernel; });
    const std::uint32_t spilled = r.spill_store_bytes + r.spill_load_bytes;
    if (!planned || spilled <= limits.spill_bytes) continue;
    return {fmt::format("kernel '{}' spills registers: {} bytes ({} of stores, {} of loads); the limit is {}",
                        r.kernel, spilled, r.spill_store_bytes, r.spill_load_bytes, limits.spill_bytes),
            fmt::format(
                "The kernel has {} registers per thread and {} bytes of stack. Keep fewer values live: "
                "smaller tiles, less unrolling, fewer stages in registers; or allow more registers with "
                "fewer threads or fewer blocks in __launch_bounds__, or setmaxnreg for the warpgroups that "
                "need them.",
                r.registers, r.stack_bytes)};
  }
  return {};
}

// 0 if only known with the task (a pointer is 8, a dimension 4).
std::uint32_t bytes_of(const Manifest& manifest, const ArgumentSpec& argument) {
  for (const TensorMapSpec& map : manifest.tensor_maps)
    if (map.name == argument.text) return 128;
  for (const WorkspaceSpec& workspace : manifest.workspace)
    if (workspace.name == argument.text) return 8;
  return argument.type ? static_cast<std::uint32_t>(size_of(*argument.type)) : 0;
}

ScreenVerdict screen_kernel(const Cubin& cubin, const Manifest& manifest, const KernelLaunch& launch) {
  const CubinKernel* const kernel = cubin.kernel(launch.kernel);
  if (kernel == nullptr) {
    std::vector<std::string> there;
    for (const CubinKernel& k : cubin.kernels) there.push_back(k.name);
    return {fmt::format("the source does not define kernel '{}' of the manifest", launch.kernel),
            fmt::format("Kernels: {}. Define it as extern \"C\" __global__ void {}(...), not in a template.",
                        there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", ")), launch.kernel)};
  }
  if (kernel->parameters.size() != launch.args.size())
    return {fmt::format("kernel '{}' has {} parameters, but the manifest gives {} arguments", launch.kernel,
                        kernel->parameters.size(), launch.args.size()),
            "`args` lists one argument per parameter, in order. (A macro replaces a parameter of the same "
            "parameter's name: omit specialized dimensions from both.)"};
  for (std::size_t i = 0; i < launch.args.size(); ++i) {
    const std::uint32_t given = bytes_of(manifest, launch.args[i]), taken = kernel->parameters[i].bytes;
    if (given == 0 ? taken <= 8 : given == taken) continue;
    return {fmt::format("parameter {} of kernel '{}' has {} bytes, but its argument '{}' has {}", i + 1,
                        launch.kernel, taken, launch.args[i].text,
                        given == 0 ? "at most 8" : fmt::format("{}", given)),
            "Pointers have 8 bytes, dimensions are int (4 bytes), `{value: ..., type: ...}` gives another "
            "type, and a tensor map is a const __grid_constant__ CUtensorMap (128 bytes)."};
  }
  return {};
}

}  // namespace

std::vector<PtxasReport> read_ptxas_log(std::string_view log) {
  std::vector<PtxasReport> reports;
  for (const std::string_view line : lines_of(log)) {
    const std::string_view figures = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    if (of_ptxas(line) && contains(line, ": Compiling entry function '")) {
      reports.emplace_back().kernel = quoted(line);
    } else if (reports.empty()) {
      continue;
    } else if ((of_ptxas(line) || (!figures.empty() && figures[0] >= '0' && figures[0] <= '9')) &&
               contains(line, "bytes spill stores")) {  // one line for the kernel, then one for each function
                                                        // that it calls
      reports.back().stack_bytes =
          std::max(reports.back().stack_bytes, number_before(line, " bytes stack frame"));
      reports.back().spill_store_bytes += number_before(line, " bytes spill stores");
      reports.back().spill_load_bytes += number_before(line, " bytes spill loads");
    } else if (of_ptxas(line) && contains(line, " registers")) {
      PtxasReport& r = reports.back();
      r.registers = number_before(line, " registers");
      r.barriers = number_before(line, " barriers");
      r.shared_bytes = number_before(line, " bytes smem");
      r.stack_bytes = std::max(r.stack_bytes, number_before(line, " bytes cumulative stack size"));
    }
  }
  return reports;
}

Resources resources_of(const Cubin& cubin, std::string_view log, const std::vector<std::string>& kernels) {
  Resources resources;
  const auto most = [&](const char* name, double value) {
    double& there = resources.values[name];
    there = std::max(there, value);
  };
  const auto planned = [&](const std::string& name) {
    return std::find(kernels.begin(), kernels.end(), name) != kernels.end();
  };
  for (const CubinKernel& k : cubin.kernels) {
    if (!planned(k.name)) continue;
    most("registers", k.registers);
    most("stack_bytes", k.stack_bytes);
    most("shared_bytes", k.shared_bytes);
    most("constant_bytes", k.constant_bytes);
    most("barriers", k.barriers);
    most("text_bytes", static_cast<double>(k.code_bytes));
    most("spill_bytes", 0.0);
  }
  for (const PtxasReport& r : read_ptxas_log(log))
    if (planned(r.kernel)) most("spill_bytes", r.spill_store_bytes + r.spill_load_bytes);
  return resources;
}

ScreenVerdict screen(const Cubin& cubin, std::string_view ptx, std::string_view log, const Manifest& manifest,
                     const CodeLimits& limits, bool trusted) {
  for (const KernelLaunch& launch : manifest.launch)
    if (auto verdict = screen_kernel(cubin, manifest, launch); !verdict.passed()) return verdict;
  if (trusted) return {};
  for (const KernelLaunch& launch : manifest.launch)
    if (launch.kernel.starts_with("cultivar_"))
      return {fmt::format("the kernel's name '{}' begins with 'cultivar_'", launch.kernel),
              "The judge's own kernels have such names; choose another one."};
  // malloc and printf come with variables of their own, so check for them first.
  if (auto verdict = screen_externals(cubin.externals); !verdict.passed()) return verdict;
  if (auto verdict = screen_variables(cubin, ptx); !verdict.passed()) return verdict;
  if (auto verdict = screen_assembly(ptx, manifest); !verdict.passed()) return verdict;
  if (auto verdict = screen_warnings(log); !verdict.passed()) return verdict;
  return screen_spills(log, manifest, limits);
}

ScreenVerdict screen_errors(std::string_view log) {
  constexpr std::string_view unresolved = "Unresolved extern function";
  std::vector<std::string> externals;
  for (const std::string_view line : lines_of(log)) {
    const std::size_t error = line.find("): error: ");
    const std::string_view said = error == line.npos ? std::string_view() : line.substr(error + 10);
    const std::string_view file = line.substr(0, line.find('('));
    if ((file == "variant.cu" || header_name_trouble(file).empty()) && !said.starts_with("#error") &&
        !said.starts_with("static assertion") &&
        (contains(said, "device-side kernel launch") ||
         contains(said, "kernel launch from __device__ or __global__ functions")))
      externals.emplace_back("cudaLaunchDevice");
    if (of_ptxas(line) && contains(line, unresolved)) externals.push_back(quoted(line));
  }
  auto verdict = screen_externals(externals);
  if (!verdict.passed()) verdict.diagnostics += fmt::format("\n{}", log);
  return verdict;
}

}  // namespace cultivar

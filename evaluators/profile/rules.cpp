// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/profile/hot_loops.hpp"

namespace cultivar {
namespace {

// A unit busier than the first value limits the kernel; below the second value it does not.
constexpr double busy_pct = 60.0, idle_pct = 20.0;
constexpr double noted = 0.03;  // the smallest share of the time that is reported

using Found = std::optional<Finding>;

std::optional<double> counter(const Profile& p, std::string_view key) {
  const KernelProfile* kernel = main_kernel(p);
  if (kernel == nullptr) return std::nullopt;
  const auto found = kernel->counters.find(key);
  return found == kernel->counters.end() ? std::nullopt : std::optional(found->second);
}

Found busy(const Profile& p, std::string_view kind, std::string_view key, std::string_view form) {
  const auto value = counter(p, key);
  if (!value || *value < busy_pct) return std::nullopt;
  return Finding{std::string(kind), *value / 100.0, fmt::format(fmt::runtime(form), *value)};
}

Found tensor_pipe(const Profile& p) {
  if (auto found = busy(
          p, "tensor_pipe", "tensor_pct",
          "the tensor pipe is active in {:.0f} % of all cycles: it is the limit. To go faster, remove idle "
          "cycles between products or reduce arithmetic"))
    return found;
  const auto value = counter(p, "tensor_pct");
  const bool arithmetic = p.flops_us > p.bytes_us && p.flops_us > 0.0;
  if (!value || !arithmetic || *value >= idle_pct) return std::nullopt;
  // The ceilings assume the tensor pipe.
  return Finding{"tensor_pipe_idle", 0.5 * (1.0 - *value / 100.0),
                 *value < 0.5
                     ? "the tensor pipe is unused: all products use slower pipes (use "
                       "mma.sync, or wgmma on Hopper)"
                     : fmt::format("the tensor pipe is active in only {:.1f} % of all cycles, on a workload "
                                   "that consists mostly of products",
                                   *value)};
}

Found dram(const Profile& p) {
  auto found = busy(p, "dram", "dram_pct", "memory is at {:.0f} % of its peak throughput: it is the limit");
  const auto read = counter(p, "dram_read_bytes"), written = counter(p, "dram_write_bytes");
  if (!read || !written || p.bytes <= 0.0) return found;
  const double times = (*read + *written) / p.bytes;
  const std::string moved = fmt::format(
      "moves {:.2f} times the minimum bytes of the workload ({:.1f} MB read, {:.1f} MB written, {:.1f} "
      "MB needed)",
      times, *read * 1e-6, *written * 1e-6, p.bytes * 1e-6);
  if (found)
    found->words += "; it " + moved;
  else if (times > 2.0 && counter(p, "dram_pct").value_or(0.0) > idle_pct)
    return Finding{"dram_traffic", 0.15, "memory " + moved};
  return found;
}

Found l2(const Profile& p) {
  auto found = busy(p, "l2", "l2_pct", "L2 is at {:.0f} % of its peak sector rate: it is the limit");
  if (const auto hits = counter(p, "l2_hit_pct"); found && hits)
    found->words += fmt::format(" (hit rate {:.0f} %); larger tiles or multicast reduce L2 traffic", *hits);
  return found;
}

Found shared_memory(const Profile& p) {
  return busy(p, "shared_memory", "shared_pct",
              "the data pipe of L1 and shared memory is at {:.0f} % of its peak: it is the limit. Use wider "
              "accesses, fewer passes, or operands from registers");
}

Found bank_conflicts(const Profile& p) {
  const auto conflicts = counter(p, "bank_conflicts"), all = counter(p, "shared_wavefronts");
  if (!conflicts || !all || *all <= 0.0) return std::nullopt;
  const double share = *conflicts / *all, pipe = counter(p, "shared_pct").value_or(0.0) / 100.0;
  if (share < 0.1 || share * pipe < noted) return std::nullopt;
  return Finding{
      "bank_conflicts", std::min(1.0, share * pipe),
      fmt::format("{:.0f} % of the passes over shared memory are bank conflicts ({:.2g} of them): pad or "
                  "swizzle the rows",
                  100.0 * share, *conflicts)};
}

Found issue_slots(const Profile& p) {
  return busy(
      p, "issue_slots", "issue_pct",
      "the schedulers issue an instruction in {:.0f} % of their cycles: reduce the number of instructions "
      "(wider ones, less address arithmetic, fewer conversions)");
}

Found special_functions(const Profile& p) {
  return busy(
      p, "special_functions", "xu_pct",
      "special functions and conversions are at {:.0f} % of their peak: they are the limit. Use fewer exp2, "
      "or compute some of them as polynomials on the FMA pipe");
}

Found arithmetic_pipes(const Profile& p) {
  auto fma = busy(p, "fma_pipe", "fma_pct", "the FMA pipe is at {:.0f} % of its peak: it is the limit");
  auto alu = busy(p, "alu_pipe", "alu_pct",
                  "the integer and logic pipe is at {:.0f} % of its peak: it is the limit (addresses, masks, "
                  "maxima, packing)");
  if (fma && alu) return fma->weight >= alu->weight ? fma : alu;
  return fma ? fma : alu;
}

std::string lines_words(const KernelProfile& kernel, std::string_view reason) {
  std::vector<std::pair<std::uint64_t, const LineStalls*>> lines;
  for (const LineStalls& line : kernel.lines)
    if (const auto found = line.stalls.find(reason); line.line > 0 && found != line.stalls.end())
      lines.emplace_back(std::max(found->second.samples, found->second.exposed), &line);
  std::stable_sort(lines.begin(), lines.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (lines.size() > 3) lines.resize(3);
  std::string words;
  for (const auto& [samples, line] : lines)
    words += fmt::format("{}{}",
                         words.empty() ? lines.size() > 1 ? ", mostly in lines " : ", mostly in line " : ", ",
                         line->place());
  return words;
}

Found exposed_latency(const Profile& p) {
  const KernelProfile* kernel = main_kernel(p);
  if (kernel == nullptr) return std::nullopt;
  const auto issue = counter(p, "issue_pct"), tensor = counter(p, "tensor_pct");
  const std::vector<StallShare> shares = stall_shares(*kernel);
  if (shares.empty()) return std::nullopt;
  // While the tensor pipe is active, a warp that waits for it costs nothing.
  const double hidden = std::max(issue.value_or(0.0), tensor.value_or(0.0)) / 100.0;
  const double exposed = issue || tensor ? std::clamp(1.0 - hidden, 0.0, 1.0) : 0.5;
  if (exposed < 0.2) return std::nullopt;
  std::string words = issue ? fmt::format(
                                  "latency is exposed: the schedulers have nothing to issue in {:.0f} % of "
                                  "their cycles. Warps wait for",
                                  100.0 - *issue)
                            : std::string("warps wait for");
  int told = 0;
  for (const StallShare& share : shares) {
    if (told == 3 || share.share < 0.1) break;
    const StallReasonWords about = words_of_stall(share.reason);
    words += fmt::format("{} {} ({}, {:.0f} %{})", told++ == 0 ? "" : ";", about.about, share.reason,
                         100.0 * share.share, lines_words(*kernel, share.reason));
  }
  if (told == 0) return std::nullopt;
  if (const auto first = words_of_stall(shares.front().reason); !first.remedy.empty())
    words += fmt::format(". Usual remedy: {}", first.remedy);
  return Finding{"exposed_latency", exposed * 0.9, words};
}

Found few_warps(const Profile& p) {
  const KernelProfile* kernel = main_kernel(p);
  if (kernel == nullptr || kernel->occupancy.blocks == 0) return std::nullopt;
  const Occupancy& o = kernel->occupancy;
  const auto issue = counter(p, "issue_pct"), active = counter(p, "warps_active_pct");
  const double tensor = counter(p, "tensor_pct").value_or(0.0);
  if (o.share > 0.5 || issue.value_or(0.0) >= busy_pct || tensor >= busy_pct) return std::nullopt;
  const int threads = static_cast<int>(kernel->block[0] * kernel->block[1] * kernel->block[2]);
  std::string words = fmt::format(
      "{} block{} of {} threads fit on a multiprocessor: {:.0f} % of its warp slots, limited "
      "by {} ({} registers per thread, {} bytes of shared memory per block)",
      o.blocks, o.blocks == 1 ? "" : "s", threads, 100.0 * o.share, words_of(o.limit), kernel->registers,
      kernel->static_shared_bytes + kernel->dynamic_shared_bytes);
  if (active) words += fmt::format("; on average {:.0f} % were resident", *active);
  return Finding{"occupancy", 0.3 * (1.0 - o.share), words};
}

Found launch_and_tail(const Profile& p) {
  const KernelProfile* kernel = main_kernel(p);
  if (kernel == nullptr || kernel->waves <= 0.0) return std::nullopt;
  const double blocks = static_cast<double>(kernel->grid[0]) * kernel->grid[1] * kernel->grid[2];
  const auto cycles = counter(p, "cycles"), active = counter(p, "cycles_active");
  if (cycles && active && *cycles > 0.0) {  // a measurement takes precedence over the estimate from the grid
    const double idle = 1.0 - *active / *cycles;
    if (idle < noted) return std::nullopt;
    return Finding{
        "tail", idle,
        fmt::format("multiprocessors have no warp for {:.0f} % of the time on average: {:.0f} blocks are "
                    "{:.2f} waves of resident blocks, and some blocks finish earlier than others",
                    100.0 * idle, blocks, kernel->waves)};
  }
  const double lost = 1.0 - kernel->waves / std::ceil(kernel->waves);
  if (lost < noted) return std::nullopt;
  return Finding{
      "tail", lost,
      fmt::format("{:.0f} blocks are {:.2f} waves of resident blocks: up to {:.0f} % of the device "
                  "is idle at the end",
                  blocks, kernel->waves, 100.0 * lost)};
}

Found spills(const Profile& p) {
  const auto loads = counter(p, "local_loads"), stores = counter(p, "local_stores"),
             all = counter(p, "instructions");
  if (loads && stores && all && *all > 0.0) {
    const double share = (*loads + *stores) / *all;
    if (share < 0.005) return std::nullopt;
    return Finding{
        "local_memory", std::min(1.0, 5.0 * share),
        fmt::format("{:.1f} % of the instructions load or store local memory: spilled registers, or "
                    "arrays with indices that are not constant",
                    100.0 * share)};
  }
  const auto spilled = p.resources.find("spill_bytes");
  if (spilled == p.resources.end() || spilled->second <= 0.0) return std::nullopt;
  return Finding{"local_memory", 0.1, fmt::format("{:.0f} bytes of registers are spilled", spilled->second)};
}

Found several_kernels(const Profile& p) {
  double all = 0.0;
  for (const KernelProfile& kernel : p.kernels)
    if (const auto ns = kernel.counters.find("duration_ns"); ns != kernel.counters.end()) all += ns->second;
  const KernelProfile* kernel = main_kernel(p);
  if (p.kernels.size() < 2 || all <= 0.0 || kernel == nullptr) return std::nullopt;
  const double others = 1.0 - kernel->counters.at("duration_ns") / all;
  if (others < noted) return std::nullopt;
  return Finding{
      "several_kernels", others,
      fmt::format("{:.0f} % of the time goes to the plan's other kernels; this report is about '{}'",
                  100.0 * others, kernel->name)};
}

Found clocks(const Profile& p) {
  if (p.throttle.empty()) return std::nullopt;
  std::string words = fmt::format("the clock was slowed ({})", p.throttle);
  if (p.clock_mhz > 0.0) words += fmt::format(": {:.0f} MHz", p.clock_mhz);
  if (p.power_w > 0.0) words += fmt::format(" at {:.0f} W and {:.0f} C", p.power_w, p.temperature_c);
  return Finding{"clock", 0.1, words + ". Less work or less data movement lets the clock rise again"};
}

// For a cpu variant, from its machine code only.
Found narrow_vectors(const Profile& p) {
  const auto resource = [&](const char* name) {
    const auto found = p.resources.find(name);
    return found == p.resources.end() ? std::nullopt : std::optional(found->second);
  };
  const auto bits = resource("widest_vector_bits"), all = resource("instructions"),
             wide = resource("vector_instructions");
  if (!bits || !all || !wide || *all <= 0.0) return std::nullopt;
  if (*bits == 0.0) return Finding{"narrow_vectors", 0.4, "the machine code uses no vector registers"};
  if (*wide / *all >= 0.1) return std::nullopt;
  return Finding{"narrow_vectors", 0.2,
                 fmt::format("only {:.0f} of {:.0f} instructions use {:.0f}-bit registers, the widest in use",
                             *wide, *all, *bits)};
}

std::string where(const HotLoop& loop) {
  if (loop.first_line == 0) return "a loop of " + loop.function;
  std::string lines = loop.first_line == loop.last_line
                          ? fmt::format("line {}", loop.first_line)
                          : fmt::format("lines {} to {}", loop.first_line, loop.last_line);
  return "the innermost loop at " + lines + (loop.file.empty() ? "" : " of " + loop.file);
}

// Functions of the source that take or return vectors ("Dv" in their mangled names) do not work on one
// element.
bool scalar(const std::string& function) {
  return !function.starts_with("_Z") || function.find("Dv") == std::string::npos;
}

Found calls_in_loops(const Profile& p) {
  for (const HotLoop& loop : p.loops) {
    std::vector<std::string> calls = loop.calls;
    std::erase_if(calls, [](const std::string& name) { return moves_blocks(name) || !scalar(name); });
    if (calls.empty()) continue;
    // Beside vectors, a call is made once for many elements, as the logarithm of a row's sum.
    if (loop.vectors > 0)
      return Finding{"scalar_calls", 0.04,
                     fmt::format("{} calls {} once in each pass, beside {} instructions on vectors: tens of "
                                 "cycles, which matter only if its passes are short",
                                 where(loop), fmt::join(calls, ", "), loop.vectors)};
    return Finding{"scalar_calls", 0.7,
                   fmt::format("{} calls {} for each element: a call takes tens of cycles and keeps the loop "
                               "from being vectorized. Write it out on whole vectors (exp: a polynomial, see "
                               "the notes), or move it out of the loop",
                               where(loop), fmt::join(calls, ", "))};
  }
  return std::nullopt;
}

Found scalar_loops(const Profile& p) {
  for (const HotLoop& loop : p.loops) {
    if (loop.scalars == 0 || loop.vectors > 0) continue;
    // The rest of a vectorized loop has the same lines and few elements.
    const bool rest = std::ranges::any_of(p.loops, [&](const HotLoop& other) {
      return other.vectors > 0 && other.file == loop.file && other.first_line <= loop.last_line &&
             loop.first_line <= other.last_line;
    });
    if (!rest)
      return Finding{"scalar_loop", 0.6,
                     fmt::format("{} works on one element at a time: {} floating-point instructions, none on "
                                 "vectors. A sum or maximum of floats is vectorized only if the source has "
                                 "several of them, one for each lane",
                                 where(loop), loop.scalars)};
  }
  return std::nullopt;
}

Found moved_bytes(const Profile& p) {
  const Traffic& t = p.traffic;
  if (t.both_us <= 0.0 || p.median_us <= 0.0) return std::nullopt;
  const bool streamed = t.streamed_us > 0.0 && p.resources.contains("streamed_stores");
  const double share = (streamed ? t.streamed_us : t.both_us) / p.median_us;
  constexpr double kNear = 0.5;
  std::string words = fmt::format(
      "loading its inputs ({:.3g} MB) takes {} here with nothing else to do, storing its outputs "
      "({:.3g} MB) {}, and both {}{}: {:.0f} % of its time",
      t.read_bytes * 1e-6, time_words(t.loads_us), t.written_bytes * 1e-6, time_words(t.stores_us),
      time_words(streamed ? t.streamed_us : t.both_us),
      streamed ? " with stores that bypass the caches, as this kernel has them" : "", 100.0 * share);
  if (t.streamed_us > 0.0 && !streamed)
    words += fmt::format(
        "; with stores that bypass the caches {}. Ordinary stores read each line before they "
        "change it: {:.3g} MB move instead of {:.3g}",
        time_words(t.streamed_us), (t.read_bytes + 2.0 * t.written_bytes) * 1e-6,
        (t.read_bytes + t.written_bytes) * 1e-6);
  constexpr double kPays = 0.95;
  const bool streams = !streamed && t.streamed_us > 0.0 && t.streamed_us < kPays * t.both_us;
  words += share < kNear ? ". Bytes are not the limit yet"
           : streams
               ? ". Bytes are the limit: fewer passes over memory, or stores that bypass the caches for "
                 "outputs that are written once and not read back"
               : ". Bytes are the limit: fewer passes over memory";
  return Finding{share >= kNear ? "dram" : "traffic", share >= kNear ? std::min(1.0, share) : 0.05, words};
}

Found near_the_roof(const Profile& p) {
  if (p.floor_us() <= 0.0 || p.median_us <= 0.0 || p.floor_us() / p.median_us < 0.85) return std::nullopt;
  return Finding{
      "roofline", p.floor_us() / p.median_us,
      "on this workload the time is within 15 % of this device's measured peak: only less work makes it "
      "faster here"};
}

constexpr Rule all_rules[] = {
    {"roofline", near_the_roof},
    {"tensor_pipe", tensor_pipe},
    {"dram", dram},
    {"l2", l2},
    {"shared_memory", shared_memory},
    {"bank_conflicts", bank_conflicts},
    {"issue_slots", issue_slots},
    {"special_functions", special_functions},
    {"arithmetic_pipes", arithmetic_pipes},
    {"exposed_latency", exposed_latency},
    {"occupancy", few_warps},
    {"tail", launch_and_tail},
    {"local_memory", spills},
    {"several_kernels", several_kernels},
    {"clock", clocks},
    {"narrow_vectors", narrow_vectors},
    {"scalar_calls", calls_in_loops},
    {"scalar_loop", scalar_loops},
    {"traffic", moved_bytes},
};

}  // namespace

std::span<const Rule> rules() {
  return all_rules;
}

const KernelProfile* main_kernel(const Profile& p) {
  const KernelProfile* main = nullptr;
  const auto weight = [](const KernelProfile& kernel) {
    const auto ns = kernel.counters.find("duration_ns");
    return ns == kernel.counters.end() ? static_cast<double>(kernel.samples) : ns->second;
  };
  for (const KernelProfile& kernel : p.kernels)
    if (main == nullptr || weight(kernel) > weight(*main)) main = &kernel;
  return main;
}

std::vector<StallShare> stall_shares(const KernelProfile& kernel) {
  std::vector<StallShare> shares;
  double exposed = 0.0, samples = 0.0, ratios = 0.0;
  const auto counts = [](std::string_view reason) {
    return reason != "selected" && reason != "not_selected";
  };
  for (const auto& [reason, count] : kernel.stalls) {
    if (!counts(reason)) continue;
    exposed += static_cast<double>(count.exposed);
    samples += static_cast<double>(count.samples);
  }
  constexpr std::string_view prefix = "stall_";
  for (const auto& [key, value] : kernel.counters)
    if (key.starts_with(prefix) && counts(std::string_view(key).substr(prefix.size()))) ratios += value;
  if (exposed + samples > 0.0) {
    for (const auto& [reason, count] : kernel.stalls)
      if (counts(reason))
        shares.push_back({reason,
                          exposed > 0.0 ? static_cast<double>(count.exposed) / exposed
                                        : static_cast<double>(count.samples) / samples,
                          exposed > 0.0});
  } else if (ratios > 0.0) {
    for (const auto& [key, value] : kernel.counters)
      if (key.starts_with(prefix) && counts(std::string_view(key).substr(prefix.size())))
        shares.push_back({key.substr(prefix.size()), value / ratios, false});
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const StallShare& a, const StallShare& b) { return a.share > b.share; });
  return shares;
}

}  // namespace cultivar

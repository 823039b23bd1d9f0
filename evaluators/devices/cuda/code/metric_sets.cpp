// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/metric_sets.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace cultivar {

namespace {

// Chosen so that the quick set needs one pass on every chip since Ampere (tests/evaluators/devices).
constexpr Counter kCounters[] = {
    {"tensor_pct", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", true, true,
     "% of all cycles in which the tensor pipe is active"},
    {"warps_active_pct", "sm__warps_active.avg.pct_of_peak_sustained_active", true, true,
     "% of the warps that a multiprocessor can hold, while it is active"},
    {"issue_pct", "smsp__issue_active.avg.pct_of_peak_sustained_active", true, true,
     "% of a scheduler's cycles in which it issues an instruction"},
    {"dram_pct", "dram__throughput.avg.pct_of_peak_sustained_elapsed", true, true,
     "% of the peak memory throughput"},
    {"xu_pct", "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active", true, true,
     "% of the peak of special functions and conversions (exp2, rcp)"},
    {"l2_pct", "lts__t_sectors.avg.pct_of_peak_sustained_elapsed", true, true,
     "% of the peak L2 sector rate"},
    {"shared_pct", "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", true, true,
     "% of the peak of the data pipe of L1 and shared memory, conflicts included"},
    {"duration_ns", "gpu__time_duration.sum", true, true, "ns, slower than in timed runs"},
    {"cycles", "sm__cycles_elapsed.max", true, true, "cycles of the slowest multiprocessor"},
    {"cycles_active", "sm__cycles_active.avg", true, true,
     "cycles with at least one warp, averaged over multiprocessors"},
    {"dram_read_bytes", "dram__bytes_read.sum", true, false, "bytes from memory"},
    {"dram_write_bytes", "dram__bytes_write.sum", true, false, "bytes to memory"},
    {"fma_pct", "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active", false, true,
     "% of the peak multiply-add rate"},
    {"alu_pct", "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active", false, true,
     "% of the peak rate of integer and logic instructions"},
    {"l2_hit_pct", "lts__t_sector_hit_rate.pct", false, true, "% of L2 sector accesses that hit"},
    {"bank_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", false, true,
     "extra passes over shared memory because of bank conflicts"},
    {"shared_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", false, true,
     "passes over shared memory, conflicts included"},
    {"instructions", "smsp__inst_executed.sum", false, true, "warp instructions"},
    {"local_loads", "smsp__inst_executed_op_local_ld.sum", false, true, "loads of local memory (spills)"},
    {"local_stores", "smsp__inst_executed_op_local_st.sum", false, true, "stores to local memory (spills)"},
    {"stall_gmma", "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio", false, false,
     "warps stalled for this reason, per instruction issued"},
    {"stall_barrier", "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", false, true, ""},
    {"stall_long_scoreboard", "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
     false, true, ""},
    {"stall_short_scoreboard", "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
     false, true, ""},
    {"stall_wait", "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", false, true, ""},
    {"stall_math_pipe_throttle",
     "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio", false, true, ""},
    {"stall_mio_throttle", "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio", false,
     true, ""},
    {"stall_membar", "smsp__average_warps_issue_stalled_membar_per_issue_active.ratio", false, true, ""},
    {"stall_no_instruction", "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio", false,
     true, ""},
    {"stall_not_selected", "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio", false,
     true, ""},
};

}  // namespace

std::span<const Counter> counters() {
  return kCounters;
}

CounterValues by_key(const std::vector<std::string>& metrics, const std::vector<double>& values) {
  CounterValues result;
  for (const Counter& counter : kCounters)
    for (std::size_t i = 0; i < std::min(metrics.size(), values.size()); ++i)
      if (metrics[i] == counter.metric && std::isfinite(values[i]))
        result[std::string(counter.key)] = values[i];
  return result;
}

namespace {

using Found = std::optional<Finding>;

constexpr StallReasonWords reasons[] = {
    {"gmma", "wgmma results or registers",
     "more wgmma in flight, or softmax of one tile overlapped with the product of another"},
    {"barrier", "other warps at a block-wide barrier",
     "narrower barriers (named, or mbarrier), more even work among warps"},
    {"long_scoreboard", "global or local memory",
     "load earlier (more stages, TMA or cp.async), more loads in flight, fewer bytes"},
    {"short_scoreboard", "shared memory, special functions or other variable-latency units",
     "fewer or wider accesses to shared memory, no bank conflicts, fewer exp2 and conversions"},
    {"wait", "the fixed latency of the previous instruction", "more independent instructions in each warp"},
    {"math_pipe_throttle", "a busy arithmetic pipe", "move work to another pipe, or do less of it"},
    {"mio_throttle", "the queue of shared memory and special functions",
     "fewer or wider shared-memory instructions"},
    {"lg_throttle", "the queue of global and local memory", "wider loads, fewer local accesses, TMA"},
    {"membar", "a memory fence", "fewer or narrower fences"},
    {"no_instruction", "instruction fetch", "a shorter loop body: less unrolling, fewer copies of the code"},
    {"no_instructions", "instruction fetch", "a shorter loop body: less unrolling, fewer copies of the code"},
    {"not_selected", "other warps, which the scheduler selected", "nothing: there are enough warps"},
    {"selected", "nothing: an instruction was issued", "nothing"},
    {"sleeping", "the end of nanosleep", "shorter sleeps, or try_wait of an mbarrier"},
    {"branch_resolving", "a branch's target", "fewer branches in the inner loop"},
    {"branch_resolve", "a branch's target", "fewer branches in the inner loop"},
    {"dispatch_stall", "the dispatcher", "fewer register and pipe conflicts"},
    {"drain", "outstanding stores at exit", "coalesced, wider or earlier stores (TMA)"},
    {"imc_miss", "constants that are not cached", "fewer different constants, or registers"},
    {"tex_throttle", "the texture queue", "fewer texture and surface instructions"},
    {"misc", "something else", ""},
};

// A unit busier than the first value limits the kernel; below the second value it does not.
constexpr double busy_pct = 60.0, idle_pct = 20.0;
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
  if (share < 0.1 || share * pipe < least_noted_share) return std::nullopt;
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
    const StallReasonWords about = cuda_profile_words().of_stall(share.reason);
    words += fmt::format("{} {} ({}, {:.0f} %{})", told++ == 0 ? "" : ";", about.about, share.reason,
                         100.0 * share.share, lines_words(*kernel, share.reason));
  }
  if (told == 0) return std::nullopt;
  if (const auto first = cuda_profile_words().of_stall(shares.front().reason); !first.remedy.empty())
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
    if (idle < least_noted_share) return std::nullopt;
    return Finding{
        "tail", idle,
        fmt::format("multiprocessors have no warp for {:.0f} % of the time on average: {:.0f} blocks are "
                    "{:.2f} waves of resident blocks, and some blocks finish earlier than others",
                    100.0 * idle, blocks, kernel->waves)};
  }
  const double lost = 1.0 - kernel->waves / std::ceil(kernel->waves);
  if (lost < least_noted_share) return std::nullopt;
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
    {"clock", slowed_clock},
};

}  // namespace

const ProfileWords& cuda_profile_words() {
  static const std::vector<CounterWords> known = [] {
    std::vector<CounterWords> all;
    for (const Counter& counter : counters()) all.push_back({counter.key, counter.about});
    return all;
  }();
  static const ProfileWords words{all_rules, known, reasons};
  return words;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/metric_sets.hpp"

#include <algorithm>
#include <cmath>

namespace cultivar {
namespace {

// Chosen so that the quick set needs one pass on every chip since Ampere (tests/evaluators/devices).
constexpr Counter all[] = {
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
  return all;
}

CounterValues by_key(const std::vector<std::string>& metrics, const std::vector<double>& values) {
  CounterValues result;
  for (const Counter& counter : all)
    for (std::size_t i = 0; i < std::min(metrics.size(), values.size()); ++i)
      if (metrics[i] == counter.metric && std::isfinite(values[i]))
        result[std::string(counter.key)] = values[i];
  return result;
}

}  // namespace cultivar

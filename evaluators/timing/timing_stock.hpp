// What the checks and timed runs of one worker share and need not make anew: memory, and facts of the
// workloads alone.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/check/oracle.hpp"
#include "evaluators/check/rows.hpp"
#include "evaluators/timing/stretches.hpp"

namespace cultivar {

struct TimingStock {
  std::shared_ptr<Stretches> stretches = std::make_shared<Stretches>();
  std::map<std::string, std::vector<LegalError>, std::less<>> legal;  // R by workload, over many rows
  std::vector<std::vector<std::byte>> outputs;                        // of the last workload
};

// So many of the layout's rows, drawn without repetition, in ascending order.
std::vector<std::int64_t> draw_rows(const RowLayout&, std::int64_t count, std::uint64_t seed);

// R of a workload: known to the stock or to the library's folder, or else taken from these inputs. It depends
// on the workload and its fills alone, so that one set of inputs serves all, and every worker after this one.
// The library must model the legal roundings.
const std::vector<LegalError>& legal_errors_of(TimingStock&, const OracleLibrary&, const Task&,
                                               const Workload&, const RowLayout&, const Oracle&,
                                               const InputView&, std::uint64_t seed);

}  // namespace cultivar

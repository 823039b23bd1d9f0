#include "evaluators/timing/timing_stock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>

#include "evaluators/check/compare.hpp"

namespace cultivar {
namespace {

// The number of rows for the permitted error of a workload, reduced if the oracle's arithmetic would exceed
// the limit.
constexpr std::int64_t kWiderRows = 512, kLeastWiderRows = 64;
constexpr double kWiderFlops = 3e8;

}  // namespace

std::vector<std::int64_t> draw_rows(const RowLayout& layout, std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 stream(seed);
  std::set<std::int64_t> chosen;
  const std::int64_t wanted = std::min<std::int64_t>(std::max<std::int64_t>(1, count), layout.rows());
  while (static_cast<std::int64_t>(chosen.size()) < wanted)
    chosen.insert(static_cast<std::int64_t>(stream() % static_cast<std::uint64_t>(layout.rows())));
  return {chosen.begin(), chosen.end()};
}

const std::vector<LegalError>& legal_errors_of(TimingStock& stock, const OracleLibrary& library,
                                               const Task& task, const Workload& workload,
                                               const RowLayout& layout, const Oracle& oracle,
                                               const InputView& inputs, std::uint64_t seed) {
  std::string name = fmt::format("{} {}", workload.name, name_of(workload.dtype));
  for (const auto& [dimension, value] : workload.values) name += fmt::format(" {}={}", dimension, value);
  std::vector<LegalError>& known = stock.legal[name];
  if (known.size() == layout.outputs().size()) return known;
  if (known = library.known_legal_errors(name); known.size() == layout.outputs().size()) return known;
  const double row_flops = std::max(1.0, task.flops(workload) / static_cast<double>(layout.rows()));
  const auto affordable = static_cast<std::int64_t>(std::min(1e6, kWiderFlops / row_flops));
  const std::vector<std::int64_t> rows =
      draw_rows(layout, std::clamp(affordable, kLeastWiderRows, kWiderRows), seed);
  const auto of = [&](RowFunction f) { return oracle.rows(f, inputs, rows, layout.row_elements()); };
  known = legal_errors(layout, of(library.exact()), of(library.rounded()));
  library.keep_legal_errors(name, known);
  return known;
}

}  // namespace cultivar

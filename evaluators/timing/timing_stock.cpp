// SPDX-License-Identifier: Apache-2.0
#include "evaluators/timing/timing_stock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>

#include "evaluators/check/compare.hpp"
#include "evaluators/system/random.hpp"

namespace cultivar {
namespace {

// The number of rows for the permitted error of a workload, reduced if the oracle's arithmetic would exceed
// the limit.
constexpr std::int64_t kWiderRows = 512, kLeastWiderRows = 64;
constexpr double kWiderFlops = 3e8;

// How many measurements of a workload share derived inputs, and how many bytes of them are kept.
constexpr int kMostServed = 16;
constexpr std::size_t kMostKeptBytes = std::size_t{8} << 30;

std::string full_name(const Workload& workload) {
  std::string name = fmt::format("{} {}", workload.name, name_of(workload.dtype));
  for (const auto& [dimension, value] : workload.values) name += fmt::format(" {}={}", dimension, value);
  return name;
}

std::size_t bytes_in(const std::vector<std::vector<std::byte>>& tensors) {
  std::size_t bytes = 0;
  for (const auto& tensor : tensors) bytes += tensor.size();
  return bytes;
}

}  // namespace

std::vector<std::int64_t> draw_rows(const RowLayout& layout, std::int64_t count, std::uint64_t seed) {
  return draw_rows(layout, 0.0, 0.0, count, count, seed);
}

std::vector<std::int64_t> draw_rows(const RowLayout& layout, double flops, double oracle_flops,
                                    std::int64_t least, std::int64_t most, std::uint64_t seed) {
  std::mt19937_64 stream(seed);
  std::set<std::int64_t> chosen;
  for (const RowGroup& group : layout.groups()) {
    const double row_flops = std::max(1.0, flops / static_cast<double>(group.rows));
    const auto affordable = static_cast<std::int64_t>(std::min(1e6, oracle_flops / row_flops));
    const std::size_t before = chosen.size();
    const auto wanted = static_cast<std::size_t>(
        std::clamp<std::int64_t>(std::min(most, std::max(least, affordable)), 1, group.rows));
    while (chosen.size() - before < wanted)
      chosen.insert(group.first +
                    static_cast<std::int64_t>(stream() % static_cast<std::uint64_t>(group.rows)));
  }
  return {chosen.begin(), chosen.end()};
}

const std::vector<LegalError>& legal_errors_of(TimingStock& stock, const TaskReference& library,
                                               const Task& task, const Workload& workload,
                                               const RowLayout& layout, const Oracle& oracle,
                                               const InputView& inputs, std::uint64_t seed) {
  const std::string name = full_name(workload);
  std::vector<LegalError>& known = stock.legal[name];
  if (known.size() == layout.outputs().size()) return known;
  if (known = library.known_legal_errors(name); known.size() == layout.outputs().size()) return known;
  const std::vector<std::int64_t> rows =
      draw_rows(layout, task.flops(workload), kWiderFlops, kLeastWiderRows, kWiderRows, seed);
  const auto of = [&](RowFunction f) { return oracle.rows(f, inputs, rows); };
  known = legal_errors(layout, rows, of(library.exact()), of(library.rounded()));
  library.keep_legal_errors(name, known);
  return known;
}

std::shared_ptr<const Inputs> kept_inputs(TimingStock& stock, const TaskReference& library, const Task& task,
                                          const Workload& workload, std::uint64_t seed) {
  if (!task.derived) return nullptr;
  const std::string name = full_name(workload);
  auto kept = std::ranges::find(stock.kept, name, &KeptInputs::workload);
  if (kept != stock.kept.end() && kept->served == kMostServed) {
    stock.kept.erase(kept);
    kept = stock.kept.end();
  }
  const auto inputs = std::make_shared<Inputs>();
  if (kept == stock.kept.end()) {
    *inputs = make_inputs(&library, task, workload, derive_seed(seed, "kept"));
    std::size_t next = 0;
    for (const TensorSpec& tensor : task.tensors) {
      if (tensor.role != Role::input) continue;
      if (!task.is_derived(tensor.name) && !std::ranges::count(task.derived->from, tensor.name))
        inputs->bytes[next].clear();
      ++next;
    }
    stock.kept.push_back({name, inputs->bytes, 1});
    std::size_t bytes = 0;
    for (const KeptInputs& each : stock.kept) bytes += bytes_in(each.bytes);
    for (; bytes > kMostKeptBytes && stock.kept.size() > 1; stock.kept.pop_front())
      bytes -= bytes_in(stock.kept.front().bytes);
    return inputs;
  }
  ++kept->served;
  inputs->bytes = kept->bytes;
  decode_inputs(task, workload, *inputs);
  return inputs;
}

}  // namespace cultivar

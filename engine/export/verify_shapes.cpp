// SPDX-License-Identifier: Apache-2.0
#include "engine/export/verify_shapes.hpp"

#include <algorithm>
#include <iterator>

#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/drawn_shapes.hpp"
#include "evaluators/task/make_workload.hpp"

namespace cultivar {
namespace {

constexpr double kSmallBytes = 1 << 20;  // of all tensors: such a run takes milliseconds
constexpr std::size_t kDrawn = 1;

double bytes_of(const Task& task, const Workload& workload) {
  double bytes = 0.0;
  for (const TensorSpec& tensor : task.tensors) bytes += static_cast<double>(task.bytes_of(tensor, workload));
  return bytes;
}

// The shapes of one specialization.
class ShapeSearch {
 public:
  ShapeSearch(const LauncherInput& input, const Specialisation& specialisation)
      : task_(input.task), variant_(input.variant), input_(input), specialisation_(specialisation) {}

  bool fits(const Workload& workload) const {
    return workload.dtype == input_.workloads.front().dtype && claims(variant_, task_, workload) &&
           macros(variant_, task_, workload) == specialisation_.macros &&
           check_constraints(variant_, task_, workload, input_.facts).has_value();
  }

  // The same specialization with smaller dimensions, odd ones if the kernel claims them.
  Workload shrunk(Workload workload) const {
    for (const Dimension& dimension : task_.dimensions)
      for (const double size :
           {5.0, 7.0, 33.0, 65.0, 129.0, 257.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0}) {
        if (size >= workload.values.at(dimension.name)) continue;
        Bindings given = given_values(task_, workload);
        given[dimension.name] = size;
        auto made = make_workload(task_, given, workload.dtype, true);
        if (!made || !fits(*made)) continue;
        workload = std::move(*made);
        break;
      }
    return workload;
  }

  // One of the stress shapes comes first, if there is any.
  std::vector<VerifyShape> shapes(std::size_t kernel) const {
    std::vector<VerifyShape> chosen;
    const auto add = [&](const Workload& workload, bool stressed) {
      if (chosen.size() < kVerifyShapes && std::ranges::none_of(chosen, [&](const VerifyShape& known) {
            return known.workload.values == workload.values;
          }))
        chosen.push_back({kernel, specialisation_.suffix, workload, stressed});
    };
    for (const Workload& shape : claimed_shapes(task_, Stage::stress, variant_))
      if (chosen.empty() && fits(shape)) add(shape, true);
    std::vector<Workload> listed;
    for (const Workload& shape : every_claimed_shape(task_, variant_))
      if (fits(shape) && bytes_of(task_, shape) <= kSmallBytes) listed.push_back(shape);
    for (const auto* workloads : {&input_.workloads, &input_.covered})
      for (const Workload& workload : *workloads)
        if (fits(workload)) listed.push_back(shrunk(workload));
    std::ranges::stable_sort(listed, {}, [&](const Workload& w) { return bytes_of(task_, w); });
    const ShapeLimits limits{limits_of(task_, listed, 1.0).flops,
                             std::max(kSmallBytes, bytes_of(task_, listed.front()))};
    for (const Workload& drawn : draw_shapes(task_, variant_, listed, limits, kDrawn, 33,
                                             [&](const Workload& shape) { return fits(shape); }))
      add(drawn, false);
    // The largest of the listed ones has several tiles, the smallest perhaps a part of one.
    for (const Workload* each : {&listed.back(), &listed.front(), &listed[listed.size() / 2]})
      add(*each, false);
    return chosen;
  }

 private:
  const Task& task_;
  const Variant& variant_;
  const LauncherInput& input_;
  const Specialisation& specialisation_;
};

}  // namespace

std::vector<VerifyShape> verify_shapes(const LauncherInput& input, const std::vector<Specialisation>& served,
                                       std::size_t kernel) {
  std::vector<VerifyShape> all;
  for (const Specialisation& each : served)
    std::ranges::move(ShapeSearch(input, each).shapes(kernel), std::back_inserter(all));
  return all;
}

}  // namespace cultivar

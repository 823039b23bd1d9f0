// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/exactness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evaluators/judge/contender_side.hpp"
#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/system/secret.hpp"

namespace cultivar {
namespace {

// Sets of inputs for each distribution, by shape. Their number is odd, for the median.
constexpr std::uint64_t kDraws[most_shapes_for_errors] = {2, 1};
constexpr double kFlopsOfASet = 1e7;  // limit for one of them; of larger shapes, blocks of rows
constexpr double kMost = 1e9;         // of a contender whose values are not finite
constexpr const char* kOrdinary = "ordinary";

// One side's errors on one distribution.
class Tally {
 public:
  void add(const std::vector<OutputErrors>& outputs) {
    double rms = 0.0, allowed = 0.0;
    for (const OutputErrors& o : outputs) {
      wrong_ += o.wrong, integers_ += o.integers;
      rms = std::max(rms, std::min(kMost, o.error.rms / o.legal.rms));
      max_ = std::max(max_, std::min(kMost, o.error.max / o.legal.max));
      allowed = std::max(allowed, std::min(kMost, o.error.rms / (o.legal.rms + o.floor.rms)));
    }
    square_sum_ += rms * rms;
    allowed_.push_back(allowed);
  }
  bool empty() const { return allowed_.empty(); }
  RelativeError error() const {
    return {std::sqrt(square_sum_ / static_cast<double>(allowed_.size())), max_, wrong_, integers_};
  }
  double of_allowed() const { return median(allowed_); }

 private:
  double square_sum_ = 0.0, max_ = 0.0;
  std::int64_t wrong_ = 0, integers_ = 0;
  std::vector<double> allowed_;
};

struct Subject {
  std::string name;
  const Compiled* compiled;
  std::unique_ptr<Session> session = {};  // null: it does not take the current shape
};

std::vector<Workload> shapes_of(const Task& task, const EvaluateRequest& request) {
  std::vector<Workload> shapes = shapes_for_errors(task, request.variant.variant, request.workloads);
  std::erase_if(shapes, [&](const Workload& w) {
    return request.variant.binary(macros(request.variant.variant, task, w)) == nullptr;
  });
  if (shapes.size() > most_shapes_for_errors) shapes.resize(most_shapes_for_errors);
  return shapes;
}

}  // namespace

std::vector<Exactness> measure_exactness(const CascadeSite& site, const EvaluateRequest& request,
                                         std::uint64_t seed) {
  const Task& task = site.task;
  const std::vector<Workload> shapes = shapes_of(task, request);  // outlives the sessions, which refer to it
  std::vector<Subject> subjects;
  subjects.push_back({"", &request.variant});
  for (const auto& [name, contender] : request.contenders) subjects.push_back({name, &contender});
  std::vector<std::pair<std::string, const std::map<std::string, Fill>*>> distributions;
  static const std::map<std::string, Fill> plain;
  distributions.emplace_back(kOrdinary, &plain);
  for (const StressCase& stress : task.stress) distributions.emplace_back(stress.name, &stress.fills);

  std::vector<std::map<std::string, Tally>> tallies(distributions.size());
  std::uint64_t run = 0;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    const Workload& shape = shapes[s];
    for (Subject& each : subjects) {
      each.session.reset();
      if (!each.compiled->is_library() &&
          (!claims(each.compiled->variant, task, shape) ||
           each.compiled->binary(macros(each.compiled->variant, task, shape)) == nullptr))
        continue;
      if (auto opened = open_side(site, Stage::stress, *each.compiled, shape))
        each.session = std::move(*opened);
    }
    const RowLayout layout(task, shape);
    Oracle oracle(site.oracle, task, shape, cores_of(site.device.facts()));
    std::vector<std::vector<std::byte>> outputs;
    for (std::size_t d = 0; d < distributions.size(); ++d) {
      site.progress({Stage::stress, {}, fmt::format("exactness {} {}", shape.name, distributions[d].first)});
      for (std::uint64_t draw = 0; draw < kDraws[s]; ++draw, ++run) {
        const Inputs inputs = make_inputs(&site.oracle, task, shape, derive_seed(seed, "inputs", run),
                                          *distributions[d].second);
        const std::vector<std::int64_t> rows =
            rows_to_check(task, shape, layout, kFlopsOfASet, derive_seed(seed, "rows", run));
        const auto of = [&](RowFunction f) { return oracle.rows(f, inputs.view(), rows); };
        const std::vector<double> exact = of(site.oracle.exact());
        const std::vector<double> rounded =
            site.oracle.rounded() == nullptr ? exact : of(site.oracle.rounded());
        for (Subject& each : subjects) {
          if (!each.session) continue;
          size_outputs(task, shape, outputs);
          RunOptions options;
          options.deadline_s = site.run_deadline_s;
          options.poison_seed = derive_seed(seed, "poison", run);
          ExpectedRows expected{rows, exact, {}};
          expected.right_indices = oracle.index_rule(inputs.view());
          if (each.session->run(inputs.bytes, outputs, options))
            tallies[d][each.name].add(output_errors(task, layout, outputs, expected, rounded));
          else
            each.session.reset();
        }
      }
    }
  }
  std::vector<Exactness> all;
  for (std::size_t d = 0; d < distributions.size(); ++d) {
    Exactness one{distributions[d].first, {}};
    for (const auto& [name, tally] : tallies[d])
      if (name.empty())
        one.error = tally.error(), one.of_allowed = tally.of_allowed();
      else
        one.contenders[name] = tally.error();
    if (tallies[d].contains("")) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/controls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <sstream>
#include <string_view>

#include "evaluators/check/compare.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/random.hpp"

namespace cultivar {
namespace {

constexpr std::uint64_t kSeed = 20;         // fixed, so that a task is always checked the same way
constexpr double kOracleFlops = 2e7;        // for each control and shape
constexpr std::size_t kShapesPerDtype = 2;  // for the built-in controls

// Calls use(index of the value, position in the output tensor) for each element of these rows.
template <class Use>
void for_each_element(const RowLayout& layout, const OutputLayout& output,
                      const std::vector<std::int64_t>& rows, const Use& use) {
  const RowSpan span = layout.span_of(output, rows);
  std::size_t value = span.value + output.first_element;
  for (std::size_t i = span.first; i < span.last; ++i) {
    for (std::size_t e = 0; e < output.element_offsets.size(); ++e)
      use(value + e, layout.base(output, rows[i]) + output.element_offsets[e]);
    value += static_cast<std::size_t>(layout.group(output).elements);
  }
}

// Converts oracle rows to the layout of a variant's output tensors.
std::vector<std::vector<std::byte>> as_outputs(const RowLayout& layout, const std::vector<std::int64_t>& rows,
                                               const std::vector<double>& values) {
  std::vector<std::vector<std::byte>> outputs;
  for (const OutputLayout& output : layout.outputs()) {
    std::vector<double> tensor(static_cast<std::size_t>(output.elements));
    for_each_element(layout, output, rows, [&](std::size_t at, std::int64_t flat) {
      tensor[static_cast<std::size_t>(flat)] = values[at];
    });
    outputs.emplace_back(tensor.size() * size_of(output.dtype));
    encode(output.dtype, tensor, outputs.back());
  }
  return outputs;
}

// One check shape with its inputs and expected rows.
class Bed {
 public:
  Bed(const Task& task, const TaskReference& library, const Workload& workload, const StressCase* stress,
      int threads)
      : task_(task),
        library_(library),
        workload_(workload),
        name_(stress == nullptr ? workload.name : fmt::format("{} ({})", workload.name, stress->name)),
        layout_(task, workload),
        oracle_(library, task, workload, threads),
        rows_(rows_to_check(task, workload, layout_, kOracleFlops, kSeed)),
        inputs_(stress == nullptr ? make_inputs(&library, task, workload, kSeed)
                                  : make_inputs(&library, task, workload, kSeed, stress->fills)),
        exact_(rows_of(library.exact())) {
    if (library.rounded() != nullptr) rounded_ = rows_of(library.rounded());
  }

  std::vector<double> rows_of(RowFunction f) const { return oracle_.rows(f, inputs_.view(), rows_); }
  std::vector<double> rows_of_other_inputs() const {
    const Inputs other = make_inputs(&library_, task_, workload_, kSeed + 1);
    return oracle_.rows(library_.exact(), other.view(), rows_);
  }
  Comparison judge(std::span<const std::vector<std::byte>> outputs) const {
    ExpectedRows expected{rows_, exact_, {}};
    expected.right_indices = oracle_.index_rule(inputs_.view());
    if (!rounded_.empty()) expected.rounded = [this] { return rounded_; };
    return compare(task_, layout_, outputs, expected);
  }
  bool refuses(const std::vector<double>& values) const {
    return !judge(as_outputs(layout_, rows_, values)).right;
  }
  std::vector<std::vector<std::byte>> right_outputs() const { return as_outputs(layout_, rows_, exact_); }

  // Applies `change(value)` only to the elements of output `t`.
  template <class Change>
  std::vector<double> changed(std::size_t t, const Change& change) const {
    std::vector<double> values = exact_;
    for_each_element(layout_, layout_.outputs()[t], rows_,
                     [&](std::size_t at, std::int64_t) { values[at] = change(values[at], at); });
    return values;
  }

  // Where the two references differ by far more than roundings; empty if nowhere.
  std::string difference_of_references() const;

  const RowLayout& layout() const { return layout_; }
  const Inputs& inputs() const { return inputs_; }
  const Workload& workload() const { return workload_; }
  const std::vector<double>& exact() const { return exact_; }
  const std::string& name() const { return name_; }

 private:
  const Task& task_;
  const TaskReference& library_;
  Workload workload_;
  std::string name_;
  RowLayout layout_;
  Oracle oracle_;
  std::vector<std::int64_t> rows_;
  Inputs inputs_;
  std::vector<double> exact_, rounded_;
};

// Of the rms of an output. Rounding to 8-bit floating types is off by about a fortieth; sums of products that
// nearly cancel may lose a little more to bf16.
constexpr double kMostRounding = 0.1, kMostUnits = 4.0;

std::string Bed::difference_of_references() const {
  if (rounded_.empty()) return {};
  for (const OutputLayout& output : layout_.outputs()) {
    if (!is_floating(output.dtype)) continue;
    double errors = 0.0, sizes = 0.0, largest = 0.0;
    const auto error_at = [&](std::size_t at) {
      const double error = std::abs(rounded_[at] - exact_[at]);
      return std::isfinite(error) ? error : 0.0;
    };
    for_each_element(layout_, output, rows_, [&](std::size_t at, std::int64_t) {
      if (std::isfinite(exact_[at])) sizes += exact_[at] * exact_[at];
      errors += error_at(at) * error_at(at);
      largest = std::max(largest, error_at(at));
    });
    const double share = std::sqrt(errors / sizes);
    if (!(share > std::max(kMostRounding, kMostUnits * epsilon_of(workload_.dtype)))) continue;
    std::string first;
    for_each_element(layout_, output, rows_, [&](std::size_t at, std::int64_t flat) {
      if (first.empty() && error_at(at) > 0.5 * largest)
        first =
            fmt::format("{}: {:.9g} and {:.9g}", layout_.describe(output, flat), exact_[at], rounded_[at]);
    });
    return fmt::format("first at {} (rms difference {:.2g} of the rms of {})", first, share, output.name);
  }
  return {};
}

tl::unexpected<Error> passes(const Task& task, const std::string& control, const std::string& where) {
  return failure(
      "controls",
      fmt::format(
          "task {} cannot detect wrong outputs: its checks accept {} on {}. Tighten `tolerance` in {}, or "
          "choose fills that reveal the error.",
          task.name, control, where, (task.folder / "task.yaml").string()));
}

// Whether an input's bytes are taken for output `t`.
bool takes_copy(const Bed& bed, std::size_t t, std::size_t input) {
  std::vector<std::vector<std::byte>> outputs = bed.right_outputs();
  if (outputs[t].size() != bed.inputs().bytes[input].size()) return false;
  outputs[t] = bed.inputs().bytes[input];
  return bed.judge(outputs).right;
}

// `stressed`: beds of the same dtype with the task's stress cases, made when the plain one does not suffice:
// relu of positive numbers is a copy.
using Stressed = std::function<bool(const std::function<bool(const Bed&)>& refuses)>;

Expected<void> check_built_in(const Task& task, const Bed& bed, const Stressed& stressed) {
  if (const std::string where = bed.difference_of_references(); !where.empty())
    return failure("controls",
                   fmt::format("reference_row and reference_row_rounded of task {} differ by far more than "
                               "roundings on {}, {}: one of them forgets or adds something; correct {}",
                               task.name, bed.name(), where, task.reference.string()));
  if (const Comparison honest = bed.judge(bed.right_outputs()); !honest.right)
    return failure("controls",
                   fmt::format("task {} rejects its own oracle, rounded to the outputs' types, on {}: {}\n{}",
                               task.name, bed.name(), honest.reason, honest.diagnostics));
  const std::vector<double> other = bed.rows_of_other_inputs();
  for (std::size_t t = 0; t < bed.layout().outputs().size(); ++t) {
    const OutputLayout& output = bed.layout().outputs()[t];
    double sum = 0.0, least = INFINITY, greatest = -INFINITY;
    std::int64_t count = 0;
    bool any_number = false;
    bed.changed(t, [&](double v, std::size_t) {
      any_number |= !std::isnan(v);
      if (std::isfinite(v)) sum += v, ++count, least = std::min(least, v), greatest = std::max(greatest, v);
      return v;
    });
    const double mean = count > 0 ? sum / static_cast<double>(count) : 0.0;
    const auto accepts = [&](const char* what) {
      return passes(task, fmt::format("{} for {}", what, output.name), bed.name());
    };
    if (!any_number)
      return failure(
          "controls",
          fmt::format("reference_row of task {} gives only NaN for {} on {}: correct {} (args.number "
                      "of an unknown name is NaN)",
                      task.name, output.name, bed.name(), task.reference.string()));
    if (!bed.refuses(bed.changed(t, [](double, std::size_t) { return 0.0; }))) return accepts("zeros");
    if (least < greatest && !bed.refuses(bed.changed(t, [&](double, std::size_t) { return mean; })))
      return accepts("the mean of the output in every element");
    if (!bed.refuses(bed.changed(t, [&](double, std::size_t at) { return other[at]; })))
      return accepts("the output of other inputs");
    if (is_floating(output.dtype) &&
        !bed.refuses(bed.changed(t, [](double v, std::size_t) { return round_to_fp8(v); })))
      return accepts("the correct output rounded to fp8");
    std::size_t input = 0;
    for (const TensorSpec& tensor : task.tensors) {
      if (tensor.role != Role::input) continue;
      const std::size_t index = input++;
      if (task.dtype(tensor, bed.workload()) != output.dtype ||
          task.shape(tensor, bed.workload()) != output.shape)
        continue;
      if (takes_copy(bed, t, index) &&
          !stressed([&](const Bed& stress) { return !takes_copy(stress, t, index); }))
        return accepts(fmt::format("a copy of {}", tensor.name).c_str());
    }
  }
  return {};
}

bool applies(const Task& task, const Control& control, const Workload& workload) {
  if (!control.when) return true;
  const Expected<double> holds = control.when->evaluate(task.bindings(workload));
  return holds && *holds != 0.0;
}

// On a check shape in any dtype of the task, also in those that only another target has.
bool applies_somewhere(const Task& task, const Control& control) {
  for (const auto* shapes : {&task.smoke, &task.sweep, &task.stress_shapes, &task.edge})
    for (Workload shape : *shapes)
      for (const Dtype dtype : task.dtypes) {
        shape.dtype = dtype;
        if (applies(task, control, shape)) return true;
      }
  return false;
}

// The name of the control that this line declares or calls; empty if there is none.
std::string control_in(const std::string& line) {
  constexpr std::string_view kPrefix = "control_";
  const auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  const std::size_t at = line.find(kPrefix);
  if (at == std::string::npos || (at > 0 && in_name(line[at - 1]))) return {};
  const auto name = line.begin() + static_cast<std::ptrdiff_t>(at + kPrefix.size());
  const auto end = std::find_if_not(name, line.end(), in_name);
  const auto next = std::find_if(end, line.end(), [](char c) { return c != ' '; });
  return next != line.end() && *next == '(' ? std::string(name, end) : std::string();
}

// A wrong kernel that the reference defines, but that task.yaml does not list, would never be tried.
Expected<void> check_all_listed(const Task& task, const TaskReference& library) {
  const auto& file = task.reference;
  std::istringstream text(read_file(file).value_or(""));
  std::size_t number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    const std::string name = control_in(line);
    if (name.empty() || std::ranges::find(task.controls, name, &Control::name) != task.controls.end() ||
        library.control(name) == nullptr)
      continue;
    return failure("controls",
                   fmt::format("{}:{}: control_{} is not listed in {}, so it would never be tried: add "
                               "`{}: {{about: \"what is wrong with it\"}}` to `controls` there, or remove "
                               "this function",
                               file.string(), number, name, (task.folder / "task.yaml").string(), name));
  }
  return {};
}

std::string names_of(const std::vector<Dtype>& dtypes) {
  std::string names;
  for (const Dtype dtype : dtypes) names += (names.empty() ? "" : ", ") + std::string(name_of(dtype));
  return names;
}

}  // namespace

double round_to_fp8(double value) {
  if (!std::isfinite(value) || value == 0.0) return value;
  const int exponent = std::max(std::ilogb(value), -6);
  const double step = std::ldexp(1.0, exponent - 3);
  return std::copysign(std::min(std::abs(std::nearbyint(value / step) * step), 448.0), value);
}

namespace {

using Step = std::function<void(const std::string&)>;

// The check shapes of the first stages, cheapest first.
std::vector<Workload> cheap_shapes(const Task& task, Target target) {
  std::vector<Workload> shapes;
  for (const Stage stage : {Stage::smoke, Stage::sweep})
    for (Workload& w : check_shapes(task, stage, target)) shapes.push_back(std::move(w));
  std::stable_sort(shapes.begin(), shapes.end(),
                   [&](const Workload& a, const Workload& b) { return task.flops(a) < task.flops(b); });
  return shapes;
}

void tell(const Step& step, const Task& task, const std::string& function, const std::string& where) {
  if (step) step(fmt::format("{} of {} on {}", function, task.reference.string(), where));
}

// The check shapes in this dtype on which the comparison accepts a control; nullopt: on one it does not.
std::optional<std::string> accepted_on(const Task& task, const TaskReference& library, const Control& control,
                                       RowFunction wrong, Dtype dtype, Target target, int threads,
                                       const Step& step) {
  std::string accepted;
  bool refused = false;
  const auto try_on = [&](const Workload& w, const StressCase* stress) {
    if (refused || w.dtype != dtype || !applies(task, control, w)) return;
    tell(step, task, "control_" + control.name, w.name);
    const Bed bed(task, library, w, stress, threads);
    refused = bed.refuses(bed.rows_of(wrong));
    if (!refused) accepted += (accepted.empty() ? "" : ", ") + bed.name();
  };
  for (const Workload& w : cheap_shapes(task, target)) try_on(w, nullptr);
  for (const Workload& w : check_shapes(task, Stage::edge, target)) try_on(w, nullptr);
  for (const Workload& w : check_shapes(task, Stage::stress, target))
    for (const StressCase& stress : task.stress) try_on(w, &stress);
  if (refused) return std::nullopt;
  return accepted;
}

}  // namespace

std::vector<std::string> undetected_controls(const Task& task, const TaskReference& library, Target target,
                                             int threads, const Step& step) {
  std::vector<std::string> names;
  for (const Control& control : task.controls)
    for (const Dtype dtype : target->dtypes) {
      if (std::ranges::find(task.dtypes, dtype) == task.dtypes.end()) continue;
      const RowFunction wrong = library.control(control.name);
      if (wrong != nullptr &&
          !accepted_on(task, library, control, wrong, dtype, target, threads, step).has_value())
        continue;
      names.push_back(control.name);
      break;
    }
  return names;
}

Expected<void> check_controls(const Task& task, const TaskReference& library, Target target, int threads,
                              const Step& step) {
  const std::vector<Workload> shapes = cheap_shapes(task, target);
  if (shapes.empty())
    return failure("controls",
                   fmt::format("task {} has no check shape in a dtype that the target {} supports", task.name,
                               name_of(target)));
  for (const Dtype dtype : target->dtypes) {
    const Stressed stressed = [&](const std::function<bool(const Bed&)>& refuses) {
      for (const Workload& w : check_shapes(task, Stage::stress, target))
        for (const StressCase& stress : task.stress)
          if (w.dtype == dtype && refuses(Bed(task, library, w, &stress, threads))) return true;
      return false;
    };
    std::size_t tried = 0;
    for (const Workload& w : shapes) {
      if (w.dtype != dtype || tried == kShapesPerDtype) continue;
      ++tried;
      tell(step, task, "the exact rows", w.name);
      if (auto ok = check_built_in(task, Bed(task, library, w, nullptr, threads), stressed); !ok) return ok;
    }
    if (tried == 0) continue;
    for (const Control& control : task.controls) {
      const RowFunction wrong = library.control(control.name);
      if (wrong == nullptr)
        return failure("controls", fmt::format("{}: the reference does not define the control '{}' (write "
                                               "`{}` in {}, which computes the wrong "
                                               "values; or remove the control)",
                                               control.place, control.name,
                                               library.program().declaration_of("control_" + control.name),
                                               task.reference.string()));
      const auto accepted = accepted_on(task, library, control, wrong, dtype, target, threads, step);
      if (!accepted) continue;
      if (accepted->empty() && applies_somewhere(task, control)) continue;  // in another dtype
      if (accepted->empty())
        return failure(
            "controls",
            fmt::format("{}: the control '{}' is not wrong on any check shape: its `when`, \"{}\", "
                        "holds on none, in none of the task's dtypes ({}): correct it, or add a shape to "
                        "`sweep` on which it holds",
                        control.place, control.name, control.when->text(), names_of(task.dtypes)));
      return passes(task, fmt::format("the wrong kernel '{}' ({})", control.name, control.about), *accepted);
    }
  }
  return check_all_listed(task, library);
}

}  // namespace cultivar

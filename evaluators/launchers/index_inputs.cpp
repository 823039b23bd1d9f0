// SPDX-License-Identifier: Apache-2.0
#include "evaluators/launchers/index_inputs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "evaluators/launchers/cpp_expression.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

// From `least` to `most` - 1, and perhaps another value.
struct Interval {
  Expression least, end;
  std::optional<Expression> instead;
};

Expression number_of(const std::optional<Expression>& of, double value) {
  return of ? *of : Expression::constant(value);
}

std::string extent_of(const Fill& fill, const TensorSpec& tensor) {
  if (fill.axis == kAllAxes) return fmt::format("{}", fmt::join(tensor.shape, " * "));
  const int rank = static_cast<int>(tensor.shape.size());
  return tensor.shape.at(static_cast<std::size_t>(fill.axis < 0 ? fill.axis + rank : fill.axis));
}

std::optional<Interval> interval_of(const Fill& fill, const TensorSpec& tensor) {
  const Expression a = number_of(fill.a_of, fill.a), b = number_of(fill.b_of, fill.b);
  const auto parsed = [](const std::string& text) {
    return Expression::parse(text).value_or(Expression::constant(0.0));
  };
  switch (fill.kind) {
    case Fill::Kind::integers:
      return Interval{
          a, b, fill.share > 0 ? std::optional(number_of(fill.instead_of, fill.instead)) : std::nullopt};
    case Fill::Kind::permutation: {
      const std::string extent = extent_of(fill, tensor), less = " - " + extent;
      std::string shown = a.text();  // N - B * M and B * M more are N
      if (shown.ends_with(less))
        shown.resize(shown.size() - less.size());
      else
        shown = shown == "0" ? extent : "(" + shown + ") + " + extent;
      return Interval{a, parsed(shown), {}};
    }
    case Fill::Kind::lengths:
      return Interval{a, parsed("(" + b.text() + ") + 1"), {}};
    case Fill::Kind::offsets:
      return Interval{Expression::constant(0.0), parsed("(" + b.text() + ") + 1"), {}};
    default:
      return std::nullopt;
  }
}

// Every workload of the task, or those for which all stress cases are made.
std::vector<Bindings> workloads_of(const Task& task, bool stressed) {
  std::vector<Bindings> all;
  const auto add = [&](const std::vector<Workload>& workloads) {
    for (const Workload& workload : workloads) all.push_back(task.bindings(workload));
  };
  add(task.stress_shapes);
  if (stressed && !all.empty()) return all;
  for (const auto* each : {&task.smoke, &task.sweep, &task.edge}) add(*each);
  for (const WorkloadSet& set : task.workload_sets) add(set.workloads);
  return all;
}

// Whether every value of one is a value of the other, in all these workloads.
bool is_inside(const std::vector<Bindings>& workloads, const Interval& one, const Interval& other) {
  if (one.instead && !(other.instead && one.instead->text() == other.instead->text())) return false;
  return std::ranges::all_of(workloads, [&](const Bindings& values) {
    const auto least = one.least.evaluate(values), end = one.end.evaluate(values);
    const auto other_least = other.least.evaluate(values), other_end = other.end.evaluate(values);
    return least && end && other_least && other_end && *least >= *other_least && *end <= *other_end;
  });
}

// Those of the plain fill and of the stress cases, without those that another contains.
std::vector<Interval> intervals_of(const Task& task, const TensorSpec& tensor) {
  std::vector<Interval> all;
  const std::vector<Bindings> every = workloads_of(task, false), stressed = workloads_of(task, true);
  const auto add = [&](const Fill& fill, const std::vector<Bindings>& workloads) {
    const auto made = interval_of(fill, tensor);
    if (!made ||
        std::ranges::any_of(all, [&](const Interval& known) { return is_inside(workloads, *made, known); }))
      return;
    std::erase_if(all, [&](const Interval& known) { return is_inside(every, known, *made); });
    all.push_back(*made);
  };
  add(tensor.fill, every);
  for (const StressCase& stress : task.stress)
    if (const auto found = stress.fills.find(tensor.name); found != stress.fills.end())
      add(found->second, stressed);
  return all;
}

std::string one_less(const Expression& end) {
  const auto value = end.names().empty() ? end.evaluate({}) : Expected<double>(tl::make_unexpected(Error{}));
  if (value) return fmt::format("{}", *value - 1.0);
  const std::string& text = end.text();
  constexpr std::string_view more = " + 1";
  std::string less = text.ends_with(more) ? text.substr(0, text.size() - more.size()) : text + " - 1";
  if (less.starts_with('(') && less.find('(', 1) == std::string::npos && less.ends_with(')'))
    less = less.substr(1, less.size() - 2);
  return less;
}

std::string words_of(const Task& task, const TensorSpec& tensor) {
  std::vector<std::string> words, others;
  for (const Interval& each : intervals_of(task, tensor)) {
    words.push_back(fmt::format("from {} to {}", each.least.text(), one_less(each.end)));
    if (each.instead && std::ranges::find(others, each.instead->text()) == others.end())
      others.push_back(each.instead->text());
  }
  words.insert(words.end(), others.begin(), others.end());
  std::string text = fmt::format("{}", fmt::join(words, ", or "));
  const Fill& fill = tensor.fill;
  const std::string along = fill.axis == kAllAxes ? "" : " along " + extent_of(fill, tensor);
  const bool always = std::ranges::none_of(task.stress, [&](const StressCase& stress) {
    const auto found = stress.fills.find(tensor.name);
    return found != stress.fills.end() && found->second.kind != fill.kind;
  });
  if (fill.kind == Fill::Kind::permutation && always) text += ", each once" + along;
  if (fill.kind == Fill::Kind::lengths && always)
    text += fmt::format(", with the sum {}{}", number_of(fill.b_of, fill.b).text(), along);
  if (fill.kind == Fill::Kind::offsets && always)
    text += fmt::format(", rising from 0 to {} in steps of at least {}{}",
                        number_of(fill.b_of, fill.b).text(), number_of(fill.a_of, fill.a).text(), along);
  return text;
}

bool is_whole_input(const Task& task, const TensorSpec& tensor) {
  return tensor.role == Role::input && is_whole(tensor.fill.kind) && !task.is_derived(tensor.name);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> values_of_whole_inputs(const Task& task) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const TensorSpec& tensor : task.tensors)
    if (is_whole_input(task, tensor)) all.emplace_back(tensor.name, words_of(task, tensor));
  return all;
}

bool is_index(const Task& task, const TensorSpec& tensor) {
  if (!is_whole_input(task, tensor)) return false;
  const auto names_a_dimension = [&](const Interval& interval) {
    return std::ranges::any_of(task.dimensions, [&](const Dimension& dimension) {
      return std::ranges::count(interval.end.names(), dimension.name) > 0;
    });
  };
  return std::ranges::any_of(intervals_of(task, tensor), names_a_dimension);
}

Expected<std::string> index_checks(const LauncherInput& input) {
  const Task& task = input.task;
  std::string text, trouble;
  const auto cpp = [&](const Expression& expression) {
    const auto written = to_cpp(expression);
    if (!written) trouble = written.error().message;
    return written.value_or("0.0");
  };
  for (const TensorSpec& tensor : task.tensors) {
    if (!is_index(task, tensor) || is_floating(task.dtype(tensor, input.workloads.front()))) continue;
    std::vector<std::string> least, most, elements{"1.0"};
    std::string other;
    for (const Interval& each : intervals_of(task, tensor)) {
      least.push_back(cpp(each.least));
      most.push_back(cpp(each.end));
      if (each.instead) other = cpp(*each.instead);
    }
    for (const std::string& extent : tensor.shape)
      elements.push_back(is_constant(extent) ? extent + ".0" : variable(extent));
    text += fmt::format(
        "    check_indices(arguments.{0}, std::size_t({1}), expression::min({2}), expression::max({3}) - "
        "1.0, {4}, "
        "\"{5}: {0}\", \"{6}\");\n",
        tensor.name, fmt::join(elements, " * "), fmt::join(least, ", "), fmt::join(most, ", "),
        other.empty() ? "std::nullopt" : fmt::format("std::optional<double>({})", other), task.name,
        in_quotes(words_of(task, tensor)));
  }
  if (!trouble.empty()) return failure("export", trouble);
  return text;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "operators/prompts/describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "evaluators/judge/drawn_shapes.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/references/task_files.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/timing/roofline.hpp"

namespace cultivar {
namespace {

std::string number(double value) {
  return value == static_cast<double>(static_cast<std::int64_t>(value))
             ? fmt::format("{}", static_cast<std::int64_t>(value))
             : fmt::format("{:.6g}", value);
}

std::string time_of(double us) {
  if (us >= 1e6) return fmt::format("{:.3g} s", us * 1e-6);
  return us >= 1e3 ? fmt::format("{:.4g} ms", us * 1e-3) : fmt::format("{:.4g} us", us);
}

// A CPU does not report its multiply-adds or loads per cycle, and its clock varies, so only measurements are
// given.
std::string arithmetic_words(const Facts& facts, const Ceilings& seen) {
  const auto cores = facts.find("num_cores");
  if (seen.flops <= 0 || cores == facts.end() || !(cores->second > 0)) return {};
  return fmt::format(
      "The GFLOPS are of independent multiply-adds on full vectors in registers ({:.4g} per core; with bf16 "
      "if that is faster than f32); a loop that loads an operand for each is slower.\n",
      seen.flops * 1e-9 / cores->second);
}

// What is always allowed, in numbers.
std::string tolerance_words(const Task& task, const std::vector<Workload>& workloads) {
  std::string words;
  if (workloads.empty()) return words;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::output) continue;
    const Dtype dtype = task.dtype(tensor, workloads.front());
    words += fmt::format("{}{:.2g} for {} ({})", words.empty() ? "" : ", ",
                         task.tolerance.floor_eps * accumulation_epsilon(dtype), tensor.name, name_of(dtype));
  }
  return fmt::format(
      "Always allowed: a maximum error of this share of the largest correct value, and an RMS error of this "
      "share of their RMS: {}.\n",
      words);
}

std::string fill_words(const Fill& fill) {
  const auto text = [](double value, const std::optional<Expression>& expression) {
    return expression ? expression->text() : number(value);
  };
  const std::string a = text(fill.a, fill.a_of), b = text(fill.b, fill.b_of);
  const std::string along = fill.axis < 0 ? "the last axis" : fmt::format("axis {}", fill.axis);
  switch (fill.kind) {
    case Fill::Kind::normal:
      return fmt::format("N({}, {})", a, b);
    case Fill::Kind::uniform:
      return fmt::format("uniform from {} to {}", a, b);
    case Fill::Kind::constant:
      return "every element " + a;
    case Fill::Kind::spread:
      return fmt::format("magnitudes from {:.3g} to {:.3g}, either sign", fill.a * std::exp(-fill.b),
                         fill.a * std::exp(fill.b));
    case Fill::Kind::rising:
      return fmt::format("0 to {} along {}, plus {} N", a, along, b);
    case Fill::Kind::one_hot:
      return fmt::format("{} at one position along {}, {} elsewhere", b, along, a);
    case Fill::Kind::outliers:
      return fmt::format("{} N, {} times as large on one line along {} in a hundred", a, b, along);
    case Fill::Kind::hot:
      return fmt::format("{} N, {} times as large at one index along {}", a, b, along);
    case Fill::Kind::same_rows:
      return fmt::format("one row of N({}, {}), repeated along {}", a, b, along);
    case Fill::Kind::integers:
      return b == "1" && a == "0" ? std::string("every element 0")
                                  : fmt::format("whole numbers from {} up to, but not including, {}", a, b);
    case Fill::Kind::permutation:
      return fmt::format("a permutation of whole numbers from {} on", a);
    case Fill::Kind::lengths:
    case Fill::Kind::offsets:
      return fmt::format("{} of at least {} with the sum {}",
                         fill.kind == Fill::Kind::lengths ? "lengths" : "offsets in steps", a, b);
  }
  return {};
}

std::string stress_words(const Task& task) {
  std::string words;
  for (const TensorSpec& tensor : task.tensors)
    if (tensor.role == Role::input && !is_whole(tensor.fill.kind))  // those are described above
      words += fmt::format(
          "{}{} {}", words.empty() ? "\nInputs (N: normal, mean and standard deviation): " : "; ",
          tensor.name,
          task.is_derived(tensor.name) ? fmt::format("computed from {}", fmt::join(task.derived->from, ", "))
                                       : fill_words(tensor.fill));
  if (!words.empty()) words += ".\n";
  if (!task.stress.empty()) words += "It is also checked on these stress inputs:\n";
  for (const StressCase& one : task.stress) {
    std::string fills;
    for (const auto& [tensor, fill] : one.fills)
      fills += fmt::format("{}{} {}", fills.empty() ? "" : "; ", tensor, fill_words(fill));
    words += fmt::format("- {}: {}\n", one.name, fills);
  }
  return words;
}

}  // namespace

std::string fenced(const std::string& text, const std::string& language) {
  std::size_t longest = 2, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  return fence + language + "\n" + text + (text.ends_with('\n') ? "" : "\n") + fence + "\n";
}

std::string describe_oracle(const Task& task) {
  std::string text = read_file(task.reference).value_or("");
  const std::string name = task.reference.filename();
  if (is_in_python(task.reference)) {
    // What it imports from its folder is the user's own code, which says more than the call of it.
    std::string words =
        fmt::format("The oracle ({}; computed in double precision):\n{}", name, fenced(text, "python"));
    const auto read = [&](const std::string& file) -> std::optional<std::string> {
      auto found = read_file(task.folder / file);
      return found ? std::optional(std::move(*found)) : std::nullopt;
    };
    for (const std::string& other : files_of_reference(name, read))
      if (other != name) words += fmt::format("\n{}:\n{}", other, fenced(read(other).value_or(""), "python"));
    return words;
  }
  const std::size_t row = text.find("extern \"C\" void reference_row(");
  const std::size_t end = row == std::string::npos ? row : text.find("\n}", row);
  if (end == std::string::npos) return fmt::format("The oracle ({}):\n", name) + fenced(text, "cpp");
  text.resize(end + 3);
  return fmt::format(
      "The oracle, which defines the correct result (the beginning of {}; its rest has the legal "
      "roundings, and wrong kernels that the checks must reject):\n{}",
      name, fenced(text, "cpp"));
}

namespace {

// What the values of an index tensor are, and whether an output may differ between runs.
std::string values_of(const TensorSpec& tensor) {
  const Fill& fill = tensor.fill;
  const auto text = [](double value, const std::optional<Expression>& expression) {
    return expression ? expression->text() : number(value);
  };
  const std::string a = text(fill.a, fill.a_of), b = text(fill.b, fill.b_of);
  switch (tensor.role == Role::output ? Fill::Kind::normal : fill.kind) {
    case Fill::Kind::integers:
      return fmt::format(
          ", whole numbers from {} to ({}) - 1{}", a, b,
          fill.share > 0.0 ? fmt::format(", some of them {}", text(fill.instead, fill.instead_of)) : "");
    case Fill::Kind::permutation:
      return fmt::format(", a permutation of whole numbers from {} on{}", a,
                         fill.axis == kAllAxes ? "" : fmt::format(" along axis {}", fill.axis));
    case Fill::Kind::lengths:
      return fmt::format(", lengths of at least {} with the sum {}", a, b);
    case Fill::Kind::offsets:
      return fmt::format(", offsets from 0 to {} in steps of at least {}", b, a);
    default:
      if (!tensor.in_place.empty())
        return fmt::format(
            ", in the memory of {0} in half of the runs, so that what was read of {0} must not be needed "
            "after it is written",
            tensor.in_place);
      return tensor.run_to_run > 0.0 ? fmt::format(", two runs may differ by {} of the permitted error",
                                                   number(tensor.run_to_run))
                                     : "";
  }
}

// Whether it is an optional parameter with its default in this workload. Kernels that do not name it claim
// only such workloads.
bool left_out(const Parameter& p, const Workload& w) {
  if (!p.optional) return false;
  const auto usual = p.fallback->evaluate(w.values);
  return usual && w.values.at(p.name) == *usual;
}
bool left_out(const Parameter& p, const std::vector<Workload>& workloads) {
  return p.optional && std::ranges::all_of(workloads, [&](const Workload& w) { return left_out(p, w); });
}

bool is_left_out(const Task& task, const std::vector<Workload>& workloads, const std::string& name) {
  const auto p = std::ranges::find(task.parameters, name, &Parameter::name);
  return p != task.parameters.end() && left_out(*p, workloads);
}

std::set<std::string> names_in_shapes(const Task& task) {
  std::set<std::string> names;
  for (const TensorSpec& t : task.tensors)
    for (const std::string& extent : t.shape)
      for (const auto& [name, expression] : task.let)
        if (extent.find(name) != std::string::npos) names.insert(name);
  return names;
}

// ": B 1 to 3, D 64, 128 or 256": what each dimension is in these shapes.
std::string extents_of(const Task& task, const std::vector<Workload>& shapes) {
  constexpr std::size_t kNamed = 3;
  std::string words;
  for (const Dimension& d : task.dimensions) {
    std::set<double> values;
    for (const Workload& w : shapes)
      if (const auto value = w.values.find(d.name); value != w.values.end()) values.insert(value->second);
    if (values.empty()) continue;
    std::string said;
    if (values.size() > kNamed)
      said = fmt::format("{} to {}", number(*values.begin()), number(*values.rbegin()));
    else
      for (const double value : values)
        said += (said.empty() ? "" : value == *values.rbegin() ? " or " : ", ") + number(value);
    words += fmt::format("{}{} {}", words.empty() ? ": " : ", ", d.name, said);
  }
  return words;
}

// What the parameters of such a shape may be.
std::string drawn_parameters(const Task& task, const std::vector<Workload>& timed) {
  std::vector<std::string> all;
  for (const Parameter& p : task.parameters) {
    if (left_out(p, timed)) continue;
    if (p.flag)
      all.push_back(p.name + " 0 or 1");
    else if (const auto amounts = amounts_of(task, p))
      all.push_back(fmt::format("{} {}any amount from {} to {}", p.name, p.optional ? "off or " : "",
                                number(amounts->first), number(amounts->second)));
    else if (p.optional || !is_floating(p.type))
      all.push_back(p.name + " any listed value");
    else
      all.push_back(p.name + " from half to twice the usual value");
  }
  return all.empty() ? "" : fmt::format("; {}", fmt::join(all, ", "));
}

// How far the shapes go that are not listed (judge/drawn_shapes.hpp).
std::string drawn_words(const Task& task, const std::vector<Workload>& timed, Target target) {
  std::vector<Workload> shapes = listed_shapes(task, target);
  std::ranges::copy(timed, std::back_inserter(shapes));
  const double bytes = limits_of(task, shapes, 1.0).bytes;
  std::size_t element = sizeof(double);
  for (const TensorSpec& t : task.tensors)
    for (const Workload& w : shapes) element = std::min(element, size_of(task.dtype(t, w)));
  const bool int_indices =
      bytes / static_cast<double>(element) <= static_cast<double>(std::numeric_limits<int>::max());
  std::string far;
  for (const auto& [name, greatest] : far_dimensions(task))
    far += fmt::format("{}{} up to about {}", far.empty() ? "; before a promotion " : " or ", name,
                       number(kFarFactor * greatest));
  return fmt::format(
      "Also on shapes drawn in secret that `requires` claims: each dimension from 1 to about twice a listed "
      "one, odd too{}{}. The tensors of a shape have at most {:.4g} MB{}.\n",
      drawn_parameters(task, timed), far.empty() ? "" : far + ", the others small", bytes * 1e-6,
      int_indices ? ", so an int holds any index" : "");
}

}  // namespace

std::string describe_task_briefly(const Task& task, const std::vector<Workload>& workloads) {
  std::string words = fmt::format("`{}`: {}.\n", task.name, task.summary);
  for (const TensorSpec& t : task.tensors)
    words += fmt::format("{} {} [{}]{}", &t == &task.tensors.front() ? "" : ",",
                         (t.role == Role::input ? "" : "out ") + t.name, fmt::join(t.shape, ", "),
                         t.dtype ? fmt::format(" {}", name_of(*t.dtype)) : "");
  words += ".\n";
  for (const Dimension& d : task.dimensions) words += fmt::format("{}: {}. ", d.name, d.about);
  for (const Parameter& p : task.parameters)
    if (!left_out(p, workloads)) words += fmt::format("{}: {}. ", p.name, p.about);
  for (const Expression& relation : task.where) words += fmt::format("Always: {}. ", relation.text());
  words += fmt::format("\nCorrect: at most {} times the error of the legal roundings.\n",
                       number(task.tolerance.factor));
  return words;
}

std::string describe_device_briefly(const std::string& description, const Facts& facts) {
  std::string words = description;
  for (const auto& [name, value] : facts) words += fmt::format(", {} {}", name, number(value));
  return words;
}

std::string describe_task(const Task& task, const std::vector<Workload>& workloads, Target target,
                          bool with_oracle) {
  std::string words = fmt::format("`{}`: {}.\n\nDimensions:\n", task.name, task.summary);
  for (const Dimension& d : task.dimensions) words += fmt::format("- {}: {}\n", d.name, d.about);
  words += "\nTensors (contiguous, outermost dimension first):\n";
  for (const TensorSpec& t : task.tensors)
    words += fmt::format("- {} ({}): {} [{}]{}\n", t.name, t.role == Role::input ? "input" : "output",
                         t.dtype ? name_of(*t.dtype) : "the workload's dtype", fmt::join(t.shape, ", "),
                         values_of(t));
  if (!task.parameters.empty()) words += "\nParameters:\n";
  for (const Parameter& p : task.parameters)
    words +=
        left_out(p, workloads)
            ? fmt::format("- {} ({}): not used here; a kernel need not name it\n", p.name, name_of(p.type))
            : fmt::format("- {} ({}): {}\n", p.name, p.flag ? "flag, 0 or 1" : name_of(p.type), p.about);
  for (const auto& [name, expression] : task.let)
    if (names_in_shapes(task).contains(name))
      words += fmt::format("\nlet {} = {}\n", name, expression.text());
  const Cost::Report report = task.cost.report;
  words +=
      fmt::format("\nA variant is ranked by its {} at the median time, geometric mean over the workloads.\n",
                  report == Cost::Report::bytes  ? "GB/s"
                  : report == Cost::Report::time ? "runs per second"
                                                 : "operations per second");
  words += fmt::format(
      "\nAn output is correct if its maximum and RMS error against the fp64 oracle are below {} times those "
      "of the legal roundings ({}), over the complete output and over each {} rows.\n",
      number(task.tolerance.factor),
      is_in_python(task.reference)
          ? "of PyTorch in the inputs' dtype, and of a plain kernel that computes in f32 and rounds once"
      : with_oracle ? "`reference_row_rounded`, below"
                    : "a row computed with the roundings of its dtype",
      task.tolerance.block_rows);
  words += tolerance_words(task, workloads) + stress_words(task);
  if (with_oracle) words += "\n" + describe_oracle(task);
  words += "\nTimed workloads:\n";
  for (const Workload& w : workloads) {
    words += fmt::format("- {} ({}):", w.name, name_of(w.dtype));
    for (const auto& [name, value] : w.values)
      if (!is_left_out(task, workloads, name)) words += fmt::format(" {}={}", name, number(value));
    words += fmt::format("; {:.4g} Gop, {:.4g} MB\n", task.flops(w) * 1e-9, task.bytes(w) * 1e-6);
  }
  if (workloads.empty()) return words;
  std::vector<Workload> shapes;
  for (const Stage stage : {Stage::smoke, Stage::sweep, Stage::edge})
    for (const Workload& w : check_shapes(task, stage, target))
      if (w.dtype == workloads.front().dtype && std::ranges::all_of(task.parameters, [&](const Parameter& p) {
            return !left_out(p, workloads) || left_out(p, w);
          }))
        shapes.push_back(w);
  return words + fmt::format("\nIt is checked on {} further shapes{}.\n{}", shapes.size(),
                             extents_of(task, shapes), drawn_words(task, workloads, target));
}

namespace {

std::optional<int> whole(const Facts& facts, const char* name) {
  const auto found = facts.find(name);
  return found == facts.end() ? std::nullopt : std::optional(static_cast<int>(found->second));
}

// What follows from the facts.
std::string limit_words(const Facts& facts) {
  std::string words;
  // CUDA C++ Programming Guide, technical specifications per compute capability. GH100 has 9 pairs of
  // multiprocessors in a GPC, of which a card lacks some. 15 clusters of 8: those of a larger grid were
  // seen on 120 of 132 (accel-sim/gpu-app-collection, pull request 87).
  if (whole(facts, "compute_capability") == 90) {
    words =
        "A multiprocessor has 228 KiB of shared memory, of which each block takes 1 KiB more than it asks "
        "for, and room for 32 blocks. smem_max includes static shared memory.\n"
        "The GFLOPS are of bf16 products on the tensor cores. In f32, whose tolerance usually leaves no "
        "room for TF32, a multiprocessor does 128 multiply-adds a cycle: about a fifteenth of that.\n";
    if (const auto sms = whole(facts, "num_sms"))
      words += fmt::format(
          "A cluster lies in one GPC (at most 18 multiprocessors, GPCs differ): with one block on each "
          "multiprocessor at most {} clusters of 2, {} of 4, {} of 8 or {} of 16 are resident, from 4 on "
          "usually fewer (one H100: 15 of 8).\n",
          *sms / 2, *sms / 4, *sms / 8, *sms / 16);
  }
  if (facts.contains("l1_bytes") && facts.contains("l3_bytes"))
    words += "l1_bytes (data) and l2_bytes are of one core, l3_bytes is the last-level cache.";
  // x86-64: AVX-512 has 32 vector registers, AVX2 has 16. With 128 bits it may be another architecture.
  if (const auto bits = whole(facts, "vector_bits"); bits == 512 || bits == 256)
    words += fmt::format("{}A core has {} vector registers of {} bits.", words.empty() ? "" : " ",
                         *bits == 512 ? 32 : 16, *bits);
  if (facts.contains("num_cores"))
    words += fmt::format("{}num_cores is the same in every measurement, and what `threads` is by default.",
                         words.empty() ? "" : " ");
  return words + (words.empty() || words.ends_with('\n') ? "" : "\n");
}

}  // namespace

std::string describe_device(const std::string& description, const Facts& facts, const Ceilings& seen) {
  std::string words = description + "\n";
  for (const auto& [name, value] : facts) words += fmt::format("- {} = {}\n", name, number(value));
  std::string most;
  if (seen.flops > 0) most += fmt::format(" {:.4g} GFLOPS;", seen.flops * 1e-9);
  if (seen.bytes_per_second > 0)
    most += fmt::format(" {:.4g} GB/s from memory;", seen.bytes_per_second * 1e-9);
  if (seen.cached_bytes_per_second > 0)
    most += fmt::format(" {:.4g} GB/s from the {} cache;", seen.cached_bytes_per_second * 1e-9,
                        seen.cold.empty() ? "last-level" : "first-level");
  if (!most.empty()) {
    most.back() = '.';
    words +=
        "Measured peaks of the complete device (a least time is the work at these, and a launch):" + most +
        "\n";
    if (!seen.cold.empty())
      words += fmt::format(
          "Timed runs begin with cold caches: a least time moves bytes at what a copy of as many reached "
          "then, {}.\n",
          cold_rates_in_words(seen.cold));
    words += arithmetic_words(facts, seen);
  }
  if (seen.handshake_s > 0)
    words += fmt::format("An empty kernel takes {}.\n", time_of(seen.handshake_s * 1e6));
  return words + limit_words(facts);
}

std::string describe_configuration(const Configuration& configuration) {
  std::string words;
  for (const auto& [name, value] : configuration)
    words += fmt::format("{}{}={}", words.empty() ? "" : " ", name,
                         std::holds_alternative<std::int64_t>(value)
                             ? std::to_string(std::get<std::int64_t>(value))
                             : std::get<std::string>(value));
  return words.empty() ? "defaults" : words;
}

std::string describe_unchecked_lines(const Evaluation& evaluation) {
  constexpr std::size_t kMostLines = 8;
  if (!evaluation.coverage || evaluation.coverage->not_run.empty()) return {};
  const std::vector<LinesNotRun>& lines = evaluation.coverage->not_run;
  std::string words =
      "Some lines never ran under a check, although runs were drawn for them. Remove code that no input "
      "reaches, or let `requires` claim less:\n\n";
  for (std::size_t i = 0; i < std::min(kMostLines, lines.size()); ++i)
    words += fmt::format("- {}\n", lines[i].text());
  if (lines.size() > kMostLines) words += fmt::format("- and {} more\n", lines.size() - kMostLines);
  return words;
}

std::string describe_measurements(const Evaluation& evaluation, const std::vector<Workload>& workloads,
                                  const std::vector<double>& floors_us,
                                  const std::vector<Reference>& references) {
  std::string words;
  if (evaluation.fitness > 0.0)
    words = fmt::format("Fitness {:.5g} {}.", evaluation.fitness, evaluation.unit);
  for (const auto& [name, value] : evaluation.resources.values)
    words += fmt::format(" {} {}.", name, number(value));
  words += "\n\n| workload | median | q1 - q3 | value |";
  const bool floors = floors_us.size() == workloads.size();
  if (floors) words += " of the least time |";
  for (const Reference& reference : references)
    words += fmt::format(" vs {}{} |", reference.name,
                         reference.bounds.empty() ? "" : fmt::format(" ({})", reference.basis));
  words += "\n|---|---|---|---|";
  for (std::size_t i = 0; i < references.size() + (floors ? 1 : 0); ++i) words += "---|";
  words += "\n";
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    const auto row = std::find_if(evaluation.workloads.begin(), evaluation.workloads.end(),
                                  [&](const WorkloadResult& r) { return r.workload == workloads[i].name; });
    if (row == evaluation.workloads.end()) continue;
    words += fmt::format("| {} | {} | {} - {} | {:.4g} {} |", row->workload, time_of(row->median_us),
                         time_of(row->q1_us), time_of(row->q3_us), row->value, row->unit);
    if (floors)
      words += fmt::format(" {} of {} |",
                           share_in_words(row->median_us > 0.0 ? floors_us[i] / row->median_us : 0.0),
                           time_of(floors_us[i]));
    for (const Reference& reference : references) {
      const double other = i < reference.values.size() ? reference.values[i] : 0.0;
      words += other > 0.0 ? fmt::format(" {:.3f}x", row->value / other) : std::string(" -");
      if (other > 0.0 && i < reference.bounds.size() && reference.bounds[i])
        words += fmt::format(" ({:.3f} - {:.3f})", reference.bounds[i]->lower, reference.bounds[i]->upper);
      words += " |";
    }
    words += "\n";
  }
  if (const std::string unchecked = describe_unchecked_lines(evaluation); !unchecked.empty())
    words += "\n" + unchecked;
  return words;
}

std::string describe_rejection(const Evaluation& evaluation, std::size_t most_bytes) {
  std::string text = evaluation.diagnostics;
  if (text.size() > most_bytes) {
    const std::size_t head = most_bytes * 2 / 3, tail = most_bytes - head;
    text = text.substr(0, head) + fmt::format("\n[... {} bytes omitted ...]\n", text.size() - most_bytes) +
           text.substr(text.size() - tail);
  }
  std::string words =
      fmt::format("Rejected at stage `{}`: {}\n", name_of(evaluation.stage), evaluation.reason);
  if (!text.empty()) words += fenced(text);
  return words + describe_unchecked_lines(evaluation);
}

}  // namespace cultivar

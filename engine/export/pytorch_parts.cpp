// SPDX-License-Identifier: Apache-2.0
#include "engine/export/pytorch_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "embedded/launcher.hpp"
#include "evaluators/launchers/render.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

constexpr double kMostElements =
    1 << 24;  // elements of all tensors of a test: about a second of the oracle's time
constexpr std::size_t kMostRefused = 3;

// A dimension that no input's shape determines, or a parameter: an argument of the Python function.
struct Number {
  std::string name, type, about;
  bool dimension = false, optional = false;
};

// The default of a dimension in Python, for `sizes` by name; empty if there is none, or if Python writes it
// in another way.
std::string in_python(const std::optional<Expression>& fallback) {
  if (!fallback || fallback->text().find_first_of("?!&|=<>^") != std::string::npos) return {};
  std::string text;
  const std::string& from = fallback->text();
  for (std::size_t i = 0; i < from.size();) {
    const auto in_name = [&](std::size_t at) {
      return at < from.size() && (std::isalnum(static_cast<unsigned char>(from[at])) || from[at] == '_');
    };
    if (std::isalpha(static_cast<unsigned char>(from[i])) || from[i] == '_') {
      std::size_t end = i;
      while (in_name(end)) ++end;
      const std::string name = from.substr(i, end - i);
      const bool call = end < from.size() && from[end] == '(';
      static const std::map<std::string, std::string> functions{{"floor_div", "_floor_div"},
                                                                {"ceil_div", "_ceil_div"},
                                                                {"round_up", "_round_up"},
                                                                {"min", "min"},
                                                                {"max", "max"},
                                                                {"abs", "abs"},
                                                                {"sqrt", "math.sqrt"}};
      const auto function = functions.find(name);
      if (call && function == functions.end()) return {};
      text += call ? function->second : fmt::format("n[\"{}\"]", name);
      i = end;
    } else if (std::isdigit(static_cast<unsigned char>(from[i])) || from[i] == '.') {
      // A number as a whole: the e of 1e-5 is no name.
      std::size_t end = i;
      while (in_name(end) || (end < from.size() && from[end] == '.') ||
             (end > i && end < from.size() && (from[end] == '-' || from[end] == '+') &&
              (from[end - 1] == 'e' || from[end - 1] == 'E')))
        ++end;
      text += from.substr(i, end - i);
      i = end;
    } else {
      text += from[i++];
    }
  }
  return text;
}

// Whether the shape of an input tells the dimension.
bool an_input_has(const Task& task, const Dimension& dimension) {
  return std::ranges::any_of(task.tensors, [&](const TensorSpec& tensor) {
    return tensor.role == Role::input && std::ranges::count(tensor.shape, dimension.name) > 0;
  });
}

std::vector<Number> numbers_of(const Task& task) {
  std::vector<Number> numbers;
  for (const Dimension& dimension : task.dimensions) {
    if (!an_input_has(task, dimension) && in_python(dimension.fallback).empty())
      numbers.push_back({dimension.name, "int", dimension.about, true, false});
  }
  for (const Parameter& parameter : task.parameters)
    numbers.push_back(
        {parameter.name,
         parameter.flag                ? "bool"
         : is_floating(parameter.type) ? "float"
                                       : "int",
         parameter.about + (parameter.fallback ? " (default: " + parameter.fallback->text() + ")" : ""),
         false, parameter.fallback.has_value()});
  // Required arguments first; otherwise the order of keywords does not matter.
  std::stable_partition(numbers.begin(), numbers.end(), [](const Number& n) { return !n.optional; });
  return numbers;
}

// Text for a docstring.
std::string prose(const std::string& words) {
  std::string text = cpp_comment(words);
  std::replace(text.begin(), text.end(), '\\', '/');
  std::replace(text.begin(), text.end(), '"', '\'');
  return text;
}

// The dimensions of outputs that follow from those of inputs, as entries of a tuple.
std::string following(const Task& task) {
  std::string text;
  for (const Dimension& dimension : task.dimensions) {
    if (const std::string how = in_python(dimension.fallback); !how.empty() && !an_input_has(task, dimension))
      text += fmt::format("(\"{}\", lambda n: {}), ", dimension.name, how);
  }
  return text;
}

// The defaults of parameters, as entries of a tuple.
std::string defaults_of(const Task& task) {
  std::string text;
  for (const Parameter& parameter : task.parameters)
    if (const std::string how = in_python(parameter.fallback); !how.empty())
      text += fmt::format("(\"{}\", lambda n: {}({})), ", parameter.name,
                          parameter.flag                ? "bool"
                          : is_floating(parameter.type) ? "float"
                                                        : "int",
                          how);
  return text;
}

// The dimension that may stand for several: it is the first one of every tensor that has it, the rows of
// every such output are apart along it, and some input and some output have it. Empty: there is none.
std::string folded_dimension(const Task& task) {
  const TensorSpec& first = task.tensors.front();
  if (first.role != Role::input || first.shape.empty() || is_constant(first.shape.front())) return {};
  const std::string& name = first.shape.front();
  bool in_output = false;
  for (const TensorSpec& tensor : task.tensors) {
    const auto count = std::ranges::count(tensor.shape, name);
    if (count == 0) continue;
    if (count > 1 || tensor.shape.front() != name) return {};
    if (tensor.role != Role::output) continue;
    const auto& rows = tensor.rows ? *tensor.rows : task.rows;
    if (std::ranges::find(rows, name) == rows.end()) return {};
    in_output = true;
  }
  return in_output ? name : std::string();
}

// A shape: names of dimensions in quotes, and constants.
std::string shape_tuple(const std::vector<std::string>& shape) {
  std::string text = "(";
  for (const std::string& extent : shape)
    text += is_constant(extent) ? extent + ", " : fmt::format("\"{}\", ", extent);
  if (text.size() > 1) text.pop_back();
  return text + ")";
}

std::string shape_row(const Task& task, const Workload& workload) {
  std::vector<std::string> items;
  for (const Dimension& d : task.dimensions)
    items.push_back(fmt::format("\"{}\": {:.0f}", d.name, workload.values.at(d.name)));
  for (const Parameter& p : task.parameters) {
    const double value = workload.values.at(p.name);
    items.push_back(fmt::format("\"{}\": {}", p.name,
                                p.flag                ? (value != 0.0 ? "True" : "False")
                                : is_floating(p.type) ? literal(value)
                                                      : fmt::format("{:.0f}", value)));
  }
  return fmt::format("{{{}}}", fmt::join(items, ", "));
}

// "    Shape({"R": 3}, {"x": ("normal", 0.0, 1.0, 0.0, 0.0, -1)}),": the numbers, and how its inputs are
// drawn.
std::string shape_line(const Task& task, const Workload& workload) {
  std::vector<std::string> fills;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role == Role::output) continue;
    const Fill fill = task.fill(tensor.fill, workload);
    fills.push_back(fmt::format("\"{}\": (\"{}\", {}, {}, {}, {}, {})", tensor.name,
                                task.is_derived(tensor.name) ? "derived" : kind_of(fill), literal(fill.a),
                                literal(fill.b), literal(fill.instead), literal(fill.share),
                                fill.axis == kAllAxes ? "None" : std::to_string(fill.axis)));
  }
  return fmt::format("    Shape({}, {{{}}}),\n", shape_row(task, workload), fmt::join(fills, ", "));
}

double elements(const Task& task, const Workload& workload) {
  double all = 0;
  for (const TensorSpec& tensor : task.tensors) {
    double one = 1;
    for (const std::int64_t extent : task.shape(tensor, workload)) one *= static_cast<double>(extent);
    all += one;
  }
  return all;
}

struct Shapes {
  std::string served, refused;
};

// The shapes of the checks, and the smallest workload, because all checks may use other specializations.
Shapes shapes_of(const LauncherInput& input, const std::function<bool(const Workload&)>& serves) {
  const Task& task = input.task;
  Shapes shapes;
  std::size_t refused = 0;
  std::set<std::string> seen;
  const auto add = [&](Workload workload) {
    workload.dtype = input.workloads.front().dtype;
    if (!seen.insert(shape_row(task, workload)).second) return;
    const std::string row = shape_line(task, workload);
    if (serves(workload))
      shapes.served += row;
    else if (refused++ < kMostRefused)
      shapes.refused += row;
  };
  for (const auto* checks : {&task.smoke, &task.sweep, &task.edge})
    for (const Workload& workload : *checks)
      if (elements(task, workload) <= kMostElements) add(workload);
  const auto smallest = std::min_element(
      input.workloads.begin(), input.workloads.end(),
      [&](const Workload& a, const Workload& b) { return elements(task, a) < elements(task, b); });
  if (shapes.served.empty() || elements(task, *smallest) <= kMostElements) add(*smallest);
  return shapes;
}

// As the package `kernels` accepts names: small letters, digits and dashes between a letter and one of these.
std::string hub_name(const std::string& task) {
  std::string name = "cultivar-" + task;
  for (char& c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) != 0
            ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
            : '-';
  while (name.back() == '-') name.pop_back();
  return name;
}

// Whether the operator is built from this file of a bundle.
bool makes_the_operator(const std::string& file) {
  const std::string_view name = file;
  if (name.starts_with("pytorch/")) return name.starts_with("pytorch/cultivar_");
  return !name.ends_with(".md") && !name.ends_with(".json") && name != "LICENSE";
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text += at + i <= bytes.size() ? kDigits[group >> (18 - 6 * i) & 63U] : '=';
  }
  return text;
}

// Text as it is, where a raw literal can hold it.
std::string python_literal(const std::string& text) {
  const bool plain =
      text.find("'''") == std::string::npos && text.find('\r') == std::string::npos && !text.empty() &&
      text.back() != '\'' && text.back() != '\\' &&
      std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 || c == '\n' || c == '\t'; }) &&
      utf8_text(text) == text;
  return plain ? "r'''" + text + "'''" : "_base64.b64decode(\"" + base64(text) + "\")";
}

}  // namespace

std::string model_new(const std::map<std::string, std::string>& files, const std::string& problem,
                      const std::string& model_new,
                      const std::map<std::string, std::string, std::less<>>& values) {
  auto own = values;
  bool binary = false;
  for (const auto& [name, text] : files) {
    if (!makes_the_operator(name)) continue;
    binary = binary || name.ends_with(".cubin");
    own["sources"] += fmt::format("    \"{}\": {},\n", name, python_literal(text));
  }
  own["machine_code"] = binary ? " and its machine code" : "";
  own["problem"] = python_literal(problem);
  return render(launcher::model_new_py, own) + model_new;
}

std::string python_name(const std::string& name) {
  static const std::set<std::string> words{
      "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
      "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
      "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
      "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};
  return words.contains(name) || name.starts_with("_")
             ? name + "_"
             : name;  // names that start with _ belong to the module
}

std::map<std::string, std::string, std::less<>> pytorch_values(
    const LauncherInput& input, const std::string& identity,
    const std::function<bool(const Workload&)>& serves) {
  const Task& task = input.task;
  const Workload& first = input.workloads.front();
  const std::vector<Number> numbers = numbers_of(task);
  std::vector<std::string> inputs, results, returned, schema, keywords, rows, names, quoted, kinds, renamed;
  std::string tensors, about;
  for (const TensorSpec& tensor : task.tensors) {
    const bool output = tensor.role == Role::output;
    const std::string_view dtype = name_of(task.dtype(tensor, first));
    tensors += fmt::format("    (\"{}\", {}, \"{}\", {}),\n", tensor.name, output ? "True" : "False", dtype,
                           shape_tuple(tensor.shape));
    if (output) {
      results.push_back(python_name(tensor.name));
      returned.emplace_back("Tensor");
      about += fmt::format("    Returns {}: [{}], {}\n", tensor.name, fmt::join(tensor.shape, ", "), dtype);
      continue;
    }
    about += fmt::format("    {}: [{}], {}\n", tensor.name, fmt::join(tensor.shape, ", "), dtype);
    inputs.push_back(python_name(tensor.name));
    schema.push_back("Tensor " + inputs.back());
  }
  std::string module_example;
  std::string example;  // shows the boolean arguments first
  for (const Number& number : numbers) {
    const std::string name = python_name(number.name);
    keywords.push_back(name + (number.optional ? "=None" : ""));
    schema.push_back(fmt::format("{}{}{} {}{}", names.empty() ? "*, " : "", number.type,
                                 number.optional ? "?" : "", name, number.optional ? "=None" : ""));
    if (number.type == "bool" || !number.optional)
      example += fmt::format(", {}={}", name, number.type == "bool" ? "True" : "..."),
          module_example += fmt::format("{}{}={}", module_example.empty() ? "" : ", ", name,
                                        number.type == "bool" ? "True" : "...");
    names.push_back(name);
    quoted.push_back('"' + name + '"');
    kinds.push_back('"' + number.type + '"');
    rows.push_back(fmt::format("(\"{}\", {})", number.name, number.dimension ? "True" : "False"));
    if (name != number.name) renamed.push_back(fmt::format("\"{}\": \"{}\"", number.name, name));
    about += fmt::format("    {}: {}\n", name, prose(number.about));
  }
  const auto list = [](const std::vector<std::string>& all) {
    return fmt::format("{}", fmt::join(all, ", "));
  };
  const std::string function = python_name(task.name);
  const auto trailing = [&](const std::vector<std::string>& all) {
    return list(all) + (all.empty() ? "" : ",");
  };
  const Shapes shapes = shapes_of(input, serves);
  return {{"function", function},
          {"prose_summary", prose(task.summary)},
          {"module", "cultivar_" + task.name},
          {"namespace", "cultivar_" + identity},
          {"hub_name", hub_name(task.name)},
          {"inputs", list(inputs)},
          {"results", list(results)},
          {"example", list(inputs) + example},
          {"signature", list(inputs) + (keywords.empty() ? "" : ", *, " + list(keywords))},
          {"numbers", trailing(names)},
          {"number_rows", trailing(rows)},
          {"number_names", trailing(quoted)},
          {"number_kinds", trailing(kinds)},
          {"tensor_rows", tensors},
          {"argument_lines", about},
          {"following", following(task)},
          {"defaults", defaults_of(task)},
          {"folded", folded_dimension(task).empty() ? "None" : '"' + folded_dimension(task) + '"'},
          {"module_example", module_example},
          {"schema", fmt::format("{}({}) -> {}", function, list(schema),
                                 returned.size() == 1 ? "Tensor" : fmt::format("({})", list(returned)))},
          {"shapes", shapes.served},
          {"refused", shapes.refused},
          {"python_names", list(renamed)},
          {"all_have_defaults", std::all_of(numbers.begin(), numbers.end(),
                                            [](const Number& n) { return n.optional || n.dimension; })
                                    ? "True"
                                    : "False"}};
}

}  // namespace cultivar

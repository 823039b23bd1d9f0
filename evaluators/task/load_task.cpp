// SPDX-License-Identifier: Apache-2.0
// Reads task.yaml into a Task. Reports everything that can be wrong in the file, with its line.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "evaluators/task/task.hpp"
#include "evaluators/yaml/nearest_name.hpp"
#include "evaluators/yaml/strict_yaml.hpp"

namespace cultivar {
namespace {

constexpr std::size_t most_workloads = 1000;  // of a set

Expression expression_of(const YamlNode& node) {
  Expected<Expression> expression = Expression::parse(node.string());
  if (!expression) node.fail(expression.error().message);
  return *std::move(expression);
}

Dtype dtype_of(const YamlNode& node) {
  const std::string text = node.string();
  if (const auto type = dtype_named(text)) return *type;
  std::vector<std::string> known;
  for (int i = 0; i < dtype_count; ++i) known.emplace_back(name_of(static_cast<Dtype>(i)));
  node.fail(fmt::format("unknown dtype '{}'{}", text, did_you_mean(text, known)));
}

Fill::Kind fill_kind_of(const YamlNode& node) {
  static const std::vector<std::pair<std::string, Fill::Kind>> kinds{
      {"normal", Fill::Kind::normal},           {"uniform", Fill::Kind::uniform},
      {"constant", Fill::Kind::constant},       {"spread", Fill::Kind::spread},
      {"rising", Fill::Kind::rising},           {"one_hot", Fill::Kind::one_hot},
      {"outliers", Fill::Kind::outliers},       {"hot", Fill::Kind::hot},
      {"same_rows", Fill::Kind::same_rows},     {"integers", Fill::Kind::integers},
      {"permutation", Fill::Kind::permutation}, {"lengths", Fill::Kind::lengths},
      {"offsets", Fill::Kind::offsets}};
  std::vector<std::string> names;
  for (const auto& [name, kind] : kinds) names.push_back(name);
  const std::string kind = node.one_of(names);
  return std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == kind; })->second;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& folder) : root_(read_yaml(folder / "task.yaml")) {
    task_.folder = folder;
  }

  Task read() {
    YamlMap map = root_.map();
    task_.name = map.require("name").identifier();
    task_.summary = map.require("summary").prose();
    read_dimensions(map.require("dimensions"));
    if (const auto node = map.optional("parameters")) read_parameters(*node);
    for (const YamlNode& node : map.require("dtypes").items()) {
      const Dtype type = dtype_of(node);
      if (std::count(task_.dtypes.begin(), task_.dtypes.end(), type))
        node.fail("is listed twice (remove one)");
      task_.dtypes.push_back(type);
    }
    if (task_.dtypes.empty()) map.require("dtypes").fail("must list at least one dtype");
    read_tensors(map.require("tensors"));
    read_rows(map.require("rows"));
    if (const auto node = map.optional("derived")) read_derived(*node);
    if (const auto node = map.optional("let")) read_let(*node);
    if (const auto node = map.optional("where"))
      for (const YamlNode& item : node->items()) task_.where.push_back(known(item));
    read_cost(map.require("cost"));
    if (const auto node = map.optional("tolerance")) read_tolerance(*node);
    if (const auto node = map.optional("limits")) read_limits(*node);
    if (const auto node = map.optional("controls")) read_controls(*node);
    read_checks(map.require("checks"));
    read_sets(map.require("workload_sets"));
    map.finish();
    task_.reference = find_reference();
    return std::move(task_);
  }

 private:
  // The one file `reference.LANGUAGE` of the folder.
  std::filesystem::path find_reference() const {
    std::filesystem::path found;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(task_.folder, ignored)) {
      if (entry.path().stem() != "reference" || !entry.is_regular_file(ignored)) continue;
      if (!found.empty())
        throw InputError(fmt::format("{}: has both {} and {} (keep one)", task_.folder.string(),
                                     found.filename().string(), entry.path().filename().string()));
      found = entry.path();
    }
    if (found.empty())
      throw InputError(fmt::format(
          "{}: has no reference, the file that defines the correct result (add reference.cpp, with "
          "reference_row, or reference.py, with compute; see configs/tasks/README.md)",
          task_.folder.string()));
    return found;
  }

  // Registers a new name; names that expressions already know are errors.
  void claim(const YamlNode& at, const std::string& name) {
    const auto& reserved = Expression::reserved_names();
    if (std::find(reserved.begin(), reserved.end(), name) != reserved.end() || name == "dtype" ||
        name == "element_bytes" || name == "thread" || name == "threads")
      at.fail(fmt::format("the name '{}' is reserved (choose another)", name));
    if (!names_.insert(name).second) at.fail(fmt::format("the name '{}' is used twice (rename one)", name));
  }
  std::string name_at(const std::string& key, const YamlNode& at) {
    const bool legal =
        !key.empty() && !(key[0] >= '0' && key[0] <= '9') && std::all_of(key.begin(), key.end(), [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        });
    if (!legal) at.fail(fmt::format("'{}' is not a name (letters, digits and _, no digit first)", key));
    return key;
  }
  // An expression in which every name must already be known.
  Expression known(const YamlNode& node) {
    Expression expression = expression_of(node);
    for (const std::string& name : expression.names())
      if (std::find(numbers_.begin(), numbers_.end(), name) == numbers_.end())
        node.fail(fmt::format("unknown name '{}'{}", name, did_you_mean(name, numbers_)));
    return expression;
  }

  // Refuses what has no value whatever the numbers are, such as R / 0.
  Expression default_of(const YamlNode& node) {
    Expression expression = known(node);
    std::string why;
    for (const double first : {0.0, 1.0, 64.0}) {
      Bindings values;
      for (std::size_t i = 0; i < numbers_.size(); ++i)
        values[numbers_[i]] = first + static_cast<double>(i) * (first > 1.0 ? 8.0 : 0.0);
      const auto value = expression.evaluate(values);
      if (value) return expression;
      why = value.error().message;
    }
    node.fail(why);
  }

  // A number, or an expression over dimensions and parameters.
  void read_number(const std::optional<YamlNode>& node, double& number,
                   std::optional<Expression>& expression) {
    if (!node) return;
    Expression value = known(*node);
    if (value.names().empty())
      number = value.evaluate({}).value_or(0.0);
    else
      expression = std::move(value);
  }

  Fill fill_of(const YamlNode& node, const TensorSpec& tensor, bool plain) {
    YamlMap map = node.map();
    Fill fill;
    fill.kind = fill_kind_of(map.require("kind"));
    if (plain && fill.kind == Fill::Kind::constant)
      node.fail(
          "the plain fill of a tensor must not be constant, because equal inputs hide errors (use normal or "
          "uniform)");
    if (is_whole(fill.kind)) fill.b = 0.0;
    read_number(map.optional("a"), fill.a, fill.a_of);
    const auto b = map.optional("b");
    if (!b && is_whole(fill.kind) && fill.kind != Fill::Kind::permutation)
      node.fail("'b' is missing (integers: the first number above the range; lengths, offsets: the sum)");
    read_number(b, fill.b, fill.b_of);
    if (const auto axis = map.optional("axis")) {
      const auto rank = static_cast<std::int64_t>(tensor.shape.size());
      fill.axis = axis->string() == "all" ? kAllAxes : static_cast<int>(axis->integer(-rank, rank - 1));
    }
    if (fill.kind == Fill::Kind::integers) {
      const auto instead = map.optional("instead"), share = map.optional("share");
      if (instead.has_value() != share.has_value())
        node.fail("'instead' and 'share' must be given together (give both or none)");
      read_number(instead, fill.instead, fill.instead_of);
      if (share) fill.share = share->number(0.0, 1.0);
    }
    map.finish();
    return fill;
  }

  void read_dimensions(const YamlNode& node) {
    for (const auto& [key, value] : node.map().entries()) {
      Dimension dimension{name_at(key, value), "", std::nullopt};
      YamlMap map = value.map();
      dimension.about = map.require("about").prose();
      if (const auto fallback = map.optional("default")) dimension.fallback = default_of(*fallback);
      map.finish();
      claim(value, key);
      numbers_.push_back(key);
      task_.dimensions.push_back(std::move(dimension));
    }
    if (task_.dimensions.empty()) node.fail("must list at least one dimension");
  }

  static std::pair<double, double> range_of(const YamlNode& node, const Parameter& parameter) {
    if (parameter.flag || parameter.optional)
      node.fail(
          "only a number that is not optional has a range (remove it: the values of an amount, such as a "
          "window, are those that the workloads list)");
    const std::vector<YamlNode> ends = node.items();
    if (ends.size() != 2) node.fail("must be the least and the greatest value that users give: [0.001, 1]");
    const std::pair<double, double> range{ends[0].number(), ends[1].number()};
    if (!(range.first < range.second)) node.fail("the first number must be the smaller one");
    return range;
  }

  void read_parameters(const YamlNode& node) {
    for (const auto& [key, value] : node.map().entries()) {
      Parameter parameter;
      parameter.name = name_at(key, value);
      YamlMap map = value.map();
      parameter.about = map.require("about").prose();
      const YamlNode type = map.require("type");
      parameter.flag = type.string() == "flag";
      parameter.type = parameter.flag ? Dtype::i32 : dtype_of(type);
      if (const auto fallback = map.optional("default")) parameter.fallback = default_of(*fallback);
      if (const auto optional = map.optional("optional")) parameter.optional = optional->boolean();
      if (parameter.optional && !parameter.fallback) value.fail("an optional parameter needs a default");
      if (const auto range = map.optional("range")) parameter.range = range_of(*range, parameter);
      map.finish();
      claim(value, key);
      numbers_.push_back(key);
      task_.parameters.push_back(std::move(parameter));
    }
  }

  // An output that may have the memory of an input must be like it.
  void check_in_place(const YamlNode& node, const TensorSpec& output) const {
    const TensorSpec* const input = task_.tensor(output.in_place);
    if (input == nullptr || input->role != Role::input)
      node.fail(
          fmt::format("'{}' is not an input (give the name of the input that is changed)", output.in_place));
    if (input->shape != output.shape || input->dtype != output.dtype)
      node.fail(fmt::format("{} must have the shape and the dtype of {}", output.name, input->name));
    if (std::ranges::count(task_.tensors, output.in_place, &TensorSpec::in_place) > 1)
      node.fail(fmt::format("two outputs have the memory of {} (keep one)", input->name));
  }

  void read_tensors(const YamlNode& node) {
    std::vector<std::pair<YamlNode, std::size_t>> changed;  // where, and which output
    for (const auto& [key, value] : node.map().entries()) {
      TensorSpec tensor;
      tensor.name = name_at(key, value);
      claim(value, key);
      YamlMap map = value.map();
      tensor.role = map.require("role").one_of({"input", "output"}) == "input" ? Role::input : Role::output;
      if (const auto type = map.optional("dtype")) tensor.dtype = dtype_of(*type);
      std::vector<std::string> dimensions;
      for (const Dimension& d : task_.dimensions) dimensions.push_back(d.name);
      for (const YamlNode& item : map.require("shape").items())
        tensor.shape.push_back(extent_of(item, dimensions));
      const bool output = tensor.role == Role::output;
      if (const auto rows = map.optional("rows")) {
        if (!output) rows->fail("an input has no rows (remove it)");
        read_own_rows(*rows, tensor);
      }
      if (const auto share = map.optional("run_to_run")) {
        if (!output) share->fail("an input does not differ between runs (remove it)");
        tensor.run_to_run = share->number(0.0, 1.0);
      }
      if (const auto input = map.optional("in_place")) {
        if (!output) input->fail("an input is not computed in place (give its name to the output)");
        tensor.in_place = input->string();
        changed.push_back({*input, task_.tensors.size()});
      }
      if (const auto fill = map.optional("fill")) {
        if (tensor.role == Role::output) fill->fail("an output must not have a fill (remove it)");
        tensor.fill = fill_of(*fill, tensor, true);
        filled_.insert(tensor.name);
      }
      map.finish();
      task_.tensors.push_back(std::move(tensor));
    }
    for (const auto& [place, output] : changed) check_in_place(place, task_.tensors[output]);
    const auto is_output = [](const TensorSpec& t) { return t.role == Role::output; };
    if (std::none_of(task_.tensors.begin(), task_.tensors.end(), is_output))
      node.fail("no tensor has the role output (give at least one)");
  }

  // The name of a dimension, or a constant of at least 1.
  static std::string extent_of(const YamlNode& item, const std::vector<std::string>& dimensions) {
    const std::string text = item.string();
    if (!is_constant(text)) return item.one_of(dimensions);
    if (text.size() > 9 || text[0] == '0' || text.find_first_not_of("0123456789") != std::string::npos)
      item.fail(
          fmt::format("'{}' is not an extent (a dimension, or a whole number from 1 to 999999999)", text));
    return text;
  }

  void read_own_rows(const YamlNode& node, TensorSpec& tensor) {
    tensor.rows.emplace();
    std::vector<std::string> dimensions;
    for (const Dimension& d : task_.dimensions)
      if (std::count(tensor.shape.begin(), tensor.shape.end(), d.name)) dimensions.push_back(d.name);
    for (const YamlNode& item : node.items()) {
      const std::string row = item.one_of(dimensions);
      if (std::count(tensor.shape.begin(), tensor.shape.end(), row) != 1)
        item.fail(fmt::format("the shape of {} must contain {} exactly once", tensor.name, row));
      if (std::count(tensor.rows->begin(), tensor.rows->end(), row))
        item.fail("is listed twice (remove one)");
      tensor.rows->push_back(row);
    }
  }

  void read_rows(const YamlNode& node) {
    std::vector<std::string> dimensions;
    for (const Dimension& d : task_.dimensions) dimensions.push_back(d.name);
    for (const YamlNode& item : node.items()) {
      const std::string row = item.one_of(dimensions);
      for (const TensorSpec& tensor : task_.tensors)
        if (tensor.role == Role::output && !tensor.rows &&
            std::count(tensor.shape.begin(), tensor.shape.end(), row) != 1)
          item.fail(
              fmt::format("the shape of output {} must contain {} exactly once (a row index enumerates it)",
                          tensor.name, row));
      if (std::count(task_.rows.begin(), task_.rows.end(), row)) item.fail("is listed twice (remove one)");
      task_.rows.push_back(row);
    }
    if (std::none_of(task_.tensors.begin(), task_.tensors.end(),
                     [](const TensorSpec& t) { return t.role == Role::output && !t.rows; }))
      node.fail("every output has rows of its own (at least one must have those of the task)");
  }

  void read_derived(const YamlNode& node) {
    YamlMap map = node.map();
    Derived derived;
    std::vector<std::string> inputs;
    for (const TensorSpec& tensor : task_.tensors)
      if (tensor.role == Role::input) inputs.push_back(tensor.name);
    const auto names = [](const YamlNode& list, const std::vector<std::string>& known) {
      std::vector<std::string> all;
      for (const YamlNode& item : list.items()) {
        all.push_back(item.one_of(known));
        if (std::count(all.begin(), all.end(), all.back()) > 1) item.fail("is listed twice (remove one)");
      }
      if (all.empty()) list.fail("must list at least one name");
      return all;
    };
    const YamlNode from = map.require("from"), rows = map.require("rows");
    derived.inputs = names(map.require("inputs"), inputs);
    derived.from = names(from, inputs);
    for (const std::string& name : derived.inputs) {
      const TensorSpec& tensor = *task_.tensor(name);
      if (std::count(derived.from.begin(), derived.from.end(), name))
        from.fail(fmt::format("{} is derived itself (remove it)", name));
      if (filled_.contains(name))
        node.fail(fmt::format("the tensor {} has a fill (remove it: its values are computed)", name));
      derived.rows = names(rows, tensor.shape);
      for (const std::string& row : derived.rows)
        if (std::count(tensor.shape.begin(), tensor.shape.end(), row) != 1)
          rows.fail(fmt::format("the shape of {} must contain {} exactly once", name, row));
    }
    if (derived.inputs.size() + derived.from.size() == inputs.size())
      from.fail(
          "every input is derived or derived from, but these stay the same for some timed runs (leave out an "
          "input on which every output depends)");
    map.finish();
    task_.derived = std::move(derived);
  }

  void read_let(const YamlNode& node) {
    with_dtype();
    for (const auto& [key, value] : node.map().entries()) {
      name_at(key, value);
      Expression expression = known(value);
      claim(value, key);
      numbers_.push_back(key);
      task_.let.emplace_back(key, std::move(expression));
    }
  }

  void read_cost(const YamlNode& node) {
    with_dtype();
    YamlMap map = node.map();
    const std::string report = map.require("report").one_of({"flops", "bytes", "time"});
    task_.cost.report = report == "flops"   ? Cost::Report::flops
                        : report == "bytes" ? Cost::Report::bytes
                                            : Cost::Report::time;
    const auto read = [&](const char* key) -> std::optional<Expression> {
      if (task_.cost.report == Cost::Report::time && !map.has(key)) return std::nullopt;
      return known(map.require(key));
    };
    task_.cost.flops = read("flops");
    task_.cost.bytes = read("bytes");
    map.finish();
  }

  void read_tolerance(const YamlNode& node) {
    YamlMap map = node.map();
    if (const auto value = map.optional("factor")) task_.tolerance.factor = value->number(1.0, 16.0);
    if (const auto value = map.optional("floor_eps")) task_.tolerance.floor_eps = value->number(0.0, 1024.0);
    if (const auto value = map.optional("block_rows")) task_.tolerance.block_rows = value->integer(1);
    map.finish();
  }

  void read_limits(const YamlNode& node) {
    YamlMap map = node.map();
    if (const auto value = map.optional("spill_bytes"))
      task_.limits.spill_bytes = static_cast<std::uint32_t>(value->integer(0, 1 << 30));
    map.finish();
  }

  void read_controls(const YamlNode& node) {
    YamlMap all = node.map();
    for (const auto& [key, value] : all.entries()) {
      Control control{name_at(key, value), "", std::nullopt,
                      fmt::format("{}:{}", node.origin(), all.line_of(key))};
      YamlMap map = value.map();
      control.about = map.require("about").prose();
      if (const auto when = map.optional("when")) control.when = known(*when);
      map.finish();
      task_.controls.push_back(std::move(control));
    }
  }

  void read_stress(const YamlNode& node) {
    std::vector<std::string> inputs;
    for (const TensorSpec& t : task_.tensors)
      if (t.role == Role::input && !task_.is_derived(t.name)) inputs.push_back(t.name);
    for (const auto& [key, value] : node.map().entries()) {
      StressCase stress{name_at(key, value), "", {}};
      YamlMap map = value.map();
      stress.about = map.require("about").prose();
      for (const std::string& input : inputs)
        if (const auto fill = map.optional(input))
          stress.fills[input] = fill_of(*fill, *task_.tensor(input), false);
      map.finish();
      if (stress.fills.empty()) value.fail("gives no tensor a fill (give at least one input a fill)");
      task_.stress.push_back(std::move(stress));
    }
  }

  void read_checks(const YamlNode& node) {
    YamlMap map = node.map();
    task_.smoke = read_workloads(task_, map.require("smoke"), task_.dtypes.front(), false);
    task_.sweep = read_workloads(task_, map.require("sweep"), task_.dtypes.front(), false);
    if (const auto shapes = map.optional("stress_shapes"))
      task_.stress_shapes = read_workloads(task_, *shapes, task_.dtypes.front(), false);
    if (const auto stress = map.optional("stress")) read_stress(*stress);
    if (const auto edge = map.optional("edge"))
      task_.edge = read_workloads(task_, *edge, task_.dtypes.front(), false);
    if (task_.stress.empty() != task_.stress_shapes.empty())
      node.fail("stress and stress_shapes must be given together (give both or none)");
    map.finish();
  }

  void read_sets(const YamlNode& node) {
    for (const auto& [key, value] : node.map().entries()) {
      WorkloadSet set{name_at(key, value), "", {}};
      YamlMap map = value.map();
      set.about = map.require("about").prose();
      const YamlNode type_node = map.require("dtype");
      std::vector<YamlNode> types =
          type_node.is_sequence() ? type_node.items() : std::vector<YamlNode>{type_node};
      const YamlNode list = map.require("workloads");
      for (const YamlNode& type : types) {
        const Dtype dtype = dtype_of(type);
        if (!std::count(task_.dtypes.begin(), task_.dtypes.end(), dtype))
          type.fail(fmt::format("the task's dtypes do not include {} (add it to dtypes)", name_of(dtype)));
        for (Workload& w : read_workloads(task_, list, dtype, true)) {
          if (set.workloads.size() == most_workloads)
            list.fail(fmt::format("has more than {} workloads (use several sets)", most_workloads));
          for (const Workload& other : set.workloads)
            if (other.name == w.name)
              type.fail(fmt::format("the workload {} is listed twice (remove one)", w.name));
          set.workloads.push_back(std::move(w));
        }
      }
      map.finish();
      task_.workload_sets.push_back(std::move(set));
    }
    if (task_.workload_sets.empty()) node.fail("must list at least one set");
  }

  void with_dtype() {
    if (std::count(numbers_.begin(), numbers_.end(), "dtype")) return;
    numbers_.emplace_back("dtype");
    numbers_.emplace_back("element_bytes");
  }

  YamlNode root_;
  Task task_;
  std::set<std::string> names_, filled_;
  std::vector<std::string> numbers_;  // names that expressions may use so far
};

}  // namespace

Task load_task(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder))
    throw InputError(fmt::format(
        "{}: is not the folder of a task (give a folder with task.yaml and a reference)", folder.string()));
  return Reader(folder).read();
}

}  // namespace cultivar

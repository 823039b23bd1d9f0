// SPDX-License-Identifier: Apache-2.0
// Checks a manifest against the task: every name resolves, no name is used twice, and everything that can be
// checked without a workload is checked.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "evaluators/variant/manifest_text.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace {

using Names = std::vector<std::string>;
using Behind = std::map<std::string, std::string, std::less<>>;  // let -> device fact

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct Wrong {
  std::string path, message;
};

class Checker {
 public:
  Checker(const Manifest& manifest, const Task& task, std::string_view code)
      : manifest_(manifest), task_(task), code_(code) {}

  void check() {
    if (manifest_.task != task_.name)
      fail("task", fmt::format("is '{}', but this task is '{}'", manifest_.task, task_.name));
    collect_task_names();
    if (manifest_.requires_)
      resolve("requires", *manifest_.requires_, numbers_,
              "`requires` may use only dimensions, parameters and dtype");
    check_tunables();
    for (const auto& [name, about] : manifest_.target->facts) {
      if (contains(numbers_, name)) fail("tunables", fmt::format("the name '{}' is a device fact", name));
      taken_.emplace(name, "a device fact");
      numbers_.push_back(name);
    }
    check_let();
    for (std::size_t i = 0; i < manifest_.constraints.size(); ++i)
      resolve(fmt::format("constraints[{}]", i), manifest_.constraints[i], numbers_);
    check_specialize();
    for (const WorkspaceSpec& workspace : manifest_.workspace) {
      const std::string path = "workspace." + workspace.name;
      claim(path, workspace.name, "a workspace");
      resolve(path + ".bytes", workspace.bytes, numbers_);
      pointers_.push_back(workspace.name);
    }
    for (const TensorMapSpec& map : manifest_.tensor_maps) check_tensor_map(map);
    for (std::size_t i = 0; i < manifest_.launch.size(); ++i)
      check_launch(fmt::format("launch[{}]", i), manifest_.launch[i]);
  }

 private:
  [[noreturn]] static void fail(std::string path, std::string message) {
    throw Wrong{std::move(path), std::move(message)};
  }

  void claim(const std::string& path, const std::string& name, std::string what) {
    if (contains(Expression::reserved_names(), name))
      fail(path, fmt::format("the name '{}' is a function or dtype (choose another)", name));
    if (name.starts_with("__") || (name.size() > 1 && name[0] == '_' && name[1] >= 'A' && name[1] <= 'Z'))
      fail(path, fmt::format("the name '{}' is reserved for the compiler, and names become macros (choose "
                             "one without a leading _)",
                             name));
    // Names become macros of the source; a macro named `int` would only be reported by the compiler.
    if (const Language language = manifest_.language; language->reserves(name))
      fail(path, fmt::format("the name '{}' is a {} keyword (choose another)", name, language->title));
    if (manifest_.target->thread_arguments && (name == "thread" || name == "threads"))
      fail(path, fmt::format("the name '{}' is a built-in argument (choose another)", name));
    const auto [at, fresh] = taken_.emplace(name, what);
    if (!fresh) fail(path, fmt::format("the name '{}' is already {} (choose another)", name, at->second));
  }

  static void resolve(const std::string& path, const Expression& expression, const Names& known,
                      const std::string& remark = {}) {
    for (const std::string& name : expression.names())
      if (!contains(known, name))
        fail(path, fmt::format("'{}' uses the unknown name '{}'{}{}", expression.text(), name,
                               did_you_mean(name, known), remark.empty() ? "" : "; " + remark));
  }

  void collect_task_names() {
    for (const Dimension& d : task_.dimensions) add_number(d.name, "a dimension of the task");
    for (const Parameter& p : task_.parameters) add_number(p.name, "a parameter of the task");
    add_number("dtype", "the workload's dtype");
    add_number("element_bytes", "the size of the workload's dtype");
    for (const auto& [name, expression] : task_.let) add_number(name, "a `let` name of the task");
    for (const TensorSpec& t : task_.tensors) {
      taken_.emplace(t.name, "a tensor of the task");
      pointers_.push_back(t.name);
    }
  }
  void add_number(const std::string& name, std::string what) {
    taken_.emplace(name, std::move(what));
    numbers_.push_back(name);
  }

  void check_tunables() {
    for (const Tunable& tunable : manifest_.tunables) {
      const std::string path = "tunables." + tunable.name;
      claim(path, tunable.name, "a tunable");
      numbers_.push_back(tunable.name);
      if (!tunable.categorical()) continue;
      for (const TunableValue& value : tunable.values) {
        const std::string name = tunable.name + "_" + std::get<std::string>(value);
        claim(path, name, "a value of the tunable " + tunable.name);
        numbers_.push_back(name);
      }
    }
  }

  void check_let() {
    for (const auto& [name, expression] : manifest_.let) {
      const std::string path = "let." + name;
      resolve(path, expression, numbers_, "a let may use the lets above it");
      claim(path, name, "a let");
      numbers_.push_back(name);
    }
  }

  bool is_thread_argument(const std::string& text) const {
    return (text == "thread" || text == "threads") && !contains(numbers_, text);
  }

  void check_specialize() {
    Names known{"dtype"};
    for (const Dimension& d : task_.dimensions) known.push_back(d.name);
    for (const Parameter& p : task_.parameters) known.push_back(p.name);
    for (const auto& [name, expression] : manifest_.let) known.push_back(name);
    const Behind behind = device_facts_behind_lets();
    for (std::size_t i = 0; i < manifest_.specialize.size(); ++i) {
      const std::string &name = manifest_.specialize[i], path = fmt::format("specialize[{}]", i);
      if (!contains(known, name))
        fail(path, fmt::format("'{}' is not a dimension, a parameter, a let or dtype{}", name,
                               did_you_mean(name, known)));
      if (const auto fact = behind.find(name); fact != behind.end())
        fail(path, fmt::format(
                       "the let '{}' depends on the device fact '{}'; a macro must not depend on the device",
                       name, fact->second));
    }
  }

  // Each let that depends on a device fact, directly or through lets above it, with that fact.
  Behind device_facts_behind_lets() const {
    Behind behind;
    for (const auto& [fact, about] : manifest_.target->facts) behind.emplace(fact, fact);
    for (const auto& [name, expression] : manifest_.let)
      for (const std::string& used : expression.names())
        if (const auto found = behind.find(used); found != behind.end()) {
          behind.emplace(name, found->second);
          break;
        }
    return behind;
  }

  void check_tensor_map(const TensorMapSpec& map) {
    const std::string path = "tensor_maps." + map.name;
    claim(path, map.name, "a tensor map");
    if (!contains(pointers_, map.tensor))
      fail(path + ".tensor",
           fmt::format("there is no tensor '{}'{}", map.tensor, did_you_mean(map.tensor, pointers_)));
    const bool workspace = task_.tensor(map.tensor) == nullptr;
    if (workspace && !map.dtype)
      fail(path + ".tensor",
           fmt::format("'{}' is a workspace; give the map the `dtype` of its elements", map.tensor));
    if (!workspace && map.dtype)
      fail(path + ".dtype", fmt::format("the tensor {} has its own dtype (remove this one)", map.tensor));
    const auto each = [&](const char* key, const std::vector<Expression>& list) {
      for (std::size_t i = 0; i < list.size(); ++i)
        resolve(fmt::format("{}.{}[{}]", path, key, i), list[i], numbers_);
    };
    each("sizes", map.sizes);
    each("strides", map.strides);
    each("box", map.box);
    each("element_strides", map.element_strides);
    if (map.interleave != "none" && map.sizes.size() < 3)
      fail(path + ".interleave", "an interleaved layout needs rank 3 or more");
    if (map.interleave == "32B" && map.swizzle != "32B")
      fail(path + ".swizzle", "interleave 32B needs swizzle 32B");
    maps_.push_back(map.name);
  }

  void check_launch(const std::string& path, const KernelLaunch& launch) {
    if (!code_.empty() && !defines(launch.kernel))
      fail(path + ".kernel",
           fmt::format("the source does not mention '{}' (define it as {}, or correct the name)",
                       launch.kernel, manifest_.language->definition));
    if (launch.when)
      resolve(path + ".when", *launch.when, numbers_, "`when` and `repeat` may not use `step`");
    if (launch.repeat) {
      resolve(path + ".repeat", *launch.repeat, numbers_, "`when` and `repeat` may not use `step`");
      if (const auto known = taken_.find("step"); known != taken_.end())
        fail(path + ".repeat",
             fmt::format("`step` counts the repeats, but the name is {} (rename that)", known->second));
      numbers_.push_back("step");
    }
    check_repeated_launch(path, launch);
    if (launch.repeat) numbers_.pop_back();
  }

  void check_repeated_launch(const std::string& path, const KernelLaunch& launch) {
    std::vector<LaunchKey> keys = manifest_.language->launch_keys;
    keys.insert(keys.end(), manifest_.target->launch_keys.begin(), manifest_.target->launch_keys.end());
    for (const LaunchKey& key : keys) {
      const std::vector<Expression>& values = launch.values(key.name);
      for (std::size_t i = 0; i < values.size(); ++i)
        resolve(values.size() == 1 ? fmt::format("{}.{}", path, key.name)
                                   : fmt::format("{}.{}[{}]", path, key.name, i),
                values[i], numbers_);
    }
    bool writes = false;
    for (std::size_t i = 0; i < launch.args.size(); ++i) {
      const ArgumentSpec& argument = launch.args[i];
      const std::string at = fmt::format("{}.args[{}]", path, i);
      const bool special = contains(pointers_, argument.text) || contains(maps_, argument.text) ||
                           is_thread_argument(argument.text);
      if (special && argument.type)
        fail(at, fmt::format("'{}' takes no type (write only the name)", argument.text));
      if (contains(pointers_, argument.text) || contains(maps_, argument.text)) {
        writes = true;
        continue;
      }
      if (is_thread_argument(argument.text)) {
        if (!manifest_.target->thread_arguments) refuse_thread_argument(at, argument.text);
        continue;
      }
      Names known = pointers_;
      known.insert(known.end(), maps_.begin(), maps_.end());
      known.insert(known.end(), numbers_.begin(), numbers_.end());
      const Expression expression = Expression::parse(argument.text).value();
      for (const std::string& name : expression.names()) {
        if (contains(numbers_, name)) continue;
        if (contains(pointers_, name) || contains(maps_, name))
          fail(at, fmt::format("'{}': {} is a pointer or a tensor map and cannot be part of an expression",
                               argument.text, name));
        fail(at, fmt::format("unknown argument '{}'{}", name, did_you_mean(name, known, 40)));
      }
    }
    if (!writes)
      fail(path + ".args",
           "no argument is a tensor, a workspace or a tensor map, so the kernel cannot write any output (add "
           "one)");
  }

  [[noreturn]] void refuse_thread_argument(const std::string& at, const std::string& name) const {
    std::vector<std::string> others;
    for (const Target other : targets())
      if (other->thread_arguments) others.push_back(name_of(other));
    const std::string& remedy = manifest_.target->thread_remedy;
    fail(at, fmt::format("'{}' is only for target {} ({})", name, fmt::join(others, ", "),
                         remedy.empty() ? "remove it" : remedy));
  }

  bool defines(const std::string& kernel) const {
    const auto part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    for (std::size_t at = code_.find(kernel); at != std::string_view::npos; at = code_.find(kernel, at + 1)) {
      const bool begins = at == 0 || !part(code_[at - 1]);
      const std::size_t end = at + kernel.size();
      if (begins && (end == code_.size() || !part(code_[end]))) return true;
    }
    return false;
  }

  const Manifest& manifest_;
  const Task& task_;
  std::string_view code_;
  std::map<std::string, std::string, std::less<>> taken_;  // name -> what it already names
  Names numbers_, pointers_, maps_;
};

}  // namespace

tl::expected<void, ManifestError> check_manifest(const Manifest& manifest, const Task& task,
                                                 std::string_view source) {
  const auto text = find_manifest(source);
  try {
    Checker(manifest, task, text ? text->code : std::string_view{}).check();
  } catch (const Wrong& wrong) {
    return tl::make_unexpected(ManifestError{line_of(source, wrong.path), wrong.path + ": " + wrong.message});
  }
  return {};
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "engine/export/front_launcher.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "embedded/launcher.hpp"
#include "evaluators/launchers/cpp_expression.hpp"
#include "evaluators/launchers/render.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

// Statements that return the index of the leaf among the leaves.
std::string rule_statements(const DispatchTable& table, std::size_t node, const std::string& indent,
                            const std::vector<std::size_t>& leaves) {
  const DispatchNode& at = table.nodes.at(node);
  if (at.is_leaf())
    return fmt::format("{}return {};\n", indent, std::ranges::find(leaves, node) - leaves.begin());
  const DispatchFeature& feature = at.test.feature;
  std::vector<std::string> factors;
  for (const std::string& factor : feature.factors) factors.push_back(variable(factor));
  return fmt::format("{}if ({} <= {}{}) {{\n", indent, fmt::join(factors, " * "), literal(at.test.most),
                     feature.divisor.empty() ? "" : " * " + variable(feature.divisor)) +
         rule_statements(table, at.holds, indent + "  ", leaves) + indent + "}\n" +
         rule_statements(table, at.fails, indent, leaves);
}

// An expression that is true for shapes of the domain.
std::string inside(const std::vector<ValueRange>& domain) {
  std::vector<std::string> all{"true"};
  for (const ValueRange& range : domain)
    all.push_back(fmt::format("{0} >= {1} && {0} <= {2}", variable(range.name), literal(range.from),
                              literal(range.to)));
  return fmt::format("{}", fmt::join(all, " && "));
}

}  // namespace

std::string front_identity(const std::vector<FrontKernel>& kernels, const DispatchTable& table) {
  std::string text;
  for (const FrontKernel& kernel : kernels) text += kernel.name + ' ' + kernel.input.variant.id + '\n';
  return sha256_hex(text + nlohmann::json(table).dump()).substr(0, 12);
}

Expected<std::string> front_launcher_header(const LauncherInput& front,
                                            const std::vector<FrontKernel>& kernels,
                                            const FrontDispatch& dispatch, const FrontWords& words) {
  const Task& task = front.task;
  const std::string type = pascal_case(task.name);
  const auto space = [&](const FrontKernel& kernel) {
    return fmt::format("cultivar_export::{}_{}", task.name, short_identity(kernel.input.variant));
  };
  const auto bound = task_bindings(front);
  if (!bound) return bound;

  std::string includes, members, calls, preparations, acceptances, specialisations, copies;
  std::string uses, requirements, wanted, possibilities;
  std::vector<std::string> all_calls;
  std::vector<std::string> initialisers, names, orders, rules;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const std::string arguments = fmt::format("as<{}::{}Arguments>(arguments)", space(kernels[k]), type);
    includes += fmt::format("#include \"{}/{}/{}.hpp\"\n", kKernelsFolder, kernels[k].name, task.name);
    members += fmt::format("  {}::{} kernel_{}_;\n", space(kernels[k]), type, k);
    calls += fmt::format("      case {0}: return kernel_{0}_({1}{2});\n", k, arguments, words.given);
    preparations += fmt::format("      case {0}: return kernel_{0}_.prepare({1});\n", k, arguments);
    acceptances += fmt::format("      case {0}: return kernel_{0}_.accepts({1});\n", k, arguments);
    specialisations +=
        fmt::format("      case {0}: return kernel_{0}_.specialisation_for({1});\n", k, arguments);
    uses += fmt::format("    kernel_{}_.use(supplier);\n", k);
    all_calls.push_back(fmt::format("kernel_{}_.calls()", k));
    requirements += fmt::format("      case {0}: return kernel_{0}_.require({1});\n", k, arguments);
    wanted += fmt::format("      case {0}: return kernel_{0}_.wanted({1});\n", k, arguments);
    possibilities += fmt::format("      case {0}: return kernel_{0}_.could_accept({1});\n", k, arguments);
    initialisers.push_back(fmt::format("kernel_{}_({})", k, words.device));
    names.push_back('"' + kernels[k].name + '"');
  }
  const auto copied = [&](const auto& all) {
    for (const auto& each : all) copies += fmt::format("    to.{0} = arguments.{0};\n", each.name);
  };
  copied(task.dimensions);
  copied(task.parameters);
  copied(task.tensors);
  const std::vector<std::size_t> leaves = dispatch.table.leaves();
  for (const std::size_t leaf : leaves) {
    const auto conditions = dispatch.table.conditions_of(leaf);
    orders.push_back(fmt::format("{{{}}}", fmt::join(dispatch.table.nodes[leaf].order, ", ")));
    rules.push_back(fmt::format(
        "\"{}\"",
        in_quotes(conditions.empty() ? "always" : fmt::format("{}", fmt::join(conditions, " and ")))));
  }

  auto values = launcher_values(front);
  values["id"] = front_identity(kernels, dispatch.table);
  values.insert({{"kernel_count", std::to_string(kernels.size())},
                 {"kernels_folder", std::string(kKernelsFolder)},
                 {"needs_of_header", words.needs},
                 {"when_made", words.when_made},
                 {"stream", words.given.empty() ? "" : ", stream"},
                 {"includes", includes},
                 {"more_includes", words.includes},
                 {"driver", words.space.empty() ? ""
                                                : fmt::format("namespace {} = {}::{};\n", words.space,
                                                              space(kernels.front()), words.space)},
                 {"members", argument_members(front, words.tensor)},
                 {"parameter", words.parameter},
                 {"initialisers", fmt::format("{}", fmt::join(initialisers, ", "))},
                 {"more", words.members},
                 {"more_parameters", words.parameters},
                 {"calls", calls},
                 {"prepared", words.prepared},
                 {"preparations", preparations},
                 {"names", fmt::format("{}", fmt::join(names, ", "))},
                 {"orders", fmt::format("{}", fmt::join(orders, ",\n      "))},
                 {"rules", fmt::format("{}", fmt::join(rules, ",\n      "))},
                 {"rule_statements", rule_statements(dispatch.table, 0, "    ", leaves)},
                 {"learnt", cpp_comment(dispatch.learnt)},
                 {"inside", inside(dispatch.domain)},
                 {"bindings", *bound},
                 {"acceptances", acceptances},
                 {"specialisation_names", specialisations},
                 {"uses", uses},
                 {"all_calls", fmt::format("{}", fmt::join(all_calls, ", "))},
                 {"requirements", requirements},
                 {"wanted", wanted},
                 {"possibilities", possibilities},
                 {"fallback_parameters", words.types},
                 {"given", words.given},
                 {"copies", copies},
                 {"kernels", members}});
  return render(launcher::front_launcher_hpp, values);
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/launchers/late_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "embedded/launchers_templates.hpp"
#include "evaluators/launchers/cpp_expression.hpp"
#include "evaluators/launchers/render.hpp"

namespace cultivar {
namespace {

// The names whose values a specialization has compiled in, without the dtype, which a bundle has one of.
std::vector<std::string> names_of(const Variant& variant) {
  std::vector<std::string> names = variant.manifest.specialize;
  std::erase(names, "dtype");
  return names;
}

// How macro_text() writes it.
char kind_of_macro(const Task& task, const std::string& name) {
  for (const Parameter& parameter : task.parameters)
    if (parameter.name == name)
      return !is_floating(parameter.type) ? 'i' : parameter.type == Dtype::f64 ? 'd' : 'f';
  return 'n';
}

// The macros that all specializations share.
std::vector<std::string> fixed_macros(const LauncherInput& input) {
  std::vector<std::string> fixed;
  const std::vector<std::string> names = names_of(input.variant);
  for (const std::string& macro : macros(input.variant, input.task, input.workloads.front()))
    if (std::ranges::find(names, macro.substr(0, macro.find('='))) == names.end())
      fixed.push_back('"' + macro + '"');
  return fixed;
}

std::string numbers_of_call(const Task& task) {
  std::vector<std::string> numbers;
  const auto add = [&](const auto& all) {
    for (const auto& each : all)
      numbers.push_back(fmt::format("{{\"{}\", {}}}", each.name, variable(each.name)));
  };
  add(task.dimensions);
  add(task.parameters);
  return fmt::format("std::vector<std::pair<std::string, double>>{{{}}}", fmt::join(numbers, ", "));
}

}  // namespace

std::vector<std::string> entries_of(const Variant& variant) {
  std::vector<std::string> entries;
  for (const KernelLaunch& launch : variant.manifest.launch)
    if (std::ranges::find(entries, launch.kernel) == entries.end()) entries.push_back(launch.kernel);
  return entries;
}

std::string embedded_sources(const std::string& task, const std::vector<SourcesOfKernel>& kernels) {
  std::string text =
                  "// The kernels' sources, in the order in which they are compiled; generated.\n#pragma "
                  "once\n\n#include \"code.hpp\"\n\n",
              declarations, choices;
  for (const SourcesOfKernel& kernel : kernels) {
    choices += fmt::format("  if (kernel == \"{}\")\n    return {{", kernel.identity);
    for (std::size_t f = 0; f < kernel.files.size(); ++f) {
      const std::string symbol = fmt::format("cultivar_source_{}_{}_{}", task, kernel.identity, f);
      text += fmt::format(
          "asm(\".pushsection .rodata\\n{0}:\\n.incbin \\\"\" SOURCE_FOLDER \"/{1}\\\"\\n\"\n"
          "    \"{0}_end:\\n.byte 0\\n.popsection\\n\");\n",
          symbol, kernel.files[f]);
      declarations += fmt::format("extern \"C\" const char {0}[], {0}_end[];\n", symbol);
      choices += fmt::format("{{\"{0}\", std::string({1}, {1}_end)}}, ",
                             kernel.files[f].substr(kernel.files[f].rfind('/') + 1), symbol);
    }
    choices += "};\n";
  }
  return text + declarations +
         "\nnamespace late {\ninline std::vector<Source> sources(const std::string& kernel) {\n" + choices +
         "  return {};\n}\n}  // namespace late\n";
}

std::string late_values(const LauncherInput& input) {
  std::string values;
  for (const std::string& name : names_of(input.variant)) values += variable(name) + ", ";
  return fmt::format("values_t{{{}0.0}}", values);
}

std::string late_call(const LauncherInput& input, std::string_view given) {
  return fmt::format("late({}, [&] {{ return {}; }}{})", late_values(input), numbers_of_call(input.task),
                     given);
}

Expected<std::map<std::string, std::string, std::less<>>> late_parts(
    const LauncherInput& input, const std::vector<Specialisation>& served, const LateWords& words) {
  const auto bound = name_bindings(input, words.fact);
  const auto refusing = requirements(input, words.on_this_device, Otherwise::returns_false);
  const auto throwing = requirements(input, words.on_this_device);
  for (const auto* each : {&bound, &refusing, &throwing})
    if (!*each) return tl::make_unexpected(each->error());
  const std::vector<std::string> names = names_of(input.variant);
  std::string built, statements = words.hardware, finite;
  for (const Specialisation& each : served) built += (built.empty() ? "" : ", ") + each.suffix;
  for (std::size_t i = 0; i < names.size(); ++i) {
    statements += fmt::format(
        "    wanted.name += {1}name_part(\"{0}\", values[{2}]);\n"
        "    wanted.macros.push_back(\"{0}=\" + macro_text(values[{2}], '{3}'));\n",
        names[i], i == 0 ? "" : "\"_\" + ", i, kind_of_macro(input.task, names[i]));
    finite += fmt::format("    if (!std::isfinite({})) return false;\n", variable(names[i]));
  }
  if (names.empty()) statements += "    wanted.name = \"any\";\n";
  std::vector<std::string> entries = entries_of(input.variant);
  for (std::string& entry : entries) entry = '"' + entry + '"';
  auto values = launcher_values(input);
  values.insert(
      {{"late_names", names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))},
       {"late_count", std::to_string(names.size())},
       {"late_built", built},
       {"late_parameter", words.parameter},
       {"late_forbidden", words.forbidden},
       {"late_macros", fmt::format("{}", fmt::join(fixed_macros(input), ", "))},
       {"late_entries", fmt::format("{}", fmt::join(entries, ", "))},
       {"late_words", statements},
       {"fallback_parameters", words.fallback_parameters},
       {"could_accept", *bound + *refusing + finite + "    return true;\n"},
       {"require", *bound + *throwing},
       {"wanted",
        *bound +
            fmt::format("    Wanted wanted = wanted_of({});\n    wanted.numbers = {};\n    return wanted;\n",
                        late_values(input), numbers_of_call(input.task))}});
  return std::map<std::string, std::string, std::less<>>{
      {"supplier", std::string(launchers_templates::supplier_hpp)},
      {"late_public", render(launchers_templates::late_public_hpp, values)},
      {"supplied", render(launchers_templates::supplied_hpp, values)}};
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/opencl/launcher.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "embedded/opencl_templates.hpp"
#include "evaluators/launchers/cpp_expression.hpp"
#include "evaluators/launchers/late_parts.hpp"
#include "evaluators/launchers/render.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

constexpr std::string_view kKernelFile = "kernel.cl", kSourcesFile = "sources.cpp";

// The files in the order in which the compiler gets them: the kernel, then the headers that it includes.
std::vector<std::string> files_of(const Variant& variant) {
  std::vector<std::string> files{std::string(kKernelFile)};
  for (const HeaderFile& header : split_source(variant.source).headers) files.emplace_back(header.name);
  return files;
}

// Unique, because a program may contain several exports.
std::string symbol_of(const Variant& variant, std::size_t file) {
  return fmt::format("cultivar_opencl_{}_{}", short_identity(variant), file);
}

// The numbers of the device that runs the kernel.
std::string fact(const std::string& name, double value) {
  static const std::set<std::string> asked{"compute_units", "group_max", "local_bytes_max", "cache_bytes",
                                           "vector_floats"};
  return asked.contains(name) ? name + "_" : literal(value);
}

// Generates the statements that launch.
class Writer : public ExpressionWriter {
 public:
  Writer(const LauncherInput& input, const Plan& plan)
      : task_(input.task), manifest_(input.variant.manifest), plan_(plan) {}

  std::string launches() {
    std::string text;
    for (std::size_t k = 0; k < manifest_.launch.size(); ++k) text += launch(k);
    return text;
  }

 private:
  std::string three(const KernelLaunch& spec, const std::string& key) {
    const LaunchKey& known = *launch_key(manifest_.target, key);
    std::vector<std::string> all;
    const std::vector<Expression>& values = spec.values(key);
    for (std::size_t i = 0; i < values.size(); ++i)
      all.push_back(fmt::format("count_of({}, {}.0, \"{}[{}]\")", cpp(values[i]), known.most.at(i), key, i));
    return fmt::format("three_t{{{}}}", fmt::join(all, ", "));
  }
  std::string argument(const PlannedArgument& planned, const ArgumentSpec& spec, const std::string& name) {
    if (planned.kind == PlannedArgument::Kind::buffer) {
      const auto index = static_cast<std::size_t>(planned.index), tensors = task_.tensors.size();
      return fmt::format("    const cl_mem {} = {};\n", name,
                         index < tensors ? "arguments." + plan_.buffers[index].name
                                         : fmt::format("places[{}]", index - tensors));
    }
    return fmt::format("    const {} {} = {};\n", cpp_type(planned.type), name, value(planned, spec));
  }
  std::string launch(std::size_t k) {
    const KernelLaunch& spec = manifest_.launch[k];
    const PlannedKernel& planned = plan_.kernels[k];
    std::string text = fmt::format("    // {}\n", spec.kernel);
    std::vector<std::string> given;
    for (std::size_t a = 0; a < planned.args.size(); ++a) {
      const std::string name = fmt::format("argument_{}_{}", k, a);
      text += argument(planned.args[a], spec.args[a], name);
      given.push_back(fmt::format("{{&{0}, sizeof {0}}}", name));
    }
    const std::vector<Expression>& local_bytes = spec.values("local_bytes");
    text += fmt::format(
        "    launch(chosen, {}, {},\n           {},\n           std::size_t(whole({}, \"local memory\")), "
        "{{{}}});\n",
        k, three(spec, "global"), three(spec, "local"),
        local_bytes.empty() ? "0.0" : cpp(local_bytes.front()), fmt::join(given, ", "));
    auto all = as_often_as_said(spec, text);
    if (!all) note(all.error().message);
    return all.value_or("");
  }

  const Task& task_;
  const Manifest& manifest_;
  const Plan& plan_;
};

// For the left side of a comparison, and a factor.
std::string closed(const Expression& expression) {
  const std::string& text = expression.text();
  return text.find_first_of("?&|<>=!+-%/") == text.npos ? text : "(" + text + ")";
}

// What a device must have room for, as constraints: the kernel may be called on another one than it was made
// on.
std::vector<Expression> limits_of_a_group(const Manifest& manifest) {
  std::vector<Expression> limits;
  const auto add = [&](const KernelLaunch& launch, const std::string& number, const char* fact) {
    std::string text = fmt::format("{} <= {}", number, fact);
    if (launch.when) text = fmt::format("({}) == 0 || {}", launch.when->text(), text);
    auto limit = Expression::parse(text);
    // Numbers of a step are known where it is launched.
    if (!limit || std::ranges::count(limit->names(), "step") > 0) return;
    for (const auto* known : {&manifest.constraints, &std::as_const(limits)})
      if (std::ranges::count(*known, *limit) > 0) return;
    limits.push_back(*std::move(limit));
  };
  for (const KernelLaunch& launch : manifest.launch) {
    std::vector<std::string> local;
    for (const Expression& extent : launch.values("local"))
      if (extent.text() != "1") local.push_back(closed(extent));
    if (!local.empty()) add(launch, fmt::format("{}", fmt::join(local, " * ")), "group_max");
    if (const auto& bytes = launch.values("local_bytes"); !bytes.empty())
      add(launch, closed(bytes.front()), "local_bytes_max");
  }
  return limits;
}

// A function of the launcher, and of the entry of several kernels.
Expected<std::string> tensor_bytes(const LauncherInput& input) {
  const auto bound = task_bindings(input);
  if (!bound) return bound;
  std::vector<std::string> sizes;
  for (const TensorSpec& tensor : input.task.tensors) {
    std::string elements = "1.0";
    for (const std::string& extent : tensor.shape)
      elements += " * " + (is_constant(extent) ? extent + ".0" : variable(extent));
    sizes.push_back(fmt::format("std::size_t({}) * {}", elements,
                                size_of(input.task.dtype(tensor, input.workloads.front()))));
  }
  return fmt::format(
      "  // How many bytes each tensor has, in the order of the fields.\n"
      "  static std::array<std::size_t, {}> tensor_bytes(const {}Arguments& arguments) {{\n{}    return "
      "{{{}}};\n  }}\n",
      sizes.size(), pascal_case(input.task.name), *bound, fmt::join(sizes, ", "));
}

// A file that embeds the sources; the assembler reads them from the folder.
std::string embedding(const Variant& variant) {
  std::string text = "// The kernel's source as constants of the program; generated.\n";
  const std::vector<std::string> files = files_of(variant);
  for (std::size_t f = 0; f < files.size(); ++f)
    text += fmt::format(
        "asm(\".pushsection .rodata\\n\"\n    \".global {0}, {0}_end\\n\"\n    \"{0}:\\n\"\n"
        "    \".incbin \\\"\" KERNEL_FOLDER \"/{1}\\\"\\n\"\n    \"{0}_end:\\n.byte 0\\n.popsection\\n\");\n",
        symbol_of(variant, f), files[f]);
  return text;
}

FrontWords front_words(const std::string& bytes) {
  FrontWords words;
  words.parameter = "cl_command_queue queue = opencl::first_queue()";
  words.device = "queue";
  words.when_made = "a cl_command_queue, whose device runs the kernels; keep the object";
  words.needs = "Needs C++20, OpenCL 1.2 and its headers.";
  words.tensor = "cl_mem";
  words.includes = "#include <array>\n#include <limits>\n";
  words.members = fmt::format("  cl_command_queue queue() const {{ return kernel_0_.queue(); }}\n{}", bytes);
  return words;
}

}  // namespace

Expected<std::string> opencl_launcher_header(const LauncherInput& given,
                                             const std::vector<Specialisation>& served) {
  Variant limited = given.variant;
  std::ranges::copy(limits_of_a_group(given.variant.manifest),
                    std::back_inserter(limited.manifest.constraints));
  const LauncherInput input{given.task,          limited,       given.facts,  given.workloads, given.folder,
                            given.most_elements, given.covered, given.longest};
  const auto plan = plan_of_each_launch(input);
  if (!plan) return tl::make_unexpected(plan.error());
  const Manifest& manifest = input.variant.manifest;
  const auto bound = name_bindings(input, fact);
  if (!bound) return bound;
  const auto required = requirements(input, true);
  if (!required) return required;
  const auto accepted = acceptance(input, served, true, fact);
  if (!accepted) return accepted;
  const auto called = specialisation_names(input, served, late_values(input), fact);
  if (!called) return called;
  const auto places = workspace_places(input, "room(sizes)");
  if (!places) return places;
  const auto bytes = tensor_bytes(input);
  if (!bytes) return bytes;
  const auto parts =
      late_parts(input, served, {fact, true, "", "", "", "    wanted.architecture = identity_;\n"});
  if (!parts) return tl::make_unexpected(parts.error());

  std::string prepare = *bound +
                        fmt::format("    if (with_tensors && {}) return;\n", nothing_to_compute(input.task)) +
                        *required + "    if (with_tensors) {\n" + tensor_places(input) +
                        "    check_buffers(tensors);\n    }\n    std::size_t chosen = 0;\n";
  std::vector<std::string> bodies;
  for (std::size_t s = 0; s < served.size(); ++s)
    bodies.push_back(fmt::format("      chosen = {};\n      calls_.built_in += with_tensors;\n", s));
  prepare += choice_of_specialisation(
      served, bodies,
      fmt::format("      chosen = specialisation_count + {};\n      calls_.supplied += with_tensors;\n",
                  late_call(input)));
  prepare += *places + "    built(chosen);\n    if (!with_tensors) return;\n";
  for (std::size_t w = 0; w < manifest.workspace.size(); ++w)
    if (manifest.workspace[w].zero) prepare += fmt::format("    zero(places[{0}], sizes[{0}]);\n", w);
  Writer writer(input, *plan);
  prepare += writer.launches();
  if (!writer.trouble().empty()) return failure("export", writer.trouble());

  std::string declarations = "// The kernel's source, from sources.cpp.\n", options;
  std::vector<std::string> names, sources;
  const std::vector<std::string> files = files_of(input.variant);
  for (std::size_t f = 0; f < files.size(); ++f) {
    const std::string symbol = symbol_of(input.variant, f);
    declarations += fmt::format("extern \"C\" const char {0}[], {0}_end[];\n", symbol);
    sources.push_back(fmt::format("{{\"{1}\", std::string({0}, {0}_end)}}", symbol, files[f]));
  }
  for (const Specialisation& each : served)
    options += fmt::format("        \"-cl-std=CL1.2 -D {}\",\n", fmt::join(each.macros, " -D "));
  for (const KernelLaunch& launch : manifest.launch) names.push_back("\"" + launch.kernel + "\"");
  auto values = launcher_values(input);
  values.insert({{"calls", std::string(opencl_templates::opencl_calls_hpp)},
                 {"declarations", declarations},
                 {"sources", fmt::format("{}", fmt::join(sources, ", "))},
                 {"options", options},
                 {"specialisation_names", *called},
                 {"tensor_count", std::to_string(input.task.tensors.size())},
                 {"tensor_bytes", *bytes},
                 {"members", argument_members(input, "cl_mem")},
                 {"kernel_count", std::to_string(names.size())},
                 {"kernel_names", fmt::format("{}", fmt::join(names, ", "))},
                 {"specialisation_count", std::to_string(served.size())},
                 {"accepts", *accepted},
                 {"prepare", prepare}});
  values.insert(parts->begin(), parts->end());
  return render(opencl_templates::opencl_launcher_hpp, values);
}

Expected<TargetParts> opencl_parts(const ExportOrder& order) {
  const LauncherInput& input = order.input;
  if (!order.architectures.empty())
    throw InputError(
        "--arch is not for runs with target opencl: the driver of the device that runs the kernel compiles "
        "it");
  TargetParts parts;
  auto header = opencl_launcher_header(input, order.served);
  if (!header) return tl::make_unexpected(header.error());
  const auto bytes = tensor_bytes(input);
  if (!bytes) return tl::make_unexpected(bytes.error());
  parts.files[input.task.name + ".hpp"] = std::move(*header);
  parts.files[std::string(kSourcesFile)] = embedding(input.variant);
  parts.cmake = opencl_templates::opencl_CMakeLists_txt;
  parts.bench = opencl_templates::opencl_bench_hpp;
  parts.device = opencl_templates::opencl_device_hpp;
  parts.code = opencl_templates::opencl_code_hpp;
  parts.front = front_words(*bytes);

  std::vector<std::string> files = files_of(input.variant);
  for (std::string& file : files) file = "${CMAKE_CURRENT_SOURCE_DIR}/" + input.folder + file;
  std::string buffers, outputs;
  for (std::size_t t = 0; t < input.task.tensors.size(); ++t) {
    const TensorSpec& tensor = input.task.tensors[t];
    buffers += fmt::format("    arguments.{0} = at(host.{0}, bytes[{1}]);\n", tensor.name, t);
    if (tensor.role == Role::output)
      outputs += fmt::format("    fetch(arguments.{}, bytes[{}]);\n", tensor.name, t);
  }
  const std::string folder = input.folder.empty() ? "" : "kernels/*/";
  parts.values = {
      {"kernel_file", std::string(kKernelFile)},
      {"build_parts",
       fmt::format("cultivar_sources({0}{1} {0}. {2})\n", input.folder, kSourcesFile, fmt::join(files, " "))},
      {"build_sources", fmt::format(" {}{}", input.folder, kSourcesFile)},
      {"buffers_of_host", buffers},
      {"outputs_to_host", outputs},
      {"oracle_flags", "-O3 -march=native"},
      {"search_device", ""},
      {"constructed", "(queue)"},
      {"fallback_example", ""},
      {"compiler_words", "by the driver of the device"},
      {"dependencies", "find_dependency(OpenCL)\n"},
      {"libraries", " -lOpenCL"},
      {"on_its_device",
       "    setenv(\"CULTIVAR_EXPORT_OPENCL_DEVICE\", wanted_.architecture.c_str(), 1);  // of the call\n"},
      {"stream", ""},
      {"gap", "                              "},
      {"alignment", std::to_string(kTensorAlignment)},
      {"device_checks",
       ";\n- that each tensor is a buffer of the queue's context, is large enough, and was made for its use "
       "(no output with\n  `CL_MEM_READ_ONLY`)"},
      {"needs",
       "\nIt needs a driver of OpenCL 1.2 with a compiler, which compiles the kernel at the first call of a "
       "specialization; drivers keep\nwhat they compiled. `CULTIVAR_EXPORT_OPENCL_DEVICE` names another "
       "device than the first for `build/verify`, and for objects\nthat are made without a queue."},
      {"target_files",
       fmt::format("| `{0}sources.cpp`, `CMakeLists.txt` | build the source into a library that the launcher "
                   "links |\n",
                   folder)}};
  return parts;
}

}  // namespace cultivar

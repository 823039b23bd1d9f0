// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/launcher.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "embedded/cuda_templates.hpp"
#include "evaluators/devices/cuda/code/tensor_map.hpp"
#include "evaluators/launchers/cpp_expression.hpp"
#include "evaluators/launchers/late_parts.hpp"
#include "evaluators/launchers/render.hpp"

namespace cultivar {
namespace {

// The symbol of a cubin's bytes in the linked program; unique, because a program may contain several exports.
std::string symbol_of(const Variant& variant, const CubinFile& file) {
  std::string symbol = "cultivar_cubin_" + short_identity(variant) + "_" + file.name;
  std::replace_if(
      symbol.begin(), symbol.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return symbol;
}

// Device facts are evaluated on the GPU that runs the kernel, for example for a grid of one block per SM.
std::string fact(const std::string& name, double value) {
  static const std::set<std::string> asked{"num_sms",       "l2_bytes", "threads_max",
                                           "registers_max", "smem_max", "compute_capability"};
  if (asked.contains(name)) return name + "_";
  return literal(value);
}

// Generates the statements of one launcher.
class Writer : public ExpressionWriter {
 public:
  Writer(const LauncherInput& input, const Plan& plan, const std::vector<CubinFile>& cubins)
      : task_(input.task), manifest_(input.variant.manifest), plan_(plan), cubins_(cubins) {}

  // Declares the tensor maps, named as in the manifest.
  std::string tensor_maps() {
    std::string text;
    for (std::size_t m = 0; m < manifest_.tensor_maps.size(); ++m) {
      const TensorMapSpec& spec = manifest_.tensor_maps[m];
      const auto arguments = tensor_map_arguments(plan_.tensor_maps[m]);
      if (!arguments) {
        note(arguments.error().message);
        return {};
      }
      std::string steps = list(spec.element_strides);
      if (spec.element_strides.empty())
        steps = fmt::format("{}", fmt::join(std::vector<std::string>(spec.sizes.size(), "1.0"), ", "));
      text += fmt::format(
          "    driver::TensorMap map_{0} =\n"
          "        tensor_map(\"{0}\", {1}, {2}, {3},\n"
          "                   {{{4}}}, {{{5}}}, {{{6}}}, {{{7}}},\n"
          "                   {8}, {9}, {10}, {11});  // interleave {12}, swizzle {13}, L2 {14}, outside "
          "{15}\n",
          spec.name, arguments->data_type, literal(static_cast<double>(size_of(plan_.tensor_maps[m].dtype))),
          pointer_to(spec.tensor), list(spec.sizes), list(spec.strides), list(spec.box), steps,
          arguments->interleave, arguments->swizzle, arguments->l2_promotion, arguments->out_of_bounds,
          spec.interleave, spec.swizzle, spec.l2_promotion, spec.out_of_bounds);
    }
    return text;
  }

  // Emits the launches of specialization `chosen`: argument values first, so that they exist until the
  // launch.
  std::string launches() {
    std::string text;
    for (std::size_t k = 0; k < manifest_.launch.size(); ++k) text += launch(k);
    return text;
  }

 private:
  // In the launcher, to a tensor or a workspace.
  std::string pointer_to(const std::string& name) const {
    for (std::size_t w = 0; w < manifest_.workspace.size(); ++w)
      if (manifest_.workspace[w].name == name)
        return fmt::format("reinterpret_cast<const void*>(places[{}])", w);
    return "arguments." + name;
  }
  std::string list(const std::vector<Expression>& expressions) {
    std::vector<std::string> all;
    for (const Expression& e : expressions) all.push_back(cpp(e));
    return fmt::format("{}", fmt::join(all, ", "));
  }
  std::string three(const std::vector<Expression>& expressions, const std::vector<const char*>& limits,
                    std::string_view what) {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < expressions.size(); ++i)
      all.push_back(fmt::format("count_of({}, {}, \"{}[{}]\")", cpp(expressions[i]), limits[i], what, i));
    return fmt::format("three_t{{{}}}", fmt::join(all, ", "));
  }

  std::string argument(const PlannedArgument& planned, const ArgumentSpec& spec, const std::string& name) {
    using Kind = PlannedArgument::Kind;
    if (planned.kind == Kind::tensor_map) return {};
    if (planned.kind == Kind::buffer) {
      const auto index = static_cast<std::size_t>(planned.index), tensors = task_.tensors.size();
      if (index < tensors)
        return fmt::format("    const void* {} = arguments.{};\n", name, plan_.buffers[index].name);
      return fmt::format("    unsigned long long {} = places[{}];  // {}\n", name, index - tensors,
                         plan_.buffers[index].name);
    }
    return fmt::format("    {} {} = {};\n", cpp_type(planned.type), name, value(planned, spec));
  }

  std::string launch(std::size_t k) {
    const KernelLaunch& spec = manifest_.launch[k];
    const PlannedKernel& planned = plan_.kernels[k];
    std::string text = fmt::format("    // {}\n", spec.kernel);
    std::vector<std::string> pointers;
    for (std::size_t a = 0; a < planned.args.size(); ++a) {
      const std::string name = fmt::format("argument_{}_{}", k, a);
      text += argument(planned.args[a], spec.args[a], name);
      const bool map = planned.args[a].kind == PlannedArgument::Kind::tensor_map;
      pointers.push_back(
          map ? fmt::format("&map_{}",
                            plan_.tensor_maps[static_cast<std::size_t>(planned.args[a].index)].name)
              : "&" + name);
    }
    pointers.emplace_back("nullptr");
    text += fmt::format(
        "    void* parameters_{0}[] = {{{1}}};\n"
        "    launch(chosen, {0}, {2},\n           {3},\n           {4},\n"
        "           unsigned(whole({5}, \"shared memory\")), {6}, {7}, stream, parameters_{0});\n",
        k, fmt::join(voids(pointers), ", "),
        three(spec.values("grid"), {"2147483647.0", "65535.0", "65535.0"}, "grid"),
        three(spec.values("block"), {"1024.0", "1024.0", "64.0"}, "block"),
        three(spec.values("cluster"), {"16.0", "16.0", "16.0"}, "cluster"), shared_bytes(k),
        spec.flag("cooperative"),
        // The first kernel has no earlier kernel of the plan to overlap with.
        spec.flag("programmatic_dependent") && follows_a_kernel(k));
    auto all = as_often_as_said(spec, text);
    if (!all) note(all.error().message);
    return all.value_or("");
  }
  // What the manifest says, or what the compiler decided for each specialization.
  std::string shared_bytes(std::size_t k) {
    const KernelLaunch& spec = manifest_.launch[k];
    std::map<std::size_t, std::int64_t> chosen;
    for (const CubinFile& cubin : cubins_) {
      std::int64_t bytes = 0;
      if (const auto kernel = cubin.chosen.find(spec.kernel); kernel != cubin.chosen.end())
        if (const auto key = kernel->second.find("shared"); key != kernel->second.end())
          bytes = key->second.front();
      if (const auto [known, fresh] = chosen.emplace(cubin.specialisation, bytes);
          !fresh && known->second != bytes)
        note(fmt::format(
            "kernel '{}' needs another amount of shared memory on each architecture; export it for one "
            "(--arch)",
            spec.kernel));
    }
    const bool decided =
        std::ranges::any_of(cubins_, [](const CubinFile& cubin) { return !cubin.chosen.empty(); });
    if (!decided) return spec.values("shared").empty() ? "0.0" : cpp(spec.values("shared").front());
    std::vector<std::string> bytes;
    for (const auto& [specialisation, number] : chosen) bytes.push_back(fmt::format("{}.0", number));
    return fmt::format("std::array{{{}}}.at(chosen)", fmt::join(bytes, ", "));
  }
  bool follows_a_kernel(std::size_t k) const {
    return std::any_of(manifest_.launch.begin(), manifest_.launch.begin() + static_cast<std::ptrdiff_t>(k),
                       [](const KernelLaunch& earlier) { return !earlier.when && !earlier.repeat; });
  }
  static std::vector<std::string> voids(std::vector<std::string> pointers) {
    for (std::string& pointer : pointers)
      if (pointer.starts_with('&')) pointer = "(void*)" + pointer;
    return pointers;
  }

  const Task& task_;
  const Manifest& manifest_;
  const Plan& plan_;
  const std::vector<CubinFile>& cubins_;
};

}  // namespace

Expected<std::string> cuda_launcher_header(const LauncherInput& input,
                                           const std::vector<Specialisation>& served,
                                           const std::vector<CubinFile>& cubins, const std::string& made_by) {
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
  std::string prepare =
      *bound + fmt::format("    if (!prepared_bytes && {}) return;\n", nothing_to_compute(input.task)) +
      *required;
  prepare += "    if (!prepared_bytes) {\n" +
             tensor_checks(input, "copy it to memory of its own, which cudaMalloc aligns to 256") +
             "    check_device(tensors);\n    }\n";
  prepare += "    std::size_t chosen = 0;\n";
  std::vector<std::string> bodies;
  for (std::size_t s = 0; s < served.size(); ++s)
    bodies.push_back(
        fmt::format("      chosen = {};\n      calls_.built_in += prepared_bytes == nullptr;\n", s));
  prepare += choice_of_specialisation(
      served, bodies,
      fmt::format(
          "      chosen = specialisation_count + {};\n      calls_.supplied += prepared_bytes == nullptr;\n",
          late_call(input, ", stream")));
  const auto parts = late_parts(
      input, served,
      {fact, true, ", CUstream_st*, void*", ", CUstream_st* stream",
       "    if (is_capturing(stream)) throw Unsupported(words + \", and nothing is compiled while a CUDA "
       "graph is captured: call once before the capture\");\n",
       "    wanted.architecture = architecture();\n"});
  if (!parts) return tl::make_unexpected(parts.error());
  const auto places =
      workspace_places(input, "room(sizes, given_workspace)",
                       "    if (prepared_bytes) return prepare(chosen, sizes, *prepared_bytes);\n");
  if (!places) return places;
  prepare += *places;
  Writer writer(input, *plan, cubins);
  prepare += writer.tensor_maps();
  for (std::size_t w = 0; w < manifest.workspace.size(); ++w)
    if (manifest.workspace[w].zero)
      prepare += fmt::format(
          "    if (sizes[{0}] > 0)\n"
          "      driver::must(driver::api().MemsetD8Async(places[{0}], 0, sizes[{0}], stream), \"zeroing "
          "{1}\");\n",
          w, manifest.workspace[w].name);
  prepare += writer.launches();
  if (!writer.trouble().empty()) return failure("export", writer.trouble());

  std::string declarations = "// The machine code, from cubins.cpp.\n", images;
  std::vector<std::string> names, architectures;
  for (const CubinFile& cubin : cubins) {
    declarations += fmt::format("extern \"C\" const unsigned char {}[];\n", symbol_of(input.variant, cubin));
    images += fmt::format("        {{{}, {}, {}, {}}},\n", cubin.specialisation,
                          std::atoi(cubin.architecture.c_str() + 3), cubin.architecture.ends_with('a'),
                          symbol_of(input.variant, cubin));
    if (std::find(architectures.begin(), architectures.end(), cubin.architecture) == architectures.end())
      architectures.push_back(cubin.architecture);
  }
  for (const KernelLaunch& launch : manifest.launch) names.push_back("\"" + launch.kernel + "\"");
  auto values = launcher_values(input);
  values.insert({{"declarations", declarations},
                 {"made_by", made_by},
                 {"specialisation_names", *called},
                 {"tensor_count", std::to_string(input.task.tensors.size())},
                 {"members", argument_members(input)},
                 {"architectures", fmt::format("{}", fmt::join(architectures, ", "))},
                 {"kernel_count", std::to_string(names.size())},
                 {"kernel_names", fmt::format("{}", fmt::join(names, ", "))},
                 {"specialisation_count", std::to_string(served.size())},
                 {"images", images},
                 {"accepts", *accepted},
                 {"prepare", prepare}});
  values.insert(parts->begin(), parts->end());
  return render(cuda_templates::cuda_launcher_hpp, values);
}

std::string cuda_cubin_source(const Variant& variant, const std::vector<CubinFile>& cubins) {
  std::string text =
      "// The machine code as constants of the program; generated. CMakeLists.txt sets where the files "
      "are.\n";
  for (const CubinFile& cubin : cubins)
    text += fmt::format(
        "asm(\".pushsection .rodata\\n\"\n    \".balign 64\\n\"\n    \".global {0}\\n\"\n    \"{0}:\\n\"\n"
        "    \".incbin \\\"\" CUBIN_FOLDER \"/{1}\\\"\\n\"\n    \".popsection\\n\");\n",
        symbol_of(variant, cubin), cubin.name);
  return text;
}

Expected<TargetParts> cuda_parts(const ExportOrder& order) {
  const LauncherInput& input = order.input;
  const std::vector<Specialisation>& served = order.served;
  std::vector<std::string> architectures = order.architectures;
  if (architectures.empty())
    architectures.push_back(architecture_of(input.variant.manifest.target, input.facts));
  TargetParts parts;
  std::vector<CubinFile> cubins;
  std::string made_by;
  for (const std::string& architecture : architectures) {
    auto compiled = order.compile(architecture);
    if (!compiled) return tl::make_unexpected(compiled.error());
    made_by = std::move(compiled->compiler);
    for (std::size_t s = 0; s < served.size(); ++s) {
      cubins.push_back({s, architecture, fmt::format("{}.{}.cubin", served[s].suffix, architecture),
                        s < compiled->chosen.size() ? compiled->chosen[s] : LaunchChoices{}});
      parts.files["cubin/" + cubins.back().name] = std::move(compiled->code.at(s));
    }
  }
  auto header = cuda_launcher_header(input, served, cubins, made_by);
  if (!header) return tl::make_unexpected(header.error());
  parts.files[input.task.name + ".hpp"] = std::move(*header);
  parts.files["cubins.cpp"] = cuda_cubin_source(input.variant, cubins);
  const Language language = input.variant.manifest.language;
  parts.cmake = cuda_templates::cuda_CMakeLists_txt;
  parts.bench = cuda_templates::cuda_bench_hpp;
  parts.device = cuda_templates::cuda_device_hpp;
  parts.code = cuda_templates::cuda_code_hpp;
  parts.front.parameter = "int device = 0";
  parts.front.device = "device";
  parts.front.when_made = "uses this thread's CUDA context, or device 0's primary context";
  parts.front.needs = "Needs C++20, Linux and NVIDIA's driver.";
  parts.front.parameters = ", CUstream_st* stream = nullptr, void* workspace = nullptr";
  parts.front.given = ", stream, workspace";
  parts.front.types = ", CUstream_st*, void*";
  parts.front.prepared = "std::size_t";
  parts.front.space = "driver";
  const std::string names = fmt::format("{}", fmt::join(architectures, ", "));
  parts.values = {
      {"kernel_file", "kernel" + language->extension},
      {"architectures", names},
      {"build_parts", fmt::format("cultivar_cubins({0}cubins.cpp {0}cubin)\n", input.folder)},
      {"build_sources", fmt::format(" {}cubins.cpp", input.folder)},
      {"oracle_flags", ""},
      {"search_device", ""},
      {"constructed", ""},
      {"dependencies", ""},
      {"libraries", ""},
      {"on_its_device", ""},
      {"fallback_example", ", CUstream_st*, void*"},
      {"compiler_words",
       language == usual_language(input.variant.manifest.target)
           ? "by NVRTC, if it is installed"
           : fmt::format("not a kernel in {}: it serves the sizes that are built in", language->title)},
      {"stream", ", stream"},
      {"gap", "                      "},
      {"alignment", std::to_string(kTensorAlignment)},
      {"device_checks",
       ";\n- that the tensors are memory of the GPU that the object was made for, and its context is "
       "current"},
      {"needs",
       fmt::format("\nIt needs a GPU of {} and NVIDIA's driver, but neither a CUDA toolkit nor Cultivar.",
                   names)},
      {"target_files",
       fmt::format(
           "| `{0}cubin/` | the machine code for each specialization and architecture, with fixed "
           "tunables |\n"
           "| `{0}cubins.cpp`, `CMakeLists.txt` | build it into a library that the launcher links |\n",
           input.folder.empty() ? "" : "kernels/*/")}};
  parts.architectures = std::move(architectures);
  return parts;
}

}  // namespace cultivar

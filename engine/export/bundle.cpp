// SPDX-License-Identifier: Apache-2.0
#include "engine/export/bundle.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "embedded/launcher.hpp"
#include "engine/export/bundled_kernel.hpp"
#include "engine/export/domain.hpp"
#include "engine/export/front_launcher.hpp"
#include "engine/export/manifest_parts.hpp"
#include "engine/export/pytorch_parts.hpp"
#include "engine/export/tables.hpp"
#include "engine/export/verify_shapes.hpp"
#include "engine/store/recorded_run.hpp"
#include "engine/store/standings.hpp"
#include "evaluators/launchers/late_parts.hpp"
#include "evaluators/launchers/render.hpp"
#include "evaluators/references/python/python_reference.hpp"
#include "evaluators/references/task_files.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

Expected<void> write(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out)
    return failure("export", fmt::format("cannot write {}; check that the disk is not full", file.string()));
  return {};
}

bool holds_bundle(const fs::path& folder) {
  return fs::exists(folder / "bundle.json");
}

// The files that an earlier export wrote into this folder.
std::set<std::string> files_of_bundle(const fs::path& folder) {
  const auto facts = foreign_json(read_file(folder / "bundle.json", 1 << 20).value_or(""));
  std::set<std::string> files;
  if (facts.is_object() && facts.contains("files") && facts["files"].is_array())
    for (const auto& name : facts["files"])
      if (name.is_string()) files.insert(name.get<std::string>());
  return files;
}

// Moves files that do not belong to the earlier export (notes, a build) into the new one.
void carry_over(const fs::path& from, const fs::path& to, const std::set<std::string>& written,
                const fs::path& below = {}) {
  for (const auto& entry : fs::directory_iterator(from / below)) {
    const fs::path name = below / entry.path().filename();
    const bool folder = fs::is_directory(entry.symlink_status());
    const std::string prefix = name.generic_string() + "/";
    const auto next = written.lower_bound(prefix);
    if (folder && ((next != written.end() && next->starts_with(prefix)) || fs::exists(to / name))) {
      carry_over(from, to, written, name);
    } else if (!fs::exists(fs::symlink_status(to / name)) && !written.contains(name.generic_string())) {
      fs::create_directories((to / name).parent_path());
      fs::rename(from / name, to / name);
    }
  }
}

bool holds_the_working_folder(const fs::path& folder) {
  std::error_code ec;
  for (fs::path at = fs::current_path(ec); !at.empty(); at = at.parent_path()) {
    if (fs::equivalent(at, folder, ec)) return true;
    if (at == at.root_path()) break;
  }
  return false;
}

void move_contents(const fs::path& from, const fs::path& to) {
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(from)) fs::rename(entry, to / entry.path().filename());
}

// Writes the task as it was when the run was started, as a folder that load_task can read.
Expected<fs::path> restore_task(const RunFacts& facts, const fs::path& folder) {
  for (const auto& [name, text] : facts.task_files.items())
    if (auto ok = write(folder / name, text.get<std::string>()); !ok) return tl::make_unexpected(ok.error());
  return folder;
}

std::string device_of(const RunFacts& facts) {
  const auto devices = facts.environment.value("devices", nlohmann::json::array());
  return devices.empty() ? "an unnamed device" : devices.front().value("description", "an unnamed device");
}

// The shared library's name: the run and the kernel's identity.
std::string library_name(const std::string& run, const std::string& variant) {
  std::string name = run;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c >= 0x80 || !std::isalnum(c); }, '_');
  return fmt::format("{}_{}", name, variant.substr(0, 8));
}

// ", K up to 57344": the dimensions that outputs sum over
// Of each tensor, the most elements that any of the kernels takes.
std::map<std::string, std::int64_t> widest_sizes(const std::vector<BundledKernel>& kernels) {
  std::map<std::string, std::int64_t> most;
  for (const BundledKernel& kernel : kernels)
    for (const auto& [tensor, count] : kernel.most_elements) most[tensor] = std::max(most[tensor], count);
  return most;
}

std::string longest_words(const std::map<std::string, double>& longest) {
  std::string words;
  for (const auto& [dimension, most] : longest) words += fmt::format(", {} up to {:.0f}", dimension, most);
  return words;
}

// The task's implementation in PyTorch: from the record, or from the installation for records without it.
// Empty: the task has none.
constexpr const char* kInPytorch = "pytorch.py";
std::string task_in_pytorch(const RunFacts& facts, const std::string& task, const Runtime& runtime) {
  if (facts.task_files.contains(kInPytorch)) return facts.task_files[kInPytorch].get<std::string>();
  return read_file(runtime.installation.tasks / task / kInPytorch).value_or("");
}

struct Contents {
  std::map<std::string, std::string> files;  // relative path -> text
  std::vector<std::string> specialisations;
};

// More specializations of a domain are not built in unless --cover asks for them.
constexpr std::size_t kMostOfDomain = 32;

// The kernels with their launchers. The first is the best; its task's and target's texts are the bundle's.
Expected<std::vector<BundledKernel>> kernels_of(const ExportRequest& request, const Task& task,
                                                const Config& config, const Facts& device,
                                                const std::vector<IndividualId>& ids) {
  if (config.target->exporter == nullptr)
    return failure("export", fmt::format("kernels of the target {} are not exported as projects: `cultivar "
                                         "show RUN ID --source` prints their source",
                                         name_of(config.target)));
  std::vector<BundledKernel> kernels;
  for (const IndividualId id : ids) {
    const Evaluation* confirmation = nullptr;
    if (request.portfolio != nullptr)
      if (const auto found = request.portfolio->confirmations.find(id);
          found != request.portfolio->confirmations.end())
        confirmation = &found->second;
    auto kernel = bundled_kernel(request.record, task, config, id, confirmation,
                                 ids.size() == 1 ? "" : fmt::format("{}/{}/", kKernelsFolder, id));
    if (!kernel) return tl::make_unexpected(kernel.error());
    // A table's domain is covered, too, unless that takes many compilations.
    const bool learnt = request.cover.empty() && request.portfolio != nullptr && request.portfolio->over;
    if (const std::string& cover = learnt ? request.portfolio->over->domain : request.cover; !cover.empty()) {
      const auto ranges = parse_ranges(learnt ? "--over" : "--cover", cover, task);
      if (!ranges) return tl::make_unexpected(ranges.error());
      auto covered = covered_workloads(kernel->input(task, device), *ranges);
      if (!covered && !learnt) return tl::make_unexpected(covered.error());
      if (covered && (!learnt || covered->size() <= kMostOfDomain)) kernel->covered = std::move(*covered);
    }
    const LauncherInput input = kernel->input(task, device);
    kernel->served = specialisations(input);
    auto parts =
        target_parts(input, kernel->served, request.runtime, config.evaluation.python, request.architectures);
    if (!parts) return tl::make_unexpected(parts.error());
    kernel->parts = std::move(*parts);
    kernels.push_back(std::move(*kernel));
  }
  return kernels;
}

// Of one kernel its launcher; of several also the front launcher, which is the bundle's.
struct Entry {
  std::vector<Workload> workloads;  // of all kernels
  std::string identity, header;     // header: empty for one kernel
  FrontDispatch dispatch = {};      // of several
};
Expected<Entry> entry_of(const Task& task, const Facts& device, const std::vector<BundledKernel>& kernels,
                         const KernelPortfolio* portfolio) {
  if (kernels.size() == 1) return Entry{kernels[0].workloads, short_identity(kernels[0].variant), ""};
  Entry entry;
  std::vector<LauncherInput> inputs;
  for (const BundledKernel& kernel : kernels) inputs.push_back(kernel.input(task, device));
  std::vector<FrontKernel> fronts;
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    fronts.push_back({std::to_string(kernels[k].id()), inputs[k]});
    for (const Workload& workload : kernels[k].workloads)
      if (std::none_of(entry.workloads.begin(), entry.workloads.end(),
                       [&](const Workload& known) { return known.name == workload.name; }))
        entry.workloads.push_back(workload);
  }
  entry.dispatch.table = portfolio->table(task, entry.workloads);
  entry.dispatch.learnt = learnt_words(*portfolio);
  if (portfolio->over) {
    auto domain = parse_ranges("--over", portfolio->over->domain, task);
    if (!domain) return tl::make_unexpected(domain.error());
    entry.dispatch.domain = std::move(*domain);
  }
  LauncherInput front = inputs.front();
  front.workloads = entry.workloads;
  front.folder.clear();
  front.most_elements = widest_sizes(kernels);
  auto header = front_launcher_header(front, fronts, entry.dispatch, kernels.front().parts.front);
  if (!header) return tl::make_unexpected(header.error());
  entry.header = std::move(*header);
  entry.identity = front_identity(fronts, entry.dispatch.table);
  return entry;
}

// The generated build: one part for each kernel.
std::string joined(const std::vector<BundledKernel>& kernels, std::string_view value) {
  std::string text;
  for (const BundledKernel& kernel : kernels) text += kernel.parts.values.find(value)->second;
  return text;
}

// The operator, what tests it and what puts it in the place of others.
void add_pytorch(std::map<std::string, std::string>& files, const ExportRequest& request,
                 const RunFacts& facts, const Task& task, const BundledKernel& best,
                 std::map<std::string, std::string, std::less<>> values) {
  files[fmt::format("pytorch/cultivar_{}.py", task.name)] = render(launcher::pytorch_module_py, values);
  files[fmt::format("pytorch/test_cultivar_{}.py", task.name)] = render(launcher::pytorch_test_py, values);
  std::vector<std::string> quoted;
  for (const std::string& each : best.parts.architectures) quoted.push_back('"' + each + '"');
  values["architecture_names"] = fmt::format("{}", fmt::join(quoted, ", "));
  values["hub_license"] =
      in_quotes(best.variant.manifest.license.empty() ? "unknown" : best.variant.manifest.license);
  files["pytorch/hub.py"] = render(launcher::pytorch_hub_py, values);
  files["pytorch/overrides.py"] = render(launcher::pytorch_overrides_py, values);
  if (const std::string text = task_in_pytorch(facts, task.name, request.runtime); !text.empty())
    files["pytorch/task_in_pytorch.py"] = text;
  if (facts.task_files.contains(kModelNew) && facts.task_files.contains("model.py"))
    files[fmt::format("pytorch/{}", kModelNew)] =
        model_new(files, facts.task_files["model.py"].get<std::string>(),
                  facts.task_files[kModelNew].get<std::string>(), values);
}

Expected<Contents> compose(const ExportRequest& request, const std::vector<IndividualId>& ids,
                           const fs::path& scratch) {
  const Record& record = request.record;
  const auto facts = record.facts();
  const fs::path place =
      fs::path("task") /
      facts.task_name;  // the same path as in the run's folder, because the configuration uses it
  auto task_folder = restore_task(facts, scratch / place);
  if (!task_folder) return tl::make_unexpected(task_folder.error());
  const auto task = load_task(*task_folder);
  // If the run was moved to another machine, only the record may exist.
  const fs::path base = fs::exists(record.folder() / place) ? record.folder() : scratch;
  const auto config =
      parse_config(facts.config_yaml, "the run's record", base, {}, request.runtime.installation);
  const Facts device = facts_in(facts.environment);
  const auto kernels = kernels_of(request, task, config, device, ids);
  if (!kernels) return tl::make_unexpected(kernels.error());
  const BundledKernel& best = kernels->front();
  const auto entry = entry_of(task, device, *kernels, request.portfolio);
  if (!entry) return tl::make_unexpected(entry.error());
  LauncherInput input = best.input(task, device);
  input.workloads = entry->workloads;
  input.most_elements = widest_sizes(*kernels);
  std::vector<std::string> kernel_names;
  std::vector<VerifyShape> shapes;
  for (const BundledKernel& kernel : *kernels) {
    std::ranges::move(verify_shapes(kernel.input(task, device), kernel.served, kernel_names.size()),
                      std::back_inserter(shapes));
    kernel_names.push_back(kernels->size() == 1 ? kernel.variant.manifest.name : std::to_string(kernel.id()));
  }
  const auto data = verify_data(input, kernel_names, shapes);
  if (!data) return tl::make_unexpected(data.error());

  Contents contents;
  for (const BundledKernel& kernel : *kernels)
    for (const Specialisation& s : kernel.served)
      if (std::find(contents.specialisations.begin(), contents.specialisations.end(), s.suffix) ==
          contents.specialisations.end())
        contents.specialisations.push_back(s.suffix);
  const bool alone = kernels->size() == 1;
  const std::string name =
      alone ? best.variant.manifest.name : fmt::format("portfolio of {} kernels", kernels->size());
  const std::string library = library_name(facts.name, entry->identity);
  std::map<std::string, std::string, std::less<>> values{
      {"task", task.name},
      {"class", pascal_case(task.name)},
      {"summary", cpp_comment(task.summary)},
      {"variant", name},
      {"id", entry->identity},
      {"dtype", std::string(name_of(input.workloads.front().dtype))},
      {"unit", in_quotes(best.evaluation.unit)},
      // Factor from work (operations or bytes) per microsecond to that unit.
      {"rate", best.evaluation.unit == "TFLOPS" ? "1e-6" : "1e-3"},
      {"about", about_kernels(record, config.workloads, *kernels, entry->identity, request.portfolio,
                              request.runtime.installation.tasks)},
      {"kernel_rows", kernel_rows(*kernels)},
      {"licenses", licenses_of(*kernels)},
      {"several_kernels", alone ? "false" : "true"},
      {"run_kernel", alone
                         ? "kernel_(arguments_)"
                         : "which < 0 ? kernel_(arguments_) : kernel_.call(std::size_t(which), arguments_)"},
      {"kernel_for", alone ? "\"\""
                           : "which < 0 ? kernel_.kernel_for(arguments_) : "
                             "verify_data::kernel_names[std::size_t(which)]"},
      {"specialisation_of",
       alone ? "kernel_.specialisation_for(arguments_)"
             : "which < 0 ? \"\" : kernel_.specialisation_for(std::size_t(which), arguments_)"},
      {"wanted_by", alone ? "kernel.wanted(arguments)" : "kernel.wanted(which, arguments)"},
      {"possible_for", alone ? "kernel.could_accept(arguments)" : "kernel.could_accept(which, arguments)"},
      {"kernel_words",
       alone
           ? "std::string()"
           : fmt::format("std::string(\"kernel \") + kernel.kernel_for(arguments) + \" by the rule '\" + "
                         "kernel.rule_for(arguments) + \"', learnt from {}{}, \"",
                         in_quotes(entry->dispatch.learnt),
                         entry->dispatch.domain.empty()
                             ? ""
                             : "\" + (kernel.is_inside(arguments) ? \" (these sizes are in it)\" : \" (these "
                               "sizes are outside of it)\") + \"")},
      {"bundle_version", CULTIVAR_VERSION},
      {"dollar",
       "$"},  // of CMake's generator expressions, which CMake would replace in the embedded templates
      {"served",
       contents.specialisations == std::vector<std::string>{"any"}
           ? "the shapes that the task and the kernel's\nmanifest (`requires`, `constraints`) accept"
           : fmt::format("shapes with these values compiled in: {}",
                         fmt::join(contents.specialisations, ", "))},
      {"most_elements", words_of_sizes(input)},
      {"longest", longest_words(input.longest)},
      {"parameter_values", parameters_sentence(input)},
      {"index_values", values_sentence(task, config.target->on_host)},
      {"confirmation_words",
       std::ranges::all_of(*kernels, &BundledKernel::confirmed)
           ? "The search checked the shapes that the task lists and shapes that it drew near them, not every "
             "shape that is\naccepted."
           : "**This kernel was never confirmed**: it was checked on the shapes that TABLE.md names, and not "
             "on the many that a confirmation draws,\nso that it may be wrong within these limits."},
      {"index_lines", ""},
      {"target", name_of(config.target)},
      {"library", library},
      {"library_file", "lib" + library + ".so"},
      {"version_text", fmt::format("\"{}\"", in_quotes(fmt::format("{} {}, #{} of {}", name, entry->identity,
                                                                   fmt::join(ids, ", #"), facts.name)))}};
  values.insert(best.parts.values.begin(), best.parts.values.end());
  values["build_parts"] = joined(*kernels, "build_parts");
  values["build_sources"] = joined(*kernels, "build_sources");
  if (const std::string& said = values["index_values"]; !said.empty())
    values["index_lines"] = "\n    " + said + "\n";
  values.merge(pytorch_values(input, entry->identity, [&](const Workload& workload) {
    return std::any_of(kernels->begin(), kernels->end(), [&](const BundledKernel& kernel) {
      return serves(kernel.input(task, device), kernel.served, workload);
    });
  }));

  auto& files = contents.files;
  for (const BundledKernel& kernel : *kernels) files.merge(kernel.files());
  if (!alone) files[task.name + ".hpp"] = entry->header;
  files["LICENSE"] = std::string(launcher::LICENSE);
  std::vector<SourcesOfKernel> sources;
  std::vector<std::string> headers{"late/late.hpp", "contender/cultivar_contender.h",
                                   "contender/cultivar_export.h"},
      embedded;
  for (const BundledKernel& kernel : *kernels) {
    sources.push_back({short_identity(kernel.variant), kernel.source_files()});
    headers.push_back(kernel.folder + task.name + ".hpp");
    for (const std::string& file : sources.back().files)
      embedded.push_back("${CMAKE_CURRENT_SOURCE_DIR}/" + file);
  }
  if (!alone) headers.push_back(task.name + ".hpp");
  values["installed_headers"] = fmt::format("{}", fmt::join(headers, " "));
  const bool pytorch = input.variant.manifest.target->in_pytorch;
  values["direct"] = pytorch ? " contender/direct.cpp" : "";
  values["common"] = fmt::format("set(sources {})\n", fmt::join(embedded, " ")) +
                     render(launcher::common_CMakeLists_txt, values);
  files["CMakeLists.txt"] = render(best.parts.cmake, values);
  files["late/late.hpp"] = render(launcher::late_hpp, values);
  files["late/late.cpp"] = render(launcher::late_cpp, values);
  files["late/files.hpp"] = std::string(launcher::late_files_hpp);
  files["late/code.hpp"] = render(best.parts.code, values);
  files["late/sources.hpp"] = embedded_sources(task.name, sources);
  auto page = values;
  page["summary"] = in_a_cell(task.summary);
  page["parameter_values"] = in_a_cell(values["parameter_values"]);
  if (std::string& said = page["index_values"]; !said.empty()) said = "\n" + in_a_cell(said) + "\n";
  page["operator"] = pytorch ? render(launcher::README_pytorch_md, values)
                             : "There is no operator for PyTorch in this bundle, because PyTorch's tensors "
                               "are no buffers of OpenCL.\n";
  page["operator_copies"] = pytorch ? " (the Python operator copies inputs that do not)" : "";
  page["operator_row"] =
      pytorch ? "| `pytorch/` | the PyTorch operator, its test, and what puts it in the place of others |\n"
              : "";
  files["README.md"] = render(launcher::README_md, page);
  files["verify/verify.cpp"] = render(launcher::verify_cpp, values);
  files["verify/check.hpp"] = render(launcher::check_hpp, values);
  files["verify/values.hpp"] = render(launcher::values_hpp, values);
  files["verify/late_shapes.hpp"] = render(launcher::late_shapes_hpp, values);
  files["verify/layout.hpp"] = render(launcher::layout_hpp, values);
  files["verify/runner.hpp"] = render(launcher::runner_hpp, values);
  files["verify/bench.hpp"] = render(best.parts.bench, values);
  files["verify/data.hpp"] = *data;
  files["verify/reference_library.cpp"] = render(launcher::reference_library_cpp, values);
  files["verify/cultivar_reference.hpp"] = std::string(launcher::cultivar_reference_hpp);
  files["verify/evaluators/dtype/dtype.hpp"] = std::string(launcher::dtype_hpp);
  files["verify/evaluators/dtype/dtype.cpp"] = std::string(launcher::dtype_cpp);
  files["contender/contender.cpp"] = render(launcher::contender_cpp, values);
  files["contender/asked.hpp"] = render(launcher::asked_hpp, values);
  files["contender/device.hpp"] = render(best.parts.device, values);
  files["contender/switched.hpp"] = std::string(launcher::switched_hpp);
  files["contender/cultivar_export.h"] = std::string(launcher::cultivar_export_h);
  files["contender/cultivar_contender.h"] = std::string(launcher::cultivar_contender_h);
  const std::string reference = task.reference.filename();
  const bool in_python = is_in_python(reference);
  for (const std::string& file :
       files_of_reference(reference, [&](const std::string& wanted) -> std::optional<std::string> {
         if (!facts.task_files.contains(wanted)) return std::nullopt;
         return facts.task_files[wanted].get<std::string>();
       }))
    files[(in_python ? "verify/task/" : "verify/") + file] = facts.task_files[file].get<std::string>();
  if (in_python) {
    values["reference_file"] = reference;
    values["python"] = in_quotes(config.evaluation.python);
    files["verify/reference.cpp"] = render(launcher::python_reference_cpp, values);
    for (const auto& [file, text] : reference_python_files()) files["verify/" + file] = std::string(text);
  }
  if (pytorch) files["contender/direct.cpp"] = std::string(launcher::direct_cpp);
  if (pytorch) add_pytorch(files, request, facts, task, best, values);
  std::string& table = files["TABLE.md"] = table_page(name, device_of(facts), *kernels, request.portfolio);
  for (const BundledKernel& kernel : *kernels)
    for (const BeyondMemory& each : beyond_memory_in(facts.environment, config, kernel.evaluation))
      table += "\n" + in_a_cell(each.words()) + ".\n";
  files["environment.json"] = json_text(facts.environment, 2) + "\n";
  std::string lineage = "# Lineage\n";
  nlohmann::json lineages = nlohmann::json::object(), configurations = nlohmann::json::object();
  for (const BundledKernel& kernel : *kernels) {
    const auto steps = record.paced_lineage(kernel.id());
    if (!alone) lineage += fmt::format("\n## #{}\n", kernel.id());
    lineage += "\n" + lineage_text(steps, kernel.evaluation.unit);
    lineages[std::to_string(kernel.id())] = lineage_json(steps);
    configurations[std::to_string(kernel.id())] = kernel.configuration();
  }
  files["lineage.md"] = lineage;
  files["lineage.json"] = json_text(alone ? lineages.front() : lineages, 2) + "\n";
  files["manifest.json"] =
      json_text(bundle_manifest(task, *kernels, facts, alone ? best.variant.id : entry->identity, files,
                                request.portfolio, entry->dispatch.table),
                2) +
      "\n";
  std::vector<std::string> names{"bundle.json"};
  for (const auto& [file, text] : files) names.push_back(file);
  nlohmann::json bundle{{"format", 1},
                        {"run", facts.name},
                        {"individual", best.id()},
                        {"variant", name},
                        {"id", alone ? best.variant.id : entry->identity},
                        {"task", task.name},
                        {"target", name_of(config.target)},
                        {"architectures", best.parts.architectures},
                        {"configuration", alone ? configurations.front() : configurations},
                        {"fitness", best.evaluation.fitness},
                        {"unit", best.evaluation.unit},
                        {"specialisations", contents.specialisations},
                        {"files", names}};
  if (!alone) bundle.update({{"kernels", ids}, {"portfolio", *request.portfolio}});
  files["bundle.json"] = json_text(bundle, 2) + "\n";
  return contents;
}

}  // namespace

Expected<ExportReport> export_bundle(const ExportRequest& request) {
  auto ids =
      request.portfolio != nullptr ? request.portfolio->kernels() : std::vector<IndividualId>{request.id};
  if (ids.front() == 0) ids.front() = request.record.best().value_or(0);
  if (ids.front() == 0)
    return failure("export",
                   "the run has no best kernel yet; let it run longer, or choose an individual with --id");
  const auto out = fs::absolute(request.out).lexically_normal();
  if (fs::exists(out) && !(fs::is_directory(out) && (fs::is_empty(out) || holds_bundle(out))))
    return failure("export",
                   fmt::format("{} already exists and is not an export; choose another folder with --out",
                               out.string()));

  // Written to a temporary folder and then moved into place, so that a reader never sees an incomplete
  // bundle.
  const auto parent = out.has_filename() ? out.parent_path() : out.parent_path().parent_path();
  const std::string name =
      out.has_filename() ? out.filename().string() : out.parent_path().filename().string();
  const auto partial = parent / fmt::format(".{}.partial", name);
  const auto earlier = parent / fmt::format(".{}.earlier", name);  // may exist from an export that was killed
  const std::shared_ptr<void> nothing_left(nullptr, [&](void*) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
  });
  try {
    fs::remove_all(partial);
    fs::create_directories(partial);
    auto contents = compose(request, ids, partial / ".scratch");
    if (!contents) return tl::make_unexpected(contents.error());
    fs::remove_all(partial / ".scratch");
    ExportReport report{ids, out, {}, contents->specialisations};
    for (const auto& [file, text] : contents->files) {
      if (auto ok = write(partial / file, text); !ok) return tl::make_unexpected(ok.error());
      report.files.push_back(file);
    }
    const auto settle = [&] {
      if (!fs::exists(earlier)) return;
      carry_over(earlier, out, files_of_bundle(earlier));
      fs::remove_all(earlier);
    };
    // The folder itself is kept, because it may be a shell's current folder.
    const auto move = holds_the_working_folder(out)
                          ? move_contents
                          : [](const fs::path& from, const fs::path& to) { fs::rename(from, to); };
    if (fs::exists(out)) {
      settle();
      move(out, earlier);
    }
    move(partial, out);
    settle();
    return report;
  } catch (const fs::filesystem_error& error) {
    return failure("export", fmt::format("cannot write {}: {}; check that the folder is writable, or choose "
                                         "another one with --out",
                                         out.string(), error.code().message()));
  }
}

}  // namespace cultivar

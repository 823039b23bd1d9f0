#include "engine/export/bundle.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <memory>
#include <set>

#include "embedded/launcher.hpp"
#include "engine/export/markdown.hpp"
#include "engine/export/pytorch_parts.hpp"
#include "engine/export/render.hpp"
#include "engine/export/tables.hpp"
#include "engine/export/target_parts.hpp"
#include "engine/store/recorded_run.hpp"
#include "engine/store/standings.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/foreign_json.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/variant/source_files.hpp"

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

// A kernel that needs more specializations is in effect compiled for every size.
constexpr std::size_t kMostOtherSpecialisations = 8;

// The workloads that the run timed or confirmed on and the variant claims, limited to the dtype of the first
// one, because a launcher's arguments are typed; plus one for each further specialization that the checks
// covered.
std::vector<Workload> served_workloads(const Task& task, const Config& config, const Variant& variant) {
  std::vector<Workload> result;
  for (const auto& set : {config.workloads, config.holdout}) {
    const auto* found = task.workloads(set);
    if (!found) continue;
    for (const auto& workload : found->workloads) {
      const auto same = [&](const Workload& w) { return w.name == workload.name; };
      if (claims(variant, task, workload) && std::none_of(result.begin(), result.end(), same) &&
          (result.empty() || result.front().dtype == workload.dtype))
        result.push_back(workload);
    }
  }
  if (result.empty()) return result;
  std::set<std::vector<std::string>> known;
  for (const auto& workload : result) known.insert(macros(variant, task, workload));
  std::vector<Workload> others;
  for (const auto& shape : every_claimed_shape(task, variant))
    if (shape.dtype == result.front().dtype && known.insert(macros(variant, task, shape)).second)
      others.push_back(shape);
  if (others.size() <= kMostOtherSpecialisations) result.insert(result.end(), others.begin(), others.end());
  return result;
}

std::string device_of(const RunFacts& facts) {
  const auto devices = facts.environment.value("devices", nlohmann::json::array());
  return devices.empty() ? "an unnamed device" : devices.front().value("description", "an unnamed device");
}

// The ratio of the two fitness values of the search, as `status` shows it. A value from the confirmation
// cannot be used, because the seed was not timed with it.
std::string ratio_words(const Record& record, IndividualId best_id, IndividualId seed_id) {
  if (best_id == seed_id) return ". It is the first seed, unchanged";
  Standings standings(record);
  const double best = standings.fitness(best_id), seed = standings.fitness(seed_id);
  if (!(best > 0 && seed > 0)) return "";
  return fmt::format(
      ". During the search it had {:.2f} times the first seed's fitness (not measured at the same "
      "time)",
      best / seed);
}

// The shared library's name: the run and the kernel's identity.
std::string library_name(const std::string& run, const std::string& variant) {
  std::string name = run;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c >= 0x80 || !std::isalnum(c); }, '_');
  return fmt::format("{}_{}", name, variant.substr(0, 8));
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

Expected<Contents> compose(const ExportRequest& request, IndividualId id, const fs::path& scratch) {
  const Record& record = request.record;
  const auto facts = record.facts();
  const auto row = record.individual(id);
  if (!row) return failure("export", fmt::format("the run holds no individual {}", id));
  const auto confirmed = record.confirmation(id);
  const auto evaluation = confirmed ? confirmed : record.evaluation(id);
  if (confirmed && !confirmed->measured())
    return failure("export",
                   fmt::format("individual {} failed confirmation (at {}: {}), so it cannot be exported; "
                               "choose another one with --id",
                               id, name_of(confirmed->stage), confirmed->reason));
  if (!evaluation || !evaluation->measured())
    return failure("export",
                   fmt::format("individual {} was not measured ({}), so it cannot be exported{}", id,
                               row->reason.empty() ? "not evaluated yet" : row->reason,
                               row->individual.duplicate_of != 0
                                   ? fmt::format("; export individual {} (--id {})",
                                                 row->individual.duplicate_of, row->individual.duplicate_of)
                                   : ""));

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
  auto variant = make_variant(record.source(id), task, row->individual.configuration);
  if (!variant)
    return failure("export",
                   "the recorded source is not a valid variant in this version: " + variant.error().message);

  const Facts device = facts_in(facts.environment);
  const LauncherInput input{task, *variant, device, served_workloads(task, config, *variant)};
  if (input.workloads.empty()) return failure("export", "the variant claims no workload of the run");
  const auto served = specialisations(input);
  const Exporter exporter = exporter_of(config.target);
  if (exporter == nullptr)
    return failure("export", fmt::format("kernels of the target {} are not exported as projects: `cultivar "
                                         "show RUN ID --source` prints their source",
                                         name_of(config.target)));
  const auto parts = exporter(input, served, request.runtime, request.architectures);
  if (!parts) return tl::make_unexpected(parts.error());

  Contents contents;
  for (const auto& s : served) contents.specialisations.push_back(s.suffix);
  const auto lineage = record.paced_lineage(id);
  nlohmann::json configuration = nlohmann::json::object();
  for (const auto& [name, value] : variant->configuration)
    std::visit([&configuration, &key = name](const auto& v) { configuration[key] = v; }, value);
  const auto seed = record.first_seed();
  const auto seed_row = seed ? record.individual(*seed) : std::nullopt;
  const std::string library = library_name(facts.name, variant->id);
  const auto data = verify_data(input);
  if (!data) return tl::make_unexpected(data.error());
  std::map<std::string, std::string, std::less<>> values{
      {"task", task.name},
      {"class", pascal_case(task.name)},
      {"summary", cpp_comment(task.summary)},
      {"variant", variant->manifest.name},
      {"id", short_identity(*variant)},
      {"dtype", std::string(name_of(input.workloads.front().dtype))},
      {"unit", in_quotes(evaluation->unit)},
      // Factor from work (operations or bytes) per microsecond to that unit.
      {"rate", evaluation->unit == "TFLOPS" ? "1e-6" : "1e-3"},
      {"run", in_code(facts.name)},
      {"workloads", in_code(config.workloads)},
      {"header_files", ""},
      {"header_paths", ""},
      {"configuration", to_string(variant->manifest.tunables, variant->configuration)},
      {"fitness", fmt::format("{:.2f} {}", Standings(record).fitness(id), in_a_cell(evaluation->unit))},
      {"ratio", seed_row ? ratio_words(record, row->individual.id, seed_row->individual.id) : ""},
      {"specialisations", contents.specialisations == std::vector<std::string>{"any"}
                              ? "none (one binary serves all)"
                              : fmt::format("{}", fmt::join(contents.specialisations, ", "))},
      {"target", name_of(config.target)},
      {"library", library},
      {"library_file", "lib" + library + ".so"},
      {"version_text",
       fmt::format("\"{}\"", in_quotes(fmt::format("{} {}, #{} of {}", variant->manifest.name,
                                                   short_identity(*variant), id, facts.name)))}};
  values.insert(parts->values.begin(), parts->values.end());
  values.merge(pytorch_values(input, served));

  auto& files = contents.files;
  files = parts->files;
  const SourceFiles sources = split_source(variant->source);
  files[parts->values.at("kernel_file")] = std::string(sources.main);
  for (const HeaderFile& header : sources.headers) {
    files[std::string(header.name)] = std::string(header.text);
    values["header_files"] += fmt::format("| `{}` | a header of the source |\n", header.name);
    values["header_paths"] += fmt::format(" ${{CMAKE_CURRENT_SOURCE_DIR}}/{}", header.name);
  }
  files["CMakeLists.txt"] = render(parts->cmake, values);
  auto page = values;
  page["summary"] = in_a_cell(task.summary);
  files["README.md"] = render(launcher::README_md, page);
  files["verify/verify.cpp"] = render(launcher::verify_cpp, values);
  files["verify/check.hpp"] = render(launcher::check_hpp, values);
  files["verify/bench.hpp"] = render(parts->bench, values);
  files["verify/data.hpp"] = *data;
  files["verify/reference_library.cpp"] = render(launcher::reference_library_cpp, values);
  files["verify/cultivar_reference.hpp"] = std::string(launcher::cultivar_reference_hpp);
  files["verify/evaluators/dtype/dtype.hpp"] = std::string(launcher::dtype_hpp);
  files["verify/evaluators/dtype/dtype.cpp"] = std::string(launcher::dtype_cpp);
  files["contender/contender.cpp"] = render(launcher::contender_cpp, values);
  files["contender/asked.hpp"] = render(launcher::asked_hpp, values);
  files["contender/device.hpp"] = render(parts->device, values);
  files["contender/cultivar_contender.h"] = std::string(launcher::cultivar_contender_h);
  files[fmt::format("pytorch/cultivar_{}.py", task.name)] = render(launcher::pytorch_module_py, values);
  files[fmt::format("pytorch/test_cultivar_{}.py", task.name)] = render(launcher::pytorch_test_py, values);
  for (const auto& [name, text] : facts.task_files.items())  // the oracle and its headers
    if (name != "task.yaml" && name != kInPytorch && name.find('/') == std::string::npos)
      files["verify/" + name] = text.get<std::string>();
  if (const std::string text = task_in_pytorch(facts, task.name, request.runtime); !text.empty())
    files["pytorch/task_in_pytorch.py"] = text;
  files["TABLE.md"] =
      fmt::format("# {}\n\n{}\n\n{}{}\n", variant->manifest.name,
                  fmt::format("Measured by Cultivar on {}. The output of every timed run was checked on "
                              "secret random rows, and every shape once on all rows. Contenders were "
                              "timed interleaved with the kernel.",
                              in_a_cell(device_of(facts))),
                  workload_table(*evaluation) + exactness_section(*evaluation),
                  confirmed ? "\nMeasured in the confirmation: a fresh process with new secret inputs."
                            : "\nMeasured during the search.");
  files["environment.json"] = json_text(facts.environment, 2) + "\n";
  files["lineage.md"] = "# Lineage\n\n" + lineage_text(lineage, evaluation->unit);
  files["lineage.json"] = json_text(lineage_json(lineage), 2) + "\n";
  std::vector<std::string> names{"bundle.json"};
  for (const auto& [name, text] : files) names.push_back(name);
  files["bundle.json"] = json_text(nlohmann::json{{"format", 1},
                                                  {"run", facts.name},
                                                  {"individual", id},
                                                  {"variant", variant->manifest.name},
                                                  {"id", variant->id},
                                                  {"task", task.name},
                                                  {"target", name_of(config.target)},
                                                  {"architectures", parts->architectures},
                                                  {"configuration", configuration},
                                                  {"fitness", evaluation->fitness},
                                                  {"unit", evaluation->unit},
                                                  {"specialisations", contents.specialisations},
                                                  {"files", names}},
                                   2) +
                         "\n";
  return contents;
}

}  // namespace

Expected<ExportReport> export_bundle(const ExportRequest& request) {
  const auto id = request.id != 0 ? request.id : request.record.best().value_or(0);
  if (id == 0)
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
    auto contents = compose(request, id, partial / ".scratch");
    if (!contents) return tl::make_unexpected(contents.error());
    fs::remove_all(partial / ".scratch");
    ExportReport report{id, out, {}, contents->specialisations};
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
    return failure(
        "export",
        fmt::format("{}; check that the folder is writable, or choose another one with --out", error.what()));
  }
}

}  // namespace cultivar

#include "engine/export/bundle.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "embedded/launcher.hpp"
#include "engine/export/cpu_launcher.hpp"
#include "engine/export/render.hpp"
#include "engine/export/tables.hpp"
#include "engine/recorded_run.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

// The flags of evaluators/targets/cpu, as CMake list items; a plain object needs no -shared.
constexpr std::string_view kernel_flags =
    "-std=c++20 -O3 -march=native -ffp-contract=fast -fno-exceptions -fno-rtti -fPIC";

Expected<void> write(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) return failure("export", fmt::format("cannot write {}: is the disk full?", file.string()));
  return {};
}

bool holds_bundle(const fs::path& folder) {
  return fs::exists(folder / "bundle.json");
}

// The task as it was when the run began, laid out as a folder that load_task can read.
Expected<fs::path> restore_task(const RunFacts& facts, const fs::path& folder) {
  for (const auto& [name, text] : facts.task_files.items())
    if (auto ok = write(folder / name, text.get<std::string>()); !ok) return tl::make_unexpected(ok.error());
  return folder;
}

std::vector<Workload> served_workloads(const Task& task, const Config& config, const Variant& variant) {
  std::vector<Workload> result;
  for (const auto& set : {config.workloads, config.holdout}) {
    const auto* found = task.workloads(set);
    if (!found) continue;
    for (const auto& workload : found->workloads) {
      const auto same = [&](const Workload& w) { return w.name == workload.name; };
      if (claims(variant, task, workload) && std::none_of(result.begin(), result.end(), same))
        result.push_back(workload);
    }
  }
  return result;
}

std::string device_of(const RunFacts& facts) {
  const auto devices = facts.environment.value("devices", nlohmann::json::array());
  return devices.empty() ? "an unnamed device" : devices.front().value("description", "an unnamed device");
}

struct Contents {
  std::map<std::string, std::string> files;  // relative path -> text
  std::vector<std::string> specialisations;
};

Expected<Contents> compose(const Record& record, IndividualId id, const fs::path& scratch,
                           const Installation& installation) {
  const auto facts = record.facts();
  const auto row = record.individual(id);
  if (!row) return failure("export", fmt::format("the run holds no individual {}", id));
  const auto confirmed = record.confirmation(id);
  const auto evaluation = confirmed ? confirmed : record.evaluation(id);
  if (!evaluation || !evaluation->measured())
    return failure("export",
                   fmt::format("individual {} was not measured ({}): only a measured one can be exported", id,
                               row->reason.empty() ? "not judged yet" : row->reason));

  auto task_folder = restore_task(facts, scratch / "task");
  if (!task_folder) return tl::make_unexpected(task_folder.error());
  const auto task = load_task(*task_folder);
  const auto config = parse_config(facts.config_yaml, "the run's record", record.folder(), {}, installation);
  auto variant = make_variant(record.source(id), task, row->individual.configuration);
  if (!variant)
    return failure("export", "the recorded source is no longer a valid variant: " + variant.error().message);

  const LauncherInput input{task, *variant, facts_in(facts.environment),
                            served_workloads(task, config, *variant)};
  if (input.workloads.empty()) return failure("export", "the variant claims none of the run's workloads");
  const auto served = specialisations(input);
  auto header = launcher_header(input, served);
  if (!header) return tl::make_unexpected(header.error());

  Contents contents;
  for (const auto& s : served) contents.specialisations.push_back(s.suffix);
  const auto lineage = record.lineage(id);
  nlohmann::json configuration = nlohmann::json::object();
  for (const auto& [name, value] : variant->configuration)
    std::visit([&configuration, &key = name](const auto& v) { configuration[key] = v; }, value);
  const auto seed = record.first_seed();
  const auto seed_row = seed ? record.individual(*seed) : std::nullopt;
  const std::map<std::string, std::string, std::less<>> values{
      {"task", task.name},
      {"class", pascal_case(task.name)},
      {"summary", task.summary},
      {"variant", variant->manifest.name},
      {"id", variant->id.substr(0, 12)},
      {"unit", evaluation->unit == "GB/s" ? "GB/s" : "GFLOPS"},
      {"run", facts.name},
      {"workloads", config.workloads},
      {"configuration", to_string(variant->manifest.tunables, variant->configuration)},
      {"fitness", fmt::format("{:.2f} {}", evaluation->fitness, evaluation->unit)},
      {"ratio",
       seed_row && seed_row->individual.fitness > 0
           ? fmt::format(", {:.2f} times the first seed", evaluation->fitness / seed_row->individual.fitness)
           : ""},
      {"specialisations", fmt::format("{}", fmt::join(contents.specialisations, ", "))},
      {"flags", std::string(kernel_flags)},
      {"kernels", cmake_kernels(input, served)}};

  auto& files = contents.files;
  files["kernel.cpp"] = variant->source;
  files[task.name + ".hpp"] = *header;
  files["CMakeLists.txt"] = render(launcher::CMakeLists_txt, values);
  files["README.md"] = render(launcher::README_md, values);
  files["verify/verify.cpp"] = render(launcher::verify_cpp, values);
  files["verify/data.hpp"] = verify_data(input);
  files["verify/cultivar_reference.hpp"] = std::string(launcher::cultivar_reference_hpp);
  for (const auto& [name, text] : facts.task_files.items())
    if (name != "task.yaml") files["verify/" + name] = text.get<std::string>();
  files["TABLE.md"] =
      fmt::format("# {}\n\n{}\n\n{}{}\n", variant->manifest.name,
                  fmt::format("Measured by Cultivar on {}; every timed run was checked on rows drawn in "
                              "secret, every shape once on all rows. Contenders were timed in the same "
                              "minutes, interleaved.",
                              device_of(facts)),
                  workload_table(*evaluation),
                  confirmed ? "\nFrom the confirmation: a fresh process with new secret inputs."
                            : "\nFrom the search's own evaluation.");
  files["environment.json"] = facts.environment.dump(2) + "\n";
  files["lineage.md"] = "# How it came to be\n\n" + lineage_text(lineage, evaluation->unit);
  files["lineage.json"] = lineage_json(lineage).dump(2) + "\n";
  files["bundle.json"] = nlohmann::json{{"format", 1},
                                        {"run", facts.name},
                                        {"individual", id},
                                        {"variant", variant->manifest.name},
                                        {"id", variant->id},
                                        {"task", task.name},
                                        {"target", "cpu"},
                                        {"configuration", configuration},
                                        {"fitness", evaluation->fitness},
                                        {"unit", evaluation->unit},
                                        {"specialisations", contents.specialisations}}
                             .dump(2) +
                         "\n";
  return contents;
}

}  // namespace

Expected<ExportReport> export_bundle(const ExportRequest& request) {
  const auto id = request.id != 0 ? request.id : request.record.best().value_or(0);
  if (id == 0)
    return failure("export", "the run has no best variant yet: let it run longer, or name one with --id");
  const auto out = fs::absolute(request.out).lexically_normal();
  std::error_code trouble;
  if (fs::exists(out) && !(fs::is_directory(out) && (fs::is_empty(out) || holds_bundle(out))))
    return failure("export", fmt::format("{} is there already and is not an export: choose another --out",
                                         out.string()));

  // Written beside, then moved into place, so that a reader never meets half a bundle.
  const auto parent = out.has_filename() ? out.parent_path() : out.parent_path().parent_path();
  const auto partial =
      parent / fmt::format(".{}.partial", out.has_filename() ? out.filename().string()
                                                             : out.parent_path().filename().string());
  try {
    fs::remove_all(partial);
    auto contents = compose(request.record, id, partial / ".scratch", request.installation);
    if (!contents) {
      fs::remove_all(partial, trouble);
      return tl::make_unexpected(contents.error());
    }
    fs::remove_all(partial / ".scratch");
    ExportReport report{id, out, {}, contents->specialisations};
    for (const auto& [name, text] : contents->files) {
      if (auto ok = write(partial / name, text); !ok) return tl::make_unexpected(ok.error());
      report.files.push_back(name);
    }
    fs::remove_all(out);
    fs::rename(partial, out);
    return report;
  } catch (const fs::filesystem_error& error) {
    fs::remove_all(partial, trouble);
    return failure("export", fmt::format("{}: is the folder writable?", error.what()));
  }
}

}  // namespace cultivar

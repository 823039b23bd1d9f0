// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "engine/cli/commands.hpp"
#include "engine/cli/import_program.hpp"
#include "engine/cli/installation_paths.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/search_session.hpp"
#include "engine/cli/suite_session.hpp"
#include "engine/export/bundle.hpp"
#include "engine/export/pytorch_parts.hpp"
#include "engine/suite/suite_ranking.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "population/individual.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// What a region's search gives to the model: {name, speedup} with its kernel exported to `kernels`, or
// {name, left}, with the reason.
json choice(const RankedTask& region, const RegionTime& times, const fs::path& run, const fs::path& kernels,
            double least, const Runtime& runtime) {
  json made = {{"name", region.name}};
  const auto left = [&](const std::string& why) {
    made["left"] = why;
    return made;
  };
  if (region.searched_s <= 0.0) return left("it was not searched");
  if (region.speedup <= 0.0) return left("no kernel was confirmed beside what the model has");
  made["speedup"] = region.speedup;
  // Times of different hours are compared (RegionTime::call_ms): the proof decides.
  const bool proven_later = times.call_ms > 0.0;
  if (region.speedup < least && !proven_later)
    return left(
        fmt::format("its best kernel is {} as fast as what the model has", ratio_words(region.speedup)));
  if (region.gain_ms <= 0.0 && least > 0.0 && !proven_later)
    return left(
        "within the model, where it is fused with what is around it, it takes less than its best kernel");
  const auto record = Record::open(run);
  if (!record) return left(record.error().text());
  const auto exported = export_bundle({*record, 0, kernels / region.name, runtime});
  if (!exported) return left("the export failed: " + exported.error().text());
  return made;
}

// Whether programs can import a package of this name.
bool can_be_imported(const std::string& name) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::ranges::all_of(name, fits) &&
         std::isdigit(static_cast<unsigned char>(name[0])) == 0 && python_name(name) == name;
}

}  // namespace

int apply_command(const Arguments& arguments) {
  std::string folder, out;
  double least = 1.01, seconds = 20.0;
  bool as_json = false;
  Options options(
      "apply",
      "Writes a Python package that puts the kernels of a campaign into the model, with the original modules "
      "as the fallback, and proves it on the whole model: new inputs, the fastest of eager and torch.compile "
      "beside it, errors against fp64. Needs CMake and a C++ compiler.",
      "cultivar apply camp --out fast");
  options.argument("CAMPAIGN", folder, "the folder that `cultivar import --inputs` wrote");
  options.option("--out", out, "the folder of the package, whose name is the package's");
  options.option(
      "--least-speedup", least,
      "over what the model has, that a kernel must have to be put in; 0: all that were confirmed, also those "
      "that make the model slower");
  options.option("--seconds", seconds, "of the proof's timed runs");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;
  if (out.empty()) throw InputError("name the folder of the package with --out FOLDER");

  fs::path package = fs::absolute(out).lexically_normal();
  if (package.filename().empty()) package = package.parent_path();
  const fs::path campaign = fs::absolute(folder);
  if (!can_be_imported(package.filename().string()))
    throw InputError(
        fmt::format("--out {}: programs import the package by the name of its folder: use letters, "
                    "digits and _",
                    out));
  std::error_code none;
  if (fs::exists(package, none) && !fs::is_empty(package, none))
    throw InputError(fmt::format("{} exists and is not empty (name a new folder with --out)", out));
  const Output output(as_json);
  const InstallationPaths installation = find_installation();
  const Suite suite = load_suite(campaign_file(folder), {}, installation_of(installation));
  const Runtime runtime = runtime_of(installation);
  json choices = json::array();
  const fs::path runs = campaign_runs(folder);
  for (const RankedTask& region : ranking_of(suite, runs))
    choices.push_back(choice(region, suite.ranking.at(region.name), runs / region.name, package / "kernels",
                             least, runtime));
  for (const auto& [name, why] : suite.refused) choices.push_back({{"name", name}, {"left", why}});
  fs::create_directories(package, none);
  const std::string python = suite.tasks.front().config.evaluation.python;
  const auto interpreter = find_interpreter(python, PythonNeeds::torch);
  if (!interpreter) throw MissingError(interpreter.error().message);
  std::vector<std::string> given{"--apply",   campaign.string(),  "--out",     package.string(),
                                 "--choices", json_text(choices), "--seconds", fmt::format("{:g}", seconds)};
  if (least <= 0.0) given.emplace_back("--keep");
  const json told = run_import_program({.subject = folder,
                                        .arguments = given,
                                        .readable = {campaign},
                                        .writable = {package},
                                        .quiet = as_json,
                                        .card = !suite.tasks.front().config.target->on_host},
                                       *interpreter, installation);
  output.facts(told);
  if (told.contains("refused")) {
    fs::remove_all(package, none);
    notify("cultivar apply: {} {}\n", plain_text(told.value("refused", "")),
           plain_text(told.value("remedy", "")));
    return 1;
  }
  if (told.value("regions", json::array()).empty()) fs::remove_all(package, none);
  output.line(plain_text(told.value("report", "")));
  return told.value("right", false) ? 0 : 1;
}

}  // namespace cultivar

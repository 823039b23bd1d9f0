#include "engine/cli/commands.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/cli/search_session.hpp"
#include "engine/cli/trouble.hpp"

namespace cultivar {
namespace fs = std::filesystem;

int run_command(const Arguments& arguments) {
  std::string file, run_dir;
  std::vector<std::string> overrides;
  bool as_json = false, verbose = false;
  Options options(
      "run",
      "Starts a search. Ctrl-C checkpoints and stops; `cultivar resume` goes on. When the budget is spent "
      "the best kernel is exported to RUN/best.",
      "cultivar run configs/quickstart.yaml --set budget.wall=10m");
  options.argument("CONFIG", file, "the search's configuration (configs/README.md)");
  options.option("--run-dir", run_dir, "where the record goes (default: runs/ and the search's name)");
  options.each("--set", overrides, "a.b=c: replaces one value of the configuration");
  options.flag("--verbose", verbose, "a line for every individual");
  options.flag("--json", as_json, "how it ended, as `status --json` says it, on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const House house = find_house();
  const Config config =
      load_config(find_file(house, file, "configuration"), overrides, installation_of(house));
  const fs::path folder = fs::absolute(run_dir.empty() ? fs::path("runs") / config.name : fs::path(run_dir));
  if (fs::exists(folder / "run.db"))
    throw InputError(
        fmt::format("{0} already holds a search. Go on with it:  {2} resume {0}\n"
                    "or begin another one beside it:  {2} run {1} --run-dir {0}-2",
                    fs::proximate(folder).string(), file, called_as()));
  std::error_code none;
  if (fs::exists(folder, none) && !(fs::is_directory(folder, none) && fs::is_empty(folder, none)))
    throw InputError(fmt::format("{} is not empty, and no run: name a new folder with --run-dir",
                                 fs::proximate(folder).string()));
  notify("Searching: {}\n  task {}, target {}, workloads {}, {} seed{}\n  record {}\n", config.name,
         config.task_folder.filename().string(), name_of(config.target), config.workloads,
         config.seeds.size(), config.seeds.size() == 1 ? "" : "s", fs::proximate(folder).string());
  return search_session(house, folder, output, verbose, [&](const Surface& surface, const Faces& faces) {
    return begin_search(config, folder, surface, faces, interrupted());
  });
}

}  // namespace cultivar

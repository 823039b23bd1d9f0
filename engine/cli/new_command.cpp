// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/cli/commands.hpp"
#include "engine/cli/installation_paths.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/scaffold/task_folder.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/interpreter.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/variant/variant.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// `option`: by which the user can name another place.
void write_new(const fs::path& path, const std::string& text, const char* option) {
  std::error_code failed;
  if (fs::exists(path, failed))
    throw InputError(fmt::format("{} exists (choose another name, or remove it)", path.string()));
  failed.clear();
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), failed);
  if (failed)
    throw InputError(fmt::format("cannot create the folder {}: {} (name another place with {})",
                                 path.parent_path().string(), failed.message(), option));
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out)
    throw InputError(fmt::format("cannot write {}: {} (name another place with {})", path.string(),
                                 std::strerror(errno), option));
}

// In the task's folder, unless that came with Cultivar: then it may be read-only, an update replaces it, and
// all searches would begin with an unfinished seed. Such a seed belongs in the current folder.
fs::path place_of_seed(const InstallationPaths& installation, const Task& task, const std::string& file) {
  std::error_code none;
  const bool came_with_it =
      fs::equivalent(task.folder.parent_path(), installation.root / "configs" / "tasks", none);
  return came_with_it ? fs::path(file) : task.folder / "seeds" / file;
}

std::vector<Dtype> dtypes_of(const std::string& list) {
  std::vector<Dtype> dtypes;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    std::erase(word, ' ');
    const auto dtype = dtype_named(word);
    if (!dtype) throw InputError(fmt::format("unknown dtype '{}' (use f32, f16 and bf16)", word));
    dtypes.push_back(*dtype);
  }
  return dtypes;
}

// Asks on a terminal; an empty answer keeps the value.
void ask(const std::string& question, std::string& value) {
  notify("{} [{}]: ", question, value);
  std::string answer;
  if (std::getline(std::cin, answer) && !answer.empty()) value = answer;
}

int new_task(const Arguments& arguments) {
  TaskOutline outline;
  std::string from_pytorch, python = default_python();
  std::string folder, dtypes = "bf16, f16, f32";
  bool as_json = false;
  Options options(
      "new task",
      "Writes the folder of a new task, which runs at once: task.yaml with explanations, the oracle, "
      "seeds for each target, and a search. Without --summary it asks for the names on a terminal.",
      "cultivar new task my_norm --summary \"y = x / rms(x), for each row\"");
  options.argument("NAME", outline.name, "the task's name, an identifier");
  options.option("--folder", folder, "the new folder; by default, NAME");
  options.option("--from-pytorch", from_pytorch, "import FILE.py[:NAME] as the task (see cultivar import)");
  options.option("--python", python, "with --from-pytorch: an interpreter with PyTorch and numpy");
  options.option("--summary", outline.summary, "what the task computes, in one line");
  options.option("--rows", outline.rows, "the name of the dimension that counts rows");
  options.option("--columns", outline.columns, "the name of the dimension that counts columns");
  options.option("--input", outline.input, "the name of the input tensor");
  options.option("--output", outline.output, "the name of the output tensor");
  options.option("--dtypes", dtypes, "the dtypes, separated by commas");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;
  if (!from_pytorch.empty()) {
    Arguments rest{from_pytorch, "--name", outline.name, "--out", folder.empty() ? outline.name : folder,
                   "--python",   python};
    if (as_json) rest.emplace_back("--json");
    return import_command(rest);
  }
  const std::vector<std::string> taken = task_names(find_installation());
  if (std::ranges::find(taken, outline.name) != taken.end())
    throw InputError(fmt::format(
        "the name '{}' is taken by a task that came with Cultivar (choose another name)", outline.name));
  if (outline.summary.empty() && !as_json && ::isatty(STDIN_FILENO) == 1) {
    outline.summary = "Each row over its root mean square";
    ask("What does the task compute, in one line?", outline.summary);
    ask("The name of the dimension that counts rows", outline.rows);
    ask("The name of the dimension that counts columns", outline.columns);
    ask("The name of the input tensor", outline.input);
    ask("The name of the output tensor", outline.output);
    ask("The dtypes, with commas", dtypes);
  }
  if (outline.summary.empty()) outline.summary = "Each row over its root mean square";
  outline.dtypes = dtypes_of(dtypes);
  if (const std::string trouble = trouble_of(outline); !trouble.empty()) throw InputError(trouble);

  const fs::path target = folder.empty() ? fs::path(outline.name) : fs::path(folder);
  if (std::error_code untold; fs::exists(target, untold))  // write_new tells why it cannot be written
    throw InputError(fmt::format("{} exists (choose another name, or --folder)", target.string()));
  // Without a slash at its end.
  if ((fs::absolute(target) / ".").lexically_normal().parent_path().filename() == kFolderOfHeaders)
    throw InputError(
        fmt::format("{} cannot be a task's folder: a folder of that name beside tasks holds "
                    "headers that their seeds include (choose another --folder)",
                    target.string()));
  json files = json::array();
  for (const auto& [path, text] : task_files(outline)) {
    write_new(target / path, text, "--folder");
    files.push_back(path);
  }
  load_task(target);  // the files must be good
  const Output output(as_json);
  output.facts({{"task", outline.name}, {"folder", fs::absolute(target).string()}, {"files", files}});
  const std::string cultivar = called_as();
  std::string typed = as_typed(target);
  if (typed.find('/') == std::string::npos) typed = "./" + typed;  // not the installed task of that name
  Table next({"", ""});
  next.row({fmt::format("{} tasks {}", cultivar, typed), "explains the task"});
  next.row(
      {fmt::format("{} evaluate {} {}/seeds/naive.cpp", cultivar, typed, typed), "checks and times a seed"});
  next.row({fmt::format("{} run {}/search.yaml", cultivar, typed), "searches"});
  output.line(
      fmt::format("{} is a task that runs. It computes an example: replace that in task.yaml, reference.cpp "
                  "and seeds/.\n{}",
                  typed, next.text("  ")));
  return 0;
}

Language language_named(const std::string& name) {
  if (const Language found = find_language(name)) return found;
  std::vector<std::string> known;
  for (const Language each : languages()) known.push_back(name_of(each));
  throw InputError(fmt::format("there is no language '{}'{}", name, did_you_mean(name, known)));
}

int new_seed(const Arguments& arguments) {
  std::string task_name, target_name, language_name, name = "new_seed", file;
  bool as_json = false;
  Options options(
      "new seed",
      "Writes the source of a new seed: the manifest, and a kernel with the right parameters, to be "
      "completed.",
      "cultivar new seed softmax --target cuda --name two_rows");
  options.argument("TASK", task_name, "a task's name, or a folder with a task.yaml");
  options.option(
      "--target", target_name,
      fmt::format("cpu, cuda or opencl; by default that of the language, or {}", name_of(usual_target())));
  options.option("--language", language_name, "in which language; by default the first of the target");
  options.option("--name", name, "the variant's name");
  options.option("--out", file,
                 "the new file; by default in seeds/ of the task's folder, or in the current "
                 "folder if the task came with Cultivar");
  options.flag("--json", as_json, "print the result as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;
  const InstallationPaths installation = find_installation();
  const Task task = load_task(find_task(installation, task_name));
  const Language named = language_name.empty() ? nullptr : language_named(language_name);
  if (target_name.empty()) target_name = named != nullptr ? named->targets.front() : name_of(usual_target());
  std::vector<std::string> known;
  const Target* found = nullptr;
  for (const Target& each : targets()) {
    known.push_back(name_of(each));
    if (name_of(each) == target_name) found = &each;
  }
  if (found == nullptr)
    throw InputError(fmt::format("there is no target '{}'{}", target_name, did_you_mean(target_name, known)));
  if (named != nullptr && !compiles_for(named, *found))
    throw InputError(fmt::format("{} is not compiled for target {} (--target {})", named->title, target_name,
                                 named->targets.front()));
  const Language language = named != nullptr ? named : usual_language(*found);
  const std::string source = seed_source(task, language, *found, name);
  if (const auto variant = make_variant(source, task); !variant)
    throw InputError(fmt::format("the name '{}' does not fit: {}", name, variant.error().message));
  const fs::path path =
      file.empty() ? place_of_seed(installation, task, name + language->extension) : fs::path(file);
  write_new(path, source, "--out");
  const Output output(as_json);
  output.facts({{"task", task.name}, {"target", target_name}, {"file", fs::absolute(path).string()}});
  output.line(
      fmt::format("{} has the manifest and an empty kernel. Complete it, then\n\n  {} evaluate {} {}{}",
                  as_typed(path), called_as(), task_name, as_typed(path),
                  target_name == name_of(usual_target()) ? "" : " --target " + target_name));
  std::error_code none;
  if (!fs::equivalent(fs::absolute(path).parent_path(), task.folder / "seeds", none))
    output.line(
        fmt::format("\nIt is not among the task's own seeds: to search from it, add\n\n  --set "
                    "{}\n\nto `{} run CONFIG`.",
                    shell_word(fmt::format("seeds=[{}]", fs::absolute(path).string())), called_as()));
  return 0;
}

}  // namespace

namespace {

CommandDefinition definition_of_both() {
  CommandDefinition both{
      "new",
      "Writes the folder of a new task, or a new seed of a task, to be completed.",
      "cultivar new task my_norm",
      {{"WHAT", "task or seed", true}, {"NAME", "the new task's name, or the task of the seed", true}},
      {}};
  for (const auto one : {new_task, new_seed}) try {
      (void)one({kAskForDefinition});
    } catch (const CommandDefinition& definition) {
      for (const CommandDefinition::Word& option : definition.options)
        if (std::ranges::find(both.options, option.name, &CommandDefinition::Word::name) ==
            both.options.end())
          both.options.push_back(option);
    }
  return both;
}

}  // namespace

int new_command(const Arguments& arguments) {
  const std::string what = arguments.empty() ? "" : arguments.front();
  const Arguments rest(arguments.empty() ? arguments.begin() : arguments.begin() + 1, arguments.end());
  if (what == "task") return new_task(rest);
  if (what == "seed") return new_seed(rest);
  if (what == kAskForDefinition) throw definition_of_both();
  const bool help = what == "--help" || what == "-h";
  if (!help && !what.empty()) notify("cultivar new: '{}' cannot be made\n", what);
  fmt::print(help ? stdout : stderr,
             "Usage: cultivar new task NAME ...\n       cultivar new seed TASK ...\n\n"
             "Writes the folder of a new task, or a new seed of a task, to be completed.\n\n"
             "Example:\n  cultivar new task my_norm\n\n"
             "`cultivar new task --help` and `cultivar new seed --help` list the options.\n");
  return help ? 0 : 2;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/completion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>

#include "engine/cli/commands.hpp"
#include "engine/cli/import_program.hpp"
#include "engine/cli/installation_paths.hpp"
#include "engine/cli/variant_argument.hpp"
#include "engine/config/duration.hpp"
#include "engine/store/record.hpp"
#include "engine/views/run_list.hpp"
#include "evaluators/dtype/dtype.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {

namespace {

namespace fs = std::filesystem;
using Files = Candidates::Files;

// What stands before the word that is completed.
struct Typed {
  std::map<std::string, std::string> values;  // of options and arguments, by name
  std::string begun = {};                     // the word itself
};

// Of a task, or all.
void add_runs(Candidates& all, const std::string& behind = "", const std::optional<Task>& task = {}) {
  const auto fits = [&](const fs::path& run) {
    if (!task) return true;
    const auto record = Record::open(run);
    return record && record->facts().task_name == task->name;
  };
  std::set<std::string> seen;
  for (const fs::path& base : {fs::path("runs"), find_installation().root / "runs"}) {
    std::error_code none;
    const fs::path from = fs::canonical(base, none);
    for (const fs::path& run : runs_below(base))
      if (const std::string name = run.lexically_relative(from).string();
          fits(run) && seen.insert(name).second)
        all.words.push_back({name + behind, "run"});
  }
}

void add_individuals_of(Candidates& all, const std::string& run, const std::string& before = "") {
  all.words.push_back({before + "best", "the best kernel"});
  all.words.push_back({before + "seed", "the first seed"});
  if (run.empty()) return;
  if (const auto record = Record::open(find_run(find_installation(), run)))
    for (const PromotionRow& row : record->promotions())
      all.words.push_back(
          {before + std::to_string(row.individual), "the best after " + duration(row.elapsed_s)});
}

void add_individuals(Candidates& all, const Typed& typed) {
  const auto run = typed.values.find("RUN");
  add_individuals_of(all, run == typed.values.end() ? "" : run->second);
}

// "RUN:" is typed: what may follow. False: it is not.
bool add_behind_run(Candidates& all, const Typed& typed) {
  const std::size_t colon = typed.begun.find(':');
  if (colon == 0 || colon == typed.begun.npos) return false;
  add_individuals_of(all, typed.begun.substr(0, colon), typed.begun.substr(0, colon + 1));
  return true;
}

std::optional<Task> task_of(const Typed& typed) {
  for (const char* name : {"TASK", "--task"})
    if (const auto at = typed.values.find(name); at != typed.values.end())
      return load_task(find_task(find_installation(), at->second));
  return std::nullopt;
}

void add_kernels(Candidates& all, const Typed& typed) {
  all.files = Files::any;
  if (add_behind_run(all, typed)) return;
  const auto task = task_of(typed);
  if (task)
    for (const std::string& seed : sources_in(task->folder / "seeds"))
      all.words.push_back({fs::path(seed).stem().string(), "seed"});
  add_runs(all, ":best", task);
}

void add_tasks(Candidates& all) {
  all.files = Files::folders;
  for (const std::string& name : task_names(find_installation())) all.words.push_back({name, "task"});
}

void add_targets(Candidates& all) {
  for (const Target target : targets()) all.words.push_back({name_of(target), target->device});
}

void add_model_devices(Candidates& all) {
  for (const Target target : model_devices()) all.words.push_back({name_of(target), target->device});
}

void add_workload_sets(Candidates& all, const Typed& typed) {
  if (const auto task = task_of(typed))
    for (const WorkloadSet& set : task->workload_sets) all.words.push_back({set.name, set.about});
}

void add_workloads(Candidates& all, const Typed& typed) {
  if (const auto task = task_of(typed))
    for (const WorkloadSet& set : task->workload_sets)
      for (const Workload& workload : set.workloads) all.words.push_back({workload.name, set.name});
}

void add_contenders(Candidates& all, const Typed& typed) {
  all.files = Files::any;
  const auto task = task_of(typed);
  if (!task) return;
  for (const std::string& source : sources_in(task->folder / "contenders"))
    all.words.push_back({fs::path(source).stem().string(), "contender"});
  const auto named = typed.values.find("--target");
  const Target target = named == typed.values.end()
                            ? usual_target()
                            : find_target(named->second.substr(0, named->second.find(':')));
  if (!target) return;
  for (const std::string& library : contender_libraries(find_installation(), *task, target))
    all.words.push_back({library, "library"});
}

void add_configurations(Candidates& all) {
  all.files = Files::yaml;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(find_installation().root / "configs", none))
    if (entry.path().extension() == ".yaml")
      all.words.push_back({entry.path().stem().string(), "installed configuration"});
}

using Source = std::function<void(Candidates&, const Typed&)>;

Source words(std::vector<std::string> list) {
  return [list = std::move(list)](Candidates& all, const Typed&) {
    for (const std::string& word : list) all.words.push_back({word, ""});
  };
}

Source files(Files kind) {
  return [kind](Candidates& all, const Typed&) { all.files = kind; };
}

template <class Add>
Source without_context(const Add& add) {
  return [add](Candidates& all, const Typed&) { add(all); };
}

// By the name of an option or argument, which means the same in each command that has it.
const std::map<std::string, Source>& sources() {
  static const std::map<std::string, Source> table = [] {
    const Source runs = [](Candidates& all, const Typed&) {
      all.files = Files::folders;
      add_runs(all);
    };
    const Source runs_and_kernels = [](Candidates& all, const Typed& typed) {
      all.files = Files::folders;
      if (!add_behind_run(all, typed)) add_runs(all);
    };
    std::vector<std::string> stages, dtypes;
    for (const Stage stage : all_stages())
      if (stage <= Stage::confirm && stage != Stage::gate && stage != Stage::profile)
        stages.emplace_back(name_of(stage));
    return std::map<std::string, Source>{{"RUN", runs},
                                         {"show RUN", runs_and_kernels},
                                         {"--run", runs},
                                         {"ID", add_individuals},
                                         {"--id", add_individuals},
                                         {"--from", add_individuals},
                                         {"--with", add_individuals},
                                         {"--without", add_individuals},
                                         {"CONFIG", without_context(add_configurations)},
                                         {"FILE", files(Files::any)},
                                         {"suite FILE", without_context(add_configurations)},
                                         {"TASK", without_context(add_tasks)},
                                         {"--task", without_context(add_tasks)},
                                         {"VARIANT", add_kernels},
                                         {"A", add_kernels},
                                         {"B", add_kernels},
                                         {"--against",
                                          [](Candidates& all, const Typed& typed) {
                                            all.words.push_back({"parent", "the parent of RUN:ID"});
                                            add_kernels(all, typed);
                                          }},
                                         {"--target", without_context(add_targets)},
                                         {"--device", without_context(add_model_devices)},
                                         {"--workloads", add_workload_sets},
                                         {"--workload", add_workloads},
                                         {"--contender", add_contenders},
                                         {"--stop-after", words(stages)},
                                         {"WHAT", words({"task", "seed"})},
                                         {"SHELL", words({"bash", "zsh", "fish"})},
                                         {"CAMPAIGN", files(Files::folders)},
                                         {"FOLDER", files(Files::folders)},
                                         {"--folder", files(Files::folders)},
                                         {"--out", files(Files::folders)},
                                         {"--run-dir", files(Files::folders)},
                                         {"--kernelbench", files(Files::folders)},
                                         {"--knowledge", files(Files::folders)},
                                         {"--tensorboard", files(Files::folders)},
                                         {"--log", files(Files::any)},
                                         {"--answers", files(Files::any)},
                                         {"--token-file", files(Files::any)},
                                         {"--python", files(Files::any)},
                                         {"--from-pytorch", files(Files::any)}};
  }();
  return table;
}

void add_values(Candidates& all, const std::string& command, const std::string& name, const Typed& typed) {
  auto at = sources().find(command + " " + name);
  if (at == sources().end()) at = sources().find(name);
  if (at != sources().end()) at->second(all, typed);
}

Candidates all_for(const std::vector<std::string>& typed_words) {
  Candidates all;
  const std::vector<DefinedCommand> commands = defined_commands();
  if (typed_words.size() < 2) {
    for (const DefinedCommand& command : commands)
      all.words.push_back({command.definition.name, command.summary});
    return all;
  }
  const auto command = std::ranges::find(commands, typed_words.front(),
                                         [](const DefinedCommand& c) { return c.definition.name; });
  if (command == commands.end()) return all;
  const CommandDefinition& d = command->definition;
  const auto option_named = [&](const std::string& name) {
    const auto at = std::ranges::find(d.options, name, &CommandDefinition::Word::name);
    return at == d.options.end() || !at->value ? nullptr : &*at;
  };
  Typed typed;
  typed.begun = typed_words.back();
  if (typed.begun.starts_with("--")) typed.begun.erase(0, typed.begun.find('=') + 1);
  std::size_t position = 0;
  const CommandDefinition::Word* pending = nullptr;  // the option whose value comes next
  for (std::size_t i = 1; i + 1 < typed_words.size(); ++i) {
    const std::string& word = typed_words[i];
    if (pending)
      typed.values[std::exchange(pending, nullptr)->name] = word;
    else if (const std::size_t equals = word.find('='); word.starts_with("--") && equals != word.npos)
      typed.values[word.substr(0, equals)] = word.substr(equals + 1);
    else if (word.starts_with("-"))
      pending = option_named(word);
    else if (!d.arguments.empty())
      typed.values.try_emplace(d.arguments[std::min(position++, d.arguments.size() - 1)].name, word);
  }
  const std::string& last = typed_words.back();
  if (pending) {
    add_values(all, d.name, pending->name, typed);
  } else if (const std::size_t equals = last.find('='); last.starts_with("--") && equals != last.npos) {
    add_values(all, d.name, last.substr(0, equals), typed);
    all.files = Files::none;
    for (Candidate& each : all.words) each.word = last.substr(0, equals + 1) + each.word;
  } else if (last.starts_with("-")) {
    all.words.push_back({"--help", "show the help"});
    for (const CommandDefinition::Word& option : d.options) all.words.push_back({option.name, option.about});
  } else if (position < d.arguments.size() || (!d.arguments.empty() && d.arguments.back().many)) {
    add_values(all, d.name, d.arguments[std::min(position, d.arguments.size() - 1)].name, typed);
  }
  return all;
}

}  // namespace

std::vector<DefinedCommand> defined_commands() {
  std::vector<DefinedCommand> all;
  for (const Command& command : commands()) {
    try {
      (void)command.run({kAskForDefinition});
    } catch (const CommandDefinition& definition) {
      all.push_back({std::string(command.about), definition});
      continue;
    }
    throw std::logic_error(fmt::format("the command {} gave no definition", command.name));
  }
  return all;
}

Candidates candidates_for(const std::vector<std::string>& words) {
  Candidates all;
  try {
    all = all_for(words);
  } catch (const std::exception&) {
    return {};  // a shell shows no messages here
  }
  const std::string begun = words.empty() ? "" : words.back();
  std::erase_if(all.words, [&](const Candidate& each) { return !each.word.starts_with(begun); });
  return all;
}

std::string text_of(const Candidates& all) {
  static constexpr const char* kinds[] = {"", ":files\n", ":folders\n", ":yaml\n"};
  std::string text = kinds[static_cast<int>(all.files)];
  for (const Candidate& each : all.words)
    text += each.word + (each.about.empty() ? "" : "\t" + each.about.substr(0, each.about.find('\n'))) + "\n";
  return text;
}

std::string bash_completion() {
  // COMP_WORDS is split at ':' and '=', too, so the line is split anew; what bash keeps of the present word
  // is then left out of the answers.
  return R"(# bash completion for cultivar
_cultivar() {
  local words current kept line
  read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
  [[ ${COMP_LINE:0:COMP_POINT} == *[[:space:]] ]] && words+=("")
  current=${words[-1]}
  kept=
  [[ $current == *[:=]* ]] && kept=${current%"${current##*[:=]}"}
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files) compopt -o filenames 2>/dev/null; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current") ;;
      :folders) compopt -o filenames 2>/dev/null; mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$current") ;;
      :yaml)
        compopt -o filenames 2>/dev/null
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -X '!*.yaml' -- "$current"; compgen -f -X '!*.yml' -- "$current"; compgen -d -- "$current")
        ;;
      *) line=${line%%$'\t'*}; COMPREPLY+=("${line#"$kept"}") ;;
    esac
  done < <("${words[0]/#\~/$HOME}" completion --words "${words[@]:1}" 2>/dev/null)
}
complete -F _cultivar cultivar
)";
}

std::string zsh_completion() {
  return R"(#compdef cultivar
_cultivar() {
  local -a lines names
  local line kind=
  lines=("${(@f)$("${words[1]/#\~/$HOME}" completion --words "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  for line in $lines; do
    case $line in
      :*) kind=$line ;;
      *) names+=("${${line//:/\\:}/$'\t'/:}") ;;
    esac
  done
  (($#names)) && _describe 'cultivar' names
  case $kind in
    :files) _files ;;
    :folders) _files -/ ;;
    :yaml) _files -g '*.(yaml|yml)' ;;
  esac
}
if [ "$funcstack[1]" = "_cultivar" ]; then _cultivar "$@"; else compdef _cultivar cultivar; fi
)";
}

std::string fish_completion() {
  return R"(# fish completion for cultivar
function __cultivar_words
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    set -l program (string replace -r '^~' $HOME -- $typed[1])
    for line in ($program completion --words $typed[2..-1] "$current" 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path "$current"
            case ':folders'
                __fish_complete_directories "$current"
            case ':yaml'
                __fish_complete_suffix "$current" .yaml
            case '*'
                echo $line
        end
    end
end
complete -c cultivar -f -a '(__cultivar_words)'
)";
}

nlohmann::json to_json(const DefinedCommand& command) {
  const auto words_of = [](const std::vector<CommandDefinition::Word>& list) {
    nlohmann::json all = nlohmann::json::array();
    for (const CommandDefinition::Word& w : list)
      all.push_back({{"name", w.name},
                     {"about", w.about},
                     {"required", w.required},
                     {"many", w.many},
                     {"value", w.value}});
    return all;
  };
  const CommandDefinition& d = command.definition;
  return {{"name", d.name},       {"summary", command.summary},         {"about", d.about},
          {"example", d.example}, {"arguments", words_of(d.arguments)}, {"options", words_of(d.options)}};
}

}  // namespace cultivar

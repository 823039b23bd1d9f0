// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/completion.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "engine/cli/commands.hpp"

namespace cultivar {

namespace {

bool takes_a_run(const CommandDefinition& d) {
  for (const CommandDefinition::Word& argument : d.arguments)
    if (argument.name == "RUN") return true;
  return false;
}

// Between single quotes of a shell; `more`: characters that are escaped with a backslash, too.
std::string quoted(const std::string& text, const std::string& more = "") {
  std::string result;
  for (const char c : text) {
    if (c == '\'')
      result += "'\\''";
    else
      result += more.find(c) != std::string::npos ? fmt::format("\\{}", c) : std::string(1, c);
  }
  return result;
}

std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n'))
      result += std::string("\\&") + c;
    else
      result += c;
  }
  return result;
}

std::string usage_of(const CommandDefinition& d) {
  std::string text = ".B cultivar " + roff(d.name) + "\n";
  for (const CommandDefinition::Word& a : d.arguments)
    text += fmt::format("{}\\fI{}\\fR{}{}\n", a.required ? "" : "[", roff(a.name), a.many ? "..." : "",
                        a.required ? "" : "]");
  return text + "[\\fIOPTION\\fR...]\n";
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

std::string bash_completion(const std::vector<DefinedCommand>& all) {
  std::string names, cases;
  for (const auto& [summary, d] : all) {
    names += (names.empty() ? "" : " ") + d.name;
    std::string words = "--help", values;
    for (const CommandDefinition::Word& option : d.options) {
      words += " " + option.name;
      if (option.value) values += (values.empty() ? "" : "|") + option.name;
    }
    cases += fmt::format("    {}) options='{}' values='{}' runs={} ;;\n", d.name, words, values,
                         takes_a_run(d) ? 1 : 0);
  }
  return "# bash completion for cultivar\n"
         "_cultivar() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options= values= runs=0\n"
         "  COMPREPLY=()\n"
         "  if ((COMP_CWORD == 1)); then\n"
         "    mapfile -t COMPREPLY < <(compgen -W '" +
         names +
         "' -- \"$word\")\n"
         "    return\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases +
         "  esac\n"
         "  [[ -n $values && \"|$values|\" == *\"|$before|\"* ]] && return  # files\n"
         "  if [[ $word == -* ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
         "  elif ((runs)); then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$(for run in runs/*/run.db; do [[ -e $run ]] && "
         "run=${run#runs/} && echo "
         "\"${run%/run.db}\"; done)\" -- \"$word\")\n"
         "  fi\n"
         "}\n"
         "complete -o default -F _cultivar cultivar\n";
}

std::string zsh_completion(const std::vector<DefinedCommand>& all) {
  std::string names, cases;
  for (const auto& [summary, d] : all) {
    names += fmt::format("    '{}:{}'\n", d.name, quoted(summary, ":"));
    cases += fmt::format("    {})\n      _arguments \\\n        '--help[show the help]'", d.name);
    for (const CommandDefinition::Word& option : d.options)
      cases += fmt::format(" \\\n        '{}{}[{}]{}'", option.many ? "*" : "", option.name,
                           quoted(option.about, "[]:\\"), option.value ? ":value:_files" : "");
    for (const CommandDefinition::Word& a : d.arguments)
      cases += fmt::format(" \\\n        '{}:{}:{}'",
                           a.many       ? "*"
                           : a.required ? ""
                                        : ":",
                           quoted(a.name, ":"), a.name == "RUN" ? "_cultivar_runs" : "_files");
    cases += "\n      ;;\n";
  }
  return "#compdef cultivar\n"
         "_cultivar_runs() {\n"
         "  local -a runs\n"
         "  runs=(runs/*/run.db(N:h:t))\n"
         "  _describe 'run' runs || _files -/\n"
         "}\n"
         "_cultivar() {\n"
         "  local -a names\n"
         "  names=(\n" +
         names +
         "  )\n"
         "  if ((CURRENT == 2)); then\n"
         "    _describe 'command' names\n"
         "    return\n"
         "  fi\n"
         "  local name=${words[2]}\n"
         "  shift words\n"
         "  ((CURRENT--))\n"
         "  case $name in\n" +
         cases +
         "    *) _files ;;\n"
         "  esac\n"
         "}\n"
         "_cultivar \"$@\"\n";
}

std::string fish_completion(const std::vector<DefinedCommand>& all) {
  std::string text = "# fish completion for cultivar\n";
  for (const auto& [summary, d] : all)
    text += fmt::format("complete -c cultivar -f -n __fish_use_subcommand -a {} -d '{}'\n", d.name,
                        quoted(summary));
  for (const auto& [summary, d] : all) {
    const std::string here = fmt::format("complete -c cultivar -n '__fish_seen_subcommand_from {}'", d.name);
    for (const CommandDefinition::Word& option : d.options)
      text += fmt::format("{} -l {}{} -d '{}'\n", here, option.name.substr(2), option.value ? " -r" : "",
                          quoted(option.about));
    if (takes_a_run(d))
      text += here +
              " -a \"(for run in runs/*/run.db; string replace -r '^runs/(.*)/run.db$' '\\$1' \\$run; end)\" "
              "-d run\n";
  }
  return text;
}

std::string manual_of_program(const std::vector<DefinedCommand>& all) {
  std::string text = fmt::format(
      ".TH CULTIVAR 1 \"\" \"cultivar {}\" \"User Commands\"\n.SH NAME\ncultivar \\- evolves compute "
      "kernels\n"
      ".SH SYNOPSIS\n.B cultivar\n\\fICOMMAND\\fR [\\fIARGUMENT\\fR...]\n.SH DESCRIPTION\n"
      "Improves compute kernels by evolutionary search: it changes, checks, times and selects them.\n.SH "
      "COMMANDS\n",
      CULTIVAR_VERSION);
  for (const auto& [summary, d] : all)
    text += fmt::format(".TP\n.BR cultivar\\-{} (1)\n{}\n", roff(d.name), roff(summary));
  return text +
         ".SH EXIT STATUS\n0 done, 1 the work failed, 2 bad usage or configuration, 3 something needed is "
         "missing, 130 interrupted.\n"
         ".SH EXAMPLES\ncultivar run configs/quickstart.yaml\n";
}

std::string manual_of(const DefinedCommand& command) {
  const CommandDefinition& d = command.definition;
  std::string text = fmt::format(
      ".TH \"CULTIVAR\\-{}\" 1 \"\" \"cultivar {}\" \"User Commands\"\n.SH NAME\ncultivar\\-{} \\- {}\n.SH "
      "SYNOPSIS\n{}"
      ".SH DESCRIPTION\n{}\n",
      roff(d.name), CULTIVAR_VERSION, roff(d.name), roff(command.summary), usage_of(d), roff(d.about));
  if (!d.arguments.empty()) text += ".SH ARGUMENTS\n";
  for (const CommandDefinition::Word& a : d.arguments)
    text += fmt::format(".TP\n\\fI{}\\fR\n{}\n", roff(a.name), roff(a.about));
  text += ".SH OPTIONS\n";
  for (const CommandDefinition::Word& option : d.options)
    text += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(option.name), option.value ? " \\fIVALUE\\fR" : "",
                        roff(option.about));
  return text + ".TP\n\\fB\\-\\-help\\fR\nShow the help.\n.SH EXAMPLES\n" + roff(d.example) +
         "\n.SH SEE ALSO\n.BR cultivar (1)\n";
}

nlohmann::json to_json(const DefinedCommand& command) {
  const auto words = [](const std::vector<CommandDefinition::Word>& list) {
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
  return {{"name", d.name},       {"summary", command.summary},      {"about", d.about},
          {"example", d.example}, {"arguments", words(d.arguments)}, {"options", words(d.options)}};
}

}  // namespace cultivar

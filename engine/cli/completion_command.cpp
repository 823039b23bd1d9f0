// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/cli/commands.hpp"
#include "engine/cli/completion.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/files.hpp"

namespace cultivar {

namespace fs = std::filesystem;

int completion_command(const Arguments& arguments) {
  if (!arguments.empty() && arguments.front() == kAskForWords) {
    std::fputs(text_of(candidates_for({arguments.begin() + 1, arguments.end()})).c_str(), stdout);
    return 0;
  }
  std::string shell, out;
  bool as_json = false;
  Options options("completion",
                  "Prints what makes a shell complete Cultivar's commands and options, or writes that and "
                  "the manual pages into a folder.",
                  "cultivar completion bash >~/.local/share/bash-completion/completions/cultivar");
  options.optional_argument("SHELL", shell, "bash, zsh or fish");
  options.option("--out", out,
                 "write the completion of all shells and the manual pages into this folder, as they lie "
                 "below /usr/share");
  options.flag("--json", as_json,
               "print the definitions of all commands, or the files that were written, as JSON on stdout");
  if (const auto code = options.parse(arguments)) return *code;

  const Output output(as_json);
  const std::vector<DefinedCommand> all = defined_commands();
  if (!out.empty()) {
    nlohmann::json files = nlohmann::json::array();
    const auto write = [&](const fs::path& file, const std::string& text) {
      must(write_atomically(fs::absolute(fs::path(out) / file), text));
      files.push_back((fs::path(out) / file).string());
    };
    write("bash-completion/completions/cultivar", bash_completion());
    write("zsh/vendor-completions/_cultivar", zsh_completion());
    write("fish/vendor_completions.d/cultivar.fish", fish_completion());
    write("man/man1/cultivar.1", manual_of_program(all));
    for (const DefinedCommand& command : all)
      write("man/man1/cultivar-" + command.definition.name + ".1", manual_of(command));
    output.facts({{"files", files}});
    output.line(fmt::format("Wrote {} files into {}", files.size(), out));
    return 0;
  }
  if (as_json && shell.empty()) {
    nlohmann::json facts = nlohmann::json::array();
    for (const DefinedCommand& command : all) facts.push_back(to_json(command));
    output.facts(facts);
    return 0;
  }
  if (shell != "bash" && shell != "zsh" && shell != "fish")
    throw InputError(shell.empty()
                         ? std::string("name a shell, bash, zsh or fish, or a folder with --out")
                         : fmt::format("there is no completion for '{}': name bash, zsh or fish", shell));
  const std::string text = shell == "bash"  ? bash_completion()
                           : shell == "zsh" ? zsh_completion()
                                            : fish_completion();
  output.facts({{"text", text}});
  if (!as_json) std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace cultivar

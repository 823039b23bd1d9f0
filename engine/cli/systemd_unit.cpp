// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/systemd_unit.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "evaluators/system/plain_text.hpp"

namespace cultivar {

std::string systemd_word(const std::string& text) {
  std::string word = "\"";
  for (const char c : text) switch (c) {
      case '"':
      case '\\':
        word += '\\';
        word += c;
        break;
      case '%':  // begins a specifier
      case '$':  // begins a variable
        word += c;
        word += c;
        break;
      case '\n':
        word += "\\n";
        break;
      default:
        word += c;
    }
  return word + '"';
}

std::string text_of(const SystemdUnit& u) {
  const std::string run = shell_word(u.run_folder.string()), program = shell_word(u.program.string());
  const std::string log = shell_word((u.run_folder / "search.log").string());
  std::string sets;
  for (const std::string& each : u.overrides) sets += " --set " + shell_word(each);
  const std::string command = fmt::format(
      "if [ -e {0}/run.db ]; then exec {1} resume {0} --trust --log {2}; else exec {1} run {3} --run-dir "
      "{0}{4} "
      "--log "
      "{2}; fi",
      run, program, log, shell_word(u.config.string()), sets);
  std::string folder;  // a path setting takes no quotes
  for (const char c : u.folder.string()) folder += c == '%' ? std::string("%%") : std::string(1, c);
  const std::string keys =
      u.keys.empty()
          ? ""
          : fmt::format(
                "# Write {} into this file, one NAME=value per line, without `export`, and let only "
                "yourself read it (chmod 600); without the file the search does not "
                "start:\nEnvironmentFile=%h/.config/cultivar/keys\n",
                fmt::join(u.keys, ", "));
  const std::string cache =
      u.cache.empty() ? "" : "Environment=" + systemd_word("CULTIVAR_CACHE=" + u.cache.string()) + "\n";
  const std::string file = fmt::format("cultivar-{}.service", u.name);
  return fmt::format(
      "# To install it:\n"
      "#   cultivar run ... --print-systemd > ~/.config/systemd/user/{0}\n"
      "#   systemctl --user enable --now {0}\n"
      "# So that it also runs while you are not logged in:  loginctl enable-linger\n"
      "[Unit]\n"
      "Description=Cultivar search {1}\n"
      "\n"
      "[Service]\n"
      "Type=exec\n"
      "WorkingDirectory={2}\n"
      "Environment={3}\n"
      "{6}{4}"
      "ExecStart=/bin/sh -c {5}\n"
      "# SIGTERM stops the search with a checkpoint; its workers end with it.\n"
      "KillMode=mixed\n"
      "TimeoutStopSec=3min\n"
      "# After a kill or a crash it is resumed. A search that ended by itself, or that you stopped, is not.\n"
      "Restart=on-abnormal\n"
      "RestartSec=30\n"
      "SuccessExitStatus=130\n"
      "\n"
      "[Install]\n"
      "WantedBy=default.target\n",
      shell_word(file), plain_line(u.name, 100), folder, systemd_word("PATH=" + u.path), keys,
      systemd_word(command), cache);
}

}  // namespace cultivar

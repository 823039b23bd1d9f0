// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/options.hpp"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <type_traits>

#include "engine/cli/installation_paths.hpp"
#include "engine/cli/output.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {

struct Options::State {
  CommandDefinition definition;
  CLI::App app;
  std::vector<std::string> flags{"--help"};

  State(std::string_view name, std::string_view about, std::string_view example)
      : definition{std::string(name), std::string(about), std::string(example), {}, {}},
        app(std::string(about), "cultivar " + std::string(name)) {}

  template <class T>
  CLI::Option* add(const std::string& name, T& value, const std::string& about) {
    const bool flag = name.starts_with("--");
    if (flag) flags.push_back(name);
    (flag ? definition.options : definition.arguments).push_back({name, about, false, false, flag});
    return app.add_option(name, value, about)->type_name(flag ? "VALUE" : "");
  }

  template <class T>
  static std::string with_default(const std::string& about, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      if (value.empty()) return about;
    }
    return fmt::format("{} (default: {})", about, value);
  }
};

Options::Options(std::string_view command, std::string_view about, std::string_view example)
    : state_(std::make_unique<State>(command, about, example)) {}
Options::~Options() = default;

Options& Options::argument(const std::string& name, std::string& value, const std::string& about) {
  state_->add(name, value, about)->required();
  state_->definition.arguments.back().required = true;
  return *this;
}

Options& Options::optional_argument(const std::string& name, std::string& value, const std::string& about) {
  state_->add(name, value, about);
  return *this;
}

Options& Options::arguments(const std::string& name, std::vector<std::string>& values,
                            const std::string& about) {
  optional_arguments(name, values, about);
  state_->app.get_option(name)->required();
  state_->definition.arguments.back().required = true;
  return *this;
}

Options& Options::optional_arguments(const std::string& name, std::vector<std::string>& values,
                                     const std::string& about) {
  state_->add(name, values, about);
  state_->definition.arguments.back().many = true;
  return *this;
}

Options& Options::option(const std::string& flag, std::string& value, const std::string& about) {
  state_->add(flag, value, State::with_default(about, value));
  return *this;
}

Options& Options::option(const std::string& flag, int& value, const std::string& about) {
  state_->add(flag, value, State::with_default(about, value));
  return *this;
}

Options& Options::option(const std::string& flag, double& value, const std::string& about) {
  state_->add(flag, value, State::with_default(about, value));
  return *this;
}

Options& Options::each(const std::string& flag, std::vector<std::string>& values, const std::string& about) {
  state_->add(flag, values, about + " (may be repeated)")->allow_extra_args(false);
  state_->definition.options.back().many = true;
  return *this;
}

Options& Options::flag(const std::string& flag, bool& value, const std::string& about) {
  state_->flags.push_back(flag);
  state_->definition.options.push_back({flag, about, false, false, false});
  state_->app.add_flag(flag, value, about);
  return *this;
}

namespace {

std::string help_of(const CommandDefinition& d, std::size_t columns) {
  constexpr std::size_t kColumn = 26;  // of what is said of a word
  std::string usage = "Usage: " + called_as() + " " + d.name;
  for (const CommandDefinition::Word& a : d.arguments)
    usage +=
        fmt::format(" {}{}{}{}", a.required ? "" : "[", a.name, a.many ? "..." : "", a.required ? "" : "]");
  std::string text =
      wrapped(d.about, columns, "") + "\n\n" + wrapped(usage + " [OPTION...]", columns, "  ") + "\n\n";
  const std::string below(kColumn, ' ');
  const auto add = [&](const std::string& word, const std::string& about) {
    const std::string begin =
        "  " + word + (word.size() + 4 <= kColumn ? below.substr(word.size() + 2) : "\n" + below);
    text += begin.substr(0, begin.rfind('\n') + 1);
    text += wrapped(begin.substr(begin.rfind('\n') + 1) + about, columns, below) + "\n";
  };
  for (const CommandDefinition::Word& a : d.arguments) add(a.name, a.about);
  for (const CommandDefinition::Word& o : d.options) add(o.name + (o.value ? " VALUE" : ""), o.about);
  add("--help", "show this help");
  return text + "\nExample:\n" + source_lines("  " + d.example + "\n", columns);
}

}  // namespace

std::optional<int> Options::parse(const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && arguments.front() == kAskForDefinition) throw state_->definition;
  try {
    state_->app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    std::fputs(help_of(state_->definition, columns_of(stdout)).c_str(), stdout);
    return 0;
  } catch (const CLI::ParseError& error) {
    std::string hint;
    for (const std::string& unknown : state_->app.remaining()) {
      if (!unknown.starts_with("--")) continue;
      if (const std::string near = nearest_name(unknown.substr(0, unknown.find('=')), state_->flags);
          !near.empty())
        hint = " (did you mean " + near + "?)";
      break;
    }
    std::fprintf(stderr, "cultivar %s: %s%s\nTry: %s %s --help\n", state_->definition.name.c_str(),
                 error.what(), hint.c_str(), called_as().c_str(), state_->definition.name.c_str());
    return 2;
  }
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// The command line of one command. Wraps CLI11 so that only one translation unit includes its header.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// What a command takes, for completion and manual pages.
struct CommandDefinition {
  struct Word {
    std::string name, about;  // "RUN", "--json"
    bool required = false, many = false, value = false;
  };
  std::string name, about, example;
  std::vector<Word> arguments, options;
};
inline constexpr const char* kAskForDefinition = "--definition-of-the-command";

// Every value passed here must outlive parse(). Its value before parse() is the default.
class Options {
 public:
  Options(std::string_view command, std::string_view about, std::string_view example);
  ~Options();
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  Options& argument(const std::string& name, std::string& value, const std::string& about);
  Options& optional_argument(const std::string& name, std::string& value, const std::string& about);
  Options& arguments(const std::string& name, std::vector<std::string>& values, const std::string& about);
  Options& optional_arguments(const std::string& name, std::vector<std::string>& values,
                              const std::string& about);

  Options& option(const std::string& flag, std::string& value, const std::string& about);
  Options& option(const std::string& flag, int& value, const std::string& about);
  Options& option(const std::string& flag, double& value, const std::string& about);
  Options& each(const std::string& flag, std::vector<std::string>& values, const std::string& about);
  Options& flag(const std::string& flag, bool& value, const std::string& about);

  // Throws the definition instead if the only argument is kAskForDefinition.
  // An exit code when the command must end: 0 after --help, 2 after a usage error, already printed.
  std::optional<int> parse(const std::vector<std::string>& arguments);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar

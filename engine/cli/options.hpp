// The command line of one command: a thin face of CLI11, so that one translation unit pays for its header.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cultivar {

// Every value given here must outlive parse(). What it holds before parse() is its default.
class Options {
 public:
  Options(std::string_view command, std::string_view about, std::string_view example);
  ~Options();
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  Options& argument(const std::string& name, std::string& value, const std::string& about);
  Options& optional_argument(const std::string& name, std::string& value, const std::string& about);
  Options& arguments(const std::string& name, std::vector<std::string>& values, const std::string& about);

  Options& option(const std::string& flag, std::string& value, const std::string& about);
  Options& option(const std::string& flag, int& value, const std::string& about);
  Options& option(const std::string& flag, double& value, const std::string& about);
  Options& each(const std::string& flag, std::vector<std::string>& values, const std::string& about);
  Options& flag(const std::string& flag, bool& value, const std::string& about);

  // An exit code when the command must not go on: 0 after --help, 2 after a mistake that has been explained.
  std::optional<int> parse(const std::vector<std::string>& arguments);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar

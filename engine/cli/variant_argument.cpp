#include "engine/cli/variant_argument.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>

#include "engine/cli/record_views.hpp"
#include "evaluators/error.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {
namespace fs = std::filesystem;

VariantArgument split_variant_argument(const std::string& text) {
  VariantArgument result;
  const std::size_t at = text.rfind('@');
  result.name = text.substr(0, at);
  if (at == std::string::npos) return result;
  std::istringstream pairs(text.substr(at + 1));
  for (std::string pair; std::getline(pairs, pair, ',');) {
    const std::size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == pair.size())
      throw InputError(fmt::format("'{}' in '{}' is not NAME=VALUE", pair, text));
    const std::string value = pair.substr(equals + 1);
    std::int64_t number = 0;
    const auto [end, trouble] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (trouble == std::errc() && end == value.data() + value.size())
      result.configuration[pair.substr(0, equals)] = number;
    else
      result.configuration[pair.substr(0, equals)] = value;
  }
  return result;
}

std::string read_source(const fs::path& file) {
  constexpr std::uintmax_t kMostBytes = 4 << 20;
  std::error_code ignored;
  if (fs::is_directory(file, ignored))
    throw InputError(fmt::format("{} is a folder, not a variant's source", file.string()));
  const auto too_large = [&] {
    return InputError(
        fmt::format("{} is larger than a variant's source may be ({} MiB)", file.string(), kMostBytes >> 20));
  };
  if (const fs::file_status status = fs::status(file, ignored);
      fs::exists(status) && !fs::is_regular_file(status))
    throw InputError(fmt::format("{} is no ordinary file, and a variant's source is one", file.string()));
  if (const std::uintmax_t size = fs::file_size(file, ignored); !ignored && size > kMostBytes)
    throw too_large();
  std::ifstream in(file, std::ios::binary);
  if (!in) throw InputError(fmt::format("cannot read {}: {}", file.string(), std::strerror(errno)));
  std::string text(kMostBytes + 1, '\0');  // also of a file that grows, or says that it is empty
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMostBytes) throw too_large();
  return text;
}

NamedSource find_source(const House& house, const Task& task, const std::string& argument,
                        const std::vector<std::string>& folders) {
  const VariantArgument split = split_variant_argument(argument);
  NamedSource found{fs::path(split.name).stem().string(), argument, "", split.configuration};
  std::error_code ignored;
  for (const fs::path& file : {fs::path(split.name), task.folder / split.name, house.root / split.name})
    if (fs::exists(file, ignored) && !fs::is_directory(file, ignored)) {
      found.source = read_source(file);
      return found;
    }
  std::vector<std::string> known;
  for (const std::string& folder : folders)
    for (const auto& entry : fs::recursive_directory_iterator(task.folder / folder, ignored)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".cu") continue;
      known.push_back(entry.path().stem().string());
      if (known.back() == split.name) {
        found.source = read_source(entry.path());
        return found;
      }
    }
  if (const std::size_t colon = split.name.rfind(':'); colon != std::string::npos && colon > 0) {
    const Record record = open_run(house, split.name.substr(0, colon));
    const IndividualId id = find_individual(record, split.name.substr(colon + 1));
    found.label = fmt::format("#{}", id);
    found.source = record.source(id);
    Configuration configuration = record.individual(id).value().individual.configuration;
    for (const auto& [name, value] : split.configuration) configuration[name] = value;
    found.configuration = configuration;
    return found;
  }
  throw InputError(fmt::format("there is no file '{}'{}; RUN:ID names an individual of a run", split.name,
                               did_you_mean(split.name, known)));
}

}  // namespace cultivar

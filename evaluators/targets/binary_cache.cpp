#include "evaluators/targets/binary_cache.hpp"

#include <nlohmann/json.hpp>

#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path entry(const fs::path& folder, const std::string& key, const std::string& suffix) {
  return folder / key.substr(0, 2) / (key + suffix);
}

}  // namespace

std::optional<Binary> BinaryCache::find(const std::string& key) const {
  const auto description = read_file(entry(folder_, key, ".json"));
  if (!description) return std::nullopt;
  const json facts = json::parse(*description, nullptr, false);
  if (facts.is_discarded()) return std::nullopt;
  Binary binary;
  binary.path = entry(folder_, key, suffix_);
  const auto object = read_file(binary.path);
  try {
    if (!object || facts.at("sha256") != sha256_hex(*object)) return std::nullopt;
    binary.machine_code = facts.at("machine_code");
    binary.macros = facts.at("macros").get<std::vector<std::string>>();
    binary.resources.values = facts.at("resources").get<std::map<std::string, double>>();
    binary.log = facts.at("log");
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return binary;
}

Expected<Binary> BinaryCache::store(const std::string& key, const fs::path& object, Binary binary) const {
  const auto bytes = read_file(object);
  if (!bytes) return tl::make_unexpected(bytes.error());
  binary.path = entry(folder_, key, suffix_);
  const json facts = {{"sha256", sha256_hex(*bytes)},
                      {"machine_code", binary.machine_code},
                      {"macros", binary.macros},
                      {"resources", binary.resources.values},
                      {"log", binary.log}};
  // Write the description last: an entry exists only once its description does.
  if (auto done = write_atomically(binary.path, *bytes); !done) return tl::make_unexpected(done.error());
  const auto text = json_text(facts, 1);
  if (auto done = write_atomically(entry(folder_, key, ".json"), text); !done)
    return tl::make_unexpected(done.error());
  return binary;
}

}  // namespace cultivar

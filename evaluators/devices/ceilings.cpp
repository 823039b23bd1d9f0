// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/ceilings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"

namespace cultivar {
namespace {

using nlohmann::json;

std::filesystem::path file_of(const std::filesystem::path& folder, const std::string& device) {
  return folder / fmt::format("ceilings-{}.json", sha256_hex(device).substr(0, 16));
}

}  // namespace

std::optional<Ceilings> kept_ceilings(const std::filesystem::path& folder, const std::string& device) {
  const auto text = read_file(file_of(folder, device));
  if (!text) return std::nullopt;
  const json facts = json::parse(*text, nullptr, false);
  try {
    Ceilings known;
    facts.at("flops").get_to(known.flops);
    facts.at("bytes_per_second").get_to(known.bytes_per_second);
    facts.at("cached_bytes_per_second").get_to(known.cached_bytes_per_second);
    facts.at("handshake_s").get_to(known.handshake_s);
    for (const json& rate : facts.at("cold"))
      known.cold.push_back({rate.at("bytes"), rate.at("bytes_per_second")});
    if (facts.at("device") == device && known.bytes_per_second > 0) return known;
  } catch (const json::exception&) {
    // The file is damaged: measure again.
  }
  return std::nullopt;
}

void keep_ceilings(const std::filesystem::path& folder, const std::string& device, const Ceilings& ceilings) {
  json cold = json::array();
  for (const ColdRate& rate : ceilings.cold)
    cold.push_back({{"bytes", rate.bytes}, {"bytes_per_second", rate.bytes_per_second}});
  const json facts = {{"device", device},
                      {"flops", ceilings.flops},
                      {"bytes_per_second", ceilings.bytes_per_second},
                      {"cached_bytes_per_second", ceilings.cached_bytes_per_second},
                      {"handshake_s", ceilings.handshake_s},
                      {"cold", cold}};
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  (void)write_atomically(file_of(folder, device), facts.dump(1) + "\n");
}

void raise_rates(Ceilings& ceilings, const Ceilings& known) {
  ceilings.flops = std::max(ceilings.flops, known.flops);
  ceilings.bytes_per_second = std::max(ceilings.bytes_per_second, known.bytes_per_second);
  ceilings.cached_bytes_per_second =
      std::max(ceilings.cached_bytes_per_second, known.cached_bytes_per_second);
}

}  // namespace cultivar

#include "population/novelty.hpp"

#include "evaluators/system/random.hpp"

namespace cultivar {

namespace {

std::optional<IndividualId> found(const std::unordered_map<std::uint64_t, std::uint32_t>& ids,
                                  std::string_view key) {
  const auto place = ids.find(name_hash(key));
  if (place == ids.end()) return std::nullopt;
  return place->second;
}

}  // namespace

std::optional<IndividualId> Novelty::with_variant(std::string_view variant_id) const {
  return found(variants_, variant_id);
}

std::optional<IndividualId> Novelty::with_machine_code(std::string_view hash) const {
  if (hash.empty()) return std::nullopt;
  return found(codes_, hash);
}

void Novelty::add_variant(std::string_view variant_id, IndividualId id) {
  variants_.try_emplace(name_hash(variant_id), static_cast<std::uint32_t>(id));
}

void Novelty::add_machine_code(std::string_view hash, IndividualId id) {
  if (!hash.empty()) codes_.try_emplace(name_hash(hash), static_cast<std::uint32_t>(id));
}

}  // namespace cultivar

#include "population/novelty.hpp"

#include "evaluators/system/random.hpp"

namespace cultivar {

namespace {

std::optional<IndividualId> found(const IdTable& ids, std::string_view key) {
  const auto id = ids.find(name_hash(key));
  return id ? std::optional<IndividualId>(*id) : std::nullopt;
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
  variants_.add(name_hash(variant_id), static_cast<std::uint32_t>(id));
}

void Novelty::add_machine_code(std::string_view hash, IndividualId id) {
  if (!hash.empty()) codes_.add(name_hash(hash), static_cast<std::uint32_t>(id));
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "population/novelty.hpp"

#include "evaluators/system/random.hpp"

namespace cultivar {

std::optional<IndividualId> Novelty::Keys::find(std::uint64_t key) const {
  const auto id = ids.find(key, [&](std::uint32_t other) { return by_id[other] == key; });
  return id ? std::optional<IndividualId>(*id) : std::nullopt;
}

void Novelty::Keys::add(std::uint64_t key, IndividualId id) {
  if (find(key)) return;
  const auto at = static_cast<std::size_t>(id);
  if (by_id.size() <= at) by_id.resize(at + 1);
  by_id[at] = key;
  ids.add(static_cast<std::uint32_t>(id), [this](std::uint32_t other) { return by_id[other]; });
}

std::optional<IndividualId> Novelty::with_variant(std::string_view variant_id) const {
  return variants_.find(name_hash(variant_id));
}

std::optional<IndividualId> Novelty::with_machine_code(std::string_view hash) const {
  if (hash.empty()) return std::nullopt;
  return codes_.find(name_hash(hash));
}

void Novelty::add_variant(std::string_view variant_id, IndividualId id) {
  variants_.add(name_hash(variant_id), id);
}

void Novelty::add_machine_code(std::string_view hash, IndividualId id) {
  if (!hash.empty()) codes_.add(name_hash(hash), id);
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "engine/breeding/parsed_sources.hpp"

namespace cultivar {

namespace {

ParsedVariant shared(tl::expected<Variant, ManifestError> made) {
  if (!made) return tl::make_unexpected(std::move(made).error());
  return std::make_shared<const Variant>(*std::move(made));
}

}  // namespace

ParsedSources::ParsedSources(const Task& task, SourceOf source_of, std::size_t capacity)
    : task_(task), source_of_(std::move(source_of)), capacity_(capacity) {}

ParsedVariant ParsedSources::variant(const std::string& source, const Configuration& configuration) {
  if (const auto known = by_text_.find(source); known != by_text_.end())
    return shared(with_configuration(used(known->second), configuration));
  auto made = shared(make_variant(source, task_, configuration));
  if (made) keep(*made);
  return made;
}

ParsedVariant ParsedSources::recorded(const std::string& source_id, const Configuration& configuration) {
  if (const auto known = by_id_.find(source_id); known != by_id_.end())
    return shared(with_configuration(used(known->second), configuration));
  return variant(source_of_(source_id), configuration);
}

std::string ParsedSources::text(const std::string& source_id) {
  const auto known = by_id_.find(source_id);
  return known != by_id_.end() ? used(known->second).source : source_of_(source_id);
}

void ParsedSources::keep(VariantPtr variant) {
  // Of texts that differ only in white space, the record keeps the first.
  if (by_id_.contains(variant->source_id) || by_text_.contains(variant->source)) return;
  kept_.push_front(std::move(variant));
  by_text_.emplace(kept_.front()->source, kept_.begin());
  by_id_.emplace(kept_.front()->source_id, kept_.begin());
  if (kept_.size() <= capacity_) return;
  by_text_.erase(kept_.back()->source);
  by_id_.erase(kept_.back()->source_id);
  kept_.pop_back();
}

const Variant& ParsedSources::used(Kept::iterator place) {
  kept_.splice(kept_.begin(), kept_, place);
  return **place;
}

}  // namespace cultivar

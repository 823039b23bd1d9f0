// SPDX-License-Identifier: Apache-2.0
#include "operators/agent/drafts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace cultivar {

Draft Drafts::put(Variant variant, const std::string& base, const std::string& origin) {
  const std::lock_guard lock(mutex_);
  for (const Draft& draft : drafts_)
    if (draft.variant.id == variant.id && draft.variant.source == variant.source) return draft;
  keep({fmt::format("d{}", ++made_), std::move(variant), base, std::nullopt, origin});
  return drafts_.back();
}

void Drafts::restore(Draft draft) {
  const std::lock_guard lock(mutex_);
  std::size_t number = 0;
  if (draft.id.size() > 1) std::from_chars(draft.id.data() + 1, draft.id.data() + draft.id.size(), number);
  made_ = std::max(made_, number);
  keep(std::move(draft));
}

void Drafts::keep(Draft draft) {
  if (draft.origin.empty()) draft.origin = draft.base;
  for (const Draft& other : drafts_)
    if (other.id == draft.base) draft.origin = other.origin;
  drafts_.push_back(std::move(draft));
  if (drafts_.size() > most_) drafts_.pop_front();
}

std::optional<Draft> Drafts::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  for (const Draft& draft : drafts_)
    if (draft.id == id) return draft;
  return std::nullopt;
}

void Drafts::judged(const std::string& id, const Evaluation& evaluation) {
  const std::lock_guard lock(mutex_);
  for (Draft& draft : drafts_) {
    if (draft.id != id) continue;
    const bool less = draft.evaluation && evaluation.measured() && draft.evaluation->measured() &&
                      evaluation.workloads.size() < draft.evaluation->workloads.size();
    if (!less) draft.evaluation = evaluation;
  }
}

std::vector<Draft> Drafts::all() const {
  const std::lock_guard lock(mutex_);
  return {drafts_.begin(), drafts_.end()};
}

}  // namespace cultivar

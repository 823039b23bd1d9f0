// SPDX-License-Identifier: Apache-2.0
// A cache of the parsed sources of a search.
#pragma once

#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "evaluators/task/task.hpp"
#include "evaluators/variant/variant.hpp"
#include "population/archive.hpp"

namespace cultivar {

using ParsedVariant = tl::expected<VariantPtr, ManifestError>;

// Keeps at most `capacity` sources. The least recently used one is dropped; it is read and parsed again when
// needed. Not thread-safe.
class ParsedSources {
 public:
  using SourceOf =
      std::function<std::string(const std::string& source_id)>;  // reads a source from the record
  // The task outlives it.
  ParsedSources(const Task&, SourceOf, std::size_t capacity = 128);

  const Task& task() const { return task_; }
  // Like make_variant(), with the cache.
  ParsedVariant variant(const std::string& source, const Configuration& = {});
  // The same, for a source in the record.
  ParsedVariant recorded(const std::string& source_id, const Configuration&);
  ParsedVariant recorded(const Member& member) { return recorded(member.source_id, member.configuration); }
  std::string text(const std::string& source_id);
  void keep(VariantPtr);  // adds a variant that was parsed elsewhere

 private:
  using Kept = std::list<VariantPtr>;  // most recently used first
  const Variant& used(Kept::iterator);

  const Task& task_;
  SourceOf source_of_;
  std::size_t capacity_;
  Kept kept_;
  std::unordered_map<std::string_view, Kept::iterator> by_text_, by_id_;  // views into the kept variants
};

}  // namespace cultivar

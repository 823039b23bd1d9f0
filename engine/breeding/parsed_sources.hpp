// The sources that a search works with, each parsed once.
#pragma once

#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "evaluators/task/task.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

using ParsedVariant = tl::expected<VariantPtr, ManifestError>;

// Keeps as many sources as it is told to; one that nobody asked for the longest is dropped, and read and
// parsed again when it is needed. Not thread-safe.
class ParsedSources {
 public:
  using SourceOf = std::function<std::string(const std::string& source_id)>;  // reads the record
  // The task outlives it.
  ParsedSources(const Task&, SourceOf, std::size_t capacity = 128);

  const Task& task() const { return task_; }
  // As make_variant.
  ParsedVariant variant(const std::string& source, const Configuration& = {});
  // Of a source that the record holds.
  ParsedVariant recorded(const std::string& source_id, const Configuration&);
  std::string text(const std::string& source_id);
  void keep(VariantPtr);  // parsed elsewhere

 private:
  using Kept = std::list<VariantPtr>;  // the one that was asked for last is first
  const Variant& used(Kept::iterator);

  const Task& task_;
  SourceOf source_of_;
  std::size_t capacity_;
  Kept kept_;
  std::unordered_map<std::string_view, Kept::iterator> by_text_, by_id_;  // views into the kept variants
};

}  // namespace cultivar

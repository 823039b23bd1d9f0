// SPDX-License-Identifier: Apache-2.0
// The kernels that a conversation with tools creates.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/variant/variant.hpp"
#include "evaluators/verdict/evaluation.hpp"

namespace cultivar {

// A kernel that this conversation created: later calls refer to it by its id instead of sending it again.
struct Draft {
  std::string id;  // "d1"
  Variant variant;
  std::string base;  // the kernel that it edits; empty if it was sent as a complete source
  std::optional<Evaluation> evaluation;
  std::string origin = {};  // the first kernel in its chain of bases that is not a draft; empty if none
};

// Thread-safe.
class Drafts {
 public:
  explicit Drafts(std::size_t most) : most_(most) {}
  // Returns the existing draft if there is one with this identity. `origin`: of a base that is no draft of
  // this conversation; if empty, the base itself.
  Draft put(Variant, const std::string& base, const std::string& origin = {});
  std::optional<Draft> find(const std::string& id) const;
  // A measurement of fewer workloads, or none, never replaces one of more.
  void judged(const std::string& id, const Evaluation&);
  std::vector<Draft> all() const;
  void restore(Draft);  // keeps its id, "dN"; later drafts get d(N+1) or higher

 private:
  mutable std::mutex mutex_;
  std::size_t most_, made_ = 0;
  std::deque<Draft> drafts_;

  void keep(Draft);
};

}  // namespace cultivar

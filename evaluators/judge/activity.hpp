// SPDX-License-Identifier: Apache-2.0
// What a worker is about to do, reported to the engine beforehand.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "evaluators/verdict/evaluation.hpp"

namespace cultivar {

struct Activity {
  std::optional<Stage> stage = {};  // nullopt: the worker is starting
  std::string contender = {};       // the contender whose library it calls; empty if none
  std::string text = {};            // for people only
};
using Announce = std::function<void(const Activity&)>;

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// The numbers available to a variant's expressions. For who plans.
#pragma once

#include <fmt/format.h>

#include <string>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

// The task's names, the tunables, device facts and the manifest's lets. An Error names the let that fails.
Expected<Bindings> scope_of(const Variant&, const Task&, const Workload&, const Facts&);

// "'R / 2' is 300", or only "300" if the expression is that number.
template <class Number>
std::string said(const std::string& expression, Number value) {
  const std::string number = fmt::format("{}", value);
  return expression == number ? number : fmt::format("'{}' is {}", expression, number);
}

}  // namespace cultivar

// The numbers that a variant's expressions see. Private to this folder.
#pragma once

#include <fmt/format.h>

#include <string>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

// Task's names, tunables, facts and the manifest's lets. An Error says which let fails.
Expected<Bindings> scope_of(const Variant&, const Task&, const Workload&, const Facts&);

// "'R / 2' is 300", and of a number, which says it itself, "300".
template <class Number>
std::string said(const std::string& expression, Number value) {
  const std::string number = fmt::format("{}", value);
  return expression == number ? number : fmt::format("'{}' is {}", expression, number);
}

// A tensor map with every expression evaluated and the rules of cuTensorMapEncodeTiled checked.
Expected<PlannedTensorMap> plan_tensor_map(const TensorMapSpec&, int buffer, Dtype, std::size_t buffer_bytes,
                                           const Bindings&);

}  // namespace cultivar

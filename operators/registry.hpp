// Every operator by name, as a configuration names it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "operators/operator.hpp"

namespace cultivar {

struct OperatorOptions {
  std::uint64_t run_seed = 1;
  int repair_rounds = 3;  // of critique_repair, on one line of failures
};

std::vector<std::string> operator_names();
bool asks_a_model(const std::string& name);
std::unique_ptr<Operator> make_operator(const std::string& name,
                                        const OperatorOptions&);  // throws InputError

}  // namespace cultivar

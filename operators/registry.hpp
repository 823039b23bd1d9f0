// Every operator by name, as a configuration names it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "operators/operator.hpp"

namespace cultivar {

std::vector<std::string> operator_names();
std::unique_ptr<Operator> make_operator(const std::string& name,
                                        std::uint64_t run_seed);  // throws InputError

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/opencl/launches_json.hpp"

#include <nlohmann/json.hpp>
#include <span>

namespace cultivar {
namespace {

using nlohmann::json;

json scalar(const PlannedArgument& argument) {
  std::uint64_t bits = 0;
  const std::size_t bytes = size_of(argument.type);
  encode(argument.type, {&argument.value, 1}, std::as_writable_bytes(std::span(&bits, 1)).first(bytes));
  return {{"bytes", bytes}, {"bits", bits}};
}

}  // namespace

json launches_json(const Plan& plan) {
  json launches = json::array();
  for (const PlannedKernel& planned : plan.kernels) {
    json arguments = json::array();
    for (const PlannedArgument& argument : planned.args)
      arguments.push_back(argument.kind == PlannedArgument::Kind::buffer ? json{{"buffer", argument.index}}
                                                                         : scalar(argument));
    launches.push_back({{"kernel", planned.kernel},
                        {"global", planned.launch.three("global")},
                        {"local", planned.launch.three("local")},
                        {"local_bytes", planned.launch.number("local_bytes", 0)},
                        {"arguments", std::move(arguments)}});
  }
  return launches;
}

}  // namespace cultivar

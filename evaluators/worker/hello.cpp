// SPDX-License-Identifier: Apache-2.0
#include "evaluators/worker/hello.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace cultivar {

nlohmann::json hello(std::string_view worker) {
  return {{"cultivar", protocol_version}, {"worker", std::string(worker)}};
}

Expected<void> check_hello(const nlohmann::json& message, std::string_view worker) {
  const std::string stage = fmt::format("greet worker {}", worker);
  if (!message.is_object() || !message.contains("cultivar") || !message["cultivar"].is_number_integer())
    return failure(
        stage,
        "the worker's first frame is not a hello; make sure that the launcher prints nothing to stdout");
  const int version = message["cultivar"].get<int>();
  if (version != protocol_version)
    return failure(stage, fmt::format("the worker uses protocol version {}, but this program uses version "
                                      "{}; build both from the same source tree",
                                      version, protocol_version));
  if (message.value("worker", "") != worker)
    return failure(stage, fmt::format("the worker's name is {}", message["worker"].dump()));
  return {};
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "support/scripted_search.hpp"

#include <stdexcept>

namespace cultivar::testing {

Runtime simulated_runtime(const Simulation& simulation) {
  Runtime s;
  s.installation.tasks = std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks";
  s.evaluator = [simulation](const Config&, const std::filesystem::path&) {
    return std::make_unique<SimulatedEvaluator>(simulation);
  };
  return s;
}

std::string last_said(const SeenRequest& seen) {
  return seen.body.at("messages").back().at("content").get<std::string>();
}

std::string first_said(const SeenRequest& seen) {
  for (const auto& message : seen.body.at("messages"))
    if (message.at("role") == "user") return message.at("content").get<std::string>();
  throw std::runtime_error("no user message");
}

std::string kernel_named_in(const std::string& prompt) {
  const std::size_t manifest = prompt.find("/*--- cultivar\nname: ");
  if (manifest == std::string::npos) throw std::runtime_error("no kernel in:\n" + prompt);
  const std::size_t at = manifest + 21;
  return prompt.substr(at, prompt.find('\n', at) - at);
}

std::string renaming(const std::string& from, const std::string& to, const std::string& idea) {
  return "IDEA: " + idea + "\n\n<<<<<<< SEARCH\nname: " + from + "\n=======\nname: " + to +
         "\n>>>>>>> REPLACE\n";
}

std::vector<std::string> with_model(const std::string& url, const std::string& operators,
                                    std::vector<std::string> more) {
  std::vector<std::string> overrides{"models.m={provider: openai, base_url: \"" + url +
                                         "\", model: x, prices: {input: 2, output: 10}, retry: {attempts: 2, "
                                         "first_wait: 0.02s, longest_wait: 0.1s, "
                                         "breaker_rest: 0.05s, patience: 5s}}",
                                     "operators=" + operators};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

}  // namespace cultivar::testing

// SPDX-License-Identifier: Apache-2.0
// All models of a search behind their policy, against a local server.
#pragma once

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "operators/llm/chat_service.hpp"
#include "support/ask_and_wait.hpp"
#include "support/chat_models.hpp"

namespace cultivar::testing {

inline const SaidUsage kUsage{100, 40, 0, 25, 0};
// 60 of input, 40 cached, 25 of output at 2, 0.2 and 10 USD per million
inline constexpr double kUsd = 1e-6 * (60 * 2.0 + 40 * 0.2 + 25 * 10.0);

inline Reply good(const std::string& text = "fine") {
  return event_stream(openai_events(text, kUsage));
}

struct Service {
  std::shared_ptr<HttpClient> http = std::make_shared<HttpClient>();
  MemoryLog log;
  std::vector<ModelConfig> configs;
  Caps caps;
  std::mutex mutex;
  std::vector<std::string> events;
  std::unique_ptr<ChatService> service;

  ModelConfig& add(const std::string& name, const std::string& url) {
    configs.push_back(model_at(url, "openai", name));
    RetryRule& retry = configs.back().retry;
    retry.first_wait_s = 0.05;
    retry.longest_wait_s = 0.2;
    retry.fallback_after_s = 0.5;
    retry.breaker_rest_s = 0.3;
    return configs.back();
  }
  ChatService& start() {
    ChatServiceOptions options;
    options.models = configs;
    options.caps = caps;
    options.event = [this](const std::string& text, bool) {
      const std::lock_guard lock(mutex);
      events.push_back(text);
    };
    std::map<std::string, std::unique_ptr<ChatModel>> models;
    for (const ModelConfig& config : configs) models[config.name] = made(config, http);
    auto made_service = ChatService::make(std::move(options), std::move(models), log);
    BOOST_TEST_REQUIRE(made_service.has_value());
    service = std::move(*made_service);
    return *service;
  }
  ServedResult ask(const std::string& text = "hello", const std::string& model = "a",
                   std::stop_token stop = {}) {
    return ask_and_wait(*service, {"mutate", model, question(text, "mutate/" + text)}, std::move(stop));
  }
  bool told(const std::string& part) {
    const std::lock_guard lock(mutex);
    for (const std::string& text : events)
      if (text.find(part) != std::string::npos) return true;
    return false;
  }
};

inline std::string words_of(const ServedResult& result) {
  return result ? "an answer" : std::string(name_of(result.error().kind)) + ": " + result.error().message;
}

inline bool near(double a, double b) {
  return std::abs(a - b) < 1e-12;
}

template <class Condition>
bool soon(Condition condition, double seconds = 5.0) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace cultivar::testing

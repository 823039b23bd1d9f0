// SPDX-License-Identifier: Apache-2.0
// Recorded exchanges instead of a model: no call is sent, nothing is paid.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/system/error.hpp"
#include "operators/llm/chat_model.hpp"

namespace cultivar {

// One request and its answer. A file has one JSON object per line: {"call", "model", "request",
// "answer"}.
struct RecordedExchange {
  std::string call;
  std::string model;  // its name in the configuration
  ChatRequest request;
  ChatAnswer answer;
};

std::string to_line(const RecordedExchange&);
// An Error names the file, the line and the remedy. An empty file is an Error too.
Expected<std::vector<RecordedExchange>> read_exchanges(const std::filesystem::path& file);

// Looks up answers by the request's hash. Among several answers to one request, the one of the same call is
// used, otherwise the oldest unused one; the last one is repeated. An unknown request is `no_recording`, and
// the message names the nearest recorded call. `by_call`: looks up answers by the call's name instead,
// whatever the request (prompts contain times, which differ between machines); an unknown name gets the
// oldest unused answer of the same operator and turn.
class ReplayModel : public ChatModel {
 public:
  explicit ReplayModel(std::vector<RecordedExchange>, bool by_call = false);
  ~ReplayModel() override;
  void ask(const ChatRequest&, std::stop_token, ChatListener) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar

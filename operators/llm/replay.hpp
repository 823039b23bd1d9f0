// Recorded exchanges in place of a model: nothing is asked, nothing is paid.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "evaluators/error.hpp"
#include "operators/llm/chat_model.hpp"

namespace cultivar {

// One question and its answer. A file of them has one JSON object a line: {"call", "model", "request",
// "answer"}.
struct RecordedExchange {
  std::string call;
  std::string model;  // the configuration's name for it
  ChatRequest request;
  ChatAnswer answer;
};

std::string to_line(const RecordedExchange&);
// An Error names the file, the line and the remedy; so does one for a file without any.
Expected<std::vector<RecordedExchange>> read_exchanges(const std::filesystem::path& file);

// Keyed by the request's hash. Of several answers to one request, that of the same call is taken, otherwise
// the oldest that was not taken yet; the last one is given again and again. An unknown request is
// `no_recording`, with the recorded call that is nearest.
// `by_call`: found by the call's name instead, whatever is asked (prompts hold times, which differ from
// machine to machine); a name that is not there gets the oldest answer left of the same operator and turn.
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

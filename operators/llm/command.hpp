// SPDX-License-Identifier: Apache-2.0
// A language model behind any program, such as `claude -p`, `codex exec`, `opencode run` or a script: the
// prompt on stdin or in a file, the answer on stdout or in a file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "operators/llm/chat_model.hpp"

namespace cultivar {

struct CommandModelOptions {
  // The program (looked up in PATH) and its arguments, without a shell. {prompt_file}, {answer_file} and
  // {folder} are replaced by paths in a new work folder, which is the current folder of the program and is
  // removed after the call. Text of a request never becomes an argument.
  std::vector<std::string> command;
  enum class Answer {
    text,        // all of stdout
    file,        // the file {answer_file} that the program wrote
    claude_json  // stdout is the JSON of `claude -p --output-format json`, with tokens and price
  } answer = Answer::text;
  std::string model;      // the name to report
  ChatTimeouts timeouts;  // idle: longest time without output after the first byte; connect: not used
  ChatBounds bounds;      // also limits the answer to the bytes of the request's max_output_tokens
};

// One thread and one process group per call; the group is killed on cancellation, at the deadline, on too
// much output, and when the model is destroyed. The prompt goes to stdin unless the arguments contain
// {prompt_file}.
class CommandModel : public ChatModel {
 public:
  explicit CommandModel(CommandModelOptions);
  ~CommandModel() override;
  void ask(const ChatRequest&, std::stop_token, ChatListener) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar

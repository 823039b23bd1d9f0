// A language model behind any program: the prompt on stdin or in a file, the answer on stdout or in a file.
// `claude -p`, `codex exec`, `opencode run`, or a script of one's own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "operators/llm/chat_model.hpp"

namespace cultivar {

struct CommandModelOptions {
  // The program (looked up in PATH) and its arguments; no shell is between. {prompt_file}, {answer_file} and
  // {folder} are replaced by paths in a fresh work folder, which is the working folder and is removed after
  // the call. Text of a request never becomes an argument.
  std::vector<std::string> command;
  enum class Answer {
    text,        // all of stdout
    file,        // what the program left in {answer_file}
    claude_json  // stdout is the JSON of `claude -p --output-format json`, with tokens and price
  } answer = Answer::text;
  std::string model;      // what to call it
  ChatTimeouts timeouts;  // idle: the longest time without a byte on stdout once it began; connect: not used
  ChatBounds bounds;      // of the answer: also no more than the request's max_output_tokens come to in bytes
};

// One thread and one process group a call; the group is killed on cancel, deadline, flood or the model's end.
// The prompt goes to stdin unless {prompt_file} is among the arguments.
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

// A person, or any agent, is the model: requests appear as files in one folder, answers are put into another.
// The search goes on meanwhile. The folder's own README.md, written when it is first used, explains it to
// whoever looks in.
//
//   requests/ID.md      the prompt, to be read           requests/ID.json   the same, exactly, for programs
//   answers/ID.md       the answer, tool calls in text   answers/ID.json    {"text", "tool_calls", "model"}
//   answers/taken/      answers that were used           answers/rejected/  bad ones, each with ID.why.txt
//   requests/closed/    requests that are over; one that was cancelled is not, because it will be asked again
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "operators/llm/chat_model.hpp"

namespace cultivar {

struct MailboxOptions {
  std::filesystem::path folder;
  double look_every_s = 0.25;
  // An answer counts when its file has not changed for so long, so that one may also be written in place.
  // One that was renamed into place and is old enough counts at once.
  double settled_s = 1.0;
  ChatTimeouts timeouts;  // only total
  ChatBounds bounds;
};

// One thread watches for all calls. The name of a request follows from its call and its content: asked again
// after a crash it is the same file, and an answer that had already been taken is found again.
class MailboxModel : public ChatModel {
 public:
  explicit MailboxModel(MailboxOptions);
  ~MailboxModel() override;
  void ask(const ChatRequest&, std::stop_token, ChatListener) override;

  bool knows_again() const override { return true; }
  bool has_answer(const ChatRequest&) const override;
  void withdraw(const ChatRequest&) const override;

  static std::string file_stem(const ChatRequest&);  // ID

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cultivar

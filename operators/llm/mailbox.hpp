// SPDX-License-Identifier: Apache-2.0
// A person or any agent acts as the model: requests appear as files in one folder, answers are written to
// another. The search continues in the meantime. A README.md in the mailbox, written on first use, explains
// the protocol.
//
//   requests/ID.md      the prompt, for people           requests/ID.json   the exact request, for programs
//   answers/ID.md       the answer, tool calls in text   answers/ID.json    {"text", "tool_calls", "model"}
//   answers/taken/      used answers                     answers/rejected/  invalid ones, each with
//   ID.why.txt requests/closed/    finished requests; canceled ones are not moved, because they will be asked
//   again
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "operators/llm/chat_model.hpp"

namespace cultivar {

struct MailboxOptions {
  std::filesystem::path folder;
  double look_every_s = 0.25;
  // An answer is read when its file has not changed for this long, so that it can be written in place. An
  // older file that was renamed into place is read at once.
  double settled_s = 1.0;
  ChatTimeouts timeouts;  // only `total` is used
  ChatBounds bounds;
};

// One thread watches for all calls. A request's name is derived from its call and content: sent again after a
// crash, it is the same file, and an answer that was already moved to `taken` is found again.
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

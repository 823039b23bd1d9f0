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
#include <optional>
#include <string>
#include <system_error>

#include "evaluators/system/error.hpp"
#include "operators/llm/chat.hpp"
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

// The files of a mailbox: the format of requests, and reading of answers. Private to mailbox.cpp and tests.
std::string mailbox_explanation();                                        // README.md
std::string mailbox_markdown(const ChatRequest&, const std::string& id);  // requests/ID.md
std::string mailbox_json(const ChatRequest&, const std::string& id);      // requests/ID.json

// The answer in the `text` of a file ID.md or ID.json; the Error's message tells its author what is wrong
// with it.
Expected<ChatAnswer> read_mailbox_answer(const std::string& text, bool is_json, const ChatRequest&);

// Written to a temporary file, synced and renamed, so that readers never see an incomplete file.
std::error_code put_file(const std::filesystem::path& file, const std::string& text);
// A full or failing disk, which is independent of what is written and may be well again later.
bool is_of_the_disk(std::error_code);
// Reads a regular file of at most `most` bytes that is not a link; otherwise an Error.
Expected<std::string> take_file(const std::filesystem::path& file, std::size_t most);

}  // namespace cultivar

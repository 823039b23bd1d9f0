// The files of a mailbox: what a request looks like, how an answer is read. Private to mailbox.cpp and tests.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "evaluators/error.hpp"
#include "operators/llm/chat.hpp"

namespace cultivar {

std::string mailbox_explanation();                                        // README.md
std::string mailbox_markdown(const ChatRequest&, const std::string& id);  // requests/ID.md
std::string mailbox_json(const ChatRequest&, const std::string& id);      // requests/ID.json

// What `text` of a file ID.md or ID.json answers; an Error says in words for its author what is wrong with
// it.
Expected<ChatAnswer> read_mailbox_answer(const std::string& text, bool is_json, const ChatRequest&);

// Beside `file`, synced, renamed: nobody sees half of it.
Expected<void> put_file(const std::filesystem::path& file, const std::string& text);
// A regular file of at most `most` bytes, no link; an Error otherwise.
Expected<std::string> take_file(const std::filesystem::path& file, std::size_t most);

}  // namespace cultivar

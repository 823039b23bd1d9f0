// SPDX-License-Identifier: Apache-2.0
// The files of a mailbox: the format of requests, and reading of answers. Private to mailbox.cpp and tests.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "evaluators/system/error.hpp"
#include "operators/llm/chat.hpp"

namespace cultivar {

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

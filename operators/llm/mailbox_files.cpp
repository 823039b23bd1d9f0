// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/mailbox_files.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "evaluators/system/files.hpp"
#include "evaluators/system/foreign_json.hpp"
#include "evaluators/system/json_text.hpp"
#include "operators/llm/chat_errors.hpp"
#include "operators/llm/plain_prompt.hpp"
#include "operators/llm/tool_text.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kStage = "mailbox";
constexpr std::size_t kLongestModelName = 100;

std::string known_tools(const ChatRequest& request) {
  std::string names;
  for (const ToolSpec& tool : request.tools) names += (names.empty() ? "" : ", ") + tool.name;
  return names.empty() ? "this request has none" : names;
}

}  // namespace

std::string mailbox_explanation() {
  return R"(# A mailbox: you are the language model

A Cultivar search asks questions here and continues with other work until they are answered.

1. Read a file `requests/ID.md`. It holds the complete prompt. `requests/ID.json` holds the same for programs:
   `system`, `messages`, `tools`, as sent.
2. Write the answer to `answers/ID.md`. The complete file is the answer, exactly as a model would write it.
   Answer a request that offers tools (those of the operator `agent`) with one or more calls:

       Your thoughts.

       ```tool
       {"tool": "check", "arguments": {"variant": "12"}}
       ```
       <<<<<<< SEARCH
       complete lines of the source, copied exactly
       =======
       replacement lines
       >>>>>>> REPLACE

   Blocks directly below a call become its argument `edit`; a complete source in a fenced block becomes its argument
   `source`. The next request, with the same ID and the next number, contains the results.
   For programs, and to name the model that answered, write `answers/ID.json` instead:

       {"text": "...", "tool_calls": [{"name": "compile", "arguments": {"source": "..."}}], "model": "who answered"}

3. Write the file elsewhere and rename it into place, or write it in place: it is read when it has not changed for a
   second. It must be a regular file: a symbolic link is rejected, so that no other file of the machine is sent on.

A used answer is moved to `answers/taken/`. A file that cannot be read as an answer is moved to `answers/rejected/`, with
the reason in `ID.why.txt` next to it; the request stays open. An answer with a wrong edit or kernel (a SEARCH that is not
in the source, a kernel that does not compile) counts as used: the next request says what was wrong with it. Finished
requests are moved to `requests/closed/`; so is a request that is withdrawn because the search has moved on, with a first
line that says so. Check that a request is still in `requests/` before you spend long on it. The requests of a stopped search stay and are asked again when it is resumed. A
file whose name matches no request is ignored, because several searches may share this folder.
)";
}

std::string mailbox_markdown(const ChatRequest& request, const std::string& id) {
  std::string text = fmt::format("<!-- Answer in answers/{}.md", id);
  if (!request.tools.empty()) text += " with tool calls as blocks of kind `tool` (see Tools below)";
  text += fmt::format(
      "; at most {} tokens. See README.md.{} -->\n\n", request.max_output_tokens,
      request.messages.size() > 1 ? " The conversation continues: the new messages are at the end." : "");
  return text + plain_prompt(request) + "\n";
}

std::string mailbox_json(const ChatRequest& request, const std::string& id) {
  json record = to_record(request);
  record["id"] = id;
  record["call"] = request.call;
  return json_text(record, 2) + "\n";
}

Expected<ChatAnswer> read_mailbox_answer(const std::string& text, bool is_json, const ChatRequest& request) {
  ChatAnswer answer;
  answer.model = "mailbox";
  answer.usage.estimated = true;
  answer.usage.input = estimated_tokens(bytes_of(request));
  answer.usage.output = estimated_tokens(text.size());
  if (!is_json) {
    if (one_line(text, 64).empty()) return failure(kStage, "The file is empty. Write the answer to it.");
    // Checked as the dialogue would, so that an error is reported while the request is still open.
    if (!request.tools.empty())
      if (const auto calls = tool_calls_in_text(text, request.tools); !calls)
        return failure(kStage, calls.error());
    answer.text = text;
    return answer;
  }
  const json said = foreign_json(text);
  if (said.is_discarded())
    return failure(kStage,
                   fmt::format("The file is not valid JSON: {}. Write an answer as plain text to a file .md",
                               where_json_breaks(text)));
  if (!said.is_object()) return failure(kStage, "The file must hold one JSON object; see README.md.");
  for (const auto& [key, value] : said.items())
    if (key != "text" && key != "tool_calls" && key != "model")
      return failure(
          kStage, fmt::format("There is no key \"{}\"; known: text, tool_calls, model.", one_line(key, 60)));
  for (const char* key : {"text", "model"})
    if (said.contains(key) && !said[key].is_string())
      return failure(kStage, fmt::format("\"{}\" must be a string.", key));
  answer.text = said.value("text", "");
  answer.model = one_line(said.value("model", "mailbox"), kLongestModelName);
  const json calls = said.value("tool_calls", json::array());
  if (!calls.is_array()) return failure(kStage, "\"tool_calls\" must be a list.");
  for (const json& call : calls) {
    if (!call.is_object() || !call.contains("name") || !call["name"].is_string())
      return failure(kStage, "Each of \"tool_calls\" must be {\"name\": ..., \"arguments\": {...}}.");
    const std::string name = call["name"].get<std::string>();
    if (std::ranges::none_of(request.tools, [&](const ToolSpec& tool) { return tool.name == name; }))
      return failure(kStage, fmt::format("There is no tool \"{}\"; the request offers: {}.",
                                         one_line(name, 60), known_tools(request)));
    const json arguments = call.value("arguments", json::object());
    if (!arguments.is_object())
      return failure(kStage, fmt::format("The \"arguments\" of \"{}\" must be an object.", name));
    answer.tool_calls.push_back(
        {fmt::format("call_{}", answer.tool_calls.size() + 1), name, json_text(arguments)});
  }
  if (answer.text.empty() && answer.tool_calls.empty())
    return failure(kStage, "The answer has neither a text nor tool calls.");
  if (!answer.tool_calls.empty()) answer.stop = StopReason::tool_calls;
  return answer;
}

std::error_code put_file(const fs::path& file, const std::string& text) {
  // A leading dot, so that programs that list requests skip it.
  const fs::path temporary = file.parent_path() / ("." + file.filename().string() + ".part");
  // Others may write here too: a pipe or a link with this name is removed, and not written to.
  ::unlink(temporary.c_str());
  std::FILE* out = std::fopen(temporary.c_str(), "wbxe");
  if (!out) return {errno, std::generic_category()};
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size() &&
                       std::fflush(out) == 0 && ::fsync(::fileno(out)) == 0;
  const int why = errno;
  const bool closed = std::fclose(out) == 0;
  if (written && closed && std::rename(temporary.c_str(), file.c_str()) == 0) return {};
  const int failed = written ? errno : why;
  ::unlink(temporary.c_str());  // on a full disk it would take the space that is left
  return {failed, std::generic_category()};
}

bool is_of_the_disk(std::error_code error) {
  constexpr std::array kThese{ENOSPC, EDQUOT, EIO, EROFS, ESTALE};
  return std::ranges::find(kThese, error.value()) != kThese.end();
}

Expected<std::string> take_file(const fs::path& file, std::size_t most) {
  auto text = read_unlinked_file(file, most);
  if (text) return text;
  std::error_code none;
  if (fs::is_symlink(file, none))
    return failure(
        kStage,
        "This is a symbolic link, and links are not followed, because an answer is sent on and a link could "
        "expose any file of this machine. Put a copy of the file here.");
  return failure(kStage, text.error().message);
}

}  // namespace cultivar

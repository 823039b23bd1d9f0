// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/tool_text.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <set>

#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {

namespace {

using nlohmann::json;

std::string bare(std::string_view line) {
  line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
  const std::size_t begin = line.find_first_not_of(" \t");
  return begin == line.npos ? std::string() : std::string(line.substr(begin));
}

// The fence that opens or closes a block, such as "```" in "```cpp"; empty if there is none.
std::string fence_of(const std::string& line) {
  if (line.empty() || (line[0] != '`' && line[0] != '~')) return {};
  const std::size_t end = std::min(line.find_first_not_of(line[0]), line.size());
  return end >= 3 ? line.substr(0, end) : std::string();
}

struct Written {  // a call as written in the text
  int line = 0;   // line where its block opens; 1-based
  std::string object;
  bool closed = false;
  std::string below;
  bool has_edit = false, has_source = false;
};

// Lines inside a code block or a SEARCH/REPLACE block do not open a call.
std::vector<Written> written_calls(const std::string& text) {
  std::vector<Written> calls;
  enum class In { words, call, code, edit } in = In::words;
  std::string fence;
  int number = 0;
  for (const std::string_view raw : lines_of(text)) {
    ++number;
    const std::string line = bare(raw), opens = fence_of(line);
    const bool closes =
        opens.size() >= fence.size() && opens == line && !opens.empty() && opens[0] == fence[0];
    if (in == In::call) {
      if (closes) {
        calls.back().closed = true;
        in = In::words;
      } else {
        calls.back().object.append(raw) += '\n';
      }
      continue;
    }
    if (in == In::words && !opens.empty() && bare(line.substr(opens.size())) == "tool") {
      calls.push_back({number, {}, false, {}, false, false});
      fence = opens;
      in = In::call;
      continue;
    }
    if (!calls.empty()) calls.back().below.append(raw) += '\n';
    const bool edit_begins = line.starts_with("<<<<<<<");
    if (!calls.empty() && edit_begins) calls.back().has_edit = true;
    if (in == In::words && edit_begins) {
      in = In::edit;
    } else if (in == In::words && !opens.empty()) {
      if (!calls.empty()) calls.back().has_source = true;
      fence = opens;
      in = In::code;
    } else if ((in == In::edit && line.starts_with(">>>>>>>")) || (in == In::code && closes)) {
      in = In::words;
    }
  }
  return calls;
}

tl::expected<ToolCall, std::string> understood(const Written& written, const std::vector<ToolSpec>& tools) {
  const auto refuse = [&](const std::string& why) {
    return tl::make_unexpected(fmt::format("The tool call on line {}: {}", written.line, why));
  };
  if (!written.closed) return refuse("its block is not closed with ``` on a separate line.");
  if (nests_too_deep(written.object))
    return refuse(fmt::format("it is nested deeper than {} levels.", kForeignJsonDepth));
  json said = foreign_json(written.object);
  if (said.is_discarded())
    return refuse(fmt::format(
        "it is not valid JSON (line numbers within the block): {}. Do not put code into the JSON: write "
        "SEARCH/REPLACE blocks, or a complete source in a fenced block, below it.",
        where_json_breaks(written.object)));
  if (!said.is_object() || !said.contains("tool") || !said["tool"].is_string())
    return refuse("it must be {\"tool\": \"NAME\", \"arguments\": {...}}.");
  for (const auto& [key, value] : said.items())
    if (key != "tool" && key != "arguments")
      return refuse(fmt::format("there is no key \"{}\"; known: tool, arguments.", key));
  const std::string name = said["tool"].get<std::string>();
  const auto spec = std::ranges::find(tools, name, &ToolSpec::name);
  if (spec == tools.end()) {
    std::vector<std::string> known;
    for (const ToolSpec& tool : tools) known.push_back(tool.name);
    return refuse(fmt::format("there is no tool \"{}\"{}", name, did_you_mean(name, known)));
  }
  json arguments = said.value("arguments", json::object());
  if (!arguments.is_object()) return refuse("its \"arguments\" must be an object.");
  if (written.has_edit || written.has_source) {
    const char* const key = written.has_edit ? "edit" : "source";
    const json properties = spec->parameters.value("properties", json::object());
    if (!properties.contains(key))
      return refuse(fmt::format("`{}` has no argument {}, but there is one below it.", name,
                                written.has_edit ? "edit" : "source"));
    if (arguments.contains(key))
      return refuse(fmt::format("\"{}\" is given both in its arguments and below it. Send only one.", key));
    arguments[key] = written.below;
  }
  return ToolCall{{}, name, json_text(arguments)};
}

void add_message(std::string& text, const ChatMessage& m) {
  switch (m.role) {
    case ChatRole::user:
      text += "## User\n\n" + m.text;
      break;
    case ChatRole::assistant:
      text += "## You answered\n\n" + m.text;
      for (const ToolCall& call : m.tool_calls)
        text += "\n\n(you called `" + call.name + "` as " + call.id + " with " + call.arguments + ")";
      break;
    case ChatRole::tool:
      text += "## Result of " + m.tool_call_id + (m.tool_failed ? " (failed)\n\n" : "\n\n") + m.text;
  }
  text += "\n\n";
}

}  // namespace

std::string tools_as_text(const ChatRequest& request) {
  if (request.tools.empty() || request.tool_choice == ToolChoice::none) return {};
  std::string text =
      "# Tools\n\nYou work by calling tools. A call is a block like this, with one JSON object:\n\n"
      "```tool\n{\"tool\": \"NAME\", \"arguments\": {\"argument\": \"value\"}}\n```\n\n"
      "Do not put code into the JSON. SEARCH/REPLACE blocks directly below a call become its argument "
      "`edit`; a complete source in a fenced block directly below it becomes its argument `source`. An "
      "answer may contain several calls, which are run in order; their results come in the next message. "
      "Other text is ignored. The tools:\n";
  std::set<std::string> explained;  // arguments, with their schema
  for (const ToolSpec& tool : request.tools) {
    json parameters = tool.parameters;
    if (parameters.contains("properties"))
      for (auto& [name, schema] : parameters["properties"].items())
        if (schema.is_object() && schema.contains("description") &&
            !explained.insert(name + json_text(schema)).second)
          schema = {{"description", "as above"}};
    text += fmt::format("\n## Tool `{}`\n\n{}\n\n```json\n{}\n```\n", tool.name, tool.description,
                        json_text(parameters));
  }
  return text;
}

tl::expected<std::vector<ToolCall>, std::string> tool_calls_in_text(const std::string& text,
                                                                    const std::vector<ToolSpec>& tools) {
  std::vector<ToolCall> calls;
  for (const Written& written : written_calls(text)) {
    auto call = understood(written, tools);
    if (!call) return tl::make_unexpected(call.error());
    call->id = fmt::format("call_{}", calls.size() + 1);
    calls.push_back(std::move(*call));
  }
  return calls;
}

std::string text_before_call(const std::string& text, std::size_t index) {
  const std::vector<Written> calls = written_calls(text);
  if (index >= calls.size()) return text;
  std::size_t at = 0;
  for (int line = 1; line < calls[index].line; ++line) at = text.find('\n', at) + 1;
  return text.substr(0, at);
}

std::string plain_prompt(const ChatRequest& request) {
  std::string text;
  for (const ChatText& part : request.system) text += part.text + "\n\n";
  if (const std::string tools = tools_as_text(request); !tools.empty()) text += tools + "\n";
  if (request.messages.size() == 1 && request.messages.front().role == ChatRole::user)
    text += request.messages.front().text + "\n\n";
  else
    for (const ChatMessage& message : request.messages) add_message(text, message);
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace cultivar

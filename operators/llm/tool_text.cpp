#include "operators/llm/tool_text.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <sstream>

#include "evaluators/foreign_json.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {

namespace {

using nlohmann::json;

std::string bare(std::string line) {
  while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) line.pop_back();
  const std::size_t begin = line.find_first_not_of(" \t");
  return begin == std::string::npos ? std::string() : line.substr(begin);
}

// "```" of "```cpp": what opens or closes a block; empty: nothing does.
std::string fence_of(const std::string& line) {
  if (line.empty() || (line[0] != '`' && line[0] != '~')) return {};
  const std::size_t end = std::min(line.find_first_not_of(line[0]), line.size());
  return end >= 3 ? line.substr(0, end) : std::string();
}

struct Written {  // a call as it stands in the text
  int line = 0;   // where its block opens; 1-based
  std::string object;
  bool closed = false;
  std::string below;
  bool has_edit = false, has_source = false;
};

// Lines inside of a block of code, or of SEARCH/REPLACE, open nothing.
std::vector<Written> written_calls(const std::string& text) {
  std::vector<Written> calls;
  enum class In { words, call, code, edit } in = In::words;
  std::string fence;
  std::istringstream lines(text);
  int number = 0;
  for (std::string raw; std::getline(lines, raw);) {
    ++number;
    const std::string line = bare(raw), opens = fence_of(line);
    const bool closes =
        opens.size() >= fence.size() && opens == line && !opens.empty() && opens[0] == fence[0];
    if (in == In::call) {
      if (closes) {
        calls.back().closed = true;
        in = In::words;
      } else {
        calls.back().object += raw + "\n";
      }
      continue;
    }
    if (in == In::words && !opens.empty() && bare(line.substr(opens.size())) == "tool") {
      calls.push_back({number, {}, false, {}, false, false});
      fence = opens;
      in = In::call;
      continue;
    }
    if (!calls.empty()) calls.back().below += raw + "\n";
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
  if (!written.closed) return refuse("its block is not closed with ``` on a line of its own.");
  if (nests_too_deep(written.object))
    return refuse(fmt::format("it nests deeper than {} levels.", kForeignJsonDepth));
  json said = foreign_json(written.object);
  if (said.is_discarded())
    return refuse(
        fmt::format("it is not JSON (lines of the block): {}. Long texts need not stand in the JSON: put "
                    "SEARCH/REPLACE blocks, or a whole source in a fenced block, below it.",
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
      return refuse(fmt::format("`{}` takes no {}, but there is one below it.", name,
                                written.has_edit ? "edit" : "source"));
    if (arguments.contains(key))
      return refuse(fmt::format("\"{}\" stands in its arguments, and below it too. Send one.", key));
    arguments[key] = written.below;
  }
  return ToolCall{{}, name, arguments.dump(-1, ' ', false, json::error_handler_t::replace)};
}

}  // namespace

std::string tools_as_text(const ChatRequest& request) {
  if (request.tools.empty() || request.tool_choice == ToolChoice::none) return {};
  std::string text =
      "# Tools\n\nYou work by calling tools. A call is a block like this, with one JSON object in it:\n\n"
      "```tool\n{\"tool\": \"NAME\", \"arguments\": {\"argument\": \"value\"}}\n```\n\n"
      "Code never needs to stand in the JSON. SEARCH/REPLACE blocks directly below a call become its "
      "argument "
      "`edit`; a whole source in a fenced block directly below it becomes its argument `source`. An answer "
      "may "
      "hold several calls, which are run in order; their results come in the next message. Words beside them "
      "are for yourself. The tools:\n";
  for (const ToolSpec& tool : request.tools)
    text += fmt::format("\n## Tool `{}`\n\n{}\n\n```json\n{}\n```\n", tool.name, tool.description,
                        tool.parameters.dump(-1, ' ', false, json::error_handler_t::replace));
  return text;
}

bool calls_tools_in_text(const std::string& text) {
  return !written_calls(text).empty();
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

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/plain_prompt.hpp"

#include "operators/llm/tool_text.hpp"

namespace cultivar {

namespace {

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

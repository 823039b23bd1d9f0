// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/providers.hpp"

#include "operators/llm/command.hpp"
#include "operators/llm/http_chat.hpp"
#include "operators/llm/mailbox.hpp"
#include "operators/llm/replay.hpp"

namespace cultivar {

namespace {

using Protocol = std::unique_ptr<const ChatProtocol> (*)();

Protocol protocol_of(const std::string& provider) {
  if (provider == "openai") return openai_protocol;
  if (provider == "openai_responses") return openai_responses_protocol;
  if (provider == "anthropic") return anthropic_protocol;
  return nullptr;
}

}  // namespace

// To add a provider, add one line here and one in protocol_of() or make_chat_model().
const std::vector<ProviderFacts>& known_providers() {
  static const std::vector<ProviderFacts> facts{
      {"openai", true, "https://api.openai.com/v1", "OPENAI_API_KEY"},
      {"openai_responses", true, "https://api.openai.com/v1", "OPENAI_API_KEY"},
      {"anthropic", true, "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"},
      {"command", false, "", ""},
      {"mailbox", false, "", ""},
      {"replay", false, "", ""}};
  return facts;
}

const ProviderFacts* provider_named(const std::string& name) {
  for (const ProviderFacts& facts : known_providers())
    if (name == facts.name) return &facts;
  return nullptr;
}

Expected<std::unique_ptr<ChatModel>> make_chat_model(const ModelConfig& config,
                                                     std::shared_ptr<HttpClient> client,
                                                     const EnvironmentReader& environment) {
  if (const Protocol protocol = protocol_of(config.provider)) {
    auto key = secret_from(config.api_key_env, environment);
    if (!key) return failure("model " + config.name, key.error().message);
    ChatEndpoint endpoint;
    endpoint.base_url = config.base_url;
    endpoint.model = config.model;
    endpoint.extra = config.extra;
    endpoint.rename = config.rename;
    endpoint.config_name = config.name;
    endpoint.timeouts = config.timeouts;
    return std::make_unique<HttpChatModel>(protocol(), std::move(endpoint), std::move(*key),
                                           std::move(client));
  }
  if (config.provider == "command") {
    CommandModelOptions options;
    options.command = config.command;
    options.answer = config.answer == "file"          ? CommandModelOptions::Answer::file
                     : config.answer == "claude_json" ? CommandModelOptions::Answer::claude_json
                                                      : CommandModelOptions::Answer::text;
    options.model = config.model.empty() ? config.name : config.model;
    options.timeouts = config.timeouts;
    return std::make_unique<CommandModel>(std::move(options));
  }
  if (config.provider == "mailbox") {
    MailboxOptions options;
    options.folder = config.folder;
    options.timeouts = config.timeouts;
    return std::make_unique<MailboxModel>(std::move(options));
  }
  if (config.provider == "replay") {
    auto exchanges = read_exchanges(config.file);
    if (!exchanges) return failure("model " + config.name, exchanges.error().message);
    return std::make_unique<ReplayModel>(std::move(*exchanges), config.by_call);
  }
  return failure("model " + config.name, "there is no provider '" + config.provider + "'");
}

}  // namespace cultivar

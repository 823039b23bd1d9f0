// SPDX-License-Identifier: Apache-2.0
// Chat models connected to the local server, and an in-memory log.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operators/llm/chat_service.hpp"
#include "operators/llm/providers.hpp"
#include "support/chat_server.hpp"

namespace cultivar::testing {

struct Spoken {  // one of the protocols
  const char* provider;
  const char* path;
  std::string (*events)(const std::string& text, const SaidUsage&, const std::vector<SaidCall>&);
};
inline const std::vector<Spoken>& protocols() {
  static const std::vector<Spoken> all{
      {"openai", "/v1/chat/completions",
       [](const std::string& t, const SaidUsage& u, const std::vector<SaidCall>& c) {
         return openai_events(t, u, c);
       }},
      {"openai_responses", "/v1/responses", responses_events},
      {"anthropic", "/v1/messages",
       [](const std::string& t, const SaidUsage& u, const std::vector<SaidCall>& c) {
         return anthropic_events(t, u, c);
       }}};
  return all;
}

inline constexpr const char* kTestKey = "sk-very-secret-0123456789";

inline ModelConfig model_at(const std::string& url, const std::string& provider,
                            const std::string& name = "m") {
  ModelConfig config;
  config.name = name;
  config.provider = provider;
  config.base_url = url;
  config.model = "model-x";
  config.api_key_env = "TEST_KEY";
  config.timeouts = {2.0, 5.0, 5.0, 20.0};
  config.prices = {2.0, 0.2, 2.5, 10.0};
  return config;
}

inline std::unique_ptr<ChatModel> made(const ModelConfig& config, std::shared_ptr<HttpClient> client) {
  auto model =
      make_chat_model(config, std::move(client), [](const std::string& name) -> std::optional<std::string> {
        if (name == "TEST_KEY") return kTestKey;
        return std::nullopt;
      });
  if (!model) throw std::runtime_error(model.error().message);
  return std::move(*model);
}

inline ChatRequest question(const std::string& text, const std::string& call = "") {
  ChatRequest request;
  request.call = call;
  request.system.push_back({"You write kernels.", true});
  request.messages.push_back({ChatRole::user, text});
  request.max_output_tokens = 1000;
  return request;
}

inline std::string words_of(const ChatResult& result) {
  return result ? "an answer: " + result->text
                : std::string(name_of(result.error().kind)) + ": " + result.error().message;
}

// What the database of a run would store.
class MemoryLog : public ExchangeLog {
 public:
  struct Row {
    SentRequest sent;
    std::optional<ChatAnswer> answer;
    std::optional<ChatError> error;
    double usd = 0.0;
  };
  std::vector<Row> rows;
  bool refuse_answers = false;

  Expected<std::optional<ArrivedAnswer>> find(const std::string& call, const std::string& hash) override {
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i].answer && rows[i].sent.request.call == call && rows[i].sent.request_hash == hash)
        return std::optional<ArrivedAnswer>{{static_cast<ExchangeId>(i + 1), rows[i].sent.op,
                                             rows[i].sent.model, *rows[i].answer, rows[i].usd}};
    return std::optional<ArrivedAnswer>();
  }
  static Spent counted(const SentRequest& sent) {
    Spent one;
    one.calls = one.failed = 1;
    one.usage = sent.reserved;
    one.usd = one.uncertain_usd = sent.reserved_usd;
    return one;
  }
  Expected<std::vector<UnendedExchange>> unended(const std::string& call, const std::string& hash,
                                                 const std::string& model) override {
    std::vector<UnendedExchange> found;
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (!rows[i].answer && !rows[i].error && rows[i].sent.request.call == call &&
          rows[i].sent.request_hash == hash && rows[i].sent.model == model)
        found.push_back({static_cast<ExchangeId>(i + 1), counted(rows[i].sent)});
    return found;
  }
  Expected<ExchangeId> sent(const SentRequest& sent) override {
    if (sent.goes_on != 0) {
      rows[static_cast<std::size_t>(sent.goes_on - 1)].sent = sent;
      return sent.goes_on;
    }
    rows.push_back({sent, {}, {}, 0.0});
    return static_cast<ExchangeId>(rows.size());
  }
  Expected<void> arrived(ExchangeId id, const ChatAnswer& answer, double usd) override {
    if (refuse_answers) return failure("record", "the disk is full");
    rows[static_cast<std::size_t>(id - 1)].answer = answer;
    rows[static_cast<std::size_t>(id - 1)].usd = usd;
    return {};
  }
  Expected<void> failed(ExchangeId id, const ChatError& error, double usd) override {
    rows[static_cast<std::size_t>(id - 1)].error = error;
    rows[static_cast<std::size_t>(id - 1)].usd = usd;
    return {};
  }
  Expected<std::map<std::pair<std::string, std::string>, Spent>> spent() override {
    std::map<std::pair<std::string, std::string>, Spent> sums;  // of exchanges without an end
    for (const Row& row : rows)
      if (!row.answer && !row.error) sums[{row.sent.op, row.sent.model}] += counted(row.sent);
    return sums;
  }
};

}  // namespace cultivar::testing

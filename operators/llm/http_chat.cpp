// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/http_chat.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "evaluators/system/clock.hpp"
#include "evaluators/system/foreign_json.hpp"
#include "evaluators/system/json_text.hpp"
#include "operators/llm/chat_errors.hpp"
#include "operators/llm/retry.hpp"
#include "operators/llm/said_cost.hpp"

namespace cultivar {

using nlohmann::json;
using Kind = ChatError::Kind;

namespace {

constexpr std::size_t kErrorBody = 64 << 10;

}  // namespace

ChatAnswer AnswerReader::take() {
  finish(answer_);
  if (usage_) answer_.usage = *usage_;
  return std::move(answer_);
}

void AnswerReader::tell(ChatDelta::Kind kind, const std::string& text) {
  if (text.empty()) return;
  received_ += text.size();
  if (delta_) delta_({kind, text});
}

ChatError AnswerReader::refusal(const std::string& words) const {
  return {.kind = Kind::refused,
          .message = words.empty() ? "a content filter blocked the answer"
                                   : "the model refused to answer: " + one_line(words),
          .usage = usage_.value_or(Usage{})};
}

void AnswerReader::take_openai_usage(const json& said, const std::string& input, const std::string& output) {
  const auto detail = [&](const std::string& of, const char* key) {
    const auto details = said.find(of + "_details");
    return details != said.end() ? said_tokens(*details, key) : 0;
  };
  Usage usage;
  usage.input = said_tokens(said, input.c_str());
  usage.output = said_tokens(said, output.c_str());
  usage.cached = std::min(detail(input, "cached_tokens"), usage.input);
  usage.input -= usage.cached;
  usage.reasoning = detail(output, "reasoning_tokens");
  usage_ = usage;
}

std::string joined_system(const ChatRequest& request) {
  std::string system;
  for (const ChatText& part : request.system) system += (system.empty() ? "" : "\n\n") + part.text;
  return system;
}

const char* choice_of(const ChatRequest& request, const std::array<const char*, 3>& words) {
  return words[static_cast<std::size_t>(request.tool_choice)];
}

struct HttpChatModel::Shared {
  std::unique_ptr<const ChatProtocol> protocol;
  ChatEndpoint endpoint;
  Secret key;
  // Calls in flight that have not called `done`, and their cancellation when the model is destroyed.
  mutable std::stop_source closing;
  mutable std::mutex mutex;
  mutable std::condition_variable none_left;
  mutable int open = 0;
};

namespace {

// One call: converts a stream of bytes to an answer or an error.
class ChatCall : public HttpReader {
 public:
  ChatCall(std::unique_ptr<AnswerReader> answer, const Secret& key, std::size_t request_bytes,
           std::size_t answer_bytes, std::function<void(ChatResult)> done)
      : answer_(std::move(answer)),
        key_(key),
        request_bytes_(request_bytes),
        events_(answer_bytes),
        done_(std::move(done)) {}

  void head(const HttpHead& head) override { head_ = head; }

  bool body(std::string_view bytes) override {
    if (first_byte_s_ == 0.0) first_byte_s_ = seconds_since(started_);
    if (!streamed()) {
      const std::size_t limit = good() ? std::string::npos : kErrorBody;
      plain_.append(bytes.substr(0, limit - std::min(limit, plain_.size())));
      return true;
    }
    const bool more = events_.feed(bytes, [this](const SseEvent& event) { return take(event); });
    if (events_.too_large())
      fail(Kind::too_large, "one event of the stream exceeds the size limit of an answer");
    return more && !failed_;
  }

  void end(const HttpEnd& end) override {
    ChatResult result = concluded_whatever_came(end);
    if (!result) {
      result.error().status = head_.status;
      result.error().request_id = key_.redacted(head_.request_id);
      result.error().message = key_.redacted(std::move(result.error().message));
      if (!result.error().usage.total()) result.error().usage = spent(end);
    }
    done_(std::move(result));
  }

 private:
  bool good() const { return head_.status >= 200 && head_.status < 300; }
  bool streamed() const { return good() && head_.content_type.find("json") == std::string::npos; }

  // A response that does not follow the protocol is an error of the provider, wherever it is detected.
  ChatResult concluded_whatever_came(const HttpEnd& end) {
    try {
      return concluded(end);
    } catch (const std::exception& e) {
      return chat_failure(Kind::garbage,
                          fmt::format("the answer does not follow the protocol: {}", said_shortly(e)));
    }
  }

  void fail(Kind kind, std::string message) {
    if (failed_) return;
    failed_ = {.kind = kind, .message = std::move(message)};
  }

  bool take(const SseEvent& event) {
    if (event.data == "[DONE]") {
      ended_by_server_ = true;
      return true;
    }
    const json data = foreign_json(event.data);
    if (data.is_discarded()) {
      fail(Kind::garbage,
           "an event of the stream is not valid JSON or is nested too deeply: " + one_line(event.data, 200));
      return false;
    }
    try {
      if (auto error = answer_->event(event, data)) failed_ = std::move(error);
    } catch (const std::exception& e) {
      fail(Kind::garbage, fmt::format("an event of the stream does not follow the protocol ({}): {}",
                                      said_shortly(e), one_line(event.data, 200)));
    }
    return !failed_;
  }

  ChatResult concluded(const HttpEnd& end) {
    if (failed_) return tl::make_unexpected(*failed_);
    if (head_.status != 0 &&
        !good()) {  // even if the error's body is incomplete, because the status is known
      ChatError error = error_of_status(head_.status, plain_, head_.location);
      error.retry_after_s = retry_after_seconds(head_.retry_after, unix_now());
      if (const auto ms = retry_after_seconds(head_.retry_after_ms, 0)) error.retry_after_s = *ms / 1000.0;
      if (error.retry_after_s.value_or(0.0) > kLongestAskedWaitS)
        error.message += fmt::format(" (it asks to wait {}; the search waits at most an hour)",
                                     *error.retry_after_s < 48 * 3600.0
                                         ? fmt::format("{:.1f} hours", *error.retry_after_s / 3600.0)
                                         : "several days");
      return tl::make_unexpected(std::move(error));
    }
    if (end.complete && !streamed()) {
      const json body = foreign_json(plain_);
      if (body.is_discarded()) {
        fail(Kind::garbage, "the answer is not valid JSON or is nested too deeply: " + one_line(plain_, 200));
      } else {
        try {
          if (auto error = answer_->whole(body)) failed_ = std::move(error);
        } catch (const std::exception& e) {
          fail(Kind::garbage, fmt::format("the answer does not follow the protocol ({}): {}", said_shortly(e),
                                          one_line(plain_, 200)));
        }
      }
      if (failed_) return tl::make_unexpected(*failed_);
    }
    if (answer_->complete()) return answered();
    if (!end.complete) return chat_failure(end.kind, end.message);
    if (!ended_by_server_ && answer_->received_bytes() == 0 && !answer_->usage())
      return chat_failure(Kind::garbage,
                          "the server sent no answer; check that base_url supports this protocol");
    return chat_failure(Kind::cut_off, "the stream ended in the middle of the answer");
  }

  ChatResult answered() {
    const Usage estimate = estimated();
    const bool reported = answer_->usage() != nullptr;
    ChatAnswer answer = answer_->take();
    if (!reported || answer.usage.total() == 0) answer.usage = estimate;
    // If a server repeats the key, it must not get into the record.
    answer.text = key_.redacted(std::move(answer.text));
    for (ToolCall& call : answer.tool_calls)
      for (std::string* part : {&call.id, &call.name, &call.arguments})
        *part = key_.redacted(std::move(*part));
    answer.carried = key_.redacted_json(answer.carried);
    answer.model = key_.redacted(std::move(answer.model));
    if (!head_.request_id.empty()) answer.request_id = head_.request_id;
    answer.request_id = key_.redacted(std::move(answer.request_id));
    answer.first_byte_s = first_byte_s_;
    answer.seconds = seconds_since(started_);
    return answer;
  }

  Usage estimated() const {
    Usage usage;
    usage.estimated = true;
    usage.input = estimated_tokens(request_bytes_);
    usage.output = estimated_tokens(answer_->received_bytes());
    return usage;
  }

  // A rejection by status costs nothing. A request that failed later was probably processed.
  Usage spent(const HttpEnd& end) const {
    if (!end.sent || (head_.status != 0 && !good())) return {};
    if (const Usage* reported = answer_->usage()) {
      Usage usage = *reported;  // within a stream, the reported output may be incomplete
      usage.output = std::max(usage.output, estimated_tokens(answer_->received_bytes()));
      usage.estimated = true;
      return usage;
    }
    return estimated();
  }

  std::unique_ptr<AnswerReader> answer_;
  Secret key_;
  std::size_t request_bytes_;
  SseReader events_;
  std::function<void(ChatResult)> done_;
  Clock::time_point started_ = Clock::now();
  double first_byte_s_ = 0.0;
  HttpHead head_;
  std::string plain_;  // a body that is not a stream
  bool ended_by_server_ = false;
  std::optional<ChatError> failed_;
};

}  // namespace

HttpChatModel::HttpChatModel(std::unique_ptr<const ChatProtocol> protocol, ChatEndpoint endpoint, Secret key,
                             std::shared_ptr<HttpClient> client)
    : client_(std::move(client)) {
  auto shared = std::make_shared<Shared>();
  shared->protocol = std::move(protocol);
  shared->endpoint = std::move(endpoint);
  while (shared->endpoint.base_url.ends_with('/')) shared->endpoint.base_url.pop_back();
  shared->key = std::move(key);
  shared_ = std::move(shared);
}

HttpChatModel::~HttpChatModel() {
  shared_->closing.request_stop();
  std::unique_lock lock(shared_->mutex);
  shared_->none_left.wait(lock, [this] { return shared_->open == 0; });
}

void HttpChatModel::ask(const ChatRequest& request, std::stop_token stop, ChatListener listener) {
  const ChatEndpoint& endpoint = shared_->endpoint;
  HttpCall call;
  call.url = endpoint.base_url + shared_->protocol->path();
  call.headers = shared_->protocol->headers(shared_->key);
  call.headers.emplace_back("Content-Type: application/json");
  call.headers.emplace_back("Accept: text/event-stream, application/json");
  json body = shared_->protocol->body(request, endpoint);
  body.update(endpoint.extra, true);
  call.body = json_text(body);
  call.timeouts = endpoint.timeouts;
  call.answer_bytes = endpoint.bounds.answer_bytes;
  const std::size_t request_bytes = bytes_of(request);

  // Canceled by the caller or by the model's destructor; the reader, which exists until the call ends, holds
  // both.
  struct Both {
    std::stop_source source;
    std::optional<std::stop_callback<std::function<void()>>> caller, model;
  };
  auto both = std::make_shared<Both>();
  const std::stop_token either = both->source.get_token();
  both->caller.emplace(std::move(stop), [source = both->source]() mutable { source.request_stop(); });
  both->model.emplace(shared_->closing.get_token(),
                      [source = both->source]() mutable { source.request_stop(); });
  {
    const std::lock_guard lock(shared_->mutex);
    ++shared_->open;
  }
  auto done = [shared = shared_, both, tell = std::move(listener.done)](ChatResult result) {
    both->caller.reset();
    both->model.reset();
    tell(std::move(result));
    const std::lock_guard lock(shared->mutex);
    if (--shared->open == 0) shared->none_left.notify_all();
  };
  auto reader = std::make_unique<ChatCall>(shared_->protocol->reader(std::move(listener.delta)), shared_->key,
                                           request_bytes, call.answer_bytes, std::move(done));
  if (const std::string what = shared_->protocol->cannot_say(request); !what.empty()) {
    HttpEnd end;
    end.kind = Kind::bad_request;
    end.message = what;
    return client_->end_later(std::move(reader), end);
  }
  if (call.body.size() > endpoint.bounds.request_bytes) {
    HttpEnd end;
    end.kind = Kind::too_large;
    end.message = fmt::format("the request has {} bytes, but at most {} are allowed", call.body.size(),
                              endpoint.bounds.request_bytes);
    return client_->end_later(std::move(reader), end);
  }
  client_->post(std::move(call), either, std::move(reader));
}

}  // namespace cultivar

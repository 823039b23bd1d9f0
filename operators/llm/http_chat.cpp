// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/http_chat.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "evaluators/system/clock.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "operators/llm/call_policy.hpp"
#include "operators/llm/ledger.hpp"

namespace cultivar {

using nlohmann::json;
using Kind = ChatError::Kind;

namespace {

constexpr std::size_t kErrorBody = 64 << 10;

}  // namespace

std::optional<ChatError> AnswerReader::over() {
  return finished_ || (received_ == 0 && !usage_) ? std::nullopt : ended();
}

ChatAnswer AnswerReader::take() {
  finish(answer_);
  answer_.text = whole_characters(std::move(answer_.text));
  for (ToolCall& call : answer_.tool_calls) call.arguments = whole_characters(std::move(call.arguments));
  make_characters_whole(answer_.carried);
  if (usage_) answer_.usage = *usage_;
  // Some servers take all of an answer for reasoning. If it was cut off, there is no answer in it.
  if (says_nothing(answer_) && !reasoning_.empty()) {
    answer_.from_reasoning = answer_.stop != StopReason::length;
    answer_.reasoning_bytes = static_cast<std::int64_t>(reasoning_.size());
    if (answer_.from_reasoning) answer_.text = whole_characters(std::move(reasoning_));
  }
  return std::move(answer_);
}

void AnswerReader::tell(ChatDelta::Kind kind, const std::string& text) {
  if (text.empty()) return;
  received_ += text.size();
  if (kind == ChatDelta::Kind::reasoning) reasoning_ += text;
  if (delta_) delta_({kind, text});
}

std::string text_of(const json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string type_of(const SseEvent& event, const json& data) {
  std::string type = text_of(data, "type");
  return type.empty() ? event.name : type;
}

std::int64_t index_of(const json& object, const char* key, std::int64_t otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
}

ChatError AnswerReader::refusal(const std::string& words) const {
  return {.kind = Kind::refused,
          .message = words.empty() ? "a content filter blocked the answer"
                                   : "the model refused to answer: " + one_line(words)};
}

void AnswerReader::take_openai_usage(const json& object, const std::string& input,
                                     const std::string& output) {
  const auto found = object.find("usage");
  if (found == object.end() || !found->is_object()) return;
  const json& said = *found;
  const auto detail = [&](const std::string& of, const char* key) {
    const auto details = said.find(of + "_details");
    return details != said.end() ? said_tokens(*details, key) : 0;
  };
  Usage usage = usage_.value_or(Usage{});
  const std::int64_t all = std::max(said_tokens(said, input.c_str()), usage.input + usage.cached);
  usage.cached = std::min(std::max(detail(input, "cached_tokens"), usage.cached), all);
  usage.input = all - usage.cached;
  usage.output = std::max(said_tokens(said, output.c_str()), usage.output);
  usage.reasoning = std::max(detail(output, "reasoning_tokens"), usage.reasoning);
  usage_ = usage;
  // OpenRouter and LiteLLM; 0 if another account pays.
  if (const double usd = said_usd(said, "cost").value_or(0.0); usd > answer_.usd.value_or(0.0))
    answer_.usd = usd;
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

// The body with the names and fields of the configuration.
json configured(json body, const ChatEndpoint& endpoint) {
  for (const auto& [ours, theirs] : endpoint.rename)
    if (const auto field = body.find(ours); field != body.end()) {
      json value = std::move(*field);
      body.erase(field);
      body[theirs] = std::move(value);
    }
  body.merge_patch(endpoint.extra);  // null removes a field
  return body;
}

// One call: converts a stream of bytes to an answer or an error.
class ChatCall : public HttpReader {
 public:
  ChatCall(std::unique_ptr<AnswerReader> answer, const Secret& key, SentBody sent, std::size_t answer_bytes,
           std::function<void(ChatResult)> done)
      : answer_(std::move(answer)),
        key_(key),
        sent_(std::move(sent)),
        events_(answer_bytes),
        done_(std::move(done)) {}

  void head(const HttpHead& head) override { head_ = head; }

  bool body(std::string_view bytes) override {
    if (first_byte_s_ == 0.0) first_byte_s_ = seconds_since(started_);
    if (form_ == Form::unknown) form_ = form_of(bytes);
    if (form_ != Form::stream) {
      const std::size_t limit = good() ? std::string::npos : kErrorBody;
      plain_.append(bytes.substr(0, limit - std::min(limit, plain_.size())));
      unread_bytes_ = plain_.size();
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
      if (!result.error().usage.total()) result.error().usage = spent(end, result.error());
      if (!result.error().usd) result.error().usd = answer_->usd();
    }
    done_(std::move(result));
  }

 private:
  bool good() const { return head_.status >= 200 && head_.status < 300; }

  // By its first byte, because some servers name another type than they send.
  enum class Form { unknown, plain, stream };
  Form form_of(std::string_view bytes) const {
    if (!good()) return Form::plain;
    const std::size_t begin = bytes.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) return Form::unknown;
    if (bytes[begin] == '{' || bytes[begin] == '[') return Form::plain;
    const bool field = std::string_view("dei:r").find(bytes[begin]) != std::string_view::npos;
    return field || head_.content_type.find("json") == std::string::npos ? Form::stream : Form::plain;
  }

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
    const bool complete = answer_->complete();
    read(event);
    if (failed_ && failed_->kind == Kind::refused && !refused_) refused_ = failed_;
    // Nothing after its end takes an answer or a refusal back; what is said of its cost counts.
    if (complete || refused_) failed_.reset();
    return !failed_;
  }

  void read(const SseEvent& event) {
    if (one_line(event.data, 10) == "[DONE]") {
      failed_ = answer_->over();
      return;
    }
    if (one_line(event.data, 10).empty()) return;  // keeps the connection open
    const json data = json_with_cut_characters(event.data);
    if (data.is_discarded() &&
        event.data.find('\n') != std::string::npos) {  // events without blank lines between
      for (const std::string_view line : lines_of(event.data))
        if (!failed_) read({event.name, std::string(line)});
      return;
    }
    if (data.is_discarded()) {
      unread_bytes_ += event.data.size();
      fail(Kind::garbage,
           "an event of the stream is not valid JSON or is nested too deeply: " + one_line(event.data, 200));
      return;
    }
    try {
      failed_ = answer_->event(event, data);
    } catch (const std::exception& e) {
      unread_bytes_ += event.data.size();
      fail(Kind::garbage, fmt::format("an event of the stream does not follow the protocol ({}): {}",
                                      said_shortly(e), one_line(event.data, 200)));
    }
  }

  // Of an answer that is rejected for another reason.
  void take_said_usage() {
    try {
      (void)answer_->whole(foreign_json(plain_));
    } catch (const std::exception&) {
      return;  // it says nothing of it
    }
  }

  // Its last event may lack the blank line. If it was cut, it is not JSON, and was not read.
  void end_stream() {
    const auto unread = unread_bytes_;
    events_.end([this](const SseEvent& event) { return take(event); });
    if (failed_ && failed_->kind == Kind::garbage) failed_.reset(), unread_bytes_ = unread;
  }

  // A body that is not a stream.
  void read_plain() {
    const json body = json_with_cut_characters(plain_);
    if (body.is_discarded())
      return fail(Kind::garbage,
                  "the answer is not valid JSON or is nested too deeply: " + one_line(plain_, 200));
    try {
      failed_ = answer_->whole(body);
      unread_bytes_ = 0;
    } catch (const std::exception& e) {
      fail(Kind::garbage, fmt::format("the answer does not follow the protocol ({}): {}", said_shortly(e),
                                      one_line(plain_, 200)));
    }
  }

  ChatResult concluded(const HttpEnd& end) {
    if (!failed_ && form_ == Form::stream) end_stream();
    if (refused_) return tl::make_unexpected(*refused_);
    if (failed_) return tl::make_unexpected(*failed_);
    if (head_.status != 0 &&
        !good()) {  // even if the error's body is incomplete, because the status is known
      ChatError error = error_of_status(head_.status, plain_, head_.location);
      if (error.kind == Kind::bad_request) error.message += remedy_for_field(plain_, sent_);
      take_said_usage();
      error.retry_after_s = retry_after_seconds(head_.retry_after, unix_now());
      if (const auto ms = retry_after_seconds(head_.retry_after_ms, 0)) error.retry_after_s = *ms / 1000.0;
      if (error.retry_after_s.value_or(0.0) > kLongestAskedWaitS)
        error.message += fmt::format(" (it asks to wait {}; the search waits at most an hour)",
                                     *error.retry_after_s < 48 * 3600.0
                                         ? fmt::format("{:.1f} hours", *error.retry_after_s / 3600.0)
                                         : "several days");
      return tl::make_unexpected(std::move(error));
    }
    if (end.complete && form_ == Form::plain) {
      read_plain();
      if (failed_) return tl::make_unexpected(*failed_);
    }
    if (answer_->complete()) return answered();
    if (!end.complete) return chat_failure(end.kind, end.message);
    if (answer_->received_bytes() == 0 && !answer_->usage())
      return chat_failure(Kind::garbage,
                          "the server sent no answer; check that base_url supports this protocol");
    return chat_failure(Kind::cut_off, "the stream ended in the middle of the answer");
  }

  ChatResult answered() {
    const Usage usage = counted();
    ChatAnswer answer = answer_->take();
    answer.usage = usage;
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
    usage.input = estimated_tokens(sent_.prompt_bytes);
    usage.output = estimated_tokens(answer_->received_bytes() + unread_bytes_);
    return usage;
  }

  // As reported; a part of which nothing is said is estimated.
  Usage counted() const {
    const Usage estimate = estimated();
    Usage usage = answer_->usage() ? *answer_->usage() : Usage{};
    if (usage.input + usage.cached + usage.cache_written == 0)
      usage.input = estimate.input, usage.estimated = true;
    if (usage.output == 0 && estimate.output > 0) usage.output = estimate.output, usage.estimated = true;
    return usage;
  }

  // A rejection costs nothing, by status or before any output, unless it comes with usage. A request that
  // failed later was probably processed.
  Usage spent(const HttpEnd& end, const ChatError& error) const {
    const bool said = answer_->usage() && answer_->usage()->total() > 0;
    const bool rejected =
        (head_.status != 0 && !good()) || (error.before_work && answer_->received_bytes() == 0);
    if (!end.sent || (rejected && !said)) return {};
    Usage usage = counted();
    if (form_ == Form::stream)  // what is reported within it may be incomplete
      usage.output = std::max(usage.output, estimated_tokens(answer_->received_bytes()));
    usage.estimated = usage.estimated || !answer_->complete();
    return usage;
  }

  std::unique_ptr<AnswerReader> answer_;
  Secret key_;
  SentBody sent_;
  SseReader events_;
  std::function<void(ChatResult)> done_;
  Clock::time_point started_ = Clock::now();
  double first_byte_s_ = 0.0;
  HttpHead head_;
  Form form_ = Form::unknown;
  std::string plain_;             // a body that is not a stream
  std::size_t unread_bytes_ = 0;  // of what arrived and could not be read
  std::optional<ChatError> failed_, refused_;
};

}  // namespace

std::unique_ptr<HttpReader> response_reader(std::unique_ptr<AnswerReader> answer, const Secret& key,
                                            SentBody sent, const ChatBounds& bounds,
                                            std::function<void(ChatResult)> done) {
  return std::make_unique<ChatCall>(std::move(answer), key, std::move(sent), bounds.answer_bytes,
                                    std::move(done));
}

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
  const json body = configured(shared_->protocol->body(request, endpoint), endpoint);
  call.body = json_text(body);
  call.timeouts = endpoint.timeouts;
  call.answer_bytes = endpoint.bounds.answer_bytes;
  SentBody sent{endpoint.config_name, {}, bytes_of(request)};
  for (const auto& [field, value] : body.items()) sent.fields.push_back(field);

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
  auto reader = response_reader(shared_->protocol->reader(std::move(listener.delta)), shared_->key,
                                std::move(sent), endpoint.bounds, std::move(done));
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

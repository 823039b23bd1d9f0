// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/http_client.hpp"

#include <curl/curl.h>
#include <fmt/format.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "evaluators/system/clock.hpp"

namespace cultivar {

namespace {

using Time = Clock::time_point;

// True if the host of the URL is this machine; then no proxy is used.
bool is_loopback(const std::string& url) {
  const std::size_t host = url.find("://");
  if (host == std::string::npos) return false;
  const std::string_view rest = std::string_view(url).substr(host + 3);
  return rest.starts_with("127.") || rest.starts_with("localhost") || rest.starts_with("[::1]");
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.remove_suffix(1);
  return std::string(text);
}

}  // namespace

// One request. Used only by the client's thread, except `cancelled`.
struct HttpTransfer {
  HttpCall call;
  std::unique_ptr<HttpReader> reader;
  std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  std::optional<std::stop_callback<std::function<void()>>> on_stop;

  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  char words[CURL_ERROR_SIZE] = {};
  HttpHead head;
  bool head_told = false, stopped = false, too_large = false;
  std::size_t received = 0;
  Time started, last_byte;

  ~HttpTransfer() {
    on_stop.reset();
    if (easy) curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
  }

  static std::size_t take_header(char* data, std::size_t, std::size_t size, void* self) {
    static_cast<HttpTransfer*>(self)->header({data, size});
    return size;
  }
  static std::size_t take_body(char* data, std::size_t, std::size_t size, void* self) {
    return static_cast<HttpTransfer*>(self)->body({data, size}) ? size : CURL_WRITEFUNC_ERROR;
  }

  void header(std::string_view line) {
    if (line.starts_with("HTTP/")) head = {};  // the real header follows a 100 Continue
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    std::string name(line.substr(0, colon));
    for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    std::string value = trimmed(line.substr(colon + 1)).substr(0, 500);
    if (name == "content-type")
      head.content_type = std::move(value);
    else if (name == "retry-after")
      head.retry_after = std::move(value);
    else if (name == "retry-after-ms")
      head.retry_after_ms = std::move(value);
    else if (name == "location")
      head.location = std::move(value);
    else if (name == "x-request-id" || name == "request-id")
      head.request_id = std::move(value);
  }

  void tell_head() {
    if (head_told) return;
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    head.status = static_cast<int>(status);
    head_told = true;
    if (status != 0) reader->head(head);
  }

  bool body(std::string_view bytes) {
    tell_head();
    last_byte = Clock::now();
    received += bytes.size();
    if (received > call.answer_bytes) {
      too_large = true;
      return false;
    }
    if (stopped || cancelled->load()) return false;
    stopped = !reader->body(bytes);
    return !stopped;
  }

  Time deadline() const {
    const ChatTimeouts& t = call.timeouts;
    const Time silence =
        received == 0 ? started + duration_of(t.first_byte_s) : last_byte + duration_of(t.idle_s);
    return std::min(silence, started + duration_of(t.total_s));
  }

  HttpEnd overdue() const {
    HttpEnd end;
    const ChatTimeouts& t = call.timeouts;
    end.sent = true;
    if (Clock::now() >= started + duration_of(t.total_s)) {
      end.kind = ChatError::Kind::timeout_total;
      end.message = fmt::format("the answer was not complete after {:g} s", t.total_s);
    } else if (received == 0) {
      end.kind = ChatError::Kind::timeout_first_byte;
      end.message = fmt::format("no answer started within {:g} s", t.first_byte_s);
    } else {
      end.kind = ChatError::Kind::timeout_idle;
      end.message = fmt::format("no data arrived for {:g} s, after {} bytes", t.idle_s, received);
    }
    return end;
  }

  HttpEnd ended(CURLcode code) {
    HttpEnd end;
    if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && stopped)) {
      tell_head();
      end.complete = end.sent = true;
      return end;
    }
    const std::string reason = words[0] ? words : curl_easy_strerror(code);
    switch (code) {
      case CURLE_WRITE_ERROR:
        end.sent = true;
        end.kind = too_large ? ChatError::Kind::too_large : ChatError::Kind::cancelled;
        end.message = too_large ? fmt::format("the answer exceeds the limit of {} bytes", call.answer_bytes)
                                : "cancelled";
        break;
      case CURLE_OPERATION_TIMEDOUT:  // the only limit enforced by curl itself
        end.kind = ChatError::Kind::timeout_connect;
        end.message = fmt::format("no connection within {:g} s", call.timeouts.connect_s);
        break;
      case CURLE_UNSUPPORTED_PROTOCOL:
      case CURLE_WEIRD_SERVER_REPLY: {
        long connections = 0;
        curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connections);
        if (connections > 0) {  // connected, but the server does not speak HTTP
          end.sent = true;
          end.kind = ChatError::Kind::garbage;
          end.message = reason;
          break;
        }
        [[fallthrough]];
      }
      case CURLE_URL_MALFORMAT:
        end.kind = ChatError::Kind::bad_request;
        end.message = "base_url is not an http or https URL: " + reason;
        break;
      case CURLE_COULDNT_RESOLVE_HOST:
      case CURLE_COULDNT_RESOLVE_PROXY:
      case CURLE_COULDNT_CONNECT:
      case CURLE_SSL_CONNECT_ERROR:
      case CURLE_PEER_FAILED_VERIFICATION:
      case CURLE_SSL_CACERT_BADFILE:
        end.kind = ChatError::Kind::unreachable;
        end.message = reason;
        break;
      default: {
        curl_off_t uploaded = 0;
        curl_easy_getinfo(easy, CURLINFO_SIZE_UPLOAD_T, &uploaded);
        end.sent = uploaded > 0;
        end.kind = ChatError::Kind::cut_off;
        end.message = fmt::format("the connection closed after {} bytes of the answer: {}", received, reason);
      }
    }
    return end;
  }
};

struct HttpClient::State {
  CURLM* multi = nullptr;
  std::mutex mutex;
  std::vector<std::unique_ptr<HttpTransfer>> arriving;                     // guarded
  std::vector<std::pair<std::unique_ptr<HttpReader>, HttpEnd>> not_tried;  // guarded
  bool quit = false;                                                       // guarded
  std::map<CURL*, std::unique_ptr<HttpTransfer>> transfers;
  Time last_pass;
  std::thread thread;

  void begin(std::unique_ptr<HttpTransfer> t) {
    t->started = Clock::now();
    t->easy = curl_easy_init();
    if (!t->easy) return finish(std::move(t), {false, false, ChatError::Kind::unreachable, "out of memory"});
    CURL* e = t->easy;
    for (const std::string& header : t->call.headers)
      t->headers = curl_slist_append(t->headers, header.c_str());
    t->headers = curl_slist_append(t->headers, "Expect:");  // avoids a round trip before the body
    curl_easy_setopt(e, CURLOPT_URL, t->call.url.c_str());
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers);
    curl_easy_setopt(e, CURLOPT_POST, 1L);
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(t->call.body.size()));
    curl_easy_setopt(e, CURLOPT_POSTFIELDS, t->call.body.c_str());
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(t->call.timeouts.connect_s * 1e3));
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->words);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, &HttpTransfer::take_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, t.get());
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, &HttpTransfer::take_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, t.get());
    if (is_loopback(t->call.url)) curl_easy_setopt(e, CURLOPT_NOPROXY, "*");
    curl_multi_add_handle(multi, e);
    transfers.emplace(e, std::move(t));
  }

  static void finish(std::unique_ptr<HttpTransfer> t, const HttpEnd& end) { t->reader->end(end); }

  std::unique_ptr<HttpTransfer> remove(CURL* easy) {
    auto found = transfers.find(easy);
    std::unique_ptr<HttpTransfer> t = std::move(found->second);
    transfers.erase(found);
    curl_multi_remove_handle(multi, easy);
    return t;
  }

  void take_finished() {
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      CURL* const easy = message->easy_handle;
      HttpTransfer& transfer = *transfers.at(easy);
      const HttpEnd end =
          transfer.ended(code);  // before the handle is removed, because it reads values from it
      finish(remove(easy), end);
    }
  }

  // Ends canceled and overdue transfers; returns the time until the next deadline.
  std::chrono::milliseconds check_clocks(bool all) {
    const Time now = Clock::now();
    Time next = now + std::chrono::seconds(10);
    std::vector<CURL*> over;
    for (const auto& [easy, t] : transfers) {
      if (all || t->cancelled->load() || t->deadline() <= now)
        over.push_back(easy);
      else
        next = std::min(next, t->deadline());
    }
    for (CURL* easy : over) {
      HttpTransfer& t = *transfers.at(easy);
      HttpEnd end;
      if (all || t.cancelled->load())
        end = {false, true, ChatError::Kind::cancelled, "cancelled"};
      else
        end = t.overdue();
      finish(remove(easy), end);
    }
    return std::chrono::ceil<std::chrono::milliseconds>(next - now);
  }

  void run() {
    sigset_t pipe;  // a closed connection must not kill the process
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    for (;;) {
      std::vector<std::unique_ptr<HttpTransfer>> fresh;
      decltype(not_tried) ended;
      bool quitting = false;
      {
        const std::lock_guard lock(mutex);
        fresh.swap(arriving);
        ended.swap(not_tried);
        quitting = quit;
      }
      for (auto& [reader, end] : ended) reader->end(end);
      for (auto& transfer : fresh) begin(std::move(transfer));
      // Each pass examines every transfer. Many streams together would cause thousands of passes per second,
      // so data that arrives within a few milliseconds is processed in one pass.
      if (transfers.size() > 4) std::this_thread::sleep_until(last_pass + std::chrono::milliseconds(10));
      last_pass = Clock::now();
      int running = 0;
      curl_multi_perform(multi, &running);
      take_finished();
      const auto pause = check_clocks(quitting);
      if (quitting) {
        const std::lock_guard lock(mutex);
        if (arriving.empty() && not_tried.empty()) return;
        continue;
      }
      curl_multi_poll(multi, nullptr, 0, static_cast<int>(pause.count()), nullptr);
    }
  }
};

HttpClient::HttpClient() : state_(std::make_unique<State>()) {
  curl_global_init(CURL_GLOBAL_DEFAULT);  // reference-counted, and thread-safe since 7.84
  state_->multi = curl_multi_init();
  if (!state_->multi) throw std::runtime_error("libcurl cannot be initialized");
  curl_multi_setopt(state_->multi, CURLMOPT_MAXCONNECTS, 64L);  // kept open between calls
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

HttpClient::~HttpClient() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->quit = true;
  }
  curl_multi_wakeup(state_->multi);
  state_->thread.join();
  curl_multi_cleanup(state_->multi);
  curl_global_cleanup();
}

void HttpClient::post(HttpCall call, std::stop_token stop, std::unique_ptr<HttpReader> reader) {
  auto transfer = std::make_unique<HttpTransfer>();
  transfer->call = std::move(call);
  transfer->reader = std::move(reader);
  if (stop.stop_possible())
    transfer->on_stop.emplace(std::move(stop), [flag = transfer->cancelled, multi = state_->multi] {
      flag->store(true);
      curl_multi_wakeup(multi);
    });
  {
    const std::lock_guard lock(state_->mutex);
    state_->arriving.push_back(std::move(transfer));
  }
  curl_multi_wakeup(state_->multi);
}

void HttpClient::end_later(std::unique_ptr<HttpReader> reader, HttpEnd end) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->not_tried.emplace_back(std::move(reader), std::move(end));
  }
  curl_multi_wakeup(state_->multi);
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "engine/notify/notifier.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <future>
#include <mutex>
#include <random>
#include <stop_token>
#include <thread>
#include <utility>

#include "evaluators/system/clock.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/process.hpp"
#include "operators/llm/http_client.hpp"

namespace cultivar {

namespace {

struct Attempt {
  bool delivered = false, again = false;
  std::string why;
};

class StatusReader : public HttpReader {
 public:
  explicit StatusReader(std::promise<Attempt> result) : result_(std::move(result)) {}
  void head(const HttpHead& head) override { status_ = head.status; }
  bool body(std::string_view) override { return true; }
  void end(const HttpEnd& end) override {
    if (status_ >= 200 && status_ < 300) return result_.set_value({true, false, {}});
    if (status_ != 0)
      return result_.set_value({false, status_ == 408 || status_ == 429 || status_ >= 500,
                                fmt::format("it answered with HTTP status {}", status_)});
    result_.set_value({false, true, plain_line(end.message, 200)});
  }

 private:
  std::promise<Attempt> result_;
  int status_ = 0;
};

Attempt post(HttpClient& client, const std::string& url, const std::string& body, double deadline_s,
             const std::stop_token& stop) {
  std::promise<Attempt> promise;
  std::future<Attempt> result = promise.get_future();
  HttpCall call;
  call.url = url;
  call.headers = {"Content-Type: application/json"};
  call.body = body;
  call.timeouts = {std::min(15.0, deadline_s), deadline_s, deadline_s, deadline_s};
  call.answer_bytes = 1 << 20;
  client.post(std::move(call), stop, std::make_unique<StatusReader>(std::move(promise)));
  return result.get();  // the client keeps the deadline, and ends the call when it is asked to stop
}

Attempt run(const std::vector<std::string>& command, const std::string& body, double deadline_s,
            const std::stop_token& stop) {
  ProcessOptions options;
  options.command = command;
  options.pipe_output = false;
  options.guarded = true;
  auto child = ChildProcess::spawn(options);
  if (!child) return {false, false, child.error().message};
  const std::stop_callback end(stop, [&] { child->kill(); });
  const Clock::time_point deadline = deadline_in(deadline_s);
  std::string_view rest = body;  // a program that does not read it must not block this thread
  while (!rest.empty() && Clock::now() < deadline && child->poll() == nullptr) {
    pollfd ready{child->input(), POLLOUT, 0};
    if (::poll(&ready, 1, 100) <= 0) continue;
    const ssize_t written = ::write(child->input(), rest.data(), std::min<std::size_t>(rest.size(), 512));
    if (written <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  child->close_input();
  if (!child->wait_or_kill(deadline)) return {false, true, "it did not end in time"};
  const ExitStatus* status = child->poll();
  if (status != nullptr && status->success()) return {true, false, {}};
  return {false, true,
          fmt::format("it {}: {}", status ? status->describe() : "was killed",
                      plain_line(child->captured(), 200))};
}

}  // namespace

class Notifier::Channel {
 public:
  Channel(NotifyChannel what, const DeliveryPolicy& policy)
      : what_(std::move(what)), policy_(policy), url_(what_.webhook) {
    if (!what_.webhook_env.empty()) {
      const char* url = std::getenv(what_.webhook_env.c_str());
      if (url != nullptr) url_ = url;
      if (url_.empty()) troubles_.push_back(fmt::format("{}; {} delivers nothing", unset(), what_.name()));
    }
    if (what_.command.empty()) client_ = std::make_unique<HttpClient>();
    thread_ = std::jthread([this](const std::stop_token& stop) {
      sigset_t pipe;  // a command need not read its input
      sigemptyset(&pipe);
      sigaddset(&pipe, SIGPIPE);
      ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
      deliver_all(stop);
    });
  }
  ~Channel() { depart(); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  bool wants(Occasion occasion) const { return what_.on.contains(occasion); }
  void put(nlohmann::json body) {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= policy_.queue) {
      waiting_.pop_front();
      ++left_out_;
    }
    waiting_.push_back(std::move(body));
    changed_.notify_all();
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(leaving_, true)) return;
    until_ = deadline_in(policy_.farewell_s);
    changed_.notify_all();
  }
  // After leave(): waits for what is still to be delivered, and ends the thread.
  void depart() {
    leave();
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, until_, [this] { return gone_; });
    }
    thread_.request_stop();
    if (!thread_.joinable()) return;
    thread_.join();
    if (waiting_.empty()) return;
    troubles_.push_back(fmt::format("{} notification{} not delivered by {} before the search ended",
                                    waiting_.size(), waiting_.size() == 1 ? " was" : "s were", what_.name()));
    waiting_.clear();
  }
  void take_troubles(std::vector<std::string>& all) {
    const std::lock_guard lock(mutex_);
    std::ranges::move(troubles_, std::back_inserter(all));
    troubles_.clear();
  }

 private:
  void deliver_all(const std::stop_token& stop) {
    for (;;) {
      nlohmann::json body;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, stop, [this] { return leaving_ || !waiting_.empty(); });
        if (stop.stop_requested() || waiting_.empty()) {
          gone_ = true;
          changed_.notify_all();
          return;
        }
        body = std::move(waiting_.front());
        waiting_.pop_front();
        if (left_out_ > 0) body["left_out"] = std::exchange(left_out_, 0);
      }
      deliver(json_text(body), stop);
    }
  }

  void deliver(const std::string& body, const std::stop_token& stop) {
    double wait_s = policy_.first_wait_s;
    std::string why = "it did not answer in time";
    for (int attempt = 1;; ++attempt) {
      const Attempt result = attempt_once(body, stop);
      if (result.delivered) return;
      const bool last = stop.stop_requested();  // the attempt was cut off: the one before says why
      if (!last) why = result.why;
      std::unique_lock lock(mutex_);
      if (last || !result.again || attempt >= policy_.attempts) {
        constexpr std::size_t kMostTroubles = 4;
        if (troubles_.size() < kMostTroubles)
          troubles_.push_back(fmt::format("a notification was not delivered by {} in {} attempt{}{}: {}",
                                          what_.name(), attempt, attempt == 1 ? "" : "s",
                                          last ? " before the search ended" : "", why));
        return;
      }
      const double jitter = std::uniform_real_distribution(0.5, 1.0)(random_);
      // Waiting ends when the search does, for a last attempt.
      const bool before = leaving_;
      changed_.wait_for(lock, stop, duration_of(wait_s * jitter), [&] { return leaving_ != before; });
      wait_s = std::min(2.0 * wait_s, policy_.longest_wait_s);
    }
  }

  Attempt attempt_once(const std::string& body, const std::stop_token& stop) {
    if (!what_.command.empty()) return run(what_.command, body, policy_.attempt_s, stop);
    if (url_.empty()) return {false, false, unset()};
    Attempt result = post(*client_, url_, body, policy_.attempt_s, stop);
    if (!what_.webhook_env.empty())  // the client's messages may name the URL
      if (const auto at = result.why.find(url_); at != std::string::npos)
        result.why.replace(at, url_.size(), "(URL)");
    return result;
  }

  std::string unset() const {
    return fmt::format("the environment variable {} is not set", what_.webhook_env);
  }

  const NotifyChannel what_;
  const DeliveryPolicy policy_;
  std::string url_;
  std::unique_ptr<HttpClient> client_;
  std::minstd_rand random_{std::random_device{}()};  // jitter only: no decision depends on it

  std::mutex mutex_;  // guards all below
  std::condition_variable_any changed_;
  std::deque<nlohmann::json> waiting_;
  std::vector<std::string> troubles_;
  int left_out_ = 0;
  bool leaving_ = false, gone_ = false;
  Clock::time_point until_;
  std::jthread thread_;  // last: ends before the rest is destroyed
};

Notifier::Notifier(const std::vector<NotifyChannel>& channels, const DeliveryPolicy& policy) {
  for (const NotifyChannel& each : channels) channels_.push_back(std::make_unique<Channel>(each, policy));
}

Notifier::~Notifier() {
  (void)farewell();
}

std::vector<std::string> Notifier::farewell() {
  for (const auto& channel : channels_) channel->leave();  // all at once: one farewell for all
  for (const auto& channel : channels_) channel->depart();
  return troubles();
}

bool Notifier::wants(Occasion occasion) const {
  return std::ranges::any_of(channels_, [&](const auto& channel) { return channel->wants(occasion); });
}

void Notifier::tell(Occasion occasion, const nlohmann::json& body) {
  for (const auto& channel : channels_) {
    if (!channel->wants(occasion)) continue;
    nlohmann::json told = body;
    told["event"] = name_of(occasion);
    channel->put(std::move(told));
  }
}

std::vector<std::string> Notifier::troubles() {
  std::vector<std::string> all;
  for (const auto& channel : channels_) channel->take_troubles(all);
  return all;
}

}  // namespace cultivar

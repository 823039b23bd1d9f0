// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/replay.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "evaluators/system/json_text.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

constexpr const char* kRemedy = "create it with `cultivar export RUN --answers FILE`";

}  // namespace

std::string to_line(const RecordedExchange& e) {
  const json line{{"call", e.call},
                  {"model", e.model},
                  {"request", to_record(e.request)},
                  {"answer", to_record(e.answer)}};
  return json_text(line) + "\n";
}

Expected<std::vector<RecordedExchange>> read_exchanges(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    return failure("read recording",
                   file.string() + " cannot be read; check that the file exists, and its permissions");
  std::vector<RecordedExchange> exchanges;
  std::string text;
  for (int number = 1; std::getline(in, text); ++number) {
    if (text.empty()) continue;
    try {
      constexpr int kLevels = 2 * kForeignJsonDepth;  // a line contains requests, which contain answers
      const json line = foreign_json(text, kLevels);
      if (line.is_discarded())
        return failure("read recording",
                       fmt::format("{}:{}: the line is not valid JSON ({}); {}", file.string(), number,
                                   where_json_breaks(text, kLevels), kRemedy));
      exchanges.push_back({line.at("call").get<std::string>(), line.at("model").get<std::string>(),
                           request_from_record(line.at("request")), answer_from_record(line.at("answer"))});
      exchanges.back().request.call = exchanges.back().call;
    } catch (const json::exception& e) {
      return failure("read recording",
                     fmt::format("{}:{}: not a recorded exchange (call, model, request, answer): {}; {}",
                                 file.string(), number, said_shortly(e), kRemedy));
    }
  }

  if (exchanges.empty())
    return failure("read recording",
                   fmt::format("{} holds no recorded exchange; {}", file.string(), kRemedy));
  return exchanges;
}

struct ReplayModel::State {
  struct Known {
    std::deque<RecordedExchange> left;
    RecordedExchange last;
  };
  bool by_call = false;
  // With by_call: a dialogue that started with the answers of a recorded one continues with the same one.
  std::map<std::string, std::string> told_by;  // "agent/7" -> "agent/12"
  std::map<std::string, Known> by_hash;
  std::deque<RecordedExchange> in_order;  // with by_call: exchanges not used yet
  std::vector<std::string> calls;

  struct Pending {
    ChatRequest request;
    std::stop_token stop;
    ChatListener listener;
  };
  std::mutex mutex;
  std::condition_variable_any changed;
  std::deque<Pending> pending;  // guarded
  std::jthread thread;          // last member, because it uses all others

  // "agent/12/3" -> "agent/12"
  static std::string dialogue_of(const std::string& call) { return call.substr(0, call.rfind('/')); }
  // "mutate/12/0" -> "mutate/0"
  static std::string kind_of(const std::string& call) {
    const std::size_t first = call.find('/'), last = call.rfind('/');
    return first == std::string::npos ? call : call.substr(0, first) + call.substr(last);
  }

  ChatResult answer(const ChatRequest& request) {
    if (by_call) {
      const std::string dialogue = dialogue_of(request.call);
      const auto begun = told_by.find(dialogue);
      const std::string wanted =
          begun == told_by.end() ? request.call : begun->second + request.call.substr(dialogue.size());
      auto chosen = std::ranges::find(in_order, wanted, &RecordedExchange::call);
      if (chosen == in_order.end())
        chosen = std::ranges::find_if(
            in_order, [&](const RecordedExchange& e) { return kind_of(e.call) == kind_of(request.call); });
      if (chosen != in_order.end()) {
        told_by.emplace(dialogue, dialogue_of(chosen->call));
        ChatAnswer found = std::move(chosen->answer);
        in_order.erase(chosen);
        return found;
      }
    }
    const auto known = by_hash.find(hash_of(request));
    if (known == by_hash.end()) {
      const std::string near = nearest_name(request.call, calls);
      return chat_failure(
          ChatError::Kind::no_recording,
          fmt::format("the recording of {} exchanges has no answer to {}{}{}", calls.size(),
                      request.call.empty() ? "this request" : "'" + request.call + "'",
                      near == request.call && !near.empty() ? ": it has this call, but with another request"
                      : near.empty()                        ? ""
                                                            : "; the nearest call is '" + near + "'",
                      by_call ? "; all its answers of this kind are used; a longer recording is needed"
                              : "; prompts contain measured times, which differ between runs: to look up "
                                "answers by the call's name, set `match: call` in the model's section"));
    }
    std::deque<RecordedExchange>& left = known->second.left;
    RecordedExchange& last = known->second.last;
    auto chosen = left.begin();
    for (auto it = left.begin(); it != left.end(); ++it)
      if (it->call == request.call) {
        chosen = it;
        break;
      }
    if (chosen != left.end()) {
      last = *chosen;
      left.erase(chosen);
    }
    return last.answer;
  }

  void run(const std::stop_token& closing) {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, closing, [this] { return !pending.empty(); });
      if (pending.empty()) return;
      Pending next = std::move(pending.front());
      pending.pop_front();
      lock.unlock();
      if (closing.stop_requested() || next.stop.stop_requested()) {
        next.listener.done(chat_failure(ChatError::Kind::cancelled, "cancelled"));
      } else {
        ChatResult result = answer(next.request);
        if (result && next.listener.delta) next.listener.delta({ChatDelta::Kind::text, result->text});
        next.listener.done(std::move(result));
      }
      lock.lock();
    }
  }
};

ReplayModel::ReplayModel(std::vector<RecordedExchange> exchanges, bool by_call)
    : state_(std::make_unique<State>()) {
  state_->by_call = by_call;
  for (RecordedExchange& exchange : exchanges) {
    state_->calls.push_back(exchange.call);
    if (by_call) {
      state_->in_order.push_back(std::move(exchange));
      continue;
    }
    State::Known& known = state_->by_hash[hash_of(exchange.request)];
    known.left.push_back(std::move(exchange));
  }
  state_->thread = std::jthread([state = state_.get()](std::stop_token closing) { state->run(closing); });
}

ReplayModel::~ReplayModel() = default;

void ReplayModel::ask(const ChatRequest& request, std::stop_token stop, ChatListener listener) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->pending.push_back({request, std::move(stop), std::move(listener)});
  }
  state_->changed.notify_all();
}

}  // namespace cultivar

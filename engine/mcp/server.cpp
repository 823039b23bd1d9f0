// SPDX-License-Identifier: Apache-2.0
#include "engine/mcp/server.hpp"

#include <fmt/format.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>

#include "evaluators/system/json_text.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

enum Code {
  parse_error = -32700,
  invalid_request = -32600,
  no_method = -32601,
  bad_params = -32602,
  busy = -32000
};

json error_of(const json& id, Code code, const std::string& words) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", static_cast<int>(code)}, {"message", words}}}};
}

json result_of(const json& id, json result) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}};
}

bool is_id(const json& id) {
  return id.is_string() || id.is_number_integer();
}

std::string key_of(const json& id) {
  return json_text(id);
}

std::string text_in(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

json parameters_of(const json& message) {
  const auto found = message.find("params");
  return found == message.end() ? json::object() : *found;
}

}  // namespace

McpServer::McpServer(McpOffer offer, std::function<void(std::string)> send)
    : offer_(std::move(offer)), send_(std::move(send)) {}

McpServer::~McpServer() {
  stop_all();
  for (const auto& [id, call] : calls_)
    if (call->thread.joinable()) call->thread.join();
}

// Invalid UTF-8 in a source or in compiler output must not break the message.
void McpServer::send(const json& message) {
  send_(json_text(message));
}

void McpServer::receive(std::string_view line) {
  reap();
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  if (nests_too_deep(line))
    return send(error_of(nullptr, invalid_request,
                         fmt::format("the message nests deeper than {} levels", kForeignJsonDepth)));
  const json message = json::parse(line, nullptr, false);
  if (message.is_discarded())
    return send(error_of(nullptr, parse_error, "the line is not valid JSON; send one message per line"));
  if (message.is_array()) return batch(message);
  this->message(message, [this](const json& answer) {
    if (!answer.is_null()) send(answer);
  });
}

void McpServer::refuse_line() {
  send(error_of(nullptr, invalid_request, fmt::format("the message is longer than {} bytes", kMcpLineBytes)));
}

// Batches are part of version 2025-03-26: one line of answers, sent after the last one is ready.
void McpServer::batch(const json& messages) {
  if (messages.empty() || messages.size() > 100)
    return send(error_of(nullptr, invalid_request, "a batch must hold 1 to 100 messages"));
  struct Answers {
    std::mutex mutex;
    std::size_t missing = 0;
    json all = json::array();
  };
  const auto answers = std::make_shared<Answers>();
  answers->missing = messages.size();
  for (const json& each : messages)
    message(each, [this, answers](json answer) {
      const std::lock_guard lock(answers->mutex);
      if (!answer.is_null()) answers->all.push_back(std::move(answer));
      if (--answers->missing == 0 && !answers->all.empty()) send(answers->all);
    });
}

void McpServer::message(const json& message, const Reply& reply) {
  if (!message.is_object() || text_in(message, "jsonrpc") != "2.0")
    return reply(error_of(nullptr, invalid_request, "a message must be an object with \"jsonrpc\": \"2.0\""));
  const auto id = message.find("id");
  const json params = parameters_of(message);
  const auto method = message.find("method");
  if (method == message.end() && (message.contains("result") || message.contains("error")))
    return reply(nullptr);  // a response, but this server sends no requests
  if (method == message.end() || !method->is_string())
    return reply(error_of(id != message.end() && is_id(*id) ? *id : json(), invalid_request,
                          "\"method\" is missing or not a string"));
  if (id == message.end()) {
    notification(method->get<std::string>(), params);
    return reply(nullptr);
  }
  if (!is_id(*id))
    return reply(error_of(nullptr, invalid_request, "\"id\" must be a string or a whole number"));
  if (!params.is_object()) return reply(error_of(*id, bad_params, "\"params\" must be an object"));
  request(method->get<std::string>(), *id, params, reply);
}

void McpServer::request(const std::string& method, const json& id, const json& params, const Reply& reply) {
  if (method == "ping") return reply(result_of(id, json::object()));
  if (method == "initialize") {
    if (!spoken_.empty()) return reply(error_of(id, invalid_request, "this session is already initialized"));
    return reply(result_of(id, initialize(params)));
  }
  if (method != "tools/list" && method != "tools/call")
    return reply(error_of(id, no_method, fmt::format("there is no method '{}'", method.substr(0, 80))));
  if (spoken_.empty())
    return reply(error_of(id, invalid_request, "not initialized: send the request `initialize` first"));
  if (method == "tools/call") return start_call(id, params, reply);
  if (params.contains("cursor"))
    return reply(error_of(id, bad_params, "the list has one page: omit \"cursor\""));
  return reply(result_of(id, list()));
}

void McpServer::notification(const std::string& method, const json& params) {
  if (method != "notifications/cancelled" || !params.is_object()) return;
  const auto id = params.find("requestId");
  if (id == params.end()) return;
  std::shared_ptr<Call> call;
  {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(key_of(*id));
    if (found == calls_.end() || found->second->done) return;
    call = found->second;
    call->cancelled = true;
  }
  call->stop.request_stop();
}

json McpServer::initialize(const json& params) {
  const std::string wanted = text_in(params, "protocolVersion");
  const bool known = std::ranges::find(kMcpVersions, wanted) != std::end(kMcpVersions);
  spoken_ = known ? wanted : std::string(kMcpVersions[0]);
  return {{"protocolVersion", spoken_},
          {"capabilities", {{"tools", {{"listChanged", false}}}}},
          {"serverInfo", {{"name", "cultivar"}, {"title", "Cultivar"}, {"version", offer_.version}}},
          {"instructions", offer_.instructions}};
}

json McpServer::list() const {
  json tools = json::array();
  for (const AgentTool& tool : offer_.tools)
    tools.push_back({{"name", tool.spec.name},
                     {"title", tool.title},
                     {"description", tool.spec.description},
                     {"inputSchema", tool.spec.parameters},
                     {"annotations",
                      {{"title", tool.title},
                       {"readOnlyHint", !tool.changes_the_run},
                       {"destructiveHint", false},
                       {"idempotentHint", !tool.changes_the_run},
                       {"openWorldHint", false}}}});
  return {{"tools", std::move(tools)}};
}

void McpServer::start_call(const json& id, const json& params, const Reply& reply) {
  const std::string name = text_in(params, "name"), key = key_of(id);
  const auto given = params.find("arguments");
  json arguments = given == params.end() || given->is_null() ? json::object() : *given;
  if (std::ranges::none_of(offer_.tools, [&](const AgentTool& tool) { return tool.spec.name == name; }))
    return reply(error_of(id, bad_params, fmt::format("Unknown tool: {}", name.substr(0, 80))));
  const auto call = std::make_shared<Call>();
  if (const auto meta = params.find("_meta"); meta != params.end() && meta->is_object())
    if (const auto token = meta->find("progressToken"); token != meta->end() && is_id(*token))
      call->token = *token;
  call->reply = reply;
  call->begun = call->last = Clock::now();
  call->step = name;
  const std::unique_lock lock(mutex_);
  if (calls_.contains(key))
    return reply(error_of(id, invalid_request, "a request with this id is still in progress"));
  if (calls_.size() >= offer_.most_calls)
    return reply(error_of(
        id, busy,
        fmt::format("{} calls are in progress, which is the limit: wait for one to end", calls_.size())));
  calls_[key] = call;
  call->thread = std::thread([this, call, id, name, arguments = std::move(arguments)] {
    const ToolResult found =
        offer_.call(name, arguments, call->stop.get_token(), [&](const std::string& step) {
          const std::lock_guard told(mutex_);
          tell(*call, step);
        });
    const json answer =
        result_of(id, {{"content", {{{"type", "text"}, {"text", found.text}}}}, {"isError", found.failed}});
    const std::lock_guard done(mutex_);
    call->reply(call->cancelled ? json() : answer);
    call->done = true;
  });
}

// Progress must increase with each notification; the total is not known.
void McpServer::tell(Call& call, const std::string& step) {
  call.last = Clock::now();
  call.step = step;
  if (call.token.is_null() || call.cancelled || call.done) return;
  json params = {{"progressToken", call.token}, {"progress", ++call.told}};
  if (spoken_ >= "2025-03-26")
    params["message"] = fmt::format("{} ({:.0f} s)", step, in_seconds(call.last - call.begun));
  send({{"jsonrpc", "2.0"}, {"method", "notifications/progress"}, {"params", std::move(params)}});
}

void McpServer::reap() {
  std::vector<std::shared_ptr<Call>> done;
  {
    const std::lock_guard lock(mutex_);
    for (auto each = calls_.begin(); each != calls_.end();) {
      if (each->second->done) done.push_back(each->second);
      each = each->second->done ? calls_.erase(each) : std::next(each);
    }
  }
  for (const auto& call : done) call->thread.join();
}

void McpServer::tick() {
  reap();
  const std::lock_guard lock(mutex_);
  for (const auto& [id, call] : calls_)
    if (seconds_since(call->last) >= offer_.heartbeat_s) tell(*call, std::string(call->step));
}

void McpServer::stop_all() {
  std::vector<std::shared_ptr<Call>> running;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, call] : calls_) running.push_back(call);
  }
  for (const auto& call : running) call->stop.request_stop();
}

bool McpServer::idle() {
  reap();
  const std::lock_guard lock(mutex_);
  return calls_.empty();
}

namespace {

constexpr std::size_t kMostWaiting = 64 << 20;  // limit on bytes queued for a client that does not read

// The queue of outgoing lines. Nothing here blocks: even while the client does not read, calls are served and
// the end of input is noticed.
class Outbox {
 public:
  Outbox() : bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Outbox() { ::close(bell_); }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void put(const std::string& line) {
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.size() - sent_ > kMostWaiting) return;
      waiting_ += line;
      waiting_ += '\n';
    }
    const std::uint64_t one = 1;
    (void)!::write(bell_, &one, sizeof one);
  }
  int bell() const { return bell_; }
  void hush() {
    std::uint64_t count = 0;
    (void)!::read(bell_, &count, sizeof count);
  }
  bool empty() {
    const std::lock_guard lock(mutex_);
    return sent_ == waiting_.size();
  }
  // Writes as much as the descriptor accepts without blocking, after poll() reports it writable. False: the
  // reader is gone.
  bool write_some(int out) {
    const std::lock_guard lock(mutex_);
    const std::size_t size = std::min<std::size_t>(waiting_.size() - sent_, PIPE_BUF);
    const ssize_t written = ::write(out, waiting_.data() + sent_, size);
    if (written < 0) return errno == EINTR || errno == EAGAIN;
    sent_ += static_cast<std::size_t>(written);
    if (sent_ == waiting_.size() || sent_ > (1U << 20)) {
      waiting_.erase(0, sent_);
      sent_ = 0;
    }
    return true;
  }

 private:
  std::mutex mutex_;
  std::string waiting_;
  std::size_t sent_ = 0;
  int bell_;
};

// Splits bytes into lines. A line that is too long is dropped.
class Inbox {
 public:
  void take(std::string_view bytes, McpServer& server) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      const std::string_view piece = bytes.substr(0, end);
      if (!too_long_ && line_.size() + piece.size() > kMcpLineBytes) {
        too_long_ = true;
        line_ = {};
        server.refuse_line();
      }
      if (!too_long_) line_ += piece;
      if (end == std::string_view::npos) return;
      if (!too_long_) server.receive(line_);
      line_.clear();
      too_long_ = false;
      bytes.remove_prefix(end + 1);
    }
  }

 private:
  std::string line_;
  bool too_long_ = false;
};

constexpr short kGone = POLLERR | POLLHUP | POLLNVAL;

}  // namespace

McpEnd serve_mcp(McpOffer offer, int in, int out, const std::atomic<bool>& stop,
                 const std::function<void()>& give_up) {
  Outbox outbox;
  McpServer server(std::move(offer), [&](const std::string& line) { outbox.put(line); });
  Inbox inbox;
  std::string buffer(1 << 16, '\0');
  bool ending = false, reader_gone = false;
  McpEnd end = McpEnd::closed;
  auto until = Clock::time_point::max();
  auto next_tick = Clock::now() + std::chrono::seconds(1);
  const auto finish = [&](McpEnd why) {
    if (ending) return;
    ending = true;
    end = why;
    until = Clock::now() + std::chrono::seconds(10);
    server.stop_all();
  };
  while (!(ending && server.idle() && (outbox.empty() || reader_gone))) {
    if (stop) finish(McpEnd::stopped);
    if (Clock::now() >= until) {
      if (!server.idle()) give_up();
      break;
    }
    if (Clock::now() >= next_tick) {
      server.tick();
      next_tick = Clock::now() + std::chrono::seconds(1);
    }
    const bool writes = !reader_gone && !outbox.empty();
    std::array<pollfd, 3> fds{pollfd{ending ? -1 : in, POLLIN, 0}, pollfd{writes ? out : -1, POLLOUT, 0},
                              pollfd{outbox.bell(), POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), ending ? 20 : 250) <= 0) continue;
    if (fds[2].revents != 0) outbox.hush();
    if ((fds[1].revents & POLLOUT) != 0 ? !outbox.write_some(out) : (fds[1].revents & kGone) != 0) {
      reader_gone = true;
      finish(McpEnd::closed);
    }
    if ((fds[0].revents & (POLLIN | kGone)) == 0) continue;
    const ssize_t got = ::read(in, buffer.data(), buffer.size());
    if (got > 0)
      inbox.take(std::string_view(buffer.data(), static_cast<std::size_t>(got)), server);
    else if (got == 0 || (errno != EINTR && errno != EAGAIN))
      finish(McpEnd::closed);
  }
  return end;
}

}  // namespace cultivar

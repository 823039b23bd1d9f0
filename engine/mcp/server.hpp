// SPDX-License-Identifier: Apache-2.0
// The server side of the Model Context Protocol (https://modelcontextprotocol.io): JSON-RPC 2.0, one message
// per line. Knows no files and no processes: it receives lines and sends lines.
#pragma once

#include <nlohmann/json.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "evaluators/system/clock.hpp"
#include "operators/agent/toolbox.hpp"

namespace cultivar {

// The supported protocol versions, newest first.
inline constexpr std::string_view kMcpVersions[] = {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05",
                                                    "2024-10-07"};
inline constexpr std::size_t kMcpLineBytes = 8 << 20;  // a longer message is refused

struct McpOffer {
  std::string version;       // of the program
  std::string instructions;  // for the model
  std::vector<AgentTool> tools;
  // Each call runs in its own thread, several at once. Must return soon after the stop request.
  std::function<ToolResult(const std::string& name, const nlohmann::json& arguments, std::stop_token stop,
                           std::function<void(const std::string&)> progress)>
      call;
  std::size_t most_calls = 16;  // in flight
  double heartbeat_s = 5.0;     // a call with a progress token repeats its last progress at this interval
};

// receive(), refuse_line(), tick() and stop_all() are called from one thread.
class McpServer {
 public:
  // `send` receives complete lines without the line end, from any thread; must not block or throw.
  McpServer(McpOffer, std::function<void(std::string)> send);
  ~McpServer();  // stops all calls and waits for them
  McpServer(const McpServer&) = delete;
  McpServer& operator=(const McpServer&) = delete;

  void receive(std::string_view line);
  void refuse_line();  // a line longer than kMcpLineBytes was dropped
  void tick();         // about once a second
  void stop_all();     // the client is disconnecting: calls in progress end and send what they have
  bool idle();         // no call is in progress and everything has been sent

 private:
  using Json = nlohmann::json;
  using Reply = std::function<void(Json)>;  // null: no reply
  struct Call {
    std::stop_source stop;
    Json token;  // null: no progress requested
    Reply reply;
    bool cancelled = false, done = false;
    std::int64_t told = 0;
    std::string step;
    Clock::time_point begun, last;
    std::thread thread;
  };

  void send(const Json&);
  void batch(const Json& messages);
  void message(const Json&, const Reply&);
  void request(const std::string& method, const Json& id, const Json& params, const Reply&);
  void notification(const std::string& method, const Json& params);
  Json initialize(const Json& params);
  Json list() const;
  void start_call(const Json& id, const Json& params, const Reply&);
  void tell(Call&, const std::string& step);  // call with the mutex locked
  void reap();

  McpOffer offer_;
  std::function<void(std::string)> send_;
  std::string spoken_;  // the negotiated version; empty before `initialize`
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Call>> calls_;  // by id, as JSON
};

// An MCP server over two file descriptors, one message per line.
enum class McpEnd {
  closed,  // the client closed its side or exited
  stopped  // `stop` was set
};

// Serves until the client closes its side or `stop` is set, which is polled four times a second; then calls
// in progress are stopped and send what they have. SIGPIPE must be ignored. `give_up` is called when a call
// has not returned ten seconds later: it must end the process.
McpEnd serve_mcp(McpOffer, int in, int out, const std::atomic<bool>& stop,
                 const std::function<void()>& give_up);

}  // namespace cultivar

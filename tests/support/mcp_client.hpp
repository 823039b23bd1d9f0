// SPDX-License-Identifier: Apache-2.0
// A client of `cultivar mcp`: speaks JSON-RPC with a program over its stdin and stdout.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cultivar::testing {

class McpClient {
 public:
  McpClient(const std::vector<std::string>& command, const std::filesystem::path& folder);
  ~McpClient();  // kills what is left
  McpClient(const McpClient&) = delete;
  McpClient& operator=(const McpClient&) = delete;

  pid_t pid() const { return pid_; }
  void send(const nlohmann::json& message);
  int start(const std::string& method, const nlohmann::json& params);  // returns the ID of the request
  void notify(const std::string& method, const nlohmann::json& params);
  // Returns the reply; throws if none arrives in time. Other messages are kept in `others`.
  nlohmann::json answer(int id, double deadline_s = 120.0);
  nlohmann::json request(const std::string& method, const nlohmann::json& params) {
    return answer(start(method, params));
  }
  nlohmann::json begin(const std::string& version = "2025-11-25");  // initialize, and its result
  // Returns a tool's text; throws if the protocol itself fails. `failed` is isError.
  std::string call(const std::string& tool, const nlohmann::json& arguments);
  bool failed = false;
  std::vector<nlohmann::json> others;  // notifications

  void close_input();
  int wait(double deadline_s);  // returns the exit code; -1 if the program does not end

 private:
  nlohmann::json next_line(double deadline);
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, ids_ = 0;
  std::string buffer_;
};

// The children of this process and their children.
std::vector<pid_t> descendants(pid_t);

}  // namespace cultivar::testing

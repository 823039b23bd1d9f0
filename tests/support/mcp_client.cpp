// SPDX-License-Identifier: Apache-2.0
#include "support/mcp_client.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace cultivar::testing {
namespace {

using nlohmann::json;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

McpClient::McpClient(const std::vector<std::string>& command, const std::filesystem::path& folder) {
  std::signal(SIGPIPE, SIG_IGN);
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) throw std::runtime_error("pipe failed");
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    ::dup2(to[0], 0);
    ::dup2(from[1], 1);
    if (::chdir(folder.c_str()) != 0) ::_exit(126);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(to[0]);
  ::close(from[1]);
  in_ = to[1];
  out_ = from[0];
}

McpClient::~McpClient() {
  close_input();
  if (pid_ > 0 && wait(10.0) < 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(out_);
}

void McpClient::send(const json& message) {
  const std::string line = message.dump() + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t count = ::write(in_, line.data() + sent, line.size() - sent);
    if (count <= 0) throw std::runtime_error("the server does not read");
    sent += static_cast<std::size_t>(count);
  }
}

int McpClient::start(const std::string& method, const json& params) {
  send({{"jsonrpc", "2.0"}, {"id", ++ids_}, {"method", method}, {"params", params}});
  return ids_;
}

void McpClient::notify(const std::string& method, const json& params) {
  send({{"jsonrpc", "2.0"}, {"method", method}, {"params", params}});
}

json McpClient::next_line(double deadline) {
  while (true) {
    if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
      json line = json::parse(buffer_.substr(0, end));
      buffer_.erase(0, end + 1);
      return line;
    }
    pollfd waiting{out_, POLLIN, 0};
    const int left = static_cast<int>((deadline - now()) * 1000);
    if (left <= 0 || ::poll(&waiting, 1, left) <= 0) throw std::runtime_error("no answer in time");
    char bytes[65536];
    const ssize_t got = ::read(out_, bytes, sizeof bytes);
    if (got <= 0) throw std::runtime_error("the server closed its side");
    buffer_.append(bytes, static_cast<std::size_t>(got));
  }
}

json McpClient::answer(int id, double deadline_s) {
  const double deadline = now() + deadline_s;
  while (true) {
    json line = next_line(deadline);
    if (line.contains("id") && line["id"] == id) return line;
    others.push_back(std::move(line));
  }
}

json McpClient::begin(const std::string& version) {
  const json result = request("initialize", {{"protocolVersion", version},
                                             {"capabilities", json::object()},
                                             {"clientInfo", {{"name", "test"}, {"version", "1"}}}});
  notify("notifications/initialized", json::object());
  return result.at("result");
}

std::string McpClient::call(const std::string& tool, const json& arguments) {
  const json found = request("tools/call", {{"name", tool}, {"arguments", arguments}});
  if (found.contains("error")) throw std::runtime_error(found.dump());
  failed = found.at("result").at("isError").get<bool>();
  return found.at("result").at("content").at(0).at("text").get<std::string>();
}

void McpClient::close_input() {
  if (in_ >= 0) ::close(in_);
  in_ = -1;
}

int McpClient::wait(double deadline_s) {
  const double deadline = now() + deadline_s;
  int status = 0;
  while (pid_ > 0) {
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (now() > deadline) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return -1;
}

std::vector<pid_t> descendants(pid_t ancestor) {
  std::vector<std::pair<pid_t, pid_t>> parents;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "stat");
    std::string stat;
    std::getline(in, stat);
    const std::size_t end = stat.rfind(')');  // of the program's name
    if (end == std::string::npos || end + 4 >= stat.size()) continue;
    parents.emplace_back(std::stoi(name), std::stoi(stat.substr(end + 4)));
  }
  std::vector<pid_t> found{ancestor};
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const auto& [child, parent] : parents)
      if (parent == found[i]) found.push_back(child);
  found.erase(found.begin());
  return found;
}

}  // namespace cultivar::testing

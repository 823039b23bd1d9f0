// SPDX-License-Identifier: Apache-2.0
#include "engine/mcp/stdio.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "evaluators/system/clock.hpp"

namespace cultivar {
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

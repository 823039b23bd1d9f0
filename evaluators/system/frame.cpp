// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/frame.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "evaluators/system/json_text.hpp"

namespace cultivar {
namespace {

using Kind = FrameTrouble::Kind;

tl::unexpected<FrameTrouble> trouble(Kind kind, std::string message) {
  return tl::make_unexpected(FrameTrouble{kind, std::move(message)});
}

// Makes text printable and short, because it goes into messages and records.
std::string excerpt(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, 60)) result += c >= 32 && c < 127 ? c : '.';
  return result;
}

// Waits until `fd` is ready; an error at the deadline.
tl::expected<void, FrameTrouble> await(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{fd, events, 0};
    const int ready = ::poll(&wait, 1, static_cast<int>(std::clamp<long long>(left, 0, 1 << 30)));
    if (ready > 0) return {};
    if (ready == 0 && left <= 0) return trouble(Kind::timed_out, "the deadline passed");
    if (ready < 0 && errno != EINTR)
      return trouble(Kind::system, fmt::format("poll: {}", std::strerror(errno)));
  }
}

// Makes a write to a pipe that nobody reads fail with an error code instead of a signal, whatever the process
// does about SIGPIPE.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    const int saved = errno;
    const timespec now{};
    if (sigismember(&before_, SIGPIPE) == 0) {
      while (::sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
      }
      ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    errno = saved;
  }

 private:
  sigset_t pipe_, before_;
};

constexpr std::size_t header_limit = 12;  // digits of a length, with a margin

}  // namespace

tl::expected<void, FrameTrouble> FrameStream::fill(Clock::time_point deadline) {
  if (auto ready = await(input_, POLLIN, deadline); !ready) return ready;
  char buffer[65536];
  const ssize_t got = ::read(input_, buffer, sizeof buffer);
  if (got > 0) {
    pending_.append(buffer, static_cast<std::size_t>(got));
    return {};
  }
  if (got == 0)
    return trouble(Kind::closed, pending_.empty()
                                     ? "the other end closed the stream"
                                     : "the other end closed the stream in the middle of a frame");
  if (errno == EINTR || errno == EAGAIN) return {};
  return trouble(Kind::system, fmt::format("read: {}", std::strerror(errno)));
}

tl::expected<nlohmann::json, FrameTrouble> FrameStream::read(Clock::time_point deadline) {
  std::size_t newline = 0;
  while ((newline = pending_.find('\n')) == std::string::npos && pending_.size() < header_limit)
    if (auto more = fill(deadline); !more) return tl::make_unexpected(more.error());

  std::size_t length = 0;
  const char* const begin = pending_.data();
  const char* const end = begin + std::min(newline, pending_.size());
  const auto [stop, code] = std::from_chars(begin, end, length);
  if (newline > header_limit || begin == end || stop != end || code != std::errc{})
    return trouble(Kind::garbage, fmt::format("not a frame: \"{}\"", excerpt(pending_)));
  if (length > frame_limit)
    return trouble(Kind::too_big, fmt::format("a frame of {} bytes; the limit is {}", length, frame_limit));

  const std::size_t total = newline + 1 + length + 1;
  while (pending_.size() < total)
    if (auto more = fill(deadline); !more) return tl::make_unexpected(more.error());
  const std::string_view text(pending_.data() + newline + 1, length);
  auto message = nlohmann::json::parse(text, nullptr, false);
  if (pending_[total - 1] != '\n' || message.is_discarded())
    return trouble(Kind::garbage, fmt::format("a frame without valid JSON: \"{}\"", excerpt(text)));
  pending_.erase(0, total);
  return message;
}

bool FrameStream::waiting() const {
  return !pending_.empty() || await(input_, POLLIN, Clock::now()).has_value();
}

tl::expected<void, FrameTrouble> FrameStream::write(const nlohmann::json& message,
                                                    Clock::time_point deadline) {
  // Replace bytes that are not UTF-8 (from a compiler's message about unusual source) instead of throwing.
  const std::string text = json_text(message);
  if (text.size() > frame_limit)
    return trouble(Kind::too_big,
                   fmt::format("a frame of {} bytes; the limit is {}", text.size(), frame_limit));
  const std::string frame = fmt::format("{}\n{}\n", text.size(), text);
  const NoPipeSignal guard;
  for (std::size_t done = 0; done < frame.size();) {
    if (auto ready = await(output_, POLLOUT, deadline); !ready) return ready;
    // A pipe that polls as writable takes PIPE_BUF bytes without blocking, even in blocking mode.
    const ssize_t put =
        ::write(output_, frame.data() + done, std::min<std::size_t>(frame.size() - done, 4096));
    if (put > 0)
      done += static_cast<std::size_t>(put);
    else if (put < 0 && errno == EPIPE)
      return trouble(Kind::closed, "the other end closed the stream");
    else if (put < 0 && errno != EINTR && errno != EAGAIN)
      return trouble(Kind::system, fmt::format("write: {}", std::strerror(errno)));
  }
  return {};
}

FrameStream frames_over_stdio() {
  const int input = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
  const int output = ::fcntl(1, F_DUPFD_CLOEXEC, 3);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input < 0 || output < 0 || null < 0 || ::dup2(null, 0) < 0 || ::dup2(2, 1) < 0)
    throw InputError("start a worker with stdin, stdout and stderr open");
  ::close(null);
  return FrameStream(input, output);
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/search_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

namespace cultivar {
namespace fs = std::filesystem;
namespace {

constexpr off_t kShownAtOnce = 64 << 10;  // bytes of the end of a log

class OpenLog {
 public:
  explicit OpenLog(const fs::path& file)
      : descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)) {}
  ~OpenLog() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  OpenLog(OpenLog&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  OpenLog& operator=(OpenLog&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  OpenLog(const OpenLog&) = delete;
  OpenLog& operator=(const OpenLog&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  bool is(const fs::path& file) const {
    struct stat own {
    }, named{};
    return descriptor_ >= 0 && ::fstat(descriptor_, &own) == 0 && ::lstat(file.c_str(), &named) == 0 &&
           own.st_ino == named.st_ino && own.st_dev == named.st_dev;
  }
  void go_to_end() {
    const off_t size = ::lseek(descriptor_, 0, SEEK_END);
    if (size >= 0) ::lseek(descriptor_, std::max<off_t>(0, size - kShownAtOnce), SEEK_SET);
  }
  std::string read() {  // what is there, at most 64 KiB
    std::array<char, kShownAtOnce> buffer{};
    const ssize_t count = descriptor_ < 0 ? 0 : ::read(descriptor_, buffer.data(), buffer.size());
    return count > 0 ? std::string(buffer.data(), static_cast<std::size_t>(count)) : std::string();
  }

 private:
  int descriptor_;
};

fs::path rotated(const fs::path& file, int times) {
  return times == 0 ? file : fs::path(fmt::format("{}.{}", file.string(), times));
}

// The log that follows one that was renamed: FILE.1 after FILE.2, FILE after FILE.1, and FILE after one that
// is no longer kept. Returns a log that is not open if a rotation is under way.
OpenLog successor(const OpenLog& log, const fs::path& file) {
  for (int times = 1; times <= SearchLog::kKept; ++times) {
    if (!log.is(rotated(file, times))) continue;
    OpenLog next(rotated(file, times - 1));
    // A log is renamed before its successor: if it still has its name, that was the next one.
    return log.is(rotated(file, times)) ? std::move(next) : OpenLog({});
  }
  return OpenLog(file);
}

}  // namespace

SearchLog::SearchLog(fs::path file, std::uintmax_t most_bytes)
    : file_(std::move(file)), most_bytes_(most_bytes) {
  std::error_code failed;
  fs::create_directories(file_.parent_path(), failed);
  redirect();
}

void SearchLog::redirect() const {
  const int descriptor = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0)
    throw std::runtime_error(fmt::format("{}: {}; name a file that can be written with --log", file_.string(),
                                         std::strerror(errno)));
  std::fflush(stdout);
  ::dup2(descriptor, STDOUT_FILENO);
  ::dup2(descriptor, STDERR_FILENO);
  ::close(descriptor);
}

void SearchLog::rotate_if_large() {
  if (std::ferror(stderr) != 0 || std::ferror(stdout) != 0) {
    std::clearerr(stdout);
    std::clearerr(stderr);
    std::fputs(
        "\n... lines are missing here: this log could not be written (the record has all events) ...\n",
        stderr);
  }
  std::error_code failed;
  if (fs::file_size(file_, failed) < most_bytes_ || failed) return;
  for (int i = kKept; i > 0; --i) fs::rename(rotated(file_, i - 1), rotated(file_, i), failed);
  try {
    redirect();
  } catch (const std::exception&) {
    // Both still write to the renamed file.
  }
}

void follow_log(const fs::path& file, std::size_t last_lines,
                const std::function<void(const std::string&)>& show, const std::function<bool()>& goes_on) {
  constexpr std::size_t kLongestLine = 64 << 10;
  OpenLog log(file);
  log.go_to_end();
  std::string pending;
  const auto tell = [&] {  // all complete lines
    std::size_t from = 0;
    for (std::size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n', from)) {
      show(pending.substr(from, end - from));
      from = end + 1;
    }
    pending.erase(0, from);
    if (pending.size() > kLongestLine) show(std::exchange(pending, {}));
  };
  pending = log.read();
  std::size_t start = pending.size();
  for (std::size_t line = 0; line <= last_lines && start != std::string::npos && start > 0; ++line)
    start = pending.rfind('\n', start - 1);
  if (start != std::string::npos && start < pending.size()) pending.erase(0, start + 1);
  for (;;) {
    tell();
    const bool last = !goes_on();  // asked before the read, so that nothing is missed
    for (;;) {
      const bool renamed = !log.is(file);  // asked before the read, so that its last lines are read
      std::string more = log.read();
      if (more.empty()) {
        if (!renamed) break;
        OpenLog next = successor(log, file);
        if (!next.is_open()) break;
        log = std::move(next);
        continue;
      }
      pending += more;
      tell();
    }
    if (last) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  if (!pending.empty()) show(pending);
}

}  // namespace cultivar

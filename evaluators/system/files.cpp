// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/files.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

namespace cultivar {

namespace fs = std::filesystem;

namespace {

bool sync_path(const fs::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool synced = ::fsync(descriptor) == 0;
  const int why = errno;
  ::close(descriptor);
  errno = why;
  return synced;
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

// Reads to the end, because files of the kernel (/proc, /sys) do not tell their size. nullopt: more than
// `most` bytes, or the disk fails.
std::optional<std::string> read_to_end(int descriptor, std::size_t most) {
  constexpr std::size_t piece = 1 << 16;
  std::string bytes;
  for (;;) {
    const std::size_t had = bytes.size();
    bytes.resize(had + piece);
    const ssize_t n = ::read(descriptor, bytes.data() + had, piece);
    bytes.resize(had + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 || bytes.size() > most) return std::nullopt;
    if (n == 0) return bytes;
  }
}

Expected<std::string> read_regular(const fs::path& path, std::size_t most, int flags) {
  const auto wrong = [&](const std::string& what) {
    return failure("read file", fmt::format("{}: {}", path.string(), what));
  };
  // Non-blocking: opening a named pipe would wait for a writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
  if (descriptor < 0)
    return wrong(errno == ELOOP ? "cannot be read: it is a symbolic link" : "cannot be read");
  struct stat facts {};
  const bool regular = ::fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
  const bool fits = regular && static_cast<std::size_t>(facts.st_size) <= most;
  std::optional<std::string> bytes = fits ? read_to_end(descriptor, most) : std::nullopt;
  ::close(descriptor);
  if (!regular) return wrong("cannot be read: it is not a regular file");
  if (!fits) return wrong(fmt::format("has {} bytes, but at most {} are read", facts.st_size, most));
  if (!bytes) return wrong(fmt::format("cannot be read, or grew beyond {} bytes", most));
  return std::move(*bytes);
}

}  // namespace

Expected<std::string> read_file(const fs::path& path, std::size_t most) {
  return read_regular(path, most, 0);
}

Expected<std::string> read_unlinked_file(const fs::path& path, std::size_t most) {
  return read_regular(path, most, O_NOFOLLOW);
}

Expected<void> put_in_place(const fs::path& temporary, const fs::path& file) {
  if (!sync_path(temporary, O_RDWR) || std::rename(temporary.c_str(), file.c_str()) != 0 ||
      !sync_path(file.parent_path(), O_RDONLY | O_DIRECTORY))
    return failure("write", fmt::format("{}: {}", file.string(), std::strerror(errno)));
  return {};
}

namespace {

// Writes a new file beside this one, which `put(temporary, file)` then puts in place.
template <class Put>
auto write_beside(const fs::path& file, std::string_view bytes, const Put& put)
    -> decltype(put(std::string(), file)) {
  static std::atomic<unsigned> serial{0};
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  const std::string temporary = fmt::format("{}.{}.{}.tmp", file.string(), ::getpid(), serial++);
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) return failure("write", fmt::format("{}: {}", file.string(), std::strerror(errno)));
  const bool written = write_all(descriptor, bytes);
  const int why = errno;
  ::close(descriptor);
  if (!written) {
    ::unlink(temporary.c_str());
    return failure("write", fmt::format("{}: {}", file.string(), std::strerror(why)));
  }
  auto placed = put(temporary, file);
  ::unlink(temporary.c_str());  // unless it was renamed
  return placed;
}

}  // namespace

Expected<void> write_atomically(const fs::path& file, std::string_view bytes) {
  return write_beside(file, bytes, [](const std::string& temporary, const fs::path& to) {
    return put_in_place(temporary, to);
  });
}

Expected<bool> write_if_missing(const fs::path& file, std::string_view bytes) {
  return write_beside(file, bytes, [](const std::string& temporary, const fs::path& to) -> Expected<bool> {
    if (::link(temporary.c_str(), to.c_str()) == 0) return true;
    if (errno == EEXIST) return false;
    if (errno == EPERM || errno == EOPNOTSUPP) {  // a file system without hard links
      if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
      if (std::error_code ignored; errno == EEXIST || fs::exists(to, ignored)) return false;
      auto placed = put_in_place(temporary, to);
      return placed ? Expected<bool>(true) : tl::make_unexpected(placed.error());
    }
    return failure("write", fmt::format("{}: {}", to.string(), std::strerror(errno)));
  });
}

Expected<void> append_line(const std::filesystem::path& file, std::string_view line, std::size_t most) {
  const std::string whole = std::string(line) + "\n";
  const int out =
      ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  if (out < 0) return failure("append", fmt::format("{}: {}", file.string(), std::strerror(errno)));
  struct stat facts {};
  std::string trouble;
  if (::fstat(out, &facts) != 0 || !S_ISREG(facts.st_mode))
    trouble = "is not a regular file";
  else if (static_cast<std::size_t>(facts.st_size) + whole.size() > most)
    trouble = fmt::format("is full (at most {} MiB): remove old lines from it", most >> 20);
  else if (::write(out, whole.data(), whole.size()) != static_cast<ssize_t>(whole.size()))
    trouble = std::strerror(errno);
  ::close(out);
  if (!trouble.empty()) return failure("append", fmt::format("{} {}", file.string(), trouble));
  return {};
}

}  // namespace cultivar

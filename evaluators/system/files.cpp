#include "evaluators/system/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

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

}  // namespace

Expected<std::string> read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  try {
    if (in) return std::string(std::istreambuf_iterator<char>(in), {});
  } catch (const std::ios_base::failure&) {  // a folder, or a disk that fails
  }
  return failure("read file", path.string() + ": cannot be read");
}

Expected<void> put_in_place(const fs::path& temporary, const fs::path& file) {
  if (!sync_path(temporary, O_RDWR) || std::rename(temporary.c_str(), file.c_str()) != 0 ||
      !sync_path(file.parent_path(), O_RDONLY | O_DIRECTORY))
    return failure("write", fmt::format("{}: {}", file.string(), std::strerror(errno)));
  return {};
}

Expected<void> write_atomically(const fs::path& file, std::string_view bytes) {
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
  auto placed = put_in_place(temporary, file);
  if (!placed) ::unlink(temporary.c_str());
  return placed;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "engine/store/run_folder.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

#include "evaluators/system/files.hpp"

namespace cultivar {

namespace {

struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

std::string written_pid(const std::filesystem::path& file) {
  const std::string text = read_file(file, 64).value_or("");
  return text.substr(0, text.find_first_not_of("0123456789"));
}

}  // namespace

// Open-file-description locks: unlike flock, the holder can be queried; unlike POSIX locks, they also exclude
// a second search in the same process.
Expected<RunLock> RunLock::take(const RunFolder& folder) {
  const int descriptor = open(folder.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  struct stat opened {
  }, named{};
  if (descriptor < 0)
    return failure("lock run",
                   fmt::format("{}: {} (is the folder writable?)", folder.lock().string(), strerror(errno)));
  RunLock lock(descriptor);
  struct flock want = whole_file(F_WRLCK);
  if (fcntl(descriptor, F_OFD_SETLK, &want) != 0) {
    if (errno != EAGAIN && errno != EACCES)
      return failure("lock run", fmt::format("{}: {}", folder.lock().string(), strerror(errno)));
    return failure("lock run",
                   fmt::format("{} is in use by process {}; wait for it, or stop it with `cultivar stop`",
                               folder.path().string(), written_pid(folder.lock())));
  }
  // A search that fails to start removes its folder: then this lock is on a deleted file.
  if (fstat(descriptor, &opened) != 0 || stat(folder.lock().c_str(), &named) != 0 ||
      opened.st_ino != named.st_ino || opened.st_dev != named.st_dev)
    return failure("lock run",
                   fmt::format("{} was just removed by another process; try again", folder.path().string()));
  const std::string pid = std::to_string(getpid()) + "\n";
  if (ftruncate(descriptor, 0) != 0 ||
      pwrite(descriptor, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
    return failure("lock run", fmt::format("{}: {}", folder.lock().string(), strerror(errno)));
  return lock;
}

std::optional<int> RunLock::holder(const RunFolder& folder) {
  const int descriptor = open(folder.lock().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return std::nullopt;
  struct flock probe = whole_file(F_RDLCK);
  const bool held = fcntl(descriptor, F_OFD_GETLK, &probe) == 0 && probe.l_type != F_UNLCK;
  close(descriptor);
  if (!held) return std::nullopt;
  const std::string pid = written_pid(folder.lock());
  return pid.empty() ? 0 : std::atoi(pid.c_str());
}

RunLock::RunLock(RunLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace cultivar

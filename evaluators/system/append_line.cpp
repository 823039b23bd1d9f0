// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/append_line.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace cultivar {

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

#include "operators/agent/run_notes.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "evaluators/system/files.hpp"
#include "evaluators/system/lines.hpp"
#include "operators/prompts/one_line.hpp"

namespace cultivar {

namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

}  // namespace

Expected<void> add_run_note(const std::filesystem::path& file, const std::string& note) {
  const std::string line = one_line_of(note, kMostRunNote) + "\n";
  const int out =
      ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  if (out < 0) return failure("notes", fmt::format("{}: {}", file.string(), std::strerror(errno)));
  struct stat facts {};
  std::string trouble;
  if (::fstat(out, &facts) != 0 || !S_ISREG(facts.st_mode))
    trouble = "is not a regular file";
  else if (static_cast<std::size_t>(facts.st_size) + line.size() > kMostBytes)
    trouble = "is full: remove old notes from it";
  else if (::write(out, line.data(), line.size()) !=
           static_cast<ssize_t>(line.size()))  // one write: lines stay whole
    trouble = std::strerror(errno);
  ::close(out);
  if (!trouble.empty()) return failure("notes", fmt::format("{} {}", file.string(), trouble));
  return {};
}

std::vector<std::string> run_notes_in(const std::filesystem::path& file) {
  const auto text = read_unlinked_file(file, 2 * kMostBytes);
  if (!text) return {};
  std::vector<std::string> notes;
  for (const std::string_view line : lines_of(*text))
    if (!line.empty()) notes.push_back(one_line_of(line, kMostRunNote));
  if (notes.size() > kMostRunNotes)
    notes.erase(notes.begin(), notes.end() - static_cast<std::ptrdiff_t>(kMostRunNotes));
  return notes;
}

}  // namespace cultivar

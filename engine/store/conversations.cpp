// SPDX-License-Identifier: Apache-2.0
#include "engine/store/conversations.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "evaluators/system/append_line.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/lines.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostConversations = 1000;
constexpr std::size_t kMostBytes = std::size_t{16} << 20;  // of one conversation
constexpr const char* kExtension = ".jsonl";

fs::path file_of(const RunFolder& folder, const std::string& name) {
  return folder.conversations() / (name + kExtension);
}

bool is_name(const std::string& name) {
  constexpr std::size_t kLongest = 10;
  return name.size() > 1 && name.size() <= kLongest && name.front() == 'm' &&
         std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Expected<void> ConversationLog::add(const std::string& line) {
  std::error_code none;
  fs::create_directories(folder_.conversations(), none);
  for (std::size_t i = 1; name_.empty() && i <= kMostConversations; ++i) {
    const std::string name = fmt::format("m{}", i);
    const fs::path file = file_of(folder_, name);
    const int out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (out < 0 && errno != EEXIST)
      return failure("share drafts", fmt::format("{}: {}", file.string(), std::strerror(errno)));
    if (out < 0) continue;
    ::close(out);
    name_ = name;
  }
  if (name_.empty())
    return failure("share drafts", fmt::format("{} holds {} conversations: remove old ones",
                                               folder_.conversations().string(), kMostConversations));
  return append_line(file_of(folder_, name_), line, kMostBytes);
}

std::vector<ConversationAt> conversations_in(const RunFolder& folder) {
  std::vector<ConversationAt> all;
  std::error_code failed;
  const fs::directory_iterator end;
  for (fs::directory_iterator at(folder.conversations(), failed);
       !failed && at != end && all.size() < kMostConversations; at.increment(failed)) {
    const std::string name = at->path().stem().string();
    struct stat facts {};
    if (at->path().extension() == kExtension && is_name(name) && ::lstat(at->path().c_str(), &facts) == 0)
      all.push_back({name, static_cast<double>(facts.st_mtim.tv_sec) +
                               1e-9 * static_cast<double>(facts.st_mtim.tv_nsec)});
  }
  return all;
}

std::vector<std::string> lines_of_conversation(const RunFolder& folder, const std::string& name) {
  std::vector<std::string> lines;
  if (!is_name(name)) return lines;
  const auto text = read_unlinked_file(file_of(folder, name), kMostBytes);
  if (!text) return lines;
  for (const std::string_view line : lines_of(*text)) lines.emplace_back(line);
  return lines;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tool_results.hpp"

#include <SQLiteCpp/Database.h>
#include <fmt/format.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "engine/store/rows.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/json_fields.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/variant/tunables.hpp"

namespace cultivar {

using nlohmann::json;
namespace fs = std::filesystem;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MadeDraft, id, source, configuration, base)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SubmittedKernel, source, configuration, note, from)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ToolOutcome, index, tool, text, failed, device_s, drafts, handed_over)

std::string to_body(const ToolOutcome& outcome) {
  return json_text(outcome);
}

ToolOutcome outcome_of_body(const std::string& text) {
  return json::parse(text).get<ToolOutcome>();
}

namespace {

bool has_results(const Record& record) {
  return record.database().tableExists("tool_results");  // version 3 on
}

}  // namespace

std::map<std::size_t, std::vector<ToolOutcome>> recorded_results(const Record& record, std::int64_t asking) {
  std::map<std::size_t, std::vector<ToolOutcome>> results;
  if (!has_results(record)) return results;
  each_row(
      record.database(), "SELECT turn, body FROM tool_results WHERE asking = ? ORDER BY number",
      [&](auto& row) {
        results[column<std::size_t>(row, 0)].push_back(outcome_of_body(column<std::string>(row, 1)));
      },
      asking);
  return results;
}

namespace {

// The results of one conversation, in order. Files of agents may hold anything.
std::vector<ToolOutcome> results_of(const Record& record, const std::string& conversation) {
  std::vector<ToolOutcome> all;
  std::int64_t asking = 0;
  const char* const end = conversation.data() + conversation.size();
  if (conversation.starts_with('q') &&
      std::from_chars(conversation.data() + 1, end, asking) == std::from_chars_result{end, std::errc()}) {
    for (auto& [turn, outcomes] : recorded_results(record, asking))
      all.insert(all.end(), outcomes.begin(), outcomes.end());
    return all;
  }
  for (const std::string& line : lines_of_conversation(RunFolder(record.folder()), conversation)) {
    const json body = foreign_json(line);
    if (body.is_discarded()) continue;
    try {
      all.push_back(body.get<ToolOutcome>());
    } catch (const json::exception&) {  // not what a conversation writes
    }
  }
  return all;
}

// The drafts of one conversation, oldest first.
std::vector<RecordedDraft> drafts_of(const Record& record, const std::string& conversation) {
  std::vector<RecordedDraft> all;
  for (const ToolOutcome& outcome : results_of(record, conversation)) {
    for (const MadeDraft& made : outcome.drafts) {
      std::string origin = made.base;
      for (const RecordedDraft& earlier : all)
        if (earlier.draft.id == made.base) origin = earlier.origin;
      all.push_back({conversation, made, origin, {}, {}});
    }
    // A tool's result begins with the id of its kernel, on a line of its own.
    for (RecordedDraft& draft : all)
      if (outcome.text.starts_with(draft.draft.id + " (")) {
        const std::size_t line = outcome.text.find('\n');
        draft.tool = outcome.tool;
        draft.result = line == std::string::npos
                           ? std::string()
                           : one_line_of(std::string_view(outcome.text).substr(line + 1), 200);
      }
  }
  return all;
}

}  // namespace

std::vector<RecordedDraft> recorded_drafts(const Record& record, std::size_t most) {
  std::vector<ConversationAt> conversations = conversations_in(RunFolder(record.folder()));
  if (has_results(record))
    each_row(record.database(), "SELECT asking, max(at) FROM tool_results GROUP BY asking", [&](auto& row) {
      conversations.push_back({fmt::format("q{}", column<std::int64_t>(row, 0)), column<double>(row, 1)});
    });
  std::ranges::stable_sort(conversations, std::ranges::greater(), &ConversationAt::at);
  std::vector<RecordedDraft> newest;
  for (const ConversationAt& conversation : conversations) {
    if (newest.size() >= most) break;
    const std::vector<RecordedDraft> own = drafts_of(record, conversation.name);
    newest.insert(newest.end(), own.rbegin(), own.rend());
  }
  if (newest.size() > most) newest.resize(most);
  return newest;
}

std::optional<RecordedDraft> recorded_draft(const Record& record, const std::string& id) {
  const std::size_t dot = id.find('.');
  if (dot == std::string::npos) return std::nullopt;
  for (RecordedDraft& draft : drafts_of(record, id.substr(0, dot)))
    if (draft.id() == id) return std::move(draft);
  return std::nullopt;
}

json tool_use(const Record& record) {
  json all = json::object();
  if (!has_results(record)) return all;
  each_row(
      record.database(),
      "SELECT tool, count(*), sum(failed), sum(device_s) FROM tool_results WHERE tool <> ? GROUP BY tool",
      [&](auto& row) {
        all[column<std::string>(row, 0)] = {{"calls", column<std::int64_t>(row, 1)},
                                            {"failed", column<std::int64_t>(row, 2)},
                                            {"device_s", column<double>(row, 3)}};
      },
      std::string(kSimilarIdea));
  return all;
}

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

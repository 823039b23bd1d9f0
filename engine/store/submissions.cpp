// SPDX-License-Identifier: Apache-2.0
#include "engine/store/submissions.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/store/rows.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/variant/tunables.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::vector<IndividualId> parents_of(const json& body) {
  const auto given = body.find("parents");
  if (given == body.end()) return {};
  const bool numbers = given->is_array() && std::ranges::all_of(*given, [](const json& parent) {
                         return parent.is_number_integer();
                       });
  if (!numbers) throw InputError("`parents` must be a list of individuals' numbers, for example [3]");
  return given->get<std::vector<IndividualId>>();
}

Submission read_submission(const fs::path& file) {
  const auto text = read_unlinked_file(file, most_submission_bytes);
  if (!text) throw InputError(text.error().message);
  const json body = foreign_json(*text);
  if (body.is_discarded()) throw InputError("not valid JSON: " + where_json_breaks(*text));
  Submission read{file, body.at("source").get<std::string>(), body.at("note").get<std::string>(),
                  body.at("configuration").get<Configuration>(), parents_of(body)};
  if (const std::string trouble = submission_trouble(read); !trouble.empty()) throw InputError(trouble);
  return read;
}

}  // namespace

std::string submission_trouble(const Submission& submission) {
  if (submission.parents.size() > most_parents)
    return fmt::format("it names {} parents, but at most {} are allowed", submission.parents.size(),
                       most_parents);
  if (submission.note.size() > most_note_bytes)
    return fmt::format("its note has {} bytes, but at most {} are allowed", submission.note.size(),
                       most_note_bytes);
  return {};
}

std::string Inbox::put_aside(const fs::path& file, const std::string& why) {
  constexpr std::size_t most_words = 400;
  const std::string name = file.filename().string();
  std::error_code none;
  fs::create_directories(folder_.damaged(), none);
  fs::path aside = folder_.damaged() / name;
  // What was put aside earlier is kept.
  if (fs::exists(fs::symlink_status(aside, none)))
    aside = folder_.damaged() / fmt::format("{:020.0f}-{}", 1e6 * unix_now(), name.substr(0, 200));
  fs::rename(file, aside, none);
  if (none) {
    stuck_.insert(name);
    return "";
  }
  return fmt::format("{} is not a valid submission ({}); it was moved to {}. Use `cultivar submit`",
                     plain_line(name, 100), plain_line(why, most_words),
                     plain_line(aside.string(), most_words));
}

Inbox::Found Inbox::look() {
  constexpr std::size_t most_files = 16;
  Found found;
  std::size_t read = 0;
  for (const fs::path& file : folder_.submitted(most_files + stuck_.size())) {
    if (stuck_.contains(file.filename().string())) continue;
    if (++read > most_files) break;
    try {
      found.submissions.push_back(read_submission(file));
    } catch (const std::exception& e) {
      std::string words = put_aside(file, said_shortly(e));
      if (!words.empty()) found.troubles.push_back(std::move(words));
    }
  }
  return found;
}

void Inbox::remove(const Submission& submission) {
  std::error_code failed;
  fs::remove(submission.file, failed);
  if (failed) stuck_.insert(submission.file.filename().string());
}

std::optional<Twin> twin_of(const Record& record, const std::string& variant_id) {
  std::vector<IndividualId> ids;
  each_row(
      record.database(), "SELECT id FROM individuals WHERE variant_id = ? ORDER BY id",
      [&](SQLite::Statement& row) { ids.push_back(column<IndividualId>(row, 0)); }, variant_id);
  std::optional<Twin> twin;
  for (const IndividualId id : ids) {
    const IndividualRow row = *record.individual(id);
    const bool duplicate = row.individual.duplicate_of != 0;
    if (twin && duplicate) continue;  // of the one before
    twin = Twin{id, row.expelled || (row.state == IndividualState::rejected && !duplicate)};
    if (!twin->rejected) break;
  }
  return twin;
}

std::optional<fs::path> waiting_like(const RunFolder& folder, const std::string& source,
                                     const Configuration& configuration) {
  constexpr std::size_t most_compared = 256;
  std::vector<fs::path> files = folder.submitted();
  if (files.size() > most_compared) files.erase(files.begin(), files.end() - most_compared);
  for (const fs::path& file : files) {
    try {
      const Submission waiting = read_submission(file);
      if (waiting.source == source && waiting.configuration == configuration) return file;
    } catch (const std::exception&) {  // the search reports it when it reads the inbox
    }
  }
  return std::nullopt;
}

Expected<fs::path> put_submission(const RunFolder& folder, const Submission& submission) {
  std::error_code ec;
  fs::create_directories(folder.submissions(), ec);
  // A run's folder may be a stranger's: a link in it must not choose where this writes.
  if (!ec && fs::is_symlink(fs::symlink_status(folder.submissions(), ec)))
    return failure("submit", folder.submissions().string() +
                                 " is a symbolic link, and submissions are only written into the run's "
                                 "folder: replace it by a folder");
  if (ec) return failure("submit", folder.submissions().string() + ": " + ec.message());
  const fs::path file = folder.submissions() / fmt::format("{:020.0f}-{}.json", 1e6 * unix_now(), getpid());
  const json body = {{"source", submission.source},
                     {"note", submission.note},
                     {"configuration", submission.configuration},
                     {"parents", submission.parents}};
  const std::string text = json_text(body);
  if (text.size() > most_submission_bytes)
    return failure("submit", fmt::format("the submission has {} bytes, but at most {} are read", text.size(),
                                         most_submission_bytes));
  auto written = write_atomically(file, text);
  if (!written)
    return failure("submit", written.error().message + "; submitting needs write access to the run's folder");
  return file;
}

}  // namespace cultivar

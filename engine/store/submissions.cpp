#include "engine/store/submissions.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "evaluators/system/clock.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/foreign_json.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/variant/configuration_json.hpp"

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
  const std::string text = read_file(file).value_or("");
  const json body = foreign_json(text);
  if (body.is_discarded()) throw InputError("not valid JSON: " + where_json_breaks(text));
  return {file, body.at("source").get<std::string>(), body.at("note").get<std::string>(),
          body.at("configuration").get<Configuration>(), parents_of(body)};
}

}  // namespace

std::string put_aside(const RunFolder& folder, const fs::path& file, const std::string& why) {
  std::error_code none;
  const fs::path aside = folder.damaged() / file.filename();
  fs::create_directories(folder.damaged(), none);
  fs::rename(file, aside, none);
  if (none) return "";  // reported once it can be moved, not twice a second
  return fmt::format("{} is not a valid submission ({}); it was moved to {}. Use `cultivar submit`",
                     file.filename().string(), why, aside.string());
}

Inbox waiting_submissions(const RunFolder& folder) {
  Inbox inbox;
  for (const fs::path& file : folder.submitted()) {
    try {
      inbox.submissions.push_back(read_submission(file));
    } catch (const std::exception& e) {
      std::string words = put_aside(folder, file, said_shortly(e));
      if (!words.empty()) inbox.troubles.push_back(std::move(words));
    }
  }
  return inbox;
}

std::optional<fs::path> waiting_like(const RunFolder& folder, const std::string& source,
                                     const Configuration& configuration) {
  for (const fs::path& file : folder.submitted()) {
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
  if (ec) return failure("submit", folder.submissions().string() + ": " + ec.message());
  const fs::path file = folder.submissions() / fmt::format("{:020.0f}-{}.json", 1e6 * unix_now(), getpid());
  const json body = {{"source", submission.source},
                     {"note", submission.note},
                     {"configuration", submission.configuration},
                     {"parents", submission.parents}};
  auto written = write_atomically(file, json_text(body));
  if (!written)
    return failure("submit", written.error().message + "; submitting needs write access to the run's folder");
  return file;
}

}  // namespace cultivar

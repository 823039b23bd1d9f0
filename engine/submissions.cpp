#include "engine/submissions.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

#include "engine/store/checkpoint.hpp"
#include "engine/store/configuration_json.hpp"
#include "evaluators/error.hpp"
#include "evaluators/foreign_json.hpp"

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
  if (!numbers) throw InputError("`parents` must be a list of numbers of individuals, as in [3]");
  return given->get<std::vector<IndividualId>>();
}

Submission read_submission(const fs::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  const json body = foreign_json(text.str());
  if (body.is_discarded()) throw InputError("no JSON: " + where_json_breaks(text.str()));
  return {file, body.at("source").get<std::string>(), body.at("note").get<std::string>(),
          configuration_from_json(body.at("configuration")), parents_of(body)};
}

}  // namespace

std::string put_aside(const RunFolder& folder, const fs::path& file, const std::string& why) {
  std::error_code none;
  const fs::path aside = folder.damaged() / file.filename();
  fs::create_directories(folder.damaged(), none);
  fs::rename(file, aside, none);
  if (none) return "";  // said when it can be put aside, not twice a second
  return fmt::format("{} is no submission ({}); it now lies in {}. Use `cultivar submit`",
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
    } catch (const std::exception&) {  // the search says so when it takes up the others
    }
  }
  return std::nullopt;
}

Expected<fs::path> put_submission(const RunFolder& folder, const Submission& submission) {
  std::error_code ec;
  fs::create_directories(folder.submissions(), ec);
  if (ec) return failure("submit", folder.submissions().string() + ": " + ec.message());
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const fs::path file =
      folder.submissions() / fmt::format("{:020}-{}.json",
                                         std::chrono::duration_cast<std::chrono::microseconds>(now).count(),
                                         getpid());
  const json body = {{"source", submission.source},
                     {"note", submission.note},
                     {"configuration", configuration_to_json(submission.configuration)},
                     {"parents", submission.parents}};
  auto written = write_atomically(file, body.dump(-1, ' ', false, json::error_handler_t::replace));
  if (!written)
    return failure("submit",
                   written.error().message + ": only who may write to the run's folder can submit to it");
  return file;
}

}  // namespace cultivar

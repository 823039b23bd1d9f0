// SPDX-License-Identifier: Apache-2.0
#include "engine/export/domain_log.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "evaluators/system/files.hpp"
#include "evaluators/system/foreign_json.hpp"
#include "evaluators/system/json_fields.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

constexpr int kFormat = 1;

CULTIVAR_JSON_PART(DomainLogKey, domain, device, most_bytes, most_seconds, members)
CULTIVAR_JSON_PART(DispatchChoice, kernels, table, learnt)

// Seeds have 64 bits, which numbers of JSON need not keep.
json header_of(const DomainLogKey& key, std::uint64_t seed) {
  json header;
  write_fields(header, key);
  header["format"] = kFormat;
  header["seed"] = std::to_string(seed);
  return header;
}

std::uint64_t seed_in(const json& line) {
  return std::strtoull(line.at("seed").get_ref<const std::string&>().c_str(), nullptr, 10);
}

// Empty: the same.
std::string difference(const DomainLogKey& then, const DomainLogKey& now) {
  if (then.domain != now.domain) return fmt::format("that was over \"{}\"", then.domain);
  if (then.device != now.device) return "that was on " + then.device;
  if (then.members != now.members) return "that was of other kernels";
  return then == now ? "" : "that had other limits";
}

}  // namespace

Expected<DomainLog> DomainLog::open(std::filesystem::path file, const DomainLogKey& key,
                                    std::uint64_t new_seed) {
  DomainLog log;
  log.file_ = std::move(file);
  const auto begin_anew = [&](std::string why) -> Expected<DomainLog> {
    DomainLog fresh;
    fresh.file_ = log.file_;
    fresh.seed_ = new_seed;
    fresh.why_new_ = std::move(why);
    if (auto ok = write_atomically(fresh.file_, json_text(header_of(key, new_seed), -1) + "\n"); !ok)
      return tl::make_unexpected(ok.error());
    return fresh;
  };
  if (!std::filesystem::exists(log.file_)) return begin_anew("");
  const auto text = read_file(log.file_);
  if (!text) return tl::make_unexpected(text.error());
  std::istringstream lines(*text);
  std::size_t complete = 0;
  bool first = true;
  try {
    for (std::string line; std::getline(lines, line) && !lines.eof(); first = false) {
      const json parsed = foreign_json(line);
      if (parsed.is_discarded()) return begin_anew("it cannot be read");
      if (first) {
        DomainLogKey then;
        read_fields(parsed, then);
        if (parsed.at("format") != kFormat) return begin_anew("it is of another version");
        if (const std::string why = difference(then, key); !why.empty()) return begin_anew(why);
        log.seed_ = seed_in(parsed);
      } else {
        log.take(parsed);
      }
      complete += line.size() + 1;
    }
  } catch (const std::exception& error) {
    return begin_anew(fmt::format("it cannot be read ({})", said_shortly(error)));
  }
  if (first) return begin_anew("it is empty");
  if (complete < text->size())
    if (auto ok = write_atomically(log.file_, std::string_view(*text).substr(0, complete)); !ok)
      return tl::make_unexpected(ok.error());
  return log;
}

void DomainLog::take(const json& line) {
  const std::string& what = line.at("what").get_ref<const std::string&>();
  if (what == "drawn") {
    auto times = line.at("times").get<ShapeTimes>();
    known_.insert(times.shape);
    (choice_ ? proving_ : learning_).push_back(std::move(times));
  } else if (what == "listed") {
    listed_.push_back(line.at("times").get<ShapeTimes>());
  } else if (what == "confirmation") {
    confirmations_[line.at("kernel").get<IndividualId>()] = line.at("evaluation").get<Evaluation>();
  } else if (what == "choice") {
    DispatchChoice choice;
    read_fields(line, choice);
    choice.seed = seed_in(line);
    learn_more();
    choice_ = std::move(choice);
    listed_.clear();
  } else {
    throw json::other_error::create(501, "unknown line " + what, &line);
  }
}

void DomainLog::learn_more() {
  learning_.insert(learning_.end(), proving_.begin(), proving_.end());
  proving_.clear();
  choice_.reset();
}

Expected<void> DomainLog::append(const json& line) {
  std::ofstream out(file_, std::ios::binary | std::ios::app);
  out << json_text(line, -1) << '\n';
  out.close();
  if (!out)
    return failure("portfolio", fmt::format("cannot write {}; check that the disk is not full and the folder "
                                            "is writable",
                                            file_.string()));
  take(line);
  return {};
}

Expected<void> DomainLog::add(const ShapeTimes& times) {
  return append({{"what", "drawn"}, {"times", times}});
}
Expected<void> DomainLog::add_listed(const ShapeTimes& times) {
  return append({{"what", "listed"}, {"times", times}});
}
Expected<void> DomainLog::add(const DispatchChoice& choice) {
  json line;
  write_fields(line, choice);
  line.update({{"what", "choice"}, {"seed", std::to_string(choice.seed)}});
  return append(line);
}
Expected<void> DomainLog::add(IndividualId id, const Evaluation& confirmation) {
  return append({{"what", "confirmation"}, {"kernel", id}, {"evaluation", confirmation}});
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "engine/export/domain_dispatch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/json_fields.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

double infinite_if_absent(const std::map<IndividualId, double>& times, IndividualId kernel) {
  const auto found = times.find(kernel);
  return found == times.end() ? std::numeric_limits<double>::infinity() : found->second;
}

constexpr std::array<std::string_view, 5> kWhy{"host_fault", "late", "too_slow", "not_computed", "earlier"};

}  // namespace

LeftOut LeftOut::after(const Evaluation& rejected) {
  if (rejected.host_fault)
    return {Why::host_fault, rejected.host_fault, std::string(cultivar::words_of(*rejected.host_fault))};
  return {Why::late, {}, "the measurement did not end in time"};
}
LeftOut LeftOut::too_slow(double most_seconds) {
  return {Why::too_slow, {}, fmt::format("a call takes more than {:.6g} ms", 1e3 * most_seconds)};
}
LeftOut LeftOut::not_computed() {
  return {Why::not_computed, {}, "no kernel computed it"};
}

void to_json(json& j, const ShapeTimes& t) {
  json kernels = json::object(), failed = json::object();
  for (const auto& [id, seconds] : t.kernels) kernels[std::to_string(id)] = seconds;
  for (const auto& [id, why] : t.failed) failed[std::to_string(id)] = why;
  j = {{"shape", t.shape},           {"values", t.values}, {"kernels", kernels},
       {"contenders", t.contenders}, {"failed", failed},   {"left_out", t.left_out ? t.left_out->words : ""},
       {"spent_s", t.spent_s}};
  if (!t.left_out) return;
  j["left_out_why"] = kWhy.at(static_cast<std::size_t>(t.left_out->why));
  if (t.left_out->fault) j["host_fault"] = name_of(*t.left_out->fault);
}

void from_json(const json& j, ShapeTimes& t) {
  t = {};
  j.at("shape").get_to(t.shape);
  for (const auto& [name, value] : j.at("values").items()) t.values[name] = value.get<double>();
  for (const auto& [id, seconds] : j.at("kernels").items()) t.kernels[std::stoll(id)] = seconds.get<double>();
  for (const auto& [id, why] : j.at("failed").items()) t.failed[std::stoll(id)] = why.get<std::string>();
  j.at("contenders").get_to(t.contenders);
  if (std::string words = j.at("left_out"); !words.empty()) {
    t.left_out = LeftOut{LeftOut::Why::earlier, {}, std::move(words)};
    const auto why = std::ranges::find(kWhy, j.value("left_out_why", std::string(kWhy.back())));
    if (why != kWhy.end()) t.left_out->why = static_cast<LeftOut::Why>(why - kWhy.begin());
    if (j.contains("host_fault")) t.left_out->fault = host_fault_named(j["host_fault"].get<std::string>());
  }
  j.at("spent_s").get_to(t.spent_s);
}

CULTIVAR_JSON(DomainDispatch, domain, most_bytes, most_seconds, kernels, table, learnt, drawn, listed,
              left_out)

TimedShape timed_shape(const ShapeTimes& times, const std::vector<IndividualId>& kernels) {
  TimedShape shape{times.values, {}};
  for (const IndividualId id : kernels) shape.seconds.push_back(infinite_if_absent(times.kernels, id));
  return shape;
}

DispatchFigures figures_of(const DomainDispatch& dispatch, const std::vector<ShapeTimes>& shapes) {
  DispatchFigures figures;
  std::vector<double> regrets, ratios;
  for (const ShapeTimes& times : shapes) {
    if (times.left_out) continue;
    const TimedShape shape = timed_shape(times, dispatch.kernels);
    regrets.push_back(regret(dispatch.table, shape));
    if (figures.worst_on.empty() || regrets.back() > figures.worst)
      figures.worst = regrets.back(), figures.worst_on = times.shape;
    if (times.contenders.empty()) continue;
    double fastest = std::numeric_limits<double>::infinity();
    for (const auto& [name, seconds] : times.contenders) fastest = std::min(fastest, seconds);
    ratios.push_back(fastest / (regrets.back() * shape.best()));
    if (figures.least_on.empty() || ratios.back() < figures.least)
      figures.least = ratios.back(), figures.least_on = times.shape;
  }
  figures.kernels = dispatch.kernels.size();
  figures.shapes = regrets.size();
  figures.beside = ratios.size();
  if (!regrets.empty()) figures.regret = geometric_mean(regrets);
  if (!ratios.empty()) {
    figures.ratio = geometric_mean(ratios);
    const Interval interval = bootstrap_interval(ratios, geometric_mean, 0.95, 1);
    figures.lower = interval.lower, figures.upper = interval.upper;
  }
  return figures;
}

void to_json(json& j, const DispatchFigures& f) {
  j = {{"shapes", f.shapes}};
  if (f.shapes > 0)
    j["regret"] = {{"geometric_mean", f.regret}, {"worst", f.worst}, {"worst_on", f.worst_on}};
  if (f.beside > 0)
    j["beside_the_fastest_contender"] = {{"shapes", f.beside},
                                         {"geometric_mean", f.ratio},
                                         {"interval_95", {f.lower, f.upper}},
                                         {"least", f.least},
                                         {"least_on", f.least_on}};
}

std::string words_of(const DispatchFigures& f, const std::string& shapes) {
  if (f.shapes == 0) return fmt::format("No time was measured on {}.", shapes);
  std::string words =
      f.kernels == 1
          ? fmt::format("One kernel was kept for all shapes, so that there is no choice to prove on {} {}.",
                        f.shapes, shapes)
          : fmt::format(
                "On {} {}, the kernel that the table chooses takes {:.3f} times as long as the best of them "
                "(geometric "
                "mean; goal {:.2f}{}), at most {:.3f} times (on {}; goal {:.2f}{}).",
                f.shapes, shapes, f.regret, kGoalRegret, f.regret <= kGoalRegret ? "" : ", missed", f.worst,
                f.worst_on, kGoalWorstRegret, f.worst <= kGoalWorstRegret ? "" : ", missed");
  if (f.beside == 0) return words + " No contender was timed beside it.";
  return words +
         fmt::format(
             " It has {:.3f} times the speed of the fastest contender of each of the {} shapes that "
             "one computed (geometric mean; 95 % interval {:.3f} - {:.3f}), at least {:.3f} times (on "
             "{}).",
             f.ratio, f.beside, f.lower, f.upper, f.least, f.least_on);
}

std::vector<std::string> rules_of(const DispatchTable& table, const std::vector<IndividualId>& kernels) {
  std::vector<std::string> lines;
  for (const std::size_t leaf : table.leaves()) {
    const auto conditions = table.conditions_of(leaf);
    std::vector<std::string> order;
    for (const std::size_t kernel : table.nodes[leaf].order)
      order.push_back(fmt::format("#{}", kernels.at(kernel)));
    lines.push_back(
        fmt::format("{}: {} ({} shapes)",
                    conditions.empty() ? "always" : fmt::format("{}", fmt::join(conditions, " and ")),
                    fmt::join(order, ", then "), table.nodes[leaf].shapes));
  }
  return lines;
}

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
    if (!fresh.why_new_.empty()) {
      std::error_code ignored;
      std::filesystem::rename(log.file_, fresh.earlier(), ignored);
    }
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
  for (const auto* const shapes : {&log.learning_, &log.proving_})
    for (const ShapeTimes& each : *shapes)
      if (each.left_out && each.left_out->passes()) log.known_.erase(each.shape);
  if (complete < text->size())
    if (auto ok = write_atomically(log.file_, std::string_view(*text).substr(0, complete)); !ok)
      return tl::make_unexpected(ok.error());
  return log;
}

void DomainLog::take(const json& line) {
  const std::string& what = line.at("what").get_ref<const std::string&>();
  if (what == "drawn") {
    auto times = line.at("times").get<ShapeTimes>();
    for (auto* const shapes : {&learning_, &proving_})
      std::erase_if(*shapes, [&](const ShapeTimes& each) { return each.shape == times.shape; });
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

// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/progress_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "engine/cli/output.hpp"
#include "engine/cli/record_views.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/plain_text.hpp"
#include "population/individual.hpp"

namespace cultivar {
namespace {

double now() {
  return in_seconds(Clock::now().time_since_epoch());
}

// "2026-11-30 14:05 "
std::string minute_now() {
  return local_minute(unix_now()) + " ";
}

// Lines of at most this many columns (npos: as long as they are). All but the first begin in column `below`,
// so that no text from outside looks like an event of its own.
std::string lines_of(const std::string& text, std::size_t below, std::size_t columns) {
  const std::string hang(below, ' ');
  std::string lines;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    const std::string line = (from == 0 ? "" : hang) + text.substr(from, end - from);
    lines += (from == 0 ? "" : "\n") + (columns == std::string::npos ? line : wrapped(line, columns, hang));
    from = end + 1;
  }
  return lines;
}

// The events shown without --verbose; the others are only in the record.
bool matters(const std::string& kind) {
  return kind != "rejected" && kind != "measured" && kind != "duel" && kind != "checkpoint" &&
         kind != "refused" && kind != "asked" && kind != "answered" && kind != "unanswered";
}

constexpr std::size_t kKey = 11;  // columns of a key

std::string doing_words(const InFlight& each) {
  switch (each.doing) {
    case InFlight::Doing::duel:
      return fmt::format("#{} in its duel with #{}{}", each.id, each.incumbent,
                         each.note.empty() ? "" : " (" + plain_line(each.note, 60) + ")");
    case InFlight::Doing::confirmation:
      return fmt::format("confirming #{}{}", each.id,
                         each.note.empty() ? "" : " (" + plain_line(each.note, 60) + ")");
    case InFlight::Doing::profile:
      return fmt::format("profiling #{}", each.id);
    default:
      return {};
  }
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts)
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  return text;
}

// The workers' devices, or else those that the record names.
void add_devices(LiveView& view, const std::vector<WorkersOf>& workers,
                 const std::vector<std::string>& named) {
  std::map<std::string, int> devices;
  for (const WorkersOf& pool : workers)
    if (pool.measures) devices[pool.device] += pool.workers;
  if (devices.empty())
    for (const std::string& device : named) ++devices[device];
  for (const auto& [device, count] : devices)
    view.lines.emplace_back("device",
                            (count > 1 ? fmt::format("{} x ", count) : "") + plain_line(device, 200));
}

std::string in_ascii(const std::string& text) {
  std::string plain;
  for (const char c : text)
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80)
      plain += static_cast<unsigned char>(c) < 0x80 ? c : '?';
  return plain;
}

std::string bar(double used, std::size_t columns, bool utf8) {
  const auto full =
      static_cast<std::size_t>(std::llround(std::clamp(used, 0.0, 1.0) * static_cast<double>(columns)));
  std::string text;
  for (std::size_t i = 0; i < columns; ++i)
    text += i < full ? (utf8 ? "\u2588" : "#") : (utf8 ? "\u2591" : ".");
  return text;
}

}  // namespace

std::string time_in_log(double seconds) {
  if (seconds < 3600.0) return duration(seconds);
  const auto whole = static_cast<std::int64_t>(seconds);
  return fmt::format("{}:{:02}:{:02} h", whole / 3600, whole / 60 % 60, whole % 60);
}

std::vector<ProgressField> fields_of(const Progress& p) {
  // Ranks: 0 what a person looks for first; 1 what goes on now; 2 and more: how it went so far.
  std::vector<ProgressField> fields;
  const auto add = [&](int rank, std::string text) { fields.push_back({std::move(text), rank}); };
  const std::string best = fmt::format("best {:.4g} {} (#{})", p.best_fitness, p.unit, p.best);
  if (p.best == 0)
    add(0, p.measured ? "no kernel confirmed yet" : "no kernel measured yet");
  else if (p.to_seed)
    fields.push_back({best + seed_text(*p.to_seed), 0, best});
  else
    add(0, best);
  add(3, fmt::format("{} evaluated", p.evaluations) +
             (p.evaluations_per_hour > 0 ? fmt::format(", {:.0f}/h", p.evaluations_per_hour) : ""));
  if (!p.rejected.empty()) add(6, rejected_text(p.rejected));
  add(5, fmt::format("{} in flight", p.in_flight.size()));
  for (const InFlight& each : p.in_flight) {  // these delay all other progress
    const std::string note = each.note.empty() ? "" : ": " + plain_line(each.note, 100);
    if (each.doing == InFlight::Doing::confirmation)
      add(1, fmt::format("confirming #{}{}", each.id, note));
    else if (each.doing == InFlight::Doing::duel)
      add(1, fmt::format("#{} in its duel with #{}{}", each.id, each.incumbent, note));
  }
  if (!p.step.empty()) add(1, plain_line(p.step, 150));
  if (p.questions) {
    const QuestionsOut& q = *p.questions;
    add(4, fmt::format("{} question{} pending{}", q.open, q.open == 1 ? "" : "s",
                       q.usd > 0 ? fmt::format(", {:.2f} USD", q.usd) : ""));
    if (!q.paused.empty())
      add(1, "paused: " + q.paused);
    else if (q.tools > 0)
      add(4, fmt::format("{} tool{} running", q.tools, q.tools == 1 ? "" : "s"));
    else if (p.in_flight.empty() && q.open > 0)
      add(2, "waiting for " + (q.waits_for.empty() ? "the next step of a question" : q.waits_for));
  }
  if (p.most_last_comparisons > 0)
    add(2, fmt::format("{} of the last {} comparisons, {} challenger{} waiting", p.last_comparisons,
                       p.most_last_comparisons, p.challengers, p.challengers == 1 ? "" : "s"));
  if (!p.closing.empty()) fields.push_back({ending_text(p.closing, p.closing_left_s), 0, "ending"});
  if (!p.waiting.empty()) add(1, p.waiting);
  std::string used = p.wall_limit_s > 0
                         ? fmt::format("{} of {}", duration(p.elapsed_s), duration(p.wall_limit_s))
                         : duration(p.elapsed_s);
  if (p.evaluation_limit > 0)
    used += fmt::format(", {} of {} evaluations", p.evaluations, p.evaluation_limit);
  const std::string left = duration(p.seconds_left) + " left";
  if (p.seconds_left > 0)
    fields.push_back({used + ", about " + left, 0, left});
  else
    add(0, std::move(used));
  return fields;
}

std::string line_of(std::vector<ProgressField> fields, std::size_t width) {
  const auto joined = [&] {
    std::string text;
    for (const ProgressField& field : fields) text += (text.empty() ? "" : " | ") + field.text;
    return text;
  };
  constexpr int kHistory = 3;            // from this rank on it is left out before anything is shortened
  constexpr std::size_t kReadable = 20;  // characters of what goes on now, of which the end is cut
  std::string text = joined();
  for (; text.size() > width; text = joined()) {
    const auto last = std::ranges::max_element(
        fields, {}, [](const auto& field) { return std::pair(field.rank, field.text.size()); });
    const auto lengthy = std::ranges::find_if(fields, [](const auto& f) { return !f.brief.empty(); });
    const std::size_t beyond = text.size() - width + 4;  // with the mark of what is omitted
    if (last->rank < kHistory && lengthy != fields.end())
      lengthy->text = std::exchange(lengthy->brief, {});
    else if (last->rank == 0)
      return text.substr(0, character_start(text, width));
    else if (last->rank == 1 && last->text.size() >= beyond + kReadable)
      last->text = plain_line(last->text, last->text.size() - beyond);
    else
      fields.erase(last);
  }
  return text;
}

std::string words_of(const Progress& progress) {
  return line_of(fields_of(progress));
}

ProgressLine::ProgressLine(bool verbose)
    : fields_(fields_of), verbose_(verbose), terminal_(redraws(stderr)), utf8_(speaks_utf8()) {
  constexpr std::size_t kLeastRows = 16;
  several_ = terminal_ && terminal_rows() >= kLeastRows;
}

ProgressLine::ProgressLine(bool verbose, Fields fields)
    : fields_(std::move(fields)), verbose_(verbose), terminal_(redraws(stderr)) {}

ProgressLine::~ProgressLine() {
  clear();
}

SearchCallbacks ProgressLine::callbacks() {
  return {[this](const Event& event) { show(event); }, [this](const Progress& progress) { show(progress); }};
}

void ProgressLine::clear() {
  if (drawn_.empty()) return;
  std::size_t rows = 0;  // a terminal that was made narrower has broken the lines
  for (const std::size_t columns : drawn_)
    rows += std::max<std::size_t>(1, (columns - 1) / terminal_width() + 1);
  std::string back = "\r";
  for (; rows > 1; --rows) back += "\033[A";
  drawn_.clear();
  std::fputs((back + "\033[J").c_str(), stderr);
}

void ProgressLine::show(const Progress& progress) {
  if (!terminal_ && now() < next_s_) return;
  next_s_ = now() + 10.0;
  if (!terminal_) {
    notify("{}{}\n", minute_now(), utf8_text(line_of(fields_(progress))));
    return;
  }
  std::vector<std::string> lines;
  if (several_) {
    const double since = progress.promoted_s > 0.0 ? progress.promoted_s : progress.elapsed_s;
    if (progress.best != 0 && (bests_.empty() || bests_.back().second != progress.best_fitness))
      bests_.emplace_back(since, progress.best_fitness);
    lines = drawn(live_view_of(progress, bests_), terminal_width() - 1, utf8_);
  } else {
    lines = {line_of(fields_(progress), terminal_width() - 1)};
  }
  clear();
  for (const std::string& line : lines) {
    std::fputs(((drawn_.empty() ? "" : "\n") + utf8_text(line)).c_str(), stderr);
    drawn_.push_back(std::max<std::size_t>(1, columns_of(line)));
  }
  std::fflush(stderr);
}

void ProgressLine::show(const Event& event) {
  if (!verbose_ && !matters(event.kind)) return;
  clear();
  const std::string begin = fmt::format("{}{:>9}  {:<10} ", terminal_ ? std::string() : minute_now(),
                                        time_in_log(event.elapsed_s), event.kind);
  const std::string subject =
      event.individual == 0 || event.kind == "stop" ? std::string() : fmt::format("#{} ", event.individual);
  notify("{}\n", lines_of(begin + subject + utf8_text(event.text), begin.size(), columns_of(stderr)));
}

bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const char* value = std::getenv(name); value && *value) {
      std::string text(value);
      std::ranges::transform(text, text.begin(),
                             [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
    }
  return false;
}

std::string sparkline(const BestsSoFar& bests, double elapsed_s, std::size_t columns, bool utf8) {
  static constexpr std::array<std::string_view, 8> blocks{"\u2581", "\u2582", "\u2583", "\u2584",
                                                          "\u2585", "\u2586", "\u2587", "\u2588"};
  static constexpr std::array<std::string_view, 8> letters{"_", ".", ":", "-", "=", "+", "*", "#"};
  if (bests.empty() || columns == 0) return {};
  const double low = bests.front().second, high = std::max(low, bests.back().second);
  const double until = std::max(elapsed_s, bests.back().first);
  std::string line;
  std::size_t next = 0;
  double now = 0.0;
  for (std::size_t i = 0; i < columns; ++i) {
    const double time = until * static_cast<double>(i + 1) / static_cast<double>(columns);
    while (next < bests.size() && bests[next].first <= time) now = bests[next++].second;
    if (now <= 0.0) {
      line += ' ';
      continue;
    }
    const double part = high > low && low > 0.0 ? std::log(now / low) / std::log(high / low) : 1.0;
    line +=
        (utf8 ? blocks : letters)[static_cast<std::size_t>(std::lround(7.0 * std::clamp(part, 0.0, 1.0)))];
  }
  return line;
}

LiveView live_view_of(const Progress& p, const BestsSoFar& bests) {
  LiveView view;
  view.bests = bests;
  view.elapsed_s = p.elapsed_s;
  const auto add = [&](const char* key, std::string words) {
    if (!words.empty()) view.lines.emplace_back(key, std::move(words));
  };
  if (p.best == 0)
    add("best", p.measured ? "no kernel confirmed yet" : "no kernel measured yet");
  else
    add("best",
        fmt::format(
            "{:.4g} {} (#{}){}{}", p.best_fitness, p.unit, p.best, p.to_seed ? seed_text(*p.to_seed) : "",
            p.promoted_s > 0 ? ", " + duration(std::max(0.0, p.elapsed_s - p.promoted_s)) + " ago" : ""));
  add("evaluated",
      joined({fmt::format("{}", p.evaluations),
              p.evaluations_per_hour > 0 ? fmt::format("{:.0f}/h", p.evaluations_per_hour) : "",
              fmt::format("{} measured", p.measured), p.rejected.empty() ? "" : rejected_text(p.rejected)}));
  std::vector<std::string> now;
  std::array<int, 4> count{};
  for (const InFlight& each : p.in_flight) {
    now.push_back(doing_words(each));
    if (each.doing <= InFlight::Doing::evaluating) ++count.at(static_cast<std::size_t>(each.doing));
  }
  static constexpr std::array<const char*, 4> names{"waiting for a compiler", "compiling",
                                                    "waiting for a device", "evaluating"};
  for (std::size_t i = count.size(); i-- > 0;)
    if (count.at(i) > 0) now.push_back(fmt::format("{} {}", count.at(i), names.at(i)));
  if (p.challengers > 0) now.push_back(counted(p.challengers, "challenger") + " waiting");
  add("now", now.empty() ? "nothing in flight" : joined(now));
  if (!p.step.empty()) add("step", plain_line(p.step, 200));
  if (p.questions) {
    const QuestionsOut& q = *p.questions;
    add("models", joined({counted(q.open, "question") + " open",
                          q.calls > 0 ? fmt::format("{} in flight", q.calls) : "",
                          q.tools > 0 ? counted(q.tools, "tool") + " running" : "",
                          q.usd > 0 ? fmt::format("{:.2f} USD", q.usd) : "",
                          q.paused.empty() ? "" : "paused: " + plain_line(q.paused, 100)}));
  }
  if (!p.waiting.empty()) add("waits", plain_line(p.waiting, 200));
  if (!p.closing.empty()) add("state", ending_text(p.closing, p.closing_left_s));
  add_devices(view, p.workers, {});
  if (p.device_limit_s <= 0) add("device time", duration(p.device_s) + " of checks and measurements");
  if (p.wall_limit_s > 0)
    view.budgets.push_back({name_of_budget("wall"), duration(p.elapsed_s) + " of " + duration(p.wall_limit_s),
                            p.elapsed_s / p.wall_limit_s});
  if (p.evaluation_limit > 0)
    view.budgets.push_back({"evaluations", fmt::format("{} of {}", p.evaluations, p.evaluation_limit),
                            static_cast<double>(p.evaluations) / static_cast<double>(p.evaluation_limit)});
  if (p.device_limit_s > 0)
    view.budgets.push_back({name_of_budget("device_hours"),
                            duration(p.device_s) + " of " + duration(p.device_limit_s),
                            p.device_s / p.device_limit_s});
  if (view.budgets.empty()) add("search time", duration(p.elapsed_s) + ", no limit");
  if (p.seconds_left > 0) add("left", "about " + duration(p.seconds_left));
  return view;
}

LiveView live_view_of(const Summary& s, const BestsSoFar& bests) {
  LiveView view;
  view.bests = bests;
  view.elapsed_s = s.elapsed_s;
  const auto add = [&](const char* key, std::string words) {
    if (!words.empty()) view.lines.emplace_back(key, std::move(words));
  };
  view.head = fmt::format("{}: {} on {}, {}{}", s.run, s.task, s.target, s.state,
                          s.stop_reason.empty() ? "" : " (" + plain_line(s.stop_reason, 100) + ")");
  std::string best = "none yet";
  if (s.best) {
    best = fmt::format("{:.4g} {} (#{})", s.best->fitness, s.best->unit, s.best->id);
    if (s.best->ratio_to_seed && *s.best->ratio_to_seed != 1.0)
      best += seed_text({*s.best->ratio_to_seed, s.best->seed_beside});
    if (!bests.empty()) best += ", " + duration(std::max(0.0, s.elapsed_s - bests.back().first)) + " ago";
    for (const auto& [name, ratio] : s.best->ratios) best += fmt::format(", {} {}", ratio_words(ratio), name);
  }
  add("best", best);
  add("evaluated", joined({fmt::format("{}", s.evaluations),
                           s.evaluations_per_hour > 0 ? fmt::format("{:.0f}/h", s.evaluations_per_hour) : "",
                           measured_text(s), s.rejected.empty() ? "" : rejected_text(s.rejected)}));
  if (s.started_at) add("began", times_of(s).front().second);
  const std::string now =
      joined({s.in_flight > 0 ? fmt::format("{} in flight", s.in_flight) : "",
              s.duel ? fmt::format("duel of #{} with #{}", s.duel->challenger, s.duel->incumbent) : "",
              s.challengers > 0 ? counted(s.challengers, "challenger") + " waiting" : ""});
  if (!now.empty() || s.step.empty()) add("now", now.empty() ? "nothing in flight" : now);
  if (!s.step.empty()) add("step", plain_line(s.step, 200));
  add("gate", counted(s.duels, "duel") + ", " + counted(s.promotions, "promotion"));
  if (s.waiting) add("waits", plain_line(s.waiting->why, 200));
  if (s.ending) add("state", ending_text(s.ending->why, s.ending->left_s));
  for (const auto& [name, model] : s.models.items())
    add("model", fmt::format("{}: {} calls, {} in flight, {:.2f} USD", plain_line(name, 40),
                             model.value("calls", std::int64_t{0}), model.value("in_flight", 0),
                             model.value("usd", 0.0)));
  add_devices(view, s.workers, s.devices);
  if (!s.lost.empty()) add("incomplete", plain_line(s.lost, 200));
  for (const auto& [kind, use] : s.budget) {
    if (!use.limit || *use.limit <= 0.0) continue;
    view.budgets.push_back({name_of_budget(kind), used_text(s, kind) + " of " + amount_text(kind, *use.limit),
                            use.used / *use.limit});
  }
  if (view.budgets.empty()) add("search time", duration(s.elapsed_s) + ", no limit");
  return view;
}

std::vector<std::string> drawn(const LiveView& view, std::size_t width, bool utf8) {
  std::vector<std::string> lines;
  const auto put = [&](const std::string& text) {
    lines.push_back(between_words(utf8 ? text : in_ascii(text), width));
  };
  if (!view.head.empty()) put(view.head);
  const std::size_t columns = std::min<std::size_t>(40, width > kKey + 2 ? width - kKey - 2 : 0);
  bool first = true;
  for (const auto& [key, words] : view.lines) {
    put(fmt::format("{:<{}} {}", key, kKey, words));
    if (!std::exchange(first, false)) continue;
    if (const std::string spark = sparkline(view.bests, view.elapsed_s, columns, utf8); !spark.empty())
      lines.push_back(std::string(kKey + 1, ' ') + spark);
  }
  for (const LiveView::Share& budget : view.budgets)
    put(fmt::format("{:<{}} {} {:3.0f} %  {}", budget.name, kKey, bar(budget.used, 20, utf8),
                    100.0 * std::min(1.0, budget.used), budget.words));
  return lines;
}

}  // namespace cultivar

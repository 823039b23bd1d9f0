// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/progress_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/cli/output.hpp"
#include "engine/cli/record_views.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/plain_text.hpp"

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

}  // namespace cultivar

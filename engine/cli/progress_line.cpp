// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/progress_line.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "engine/cli/output.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

double now() {
  return in_seconds(Clock::now().time_since_epoch());
}

// "14:05 ", of this machine's time zone.
std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("{:02}:{:02} ", local.tm_hour, local.tm_min);
}

// Continuation lines begin below the text, so that no text from outside looks like an event of its own.
std::string indented(const std::string& text, std::size_t width) {
  std::string result;
  for (const char c : text) result += c == '\n' ? "\n" + std::string(width, ' ') : std::string(1, c);
  return result;
}

std::size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 100;
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

std::string words_of(const Progress& p) {
  std::string text = p.best == 0
                         ? std::string(p.measured ? "no kernel confirmed yet" : "no kernel measured yet")
                         : fmt::format("best {:.4g} {} (#{}", p.best_fitness, p.unit, p.best);
  if (p.best != 0) text += p.ratio_to_seed > 0 ? fmt::format(", {} seed)", ratio_of(p.ratio_to_seed)) : ")";
  text += fmt::format(" | {} evaluated", p.evaluations);
  if (p.evaluations_per_hour > 0) text += fmt::format(", {:.0f}/h", p.evaluations_per_hour);
  std::int64_t rejected = 0;
  std::string stages;
  for (const auto& [stage, count] : p.rejected) {
    rejected += count;
    stages += fmt::format("{}{} {}", stages.empty() ? "" : ", ", name_of(stage), count);
  }
  if (rejected > 0) text += fmt::format(" | rejected {} ({})", rejected, stages);
  text += fmt::format(" | {} in flight", p.in_flight.size());
  for (const InFlight& each : p.in_flight)  // these delay all other progress
    if (each.doing == InFlight::Doing::confirmation)
      text += fmt::format(", #{} being confirmed", each.id);
    else if (each.doing == InFlight::Doing::duel)
      text += fmt::format(", #{} in its duel with #{}{}", each.id, each.incumbent,
                          each.note.empty() ? "" : ": " + plain_line(each.note, 100));
  if (!p.step.empty()) text += ", " + plain_line(p.step, 150);
  if (p.questions) {
    const QuestionsOut& q = *p.questions;
    text += fmt::format(" | {} question{} pending", q.open, q.open == 1 ? "" : "s");
    if (q.usd > 0) text += fmt::format(", {:.2f} USD", q.usd);
    if (!q.paused.empty())
      text += " | paused: " + q.paused;
    else if (q.tools > 0)
      text += fmt::format(" | {} tool{} running", q.tools, q.tools == 1 ? "" : "s");
    else if (p.in_flight.empty() && q.open > 0)
      text += " | waiting for " + (q.waits_for.empty() ? "the next step of a question" : q.waits_for);
  }
  if (p.most_last_comparisons > 0)
    text += fmt::format(" | {} of the last {} comparisons, {} challenger{} waiting", p.last_comparisons,
                        p.most_last_comparisons, p.challengers, p.challengers == 1 ? "" : "s");
  if (!p.closing.empty()) text += " | ending: " + p.closing;
  if (!p.waiting.empty()) text += " | " + p.waiting;
  if (p.wall_limit_s > 0)
    text += fmt::format(" | {} of {}", duration(p.elapsed_s), duration(p.wall_limit_s));
  else
    text += " | " + duration(p.elapsed_s);
  if (p.evaluation_limit > 0)
    text += fmt::format(", {} of {} evaluations", p.evaluations, p.evaluation_limit);
  if (p.seconds_left > 0) text += fmt::format(", about {} left", duration(p.seconds_left));
  return text;
}

ProgressLine::ProgressLine(bool verbose, Words words)
    : words_(std::move(words)), verbose_(verbose), terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  clear();
}

SearchCallbacks ProgressLine::callbacks() {
  return {[this](const Event& event) { show(event); }, [this](const Progress& progress) { show(progress); }};
}

void ProgressLine::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void ProgressLine::show(const Progress& progress) {
  if (!terminal_ && now() < next_s_) return;
  next_s_ = now() + 10.0;
  std::string text = utf8_text(words_(progress));
  if (!terminal_) {
    notify("{}{}\n", time_of_day(), text);
    return;
  }
  const std::size_t width = terminal_width() - 1;
  if (text.size() > width) text.resize(std::min(width, text.find_last_of(",|", width)));  // whole fields
  notify("\r\033[K{}", text);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressLine::show(const Event& event) {
  if (!verbose_ && !matters(event.kind)) return;
  clear();
  const std::string begin = fmt::format("{}{:>9}  {:<10} ", terminal_ ? std::string() : time_of_day(),
                                        time_in_log(event.elapsed_s), event.kind);
  notify(
      "{}{}{}\n", begin,
      event.individual == 0 || event.kind == "stop" ? std::string() : fmt::format("#{} ", event.individual),
      indented(utf8_text(event.text), begin.size()));
}

}  // namespace cultivar

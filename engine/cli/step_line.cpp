// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/step_line.hpp"

#include <cstdio>
#include <utility>

#include "engine/cli/output.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

constexpr std::size_t kWidth = 100;  // of what is not shown on a terminal
constexpr auto kRedrawn = std::chrono::seconds(1), kTold = std::chrono::seconds(10);

}  // namespace

StepLine::StepLine(std::string text)
    : terminal_(redraws(stderr)),
      text_(std::move(text)),
      watcher_([this](const std::stop_token& stop) { watch(stop); }) {
  const std::lock_guard lock(mutex_);
  if (terminal_) draw();
}

StepLine::~StepLine() {
  watcher_.request_stop();
  const std::lock_guard lock(mutex_);
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void StepLine::show(std::string text) {
  const std::lock_guard lock(mutex_);
  text_ = std::move(text);
  if (terminal_) draw();
}

void StepLine::draw() {
  last_ = Clock::now();
  const double taken = in_seconds(last_ - began_);
  const std::string time = taken < 1.0 ? "" : fmt::format(" ({})", duration(taken));
  const std::size_t room = terminal_ ? terminal_width() - time.size() - 5 : kWidth;  // with the mark of a cut
  const std::string line = plain_line(text_, room) + time;
  std::fputs(((terminal_ ? "\r\033[K" : "") + line + (terminal_ ? "" : "\n")).c_str(), stderr);
  std::fflush(stderr);
}

void StepLine::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const auto due = last_ + (terminal_ ? kRedrawn : kTold);
    ending_.wait_until(lock, stop, due, [] { return false; });
    if (!stop.stop_requested() && Clock::now() >= due) draw();
  }
}

}  // namespace cultivar

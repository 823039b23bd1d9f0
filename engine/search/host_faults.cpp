// SPDX-License-Identifier: Apache-2.0
#include "engine/search/host_faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/config/duration.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace {

// After this many faults between which a known kernel was well, a fault that variants can cause is the
// variant's.
constexpr int kCleared = 2;
// A variant that met this many faults waits until the search is resumed.
constexpr int kMostFaults = 8;
constexpr double kFirstRest = 0.1, kLongestRest = 300.0;  // seconds
constexpr double kMostOfPatience = 0.01;                  // for one rest
constexpr std::size_t kShownBytes = 300;

}  // namespace

HostFaults::HostFaults(Recorder& recorder, double patience_s)
    : recorder_(recorder), patience_s_(patience_s) {}

void HostFaults::rest(const std::string& why) {
  if (in_a_row_++ == 0) first_at_ = recorder_.elapsed();
  // One fault alone may be an accident of one worker.
  const double longest = std::min(kLongestRest, kMostOfPatience * patience_s_);
  const double gap =
      in_a_row_ == 1 ? 0.0 : std::min(longest, kFirstRest * std::exp2(std::min(in_a_row_ - 2, 20)));
  // Many searches that lost the same machine must not all come back to it at once.
  rest_until_ = recorder_.elapsed() + gap * std::uniform_real_distribution<>(0.5, 1.5)(jitter_);
  last_words_ = plain_line(why, kShownBytes);
}

HostFaults::Ruling HostFaults::rule(IndividualId id, HostFault fault) {
  Met& met = met_[id];
  ++met.faults;
  if (may_be_the_variants(fault) && met.cleared >= kCleared) return Ruling::variants;
  if (may_be_the_variants(fault)) {
    met.suspect = true;
    if (canary_ == Canary::none) canary_ = Canary::due;
  }
  return met.faults < kMostFaults ? Ruling::again : Ruling::put_off;
}

HostFaults::Ruling HostFaults::met(IndividualId id, Examination of, const Evaluation& evaluation) {
  const HostFault fault = evaluation.host_fault.value();
  Ruling ruling = rule(id, fault);
  if (ruling == Ruling::variants) return ruling;
  // A confirmation is all that the search has to wait for, so it is repeated for as long as the patience
  // lasts.
  if (of == Examination::confirm) ruling = Ruling::again;
  rest(evaluation.reason);
  if (of == Examination::search) (ruling == Ruling::again ? held_ : put_off_).insert(id);
  std::string details = plain_line(evaluation.diagnostics, kShownBytes);
  details.erase(details.find_last_not_of(" .") + 1);
  if (!details.empty()) details = " (" + details + ")";
  recorder_.step([&](Step& step) {
    step.host_fault(id, of, evaluation);
    recorder_.tell(
        step, "trouble", id,
        fmt::format("{}: {}{}; {}", name_of(evaluation.stage), evaluation.reason, details,
                    ruling == Ruling::put_off
                        ? fmt::format("after {} faults of this machine it waits until the search is resumed",
                                      kMostFaults)
                    : of == Examination::confirm ? "this is the machine's fault, so it is confirmed again"
                                                 : "this is the machine's fault, so it is evaluated again"));
  });
  return ruling;
}

HostFaults::Ruling HostFaults::met_in_duel(IndividualId id, HostFault fault, const std::string& what) {
  if (rule(id, fault) == Ruling::variants) return Ruling::variants;
  rest(std::string(words_of(fault)));
  recorder_.trouble(id, fmt::format("duel: {} ({}); this is the machine's fault, so the duel is repeated",
                                    words_of(fault), plain_line(what, kShownBytes)));
  return Ruling::again;
}

HostFaults::Ruling HostFaults::met_by_contender(IndividualId id, int number, const std::string& name,
                                                const Evaluation& evaluation) {
  const IndividualId key = -number;  // no individual's
  if (const Ruling ruling = rule(key, evaluation.host_fault.value()); ruling != Ruling::again) {
    met_.erase(key);  // the next confirmation tries again
    return ruling;
  }
  rest(evaluation.reason);
  recorder_.trouble(id, fmt::format("contender {}: {}; this is the machine's fault, so it is compiled again "
                                    "for the confirmation",
                                    name, evaluation.reason));
  return Ruling::again;
}

void HostFaults::no_worker(IndividualId id, const Error& error) {
  rest(error.text());
  recorder_.trouble(id, fmt::format("{} (the search waits and tries again, for at most {} without a result: "
                                    "evaluation.patience)",
                                    error.text(), duration(patience_s_)));
}

void HostFaults::succeeded() {
  in_a_row_ = 0;
  rest_until_ = 0.0;
  last_words_.clear();
}

std::vector<IndividualId> HostFaults::released() {
  if (resting() || canary_ != Canary::none) return {};
  std::vector<IndividualId> all(held_.begin(), held_.end());
  held_.clear();
  return all;
}

void HostFaults::canary_returned(std::optional<bool> well) {
  canary_ = Canary::none;
  for (auto& [id, met] : met_) {
    if (met.suspect && well.value_or(false)) ++met.cleared;
    met.suspect = false;
  }
}

std::optional<std::string> HostFaults::out_of_patience() const {
  if (in_a_row_ == 0 || recorder_.elapsed() - first_at_ < patience_s_) return std::nullopt;
  return fmt::format(
      "no worker gave a result for {} (evaluation.patience); the last fault: {}. All results so far are "
      "recorded, and a resumed search continues with the pending kernels",
      duration(recorder_.elapsed() - first_at_), last_words_);
}

std::string HostFaults::why_put_off() const {
  return fmt::format(
      "{} kernel{} met {} faults of this machine each, the last: {}. A resumed search evaluates them again",
      put_off_.size(), put_off_.size() == 1 ? "" : "s", kMostFaults, last_words_);
}

std::string HostFaults::waiting_words() const {
  if (in_a_row_ == 0) return {};
  const double left = rest_until_ - recorder_.elapsed();
  return fmt::format("no worker: waiting since {}, {}: {}", duration(recorder_.elapsed() - first_at_),
                     left > 0 ? fmt::format("next try in {}", duration(std::ceil(left))) : "trying now",
                     last_words_);
}

std::optional<Pause> HostFaults::pause() const {
  if (in_a_row_ < 2) return std::nullopt;  // one alone may be an accident of one worker
  const double now = unix_now(), elapsed = recorder_.elapsed();
  return Pause{now - (elapsed - first_at_), now + (rest_until_ - elapsed), last_words_};
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "operators/prompts/prompt_writer.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <limits>

#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/timing/roofline.hpp"
#include "operators/prompts/compact_report.hpp"
#include "population/individual.hpp"

namespace cultivar {

namespace {

std::string shorter(std::string text, std::size_t most) {
  std::ranges::replace(text, '\n', ' ');
  if (text.size() <= most) return text;
  return text.substr(0, character_start(text, most)) + "...";
}

}  // namespace

PromptWriter::PromptWriter(const PromptContext& context, const PromptKit& kit, IndividualId subject,
                           std::function<bool(const std::string&)> keeps_sources)
    : s_(context),
      speeds_(s_),
      kit_(kit),
      subject_(subject),
      keeps_sources_(std::move(keeps_sources)),
      evaluation_(context.record_view.evaluation(subject)),
      profile_(context.record_view.profile(subject)),
      line_(chain_to_seed(subject, [&](IndividualId id) { return context.archive.parents(id); })) {
  for (const Workload& w : s_.workloads)
    if (const double floor = least_run_seconds(s_.task, w, s_.seen, s_.facts, s_.target); floor > 0.0)
      floors_us_.push_back(1e6 * floor);
}

void PromptWriter::add(const std::string& slot, std::string text, int rank, std::string name) {
  if (!text.empty()) pieces_.push_back({slot, std::move(text), rank, std::move(name)});
}

void PromptWriter::add_kernel() {
  add("parent", kernel_text(subject_), 0);
}

void PromptWriter::add_kernel_briefly() {
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(0, 3 * kit_.options().prompt_tokens / 4));
  add("parent", kernel_text(subject_, most), 4, "kernel");
}

void PromptWriter::add_measurements() {
  if (evaluation_ && evaluation_->measured()) add("parent", table_of(*evaluation_), 1, "table");
}

std::string PromptWriter::find_report() {
  // Not all kernels are profiled; otherwise the profile of the nearest profiled ancestor is used, unless it
  // is so slow that its limits are not those of this kernel.
  constexpr double kAkin = 0.5;
  reported_ = profile_;
  reported_of_ = subject_;
  const double least = kAkin * s_.archive.fitness(subject_);
  for (auto ancestor = line_.rbegin(); ancestor != line_.rend() && !reported_; ++ancestor)
    if (s_.archive.fitness(*ancestor) >= least && (reported_ = s_.record_view.profile(*ancestor))) {
      reported_of_ = *ancestor;
      return fmt::format("It was not profiled; this is the profile of its ancestor #{}{}:\n\n", *ancestor,
                         limit() ? "" : ", whose source differs: what it shows may be gone by now");
    }
  return {};
}

std::vector<std::string> PromptWriter::nearest_report() {
  const std::string whose = find_report();
  if (!reported_) return {};
  std::vector<std::string> parts = report_of(reported_of_, *reported_);
  if (!parts.empty()) parts.front().insert(0, whose);
  return parts;
}

void PromptWriter::add_report() {
  bool first = true;
  for (const std::string& part : nearest_report()) {
    add("report", part, reported_of_ == subject_ ? 1 : 3, first ? "report" : "lines of the report");
    first = false;
  }
}

std::optional<Finding> PromptWriter::limit() const {
  if (!reported_ || s_.archive.source_id(reported_of_) != s_.archive.source_id(subject_)) return std::nullopt;
  const Report report = explain(*reported_);
  for (const Finding& finding : report.findings)
    if (finding.kind != "roofline" || !far_from_roofline()) return finding;
  return std::nullopt;
}

bool PromptWriter::far_from_roofline() const {
  constexpr double kFar = 0.7;
  if (!evaluation_ || floors_us_.size() != s_.workloads.size()) return false;
  for (std::size_t i = 0; i < s_.workloads.size(); ++i)
    for (const WorkloadResult& row : evaluation_->workloads)
      if (row.workload == reported_->workload && row.workload == s_.workloads[i].name && row.median_us > 0.0)
        return floors_us_[i] / row.median_us < kFar;
  return false;
}

void PromptWriter::add_answer() {
  add("answer", kit_.piece("answer"), 0);
}

bool PromptWriter::keeps_source(IndividualId id) const {
  return s_.archive.origin(id) == Origin::operator_ && keeps_sources_ && keeps_sources_(s_.archive.op(id));
}

std::string PromptWriter::kernel_text(IndividualId id, std::size_t most) const {
  const Member member = s_.archive.member(id);
  std::string source = s_.record_view.source(id);
  if (source.size() > most) {  // in complete lines
    const std::size_t end = source.rfind('\n', most) + 1;
    const auto omitted = std::count(source.begin() + static_cast<std::ptrdiff_t>(end), source.end(), '\n');
    source = source.substr(0, end) + fmt::format("[... {} lines omitted]\n", omitted);
  }
  return fmt::format("#{} ({}), with {}\n\n{}", id, standing_word(id),
                     describe_configuration(member.configuration),
                     fenced(source, language_of(source, usual_language(s_.target))->fence));
}

std::string PromptWriter::standing_word(IndividualId id) const {
  if (id == s_.incumbent) return "the best so far";
  if (id == s_.winner) return "faster than the best by its duel, being confirmed";
  switch (s_.archive.state(id)) {
    case Member::State::measured:
      return fmt::format("fitness {:.5g} {}", s_.archive.fitness(id),
                         s_.archive.duel(id) ? "by its duel" : "by one measurement");
    case Member::State::rejected:
      return "refused";
    case Member::State::in_flight:
      break;
  }
  return "not evaluated yet";
}

// Values are such that a row's value over them is the ratio that duels, or measurements at the same pace,
// give.
std::vector<Reference> PromptWriter::references(const Evaluation& own) const {
  std::vector<Reference> all;
  if (s_.incumbent == 0) return all;
  std::vector<double> beside;  // the subject's speed over the incumbent's, by workload; 0: unknown
  std::vector<double> values;
  for (std::size_t w = 0; w < s_.workloads.size(); ++w) {
    const double mine = speeds_.value(subject_, w), best = speeds_.value(s_.incumbent, w);
    beside.push_back(mine > 0.0 && best > 0.0 ? mine / best : 0.0);
    const auto row = std::ranges::find(own.workloads, s_.workloads[w].name, &WorkloadResult::workload);
    values.push_back(row == own.workloads.end() ? 0.0 : row->value);
  }
  if (subject_ != s_.incumbent) {
    Reference incumbent{fmt::format("best (#{})", s_.incumbent), {}};
    const DuelResult* const duel = s_.archive.duel(subject_);
    const bool direct = duel && duel->incumbent == s_.incumbent;
    incumbent.basis = direct ? "in a duel"
                      : speeds_.by_duels(subject_, s_.incumbent)
                          ? "by their duels"
                          : fmt::format("one measurement of each, noise {:.0f} %",
                                        100.0 * std::expm1(speeds_.noise(subject_, s_.incumbent)));
    for (std::size_t w = 0; w < s_.workloads.size(); ++w) {
      incumbent.values.push_back(beside[w] > 0.0 ? values[w] / beside[w] : 0.0);
      incumbent.bounds.emplace_back();
      if (direct && w < duel->workloads.size() && std::isfinite(duel->workloads[w].lower) &&
          std::isfinite(duel->workloads[w].upper))
        incumbent.bounds.back() = {std::exp(duel->workloads[w].lower), std::exp(duel->workloads[w].upper)};
    }
    all.push_back(std::move(incumbent));
  }
  for (const auto& [name, ratios] : s_.record_view.contenders()) {
    Reference contender{name, {}};
    for (std::size_t w = 0; w < s_.workloads.size(); ++w) {
      const auto ratio = ratios.find(s_.workloads[w].name);  // its time divided by the incumbent's
      contender.values.push_back(ratio != ratios.end() && ratio->second > 0 && beside[w] > 0.0
                                     ? values[w] / (beside[w] * ratio->second)
                                     : 0.0);
    }
    all.push_back(std::move(contender));
  }
  return all;
}

std::string PromptWriter::table_of(const Evaluation& evaluation) const {
  Evaluation told = evaluation;
  std::string scale;
  if (const double fitness = s_.archive.fitness(subject_); fitness > 0.0) {
    constexpr double kPlain = 0.05;
    const double pace = evaluation.fitness / fitness;
    const bool differs = std::fabs(std::log(pace)) > kPlain;
    if (differs && s_.archive.duel(subject_) != nullptr)
      scale =
          "\nFitness follows from its duel; the times are of one measurement, when the machine may have had "
          "another pace. Only the columns `vs` allow for that.\n";
    else if (differs)
      scale = fmt::format(
          "\nFitness is stated for the pace of the search's first measurement; the machine was {:.2g} times "
          "as fast when these times were taken. Only the columns `vs` allow for that.\n",
          pace);
    told.fitness = fitness;
  }
  return "Measurements:\n\n" + describe_measurements(told, s_.workloads, floors_us_, references(evaluation)) +
         scale;
}

std::vector<std::string> PromptWriter::report_of(IndividualId id, const Profile& profile) const {
  std::optional<Profile> before;
  for (auto ancestor = line_.rbegin(); ancestor != line_.rend() && !before; ++ancestor)
    if (*ancestor != id)
      if (auto found = s_.record_view.profile(*ancestor); found && found->workload == profile.workload)
        before = std::move(found);
  return compact_report(profile, before ? &*before : nullptr);
}

void PromptWriter::add_standing() {
  if (s_.incumbent == 0) return;
  std::string words =
      fmt::format("The best so far is #{}, at {:.5g}.", s_.incumbent, s_.archive.fitness(s_.incumbent));
  const DuelResult* const duel = s_.archive.duel(subject_);
  if (subject_ == s_.incumbent) {
    words = "This is the best kernel so far.";
    if (duel)
      words +=
          fmt::format(" Its gain over the best before it, #{}: {}.", duel->incumbent, gain_words(duel->all));
  } else if (s_.archive.state(subject_) == Member::State::measured) {
    words += " The speed of this one over the best: " + speeds_.gain(subject_, s_.incumbent) + ".";
    if (duel && duel->incumbent == s_.incumbent)
      words += duel->verdict == Verdict::undecided ? " The duel did not decide." : " That is decided.";
  }
  if (s_.winner == subject_ && subject_ != s_.incumbent)
    words += " It becomes the best if its confirmation, on the holdout and on every check, passes.";
  else if (const DuelResult* const won = s_.winner != 0 ? s_.archive.duel(s_.winner) : nullptr)
    words += fmt::format(" #{} won its duel against the best, {}, and is being confirmed.", s_.winner,
                         gain_words(won->all));
  const auto best = s_.record_view.evaluation(s_.incumbent);
  if (best && floors_us_.size() == s_.workloads.size()) {
    double least = std::numeric_limits<double>::infinity(), most = 0.0;  // as in its table
    for (std::size_t i = 0; i < s_.workloads.size(); ++i)
      for (const WorkloadResult& row : best->workloads)
        if (row.workload == s_.workloads[i].name && row.median_us > 0) {
          const double share = floors_us_[i] / row.median_us;
          least = std::min(least, share);
          most = std::max(most, share);
        }
    if (most > 0)
      words += fmt::format(" {} reaches {} to {} of the device's measured peak.",
                           subject_ == s_.incumbent ? "It" : "The best", share_in_words(least),
                           share_in_words(most));
  }
  for (const auto& [name, ratios] : s_.record_view.contenders()) {
    double least = 1e300, most = 0.0;
    for (const auto& [workload, ratio] : ratios) {
      least = std::min(least, ratio);
      most = std::max(most, ratio);
    }
    if (most > 0)
      words +=
          fmt::format(" Its speed is {1:.3g}x to {2:.3g}x that of the contender {0}.", name, least, most);
  }
  add("standing", std::move(words), 2, "standing");
}

// Facts that explain its speed: resources that differ from its parent's, the workload with the least gain,
// the spread of its times, and its bottleneck.
std::string PromptWriter::causes(IndividualId id, const Member& member) const {
  const auto& now = speeds_.evaluation(id);
  if (!now || !now->measured()) return {};
  std::vector<std::string> known;
  const auto before = member.parents.empty() ? std::nullopt : speeds_.evaluation(member.parents.front());
  if (before && before->measured()) {
    for (const auto& [name, value] : now->resources.values) {
      const auto was = before->resources.values.find(name);
      if (name != "text_bytes" && was != before->resources.values.end() &&
          std::abs(value - was->second) > 0.1 * std::max(value, was->second))
        known.push_back(fmt::format("{} {:.0f} -> {:.0f}", name, was->second, value));
    }
    if (std::string least = speeds_.least_gain(id, member.parents.front()); !least.empty())
      known.push_back(std::move(least));
  }
  double spread = 0.0;
  for (const WorkloadResult& row : now->workloads)
    if (row.median_us > 0.0) spread = std::max(spread, (row.q3_us - row.q1_us) / row.median_us);
  if (spread > 0.1) known.push_back(fmt::format("its times vary by {:.0f} %", 100.0 * spread));
  if (const auto profile = s_.record_view.profile(id); profile && id != subject_)
    if (const auto findings = explain(*profile).findings; !findings.empty())
      known.push_back(shorter(findings.front().words, 100));
  return known.empty() ? std::string() : fmt::format(" [{}]", fmt::join(known, "; "));
}

std::string PromptWriter::told(IndividualId id, std::size_t most) const {
  const Member member = s_.archive.member(id);
  const IndividualFacts life = s_.record_view.life(id);
  std::string words = fmt::format("- #{} {}", id, name_of(member.origin, member.op));
  if (!member.parents.empty()) words += fmt::format(" of #{}", fmt::join(member.parents, ", #"));
  if (!life.note.empty()) words += ": " + shorter(life.note, most);
  if (member.state == Member::State::measured) {
    words += " -> " + speeds_.result(id) + causes(id, member);
  } else if (member.state == Member::State::rejected) {
    words +=
        fmt::format(" -> {} at {}: {}", life.expelled ? "measured, then failed its confirmation" : "rejected",
                    life.stage, shorter(life.reason, 120));
  } else {
    words += " -> not evaluated yet";
  }
  return words;
}

double PromptWriter::effect(IndividualId id) const {
  const auto parents = s_.archive.parents(id);
  if (parents.empty() || s_.archive.state(id) != Member::State::measured) return 0.0;
  const double mine = s_.archive.fitness(id), before = s_.archive.fitness(parents.front());
  return mine > 0.0 && before > 0.0 ? std::abs(std::log(mine / before)) : 0.0;
}

// The subject's lineage, and other sources derived from it: those that are being tried or have the largest
// effects, newest first.
void PromptWriter::add_lineage() {
  std::string way;
  const std::size_t from = line_.size() > 8 ? line_.size() - 8 : 0;
  for (std::size_t i = from; i < line_.size(); ++i) way += told(line_[i]) + "\n";
  add("lineage", way, 3, "lineage");
  constexpr std::size_t kSiblings = 10;
  std::vector<IndividualId> children = s_.record_view.children(subject_);
  std::erase_if(children, [&](IndividualId child) { return keeps_source(child); });
  std::ranges::sort(children, std::greater());
  std::ranges::stable_sort(children, std::greater(), [&](IndividualId child) {
    return std::pair(s_.archive.state(child) == Member::State::in_flight, effect(child));
  });
  if (children.size() > kSiblings) children.resize(kSiblings);
  std::ranges::sort(children, std::greater());
  std::string others;
  for (const IndividualId child : children) others += told(child) + "\n";
  if (!others.empty()) add("lineage", "Derived from it before:\n" + others, 4, "siblings");
}

void PromptWriter::add_failures() {
  std::vector<IndividualId> failed;
  constexpr std::ptrdiff_t kAncestors = 4;  // each needs a query of the record
  const auto last = line_.rbegin() + std::min<std::ptrdiff_t>(kAncestors, std::ssize(line_));
  for (auto ancestor = line_.rbegin(); ancestor != last; ++ancestor)
    for (const IndividualId child : s_.record_view.children(*ancestor)) {
      if (s_.archive.state(child) == Member::State::rejected && s_.archive.duplicate_of(child) == 0 &&
          !keeps_source(child))
        failed.push_back(child);
    }
  std::ranges::sort(failed, std::greater());
  int rank = 5;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, failed.size()); ++i)
    if (const auto evaluation = s_.record_view.evaluation(failed[i]))
      add("failures", told(failed[i]) + "\n\n" + describe_rejection(*evaluation, 1200), rank++,
          fmt::format("failure #{}", failed[i]));
}

void PromptWriter::add_trajectory() {
  constexpr std::size_t kPromotions = 10;
  constexpr int kNewest = 20;
  const std::vector<IndividualId> promoted = s_.record_view.promoted();
  std::string best;
  for (std::size_t i = promoted.size() - std::min(promoted.size(), kPromotions); i < promoted.size(); ++i)
    best += told(promoted[i]) + "\n";
  if (!best.empty()) add("trajectory", "The incumbents, oldest first:\n" + best, 2, "promotions");
  std::string newest;
  int count = 0;
  for (IndividualId id = s_.archive.size(); id >= 1 && count < kNewest; --id) {
    if (keeps_source(id) || s_.archive.duplicate_of(id) != 0) continue;
    newest += told(id) + "\n";
    ++count;
  }
  if (!newest.empty()) add("trajectory", "The newest sources, newest first:\n" + newest, 3, "newest sources");
}

namespace {

// Geometric mean over the workloads; 0 if a cost is not known.
double operations_per_byte(const Task& task, const std::vector<Workload>& workloads) {
  double logs = 0.0;
  for (const Workload& w : workloads) {
    const double flops = task.flops(w), bytes = task.bytes(w);
    if (!(flops > 0.0) || !(bytes > 0.0)) return 0.0;
    logs += std::log(flops / bytes);
  }
  return workloads.empty() ? 0.0 : std::exp(logs / static_cast<double>(workloads.size()));
}

}  // namespace

void PromptWriter::add_notes() {
  const std::optional<Profile>& profile = reported_ ? reported_ : profile_;
  NoteQuery situation;
  situation.target = name_of(s_.target);
  situation.task = s_.task.name;
  situation.architecture = s_.architecture;
  situation.intensity =
      intensity_class(operations_per_byte(s_.task, s_.workloads),
                      s_.seen.bytes_per_second > 0.0 ? s_.seen.flops / s_.seen.bytes_per_second : 0.0);
  if (profile) {
    for (const Finding& finding : explain(*profile).findings) situation.bottlenecks.push_back(finding.kind);
    if (const KernelProfile* kernel = main_kernel(*profile))
      for (const StallShare& stall : stall_shares(*kernel))
        if (stall.share > 0.1) situation.bottlenecks.push_back("stall_" + stall.reason);
  }
  if (evaluation_) situation.compiler_output = evaluation_->diagnostics;
  situation.source = s_.record_view.source(subject_);
  constexpr std::size_t kMostBytes = 4000;  // of all but the first
  std::size_t bytes = 0;
  int rank = 6;
  for (const Note* note : pick_notes(kit_.notes(), situation)) {
    bytes += note->body.size();
    if (rank >= 10 || (rank > 6 && bytes > kMostBytes)) break;
    add("notes", "## " + note->title + "\n\n" + note->body, rank++, "note " + note->name);
  }
}

}  // namespace cultivar

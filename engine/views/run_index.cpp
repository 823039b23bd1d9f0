// SPDX-License-Identifier: Apache-2.0
#include "engine/views/run_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/store/standings.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace {

constexpr std::size_t kLongestWord = 300;  // bytes of a reason

double number_of_body(const std::string& body, const char* name) {
  if (body.empty()) return 0.0;
  const auto json = nlohmann::json::parse(body);
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<double>() : 0.0;
}

}  // namespace

const KernelFacts* RunIndex::find(IndividualId id) const {
  const auto found = std::ranges::lower_bound(kernels_, id, {}, &KernelFacts::id);
  return found == kernels_.end() || found->id != id ? nullptr : &*found;
}

std::vector<IndividualId> RunIndex::line_to(IndividualId id) const {
  std::vector<IndividualId> line;
  for (const KernelFacts* at = find(id); at; at = at->parent == 0 ? nullptr : find(at->parent))
    line.push_back(at->id);
  std::ranges::reverse(line);
  return line;
}

std::uint32_t RunIndex::number_of(const std::string& word) {
  const auto [at, added] =
      numbers_.try_emplace(word.size() > kLongestWord ? plain_line(word, kLongestWord) : word,
                           static_cast<std::uint32_t>(words_.size()));
  if (added) words_.push_back(at->first);
  return at->second;
}

void RunIndex::take(const KernelLine& line) {
  const auto found = std::ranges::lower_bound(kernels_, line.id, {}, &KernelFacts::id);
  KernelFacts& k =
      found != kernels_.end() && found->id == line.id ? *found : *kernels_.insert(found, KernelFacts{});
  k.id = line.id;
  k.parent = line.parent;
  k.duplicate_of = line.duplicate_of;
  k.source = line.source;
  k.op = number_of(line.op);
  k.model = number_of(line.model);
  k.stage = number_of(line.stage);
  k.reason = number_of(line.duplicate_of != 0 ? "duplicate of an earlier kernel" : line.reason);
  k.island = line.island;
  k.state = line.state;
  k.expelled = line.expelled;
  k.measured = line.fitness;
  k.usd = line.usd;
  k.tokens = line.tokens;
  k.judged_at = line.judged_at;
  if (line.state == IndividualState::proposed)
    proposed_.insert(line.id);
  else
    proposed_.erase(line.id);
  changed_.insert(line.id);
  ++version_;
}

void RunIndex::reread(const Record& record, IndividualId id) {
  if (const auto line = kernel_line(record, id)) take(*line);
}

void RunIndex::take(const DecisionRow& decision) {
  seq_ = decision.seq;
  ++version_;
  const auto found = std::ranges::lower_bound(kernels_, decision.individual, {}, &KernelFacts::id);
  KernelFacts* const kernel = found != kernels_.end() && found->id == decision.individual ? &*found : nullptr;
  switch (decision.kind) {
    case DecisionKind::session:
      ++sessions_;
      break;
    case DecisionKind::pace:
      pace_ = number_of_body(decision.body, "pace");
      if (!(pace_ > 0.0)) pace_ = 1.0;
      paced_ = true;
      break;
    case DecisionKind::propose:
      if (kernel && decision.body.find("\"asking\"") != std::string::npos)
        kernel->question = static_cast<std::int64_t>(number_of_body(decision.body, "asking"));
      break;
    case DecisionKind::judge:
      judged_.push_back({decision.individual, decision.elapsed_s, number_of_body(decision.body, "device_s")});
      if (!kernel) break;
      kernel->elapsed_s = decision.elapsed_s;
      kernel->pace = pace_;
      changed_.insert(kernel->id);
      break;
    case DecisionKind::promote:
      promotions_.push_back(
          {decision.individual, static_cast<std::int64_t>(judged_.size()), decision.elapsed_s, 0.0});
      if (kernel) kernel->promoted = true;
      changed_.insert(decision.individual);
      break;
    case DecisionKind::duel:
      if (kernel) kernel->challenged = true;
      changed_.insert(decision.individual);
      break;
    case DecisionKind::confirm:
    case DecisionKind::expel:
      changed_.insert(decision.individual);
      break;
    default:
      break;
  }
}

// Why those that failed their confirmation did, and when others became the best.
void RunIndex::explain(const Record& record) {
  for (const IndividualId id : changed_) {
    const auto found = std::ranges::lower_bound(kernels_, id, {}, &KernelFacts::id);
    if (found == kernels_.end() || found->id != id || !found->expelled) continue;
    const auto confirmation = record.confirmation(id);
    found->stage = number_of(std::string(name_of(Stage::confirm)));
    found->reason =
        number_of(!confirmation ? ""
                  : confirmation->stage == Stage::confirm
                      ? confirmation->reason
                      : fmt::format("{}: {}", name_of(confirmation->stage), confirmation->reason));
  }
  for (auto at = promotions_.rbegin(); at != promotions_.rend() && at->at == 0.0; ++at) {
    at->at = evaluated_at(record, at->id, Examination::confirm);
    if (const KernelFacts* const k = find(at->id); k && at->at == 0.0) at->at = k->judged_at;
  }
}

// Most had no duel: their fitness follows from their measurement.
void RunIndex::rate(const Record& record) {
  Standings standings(record);
  const IndividualId first = promotions_.empty() ? 0 : promotions_.front().id;
  std::int64_t duels = 0;
  for (const KernelFacts& k : kernels_) duels += k.challenged;
  for (KernelFacts& k : kernels_) {
    if (k.state != IndividualState::measured) {
      k.fitness = 0.0;
    } else if (k.challenged) {
      if (changed_.contains(k.id) || duels != duels_) k.fitness = standings.fitness(k.id);
    } else if (changed_.contains(k.id)) {
      const bool at_first = k.id == first || word(k.op) == "seed";
      k.fitness = k.measured > 0.0 ? k.measured / (at_first ? 1.0 : k.pace) : 0.0;
    }
  }
  duels_ = duels;
  changed_.clear();
}

void RunIndex::update(const Record& record) {
  const IndividualId last = kernels_.empty() ? 0 : kernels_.back().id;
  for (const IndividualId id : std::set<IndividualId>(proposed_)) {
    const auto line = kernel_line(record, id);
    if (line && line->state != IndividualState::proposed) take(*line);
  }
  each_kernel_line(
      record, [&](const KernelLine& line) { take(line); }, last);
  std::set<IndividualId> confirmed;
  record.each_decision(
      [&](const DecisionRow& decision) {
        if (decision.individual > 0 && !find(decision.individual)) reread(record, decision.individual);
        take(decision);
        if (decision.kind == DecisionKind::expel || decision.kind == DecisionKind::judge)
          confirmed.insert(decision.individual);
      },
      seq_);
  if (last > 0)  // the first reading saw them as they are now
    for (const IndividualId id : confirmed) reread(record, id);
  explain(record);
  if (!changed_.empty()) rate(record);
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// An in-memory record, for prompts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "evaluators/system/hash.hpp"
#include "operators/prompts/prompt_context.hpp"
#include "population/archive.hpp"

namespace cultivar::testing {

class MemoryChronicle : public RecordView {
 public:
  explicit MemoryChronicle(const Task& task) : task_(task) {}

  // Adds an evaluated individual to the archive; a rejection needs no fitness.
  IndividualId add(const std::string& source, const std::string& op, std::vector<IndividualId> parents,
                   Evaluation evaluation, const std::string& note = "", const Configuration& values = {}) {
    Individual individual;
    individual.id = archive.size() + 1;
    const auto variant = make_variant(source, task_);
    individual.variant_id = variant ? variant->id : sha256_hex(source);
    individual.source_id = variant ? variant->source_id : sha256_hex(source);
    individual.configuration = variant && values.empty() ? variant->configuration : values;
    set_origin(individual.descent, op);
    individual.descent.parents = parents;
    archive.add(individual);
    archive.judge(individual.id, evaluation.measured(), evaluation.fitness);
    for (const IndividualId parent : parents) children_[parent].push_back(individual.id);
    lives_[individual.id] = {note, std::string(name_of(evaluation.stage)), evaluation.reason, false};
    sources_[individual.id] = source;
    evaluations_[individual.id] = std::move(evaluation);
    return individual.id;
  }

  std::string source(IndividualId id) const override { return sources_.at(id); }
  IndividualFacts life(IndividualId id) const override { return lives_.at(id); }
  std::optional<Evaluation> evaluation(IndividualId id) const override { return evaluations_.at(id); }
  std::optional<Profile> profile(IndividualId id) const override {
    const auto found = profiles.find(id);
    return found == profiles.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<IndividualId> children(IndividualId id) const override {
    const auto found = children_.find(id);
    return found == children_.end() ? std::vector<IndividualId>() : found->second;
  }
  std::vector<IndividualId> promoted() const override { return promotions; }
  // Of all individuals but seeds, as the record has them, and of the questions added here.
  std::vector<Idea> ideas() const override {
    std::vector<Idea> all;
    for (IndividualId id = 1; id <= archive.size(); ++id) {
      const Member member = archive.member(id);
      if (member.origin != Origin::seed && member.op != "tune")
        all.push_back({.id = id, .op = member.op, .parents = member.parents, .words = lives_.at(id).note});
    }
    all.insert(all.end(), questions.begin(), questions.end());
    return all;
  }
  std::map<std::string, std::map<std::string, double>> contenders() const override { return ratios; }

  Archive archive;
  std::vector<IndividualId> promotions;
  std::vector<Idea> questions;
  std::map<IndividualId, Profile> profiles;
  std::map<std::string, std::map<std::string, double>> ratios;

 private:
  const Task& task_;  // must outlive this object
  std::map<IndividualId, std::string> sources_;
  std::map<IndividualId, IndividualFacts> lives_;
  std::map<IndividualId, Evaluation> evaluations_;
  std::map<IndividualId, std::vector<IndividualId>> children_;
};

}  // namespace cultivar::testing

// SPDX-License-Identifier: Apache-2.0
#include "engine/search/proposals.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/store/askings.hpp"
#include "evaluators/system/hash.hpp"

namespace cultivar {

namespace fs = std::filesystem;

namespace {

Individual individual_of(IndividualId id, const Variant& variant) {
  Individual individual;
  individual.id = id;
  individual.variant_id = variant.id;
  individual.source_id = variant.source_id;
  individual.configuration = variant.configuration;
  return individual;
}

}  // namespace

Individual introduced(const Breeding& breeding, const Proposal& proposal, const ParsedVariant& variant) {
  Individual child;
  if (variant) {
    child = individual_of(breeding.next_id(), **variant);
  } else {
    child.id = breeding.next_id();
    child.configuration = proposal.configuration;
    child.variant_id = sha256_hex(proposal.source);
    child.source_id = sha256_hex(normalised(proposal.source));
  }
  child.descent = proposal.descent;
  return child;
}

Proposals::Proposals(const Config& config, const RunFolder& folder, Recorder& recorder, Breeding& breeding,
                     ParsedSources& sources)
    : config_(config), inbox_(folder), recorder_(recorder), breeding_(breeding), sources_(sources) {}

std::vector<IndividualId> Proposals::seeds(std::vector<VariantPtr> variants) {
  if (variants.empty())
    for (const fs::path& file : config_.seeds)
      variants.push_back(std::make_shared<const Variant>(load_variant(file, breeding_.task())));
  std::vector<IndividualId> ids;
  std::vector<Individual> seeds;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    Individual seed = individual_of(breeding_.next_id(), *variants[i]);
    seed.descent.origin = Origin::seed;
    seed.descent.note = config_.seeds.at(i).filename().string();
    breeding_.admit(seed);
    sources_.keep(variants[i]);
    ids.push_back(seed.id);
    seeds.push_back(std::move(seed));
  }
  recorder_.step([&](Step& step) {
    for (std::size_t i = 0; i < seeds.size(); ++i) step.propose(seeds[i], variants[i]->source, "");
  });
  return ids;
}

IndividualId Proposals::bred(const NewProposal& bred, const std::optional<AskingLimits>& room) {
  const Individual child = introduced(breeding_, bred.proposal, bred.variant);
  breeding_.admit(child);
  recorder_.step([&](Step& step) {
    step.propose(child, bred.proposal.source, bred.stream, room ? room_body(*room) : "");
  });
  return child.id;
}

std::vector<IndividualId> Proposals::submissions() {
  std::vector<IndividualId> ids;
  const double began = recorder_.elapsed();
  if (began < next_look_) return ids;
  const Inbox::Found found = inbox_.look();
  // A folder with very many files takes long to list.
  next_look_ = std::max(began + 0.5, recorder_.elapsed() + 10.0 * (recorder_.elapsed() - began));
  std::vector<std::string> troubles = found.troubles;
  for (const Submission& submission : found.submissions) {
    const ParsedVariant variant = sources_.variant(submission.source, submission.configuration);
    const auto stranger = std::ranges::find_if(
        submission.parents, [&](IndividualId id) { return id < 1 || id >= breeding_.next_id(); });
    // submit_variant() checks both, so an invalid file was put here by hand.
    const std::string why = !variant ? variant.error().text()
                            : stranger != submission.parents.end()
                                ? fmt::format("its parent #{} is not in this run", *stranger)
                                : "";
    if (!why.empty()) {
      std::string words = inbox_.put_aside(submission.file, why);
      if (!words.empty()) troubles.push_back(std::move(words));
      continue;
    }
    Individual individual = individual_of(breeding_.next_id(), **variant);
    individual.descent.origin = Origin::submission;
    individual.descent.parents = submission.parents;
    individual.descent.note = submission.note;
    breeding_.admit(individual);
    std::string said = submission.note;
    if (!submission.parents.empty())
      said = fmt::format("of #{}{}{}", fmt::join(submission.parents, ", #"), said.empty() ? "" : ": ", said);
    recorder_.step([&](Step& step) {
      step.propose(individual, (*variant)->source, "");
      recorder_.tell(step, "submitted", individual.id, said);
    });
    ids.push_back(individual.id);
    // Recorded before it is removed: if the process is killed in between, it is submitted twice, and the
    // second one is a duplicate.
    inbox_.remove(submission);
  }
  if (!troubles.empty())
    recorder_.step([&](Step& step) {
      for (const std::string& trouble : troubles) recorder_.tell(step, "trouble", 0, trouble);
    });
  return ids;
}

}  // namespace cultivar

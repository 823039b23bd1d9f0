// SPDX-License-Identifier: Apache-2.0
#include "engine/store/record_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/store/askings.hpp"
#include "engine/store/recorded_run.hpp"
#include "engine/store/tool_results.hpp"
#include "evaluators/system/plain_text.hpp"
#include "operators/registry.hpp"

namespace cultivar {

std::string StoredRecordView::source(IndividualId id) const {
  return record_.source_named(breeding_.archive().source_id(id));
}

IndividualFacts StoredRecordView::life(IndividualId id) const {
  const auto row = record_.individual(id);
  if (!row) return {};
  IndividualFacts life{row->individual.descent.note, row->stage, row->reason, row->expelled};
  if (life.expelled)
    if (const auto confirmation = record_.confirmation(id)) {
      life.stage = name_of(confirmation->stage);
      life.reason = confirmation->reason;
    }
  return life;
}

std::optional<Evaluation> StoredRecordView::evaluation(IndividualId id) const {
  const auto confirmation = record_.confirmation(id);
  if (confirmation && !confirmation->measured()) return confirmation;
  auto evaluation = record_.evaluation(id);
  if (evaluation && confirmation)
    evaluation->coverage = confirmation->coverage;  // only confirmations have it
  return evaluation;
}

std::optional<Profile> StoredRecordView::profile(IndividualId id) const {
  return record_.profile(id);
}

std::vector<IndividualId> StoredRecordView::children(IndividualId id) const {
  return record_.descendants(id);
}

std::vector<IndividualId> StoredRecordView::promoted() const {
  std::vector<IndividualId> ids;
  for (const PromotionRow& row : record_.promotions()) ids.push_back(row.individual);
  return ids;
}

std::map<std::string, std::map<std::string, double>> StoredRecordView::contenders() const {
  std::map<std::string, std::map<std::string, double>> all;
  if (breeding_.incumbent() == 0) return all;
  const auto confirmed = record_.confirmation(breeding_.incumbent());
  if (!confirmed) return all;
  for (const WorkloadResult& workload : confirmed->workloads)
    for (const auto& [name, ratio] : workload.ratios) all[name][workload.workload] = ratio;
  return all;
}

std::vector<Idea> StoredRecordView::ideas() const {
  constexpr std::size_t kMostIndividuals = 1000, kMostNothing = 40, kMostDrafts = 8, kMostWords = 160;
  const auto writes = [](const std::string& op) {
    const OperatorRow* const row = find_operator(op);
    return row != nullptr && row->writes;
  };
  const Archive& archive = breeding_.archive();
  std::vector<Idea> all;
  for (IndividualId id = archive.size(); id >= 1 && all.size() < kMostIndividuals; --id) {
    const Origin origin = archive.origin(id);
    if (origin == Origin::seed || (origin == Origin::operator_ && !writes(archive.op(id)))) continue;
    const auto row = record_.individual(id);
    if (!row) continue;
    const Descent& descent = row->individual.descent;
    all.push_back({.id = id,
                   .op = origin_name(descent),
                   .model = descent.model,
                   .parents = descent.parents,
                   .words = descent.note});
  }
  std::ranges::reverse(all);
  const auto question = [&](Idea::End end, std::int64_t number, const Brief& brief) {
    return Idea{.end = end,
                .question = number,
                .op = brief.op,
                .model = brief.model,
                .parents = brief.parents,
                .words = brief.direction};
  };
  std::vector<Idea> nothing;
  for (const auto& [number, reason, withdrawn] : newest_given_up(record_, kMostNothing)) {
    const Brief& brief = breeding_.brief_of(number);
    if (!writes(brief.op)) continue;
    Idea& idea = nothing.emplace_back(question(Idea::End::nothing, number, brief));
    idea.reason = reason;
    for (const auto& [turn, results] : recorded_results(record_, number))
      for (const ToolOutcome& result : results)
        for (const MadeDraft& draft : result.drafts) {
          if (idea.drafts.size() == kMostDrafts) break;
          // The first line names the draft; the second one is the result.
          const std::vector<std::string_view> lines = lines_of(result.text);
          idea.drafts.push_back(fmt::format("draft {}{}: {}", draft.id,
                                            draft.base.empty() ? "" : " of " + draft.base,
                                            lines.size() > 1 ? one_line_of(lines[1], kMostWords) : ""));
        }
    if (withdrawn && idea.drafts.empty()) nothing.pop_back();
  }
  all.insert(all.end(), nothing.rbegin(), nothing.rend());
  for (const auto& [number, brief] : breeding_.open_askings())
    if (writes(brief.op)) all.push_back(question(Idea::End::open, number, brief));
  return all;
}

PromptContext context_of(const StoredRecordView& record_view, const Breeding& breeding,
                         const RunFacts& facts) {
  PromptContext context{.task = breeding.task(),
                        .workloads = breeding.workloads(),
                        .facts = breeding.facts(),
                        .archive = breeding.archive(),
                        .record_view = record_view,
                        .target = target_named(facts.target),
                        .device = {},
                        .incumbent = breeding.incumbent(),
                        .winner = breeding.winner(),
                        .insights = breeding.insights()};
  const auto devices = facts.environment.value("devices", nlohmann::json::array());
  if (!devices.empty()) {
    const auto& device = devices.front();
    context.device = device.value("description", "");
    const std::string compiler = facts.environment.value(
        "compiler", "");  // with its flags, which the variant format's page lists already
    if (context.target->on_host && !compiler.empty())
      context.device += "; compiler: " + compiler.substr(0, compiler.find(" -"));
    context.seen = ceilings_in(device);
  }
  context.architecture = architecture_of(context.target, breeding.facts());
  return context;
}

ChatRequest opening_of(const Brief& brief, const Record& record, const Breeding& breeding,
                       const RunFacts& facts, const PromptKit& kit, std::vector<std::string>& left_out) {
  const StoredRecordView record_view(record, breeding);
  return first_question(brief, context_of(record_view, breeding, facts), kit, &left_out);
}

}  // namespace cultivar

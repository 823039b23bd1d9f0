#include "engine/store/record_view.hpp"

#include "engine/store/recorded_run.hpp"

#include <nlohmann/json.hpp>

#include "operators/dialogue.hpp"

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
  if (const auto confirmation = record_.confirmation(id); confirmation && !confirmation->measured())
    return confirmation;
  return record_.evaluation(id);
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

ChatRequest opening_of(const Brief& brief, const Record& record, const Breeding& breeding,
                       const RunFacts& facts, const PromptKit& kit, std::vector<std::string>& left_out) {
  const StoredRecordView record_view(record, breeding);
  PromptContext context{.task = breeding.task(),
                        .workloads = breeding.workloads(),
                        .facts = breeding.facts(),
                        .archive = breeding.archive(),
                        .record_view = record_view,
                        .target = target_named(facts.target),
                        .device = {},
                        .incumbent = breeding.incumbent()};
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
  return first_question(brief, context, kit, &left_out);
}

}  // namespace cultivar

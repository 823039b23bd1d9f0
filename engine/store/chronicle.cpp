#include "engine/store/chronicle.hpp"

#include <nlohmann/json.hpp>

#include "operators/dialogue.hpp"

namespace cultivar {

std::string RecordedChronicle::source(IndividualId id) const {
  return record_.source_named(breeding_.archive().source_id(id));
}

Life RecordedChronicle::life(IndividualId id) const {
  const auto row = record_.individual(id);
  if (!row) return {};
  Life life{row->individual.descent.note, row->stage, row->reason, row->expelled};
  if (life.expelled)
    if (const auto confirmation = record_.confirmation(id)) {
      life.stage = name_of(confirmation->stage);
      life.reason = confirmation->reason;
    }
  return life;
}

std::optional<Evaluation> RecordedChronicle::evaluation(IndividualId id) const {
  if (const auto confirmation = record_.confirmation(id); confirmation && !confirmation->measured())
    return confirmation;
  return record_.evaluation(id);
}

std::optional<Profile> RecordedChronicle::profile(IndividualId id) const {
  return record_.profile(id);
}

std::vector<IndividualId> RecordedChronicle::children(IndividualId id) const {
  return record_.descendants(id);
}

std::vector<IndividualId> RecordedChronicle::promoted() const {
  std::vector<IndividualId> ids;
  for (const PromotionRow& row : record_.promotions()) ids.push_back(row.individual);
  return ids;
}

std::map<std::string, std::map<std::string, double>> RecordedChronicle::contenders() const {
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
  const RecordedChronicle chronicle(record, breeding);
  Scene scene{.task = breeding.task(),
              .workloads = breeding.workloads(),
              .facts = breeding.facts(),
              .archive = breeding.archive(),
              .chronicle = chronicle,
              .target = target_named(facts.target),
              .device = {},
              .incumbent = breeding.incumbent()};
  const auto devices = facts.environment.value("devices", nlohmann::json::array());
  if (!devices.empty()) {
    const auto& device = devices.front();
    scene.device = device.value("description", "");
    const std::string compiler = facts.environment.value(
        "compiler", "");  // with its flags, which the variant format's page lists already
    if (scene.target->on_host && !compiler.empty())
      scene.device += "; compiler: " + compiler.substr(0, compiler.find(" -"));
    const auto ceilings = device.value("ceilings", nlohmann::json::object());
    scene.seen.flops = ceilings.value("flops", 0.0);
    scene.seen.bytes_per_second = ceilings.value("bytes_per_second", 0.0);
    scene.seen.cached_bytes_per_second = ceilings.value("cached_bytes_per_second", 0.0);
  }
  scene.architecture = architecture_of(scene.target, breeding.facts());
  return first_question(brief, scene, kit, &left_out);
}

}  // namespace cultivar

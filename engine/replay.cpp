#include <SQLiteCpp/Exception.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/history.hpp"
#include "engine/recorded_run.hpp"
#include "engine/search.hpp"
#include "engine/snapshot.hpp"
#include "engine/store/trouble.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Makes each decision again just before the record says what it was.
class Replayer : public Listener {
 public:
  Replayer(const Record& record, Breeding& breeding) : record_(record), breeding_(breeding) {}

  void session() override { breeding_.rebuild_operators(); }

  void proposing(const Individual& recorded, const std::string& stream) override {
    if (recorded.descent.op == "seed" || recorded.descent.op == "submit") return;
    ++report.proposals;
    const auto bred = breeding_.breed();
    if (!bred)
      return differ(
          fmt::format("proposal {}: the record has one, the replay has nothing to propose", recorded.id));
    const Descent& descent = bred->proposal.descent;
    const std::string id = bred->variant ? bred->variant->id : sha256_hex(bred->proposal.source);
    if (id != recorded.variant_id || descent.op != recorded.descent.op ||
        descent.island != recorded.descent.island || descent.parents != recorded.descent.parents ||
        bred->stream != stream)
      differ(fmt::format("proposal {}: recorded {} by {} from {} on {}, replayed {} by {} from {} on {}",
                         recorded.id, recorded.variant_id.substr(0, 12), recorded.descent.op,
                         json(recorded.descent.parents).dump(), stream, id.substr(0, 12), descent.op,
                         json(descent.parents).dump(), bred->stream));
  }
  void judging(IndividualId id, IndividualId duplicate_of) override {
    ++report.judgements;
    if (duplicate_of == 0) return;
    const auto own = record_.individual(id), twin = record_.individual(duplicate_of);
    const bool same_source = own && twin && own->individual.variant_id == twin->individual.variant_id;
    const bool same_code = own && twin && own->individual.machine_code == twin->individual.machine_code;
    // A twin that was in flight when the process was killed may have been judged by another path since.
    if (!same_source && !same_code && twin && twin->state != IndividualState::proposed)
      differ(
          fmt::format("individual {} is recorded as a duplicate of {}, but they differ", id, duplicate_of));
  }
  void migrated(const std::vector<Migration>& made, const std::vector<Migration>& recorded) override {
    report.migrations += static_cast<std::int64_t>(recorded.size());
    if (made != recorded) differ(fmt::format("a migration after {} judgements differs", report.judgements));
  }
  void challenging(IndividualId id) override {
    if (breeding_.winner() != id && breeding_.challenger() != std::optional(id))
      differ(fmt::format("individual {} is recorded as the challenger, the replay chooses {}", id,
                         breeding_.challenger().value_or(0)));
  }
  void promoting(IndividualId id) override {
    ++report.promotions;
    if (breeding_.incumbent() != 0 && breeding_.winner() != id)
      differ(fmt::format("individual {} is recorded as promoted, but it won no comparison", id));
  }

  ReplayReport report;

 private:
  void differ(std::string text) {
    constexpr std::size_t kEnough = 50;
    if (report.differences.size() < kEnough) report.differences.push_back(std::move(text));
  }
  const Record& record_;  // both outlive the replayer
  Breeding& breeding_;
};

}  // namespace

Expected<ReplayReport> replay(const fs::path& run_folder, const Surface& surface) {
  const auto record = Record::open(run_folder);
  if (!record) return tl::make_unexpected(record.error());
  const RunFolder folder(fs::absolute(run_folder).lexically_normal());
  try {
    const RunFacts facts = record->facts();
    if (auto restored = restore_snapshot(facts.task_files, facts.task_name, folder); !restored)
      return tl::make_unexpected(restored.error());
    const Config config = recorded_config(facts.config_yaml, folder, {}, surface);
    const Task task = load_task(config.task_folder);
    Breeding breeding(config, task, task.workloads(config.workloads)->workloads, facts_in(facts.environment),
                      [&](const std::string& source_id) { return record->source_named(source_id); });
    Replayer replayer(*record, breeding);
    retell(*record, breeding, replayer);
    const IndividualId best = record->best().value_or(0);
    if (breeding.incumbent() != best)
      replayer.report.differences.push_back(
          fmt::format("the record's best is {}, the replay's is {}", best, breeding.incumbent()));
    return replayer.report;
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "replay", folder.database()));
  }
}

}  // namespace cultivar

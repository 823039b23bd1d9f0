// SPDX-License-Identifier: Apache-2.0
#include <SQLiteCpp/Exception.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/config/asking_settings.hpp"
#include "engine/history/rebuild.hpp"
#include "engine/search/search.hpp"
#include "engine/store/recorded_run.hpp"
#include "engine/store/schema.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/verdict/evaluation.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

// Makes each decision again and compares it with the recorded one.
class Replayer : public Listener {
 public:
  Replayer(const Record& record, Breeding& breeding, ParsedSources& sources, const PromptKit& kit)
      : record_(record), breeding_(breeding), sources_(sources), kit_(kit) {}

  void session() override { breeding_.rebuild_operators(); }

  void asking(const AskedQuestion& recorded, const std::string& stream) override {
    ++report.questions;
    questions_.emplace(recorded.number, recorded);
    nothing_due(fmt::format("question {}", recorded.number));
    const auto bred = breeding_.breed(recorded.room);
    const Asking* again = bred ? std::get_if<Asking>(&*bred) : nullptr;
    if (!again || again->brief != recorded.brief || again->stream != stream)
      differ(fmt::format("question {}: recorded {} to {} about {} on {}, replayed {}", recorded.number,
                         recorded.brief.op, recorded.brief.model, json(recorded.brief.parents).dump(), stream,
                         again ? fmt::format("{} to {} about {} on {}", again->brief.op, again->brief.model,
                                             json(again->brief.parents).dump(), again->stream)
                               : std::string("none")));
    if (recorded.number != breeding_.next_asking())
      differ(fmt::format("question {} is recorded out of order", recorded.number));
  }

  // The recorded answers must lead to no proposal and no directions. If the last call failed, the dialogue
  // ends without an answer.
  void giving_up(std::int64_t number) override {
    const RecordedDialogue dialogue =
        recorded_dialogue(record_, sources_, breeding_.archive(), kit_, questions_.at(number));
    if (dialogue.move && std::holds_alternative<Proposal>(*dialogue.move))
      differ(fmt::format("question {} is recorded as given up, but its answers make a proposal", number));
    if (dialogue.move && std::holds_alternative<Directions>(*dialogue.move))
      differ(fmt::format("question {} is recorded as given up, but its answers give directions", number));
  }

  void directing(std::int64_t number, const Directions& recorded) override {
    const RecordedDialogue dialogue =
        recorded_dialogue(record_, sources_, breeding_.archive(), kit_, questions_.at(number));
    const Directions* again = dialogue.move ? std::get_if<Directions>(&*dialogue.move) : nullptr;
    if (!again || *again != recorded)
      differ(fmt::format("question {}: the record has {} directions, its answers give {}", number,
                         recorded.words.size(), again ? "others" : "none"));
  }

  void proposing(const Individual& recorded, const std::string& stream, const ProposalBody& body) override {
    if (recorded.descent.origin != Origin::operator_) return;
    ++report.proposals;
    if (body.asking != 0) return proposing_answer(recorded, body.asking);
    nothing_due(fmt::format("proposal {}", recorded.id));
    const auto offspring = breeding_.breed(body.room);
    const NewProposal* bred = offspring ? std::get_if<NewProposal>(&*offspring) : nullptr;
    if (!bred)
      return differ(fmt::format("proposal {}: the record has one, the replay {}", recorded.id,
                                offspring ? "asks a model" : "has nothing to propose"));
    const Descent& descent = bred->proposal.descent;
    const std::string id = bred->variant ? (*bred->variant)->id : sha256_hex(bred->proposal.source);
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
    // A twin that was in flight when the process was killed may have been judged differently after a resume.
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
    const std::optional<Evaluation> confirmation = record_.confirmation(id);
    if (!confirmation || !confirmation->measured())
      differ(fmt::format("individual {} is recorded as promoted, but not as confirmed", id));
  }

  void supervising(const Supervision& recorded) override {
    ++report.interventions;
    if (breeding_.supervise() != std::optional(recorded))
      differ(fmt::format("a decision of the supervisor after {} judgements differs", report.judgements));
  }

  ReplayReport report;

 private:
  void nothing_due(const std::string& before) {
    if (breeding_.supervise())
      differ(fmt::format("{}: the replay has a decision of the supervisor before it", before));
  }
  void differ(std::string text) {
    constexpr std::size_t kEnough = 50;
    if (report.differences.size() < kEnough) report.differences.push_back(std::move(text));
  }
  // The recorded answers must lead to the recorded variant.
  void proposing_answer(const Individual& recorded, std::int64_t asking) {
    const AskedQuestion& question = questions_.at(asking);
    const RecordedDialogue dialogue =
        recorded_dialogue(record_, sources_, breeding_.archive(), kit_, question);
    const Proposal* proposal = dialogue.move ? std::get_if<Proposal>(&*dialogue.move) : nullptr;
    if (!proposal)
      return differ(
          fmt::format("proposal {}: the answers recorded for question {} make none", recorded.id, asking));
    const ParsedVariant variant = sources_.variant(proposal->source, proposal->configuration);
    const std::string id = variant ? (*variant)->id : sha256_hex(proposal->source);
    if (id != recorded.variant_id || question.brief.op != recorded.descent.op ||
        proposal->descent.parents != recorded.descent.parents)
      differ(fmt::format("proposal {}: recorded {} from {}, the answers to question {} make {} from {}",
                         recorded.id, recorded.variant_id.substr(0, 12),
                         json(recorded.descent.parents).dump(), asking, id.substr(0, 12),
                         json(proposal->descent.parents).dump()));
  }

  const Record& record_;  // all four outlive the replayer
  Breeding& breeding_;
  ParsedSources& sources_;
  const PromptKit& kit_;
  std::map<std::int64_t, AskedQuestion> questions_;
};

}  // namespace

Expected<ReplayReport> replay(const fs::path& run_folder, const Runtime& runtime) {
  const auto record = Record::open(run_folder);
  if (!record) return tl::make_unexpected(record.error());
  const RunFolder folder(fs::absolute(run_folder).lexically_normal());
  try {
    const RunFacts facts = record->facts();
    if (auto restored = restore_snapshot(facts.task_files, facts.task_name, folder); !restored)
      return tl::make_unexpected(restored.error());
    const Config config = recorded_config(facts.config_yaml, folder, {}, runtime.installation);
    ParsedSources sources(*config.task, [&](const std::string& id) { return record->source_named(id); });
    Breeding breeding(config, facts_in(facts.environment), sources);
    breeding.set_roofline(roofline_in(facts.environment, config));
    const PromptKit kit = prompt_kit(config.asking);
    Replayer replayer(*record, breeding, sources, kit);
    apply_decisions(*record, breeding, replayer);
    const IndividualId best = record->best().value_or(0);
    if (breeding.incumbent() != best)
      replayer.report.differences.push_back(
          fmt::format("the record's best is {}, the replay's is {}", best, breeding.incumbent()));
    return replayer.report;
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "replay", folder.database()));
  } catch (const UnknownDecision& e) {
    return failure("replay", e.what());
  }
}

}  // namespace cultivar

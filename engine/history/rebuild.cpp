// SPDX-License-Identifier: Apache-2.0
#include "engine/history/rebuild.hpp"

#include "engine/history/recorded_individuals.hpp"
#include "engine/store/decision_kind.hpp"
#include "engine/store/interventions.hpp"

namespace cultivar {

using nlohmann::json;

void apply_decisions(const Record& record, Breeding& breeding, Listener& listener) {
  RecordedIndividuals individuals(record, breeding.archive());
  if (const auto gate = first_gate(record.database()); gate) breeding.begin_with(*gate);
  std::vector<Migration> due, told;
  const auto settle_migrations = [&] {
    listener.migrated(due, told);
    due.clear();
    told.clear();
  };
  record.each_decision([&](const DecisionRow& decision) {
    const IndividualId id = decision.individual;
    if (decision.kind == DecisionKind::migrate) {
      const json body = json::parse(decision.body);
      told.push_back({id, body.at("from").get<int>(), body.at("to").get<int>(), body.value("reset", false)});
      return;
    }
    settle_migrations();
    switch (decision.kind) {
      case DecisionKind::session:
        listener.session();
        if (const auto change = gate_change(decision.body)) breeding.change(change->now);
        return;
      case DecisionKind::propose: {
        const Individual individual = individuals.next(id);
        const ProposalBody body = proposal_body(decision.body);
        listener.proposing(individual, decision.stream, body);
        return breeding.admit(individual, body.asking, body.device_s);
      }
      case DecisionKind::ask: {
        const AskedQuestion question = asked_question(decision.body);
        listener.asking(question, decision.stream);
        return breeding.ask(question.brief);
      }
      case DecisionKind::give_up: {
        const json body = json::parse(decision.body);
        listener.giving_up(body.at("asking").get<std::int64_t>());
        return breeding.give_up(body.at("asking").get<std::int64_t>(), body.at("usd").get<double>(),
                                body.value("device_s", 0.0));
      }
      case DecisionKind::direct: {
        const json body = json::parse(decision.body);
        const auto asking = body.at("asking").get<std::int64_t>();
        const Directions directions{body.at("directions").get<std::vector<std::string>>()};
        listener.directing(asking, directions);
        return breeding.direct(asking, directions);
      }
      case DecisionKind::judge: {
        RecordedIndividuals::Result result = individuals.result(id);
        listener.judging(id, result.duplicate_of);
        if (result.duplicate_of == 0) breeding.claim_machine_code(id, result.machine_code);
        Findings findings{result.measured, result.fitness, result.duplicate_of};
        if (!result.measured) findings.rejected_at = result.stage;
        findings.workload_values = std::move(result.workload_values);
        JudgeBody body = judge_body(decision.body);
        findings.device_s = body.device_s;
        findings.descriptors = std::move(body.descriptors);
        findings.spread = body.spread;
        due = breeding.judge(id, std::move(findings));
        return;
      }
      case DecisionKind::challenge:
        return listener.challenging(id);
      case DecisionKind::duel: {
        DuelBody duel = duel_body(decision.body);
        listener.compared(id, duel.verdict);
        return breeding.compared(id, duel.verdict, duel.may_go_on, std::move(duel.result));
      }
      case DecisionKind::pace:
        return breeding.paced(json::parse(decision.body).at("pace").get<double>());
      case DecisionKind::promote:
        listener.promoting(id);
        return breeding.promote(id);
      case DecisionKind::expel:
        return breeding.expel(id);
      case DecisionKind::intervene: {
        const Intervention intervention = intervention_in(decision.body);
        listener.supervising(intervention);
        due = breeding.begin(intervention);
        return;
      }
      case DecisionKind::outcome: {
        const InterventionResult result = result_in(decision.body);
        listener.supervising(result);
        return breeding.end(result);
      }
      case DecisionKind::put_off:  // it is judged by the next try
      case DecisionKind::confirm:  // promote or expel follows
      case DecisionKind::migrate:
        return;
    }
  });
  settle_migrations();
}

}  // namespace cultivar

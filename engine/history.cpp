#include "engine/history.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <fmt/format.h>

#include "engine/store/configuration_json.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

// Walks the individuals by id, beside the decisions that propose them.
class Births {
 public:
  struct Fate {  // what a later decision will say of it
    double fitness = 0.0;
    std::uint32_t duplicate_of = 0;
    bool measured = false;
    std::string machine_code;  // until it is judged
  };

  explicit Births(SQLite::Database& db)
      : query_(db,
               "SELECT i.id, variant_id, source_id, configuration, parents, op, island, state, machine_code, "
               "duplicate_of, "
               "fitness, usd FROM individuals i JOIN sources s ON s.number = i.source ORDER BY i.id") {}

  Individual next(IndividualId id) {
    if (!query_.executeStep() || query_.getColumn(0).getInt64() != id)
      throw std::runtime_error(fmt::format("the record proposes individual {} but does not hold it", id));
    Individual i;
    i.id = id;
    i.variant_id = query_.getColumn(1).getString();
    i.source_id = query_.getColumn(2).getString();
    i.configuration = configuration_from_json(json::parse(query_.getColumn(3).getText()));
    i.descent.parents = json::parse(query_.getColumn(4).getText()).get<std::vector<IndividualId>>();
    i.descent.op = query_.getColumn(5).getString();
    i.descent.island = query_.getColumn(6).getInt();
    i.descent.usd = query_.getColumn(11).getDouble();
    fates_.push_back({query_.getColumn(10).getDouble(),
                      static_cast<std::uint32_t>(query_.getColumn(9).getInt64()),
                      query_.getColumn(7).getInt() == 1, query_.getColumn(8).getString()});
    return i;
  }
  Fate& fate(IndividualId id) { return fates_.at(static_cast<std::size_t>(id - 1)); }

 private:
  SQLite::Statement query_;
  std::vector<Fate> fates_;
};

}  // namespace

void retell(const Record& record, Breeding& breeding, Listener& listener) {
  Births births(record.database());
  std::vector<Migration> due, told;
  const auto settle_migrations = [&] {
    listener.migrated(due, told);
    due.clear();
    told.clear();
  };
  record.each_decision([&](const DecisionRow& decision) {
    const IndividualId id = decision.individual;
    if (decision.kind == "migrate") {
      const json body = json::parse(decision.body);
      told.push_back({id, body.at("from").get<int>(), body.at("to").get<int>()});
      return;
    }
    settle_migrations();
    if (decision.kind == "session") {
      listener.session();
    } else if (decision.kind == "propose") {
      const Individual individual = births.next(id);
      const ProposalBody body = proposal_body(decision.body);
      listener.proposing(individual, decision.stream, body);
      breeding.admit(individual, body.asking, body.device_s);
    } else if (decision.kind == "ask") {
      const AskedQuestion question = asked_question(decision.body);
      listener.asking(question, decision.stream);
      breeding.ask(question.brief);
    } else if (decision.kind == "give_up") {
      const json body = json::parse(decision.body);
      listener.giving_up(body.at("asking").get<std::int64_t>());
      breeding.give_up(body.at("asking").get<std::int64_t>(), body.at("usd").get<double>(),
                       body.value("device_s", 0.0));
    } else if (decision.kind == "judge") {
      auto& fate = births.fate(id);
      listener.judging(id, fate.duplicate_of);
      if (fate.duplicate_of == 0) breeding.claim_machine_code(id, fate.machine_code);
      fate.machine_code = {};
      const double device_s =
          decision.body.empty() ? 0.0 : json::parse(decision.body).at("device_s").get<double>();
      due = breeding.judge(id, fate.measured, fate.fitness, fate.duplicate_of, device_s);
    } else if (decision.kind == "challenge") {
      listener.challenging(id);
    } else if (decision.kind == "duel") {
      listener.compared(id, decision.body);
      breeding.compared(id, decision.body == "better");
    } else if (decision.kind == "pace") {
      breeding.paced(json::parse(decision.body).at("pace").get<double>());
    } else if (decision.kind == "promote") {
      listener.promoting(id);
      breeding.promote(id);
    } else if (decision.kind == "expel") {
      breeding.expel(id);
    }
  });
  settle_migrations();
}

}  // namespace cultivar

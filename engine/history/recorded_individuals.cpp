// SPDX-License-Identifier: Apache-2.0
#include "engine/history/recorded_individuals.hpp"

#include <SQLiteCpp/Database.h>
#include <fmt/format.h>

#include "engine/history/usual_json.hpp"
#include "engine/store/plausible.hpp"
#include "engine/store/rows.hpp"

namespace cultivar {

RecordedIndividuals::RecordedIndividuals(const Record& record, const Archive& known)
    : query_(std::make_unique<SQLite::Statement>(
          record.database(),
          "SELECT id, variant_id, source, configuration, parents, op, island, usd, fitness, "
          "duplicate_of, machine_code, workload_values, stage, state FROM individuals WHERE id >= ? "
          "ORDER BY id")) {
  each_row(record.database(), "SELECT number, source_id FROM sources", [this](SQLite::Statement& row) {
    sources_.emplace(column<std::int64_t>(row, 0), column<std::string>(row, 1));
  });
  for (const IndividualId id : known.in_flight()) {
    query_->reset();
    query_->bind(1, id);
    next(id);
  }
  query_->reset();
  query_->bind(1, known.size() + 1);
}

RecordedIndividuals::~RecordedIndividuals() = default;

Individual RecordedIndividuals::next(IndividualId id) {
  if (!query_->executeStep() || query_->getColumn(0).getInt64() != id)
    throw std::runtime_error(
        fmt::format("the record is inconsistent: it proposes individual {} but does not hold it", id));
  Individual i;
  Result result;
  std::int64_t source = 0;
  std::string configuration, parents, values, origin, stage;
  read_row(*query_, i.id, i.variant_id, source, configuration, parents, origin, i.descent.island,
           i.descent.usd, result.fitness, result.duplicate_of, result.machine_code, values, stage);
  i.source_id = sources_.at(source);
  i.configuration = configuration_in(configuration);
  i.descent.parents = whole_numbers_in(parents);
  result.workload_values = numbers_in(values);
  set_origin(i.descent, origin);
  result.stage = stage_named(stage);
  const auto state = column<IndividualState>(*query_, 13);
  require_plausible(i.id, state);
  result.measured = state == IndividualState::measured;
  unjudged_.emplace(i.id, std::move(result));
  return i;
}

RecordedIndividuals::Result RecordedIndividuals::result(IndividualId id) {
  auto found = unjudged_.extract(id);
  if (found.empty())
    throw std::runtime_error(fmt::format(
        "the record is inconsistent: it judges individual {}, which was not proposed or is judged", id));
  return std::move(found.mapped());
}

}  // namespace cultivar

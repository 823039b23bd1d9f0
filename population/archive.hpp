// SPDX-License-Identifier: Apache-2.0
// Every individual of a run in compact form (about 50 bytes each), for the frequent queries of breeding.
// Sources, notes, evaluations and samples are only in the record.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "population/duel_result.hpp"
#include "population/individual.hpp"

namespace cultivar {

// An individual as stored in the archive.
struct Member {
  enum class State : std::uint8_t { in_flight, measured, rejected };

  IndividualId id = 0;
  State state = State::in_flight;
  double fitness = 0.0;
  IndividualId duplicate_of = 0;
  int island = 0;
  Origin origin = Origin::operator_;
  std::string op;  // as in Descent
  std::string source_id;
  std::vector<IndividualId> parents;
  Configuration configuration;
};

// A value type; not thread-safe. IDs are 1, 2, 3, ... in the order of add().
class Archive {
 public:
  // Throws std::logic_error unless the ID is the next one.
  void add(const Individual&);
  void judge(IndividualId, bool measured, double fitness, IndividualId duplicate_of = 0);
  // Its last duel; `fitness` follows from the incumbent's and replaces the measured one.
  void settle(IndividualId, double fitness, DuelResult);
  // The root mean square of the logarithms of measured fitness over fitness by duel: how wrong one
  // measurement is in this run. nullopt: fewer than three duels.
  std::optional<double> error_of_measurements() const;
  // Marks a measured individual as rejected, because it turned out to be wrong.
  void expel(IndividualId);

  std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }
  const std::vector<IndividualId>& in_flight() const { return in_flight_; }  // in order of proposal

  Member member(IndividualId) const;  // throws std::out_of_range
  Member::State state(IndividualId id) const { return row(id).state; }
  Origin origin(IndividualId id) const { return row(id).origin; }
  const std::string& op(IndividualId id) const { return ops_[row(id).op]; }
  int island(IndividualId id) const { return row(id).island; }
  double fitness(IndividualId id) const { return row(id).fitness; }
  const DuelResult* duel(IndividualId id) const;  // the last one; nullptr: fitness is one measurement
  IndividualId duplicate_of(IndividualId id) const { return row(id).duplicate_of; }
  const std::string& source_id(IndividualId id) const { return sources_[row(id).source]; }
  std::vector<IndividualId> parents(IndividualId) const;
  // All that descend, by first parents, from one source that was written from a founder (a seed or a
  // submission). It is named by the first individual of that source; what still has a founder's source
  // belongs to the founder's own family.
  IndividualId family(IndividualId id) const { return row(id).family; }
  bool of_a_seed(IndividualId id) const { return origin(family(id)) == Origin::seed; }  // whatever its values
  // The values of its tunables, by name, as numbers for setting(): many individuals share them.
  std::vector<std::uint32_t> settings(IndividualId) const;
  const std::pair<std::string, TunableValue>& setting(std::uint32_t number) const {
    return settings_[number];
  }

 private:
  struct Row {
    double fitness = 0.0;
    std::uint32_t source = 0, pool_at = 0, duplicate_of = 0, family = 0;
    std::uint16_t op = 0, island = 0;
    std::uint8_t parents = 0, settings = 0;
    Member::State state = Member::State::in_flight;
    Origin origin = Origin::operator_;
  };
  IndividualId family_of(const Individual&, std::uint32_t source) const;
  const Row& row(IndividualId) const;
  Row& row_of(IndividualId);
  std::uint32_t interned(const std::string&, std::vector<std::string>&,
                         std::unordered_map<std::string, std::uint32_t>&);

  std::vector<Row> rows_;
  // Of each row: how much older its parents are, then its settings; seven bits of a number in a byte.
  std::vector<std::uint8_t> pool_;
  struct Duel {
    DuelResult result;
    double measured = 0.0;  // the fitness that it replaced
  };
  std::map<IndividualId, Duel> duels_;  // by challenger
  std::vector<IndividualId> in_flight_;
  std::vector<std::string> sources_, ops_;
  std::unordered_map<std::string, std::uint32_t> source_index_, op_index_;
  std::vector<std::pair<std::string, TunableValue>> settings_;
  std::map<std::string, std::map<TunableValue, std::uint32_t>> setting_index_;
};

}  // namespace cultivar

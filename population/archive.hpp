// SPDX-License-Identifier: Apache-2.0
// Every individual of a run in compact form (about 50 bytes each), for the frequent queries of breeding.
// Sources, notes, evaluations and samples are only in the record. Also what is looked up by it: duplicates,
// and speeds by chains of duels.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "evaluators/system/number_table.hpp"
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

// Detects duplicates. Equal variants and variants with equal machine code are the same kernel: the second one
// is not measured.
// Keys are 64 bits of a hash. With a million individuals the probability that any two different ones collide
// is 3e-8; the cost of a collision is one variant that is not measured. A value type; not thread-safe.
class Novelty {
 public:
  std::optional<IndividualId> with_variant(std::string_view variant_id) const;
  std::optional<IndividualId> with_machine_code(std::string_view hash) const;
  // The first individual with a key stays.
  void add_variant(std::string_view variant_id, IndividualId);
  void add_machine_code(std::string_view hash, IndividualId);

 private:
  struct Keys {
    std::vector<std::uint64_t> by_id;  // from 0
    NumberTable ids;
    std::optional<IndividualId> find(std::uint64_t key) const;
    void add(std::uint64_t key, IndividualId);
  };
  Keys variants_, codes_;
};

// The speed of one individual over another one, as far as duels say: of the two, or of each with others.
struct SpeedByDuels {
  SpeedRatio all;
  std::vector<SpeedRatio> workloads;  // in the order of the search's workloads; empty: a duel does not tell
};

// Of the first over the second. nullopt: no duels connect them. The errors of several duels are independent,
// so the distances of their bounds add up as squares.
std::optional<SpeedByDuels> speed_by_duels(const Archive&, IndividualId, IndividualId);

// Selects the individual to ask a model about, among all that share a source.

// The fittest measured individual with the source of `id`; `id` itself if there is none.
IndividualId best_setting(const Archive&, IndividualId id);

// The fittest measured individual whose source satisfies the predicate; 0 if there is none.
IndividualId fittest_of(const Archive&, const std::function<bool(const std::string& source_id)>& wanted);

}  // namespace cultivar

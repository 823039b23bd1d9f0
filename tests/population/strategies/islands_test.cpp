// SPDX-License-Identifier: Apache-2.0
#include "population/strategies/islands.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "population/individual.hpp"
#include "support/settled.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct History {
  explicit History(const PopulationOptions& options) : islands(options) {}
  IndividualId add(const Born& born) { return settle(islands, archive, born); }

  Archive archive;
  Islands islands;
};

// A long history in which island 0 finds much better individuals than the others.
History unequal_history(const PopulationOptions& options, int steps, std::uint64_t seed) {
  History history(options);
  RandomStream stream = stream_of(seed, "history", 0);
  for (IndividualId id = 1; id <= steps; ++id) {
    const int island = static_cast<int>(below(stream, static_cast<std::size_t>(options.islands)));
    history.add({.fitness = uniform(stream) + (island == 0 ? 10.0 : 0.0), .island = island});
    history.islands.judged();
  }
  return history;
}

PopulationOptions old_rules(PopulationOptions options) {
  options.rules = 1;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(islands)

BOOST_AUTO_TEST_CASE(elites_are_the_fittest_in_order) {
  History h({.islands = 1, .elites = 3, .migrate_every = 0});
  for (const double fitness : {2, 5, 1, 4, 3}) h.add({.fitness = fitness});
  const auto elites = h.islands.elites(0);
  BOOST_REQUIRE_EQUAL(elites.size(), 3);
  BOOST_TEST(elites[0].id == 2);
  BOOST_TEST(elites[1].id == 4);
  BOOST_TEST(elites[2].id == 5);
  BOOST_TEST(h.islands.members(0).size() == 5);
}

BOOST_AUTO_TEST_CASE(a_founder_lives_on_every_island) {
  History h({.islands = 3});
  h.add({.founder = true});
  for (int i = 0; i < 3; ++i) BOOST_TEST(h.islands.elites(i).front().id == 1);
}

BOOST_AUTO_TEST_CASE(islands_do_not_become_one_however_unequal_they_are) {
  for (const int rules : {1, 2}) {
    const PopulationOptions options{
        .rules = rules, .islands = 3, .elites = 8, .migrate_every = 10, .immigrants = 2, .reset_after = 0};
    const History h = unequal_history(options, 3000, 1);
    std::set<IndividualId> all;
    std::size_t places = 0;
    for (int i = 0; i < 3; ++i) {
      int natives = 0;
      for (const Elite& elite : h.islands.elites(i)) {
        natives += !elite.immigrant;
        all.insert(elite.id);
        ++places;
      }
      BOOST_TEST(natives >= 6);
    }
    BOOST_TEST(all.size() + 6 >= places);  // at most the immigrants are shared
  }
}

BOOST_AUTO_TEST_CASE(the_best_travels_to_the_next_island) {
  History h({.islands = 2, .elites = 4, .migrate_every = 3, .immigrants = 1});
  h.add({.fitness = 5.0, .island = 0});
  BOOST_TEST(h.islands.judged().empty());
  h.add({.fitness = 1.0, .island = 1});
  BOOST_TEST(h.islands.judged().empty());
  h.add({.fitness = 2.0, .island = 1});
  const auto moves = h.islands.judged();
  BOOST_REQUIRE_EQUAL(moves.size(), 2);
  BOOST_TEST(moves[0].id == 1);
  BOOST_TEST(h.islands.elites(1).front().id == 1);
  BOOST_TEST(h.islands.elites(1).front().immigrant);
}

BOOST_AUTO_TEST_CASE(an_expelled_individual_breeds_no_more_and_its_next_setting_does) {
  History h({.islands = 2});
  h.add({.fitness = 1.0, .source = "s", .founder = true});
  h.add({.fitness = 0.5, .island = 1, .source = "s", .parents = {1}});
  h.islands.expel(1);
  for (int i = 0; i < 2; ++i) {
    BOOST_REQUIRE_EQUAL(h.islands.elites(i).size(), 1);
    BOOST_TEST(h.islands.elites(i).front().id == 2);
  }
  h.islands.expel(2);
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST(h.islands.elites(i).empty());
    BOOST_TEST(h.islands.members(i).empty());
  }
}

BOOST_AUTO_TEST_CASE(one_seed_gives_one_history) {
  const PopulationOptions options{.islands = 4, .elites = 6, .migrate_every = 7, .immigrants = 2};
  const History a = unequal_history(options, 800, 3), b = unequal_history(options, 800, 3);
  for (int i = 0; i < 4; ++i) BOOST_TEST((a.islands.elites(i) == b.islands.elites(i)));
  const History c = unequal_history(options, 800, 4);
  BOOST_TEST(!(a.islands.elites(0) == c.islands.elites(0)));
}

BOOST_AUTO_TEST_CASE(selection_prefers_the_fit_and_gives_different_parents) {
  for (const int rules : {1, 2}) {
    History h({.rules = rules,
               .tournament = 3,
               .explore = 0.0,
               .islands = 1,
               .elites = 10,
               .migrate_every = 0,
               .family_elites = 10});
    for (int id = 1; id <= 10; ++id) h.add({.fitness = static_cast<double>(id)});
    int best_half = 0;
    for (std::uint64_t step = 0; step < 500; ++step) {
      RandomStream stream = stream_of(1, "selection", step);
      const auto parents = h.islands.parents(0, {.count = 2}, h.archive, stream);
      BOOST_REQUIRE_EQUAL(parents.size(), 2);
      BOOST_TEST(parents[0] > parents[1]);  // fitness is the id: fittest first, and never the same
      best_half += parents[0] > 5;
    }
    BOOST_TEST(best_half > 450);
    RandomStream a = stream_of(1, "selection", 9), b = stream_of(1, "selection", 9);
    BOOST_TEST((h.islands.parents(0, {.count = 2}, h.archive, a) ==
                h.islands.parents(0, {.count = 2}, h.archive, b)));
  }
}

BOOST_AUTO_TEST_CASE(an_island_with_one_individual_gives_one_parent) {
  for (const int rules : {1, 2}) {
    History h({.rules = rules, .islands = 2});
    h.add({.island = 0});
    RandomStream stream = stream_of(1, "selection", 0);
    BOOST_TEST(h.islands.parents(0, {.count = 2}, h.archive, stream).size() == 1);
    BOOST_TEST(h.islands.parents(1, {.count = 2}, h.archive, stream).empty());
  }
}

BOOST_AUTO_TEST_CASE(a_source_has_one_place_and_keeps_its_tunings) {
  const auto fill = [](History& h) {
    h.add({.fitness = 1.0, .source = "seed", .founder = true});
    for (int i = 0; i < 20; ++i) h.add({.fitness = 2.0 + i, .source = "tuned", .parents = {1}});
    h.add({.fitness = 1.5, .source = "rewritten", .parents = {1}});
  };
  History h({.explore = 0.0, .islands = 1, .elites = 4});
  fill(h);
  std::set<std::string> sources;
  for (const Elite& elite : h.islands.elites(0)) sources.insert(elite.source);
  BOOST_TEST((sources == std::set<std::string>{"seed", "tuned", "rewritten"}));
  BOOST_TEST(h.islands.elites(0).front().fitness == 21.0);
  // A partner that is to be a tuning is one of the same source.
  int pairs = 0;
  for (std::uint64_t step = 0; step < 50; ++step) {
    RandomStream stream = stream_of(1, "selection", step);
    const auto parents = h.islands.parents(0, {.count = 2, .partner = Partner::tuning}, h.archive, stream);
    BOOST_REQUIRE_EQUAL(parents.size(), 2);
    if (h.archive.source_id(parents[0]) != "tuned" || h.archive.source_id(parents[1]) != "tuned") continue;
    ++pairs;
  }
  BOOST_TEST(pairs > 20);
  // By rules 1 the tunings fill the island.
  History old(old_rules({.islands = 1, .elites = 4}));
  fill(old);
  for (const Elite& elite : old.islands.elites(0)) BOOST_TEST(elite.source == "tuned");
}

BOOST_AUTO_TEST_CASE(a_family_does_not_fill_an_island) {
  History h({.islands = 1, .elites = 4, .family_elites = 2});
  const IndividualId seed = h.add({.fitness = 1.0, .source = "seed", .founder = true});
  const IndividualId first = h.add({.fitness = 5.0, .parents = {seed}});
  for (int i = 0; i < 5; ++i) h.add({.fitness = 6.0 + i, .parents = {first}});
  const IndividualId other = h.add({.fitness = 2.0, .parents = {seed}});
  const auto elites = h.islands.elites(0);
  BOOST_REQUIRE_EQUAL(elites.size(), 4);
  BOOST_TEST(std::ranges::count(elites, first, &Elite::family) == 2);
  BOOST_TEST(std::ranges::count(elites, other, &Elite::family) == 1);
}

BOOST_AUTO_TEST_CASE(partners_complement_each_other_and_are_not_ancestors) {
  History h({.tournament = 4, .explore = 0.0, .islands = 1, .elites = 8, .family_elites = 8});
  const IndividualId seed = h.add({.fitness = 1.0, .workload_values = {1, 1}, .founder = true});
  const IndividualId a = h.add({.fitness = 4.0, .parents = {seed}, .workload_values = {16, 1}});
  h.add({.fitness = 3.9, .parents = {a}, .workload_values = {15, 1}});
  const IndividualId alike = h.add({.fitness = 3.8, .parents = {seed}, .workload_values = {14, 1}});
  const IndividualId strong_there = h.add({.fitness = 2.0, .parents = {seed}, .workload_values = {1, 4}});
  const ParentsOf parents_of = [&](IndividualId id) { return h.archive.parents(id); };
  int complements = 0, with_a = 0;
  for (std::uint64_t step = 0; step < 200; ++step) {
    RandomStream stream = stream_of(1, "selection", step);
    const auto parents =
        h.islands.parents(0, {.count = 2, .partner = Partner::complement}, h.archive, stream);
    if (parents.size() < 2) {
      BOOST_TEST(parents.front() == seed);  // everything descends from it
      continue;
    }
    BOOST_TEST(!in_one_line(parents[0], parents[1], parents_of));
    if (parents[0] != a) continue;
    ++with_a;
    complements += parents[1] == strong_there;
    BOOST_TEST((parents[1] == strong_there || parents[1] == alike));
  }
  BOOST_TEST(with_a > 20);
  BOOST_TEST(complements > 0.8 * with_a);
}

BOOST_AUTO_TEST_CASE(an_island_without_progress_begins_anew_but_not_the_one_that_leads) {
  History h({.islands = 2, .elites = 4, .migrate_every = 0, .reset_after = 10});
  const IndividualId seed = h.add({.fitness = 1.0, .founder = true});
  h.islands.judged();
  const IndividualId leader = h.add({.fitness = 9.0, .island = 0, .parents = {seed}});
  h.islands.judged();
  std::vector<Migration> moves;
  for (int i = 0; i < 11 && moves.empty(); ++i) {
    h.add({.fitness = 0.5, .island = 1, .parents = {seed}});
    moves = h.islands.judged();
  }
  BOOST_REQUIRE_EQUAL(moves.size(), 1);
  BOOST_TEST((moves.front() == Migration{leader, 0, 1, true}));
  BOOST_TEST(h.islands.elites(1).size() == 1);
  BOOST_TEST(h.islands.members(1).size() == 1);
  for (int i = 0; i < 30; ++i) {
    h.add({.fitness = 0.5, .island = 0, .parents = {seed}});
    BOOST_TEST(h.islands.judged().empty());
  }
}

BOOST_AUTO_TEST_CASE(an_island_that_was_begun_anew_takes_no_migrants_at_first) {
  History h({.islands = 2, .migrate_every = 1, .immigrants = 2, .reset_after = 10});
  const IndividualId seed = h.add({.fitness = 1.0, .founder = true});
  h.add({.fitness = 9.0, .island = 0, .parents = {seed}});
  h.islands.reset(h.archive, seed);
  const auto has_migrants = [&] {
    const auto elites = h.islands.elites(1);
    return std::ranges::any_of(elites, &Elite::immigrant);
  };
  for (int i = 0; i < 4; ++i) {
    h.add({.fitness = 0.5, .island = 1, .parents = {seed}});
    h.islands.judged();
    BOOST_TEST(!has_migrants());
  }
  h.add({.fitness = 0.5, .island = 1, .parents = {seed}});
  h.islands.judged();
  BOOST_TEST(has_migrants());
}

BOOST_AUTO_TEST_CASE(a_reset_gives_an_island_to_an_ancestor_and_spares_the_leader) {
  History h({.explore = 0.0, .islands = 2});
  const IndividualId seed = h.add({.fitness = 1.0, .founder = true});
  const IndividualId ancestor = h.add({.fitness = 2.0, .island = 1, .parents = {seed}});
  h.add({.fitness = 5.0, .island = 1, .parents = {ancestor}});
  h.add({.fitness = 9.0, .island = 0, .parents = {ancestor}});
  BOOST_TEST((h.islands.reset(h.archive, ancestor) == std::vector<Migration>{{ancestor, 1, 1, true}}));
  BOOST_REQUIRE_EQUAL(h.islands.elites(1).size(), 1);
  RandomStream stream = stream_of(1, "selection", 1);
  BOOST_TEST((h.islands.parents(1, {}, h.archive, stream) == std::vector<IndividualId>{ancestor}));
  BOOST_TEST((h.islands.reset(h.archive) == std::vector<Migration>{{4, 0, 1, true}}));
  History single({.islands = 1});
  single.add({.founder = true});
  BOOST_TEST(single.islands.reset(single.archive).empty());
}

BOOST_AUTO_TEST_CASE(a_parent_can_be_avoided_unless_there_is_no_other) {
  for (const double explore : {0.0, 1.0}) {
    History h({.explore = explore, .islands = 1});
    h.add({.fitness = 9.0, .source = "a"});
    const auto parent = [&] {
      RandomStream stream = stream_of(1, "selection", 1);
      return h.islands.parents(0, {.count = 1, .avoid = {"a"}}, h.archive, stream).front();
    };
    BOOST_TEST(parent() == 1);
    h.add({.fitness = 1.0, .source = "b"});
    BOOST_TEST(parent() == 2);
  }
}

BOOST_AUTO_TEST_CASE(a_source_whose_settings_were_all_expelled_comes_back_with_its_next_setting) {
  History h({.explore = 1.0, .islands = 1});
  const IndividualId first = h.add({.fitness = 9.0, .source = "a"});
  h.islands.expel(first);
  const IndividualId next = h.add({.fitness = 8.0, .source = "a"});
  BOOST_TEST((h.islands.members(0) == std::vector<IndividualId>{next}));
  RandomStream stream = stream_of(1, "selection", 1);
  BOOST_TEST((h.islands.parents(0, {}, h.archive, stream) == std::vector<IndividualId>{next}));
}

BOOST_AUTO_TEST_CASE(the_island_of_the_fittest_leads) {
  History h({.islands = 3, .lead = 0.4});
  h.add({.fitness = 1.0, .island = 0});
  h.add({.fitness = 3.0, .island = 1});
  h.add({.fitness = 2.0, .island = 2});
  std::vector<int> turns(3);
  for (int i = 0; i < 100; ++i) ++turns.at(static_cast<std::size_t>(h.islands.turn(i)));
  BOOST_TEST(turns == (std::vector{20, 60, 20}), boost::test_tools::per_element());
  History old(old_rules({.islands = 3}));
  for (int i = 0; i < 9; ++i) BOOST_TEST(old.islands.turn(i) == i % 3);
}

BOOST_AUTO_TEST_CASE(islands_with_founders_alone_take_what_leaves_them_behind) {
  History h({.islands = 3, .migrate_every = 0});
  h.add({.founder = true});
  h.islands.judged();
  h.add({.fitness = 2.9, .island = 0, .parents = {1}});  // not enough
  BOOST_TEST(h.islands.judged().empty());
  h.add({.fitness = 9.0, .island = 0, .parents = {1}});
  BOOST_TEST((h.islands.judged() == std::vector<Migration>{{3, 0, 1}, {3, 0, 2}}));
  BOOST_TEST(h.islands.elites(2).front().id == 3);
  // Now it leads there; the founder is no longer the best of any island.
  BOOST_TEST(h.islands.judged().empty());

  History other({.islands = 3, .migrate_every = 0});
  other.add({.founder = true});
  other.add({.fitness = 1.2, .island = 1, .parents = {1}});  // island 1 has a line of its own
  other.add({.fitness = 9.0, .island = 0, .parents = {1}});
  BOOST_TEST((other.islands.judged() == std::vector<Migration>{{3, 0, 2}}));

  // A founder is as fast as its best setting, wherever that was born.
  History tuned({.islands = 3, .migrate_every = 0});
  tuned.add({.source = "seed", .founder = true});
  tuned.add({.fitness = 7.0, .island = 0, .source = "seed", .parents = {1}});
  tuned.add({.fitness = 9.0, .island = 0, .parents = {2}});
  BOOST_TEST(tuned.islands.judged().empty());

  PopulationOptions before{.islands = 3, .migrate_every = 0};
  before.rules = 2;
  History old(before);
  old.add({.founder = true});
  old.add({.fitness = 9.0, .island = 0, .parents = {1}});
  BOOST_TEST(old.islands.judged().empty());
}

BOOST_AUTO_TEST_CASE(islands_take_different_kernels_if_there_are_several) {
  History h({.islands = 4, .migrate_every = 0});
  h.add({.founder = true});
  h.add({.fitness = 9.0, .island = 0, .parents = {1}});
  h.add({.fitness = 8.0, .island = 0, .parents = {1}});
  BOOST_TEST((h.islands.judged() == std::vector<Migration>{{2, 0, 1}, {3, 0, 2}, {2, 0, 3}}));
}

BOOST_AUTO_TEST_CASE(another_fitness_moves_an_elite) {
  History h({.islands = 1});
  h.add({.fitness = 2.0});
  h.add({.fitness = 1.0});
  h.islands.revalue(1, 0.5);
  BOOST_TEST(h.islands.elites(0).front().id == 2);
}

// The second setting was measured while the machine was ten times as fast; its duel tells.
BOOST_AUTO_TEST_CASE(after_a_duel_the_fittest_setting_of_a_source_is_the_parent) {
  for (const int rules : {10, 11}) {
    History h({.rules = rules, .islands = 2, .migrate_every = 0});
    h.add({.fitness = 1.0, .source = "s", .founder = true});
    h.add({.fitness = 8.0, .source = "s", .parents = {1}});
    BOOST_TEST(h.islands.elites(0).front().id == 2);
    h.islands.revalue(2, 0.8);
    BOOST_REQUIRE_EQUAL(h.islands.elites(0).size(), 1);
    BOOST_TEST(h.islands.elites(0).front().id == (rules < 11 ? 2 : 1));
    BOOST_TEST(h.islands.elites(0).front().fitness == (rules < 11 ? 0.8 : 1.0));
    BOOST_TEST(h.islands.elites(1).front().id == 1);
    h.islands.revalue(2, 1.2);  // a later one: it is faster after all
    BOOST_TEST(h.islands.elites(0).front().id == 2);
    BOOST_TEST(h.islands.elites(1).front().id == (rules < 11 ? 1 : 2));
  }
}

BOOST_AUTO_TEST_SUITE_END()

#include "population/islands.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "evaluators/system/random.hpp"

using namespace cultivar;

namespace {

// A long history in which island 0 finds much better individuals than the others.
Islands unequal_history(const IslandOptions& options, int steps, std::uint64_t seed) {
  Islands islands(options);
  RandomStream stream = stream_of(seed, "history", 0);
  for (IndividualId id = 1; id <= steps; ++id) {
    const int island = static_cast<int>(below(stream, static_cast<std::size_t>(options.islands)));
    islands.settle(id, uniform(stream) + (island == 0 ? 10.0 : 0.0), island);
    islands.judged();
  }
  return islands;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(islands)

BOOST_AUTO_TEST_CASE(elites_are_the_fittest_in_order) {
  Islands islands({.islands = 1, .elites = 3, .migrate_every = 0});
  const double fitness[] = {2, 5, 1, 4, 3};
  for (int i = 0; i < 5; ++i) islands.settle(i + 1, fitness[i], 0);
  const auto& elites = islands.elites(0);
  BOOST_REQUIRE_EQUAL(elites.size(), 3);
  BOOST_TEST(elites[0].id == 2);
  BOOST_TEST(elites[1].id == 4);
  BOOST_TEST(elites[2].id == 5);
  BOOST_TEST(islands.members(0).size() == 5);
}

BOOST_AUTO_TEST_CASE(a_founder_lives_on_every_island) {
  Islands islands({.islands = 3});
  islands.settle_everywhere(1, 1.0);
  for (int i = 0; i < 3; ++i) BOOST_TEST(islands.elites(i).front().id == 1);
}

BOOST_AUTO_TEST_CASE(islands_do_not_become_one_however_unequal_they_are) {
  const IslandOptions options{.islands = 3, .elites = 8, .migrate_every = 10, .immigrants = 2};
  const Islands islands = unequal_history(options, 5000, 1);
  std::set<IndividualId> all;
  std::size_t places = 0;
  for (int i = 0; i < 3; ++i) {
    int natives = 0;
    for (const Elite& elite : islands.elites(i)) {
      natives += !elite.immigrant;
      all.insert(elite.id);
      ++places;
    }
    BOOST_TEST(natives >= 6);
  }
  BOOST_TEST(all.size() + 6 >= places);  // at most the immigrants are shared
}

BOOST_AUTO_TEST_CASE(the_best_travels_to_the_next_island) {
  Islands islands({.islands = 2, .elites = 4, .migrate_every = 3, .immigrants = 1});
  islands.settle(1, 5.0, 0);
  BOOST_TEST(islands.judged().empty());
  islands.settle(2, 1.0, 1);
  BOOST_TEST(islands.judged().empty());
  islands.settle(3, 2.0, 1);
  const auto moves = islands.judged();
  BOOST_REQUIRE_EQUAL(moves.size(), 2);
  BOOST_TEST(moves[0].id == 1);
  BOOST_TEST(islands.elites(1).front().id == 1);
  BOOST_TEST(islands.elites(1).front().immigrant);
}

BOOST_AUTO_TEST_CASE(a_duel_ranks_an_elite_anew_on_every_island) {
  Islands islands({.islands = 2, .elites = 2});
  islands.settle_everywhere(1, 5.0);
  islands.settle(2, 9.0, 0);
  islands.settle(3, 4.0, 0);  // no room
  islands.revise(2, 4.5);
  BOOST_TEST(islands.elites(0)[0].id == 1);
  BOOST_TEST(islands.elites(0)[1].id == 2);
  BOOST_TEST(islands.elites(0)[1].fitness == 4.5);
  islands.revise(3, 6.0);
  BOOST_TEST(islands.elites(0)[0].id == 3);
  BOOST_TEST(islands.elites(0).size() == 2U);
  islands.revise(1, 1.0);  // it lives on both, but is an elite of one only now
  BOOST_TEST(islands.elites(1)[0].fitness == 1.0);
  BOOST_TEST(islands.elites(1).size() == 1U);
}

BOOST_AUTO_TEST_CASE(an_expelled_individual_breeds_no_more) {
  Islands islands({.islands = 2});
  islands.settle_everywhere(1, 1.0);
  islands.expel(1);
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST(islands.elites(i).empty());
    BOOST_TEST(islands.members(i).empty());
  }
}

BOOST_AUTO_TEST_CASE(one_seed_gives_one_history) {
  const IslandOptions options{.islands = 4, .elites = 6, .migrate_every = 7, .immigrants = 2};
  const Islands a = unequal_history(options, 800, 3), b = unequal_history(options, 800, 3);
  for (int i = 0; i < 4; ++i) BOOST_TEST((a.elites(i) == b.elites(i)));
  const Islands c = unequal_history(options, 800, 4);
  BOOST_TEST(!(a.elites(0) == c.elites(0)));
}

BOOST_AUTO_TEST_SUITE_END()

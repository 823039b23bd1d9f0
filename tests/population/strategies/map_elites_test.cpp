// SPDX-License-Identifier: Apache-2.0
#include "population/strategies/map_elites.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "support/settled.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

PopulationOptions with_axes(std::vector<std::string> axes, int cells = 64) {
  PopulationOptions options{.strategy = StrategyKind::map_elites};
  options.axes = std::move(axes);
  options.cells = cells;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(map_elites)

BOOST_AUTO_TEST_CASE(each_cell_keeps_its_best) {
  MapElites map(with_axes({"registers", "LAYOUT"}));
  Archive archive;
  const Configuration plain{{"LAYOUT", std::string("plain")}}, packed{{"LAYOUT", std::string("packed")}};
  settle(map, archive, {.fitness = 9.0, .descriptors = {{"registers", 168}}, .configuration = plain});
  settle(map, archive, {.fitness = 5.0, .descriptors = {{"registers", 200}}, .configuration = plain});
  settle(map, archive, {.fitness = 2.0, .descriptors = {{"registers", 40}}, .configuration = plain});
  settle(map, archive, {.fitness = 3.0, .descriptors = {{"registers", 63}}, .configuration = plain});
  settle(map, archive, {.fitness = 1.0, .descriptors = {{"registers", 63}}, .configuration = packed});
  settle(map, archive, {.fitness = 0.1});
  std::map<std::string, IndividualId> cells;
  for (const auto& [cell, elite] : map.cells()) cells[cell] = elite.id;
  BOOST_TEST((cells == std::map<std::string, IndividualId>{{"registers 2^7, LAYOUT plain", 1},
                                                           {"registers 2^5, LAYOUT plain", 4},
                                                           {"registers 2^5, LAYOUT packed", 5},
                                                           {"registers -, LAYOUT -", 6}}));
  BOOST_TEST(map.elites(0).front().id == 1);
  map.expel(1);
  BOOST_TEST(map.elites(0).front().id == 4);
}

BOOST_AUTO_TEST_CASE(families_have_their_own_cells_and_a_weak_one_breeds_too) {
  PopulationOptions options = with_axes({"family"});
  options.tournament = 2;
  options.explore = 0.5;
  MapElites map(options);
  Archive archive;
  const IndividualId seed = settle(map, archive, {.fitness = 1.0, .founder = true});
  const IndividualId strong = settle(map, archive, {.fitness = 9.0, .parents = {seed}});
  for (int i = 0; i < 5; ++i) settle(map, archive, {.fitness = 10.0 + i, .parents = {strong}});
  const IndividualId weak = settle(map, archive, {.fitness = 0.5, .parents = {seed}});
  BOOST_TEST(map.cells().size() == 3);
  int of_weak = 0;
  for (std::uint64_t step = 0; step < 300; ++step) {
    RandomStream stream = stream_of(1, "selection", step);
    of_weak += map.parents(0, {}, archive, stream).front() == weak;
  }
  BOOST_TEST(of_weak > 30);
}

BOOST_AUTO_TEST_CASE(of_too_many_cells_the_weakest_is_emptied) {
  MapElites map(with_axes({"family"}, 3));
  Archive archive;
  const IndividualId seed = settle(map, archive, {.fitness = 1.0, .founder = true});
  for (const double fitness : {5.0, 4.0, 3.0, 2.0})
    settle(map, archive, {.fitness = fitness, .parents = {seed}});
  BOOST_REQUIRE_EQUAL(map.elites(0).size(), 3);
  BOOST_TEST(map.elites(0).back().fitness == 3.0);
}

BOOST_AUTO_TEST_SUITE_END()

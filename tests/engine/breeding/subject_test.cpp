// SPDX-License-Identifier: Apache-2.0
// Which kernel a question is about while kernels that were written from it wait.
#include "engine/breeding/steering.hpp"

#include <boost/test/unit_test.hpp>

#include "support/search_parts.hpp"
#include "support/settled.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct Judged {
  IndividualId add(const Born& born) { return settle(*strategy, archive, born); }
  IndividualId begin(const std::vector<IndividualId>& parents, const std::string& source = "new") {
    Individual individual;
    individual.id = archive.size() + 1;
    individual.source_id = source;
    individual.descent.parents = parents;
    archive.add(individual);
    return individual.id;
  }

  Archive archive;
  std::unique_ptr<Strategy> strategy = make_strategy({});
};

// A search that asks about one seed, with answers given by hand.
struct Questioned : SearchParts {
  explicit Questioned(const std::string& rules, const std::string& op = "mutate")
      : SearchParts({},
                    {"rules=" + rules, "seeds=[plain.cpp]", "operators={" + op + ": 1}",
                     "population.strategy=map_elites", "models={m: {provider: mailbox, folder: letters}}"}) {
    (void)proposals.seeds({});
    judge(1, 1.0);
  }
  IndividualId admit(IndividualId parent, const std::string& source) {
    Individual child;
    child.id = breeding.next_id();
    child.source_id = child.variant_id = source;
    child.descent.op = "mutate";
    child.descent.parents = {parent};
    breeding.admit(child);
    return child.id;
  }
  void judge(IndividualId id, double fitness) {
    breeding.judge(id, {.measured = fitness > 0.0, .fitness = fitness});
  }
  // The brief of the next question; empty parents: none is asked.
  Brief next() {
    const auto offspring = breeding.breed({.questions = true});
    return offspring ? std::get<Asking>(*offspring).brief : Brief{};
  }
  IndividualId subject() {
    const Brief brief = next();
    return brief.parents.empty() ? 0 : brief.parents.front();
  }
  // A planner saw `id` and gave this strategy.
  void plan(IndividualId id, const std::string& strategy) {
    Brief brief;
    brief.op = "plan";
    brief.model = "m";
    brief.parents = {id};
    breeding.ask(brief);
    breeding.direct(breeding.next_asking() - 1, {{strategy}});
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(subject)

BOOST_FIXTURE_TEST_CASE(of_the_kernels_that_wait_the_fittest_descendant_that_is_much_faster_counts, Judged) {
  add({.source = "seed", .founder = true});
  add({.source = "seed", .parents = {1}});  // 2: a setting of it
  add({.fitness = 1.4, .parents = {1}});    // 3: not enough
  add({.fitness = 2.0, .parents = {3}});    // 4
  add({.fitness = 3.0, .parents = {}});     // 5: of another line
  add({.fitness = 2.5, .source = "seed"});  // 6: its own source
  BOOST_TEST(faster_descendant(1, {3}, archive) == 0);
  BOOST_TEST(faster_descendant(1, {3, 4, 5, 6}, archive) == 4);
  BOOST_TEST(faster_descendant(2, {3, 4, 5, 6}, archive) == 4);
  BOOST_TEST(faster_descendant(4, {3, 5}, archive) == 0);
  archive.expel(1);
  BOOST_TEST(faster_descendant(1, {4}, archive) == 0);
}

BOOST_FIXTURE_TEST_CASE(the_first_offspring_is_due_until_one_is_judged, Judged) {
  add({.source = "seed", .founder = true});
  BOOST_TEST(!first_offspring_due(1, archive));
  begin({1}, "seed");  // a setting of it
  BOOST_TEST(!first_offspring_due(1, archive));
  const IndividualId first = begin({2}, "a"), second = begin({1}, "b");
  BOOST_TEST(first_offspring_due(1, archive));
  archive.judge(first, false, 0.0, 1);  // a duplicate says nothing
  BOOST_TEST(first_offspring_due(1, archive));
  archive.judge(second, false, 0.0);
  begin({1}, "c");
  BOOST_TEST(!first_offspring_due(1, archive));
}

BOOST_AUTO_TEST_CASE(a_question_waits_for_the_first_offspring_and_follows_the_faster_one) {
  Questioned search("3");
  BOOST_TEST(search.subject() == 1);
  search.breeding.promote(1);
  const IndividualId child = search.admit(1, "child");
  BOOST_TEST(search.subject() == 0);
  search.judge(child, 9.0);
  BOOST_TEST(search.subject() == child);  // not compared yet
  const IndividualId failed = search.admit(child, "failed");
  BOOST_TEST(search.subject() == 0);
  search.judge(failed, 0.0);
  BOOST_TEST(search.subject() == child);

  Questioned old("2");
  old.breeding.promote(1);
  old.admit(1, "child");
  BOOST_TEST(old.subject() == 1);
}

BOOST_AUTO_TEST_CASE(a_kernel_near_the_roofline_is_asked_about_while_others_are_evaluated) {
  Questioned search("3");
  search.breeding.set_roofline(2.0);
  search.breeding.promote(1);
  search.admit(1, "child");
  BOOST_TEST(search.subject() == 1);
}

BOOST_AUTO_TEST_CASE(an_older_kernel_is_left_behind_only_by_news) {
  Questioned search("3");
  search.breeding.promote(1);
  const IndividualId best = search.admit(1, "best");
  search.judge(best, 9.0);
  BOOST_TEST(search.breeding.left_behind_by(1) == best);
  search.breeding.compared(best, Verdict::better);
  BOOST_TEST(search.breeding.left_behind_by(1) == best);  // its confirmation is pending
  search.breeding.promote(best);
  search.judge(search.admit(best, "next"), 10.0);
  BOOST_TEST(search.breeding.left_behind_by(1) == 0);
}

BOOST_AUTO_TEST_CASE(strategies_for_a_kernel_end_when_a_much_faster_descendant_becomes_the_incumbent) {
  for (const std::string rules : {"3", "4"}) {
    Questioned search(rules);
    search.breeding.promote(1);
    search.plan(1, "fuse the two passes");
    BOOST_TEST(search.next().direction == "fuse the two passes");
    const IndividualId best = search.admit(1, "best");
    search.judge(best, 9.0);
    search.breeding.promote(best);
    const Brief brief = search.next();
    BOOST_TEST((brief.direction == "fuse the two passes") == (rules == "3"));
    BOOST_REQUIRE(brief.parents.size() == 1U);
    BOOST_TEST(brief.parents.front() == (rules == "3" ? 1 : best));
  }
}

BOOST_AUTO_TEST_CASE(a_line_begun_anew_takes_no_partner_from_outside) {
  for (const std::string rules : {"3", "4"}) {
    Questioned search(rules, "crossover");
    search.breeding.promote(1);
    const IndividualId best = search.admit(1, "best");
    search.judge(best, 9.0);
    search.breeding.promote(best);
    const IndividualId other = search.admit(1, "other");
    search.judge(other, 2.0);
    search.breeding.begin({.number = 1, .answer = Answer::ancestor, .ancestor = other});
    const std::vector<IndividualId> parents = search.next().parents;
    if (rules == "3")
      BOOST_TEST((parents == std::vector{other, best}));
    else
      BOOST_TEST(parents.empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()

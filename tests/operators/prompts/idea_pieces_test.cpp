// SPDX-License-Identifier: Apache-2.0
// What a prompt tells of a long search, and that it stays short.
#include "operators/prompts/idea_pieces.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>

#include "operators/mutate.hpp"
#include "operators/registry.hpp"
#include "support/contains.hpp"
#include "support/record_view.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct LongSearch {
  Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  std::vector<Workload> workloads = task.workloads("cpu_quick")->workloads;
  Facts facts{{"num_cores", 4.0}};
  MemoryChronicle record_view{task};
  PromptKit kit;
  IndividualId best = 0;
  Ceilings ceilings;
  std::vector<std::string> insights;

  Evaluation measured(double fitness) const {
    Evaluation e;
    e.verdict = Evaluation::Verdict::measured;
    e.fitness = fitness;
    e.unit = "GB/s";
    for (const Workload& w : workloads) {
      WorkloadResult row;
      row.workload = w.name;
      row.median_us = 1e4 / fitness;
      row.q1_us = 0.98 * row.median_us;
      row.q3_us = 1.02 * row.median_us;
      row.value = fitness;
      e.workloads.push_back(row);
    }
    return e;
  }
  static std::string source(int family, int version) {
    std::string text = fmt::format("/*--- cultivar\nname: k{}_{}\n---*/\n", family, version);
    for (int line = 0; line < 60; ++line)
      text += line == version % 60 ? fmt::format("float changed_{}_{};\n", family, version)
                                   : fmt::format("float line_{}_of_family_{} = {}.0f;\n", line, family, line);
    return text;
  }
  // As many letters, in eight families: a duel for every tenth, a rejection for every third.
  void write(int letters) {
    std::vector<IndividualId> heads;
    for (int family = 0; family < 8; ++family)
      heads.push_back(
          record_view.add(source(family, 0), "seed", {}, measured(10.0), fmt::format("seed {}", family)));
    best = heads.front();
    for (int i = 1; i <= letters; ++i) {
      const int family = i % 8;
      const IndividualId parent = heads[static_cast<std::size_t>(family)];
      const std::string note = fmt::format("idea {}: {}", i, std::string(400, 'n'));
      const bool wrong = i % 3 == 0;
      const IndividualId id =
          record_view.add(source(family, i), i % 5 == 0 ? "agent" : "mutate", {parent},
                          wrong ? rejection(Stage::smoke, std::string(300, 'r'), std::string(4000, 'd'))
                                : measured(10.0 + 0.01 * i),
                          note);
      if (wrong) continue;
      if (i % 10 != 0) continue;
      DuelResult duel{best, Verdict::better, {0.01, 0.006, 0.014}, {}};
      for (std::size_t w = 0; w < workloads.size(); ++w) duel.workloads.push_back({0.01, 0.005, 0.015});
      record_view.archive.settle(id, record_view.archive.fitness(best) * std::exp(0.01), duel);
      record_view.promotions.push_back(id);
      heads[static_cast<std::size_t>(family)] = best = id;
    }
    for (int i = 0; i < 40; ++i)
      record_view.questions.push_back({.end = i < 30 ? Idea::End::nothing : Idea::End::open,
                                       .question = 1000 + i,
                                       .op = "agent",
                                       .parents = {best},
                                       .words = fmt::format("direction {}", i),
                                       .reason = std::string(500, 'x'),
                                       .drafts = std::vector<std::string>(8, std::string(160, 'y'))});
  }
  ChatRequest ask(const std::string& op, std::vector<IndividualId> parents,
                  std::string_view direction =
                      "attack what the measurements show to limit it most, and nothing else") const {
    PromptContext context{.task = task,
                          .workloads = workloads,
                          .facts = facts,
                          .archive = record_view.archive,
                          .record_view = record_view,
                          .device = "a processor",
                          .seen = ceilings,
                          .incumbent = best};
    context.insights = insights;
    Brief brief;
    brief.op = op;
    brief.model = "m";
    brief.parents = std::move(parents);
    brief.direction = direction;
    return first_question(brief, context, kit);
  }
};

std::int64_t tokens_of(const ChatRequest& request) {
  return estimated_tokens(request.system.at(0).text) + estimated_tokens(request.messages.at(0).text);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(idea_pieces, LongSearch)

BOOST_AUTO_TEST_CASE(
    after_1000_letters_a_prompt_stays_within_12000_tokens_and_begins_with_what_changes_least) {
  write(1000);
  for (int i = 0; i < 6; ++i) insights.push_back(fmt::format("insight {} {}", i, std::string(280, 'z')));
  const IndividualId other = record_view.archive.size() - 3;
  const std::string start = "# What this search has learned so far\n\n- insight 0";
  std::string system;
  for (const char* op : {"mutate", "crossover", "critique_repair", "agent", "plan", "reflect"}) {
    const auto began = std::chrono::steady_clock::now();
    const ChatRequest request = ask(op, {best, other});
    BOOST_TEST_MESSAGE(op << ": " << tokens_of(request) << " tokens in "
                          << std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count()
                          << " s");
    BOOST_TEST(tokens_of(request) <= 12'000, op);
    BOOST_TEST(tokens_of(request) >= 5'000, op);
    BOOST_TEST(request.messages.at(0).text.starts_with(start), op);
    for (const std::string& insight : insights)
      BOOST_TEST(contains(request.messages.at(0).text, insight), op);
    if (system.empty()) system = request.system.at(0).text;
    BOOST_TEST(request.system.at(0).text == system, op);
    BOOST_TEST(contains(request.messages.at(0).text, "idea 9"), op);  // of the newest hundred
  }
}

BOOST_AUTO_TEST_CASE(no_direction_tells_a_kernel_for_the_cpu_of_shared_memory_or_blocks) {
  write(3);
  for (const Direction& direction : directions(target_named("cpu"))) {
    const std::string user = ask("mutate", {1}, direction.words).messages.at(0).text;
    const std::size_t at = user.find("Make one change in this direction: ");
    BOOST_REQUIRE(at != std::string::npos);
    const std::string told = user.substr(at, user.find('\n', at) - at);
    BOOST_TEST(!contains(told, "shared memory"), told);
    BOOST_TEST(!contains(told, "blocks"), told);
    BOOST_TEST(contains(told, std::string(direction.words.substr(0, 16))), told);
  }
}

BOOST_AUTO_TEST_CASE(other_ideas_are_ordered_by_nearness_to_the_kernel_and_by_their_effect) {
  const IndividualId one = record_view.add(source(1, 0), "seed", {}, measured(10.0));
  const IndividualId two = record_view.add(source(2, 0), "seed", {}, measured(10.0));
  const IndividualId head =
      record_view.add(source(1, 1), "mutate", {one}, measured(10.0), "the first change");
  const IndividualId subject = record_view.add(source(1, 6), "mutate", {head}, measured(11.0), "the second");
  record_view.add(source(1, 2), "mutate", {head}, measured(10.1), "small, of its parent");
  record_view.add(source(1, 3), "mutate", {head}, measured(5.0), "large, of its parent");
  const IndividualId cousin =
      record_view.add(source(1, 4), "mutate", {head}, measured(10.2), "nearly nothing");
  record_view.add(source(1, 5), "mutate", {cousin}, measured(40.0), "of its family");
  record_view.add(source(2, 1), "mutate", {two}, measured(90.0), "of another family");
  best = subject;
  const std::string user = ask("mutate", {subject}).messages.at(0).text;
  std::size_t at = 0;
  for (const char* note : {"Other ideas, those about", "large, of its parent", "nearly nothing",
                           "small, of its parent", "of its family", "of another family"}) {
    const std::size_t next = user.find(note, at);
    BOOST_TEST(next != std::string::npos, note << " follows in\n" << user);
    if (next != std::string::npos) at = next;
  }
}

BOOST_AUTO_TEST_CASE(how_far_a_kernel_is_from_the_peak_is_said_at_the_pace_of_the_search) {
  // At half the pace of the search's start: its times reach a quarter of the peak, its fitness 55 %.
  ceilings.bytes_per_second = 1e9;
  ceilings.flops = 1e15;
  const IndividualId one = record_view.add(source(1, 0), "seed", {}, measured(10.0));
  Evaluation slow = measured(10.0);
  for (std::size_t i = 0; i < workloads.size(); ++i)
    slow.workloads[i].median_us = 4e6 * task.bytes(workloads[i]) / 1e9;
  const IndividualId paced = record_view.add(source(1, 1), "mutate", {one}, slow);
  const auto told = [&] { return ask("mutate", {paced}).messages.at(0).text; };
  best = paced;
  BOOST_TEST(contains(told(), "It reaches 25 % of the device's measured peak"), told());
  BOOST_TEST(contains(told(), "be bold"), told());
  record_view.archive.settle(paced, 22.0, {one, Verdict::better, {std::log(2.2), 0.7, 0.9}, {}});
  // What its table says; how far it is from the peak is corrected for the pace of the device.
  BOOST_TEST(contains(told(), "It reaches 25 % of the device's measured peak"), told());
  BOOST_TEST(contains(told(), "It reaches 25 % to 25 % of the device's measured peak"), told());
  BOOST_TEST(!contains(told(), "be bold"), told());
}

BOOST_AUTO_TEST_CASE(a_direction_has_the_same_name_in_a_letter_as_in_the_log_and_in_lists_of_ideas) {
  const IndividualId parent = record_view.add(source(1, 0), "seed", {}, measured(10.0));
  for (const double cores : {1.0, 16.0}) {
    facts["num_cores"] = cores;
    for (const Direction& direction : directions(target_named("cpu"))) {
      const std::string user = ask("mutate", {parent}, direction.words).messages.at(0).text;
      const std::string name(direction.words.substr(0, direction.words.find(':')));
      BOOST_TEST(contains(user, "in this direction: " + name), name << "\n" << user);
    }
  }
}

BOOST_AUTO_TEST_CASE(ideas_of_other_lines_are_told_with_their_source) {
  write(40);
  const std::string user = ask("mutate", {1}).messages.at(0).text;
  BOOST_TEST(contains(user, "Being tried now, by others:\n- question 1039, agent about"), user);
  BOOST_TEST(contains(user, "What gained most elsewhere, by duels:\n"), user);
  BOOST_TEST(contains(user, "duel with #1: +1.0 % (+0.6 to +1.4 %)"), user);
  BOOST_TEST(contains(user, " (family #"), user);
  BOOST_TEST(contains(user, "-> rejected at smoke: rrr"), user);
  BOOST_TEST(contains(user, "Questions that came to nothing, newest first:"), user);
  // What its lineage tells is not told twice.
  std::size_t times = 0;
  for (std::size_t at = user.find("idea 8:"); at != std::string::npos; at = user.find("idea 8:", at + 1))
    ++times;
  BOOST_TEST(times == 1U);
}

BOOST_AUTO_TEST_CASE(a_search_may_keep_its_ideas_and_other_families_from_questions) {
  write(8);
  const std::string ideas = "## Ideas of the whole search", families = "## Other kernels";
  const IndividualId subject = best;  // otherwise the best is shown in any case
  BOOST_TEST(contains(ask("mutate", {subject}).messages.at(0).text, ideas));
  BOOST_TEST(contains(ask("mutate", {subject}).messages.at(0).text, families));
  kit = PromptKit({.ideas = false});
  BOOST_TEST(!contains(ask("mutate", {subject}).messages.at(0).text, ideas));
  BOOST_TEST(contains(ask("mutate", {subject}).messages.at(0).text, families));
  kit = PromptKit({.families = false});
  BOOST_TEST(contains(ask("mutate", {subject}).messages.at(0).text, ideas));
  BOOST_TEST(!contains(ask("mutate", {subject}).messages.at(0).text, families));
}

BOOST_AUTO_TEST_CASE(an_elite_of_another_family_is_an_idea_and_a_change) {
  const IndividualId one = record_view.add(source(1, 0), "seed", {}, measured(10.0));
  const IndividualId two = record_view.add(source(2, 0), "seed", {}, measured(20.0));
  const IndividualId better = record_view.add(source(2, 5), "mutate", {two}, measured(25.0), "fewer passes");
  best = better;
  const IndividualId rewrite = record_view.add(source(3, 0), "mutate", {one}, measured(15.0), "written anew");
  const std::string user = ask("mutate", {one}).messages.at(0).text;
  BOOST_TEST(contains(user, "## Other kernels, for comparison only"), user);
  BOOST_TEST(contains(user, "fewer passes -> 25"), user);
  BOOST_TEST(contains(user, fmt::format("(family #{})", better)), user);
  BOOST_TEST(contains(user, fmt::format("Its change of #{}:", two)), user);
  BOOST_TEST(contains(user, "+float changed_2_5;"), user);
  BOOST_TEST(!contains(user, "line_40_of_family_2"), user);  // not the whole source
  BOOST_TEST(contains(user, fmt::format("written anew -> 15")), user);
  BOOST_TEST(contains(user, fmt::format("(family #{})", rewrite)), user);
  BOOST_TEST(contains(user, "lines omitted]"), user);
}

BOOST_AUTO_TEST_SUITE_END()

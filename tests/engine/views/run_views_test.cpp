// SPDX-License-Identifier: Apache-2.0
// What the views say of a record: the same as the record, also when it has grown since.
#include "engine/views/run_views.hpp"

#include <SQLiteCpp/Database.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/store/record_kernels.hpp"
#include "engine/store/standings.hpp"
#include "engine/store/summary.hpp"
#include "engine/views/individual_view.hpp"
#include "engine/views/islands_view.hpp"
#include "engine/views/kernel_table.hpp"
#include "engine/views/run_list.hpp"
#include "engine/views/run_report.hpp"
#include "support/command.hpp"
#include "support/synthetic_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;
using nlohmann::json;

namespace {

Record open(const std::filesystem::path& run) {
  auto record = Record::open(run);
  BOOST_REQUIRE(record);
  return std::move(*record);
}

struct Written {
  TemporaryFolder folder;
  Written() {
    SyntheticRun run;
    run.individuals = 300;
    write_synthetic_run(folder / "run", run);
  }
  Record record() const { return open(folder / "run"); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(run_views, Written)

BOOST_AUTO_TEST_CASE(an_index_knows_the_fitness_that_standings_know) {
  const Record one = record();
  RunIndex index;
  index.update(one);
  Standings standings(one);
  BOOST_TEST(index.kernels().size() == 300U);
  one.each_individual([&](const IndividualRow& row) {
    const KernelFacts* const k = index.find(row.individual.id);
    BOOST_REQUIRE(k);
    const double expected = row.state == IndividualState::measured ? standings.fitness(row) : 0.0;
    BOOST_TEST(k->fitness == expected, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(index.word(k->op) == origin_name(row.individual.descent));
  });
  std::vector<IndividualId> line;
  const IndividualId best = one.best().value();
  for (const IndividualRow& row : one.lineage(best)) line.push_back(row.individual.id);
  BOOST_TEST(index.line_to(best) == line, boost::test_tools::per_element());
  BOOST_TEST(index.find(301) == nullptr);
}

// The same numbers whether a record is read at once or while it grows.
BOOST_AUTO_TEST_CASE(an_index_that_follows_a_search_ends_as_one_that_reads_it_at_once) {
  const auto folder_of_search = folder / "growing";
  RunIndex following;
  std::optional<Record> reader;
  SyntheticRun run;
  run.individuals = 300;
  run.at_once = 17;
  run.goes_on = [&](std::int64_t) {
    if (!reader) reader.emplace(open(folder_of_search));
    following.update(*reader);
    return true;
  };
  write_synthetic_run(folder_of_search, run);
  following.update(*reader);
  RunIndex whole;
  whole.update(*reader);
  BOOST_TEST(compact_table(*reader, following) == compact_table(*reader, whole));
  BOOST_TEST(series_view(following, true) == series_view(whole, true));
  BOOST_TEST(state_view(*reader, following) == state_view(*reader, whole));
  BOOST_TEST(following.promotions().size() == reader->promotions().size());
  const std::int64_t version = following.version();
  following.update(*reader);
  BOOST_TEST(following.version() == version);
}

BOOST_AUTO_TEST_CASE(a_table_is_filtered_sorted_and_cut_into_pages) {
  const Record one = record();
  RunIndex index;
  index.update(one);
  TableQuery query;
  query.count = 7;
  json page = table_view(one, index, query);
  BOOST_TEST(page["all"] == 300);
  BOOST_TEST(page["rows"].size() == 7U);
  BOOST_TEST(page["rows"][0]["id"] == 300);
  query.state = "rejected";
  query.stage = "compile";
  query.from = 2;
  page = table_view(one, index, query);
  BOOST_TEST(page["all"] == summary_of(one).rejected.at(Stage::compile));
  for (const json& row : page["rows"]) BOOST_TEST(row["stage"] == "compile");
  query = {};
  query.sort = "fitness";
  query.count = 1000;
  page = table_view(one, index, query);
  BOOST_TEST(page["rows"].size() == 300U);
  for (std::size_t i = 1; i < page["rows"].size(); ++i)
    BOOST_TEST(page["rows"][i - 1]["fitness"] >= page["rows"][i]["fitness"]);
  query.descending = false;  // those that were not measured are last again
  std::vector<double> up;
  page = table_view(one, index, query);
  for (const json& row : page["rows"]) up.push_back(row["fitness"].get<double>());
  const auto unmeasured = std::find(up.begin(), up.end(), 0.0);
  BOOST_TEST((unmeasured - up.begin()) == summary_of(one).measured);
  BOOST_TEST(std::is_sorted(up.begin(), unmeasured));
  BOOST_TEST(std::count(unmeasured, up.end(), 0.0) == up.end() - unmeasured);
  query.descending = true;
  query.text = "stages=4";  // as the page shows a configuration
  page = table_view(one, index, query);
  BOOST_TEST(page["all"] > 50);
  for (const json& row : page["rows"])
    BOOST_TEST(row["configuration"].get<std::string>().find("STAGES=4") != std::string::npos);
  query.text = "RUNNING MAXIMUM%";  // a pattern's characters are characters
  BOOST_TEST(table_view(one, index, query)["all"] == 0);
  query.text = "RUNNING MAXIMUM";
  page = table_view(one, index, query);
  BOOST_TEST(page["all"] > 20);
  for (const json& row : page["rows"])
    BOOST_TEST(row["note"].get<std::string>().find("running maximum") != std::string::npos);
  query.from = 100'000;
  BOOST_TEST(table_view(one, index, query)["rows"].empty());
}

BOOST_AUTO_TEST_CASE(failed_confirmations_are_found_by_stage_and_reason) {
  const Record one = record();
  RunIndex index;
  index.update(one);
  std::set<IndividualId> failed;
  one.each_individual([&](const IndividualRow& row) {
    if (row.expelled) failed.insert(row.individual.id);
  });
  BOOST_REQUIRE(!failed.empty());
  const std::string reason = one.confirmation(*failed.begin())->reason;
  TableQuery by_state, by_reason, by_text;
  by_state.state = "expelled";
  by_reason.stage = "confirm";
  by_reason.reason = reason;
  by_text.text = reason;
  for (const TableQuery& query : {by_state, by_reason, by_text}) {
    const json page = table_view(one, index, query);
    BOOST_TEST(page["all"] == failed.size());
    for (const json& row : page["rows"]) {
      BOOST_TEST(failed.contains(row["id"].get<IndividualId>()));
      BOOST_TEST(row["reason"] == reason);
    }
  }
  BOOST_TEST(failures_view(index)["stages"]["confirm"] == failed.size());
}

BOOST_AUTO_TEST_CASE(a_measured_kernel_that_failed_its_confirmation_says_so_with_the_reason) {
  const Record one = record();
  RunIndex index;
  index.update(one);
  std::int64_t failed = 0;
  one.each_individual([&](const IndividualRow& row) {
    const IndividualId id = row.individual.id;
    const json view = variant_view(one, index, id);
    BOOST_TEST(view["expelled"] == row.expelled);
    BOOST_TEST(view["failure"].is_null() == !row.expelled);
    if (!row.expelled) return;
    ++failed;
    const Evaluation confirmation = one.confirmation(id).value();
    BOOST_TEST(view["failure"] == words_of_failure(confirmation));
    BOOST_TEST(view["failure"].get<std::string>().find(confirmation.reason) != std::string::npos);
    const Kernel kernel = kernel_in(one, std::to_string(id)).value();  // as a model reads it
    BOOST_REQUIRE(kernel.evaluation);
    BOOST_TEST(!kernel.evaluation->measured());
    BOOST_TEST(kernel.evaluation->reason == confirmation.reason);
  });
  BOOST_TEST(failed > 0);
  BOOST_TEST(summary_of(one).expelled == failed);
  {
    SQLite::Database db((folder / "run" / "run.db").string(), SQLite::OPEN_READWRITE);
    BOOST_REQUIRE(db.exec("DELETE FROM tallies WHERE key = 'expelled'") == 1);
  }
  BOOST_TEST(summary_of(record()).expelled == failed);  // as in a record of an earlier version
}

BOOST_AUTO_TEST_CASE(devices_are_busy_for_a_part_of_the_time_that_is_never_above_one) {
  const Record one = record();
  RunIndex index;
  index.update(one);
  const json view = devices_view(one, index);
  double in_bins = 0.0, of_evaluations = 0.0;
  for (const double share : view["busy"]) {
    BOOST_TEST((share >= 0.0 && share <= 1.0));
    in_bins += share * view["elapsed_s"].get<double>() / static_cast<double>(view["busy"].size());
  }
  double since_the_start = 0.0;
  for (const RunIndex::Judgement& judgement : index.judged()) {
    of_evaluations += judgement.device_s;
    since_the_start += std::min(judgement.device_s, judgement.elapsed_s);
  }
  BOOST_TEST(view["measuring"] == 2);  // what its two devices did is spread over the time of both
  BOOST_TEST(2.0 * in_bins == since_the_start, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(view["device_s"].get<double>() == of_evaluations, boost::test_tools::tolerance(1e-3));
}

BOOST_AUTO_TEST_CASE(a_record_without_device_time_has_that_of_evaluations_alone_and_says_so) {
  RunIndex index;
  index.update(record());
  double of_evaluations = 0.0;
  for (const RunIndex::Judgement& judgement : index.judged()) of_evaluations += judgement.device_s;
  BOOST_TEST(devices_view(record(), index)["of_evaluations_alone"] == false);
  {
    SQLite::Database db((folder / "run" / "run.db").string(), SQLite::OPEN_READWRITE);
    BOOST_REQUIRE(db.exec("DELETE FROM tallies WHERE key = 'device_ms'") == 1);
  }
  const Record one = record();
  const json view = devices_view(one, index);
  BOOST_TEST(view["of_evaluations_alone"] == true);
  BOOST_TEST(view["device_s"].get<double>() == of_evaluations, boost::test_tools::tolerance(1e-9));
  const json budgets = budgets_view(one, index);
  for (const json& row : budgets["rows"])
    BOOST_TEST(row["of_evaluations_alone"] == (row["kind"] == "device_hours"));
}

// Early versions of the search had the measured fitness of its parents, since their decisions lack the ratio.
BOOST_AUTO_TEST_CASE(parents_have_the_fitness_of_all_lists_and_that_of_the_search_where_it_differs) {
  for (const bool early : {false, true}) {
    if (early) {
      SQLite::Database db((folder / "run" / "run.db").string(), SQLite::OPEN_READWRITE);
      BOOST_REQUIRE(db.exec("UPDATE decisions SET body = json_extract(body, '$.verdict') WHERE kind = 'duel' "
                            "AND body LIKE '{%'") > 0);
      db.exec("UPDATE duels SET report = json_set(report, '$.decision.log_ratio', 0.2)");
    }
    const Record one = record();
    RunIndex index;
    index.update(one);
    int differ = 0;
    const json view = IslandsView().of(one, index);
    for (const json& island : view["islands"])
      for (const json& elite : island["elites"]) {
        BOOST_TEST(elite["fitness"].get<double>() == index.find(elite["id"].get<IndividualId>())->fitness);
        differ += elite.contains("fitness_in_search");
      }
    BOOST_TEST((differ > 0) == early);
  }
}

BOOST_AUTO_TEST_CASE(every_view_agrees_with_the_summary) {
  const Record one = record();
  RunIndex index;
  index.update(one);
  const Summary summary = summary_of(one);
  const json state = state_view(one, index), islands = IslandsView().of(one, index),
             operators = operators_view(one, index), failures = failures_view(index),
             budgets = budgets_view(one, index);
  BOOST_TEST(state["promotions"].size() == static_cast<std::size_t>(summary.promotions));
  BOOST_TEST(state["promotions"].back()["id"] == summary.best->id);
  BOOST_TEST(state["promotions"].back()["best"] == true);
  BOOST_TEST(state["promotions"].front()["best"] == false);
  BOOST_TEST(state["promotions"].back()["at"] >= state["created_at"]);
  BOOST_TEST(state["last_step_at"] >= state["promotions"].back()["at"]);
  BOOST_TEST(state["contenders"].size() == 2U);
  BOOST_TEST(state["summary"]["evaluations_per_hour"] == budgets["per_hour"]);
  std::int64_t measured = 0, promoted = 0, rejected = 0;
  for (const json& row : islands["islands"]) measured += row["measured"].get<std::int64_t>();
  for (const json& row : operators["rows"]) promoted += row["promoted"].get<std::int64_t>();
  for (const json& row : failures["reasons"])
    if (row["stage"] != "confirm") rejected += row["count"].get<std::int64_t>();
  BOOST_TEST(measured == summary.measured);
  BOOST_TEST(promoted == summary.promotions);
  BOOST_TEST(rejected == summary.evaluations - summary.measured);
  BOOST_TEST(islands["islands"].size() == 4U);
  BOOST_TEST(!islands.contains("trouble"));
  for (const json& row : islands["islands"]) {  // one place for each source, the fastest first
    BOOST_TEST(row["all_elites"] == 8);
    BOOST_TEST(row["elites"][0]["fitness"] >= row["elites"][7]["fitness"]);
    BOOST_TEST((row["elites"][0]["id"] == row["best"]["id"] || row["elites"][0]["immigrant"].get<bool>()));
  }
  const json path = path_view(one, index, 0);
  BOOST_TEST(path["of"] == summary.best->id);
  BOOST_TEST(path["path"].back()["id"] == summary.best->id);
  BOOST_TEST(path["path"].front()["operator"] == "seed");
  std::int64_t all = 0;
  std::vector<IndividualId> due{0};
  while (!due.empty()) {  // every individual is somewhere in the tree
    const json children = children_view(one, index, due.back(), 0, 100'000);
    due.pop_back();
    for (const json& row : children["rows"]) {
      ++all;
      if (row["children"] > 0) due.push_back(row["id"].get<IndividualId>());
    }
  }
  BOOST_TEST(all == 300);
  const json devices = devices_view(one, index);
  BOOST_TEST(devices["measurements"].size() > 100U);
  BOOST_TEST(devices["measurements"][0]["clock_mhz"] > 1700.0);
  for (const json& row : budgets["rows"])
    BOOST_TEST((row["kind"] != "evaluations" || row["seconds_left"] == 0.0));
  BOOST_TEST(interventions_view(one)["rows"].size() == interventions_of(one).size());
  BOOST_TEST(events_view(one, 0, 5)["rows"].size() == 5U);
}

BOOST_AUTO_TEST_CASE(cells_are_shown_by_the_steps_of_their_axes_with_the_fastest_of_each) {
  SyntheticRun run;
  run.individuals = 200;
  run.cells = true;
  write_synthetic_run(folder / "cells", run);
  const Record one = open(folder / "cells");
  RunIndex index;
  index.update(one);
  const json view = IslandsView().of(one, index);
  BOOST_TEST(!view.contains("trouble"));
  BOOST_TEST(view["strategy"] == "map_elites");
  BOOST_TEST(view["axes"] == json({"STAGES", "registers", "block_shared_bytes"}));
  BOOST_REQUIRE(view["cells"].size() > 10U);
  BOOST_TEST(view["all_cells"] == view["cells"].size());
  const IndividualId fastest = view["cells"][0]["elite"]["id"].get<IndividualId>();
  for (const json& cell : view["cells"]) {
    BOOST_TEST(cell["steps"].size() == 3U);
    BOOST_TEST((cell["steps"][0] == "2" || cell["steps"][0] == "3" || cell["steps"][0] == "4"));
    BOOST_TEST(cell["steps"][1].get<std::string>().starts_with("2^"));
    BOOST_TEST(cell["elite"]["fitness"].get<double>() <= (1.0 + 1e-9) * index.find(fastest)->fitness);
  }
  BOOST_TEST(state_view(one, index)["summary"]["best"]["id"] == fastest);
}

BOOST_AUTO_TEST_CASE(parents_that_a_record_does_not_tell_are_said_to_be_unknown) {
  {
    SQLite::Database db((folder / "run" / "run.db").string(), SQLite::OPEN_READWRITE);
    db.exec("UPDATE decisions SET individual = 299 WHERE kind = 'judge' AND individual = 3");
  }
  const Record one = record();
  RunIndex index;
  index.update(one);
  IslandsView islands;
  for (int again = 0; again < 2; ++again) {
    const json view = islands.of(one, index);
    BOOST_TEST(view["trouble"].get<std::string>().find("individual 299") != std::string::npos);
    BOOST_TEST(view["islands"].size() == 4U);
    BOOST_TEST(!view["islands"][0].contains("elites"));
  }
}

BOOST_AUTO_TEST_CASE(one_individual_is_shown_with_its_calls_intervals_and_parent) {
  const Record one = record();
  RunIndex index;
  index.update(one);
  const json best = variant_view(one, index, *one.best());
  BOOST_TEST(best["confirmation"]["workloads"].size() == 3U);
  const json& first = best["confirmation"]["workloads"][0];
  BOOST_TEST(first["interval_us"][0] <= first["median_us"]);
  BOOST_TEST(first["samples"] == 9);
  BOOST_TEST(first["ratio_intervals"].contains("cudnn"));
  BOOST_TEST(best["confirmation"]["exactness_rows"].size() == 4U);
  IndividualId asked = 0;
  for (const KernelFacts& k : index.kernels())
    if (asked == 0 && k.question > 0 && k.state == IndividualState::measured) asked = k.id;
  const json made = variant_view(one, index, asked);
  BOOST_TEST(made["calls"].size() == 1U);
  BOOST_TEST(made["calls"][0]["prompt"].get<std::string>().find("Make it faster") != std::string::npos);
  BOOST_TEST(made["calls"][0]["said"].get<std::string>().find("<edit>") != std::string::npos);
  BOOST_TEST(made["parent_source"].is_string());
  BOOST_TEST(variant_view(one, index, 4000).is_null());
}

BOOST_AUTO_TEST_CASE(a_summary_says_when_a_run_began_found_its_best_and_ended) {
  const Record one = record();
  const Summary summary = summary_of(one);
  BOOST_REQUIRE((summary.started_at && summary.ended_at && summary.best && summary.best->found_at));
  BOOST_TEST(*summary.started_at == one.facts().created_at);
  BOOST_TEST(*summary.started_at <= *summary.best->found_at);
  BOOST_TEST(*summary.best->found_at <= *summary.ended_at);
  BOOST_TEST(json(summary)["ended_at"] == *summary.ended_at);
  BOOST_TEST(json(summary)["best"]["found_at"] == *summary.best->found_at);
}

BOOST_AUTO_TEST_CASE(runs_of_a_folder_are_listed_with_those_that_cannot_be_read) {
  write_text(folder / "broken" / "run.db", "no database");
  const auto runs = runs_below(folder.path());
  BOOST_REQUIRE(runs.size() == 2U);
  BOOST_TEST(!listed(runs[0]).trouble.empty());
  BOOST_TEST(to_json(listed(runs[1]))["status"]["state"] == "finished");

  std::vector<ListedRun> all{listed(runs[0]), listed(runs[1]), listed(runs[1]), listed(runs[1])};
  all[1].summary.ended_at = 100.0;
  all[2].summary.ended_at = 300.0;
  all[3].summary.state = "running";
  newest_first(all);
  BOOST_TEST(all[0].summary.alive());
  BOOST_TEST(all[1].summary.ended_at.value() == 300.0);
  BOOST_TEST(all[2].summary.ended_at.value() == 100.0);
  BOOST_TEST(!all[3].trouble.empty());
}

BOOST_AUTO_TEST_SUITE_END()

#include "engine/history/saved_state.hpp"

#include <SQLiteCpp/Database.h>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "engine/history/rebuild.hpp"
#include "engine/store/recorded_run.hpp"
#include "evaluators/system/files.hpp"
#include "support/simulated_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace fs = std::filesystem;

namespace {

// A new Breeding for a record, as for a resume.
struct Fresh {
  explicit Fresh(const fs::path& run)
      : record([&] {
          auto opened = Record::open(run);
          BOOST_REQUIRE(opened);
          return std::move(*opened);
        }()),
        config(recorded_config(record.facts().config_yaml, RunFolder(record.folder()), {},
                               simulated_runtime({}).installation)),
        sources(*config.task, [this](const std::string& id) { return record.source_named(id); }),
        breeding(config, facts_in(record.facts().environment), sources) {}

  void apply(std::int64_t after = 0) {
    Listener nobody;
    apply_decisions(record, breeding, nobody, after);
  }

  Record record;
  Config config;
  ParsedSources sources;
  Breeding breeding;
};

std::string text_of(const fs::path& file) {
  auto text = read_file(file);
  BOOST_REQUIRE(text);
  return *std::move(text);
}

// What the next proposals are, each admitted but never judged.
std::string next_proposals(Breeding& breeding) {
  breeding.rebuild_operators();
  std::string all;
  for (int i = 0; i < 8; ++i) {
    const auto bred = breeding.breed({});
    const NewProposal* proposal = bred ? std::get_if<NewProposal>(&*bred) : nullptr;
    if (!proposal || !proposal->variant) return all + "none";
    all += (*proposal->variant)->id + " " + proposal->proposal.descent.op + " " + proposal->stream + "\n";
    Individual individual;
    individual.id = breeding.next_id();
    individual.variant_id = (*proposal->variant)->id;
    individual.source_id = (*proposal->variant)->source_id;
    individual.configuration = (*proposal->variant)->configuration;
    individual.descent = proposal->proposal.descent;
    breeding.admit(individual);
  }
  return all;
}

struct WithStates : SimulatedRun {
  Runtime saving = [this] {
    Runtime runtime = simulated_runtime(simulation);
    runtime.cache = path() / "cache";
    runtime.saves_state_from = 1;
    return runtime;
  }();
  SavedStates states{path() / "cache" / "states"};

  void begin(const std::vector<std::string>& overrides) {
    BOOST_REQUIRE(begin_search(softmax_config(path() / "config", overrides), run, saving, {}, kNever));
  }
  void go_on(const std::string& evaluations, const Runtime& runtime) {
    BOOST_REQUIRE(resume_search(run, {"budget.evaluations=" + evaluations}, runtime, {}, kNever));
  }
  static std::int64_t decisions(const Record& record) {
    return record.database().execAndGet("SELECT max(seq) FROM decisions").getInt64();
  }
  // The state that follows from the file, and from the whole history, as a file, and what both propose next.
  void require_same_from_history() {
    const Record now = record();
    Fresh from_file(run), from_history(run);
    const std::int64_t holds = states.load(now, from_file.breeding);
    BOOST_REQUIRE(holds > 0);
    from_file.apply(holds);
    from_history.apply();
    const SavedStates one(path() / "from_file"), other(path() / "from_history");
    one.save(now, from_file.breeding);
    other.save(now, from_history.breeding);
    BOOST_TEST((text_of(one.file_of(now)) == text_of(other.file_of(now))));
    const std::string next = next_proposals(from_history.breeding);
    BOOST_TEST(next.find("none") == std::string::npos);
    BOOST_TEST(next_proposals(from_file.breeding) == next);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(saved_state, WithStates)

BOOST_AUTO_TEST_CASE(it_is_what_the_whole_history_gives_for_each_strategy) {
  for (const std::string strategy :
       {"strategy=islands", "strategy=lineage", "strategy=map_elites", "specialists=0.3"}) {
    WithStates one;
    one.begin({"budget.evaluations=120", "population." + strategy});
    const Record now = one.record();
    Fresh from_history(one.run);
    from_history.apply();
    const SavedStates other(one.path() / "from_history");
    other.save(now, from_history.breeding);
    BOOST_TEST((text_of(one.states.file_of(now)) == text_of(other.file_of(now))), strategy);
    one.require_same_from_history();
  }
}

BOOST_AUTO_TEST_CASE(a_resumed_search_applies_what_came_after_it) {
  begin({"budget.evaluations=60"});
  const std::string early = text_of(states.file_of(record()));
  go_on("90", simulated_runtime({}));  // has no cache
  BOOST_TEST((text_of(states.file_of(record())) == early));
  Fresh from_file(run);
  BOOST_TEST(states.load(record(), from_file.breeding) < decisions(record()));
  require_same_from_history();
  go_on("120", saving);
  BOOST_TEST((text_of(states.file_of(record())) != early));
  require_same_from_history();
  require_replay_agrees();
}

BOOST_AUTO_TEST_CASE(questions_and_other_settings_of_the_gate_are_part_of_it) {
  ChatServer server([](const SeenRequest& seen) {
    const std::string name = "softmax_fast_" + std::to_string(seen.number);
    return event_stream(
        openai_events(renaming(kernel_named_in(first_said(seen)), name), {1000, 0, 0, 100, 0}));
  });
  saving.evaluator = [](const Config&, const fs::path&) {
    Simulation slow;
    slow.evaluate_s = 0.01;
    return std::make_unique<SimulatedEvaluator>(slow);
  };
  begin(with_model(server.url(), "{tune: 1, mutate: 2}", {"budget.evaluations=30"}));
  BOOST_REQUIRE(resume_search(run, {"budget.evaluations=50", "gate.min_gain=0.02"}, saving, {}, kNever));
  const Record now = record();
  Fresh from_file(run), from_history(run);
  BOOST_TEST(states.load(now, from_file.breeding) == decisions(now));
  from_history.apply();
  BOOST_TEST(from_file.breeding.next_asking() > 1);
  BOOST_TEST(from_file.breeding.next_asking() == from_history.breeding.next_asking());
  const SavedStates other(path() / "from_history");
  other.save(now, from_history.breeding);
  BOOST_TEST((text_of(states.file_of(now)) == text_of(other.file_of(now))));
}

BOOST_AUTO_TEST_CASE(a_damaged_one_and_that_of_another_history_count_as_absent) {
  begin({"budget.evaluations=30"});
  const fs::path file = states.file_of(record());
  const std::string good = text_of(file);
  const auto loaded = [&] {
    const Record now = record();
    Fresh fresh(run);
    const std::int64_t holds = states.load(now, fresh.breeding);
    BOOST_TEST((fresh.breeding.archive().size() > 0) == (holds > 0));
    return holds;
  };
  const auto holds = [&](const std::string& bytes) {
    BOOST_REQUIRE(write_atomically(file, bytes));
    return loaded() > 0;
  };
  BOOST_TEST(holds(good));
  for (std::size_t at = 0; at < good.size(); at += 1 + good.size() / 40) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    BOOST_TEST(!holds(bad), "a changed byte " << at);
    BOOST_TEST(!holds(good.substr(0, at)), "cut at " << at);
  }
  BOOST_TEST(!holds(good + "more"));
  fs::remove(file);
  fs::create_directories(file);
  BOOST_TEST(loaded() == 0);
  fs::remove(file);
  BOOST_TEST(loaded() == 0);
  BOOST_REQUIRE(holds(good));
  {  // an older record was put in place of this one
    SQLite::Database db((run / "run.db").string(), SQLite::OPEN_READWRITE);
    db.exec("DELETE FROM decisions WHERE seq = (SELECT max(seq) FROM decisions)");
  }
  BOOST_TEST(loaded() == 0);
  WithStates other;
  other.begin({"budget.evaluations=30"});
  BOOST_TEST((other.states.file_of(other.record()).filename() != file.filename()));
  BOOST_REQUIRE(write_atomically(other.states.file_of(other.record()), good));
  Fresh fresh(other.run);
  BOOST_TEST(other.states.load(other.record(), fresh.breeding) == 0);
  other.go_on("40", other.saving);
  other.require_replay_agrees();
}

BOOST_AUTO_TEST_SUITE_END()

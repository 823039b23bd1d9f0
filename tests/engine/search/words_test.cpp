// SPDX-License-Identifier: Apache-2.0
// No decision depends on text meant for people: the same search runs as it is, with every text that reaches
// it from devices, compilers and models replaced by "x", and without any; it must decide the same each time.
// long: 40 s, engine/search, engine/breeding
#include <fmt/format.h>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <type_traits>

#include "operators/llm/chat_service.hpp"
#include "support/scripted_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

using nlohmann::json;

namespace {

// Which results come back in which order is the machine's business, not the seed's. So everything that the
// search hands out is held, in a lane for each kind of work, until all of it is held or waits for the one
// device; then one is released: the first lane's first by key. It depends on no duration.
class Turnstile {
 public:
  enum Lane { compiler, device, question };

  // Returns when it is released.
  void pass(Lane lane, const std::string& key) {
    std::unique_lock lock(mutex_);
    const auto place = held_[lane].insert(key);
    if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return released_ == &*place; }))
      BOOST_ERROR("nothing was released for a minute: " + last_);
    released_ = nullptr;
    held_[lane].erase(place);
  }
  void look(const Progress& progress) {
    const std::lock_guard lock(mutex_);
    if (released_) return;
    last_ = fmt::format("{} jobs, held {} {} {}", progress.jobs, held_[0].size(), held_[1].size(),
                        held_[2].size());
    for (const InFlight& each : progress.in_flight)
      last_ += fmt::format("; #{} {}", each.id, static_cast<int>(each.doing));
    const auto waiting =
        static_cast<std::size_t>(std::ranges::count_if(progress.in_flight, [](const InFlight& each) {
          return each.doing == InFlight::Doing::waiting_for_device;
        }));
    std::size_t held = 0;
    for (const auto& lane : held_) held += lane.size();
    if (static_cast<std::size_t>(progress.jobs) != held + waiting) return;
    if (waiting != 0 && held_[device].empty()) return;
    for (const auto& lane : held_) {
      if (lane.empty()) continue;
      released_ = &*lane.begin();
      changed_.notify_all();
      return;
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multiset<std::string> held_[3];
  const std::string* released_ = nullptr;
  std::string last_;  // what look() saw
};

class Words {
 public:
  // nullopt: as they are.
  explicit Words(std::optional<std::string> all) : all_(std::move(all)) {}
  void in(std::string& text) const {
    if (all_ && !text.empty()) text = *all_;
  }
  void in(std::vector<std::string>& texts) const {
    for (std::string& text : texts) in(text);
  }
  void in(Error& e) const { in(e.doing), in(e.message); }
  void in(Evaluation& e) const {
    in(e.reason), in(e.diagnostics);
    for (ContenderTrouble& trouble : e.contender_troubles) in(trouble.reason), in(trouble.details);
  }
  void in(GateReport& r) const { in(r.decision.reason), in(r.trouble); }
  void in(ProfilePartial& p) const {
    if (p.rejection) in(*p.rejection);
    in(p.profile.missing);
  }
  void in(std::vector<DeviceInfo>& devices) const {
    for (DeviceInfo& d : devices) in(d.description), in(d.isolation), in(d.weakness);
  }
  template <class T, class E>
  tl::expected<T, E> of(tl::expected<T, E> result) const {
    if (!result)
      in(result.error());
    else if constexpr (!std::is_same_v<T, Compiled>)
      in(*result);
    return result;
  }

 private:
  std::optional<std::string> all_;
};

// What goes wrong, by the number of the call, from 1 on.
struct Misfortunes {
  std::set<int> compiler, host, crash, refused_confirmation, duel;
  ErrorKind kind = ErrorKind::failed;  // of the host's
  bool late_seeds = false;
};

class Unlucky : public Evaluator {
 public:
  Unlucky(const Simulation& simulation, Misfortunes misfortunes, Words words, Turnstile& turnstile)
      : real_(simulation), misfortunes_(std::move(misfortunes)), words_(words), turnstile_(turnstile) {}

  Expected<std::vector<DeviceInfo>> devices() override { return words_.of(real_.devices()); }
  std::vector<std::string> left_out() const override {
    std::vector<std::string> troubles{"device 3 is left out of this search: it does not answer"};
    words_.in(troubles);
    return troubles;
  }
  std::string compiler_identity() override {
    std::string identity = real_.compiler_identity();
    words_.in(identity);
    return identity;
  }
  bool timing_needs_quiet() const override { return false; }  // a job that is held would keep others waiting
  int compile_workers() const override { return 8; }          // more than jobs
  int device_workers() const override { return 1; }
  Compiled contender(const std::string& library) override { return real_.contender(library); }
  void interrupt() override { real_.interrupt(); }

  tl::expected<Compiled, Evaluation> compile(const Variant& variant, const std::vector<Workload>& workloads,
                                             Breadth breadth) override {
    turnstile_.pass(Turnstile::compiler,
                    variant.id + (breadth == Breadth::searching ? " searching" : " all"));
    auto result = real_.compile(variant, workloads, breadth);
    if (misfortunes_.compiler.contains(++compiles_))
      result = tl::make_unexpected(rejection(Stage::compile, "error: expected ';'", "line 3: error"));
    return words_.of(std::move(result));
  }
  Expected<Evaluation> evaluate(int device, const EvaluateRequest& request, const Note& note) override {
    const bool confirming = request.stop_after == Stage::confirm;
    return held([&]() -> Expected<Evaluation> {
      if (misfortunes_.host.contains(++evaluations_))
        return failure(misfortunes_.kind, "worker measure", "the device does not answer");
      if (misfortunes_.late_seeds && seen_.insert({request.variant.variant.id, confirming}).second &&
          seen_.size() <= 3) {
        Evaluation late = rejection(Stage::smoke, "timed out", "while at: smoke tiny");
        late.late = true;
        return late;
      }
      if (misfortunes_.crash.contains(evaluations_)) {
        Evaluation crash = rejection(Stage::smoke, "crashed: segmentation fault", "signal 11");
        crash.worker_lost = true;
        return crash;
      }
      if (confirming && misfortunes_.refused_confirmation.contains(++confirmations_))
        return rejection(Stage::confirm, "wrong on holdout shapes", "row 3");
      auto result = real_.evaluate(device, request, said_by(note));
      if (result && confirming) {
        using Kind = ContenderTrouble::Kind;
        result->add({"cudnn", Kind::unusable, "it cannot be used", "built with version 0"});
        result->add({"eigen", Kind::left_out,
                     "the worker was lost in a call of its library; the contender is skipped",
                     "while at: run"});
      }
      return result;
    });
  }
  Expected<GateReport> gate(int device, const GateRequest& request, const Note& note) override {
    return held([&]() -> Expected<GateReport> {
      auto result = real_.gate(device, request, said_by(note));
      if (!misfortunes_.duel.contains(++duels_)) return result;
      result->decision = {};
      result->decision.verdict = Verdict::undecided;
      result->decision.reason = "the worker was lost";
      result->trouble = {"while at: gate: 1.0 s"};
      result->worker_lost = true;
      return result;
    });
  }
  Expected<ProfilePartial> profile(int, const ProfileRequest&, const Note&) override {
    return held([&]() -> Expected<ProfilePartial> {
      return failure("worker measure", "the counters cannot be read");
    });
  }

 private:
  Note said_by(const Note& note) const {
    return [this, note](const std::string& text) {
      std::string said = text;
      words_.in(said);
      note(said);
    };
  }
  template <class F, class Result = std::invoke_result_t<F>>
  Result held(const F& work) {
    turnstile_.pass(Turnstile::device, "");
    return words_.of(work());
  }

  SimulatedEvaluator real_;
  Misfortunes misfortunes_;
  Words words_;
  Turnstile& turnstile_;
  std::set<std::pair<std::string, bool>> seen_;
  int compiles_ = 0, evaluations_ = 0, confirmations_ = 0, duels_ = 0;
};

class RewordedChat : public Chat {
 public:
  RewordedChat(std::unique_ptr<Chat> real, Words words) : words_(words), real_(std::move(real)) {}
  void ask(ChatOrder order, std::stop_token stop, ServedListener listener) override {
    listener.done = [this, done = std::move(listener.done)](ServedResult result) {
      if (!result) words_.in(result.error().message);
      done(std::move(result));
    };
    real_->ask(std::move(order), std::move(stop), std::move(listener));
  }
  ChatServiceState state() const override {
    ChatServiceState state = real_->state();
    words_.in(state.paused);
    for (ModelState& model : state.models) words_.in(model.reason);
    return state;
  }

 private:
  Words words_;
  std::unique_ptr<Chat> real_;  // last: it calls the others until it is gone
};

struct Decided {
  Outcome::Stop stop;
  std::vector<std::string> decisions, individuals;
  std::set<DecisionKind> kinds;
  std::set<std::string> reasons;  // of rejections
};

struct Searches {
  Misfortunes misfortunes;
  Turnstile turnstile;
  std::atomic<int> questions{0};  // of this search, that came to the model

  Decided search(const std::vector<std::string>& overrides, const std::optional<std::string>& all) {
    const ScratchFolder scratch;
    questions = 0;
    const Words words(all);
    Runtime runtime = simulated_runtime({});
    runtime.evaluator = [&](const Config&, const std::filesystem::path&) {
      return std::make_unique<Unlucky>(Simulation{}, misfortunes, words, turnstile);
    };
    runtime.chat = [&](std::unique_ptr<Chat> chat) {
      return std::make_unique<RewordedChat>(std::move(chat), words);
    };
    SearchCallbacks callbacks;
    callbacks.progress = [&](const Progress& progress) { turnstile.look(progress); };
    const Config config = softmax_config(scratch.path() / "config", overrides);
    const auto outcome = begin_search(config, scratch.path() / "run", runtime, callbacks, kNever);
    BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
    const auto replayed = replay(scratch.path() / "run", simulated_runtime({}));
    BOOST_REQUIRE_MESSAGE(replayed, (replayed ? "" : replayed.error().message));
    for (const std::string& difference : replayed->differences) BOOST_ERROR(difference);

    const auto record = Record::open(scratch.path() / "run");
    BOOST_REQUIRE(record);
    Decided decided{outcome->stop, {}, {}, {}, {}};
    record->each_decision([&](const DecisionRow& row) {
      decided.kinds.insert(row.kind);
      std::string body = row.body;
      if (row.kind == DecisionKind::ask || row.kind == DecisionKind::give_up) {
        json facts = json::parse(row.body);
        facts.erase("request");  // the hash of a prompt, which holds words
        facts.erase("reason");
        body = facts.dump();
      }
      decided.decisions.push_back(
          fmt::format("{} {} {} {}", name_of(row.kind), row.individual, row.stream, body));
    });
    record->each_individual([&](const IndividualRow& row) {
      const Individual& i = row.individual;
      decided.individuals.push_back(fmt::format("{} {} {} {} {} {} {}", i.id, i.variant_id, i.descent.op,
                                                json(i.descent.parents).dump(), static_cast<int>(row.state),
                                                row.expelled, row.stage));
      if (row.state == IndividualState::rejected) decided.reasons.insert(row.reason);
    });
    return decided;
  }

  // The decisions that all of them took; with the reasons of the second.
  Decided with_and_without_words(const std::vector<std::string>& overrides) {
    const Decided spoken = search(overrides, std::nullopt);
    Decided replaced = search(overrides, "x");
    for (const Decided& other : {replaced, search(overrides, "")}) {
      BOOST_TEST((spoken.stop == other.stop));
      BOOST_TEST(spoken.decisions == other.decisions, boost::test_tools::per_element());
      BOOST_TEST(spoken.individuals == other.individuals, boost::test_tools::per_element());
    }
    return replaced;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(words, Searches)

BOOST_AUTO_TEST_CASE(a_search_decides_the_same_whatever_compilers_and_devices_say) {
  misfortunes.late_seeds = true;
  misfortunes.compiler = {12};
  misfortunes.host = {4, 9};
  misfortunes.crash = {11};
  misfortunes.refused_confirmation = {2};
  misfortunes.duel = {1};
  const Decided decided =
      with_and_without_words({"budget.evaluations=16", "evaluation={depth: 1, profile: elites}"});
  BOOST_TEST((decided.stop == Outcome::Stop::evaluations));
  BOOST_TEST(decided.reasons.contains("x"));
  for (const DecisionKind kind : {DecisionKind::put_off, DecisionKind::duel, DecisionKind::promote,
                                  DecisionKind::expel, DecisionKind::confirm})
    BOOST_TEST(decided.kinds.contains(kind), name_of(kind));
}

BOOST_AUTO_TEST_CASE(a_search_without_a_device_waits_or_ends_by_what_kind_of_trouble_it_is) {
  misfortunes.host = {1, 2, 3};
  BOOST_TEST((with_and_without_words({"evaluation.depth=1", "budget.evaluations=4"}).stop ==
              Outcome::Stop::evaluations));
  misfortunes.kind = ErrorKind::missing;
  BOOST_TEST((with_and_without_words({"evaluation.depth=1"}).stop == Outcome::Stop::failed));
}

BOOST_AUTO_TEST_CASE(a_search_decides_the_same_whatever_models_and_budgets_say) {
  ChatServer server([&](const SeenRequest& seen) {
    turnstile.pass(Turnstile::question, "");
    const std::string name = kernel_named_in(first_said(seen));
    const int number = ++questions;
    if (number == 2) return status_reply(400, R"({"error": {"message": "this model does not do that"}})");
    return say("EVIDENCE: | workload | median |\n" +
               renaming(name, "softmax_fast_" + std::to_string(number)));
  });
  // A call is reserved 0.16 USD and costs 0.001: mutate can afford three, the run five.
  const Decided decided = with_and_without_words(
      with_model(server.url(), "{mutate: {weight: 5, budget: {usd: 0.1625}}, critique_repair: 1}",
                 {"budget={evaluations: 1000, usd: 0.1645}", "evaluation.depth=1",
                  "asking={in_flight: 1, output_tokens: 16000}", "portfolio.learn=false",
                  "models.m.prices={input: 0, output: 10}"}));
  BOOST_TEST((decided.stop == Outcome::Stop::models));
  int closed = 0;
  for (const std::string& decision : decided.decisions)
    closed += decision.find(R"("closed_operators":["mutate"])") != std::string::npos;
  BOOST_TEST(closed >= 1);
  BOOST_TEST(decided.kinds.contains(DecisionKind::give_up));
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/verdict/gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <utility>

#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/statistics/sequential_test.hpp"
#include "evaluators/system/json_fields.hpp"
#include "evaluators/verdict/batches.hpp"

namespace cultivar {
namespace {

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

void check(const GateOptions& options) {
  const auto is_probability = [](double p) { return p > 0.0 && p < 1.0; };
  require(std::isfinite(options.min_gain) && options.min_gain >= 0.0, "gate: min_gain must be 0 or more");
  require(options.max_workload_loss > 0.0 && options.max_workload_loss < 1.0,
          "gate: max_workload_loss must be between 0 and 1");
  require(is_probability(options.alpha), "gate: alpha must be between 0 and 1");
  require(is_probability(options.futility), "gate: futility must be between 0 and 1");
  require(is_probability(options.guard), "gate: guard must be between 0 and 1");
  require(options.min_blocks >= 1 && options.max_blocks >= options.min_blocks,
          "gate: min_blocks must be at least 1 and max_blocks at least min_blocks");
  require(options.max_device_seconds > 0.0, "gate: max_device_seconds must be positive");
}

void check(const std::vector<Pilot>& pilots, std::size_t workloads) {
  require(pilots.empty() || pilots.size() == workloads, "gate: one pilot is required for each workload");
  for (const Pilot& pilot : pilots)
    for (const double seconds :
         {pilot.challenger_seconds, pilot.incumbent_seconds, pilot.challenger_cost, pilot.incumbent_cost})
      require(std::isfinite(seconds) && seconds > 0.0, "gate: every time of a pilot must be positive");
}

// Wealth of the bets on a gain with which a duel may go on later. Without a gain of min_gain a duel ends with
// it in a quarter of all cases at most.
constexpr double kPromising = 4.0;

// A log ratio of speeds as text: "1.02 % faster", "0.31 % slower".
std::string in_words(double log_ratio) {
  return fmt::format("{:.2f} % {}", 100.0 * std::fabs(std::expm1(log_ratio)),
                     log_ratio >= 0.0 ? "faster" : "slower");
}

// Of a challenger that is slower, the lower bound says how slow it is at most.
std::string at_least(double log_ratio) {
  return (log_ratio >= 0.0 ? "at least " : "at most ") + in_words(log_ratio);
}
std::string at_most(double log_ratio) {
  return (log_ratio >= 0.0 ? "at most " : "at least ") + in_words(log_ratio);
}

// JSON has no infinity: an absent bound is stored as null.
double bound_from(const nlohmann::json& json, double absent) {
  return json.is_null() ? absent : json.get<double>();
}

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

std::string_view name_of(Verdict verdict) {
  static constexpr std::array<std::string_view, 3> names{"better", "worse", "undecided"};
  return names.at(static_cast<std::size_t>(verdict));
}

std::optional<Verdict> verdict_named(std::string_view name) {
  for (const Verdict verdict : {Verdict::better, Verdict::worse, Verdict::undecided})
    if (name == name_of(verdict)) return verdict;
  return std::nullopt;
}

std::string_view name_of(Side side) {
  static constexpr std::array<std::string_view, 3> names{"challenger", "incumbent", "control"};
  return names.at(static_cast<std::size_t>(side));
}

// The state of one workload: its log ratios, and the two tests of its guard.
struct Guarded {
  std::string name;
  SequentialTest loss_ruled_out, loss_shown;
  SymmetricSeries ratios = SymmetricSeries(1);  // one per block
};

struct Gate::State {
  GateOptions options;
  std::mt19937_64 random;
  Batches batches;
  std::vector<Guarded> workloads;
  SymmetricSeries all;      // one row per block: the workloads' log ratios
  std::size_t learned = 0;  // its rows that are from the batches
  SequentialTest gain_shown, gain_ruled_out;
  std::vector<double> control;  // log seconds
  double control_seconds = 0.0, timed_seconds = 0.0;
  std::vector<Slot> order;
  bool in_batch = false;
  double device_seconds = 0.0, in_batches = 0.0;  // all, and of batches
  double first_block = 0.0;                       // what it should cost; 0: unknown
  Verdict verdict = Verdict::undecided;
  bool done = false;

  State(std::vector<std::string> names, const GateOptions& given, std::uint64_t seed,
        std::span<const Pilot> pilots)
      : options(given),
        random(seed),
        batches(given, names.size(), pilots),
        all(names.size()),
        gain_shown(Claim::above, std::log1p(given.min_gain), given.alpha * batches.left()),
        gain_ruled_out(Claim::below, std::log1p(given.min_gain), given.futility * batches.left()) {
    const double loss = std::log1p(-given.max_workload_loss), guard = given.guard * batches.left();
    for (std::string& name : names)
      workloads.push_back({std::move(name), SequentialTest(Claim::above, loss, guard),
                           SequentialTest(Claim::below, loss, guard / static_cast<double>(names.size()))});
    for (const Pilot& pilot : pilots) first_block += pilot.challenger_cost + pilot.incumbent_cost;
    if (!pilots.empty()) first_block += pilots.front().incumbent_cost;  // the control
    draw_order();
  }

  int blocks() const { return static_cast<int>(all.rows() - learned); }

  int least_blocks() const {
    const int bets = (3 * SequentialTest::fewest_bets(options.alpha * batches.left()) + 1) / 2;
    return std::max(options.min_blocks, bets + (learned >= 4 ? 0 : 4));
  }

  // Own shuffle: std::shuffle may differ between standard libraries, and replaying a record must not.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random() % n); }

  void draw_order() {
    std::vector<int> turns(workloads.size());
    for (std::size_t i = 0; i < turns.size(); ++i) turns[i] = static_cast<int>(i);
    for (std::size_t i = turns.size(); i > 1; --i) std::swap(turns[i - 1], turns[below(i)]);
    order.clear();
    in_batch = batches.due();
    if (in_batch) {
      for (const int workload : turns) draw_batch(workload);
      return;
    }
    std::size_t control_before = below(turns.size() + 1);
    if (control_seconds > 0.5 * timed_seconds) control_before = turns.size() + 1;  // none
    for (std::size_t i = 0; i <= turns.size(); ++i) {
      if (i == control_before) order.push_back({0, Side::control});
      if (i == turns.size()) break;
      const bool challenger_first = (random() >> 63) != 0;
      order.push_back({turns[i], challenger_first ? Side::challenger : Side::incumbent});
      order.push_back({turns[i], challenger_first ? Side::incumbent : Side::challenger});
    }
  }

  void draw_batch(int workload) {
    const BatchSize size = batches.size(static_cast<std::size_t>(workload));
    const std::size_t first = order.size();
    order.insert(order.end(), static_cast<std::size_t>(size.challenger), {workload, Side::challenger});
    order.insert(order.end(), static_cast<std::size_t>(size.incumbent), {workload, Side::incumbent});
    for (std::size_t i = order.size() - first; i > 1; --i)
      std::swap(order[first + i - 1], order[first + below(i)]);
  }

  // What the batches showed of the noise serves the pairs.
  void add_batch(std::span<const double> seconds) {
    batches.add(order, seconds);
    if (batches.due() || batches.verdict() != Verdict::undecided) return;
    const std::vector<std::vector<double>> rows = batches.rows();
    learned = rows.size();
    all.learn(rows);
    for (std::size_t w = 0; w < workloads.size(); ++w) {
      std::vector<std::vector<double>> own;
      for (const std::vector<double>& row : rows) own.push_back({row[w]});
      workloads[w].ratios.learn(own);
    }
  }

  std::vector<double> ratios_of(std::span<const double> seconds) {
    std::vector<double> ratios(workloads.size(), 0.0);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const double log_seconds = std::log(seconds[i]);
      switch (order[i].side) {
        case Side::challenger:
          ratios[order[i].workload] -= log_seconds;
          break;
        case Side::incumbent:
          ratios[order[i].workload] += log_seconds;
          break;
        case Side::control:
          control.push_back(log_seconds);
          control_seconds += seconds[i];
          break;
      }
      timed_seconds += seconds[i];
    }
    return ratios;
  }

  void add(std::span<const double> seconds) {
    if (in_batch) return add_batch(seconds);
    const std::vector<double> ratios = ratios_of(seconds);
    for (std::size_t w = 0; w < workloads.size(); ++w) {
      Guarded& workload = workloads[w];
      const std::span<const double> own(&ratios[w], 1);
      workload.loss_ruled_out.bet(workload.ratios, own);
      workload.loss_shown.bet(workload.ratios, own);
      workload.ratios.add(own);
    }
    gain_shown.bet(all, ratios);
    gain_ruled_out.bet(all, ratios);
    all.add(ratios);
  }

  const Guarded* broken_guard() const {
    const auto found = std::find_if(workloads.begin(), workloads.end(),
                                    [](const Guarded& w) { return w.loss_shown.shown(); });
    return found == workloads.end() ? nullptr : &*found;
  }

  const Guarded* open_guard() const {
    const auto found = std::find_if(workloads.begin(), workloads.end(),
                                    [](const Guarded& w) { return !w.loss_ruled_out.shown(); });
    return found == workloads.end() ? nullptr : &*found;
  }

  // A challenger is better only if every one of several claims is shown, so each may be tested at its own
  // level without correction (an intersection-union test).
  void judge() {
    verdict = batches.verdict();
    if (verdict == Verdict::undecided && blocks() >= options.min_blocks) {
      if (gain_ruled_out.shown() || broken_guard())
        verdict = Verdict::worse;
      else if (gain_shown.shown() && !open_guard())
        verdict = Verdict::better;
    }
    done = verdict != Verdict::undecided || blocks() >= options.max_blocks ||
           (options.within_limit
                ? device_seconds + next_cost() > options.max_device_seconds
                : device_seconds >= options.max_device_seconds && !batches.due() && !worth_more());
  }

  double next_cost() const {
    if (batches.due()) return batches.batches() > 0 ? in_batches / batches.batches() : 0.0;
    return blocks() > 0 ? (device_seconds - in_batches) / blocks() : first_block;
  }

  // Beyond the limit of device time.
  bool worth_more() const {
    const int left = least_blocks() - blocks();
    if (left <= 0) return false;
    if (all.rows() >= 4 && all.centre() <= std::log1p(options.min_gain)) return false;
    return gain_shown.within_reach(left) && std::ranges::all_of(workloads, [&](const Guarded& w) {
             return w.loss_ruled_out.within_reach(left);
           });
  }

  std::string reason(const Decision& decision) const {
    std::string measured = in_words(decision.log_ratio);
    if (batches.runs() > 0) measured += fmt::format(" over {} runs in random order", batches.runs());
    if (batches.runs() == 0 || blocks() > 0)
      measured += fmt::format(" {} {} blocks", batches.runs() > 0 ? "and" : "over", blocks());
    const double gain = 100.0 * options.min_gain, loss = 100.0 * options.max_workload_loss;
    if (const auto broken = batches.broken())
      return fmt::format("{}, but {} loses more than {:.2g} % ({})", measured, workloads[*broken].name, loss,
                         in_words(batches.centre(*broken)));
    if (verdict == Verdict::better)
      return fmt::format("{}, {}; no workload loses {:.2g} %", measured, at_least(decision.lower), loss);
    if (const Guarded* broken = broken_guard())
      return fmt::format("{}, but {} loses more than {:.2g} % ({})", measured, broken->name, loss,
                         in_words(broken->ratios.centre()));
    if (verdict == Verdict::worse)
      return fmt::format("{}, {}: a gain of {:.2g} % is ruled out", measured, at_most(decision.upper), gain);
    if (!done) return !anything() ? "nothing was measured" : measured + ", not decided yet";
    if (gain_shown.shown())
      return fmt::format("{}, but a loss of {:.2g} % on {} could not be ruled out in {:.3g} s of device time",
                         measured, loss, open_guard() ? open_guard()->name : "every workload",
                         device_seconds);
    return fmt::format("{}: a gain of {:.2g} % was neither shown nor ruled out in {:.3g} s of device time",
                       measured, gain, device_seconds);
  }

  // Each bound is the better one of the two tests, which share the level.
  void bounds(Decision& decision) const {
    const double left = batches.left(), count = static_cast<double>(workloads.size());
    double least = std::numeric_limits<double>::infinity(), greatest = -least, sum = 0.0;
    for (std::size_t w = 0; w < workloads.size(); ++w) {
      const SymmetricSeries& ratios = workloads[w].ratios;
      WorkloadRatio ratio{workloads[w].name, 0.0, ratios.lower_bound(options.guard * left),
                          ratios.upper_bound(options.guard * left / count)};
      if (ratios.rows() > 0)
        ratio.log_ratio = ratios.centre();
      else if (batches.runs() > 0)
        ratio.log_ratio = batches.centre(w);
      ratio.lower = std::max(ratio.lower, batches.lower(w, options.guard));
      ratio.upper = std::min(ratio.upper, batches.upper(w, options.guard / count));
      least = std::min(least, batches.lower(w, options.alpha));
      greatest = std::max(greatest, batches.upper(w, options.futility));
      sum += ratio.log_ratio;
      decision.workloads.push_back(std::move(ratio));
    }
    decision.log_ratio = all.rows() > 0 ? all.centre() : sum / count;
    decision.lower = std::max(all.lower_bound(options.alpha * left), least);
    decision.upper = std::min(all.upper_bound(options.futility * left), greatest);
  }

  bool anything() const { return blocks() > 0 || batches.runs() > 0; }

  double drift() const {
    const std::size_t half = control.size() / 2;
    if (half < 2) return 0.0;
    const std::span<const double> times(control);
    return robust_location(times.last(half)) - robust_location(times.first(half));
  }
};

Gate::Gate(std::vector<std::string> workloads, GateOptions options, std::uint64_t seed,
           std::vector<Pilot> pilots) {
  require(!workloads.empty(), "gate: at least one workload is required");
  check(options);
  check(pilots, workloads.size());
  state_ = std::make_unique<State>(std::move(workloads), options, seed, pilots);
}

Gate::~Gate() = default;
Gate::Gate(Gate&&) noexcept = default;
Gate& Gate::operator=(Gate&&) noexcept = default;

const std::vector<Slot>& Gate::next_order() const {
  return state_->order;
}
bool Gate::in_batch() const {
  return state_->in_batch;
}
int Gate::least_blocks() const {
  return state_->least_blocks();
}
bool Gate::done() const {
  return state_->done;
}
bool Gate::may_go_on() const {
  const State& state = *state_;
  return state.done && state.verdict == Verdict::undecided && state.blocks() < state.options.max_blocks &&
         state.gain_shown.wealth() >= kPromising;
}
Verdict Gate::verdict() const {
  return state_->verdict;
}

void Gate::add(std::span<const double> seconds, double device_seconds) {
  if (state_->done) throw std::logic_error("gate: a block was added after the decision");
  require(seconds.size() == state_->order.size(),
          "gate: a block needs one time for each slot of next_order()");
  for (const double time : seconds)
    require(std::isfinite(time) && time > 0.0, "gate: every time must be positive and finite");
  require(std::isfinite(device_seconds) && device_seconds >= 0.0, "gate: device_seconds must be 0 or more");
  if (!(device_seconds > 0.0))
    for (const double time : seconds) device_seconds += time;
  state_->device_seconds += device_seconds;
  if (state_->in_batch) state_->in_batches += device_seconds;
  state_->add(seconds);
  state_->judge();
  state_->draw_order();
}

Decision Gate::decision() const {
  const State& state = *state_;
  Decision decision;
  decision.verdict = state.verdict;
  decision.blocks = state.blocks();
  decision.device_seconds = state.device_seconds;
  decision.control_drift = state.drift();
  decision.batches = state.batches.batches();
  decision.runs = state.batches.runs();
  state.bounds(decision);
  decision.reason = state.reason(decision);
  return decision;
}

void to_json(nlohmann::json& json, const Decision& decision) {
  nlohmann::json workloads = nlohmann::json::array();
  for (const WorkloadRatio& w : decision.workloads)
    workloads.push_back(
        {{"name", w.workload}, {"log_ratio", w.log_ratio}, {"lower", w.lower}, {"upper", w.upper}});
  json = {{"verdict", name_of(decision.verdict)},
          {"reason", decision.reason},
          {"log_ratio", decision.log_ratio},
          {"lower", decision.lower},
          {"upper", decision.upper},
          {"blocks", decision.blocks},
          {"batches", decision.batches},
          {"runs", decision.runs},
          {"device_seconds", decision.device_seconds},
          {"control_drift", decision.control_drift},
          {"workloads", std::move(workloads)}};
  // Also in memory, so that a value and its JSON text agree.
  const auto absent_to_null = [](nlohmann::json& object) {
    for (const char* key : {"lower", "upper"})
      if (!std::isfinite(object.at(key).get<double>())) object[key] = nullptr;
  };
  absent_to_null(json);
  for (nlohmann::json& workload : json["workloads"]) absent_to_null(workload);
}

void from_json(const nlohmann::json& json, Decision& decision) {
  const auto verdict = verdict_named(json.at("verdict").get_ref<const std::string&>());
  if (!verdict)
    throw nlohmann::json::other_error::create(501, "unknown verdict " + json.at("verdict").dump(), &json);
  decision.verdict = *verdict;
  json.at("reason").get_to(decision.reason);
  json.at("log_ratio").get_to(decision.log_ratio);
  decision.lower = bound_from(json.at("lower"), -infinity);
  decision.upper = bound_from(json.at("upper"), infinity);
  json.at("blocks").get_to(decision.blocks);
  decision.batches = json.value("batches", 0);  // absent in records of earlier versions
  decision.runs = json.value("runs", std::int64_t{0});
  json.at("device_seconds").get_to(decision.device_seconds);
  json.at("control_drift").get_to(decision.control_drift);
  decision.workloads.clear();
  for (const nlohmann::json& w : json.at("workloads"))
    decision.workloads.push_back({w.at("name").get<std::string>(), w.at("log_ratio").get<double>(),
                                  bound_from(w.at("lower"), -infinity), bound_from(w.at("upper"), infinity)});
}

CULTIVAR_JSON(GateOptions, min_gain, max_workload_loss, alpha, futility, guard, min_blocks, max_blocks,
              max_device_seconds)

void to_json(nlohmann::json& json, const DuelTimes& times) {
  nlohmann::json pilots = nlohmann::json::array(), blocks = nlohmann::json::array();
  for (const Pilot& p : times.pilots)
    pilots.push_back({p.challenger_seconds, p.incumbent_seconds, p.challenger_cost, p.incumbent_cost});
  for (const DuelTimes::Block& block : times.blocks) blocks.push_back({block.device_seconds, block.seconds});
  json = {{"pilots", std::move(pilots)}, {"blocks", std::move(blocks)}};
}

void from_json(const nlohmann::json& json, DuelTimes& times) {
  times = {};
  for (const nlohmann::json& p : json.at("pilots"))
    times.pilots.push_back(
        {p.at(0).get<double>(), p.at(1).get<double>(), p.at(2).get<double>(), p.at(3).get<double>()});
  for (const nlohmann::json& block : json.at("blocks"))
    times.blocks.push_back({block.at(1).get<std::vector<double>>(), block.at(0).get<double>()});
}

}  // namespace cultivar

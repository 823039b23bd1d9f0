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

#include "evaluators/statistics/location.hpp"
#include "evaluators/statistics/sequential_test.hpp"

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

// A log ratio as text: "1.02 % faster", "0.31 % slower".
std::string in_words(double log_ratio) {
  const double percent = 100.0 * std::expm1(std::fabs(log_ratio));
  return fmt::format("{:.2f} % {}", percent, log_ratio >= 0.0 ? "faster" : "slower");
}

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
  std::vector<Guarded> workloads;
  SymmetricSeries all;  // one row per block: the workloads' log ratios
  SequentialTest gain_shown, gain_ruled_out;
  std::vector<double> control;  // log seconds, one per block
  std::vector<Slot> order;
  double device_seconds = 0.0;
  Verdict verdict = Verdict::undecided;
  bool done = false;

  State(std::vector<std::string> names, const GateOptions& given, std::uint64_t seed)
      : options(given),
        random(seed),
        all(names.size()),
        gain_shown(Claim::above, std::log1p(given.min_gain), given.alpha),
        gain_ruled_out(Claim::below, std::log1p(given.min_gain), given.futility) {
    const double loss = std::log1p(-given.max_workload_loss);
    for (std::string& name : names)
      workloads.push_back(
          {std::move(name), SequentialTest(Claim::above, loss, given.guard),
           SequentialTest(Claim::below, loss, given.guard / static_cast<double>(names.size()))});
    draw_order();
  }

  int blocks() const { return static_cast<int>(all.rows()); }

  // Own shuffle: std::shuffle may differ between standard libraries, and replaying a record must not.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random() % n); }

  void draw_order() {
    std::vector<int> turns(workloads.size());
    for (std::size_t i = 0; i < turns.size(); ++i) turns[i] = static_cast<int>(i);
    for (std::size_t i = turns.size(); i > 1; --i) std::swap(turns[i - 1], turns[below(i)]);
    const std::size_t control_before = below(turns.size() + 1);
    order.clear();
    for (std::size_t i = 0; i <= turns.size(); ++i) {
      if (i == control_before) order.push_back({0, Side::control});
      if (i == turns.size()) break;
      const bool challenger_first = (random() >> 63) != 0;
      order.push_back({turns[i], challenger_first ? Side::challenger : Side::incumbent});
      order.push_back({turns[i], challenger_first ? Side::incumbent : Side::challenger});
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
          break;
      }
    }
    return ratios;
  }

  void add(std::span<const double> seconds) {
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
    if (blocks() >= options.min_blocks) {
      if (gain_ruled_out.shown() || broken_guard())
        verdict = Verdict::worse;
      else if (gain_shown.shown() && !open_guard())
        verdict = Verdict::better;
    }
    done = verdict != Verdict::undecided || blocks() >= options.max_blocks ||
           device_seconds >= options.max_device_seconds;
  }

  std::string reason(const Decision& decision) const {
    const std::string measured = fmt::format("{} over {} blocks", in_words(decision.log_ratio), blocks());
    const double gain = 100.0 * options.min_gain, loss = 100.0 * options.max_workload_loss;
    if (verdict == Verdict::better)
      return fmt::format("{}, at least {}; no workload loses {:.2g} %", measured, in_words(decision.lower),
                         loss);
    if (const Guarded* broken = broken_guard())
      return fmt::format("{}, but {} loses more than {:.2g} % ({})", measured, broken->name, loss,
                         in_words(broken->ratios.centre()));
    if (verdict == Verdict::worse)
      return fmt::format("{}, at most {}: a gain of {:.2g} % is ruled out", measured,
                         in_words(decision.upper), gain);
    if (!done) return blocks() == 0 ? "nothing was measured" : measured + ", still measuring";
    if (gain_shown.shown())
      return fmt::format("{}, but a loss of {:.2g} % on {} could not be ruled out in {:.3g} s of device time",
                         measured, loss, open_guard() ? open_guard()->name : "every workload",
                         device_seconds);
    return fmt::format("{}: a gain of {:.2g} % was neither shown nor ruled out in {:.3g} s of device time",
                       measured, gain, device_seconds);
  }

  double drift() const {
    const std::size_t half = control.size() / 2;
    if (half < 2) return 0.0;
    const std::span<const double> times(control);
    return robust_location(times.last(half)) - robust_location(times.first(half));
  }
};

Gate::Gate(std::vector<std::string> workloads, GateOptions options, std::uint64_t seed) {
  require(!workloads.empty(), "gate: at least one workload is required");
  check(options);
  state_ = std::make_unique<State>(std::move(workloads), options, seed);
}

Gate::~Gate() = default;
Gate::Gate(Gate&&) noexcept = default;
Gate& Gate::operator=(Gate&&) noexcept = default;

const std::vector<Slot>& Gate::next_order() const {
  return state_->order;
}
bool Gate::done() const {
  return state_->done;
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
  decision.log_ratio = state.blocks() > 0 ? state.all.centre() : 0.0;
  decision.lower = state.all.lower_bound(state.options.alpha);
  decision.upper = state.all.upper_bound(state.options.futility);
  const double shared = state.options.guard / static_cast<double>(state.workloads.size());
  for (const Guarded& workload : state.workloads) {
    const SymmetricSeries& ratios = workload.ratios;
    decision.workloads.push_back({workload.name, state.blocks() > 0 ? ratios.centre() : 0.0,
                                  ratios.lower_bound(state.options.guard), ratios.upper_bound(shared)});
  }
  decision.reason = state.reason(decision);
  return decision;
}

namespace {

// JSON has no infinity: an absent bound is stored as null.
double bound_from(const nlohmann::json& json, double absent) {
  return json.is_null() ? absent : json.get<double>();
}

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

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
  json.at("device_seconds").get_to(decision.device_seconds);
  json.at("control_drift").get_to(decision.control_drift);
  decision.workloads.clear();
  for (const nlohmann::json& w : json.at("workloads"))
    decision.workloads.push_back({w.at("name").get<std::string>(), w.at("log_ratio").get<double>(),
                                  bound_from(w.at("lower"), -infinity), bound_from(w.at("upper"), infinity)});
}

}  // namespace cultivar

#include "evaluators/evaluation.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "evaluators/plain_text.hpp"

namespace cultivar {
namespace {

constexpr std::array<std::string_view, 12> kStageNames = {"lint",    "compile", "screen",      "smoke",
                                                          "sweep",   "stress",  "determinism", "edge",
                                                          "measure", "gate",    "profile",     "confirm"};

// Raw samples are columns, so that a thousand of them stay readable and small.
nlohmann::json columns(const std::vector<Sample>& samples) {
  nlohmann::json seconds = nlohmann::json::array(), clock = seconds, temperature = seconds, power = seconds,
                 throttle = seconds;
  for (const Sample& s : samples) {
    seconds.push_back(s.seconds);
    clock.push_back(s.clock_mhz);
    temperature.push_back(s.temperature_c);
    power.push_back(s.power_w);
    throttle.push_back(s.throttle);
  }
  return {{"seconds", seconds},
          {"clock_mhz", clock},
          {"temperature_c", temperature},
          {"power_w", power},
          {"throttle", throttle}};
}

std::vector<Sample> samples_of(const nlohmann::json& raw) {
  const auto& seconds = raw.at("seconds");
  std::vector<Sample> samples(seconds.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].seconds = seconds.at(i).get<double>();
    samples[i].clock_mhz = raw.at("clock_mhz").at(i).get<double>();
    samples[i].temperature_c = raw.at("temperature_c").at(i).get<double>();
    samples[i].power_w = raw.at("power_w").at(i).get<double>();
    samples[i].throttle = raw.at("throttle").at(i).get<std::uint64_t>();
  }
  return samples;
}

nlohmann::json json_of(const WorkloadResult& w) {
  nlohmann::json intervals = nlohmann::json::object();
  for (const auto& [name, interval] : w.ratio_intervals) intervals[name] = {interval.lower, interval.upper};
  return {{"name", w.workload},       {"median_us", w.median_us},    {"q1_us", w.q1_us},
          {"q3_us", w.q3_us},         {"samples", w.samples.size()}, {"value", w.value},
          {"unit", w.unit},           {"ratios", w.ratios},          {"ratio_intervals", intervals},
          {"discarded", w.discarded}, {"raw", columns(w.samples)}};
}

WorkloadResult workload_of(const nlohmann::json& j) {
  WorkloadResult w;
  j.at("name").get_to(w.workload);
  j.at("median_us").get_to(w.median_us);
  j.at("q1_us").get_to(w.q1_us);
  j.at("q3_us").get_to(w.q3_us);
  j.at("value").get_to(w.value);
  j.at("unit").get_to(w.unit);
  j.at("ratios").get_to(w.ratios);
  if (const auto intervals = j.find("ratio_intervals"); intervals != j.end())
    for (const auto& [name, bounds] : intervals->items())
      w.ratio_intervals[name] = {bounds.at(0).get<double>(), bounds.at(1).get<double>()};
  j.at("discarded").get_to(w.discarded);
  w.samples = samples_of(j.at("raw"));
  return w;
}

}  // namespace

std::string_view name_of(Stage stage) {
  return kStageNames.at(static_cast<std::size_t>(stage));
}

std::optional<Stage> stage_named(std::string_view name) {
  for (std::size_t i = 0; i < kStageNames.size(); ++i)
    if (kStageNames[i] == name) return static_cast<Stage>(i);
  return std::nullopt;
}

void to_json(nlohmann::json& j, const Evaluation& e) {
  nlohmann::json workloads = nlohmann::json::array();
  for (const WorkloadResult& w : e.workloads) workloads.push_back(json_of(w));
  j = {{"verdict", e.measured() ? "measured" : "rejected"},
       {"stage", name_of(e.stage)},
       {"reason", e.reason},
       {"diagnostics", e.diagnostics},
       {"machine_code", e.machine_code},
       {"resources", e.resources.values},
       {"fitness", e.fitness},
       {"unit", e.unit},
       {"workloads", std::move(workloads)},
       {"input_seed", e.input_seed},
       {"compile_seconds", e.compile_seconds},
       {"check_seconds", e.check_seconds},
       {"measure_seconds", e.measure_seconds},
       {"worker_lost", e.worker_lost},
       {"late", e.late}};
}

void from_json(const nlohmann::json& j, Evaluation& e) {
  e = {};
  const std::string verdict = j.at("verdict").get<std::string>();
  if (verdict != "measured" && verdict != "rejected")
    throw nlohmann::json::other_error::create(501, "unknown verdict '" + verdict + "'", &j);
  e.verdict = verdict == "measured" ? Evaluation::Verdict::measured : Evaluation::Verdict::rejected;
  const std::string stage = j.at("stage").get<std::string>();
  const std::optional<Stage> known = stage_named(stage);
  if (!known) throw nlohmann::json::other_error::create(501, "unknown stage '" + stage + "'", &j);
  e.stage = *known;
  j.at("reason").get_to(e.reason);
  j.at("diagnostics").get_to(e.diagnostics);
  j.at("machine_code").get_to(e.machine_code);
  j.at("resources").get_to(e.resources.values);
  j.at("fitness").get_to(e.fitness);
  j.at("unit").get_to(e.unit);
  for (const nlohmann::json& w : j.at("workloads")) e.workloads.push_back(workload_of(w));
  j.at("input_seed").get_to(e.input_seed);
  j.at("compile_seconds").get_to(e.compile_seconds);
  j.at("check_seconds").get_to(e.check_seconds);
  j.at("measure_seconds").get_to(e.measure_seconds);
  j.at("worker_lost").get_to(e.worker_lost);
  e.late = j.value("late", false);  // records of before do not say
}

Evaluation rejection(Stage stage, std::string reason, std::string diagnostics) {
  Evaluation e;
  e.verdict = Evaluation::Verdict::rejected;
  e.stage = stage;
  constexpr std::size_t most_reason_bytes = 400;
  e.reason = plain_line(reason, most_reason_bytes);
  e.diagnostics = plain_text(diagnostics);
  return e;
}

}  // namespace cultivar

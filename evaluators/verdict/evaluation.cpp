// SPDX-License-Identifier: Apache-2.0
#include "evaluators/verdict/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "evaluators/system/json_fields.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace {

constexpr std::array<std::string_view, 12> kStageNames = {"lint",    "compile", "screen",      "smoke",
                                                          "sweep",   "stress",  "determinism", "edge",
                                                          "measure", "gate",    "profile",     "confirm"};

// Raw samples are stored as columns, so that a thousand of them stay readable and small.
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

}  // namespace

std::span<const Stage> all_stages() {
  static constexpr auto all = [] {
    std::array<Stage, kStageNames.size()> stages{};
    for (std::size_t i = 0; i < stages.size(); ++i) stages[i] = static_cast<Stage>(i);
    return stages;
  }();
  return all;
}

std::string_view name_of(Stage stage) {
  return kStageNames.at(static_cast<std::size_t>(stage));
}

std::optional<Stage> stage_named(std::string_view name) {
  for (std::size_t i = 0; i < kStageNames.size(); ++i)
    if (kStageNames[i] == name) return static_cast<Stage>(i);
  return std::nullopt;
}

void to_json(nlohmann::json& j, const Stage& stage) {
  j = name_of(stage);
}

void from_json(const nlohmann::json& j, Stage& stage) {
  const auto known = stage_named(j.get_ref<const std::string&>());
  if (!known) throw nlohmann::json::other_error::create(501, "unknown stage " + j.dump(), &j);
  stage = *known;
}

CULTIVAR_JSON_PART(WorkloadResult, median_us, q1_us, q3_us, value, unit, ratios, discarded)

static void to_json(nlohmann::json& j, const WorkloadResult& w) {
  write_fields(j, w);
  j["name"] = w.workload;
  j["samples"] = w.samples.size();
  j["raw"] = columns(w.samples);
  auto& intervals = j["ratio_intervals"] = nlohmann::json::object();
  for (const auto& [name, interval] : w.ratio_intervals) intervals[name] = {interval.lower, interval.upper};
  if (w.incumbent_us > 0.0) j["incumbent_us"] = w.incumbent_us;
}

static void from_json(const nlohmann::json& j, WorkloadResult& w) {
  read_fields(j, w);
  j.at("name").get_to(w.workload);
  w.samples = samples_of(j.at("raw"));
  const auto intervals = j.value("ratio_intervals", nlohmann::json::object());
  for (const auto& [name, bounds] : intervals.items())
    w.ratio_intervals[name] = {bounds.at(0).get<double>(), bounds.at(1).get<double>()};
  w.incumbent_us = j.value("incumbent_us", 0.0);
}

CULTIVAR_JSON_ENUM(Evaluation::Verdict, "measured", "rejected")
CULTIVAR_JSON_PART(Evaluation, verdict, stage, reason, diagnostics, machine_code, fitness, unit, workloads,
                   input_seed, compile_seconds, check_seconds, measure_seconds, worker_lost)

std::string ContenderTrouble::line() const {
  const std::string first = details.substr(0, details.find('\n'));
  return fmt::format("contender {}: {}{}", contender, reason, first.empty() ? "" : " (" + first + ")");
}

void Evaluation::add(ContenderTrouble trouble) {
  diagnostics += fmt::format("contender {}: {}\n", trouble.contender, trouble.reason);
  if (!trouble.details.empty()) diagnostics += trouble.details + "\n";
  contender_troubles.push_back(std::move(trouble));
}

CULTIVAR_JSON_ENUM(ContenderTrouble::Kind, "failed", "unusable", "left_out")
CULTIVAR_JSON(ContenderTrouble, contender, kind, reason, details)

CULTIVAR_JSON(Checked, runs, shapes, specialisations, left_out, ranges)

void to_json(nlohmann::json& j, const Evaluation& e) {
  write_fields(j, e);
  j["resources"] = e.resources.values;
  if (!e.resources.shares.empty()) j["instruction_shares"] = e.resources.shares;
  j["late"] = e.late;
  if (e.host_fault) j["host_fault"] = name_of(*e.host_fault);
  if (!e.contender_troubles.empty()) j["contender_troubles"] = e.contender_troubles;
  if (!e.exactness.empty()) j["exactness"] = e.exactness;
  if (e.checked) j["checked"] = *e.checked;
  if (e.largest_elements > 0) j["largest_elements"] = e.largest_elements;
  if (e.coverage) j["coverage"] = *e.coverage;
}

void from_json(const nlohmann::json& j, Evaluation& e) {
  e = {};
  read_fields(j, e);
  j.at("resources").get_to(e.resources.values);
  e.resources.shares = j.value("instruction_shares", e.resources.shares);
  e.late = j.value("late", false);  // absent in older records
  if (j.contains("host_fault")) e.host_fault = host_fault_named(j.at("host_fault").get<std::string>());
  e.contender_troubles = j.value("contender_troubles", e.contender_troubles);
  e.exactness = j.value("exactness", e.exactness);
  if (j.contains("checked")) e.checked = j.at("checked").get<Checked>();
  e.largest_elements = j.value("largest_elements", e.largest_elements);
  if (j.contains("coverage")) e.coverage = j.at("coverage").get<Coverage>();
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

Evaluation host_rejection(Stage stage, HostFault fault, const std::string& diagnostics) {
  Evaluation e = rejection(stage, std::string(words_of(fault)), diagnostics);
  e.host_fault = fault;
  return e;
}

namespace {

struct Known {
  std::string_view name, words;
  bool may_be_the_variants;
};
constexpr std::array<Known, 8> kKnown{{{"killed", "a process was killed from outside", false},
                                       {"out_of_memory", "memory ran out", true},
                                       {"memory_held", "other programs hold the device's memory", false},
                                       {"cache_lost", "the compiled kernel is no longer in the cache", false},
                                       {"cache_unwritable", "the cache cannot be written", false},
                                       {"busy", "the machine is too busy for these times", true},
                                       {"launcher_failed", "the launcher started no worker", false},
                                       {"worker_lost", "the worker was lost", true}}};
static_assert(kKnown.size() == static_cast<std::size_t>(HostFault::worker_lost) + 1);

const Known& known(HostFault fault) {
  return kKnown.at(static_cast<std::size_t>(fault));
}

}  // namespace

std::string_view name_of(HostFault fault) {
  return known(fault).name;
}
std::string_view words_of(HostFault fault) {
  return known(fault).words;
}
bool may_be_the_variants(HostFault fault) {
  return known(fault).may_be_the_variants;
}

std::optional<HostFault> host_fault_named(std::string_view name) {
  const auto* const found = std::ranges::find(kKnown, name, &Known::name);
  if (found == kKnown.end()) return std::nullopt;
  return static_cast<HostFault>(found - kKnown.begin());
}

}  // namespace cultivar

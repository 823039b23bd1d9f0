// SPDX-License-Identifier: Apache-2.0
// Tests the rules with metric vectors measured on an H100 for kernels with known properties.
#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/devices/cuda/code/launch_rules.hpp"
#include "evaluators/target/traits.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

using namespace cultivar;

namespace {

KernelProfile kernel(CounterValues counted) {
  KernelProfile k;
  k.name = "attention_forward";
  k.grid = {132, 1, 1};
  k.block = {384, 1, 1};
  k.registers = 168;
  k.dynamic_shared_bytes = 164864;
  const MultiprocessorLimits limits = limits_of({{"num_sms", 132},
                                                 {"smem_max", 232448},
                                                 {"registers_max", 65536},
                                                 {"threads_max", 2048},
                                                 {"compute_capability", 90}});
  k.occupancy = occupancy({384, k.registers, k.dynamic_shared_bytes}, limits);
  k.waves = waves(132, k.occupancy, limits);
  k.counters = std::move(counted);
  return k;
}

Profile profile(CounterValues counted) {
  Profile p;
  p.target = "cuda";
  p.variant = "0123456789abcdef";
  p.name = "flash";
  p.workload = "B4_H16_Sq8192_D128_bf16";
  p.median_us = 3700.0;
  p.value = 594.0;
  p.unit = "TFLOPS";
  p.flops = 2.2e12;
  p.bytes = 5.37e8;
  p.flops_us = 2780.0;
  p.bytes_us = 180.0;
  p.kernels.push_back(kernel(std::move(counted)));
  return p;
}

// A warp-specialised wgmma kernel: few warps, few instructions, a busy tensor pipe.
Profile wgmma() {
  return profile({{"tensor_pct", 71.3},
                  {"warps_active_pct", 18.7},
                  {"issue_pct", 33.9},
                  {"dram_pct", 7.1},
                  {"xu_pct", 31.0},
                  {"l2_pct", 18.2},
                  {"shared_pct", 12.0},
                  {"duration_ns", 3.9e6},
                  {"cycles", 6.5e6},
                  {"cycles_active", 6.4e6},
                  {"dram_read_bytes", 4.1e8},
                  {"dram_write_bytes", 1.4e8},
                  {"fma_pct", 22.0},
                  {"alu_pct", 18.0},
                  {"l2_hit_pct", 88.0},
                  {"bank_conflicts", 1.2e5},
                  {"shared_wavefronts", 4.1e7},
                  {"instructions", 2.4e8},
                  {"local_loads", 0.0},
                  {"local_stores", 0.0}});
}

// A kernel that loads data only when it needs it.
Profile waiting() {
  Profile p = profile({{"tensor_pct", 14.0},
                       {"warps_active_pct", 24.0},
                       {"issue_pct", 21.0},
                       {"dram_pct", 9.0},
                       {"xu_pct", 8.0},
                       {"l2_pct", 25.0},
                       {"shared_pct", 20.0},
                       {"duration_ns", 1.6e7},
                       {"cycles", 2.7e7},
                       {"cycles_active", 2.65e7}});
  p.median_us = 15000.0;
  KernelProfile& k = p.kernels[0];
  k.samples = 100000;
  k.stalls = {{"long_scoreboard", {60000, 50000}},
              {"barrier", {20000, 15000}},
              {"wait", {8000, 2000}},
              {"selected", {12000, 0}}};
  k.lines = {{117, "const uint4 v = load(k_tile, n);", 45000, {{"long_scoreboard", {42000, 39000}}}},
             {130, "__syncthreads();", 20000, {{"barrier", {19000, 14500}}}},
             {0, "", 9000, {{"long_scoreboard", {9000, 8000}}}}};
  return p;
}

bool says(const Report& report, const std::string& kind, const std::string& words = "") {
  return std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& f) {
    return f.kind == kind && f.words.find(words) != std::string::npos;
  });
}

std::string all_words(const Report& report) {
  std::string text = report.headline;
  for (const Finding& f : report.findings) text += "\n" + f.kind + ": " + f.words;
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bottleneck)

BOOST_AUTO_TEST_CASE(a_busy_tensor_pipe_is_the_limit_and_few_warps_are_then_no_trouble) {
  const Report report = explain(wgmma());
  BOOST_TEST(report.limited_by == "tensor_pipe", all_words(report));
  BOOST_TEST(says(report, "tensor_pipe", "71 %"));
  for (const char* kind :
       {"occupancy", "exposed_latency", "dram", "l2", "bank_conflicts", "tail", "local_memory"})
    BOOST_TEST(!says(report, kind), kind);
  BOOST_TEST(report.headline.find("75 % of this device's measured peak") != std::string::npos,
             report.headline);
  BOOST_TEST(report.headline.find("3.7 ms") != std::string::npos, report.headline);
}

BOOST_AUTO_TEST_CASE(a_time_below_that_at_the_measured_peak_is_no_share_of_it) {
  Profile fast = wgmma();
  fast.median_us = fast.floor_us() / 1.5;
  const std::string headline = explain(fast).headline;
  BOOST_TEST(headline.find("faster than this device's measured peak (at peak rate the ") != headline.npos,
             headline);
  BOOST_TEST(headline.find("150 %") == headline.npos, headline);
}

BOOST_AUTO_TEST_CASE(exposed_latency_is_reported_with_its_reasons_lines_and_remedy) {
  const Report report = explain(waiting());
  BOOST_TEST(report.limited_by == "exposed_latency", all_words(report));
  BOOST_TEST(says(report, "exposed_latency", "long_scoreboard, 75 %"), all_words(report));
  BOOST_TEST(says(report, "exposed_latency", "mostly in line 117"), all_words(report));
  BOOST_TEST(says(report, "exposed_latency", "barrier"));
  BOOST_TEST(says(report, "exposed_latency", "more stages"));
  BOOST_TEST(says(report, "occupancy", "limited by registers"), all_words(report));
  BOOST_TEST(says(report, "tensor_pipe_idle", "14.0 %"), all_words(report));
}

BOOST_AUTO_TEST_CASE(each_unit_that_is_busy_is_named) {
  const std::pair<const char*, const char*> units[] = {{"dram_pct", "dram"},
                                                       {"l2_pct", "l2"},
                                                       {"shared_pct", "shared_memory"},
                                                       {"issue_pct", "issue_slots"},
                                                       {"xu_pct", "special_functions"},
                                                       {"fma_pct", "fma_pipe"},
                                                       {"alu_pct", "alu_pipe"},
                                                       {"tensor_pct", "tensor_pipe"}};
  for (const auto& [key, kind] : units) {
    Profile p = profile({{"tensor_pct", 30.0}, {"issue_pct", 40.0}});
    BOOST_TEST(!says(explain(p), kind), kind);
    p.kernels[0].counters[key] = 88.0;
    const Report report = explain(p);
    BOOST_TEST(says(report, kind, "88 %"), kind << "\n" << all_words(report));
    BOOST_TEST(report.limited_by == kind, all_words(report));
  }
}

BOOST_AUTO_TEST_CASE(waste_is_reported_traffic_conflicts_spills_tail_and_clock) {
  Profile p = wgmma();
  CounterValues& c = p.kernels[0].counters;
  c["dram_pct"] = 80.0;
  c["dram_read_bytes"] = 1.9e9;
  c["shared_pct"] = 55.0;
  c["bank_conflicts"] = 2.0e7;
  c["local_loads"] = 4e6;
  c["local_stores"] = 4e6;
  c["cycles_active"] = 4.9e6;
  p.throttle = "power";
  p.clock_mhz = 1455.0;
  p.power_w = 698.0;
  p.temperature_c = 61.0;
  const Report report = explain(p);
  BOOST_TEST(
      says(report, "dram", "3.80 times the minimum bytes of the workload (1900.0 MB read, 140.0 MB written"),
      all_words(report));
  BOOST_TEST(says(report, "bank_conflicts", "49 %"), all_words(report));
  BOOST_TEST(says(report, "local_memory", "3.3 %"), all_words(report));
  BOOST_TEST(says(report, "tail", "25 %"), all_words(report));
  BOOST_TEST(says(report, "clock", "1455 MHz at 698 W"), all_words(report));
  for (std::size_t i = 1; i < report.findings.size(); ++i)
    BOOST_TEST(report.findings[i - 1].weight >= report.findings[i].weight);
  for (const Finding& f : report.findings) BOOST_TEST((f.weight >= 0.0 && f.weight <= 1.0), f.kind);
}

BOOST_AUTO_TEST_CASE(without_counters_only_what_the_plan_shows_is_reported) {
  Profile p = profile({});
  p.kernels[0].grid = {297, 1, 1};
  p.kernels[0].waves = 2.25;
  p.resources["spill_bytes"] = 96;
  p.missing.push_back("counters: this driver keeps its counters for administrators");
  const Report report = explain(p);
  BOOST_TEST(says(report, "tail", "2.25 waves"), all_words(report));
  BOOST_TEST(says(report, "local_memory", "96 bytes"));
  BOOST_TEST(says(report, "occupancy", "19 % of its warp slots"), all_words(report));
  for (const char* kind : {"tensor_pipe", "tensor_pipe_idle", "exposed_latency", "dram", "issue_slots"})
    BOOST_TEST(!says(report, kind), kind);
  const std::string text = report_text(p);
  BOOST_TEST(text.find("missing: counters: this driver keeps") != std::string::npos, text);
  BOOST_TEST(text.find("168 registers") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_cpu_profile_has_its_roofline_and_its_machine_code) {
  Profile p;
  p.target = "cpu";
  p.name = "tiled";
  p.workload = "small";
  p.median_us = 1000.0;
  p.value = 100.0;
  p.unit = "GFLOPS";
  p.flops_us = 900.0;
  p.bytes_us = 20.0;
  p.resources = {{"text_bytes", 4242}};
  const Report report = explain(p);
  BOOST_TEST(report.limited_by == "roofline");
  BOOST_TEST(report.headline.find("90 % of this device's measured peak") != std::string::npos,
             report.headline);
  BOOST_TEST(report_text(p).find("text_bytes 4242") != std::string::npos);
  p.flops_us = 90.0;
  BOOST_TEST(explain(p).findings.empty());
  BOOST_TEST(explain(p).limited_by.empty());
}

BOOST_AUTO_TEST_CASE(a_cpu_profile_names_the_loop_that_calls_or_works_on_single_elements) {
  Profile p;
  p.target = "cpu";
  p.name = "naive";
  p.workload = "small";
  p.median_us = 1000.0;
  p.bytes_us = 40.0;
  HotLoop exp;
  exp.function = "softmax";
  exp.first_line = 14, exp.last_line = 16, exp.instructions = 11, exp.scalars = 3;
  exp.calls = {"expf"};
  HotLoop maximum = exp;
  maximum.first_line = 10, maximum.last_line = 11;
  maximum.calls.clear();
  p.loops = {exp, maximum};
  p.traffic = {64e6, 64e6, 20.0, 30.0, 45.0, 38.0};
  const Report report = explain(p);
  BOOST_TEST(report.limited_by == "scalar_calls");
  BOOST_TEST(
      report.findings[0].words.find("the innermost loop at lines 14 to 16 calls expf") != std::string::npos,
      report.findings[0].words);
  BOOST_TEST(report.findings[1].kind == "scalar_loop");
  BOOST_TEST(report.findings[2].kind == "traffic");
  BOOST_TEST(report.findings[2].words.find("Bytes are not the limit yet") != std::string::npos);
  BOOST_TEST(report.findings[2].words.find("192 MB move instead of 128") != std::string::npos,
             report.findings[2].words);
  BOOST_TEST(report_text(p).find("lines 14 to 16 (softmax)") != std::string::npos);
  // The last part of a row, copied at once, is no call for each element.
  p.loops.front().calls = {"memcpy"};
  for (const Finding& finding : explain(p).findings) BOOST_TEST(finding.kind != "scalar_calls");
  p.loops.front().calls = {"memcpy", "expf"};
  BOOST_TEST(explain(p).findings[0].words.find("calls expf for each") != std::string::npos);
  // The logarithm of a row's sum, beside whole vectors, is not its limit.
  p.loops.front().vectors = 9, p.loops.front().widest_bits = 512;
  BOOST_TEST(explain(p).limited_by != "scalar_calls");
  BOOST_TEST(report_text(p).find("calls expf once in each pass, beside 9 instructions on vectors") !=
             std::string::npos);
  p.loops.front().vectors = 0;
  // The rest of a vectorized loop is none of its trouble.
  maximum.vectors = 4, maximum.widest_bits = 512;
  HotLoop rest = p.loops[1];
  p.loops = {maximum, rest};
  p.median_us = 50.0;
  const Report near = explain(p);
  BOOST_TEST(near.limited_by == "dram");
  BOOST_TEST(near.findings[0].words.find("Bytes are the limit") != std::string::npos);
  // Stores that bypass the caches are recommended where they were measured faster.
  BOOST_TEST(near.findings[0].words.find("or stores that bypass the caches") != std::string::npos);
  p.traffic.streamed_us = 46.0;
  BOOST_TEST(explain(p).findings[0].words.find("or stores that bypass") == std::string::npos);
  p.traffic.streamed_us = 38.0;
  // A kernel that has them gets no such advice, and its bytes are those that move with them.
  p.resources["streamed_stores"] = 2.0;
  const std::string words = explain(p).findings[0].words;
  BOOST_TEST(words.find("both 38 us with stores that bypass the caches, as this kernel has them: 76 %") !=
                 std::string::npos,
             words);
  BOOST_TEST(words.find("Ordinary stores") == std::string::npos, words);
  BOOST_TEST(words.find("or stores that bypass") == std::string::npos, words);
  p.resources.erase("streamed_stores");
  for (const Finding& finding : near.findings) BOOST_TEST(finding.kind != "scalar_loop");
  // A record of an earlier version has neither.
  nlohmann::json old = p;
  old.erase("loops");
  old.erase("traffic");
  BOOST_TEST(old.get<Profile>().loops.empty());
  BOOST_TEST(nlohmann::json(p).get<Profile>().loops.size() == 2U);
}

BOOST_AUTO_TEST_CASE(only_what_differs_from_the_parent_is_reported) {
  const Profile parent = waiting(), child = wgmma();
  const auto changes = differences(parent, child);
  BOOST_REQUIRE(!changes.empty());
  BOOST_TEST(changes.front().what == "median_us");
  BOOST_TEST(changes.front().words.find("305.4 % faster") != std::string::npos, changes.front().words);
  const auto about = [&](const std::string& what) {
    return std::find_if(changes.begin(), changes.end(), [&](const Change& c) { return c.what == what; });
  };
  BOOST_REQUIRE((about("tensor_pct") != changes.end()));
  BOOST_TEST(about("tensor_pct")->before == 14.0);
  BOOST_TEST(about("tensor_pct")->after == 71.3);
  BOOST_TEST((about("dram_pct") == changes.end()));  // 1.9 points
  BOOST_TEST((about("registers") == changes.end()));
  BOOST_TEST(differences(parent, parent).size() == 1u);  // its time
  Profile slower = parent;
  slower.kernels[0].stalls["barrier"] = {60000, 55000};
  slower.kernels[0].registers = 200;
  bool stall = false, registers = false;
  for (const Change& c : differences(parent, slower)) {
    stall = stall || (c.what == "stall_barrier" && c.words.find("22 % -> 51 %") != std::string::npos);
    registers = registers || c.what == "registers";
  }
  BOOST_TEST(stall);
  BOOST_TEST(registers);
}

BOOST_AUTO_TEST_CASE(a_plan_of_several_kernels_is_judged_by_the_longest) {
  Profile p = wgmma();
  p.kernels.insert(p.kernels.begin(), kernel({{"duration_ns", 1.0e6}, {"dram_pct", 95.0}}));
  p.kernels.front().name = "prepare";
  BOOST_TEST(main_kernel(p)->name == "attention_forward");
  const Report report = explain(p);
  BOOST_TEST(!says(report, "dram"));
  BOOST_TEST(says(report, "several_kernels", "20 %"), all_words(report));
}

BOOST_AUTO_TEST_CASE(rules_that_lack_their_facts_say_nothing) {
  for (const Target target : targets())
    if (target->profile != nullptr)
      for (const Rule& rule : target->profile->rules)
        BOOST_TEST(!rule.apply(Profile{}).has_value(), rule.kind);
}

BOOST_AUTO_TEST_CASE(profiles_and_reports_are_whole_as_json) {
  Profile p = waiting();
  p.throttle = "power";
  p.missing = {"this", "that"};
  p.passes = 8;
  p.replay = "launches repeated";
  p.kernels[0].counters["stall_barrier"] = 1.25;
  const Profile back = nlohmann::json::parse(nlohmann::json(p).dump()).get<Profile>();
  BOOST_TEST(nlohmann::json(back).dump() == nlohmann::json(p).dump());
  BOOST_TEST(report_text(back) == report_text(p));
  const auto both = report_json(wgmma(), &p);
  BOOST_TEST(both.at("report").at("limited_by").get<std::string>() == "tensor_pipe");
  BOOST_TEST(both.at("against").at("limited_by").get<std::string>() == "exposed_latency");
  BOOST_TEST(both.at("against").at("changes").size() > 3u);
  BOOST_TEST(both.at("profile").at("kernels").at(0).at("occupancy").at("limit").get<std::string>() ==
             "registers");
  BOOST_TEST(report_json(p).at("against").is_null());
}

BOOST_AUTO_TEST_CASE(parts_are_merged_and_keep_what_each_found_out) {
  Profile whole = profile({}), counted = wgmma(), sampled = waiting();
  whole.missing = {"a"};
  counted.passes = 8;
  counted.missing = {"a", "b"};
  sampled.kernels[0].counters.clear();
  sampled.dropped_samples = 5;
  merge(whole, sampled);
  merge(whole, counted);
  BOOST_TEST(whole.kernels[0].counters.at("tensor_pct") == 71.3);
  BOOST_TEST(whole.kernels[0].samples == 100000u);
  BOOST_TEST(whole.kernels[0].lines.size() == 3u);
  BOOST_TEST(whole.passes == 8);
  BOOST_TEST(whole.dropped_samples == 5u);
  BOOST_TEST((whole.missing == std::vector<std::string>{"a", "b"}));
  BOOST_TEST(whole.median_us == 3700.0);
}

BOOST_AUTO_TEST_SUITE_END()

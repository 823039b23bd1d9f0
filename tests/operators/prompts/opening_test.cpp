// SPDX-License-Identifier: Apache-2.0
#include "operators/prompts/prompt.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "evaluators/profile/bottleneck.hpp"
#include "operators/registry.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"
#include "support/record_view.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

// An attention search on an H100, as far as prompts see it.
struct Attention {
  Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/attention_forward");
  std::vector<Workload> workloads = task.workloads("avo_mha")->workloads;
  Facts facts{{"num_sms", 132.0},         {"smem_max", 232448.0},  {"l2_bytes", 52428800.0},
              {"registers_max", 65536.0}, {"threads_max", 2048.0}, {"compute_capability", 90.0}};
  MemoryChronicle record_view{task};
  PromptKit kit;
  IndividualId incumbent = 0, winner = 0;

  static std::string seed(const std::string& name) {
    return read_source(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/attention_forward/seeds/" + name);
  }
  Evaluation measured(double tflops) const {
    Evaluation e;
    e.verdict = Evaluation::Verdict::measured;
    e.fitness = tflops;
    e.unit = "TFLOPS";
    e.resources.values = {{"registers", 168}, {"spill_bytes", 0}, {"shared_bytes", 99840}};
    for (const Workload& w : workloads) {
      WorkloadResult row;
      row.workload = w.name;
      row.median_us = task.flops(w) / tflops * 1e-6;
      row.q1_us = 0.99 * row.median_us;
      row.q3_us = 1.01 * row.median_us;
      row.value = tflops;
      row.unit = "TFLOPS";
      e.workloads.push_back(row);
    }
    return e;
  }
  // What the profiler says of the wgmma seed on an H100, in size and kind.
  Profile profile_of(IndividualId id) const {
    Profile p;
    p.target = "cuda";
    p.device = "NVIDIA H100 80GB HBM3";
    p.variant = "x" + std::to_string(id);
    p.name = "attention_wgmma";
    p.workload = workloads.front().name;
    p.median_us = 1780.0;
    p.value = 616.3;
    p.unit = "TFLOPS";
    p.flops_us = 1110.0;
    p.bytes_us = 175.0;
    KernelProfile k;
    k.name = "attention_forward";
    k.grid = {4096, 1, 1};
    k.block = {384, 1, 1};
    k.registers = 168;
    k.dynamic_shared_bytes = 99840;
    k.occupancy.blocks = 1;
    k.occupancy.warps = 12;
    k.waves = 31.03;
    k.counters = {
        {"tensor_pct", 65.5}, {"issue_pct", 41.3}, {"dram_pct", 9.2}, {"xu_pct", 35.9}, {"l2_pct", 38.3}};
    k.samples = 782887;
    k.stalls = {
        {"wait", {230000, 180000}}, {"barrier", {210000, 170000}}, {"long_scoreboard", {140000, 110000}}};
    for (int i = 0; i < 10; ++i)
      k.lines.push_back({250 + i,
                         "asm volatile(\"wgmma.wait_group.sync.aligned %0;\" ::\"n\"(pending) : \"memory\");",
                         50000,
                         {{"barrier", {40000, 30000}}, {"wait", {9000, 9000}}}});
    p.kernels.push_back(std::move(k));
    return p;
  }
  ChatRequest ask(const Brief& brief, std::vector<std::string>* left_out = nullptr) const {
    const PromptContext context{.task = task,
                                .workloads = workloads,
                                .facts = facts,
                                .archive = record_view.archive,
                                .record_view = record_view,
                                .target = target_named("cuda"),
                                .device = "NVIDIA H100 80GB HBM3",
                                .architecture = "sm_90",
                                .seen = {.flops = 989e12, .bytes_per_second = 3.3e12},
                                .incumbent = incumbent,
                                .winner = winner};
    return first_question(brief, context, kit, left_out);
  }
};

std::int64_t tokens_of(const ChatRequest& request) {
  return estimated_tokens(request.system.at(0).text) + estimated_tokens(request.messages.at(0).text);
}

Brief mutate(IndividualId parent) {
  Brief brief;
  brief.op = "mutate";
  brief.model = "m";
  brief.parents = {parent};
  brief.direction = "attack what the measurements show to limit it most, and nothing else";
  return brief;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(opening, Attention)

BOOST_AUTO_TEST_CASE(a_mutation_of_an_attention_kernel_with_its_profile_stays_within_its_limit) {
  for (const char* name : {"cuda_naive.cu", "cuda_mma.cu", "cuda_wgmma.cu", "cuda_split.cu"}) {
    Attention a;
    const IndividualId parent = a.record_view.add(seed(name), "seed", {}, a.measured(616.0));
    a.incumbent = parent;
    a.record_view.profiles[parent] = a.profile_of(parent);
    for (int i = 0; i < 12; ++i)  // a long line, with failures that say much
      a.record_view.add(
          seed("cuda_naive.cu") + "// " + std::to_string(i) + "\n", "mutate", {parent},
          i % 2 ? a.measured(600.0 + i) : rejection(Stage::compile, "error", std::string(9000, 'e')),
          "another way to hide the latency of the products");
    std::vector<std::string> left_out;
    const ChatRequest request = a.ask(mutate(parent), &left_out);
    for (const std::string& each : left_out) BOOST_TEST_MESSAGE(name << " has no room for " << each);
    BOOST_TEST_MESSAGE(name << ": " << tokens_of(request) << " tokens, system "
                            << estimated_tokens(request.system.at(0).text));
    // cuda_wgmma.cu alone has 11,000, and leaves a third of the limit for the rest.
    BOOST_TEST(tokens_of(request) <= (std::string_view(name) == "cuda_wgmma.cu" ? 16'000 : 12'000), name);
    BOOST_TEST(tokens_of(request) >= 3'000, name);
    const std::string& user = request.messages.at(0).text;
    BOOST_TEST(contains(user, seed(name)));                                            // to the letter
    BOOST_TEST(contains(user, "attention_wgmma on " + workloads.front().name), name);  // the report
    BOOST_TEST(contains(user, "the tensor pipe is active in"), name);
    BOOST_TEST(contains(user, "line 253: 6 % of samples, barrier: asm"), name);
    BOOST_TEST(contains(user, "<<<<<<< SEARCH"));
    BOOST_TEST(contains(user, "Make one change in this direction: attack what the measurements show"));
    const std::string& system = request.system.at(0).text;
    BOOST_TEST((contains(system, "lse [B, H, S_q]") || contains(system, "lse (output): f32 [B, H, S_q]")),
               name);
  }
}

BOOST_AUTO_TEST_CASE(the_format_is_that_of_the_kernels_language) {
  const std::string triton =
      "\"\"\"--- cultivar\nname: tiles\ntask: attention_forward\ntarget: cuda\nlanguage: triton\n"
      "specialize: [dtype]\nlaunch:\n  - kernel: tiles\n    grid: [B, 1, 1]\n    args: [q, k, v, o, lse, B]\n"
      "---\"\"\"\nimport triton\n\n@triton.jit\ndef tiles(q, k, v, o, lse, B):\n    pass\n";
  const ChatRequest of_triton = ask(mutate(record_view.add(triton, "seed", {}, measured(300.0))));
  BOOST_TEST(contains(of_triton.system.at(0).text + of_triton.messages.at(0).text, "No @triton.autotune"));
  BOOST_TEST(contains(of_triton.messages.at(0).text, "```python\n" + triton));
  const ChatRequest of_cuda = ask(mutate(record_view.add(seed("cuda_naive.cu"), "seed", {}, measured(11.0))));
  BOOST_TEST(!contains(of_cuda.system.at(0).text + of_cuda.messages.at(0).text, "triton.autotune"));
}

BOOST_AUTO_TEST_CASE(a_kernel_beyond_the_limit_still_comes_with_its_measurements_and_its_report) {
  const std::string longest = seed("cuda_wgmma.cu") + "// " + std::string(20'000, 'x') + "\n";
  const IndividualId parent = record_view.add(longest, "seed", {}, measured(616.0));
  record_view.profiles[parent] = profile_of(parent);
  std::vector<std::string> left_out;
  const ChatRequest request = ask(mutate(parent), &left_out);
  const std::string& user = request.messages.at(0).text;
  BOOST_TEST(contains(user, longest));
  BOOST_TEST(contains(user, workloads.back().name + " |"), user.substr(user.size() - 8000));
  BOOST_TEST(contains(user, "attention_wgmma on " + workloads.front().name));
  BOOST_TEST(tokens_of(request) > 12'000);
  BOOST_TEST(tokens_of(request) <= 24'000);
}

BOOST_AUTO_TEST_CASE(everything_an_expert_needs_is_included_when_there_is_room) {
  PromptOptions options;
  options.prompt_tokens = 14'000;
  kit = PromptKit(options);
  const IndividualId seed_id =
      record_view.add(seed("cuda_naive.cu"), "seed", {}, measured(11.0), "cuda_naive.cu");
  const IndividualId parent = record_view.add(seed("cuda_mma.cu"), "mutate", {seed_id}, measured(290.0),
                                              "tensor cores instead of fma");
  record_view.add(seed("cuda_mma.cu") + "// slower\n", "mutate", {parent}, measured(250.0), "smaller tiles");
  record_view.add(seed("cuda_mma.cu") + "// bad\n", "mutate", {parent},
                  rejection(Stage::stress, "wrong on stress/needle",
                            "first wrong element: o[0, 3, 1, 7] = 2.5, not 1.25"),
                  "skips the rescale");
  incumbent = record_view.add(seed("cuda_wgmma.cu"), "mutate", {seed_id}, measured(616.0));
  record_view.profiles[parent] = profile_of(parent);
  for (const Workload& w : workloads)
    record_view.ratios["cudnn"][w.name] = 0.9;  // cudnn takes 0.9 of the best's time
  const ChatRequest request = ask(mutate(parent));
  const std::string &system = request.system.at(0).text, &user = request.messages.at(0).text;
  BOOST_TEST(request.system.at(0).stable);
  BOOST_TEST(contains(system, "tensor_maps:"));
  BOOST_TEST(contains(system, "bottom-right aligned"));
  BOOST_TEST(!contains(system, "reference_row"));  // long: only with the evidence of a wrong result
  BOOST_TEST(contains(system, "num_sms = 132"));
  BOOST_TEST(contains(user, "| 290 TFLOPS | 29 % of "), user);
  BOOST_TEST(contains(user, " | 0.471x | 0.424x |"), user);  // best, cudnn
  BOOST_TEST(contains(user, "The best so far is #" + std::to_string(incumbent)));
  BOOST_TEST(contains(user, "The best reaches 62 % to 62 % of the device's measured peak. Its speed is 0.9x"),
             user);
  BOOST_TEST(contains(user,
                      "- #2 mutate of #1: tensor cores instead of fma -> 290; over #1: +2536.4 % by one "
                      "measurement of each, with a noise of 3 %"),
             user);
  BOOST_TEST(contains(user, "- #3 mutate of #2: smaller tiles -> 250; over #2: -13.8 % by one measurement"),
             user);
  BOOST_TEST(contains(user, "first wrong element: o[0, 3, 1, 7]"));
  BOOST_TEST(contains(user, "# Notes that may help"));
  BOOST_TEST(contains(user, "wgmma"));
  // A child that nobody profiled is told what the one it came from ran into.
  const IndividualId child =
      record_view.add(seed("cuda_mma.cu") + "// child\n", "mutate", {parent}, measured(295.0));
  const std::string of_child = ask(mutate(child)).messages.at(0).text;
  BOOST_TEST(
      contains(of_child,
               "It was not profiled; this is the profile of its ancestor #2, whose source differs: what it "
               "shows may be gone by now:"),
      of_child);
  BOOST_TEST(!contains(of_child, "Measured limit: "), of_child);
  BOOST_TEST(!contains(of_child, "Compared with its ancestor"), of_child);  // the profile of #2, with itself
  // What limited a kernel that was less than half as fast says nothing about this one.
  const IndividualId fast =
      record_view.add(seed("cuda_mma.cu") + "// fast\n", "mutate", {parent}, measured(2.1 * 290.0));
  BOOST_TEST(!contains(ask(mutate(fast)).messages.at(0).text, "It was not profiled"));
}

BOOST_AUTO_TEST_CASE(the_system_text_is_the_same_for_every_question) {
  const IndividualId one = record_view.add(seed("cuda_naive.cu"), "seed", {}, measured(11.0));
  const IndividualId two = record_view.add(seed("cuda_mma.cu"), "seed", {}, measured(290.0));
  incumbent = two;
  Brief repair = mutate(one);
  repair.op = "critique_repair";
  const std::string system = ask(mutate(one)).system.at(0).text;
  BOOST_TEST(ask(mutate(two)).system.at(0).text == system);
  BOOST_TEST(ask(repair).system.at(0).text == system);
}

BOOST_AUTO_TEST_CASE(what_the_budget_has_no_room_for_goes_least_useful_first) {
  const IndividualId parent = record_view.add(seed("cuda_naive.cu"), "seed", {}, measured(11.0));
  incumbent = parent;
  record_view.profiles[parent] = profile_of(parent);
  PromptOptions options;
  options.prompt_tokens = 4'500;
  kit = PromptKit(options);
  std::vector<std::string> left_out;
  const ChatRequest request = ask(mutate(parent), &left_out);
  BOOST_TEST(tokens_of(request) <= 4'500);
  BOOST_REQUIRE(!left_out.empty());
  BOOST_TEST(left_out.front().starts_with("note "), left_out.front());
  BOOST_TEST(contains(request.messages.at(0).text, "the tensor pipe is active in"));
}

BOOST_AUTO_TEST_CASE(how_bold_a_change_should_be_follows_from_the_way_to_the_roofline) {
  const IndividualId naive = record_view.add(seed("cuda_naive.cu"), "seed", {}, measured(11.0));
  incumbent = naive;
  const std::string far = ask(mutate(naive)).messages.at(0).text;
  BOOST_TEST(contains(far, "It reaches 1 % of the device's measured peak (geometric mean). That is far"),
             far);
  BOOST_TEST(contains(far, "rewrite the core"), far);
  BOOST_TEST(!contains(far, "change only what serves"), far);
  const IndividualId good = record_view.add(seed("cuda_wgmma.cu"), "mutate", {naive}, measured(700.0));
  const IndividualId close =
      record_view.add(seed("cuda_wgmma.cu") + "// b\n", "mutate", {good}, measured(690.0));
  const IndividualId behind = record_view.add(seed("cuda_mma.cu"), "mutate", {naive}, measured(300.0));
  const IndividualId between =
      record_view.add(seed("cuda_mma.cu") + "// c\n", "mutate", {naive}, measured(560.0));
  incumbent = good;
  const std::string near = ask(mutate(close)).messages.at(0).text;
  BOOST_TEST(contains(near, "change only what serves this"), near);
  BOOST_TEST(!contains(near, "bold"), near);
  BOOST_TEST(contains(ask(mutate(behind)).messages.at(0).text, "43 % of the best. That is far"));
  BOOST_TEST(
      contains(ask(mutate(between)).messages.at(0).text, "One change means one idea, fully implemented"));
}

BOOST_AUTO_TEST_CASE(the_change_of_the_best_is_there_when_it_is_another_kernel_and_there_is_room) {
  const IndividualId first = record_view.add("first source\n", "seed", {}, measured(200.0));
  const IndividualId best = record_view.add("best source\n", "mutate", {first}, measured(290.0), "the idea");
  const IndividualId parent = record_view.add(seed("cuda_naive.cu"), "seed", {}, measured(11.0));
  incumbent = best;
  const std::string user = ask(mutate(parent)).messages.at(0).text;
  BOOST_TEST(contains(user, "## Other kernels, for comparison only"), user);
  BOOST_TEST(contains(user, "-first source\n+best source\n"), user);
  BOOST_TEST(!contains(ask(mutate(best)).messages.at(0).text, "+best source"));
  // The first to go when there is none.
  PromptOptions options;
  options.prompt_tokens = estimated_tokens(user) + 1000;
  kit = PromptKit(options);
  std::vector<std::string> left_out;
  BOOST_TEST(tokens_of(ask(mutate(parent), &left_out)) <= options.prompt_tokens);
  BOOST_REQUIRE(!left_out.empty());
  BOOST_TEST(left_out.front().starts_with("change of #"), left_out.front());
}

BOOST_AUTO_TEST_CASE(what_is_known_of_why_a_sibling_lost_stands_beside_it) {
  const IndividualId parent = record_view.add(seed("cuda_naive.cu"), "seed", {}, measured(100.0));
  incumbent = parent;
  Evaluation spilt = measured(60.0);
  spilt.resources.values["spill_bytes"] = 1312;
  spilt.workloads[2].value = 30.0;
  spilt.workloads[3].q3_us = 1.3 * spilt.workloads[3].median_us;
  const IndividualId child =
      record_view.add(seed("cuda_naive.cu") + "// a\n", "mutate", {parent}, spilt, "wider");
  record_view.profiles[child] = profile_of(child);
  const std::string user = ask(mutate(parent)).messages.at(0).text;
  BOOST_TEST(contains(user, "wider -> 60; over #1: -40.0 % by one measurement of each"), user);
  const std::size_t at = user.find(" [spill_bytes 0 -> 1312; least on " + workloads[2].name +
                                   ": -70 %; its times vary by 31 %; ");
  BOOST_TEST(at != std::string::npos, user);
  BOOST_TEST(
      user.find(explain(profile_of(child)).findings.at(0).words.substr(0, 40), at) != std::string::npos,
      user);
}

BOOST_AUTO_TEST_CASE(a_winner_that_waits_for_its_confirmation_is_named_beside_the_best) {
  const IndividualId best = record_view.add(seed("cuda_naive.cu"), "seed", {}, measured(100.0));
  const IndividualId child =
      record_view.add(seed("cuda_naive.cu") + "// a\n", "mutate", {best}, measured(300.0), "wider");
  const DuelResult duel{best, Verdict::better, {std::log(3.0), std::log(2.5), std::log(3.5)}, {}};
  record_view.archive.settle(child, 300.0, duel);
  incumbent = best;
  BOOST_TEST(!contains(ask(mutate(best)).messages.at(0).text, "won its duel"));
  winner = child;
  const std::string of_best = ask(mutate(best)).messages.at(0).text;
  BOOST_TEST(contains(of_best, " #2 won its duel against the best, +200"), of_best);
  const std::string of_winner = ask(mutate(child)).messages.at(0).text;
  BOOST_TEST(contains(of_winner, "faster than the best by its duel, being confirmed"), of_winner);
  BOOST_TEST(contains(of_winner, "It becomes the best if its confirmation"), of_winner);
}

BOOST_AUTO_TEST_CASE(what_a_duel_settled_is_told_instead_of_measurements) {
  const IndividualId best = record_view.add(seed("cuda_naive.cu"), "seed", {}, measured(100.0));
  const IndividualId child =
      record_view.add(seed("cuda_naive.cu") + "// a\n", "mutate", {best}, measured(168.0), "wider");
  incumbent = best;
  const std::string before = ask(mutate(child)).messages.at(0).text;
  BOOST_TEST(contains(before, "The speed of this one over the best: +68.0 % by one measurement of each"),
             before);
  BOOST_TEST(contains(before, "vs best (#1) (one measurement of each, noise 3 %)"), before);
  BOOST_TEST(contains(before, "| 1.680x |"), before);

  DuelResult duel{best, Verdict::undecided, {std::log(1.044), std::log(1.039), std::log(1.05)}, {}};
  for (std::size_t w = 0; w < workloads.size(); ++w)
    duel.workloads.push_back({std::log(1.02), std::log(1.01), std::log(1.03)});
  record_view.archive.settle(child, 104.4, duel);
  const std::string after = ask(mutate(child)).messages.at(0).text;
  BOOST_TEST(!contains(after, "68.0 %"), after);
  BOOST_TEST(contains(after, "Fitness follows from its duel; the times are of one measurement"), after);
  BOOST_TEST(contains(after,
                      "The speed of this one over the best: +4.4 % (+3.9 to +5.0 %) in a duel. The duel "
                      "did not decide."),
             after);
  BOOST_TEST(contains(after, "| 1.020x (1.010 - 1.030) |"), after);
  BOOST_TEST(contains(after, "Fitness 104.4 TFLOPS."), after);
  BOOST_TEST(contains(after, "- #2 mutate of #1: wider -> 104.4; duel with #1: +4.4 % (+3.9 to +5.0 %)"),
             after);
  DuelResult refused = duel;
  refused.verdict = Verdict::worse;
  refused.workloads.front() = {std::log(0.92), std::log(0.9), std::log(0.94)};
  record_view.archive.settle(child, 104.4, refused);
  BOOST_TEST(contains(
      ask(mutate(child)).messages.at(0).text,
      "(+3.9 to +5.0 %), not promoted because it is slower on " + workloads.front().name + " (-8.0 %)"));
  record_view.archive.settle(child, 104.4, duel);
  // Its child is compared with it by measurements, whose noise allows for how wrong this one was.
  const IndividualId grandchild =
      record_view.add(seed("cuda_naive.cu") + "// b\n", "tune", {child}, measured(120.0), "BLOCK=8");
  for (const double wrong : {1.6, 0.7}) {
    const IndividualId other =
        record_view.add(seed("cuda_mma.cu"), "mutate", {best}, measured(100.0 * wrong));
    record_view.archive.settle(other, 100.0, duel);
  }
  const std::string noisy = ask(mutate(grandchild)).messages.at(0).text;
  BOOST_TEST(contains(noisy, "over #2: no difference shown by one measurement of each, with a noise of"),
             noisy);
  // A reference that was itself promoted by a duel: the ratio of a third follows from both.
  incumbent = child;
  const IndividualId slower =
      record_view.add(seed("cuda_mma.cu") + "// c\n", "mutate", {child}, measured(200.0));
  DuelResult lost{child, Verdict::worse, {std::log(0.92), std::log(0.9), std::log(0.94)}, duel.workloads};
  record_view.archive.settle(slower, 96.0, lost);
  const std::string worse = ask(mutate(slower)).messages.at(0).text;
  BOOST_TEST(contains(worse, "over the best: -8.0 % (-10.0 to -6.0 %) in a duel. That is decided."), worse);
  BOOST_TEST(contains(ask(mutate(best)).messages.at(0).text,
                      "over the best: -4.2 % (-4.8 to -3.8 %) by their duels"));
}

BOOST_AUTO_TEST_CASE(the_best_is_compared_at_the_pace_of_each_measurement) {
  // It was measured at full speed, the other one on a card that had become half as fast.
  const IndividualId best = record_view.add(seed("cuda_naive.cu"), "seed", {}, measured(100.0));
  const IndividualId child = record_view.add(seed("cuda_mma.cu"), "mutate", {best}, measured(60.0));
  record_view.archive.judge(child, true, 120.0);  // as the search scales it
  incumbent = best;
  const std::string user = ask(mutate(child)).messages.at(0).text;
  BOOST_TEST(contains(user, "| 1.200x |"), user);
  BOOST_TEST(contains(user, "over the best: +20.0 %"), user);
}

BOOST_AUTO_TEST_CASE(for_parents_with_equal_times_the_question_asks_for_an_idea) {
  const IndividualId one = record_view.add(seed("cuda_naive.cu"), "seed", {}, measured(100.0));
  const IndividualId same =
      record_view.add(seed("cuda_naive.cu") + "// b\n", "mutate", {one}, measured(101.0));
  const IndividualId other =
      record_view.add(seed("cuda_naive.cu") + "// c\n", "mutate", {one}, measured(110.0));
  incumbent = one;
  Brief brief = mutate(one);
  brief.op = "crossover";
  brief.direction = "one kernel with what each of the two does better";
  brief.parents = {one, same};
  const std::string alike = ask(brief).messages.at(0).text;
  BOOST_TEST(contains(alike, "No difference between the two could be shown on any workload"), alike);
  BOOST_TEST(!contains(alike, "makes each of the two faster where it is faster"));
  brief.parents = {one, other};
  const std::string unlike = ask(brief).messages.at(0).text;
  BOOST_TEST(!contains(unlike, "No difference between the two could be shown on any workload"));
  BOOST_TEST(!contains(unlike, "makes each of the two faster where it is faster"));
  BOOST_TEST(contains(unlike, "The second is the faster one wherever they differ"), unlike);
  Evaluation mixed = measured(110.0);
  mixed.workloads[1].value = 50.0;
  brief.parents = {one, record_view.add(seed("cuda_naive.cu") + "// d\n", "mutate", {one}, mixed)};
  const std::string crossed = ask(brief).messages.at(0).text;
  BOOST_TEST(contains(crossed, "makes each of the two faster where it is faster"), crossed);
  BOOST_TEST(!contains(crossed, "The second is the faster one"), crossed);
}

BOOST_AUTO_TEST_CASE(
    a_question_about_two_kernels_names_the_faster_one_only_where_the_bounds_of_their_duels_do) {
  const IndividualId one = record_view.add(seed("cuda_naive.cu"), "seed", {}, measured(100.0));
  const IndividualId other =
      record_view.add(seed("cuda_naive.cu") + "// b\n", "mutate", {one}, measured(115.0));
  incumbent = one;
  Brief brief = mutate(one);
  brief.op = "crossover";
  brief.direction = "one kernel with what each of the two does better";
  brief.parents = {other, one};
  DuelResult duel{one, Verdict::undecided, {0.14, -0.2, 0.5}, {}};
  duel.workloads.resize(workloads.size(), {std::log(1.156), std::log(0.78), std::log(2.05)});
  record_view.archive.settle(other, 115.0, duel);
  const std::string unknown = ask(brief).messages.at(0).text;
  BOOST_TEST(contains(unknown, "| not shown (#2: +15.6 % (-22.0 to +105.0 %)) |"), unknown);
  BOOST_TEST(contains(unknown, "No difference between the two could be shown on any workload"), unknown);
  BOOST_TEST(!contains(unknown, "makes each of the two faster where it is faster"), unknown);
  // One of them is faster nowhere: what it does better cannot be asked for.
  duel.workloads.back() = {std::log(1.2), std::log(1.1), std::log(1.3)};
  record_view.archive.settle(other, 115.0, duel);
  const std::string ahead = ask(brief).messages.at(0).text;
  BOOST_TEST(contains(ahead, "| #2: +20.0 % (+10.0 to +30.0 %) |"), ahead);
  BOOST_TEST(contains(ahead, "The first is the faster one wherever they differ"), ahead);
  BOOST_TEST(!contains(ahead, "makes each of the two faster where it is faster"), ahead);
  brief.parents = {one, other};
  const std::string behind = ask(brief).messages.at(0).text;
  BOOST_TEST(contains(behind, "| #2: +20.0 % (+10.0 to +30.0 %) |"), behind);
  BOOST_TEST(contains(behind, "The second is the faster one wherever they differ"), behind);
  // Each is faster somewhere.
  duel.workloads.front() = {std::log(0.8), std::log(0.7), std::log(0.9)};
  record_view.archive.settle(other, 115.0, duel);
  const std::string both = ask(brief).messages.at(0).text;
  BOOST_TEST(contains(both, "| #1: +25.0 % (+11.1 to +42.9 %) |"), both);
  BOOST_TEST(contains(both, "makes each of the two faster where it is faster"), both);
  BOOST_TEST(!contains(both, "wherever they differ"), both);
}

BOOST_AUTO_TEST_CASE(
    a_question_of_two_large_kernels_still_says_which_key_head_is_read_and_what_an_unseeing_row_gives) {
  const std::string large = seed("cuda_wgmma.cu");
  const IndividualId one = record_view.add(large, "seed", {}, measured(600.0));
  const IndividualId two = record_view.add(large + "// b\n", "mutate", {one}, measured(610.0));
  incumbent = one;
  Brief brief = mutate(one);
  brief.op = "crossover";
  brief.parents = {one, two};
  const std::string system = ask(brief).system.at(0).text;
  BOOST_TEST(!contains(system, "tensor_maps:"));  // the short one
  BOOST_TEST(contains(system, "query head h reads head h / (H / H_kv)"), system);
  BOOST_TEST(contains(system, "O = 0 and LSE = -inf"), system);
  BOOST_TEST(contains(system, "`requires` may be narrowed"), system);
}

BOOST_AUTO_TEST_CASE(with_the_short_system_text_the_whole_format_is_included_where_there_is_room) {
  const IndividualId one = record_view.add(seed("cuda_mma.cu"), "seed", {}, measured(290.0));
  const IndividualId two = record_view.add(seed("cuda_naive.cu"), "seed", {}, measured(11.0));
  incumbent = one;
  Brief brief = mutate(one);
  brief.op = "crossover";
  brief.parents = {one, two};
  const std::string rule = "do not pass a specialized dimension as an argument";
  int told = 0, left = 0;
  for (int tokens = 3'000; tokens <= 14'000; tokens += 250) {
    PromptOptions options;
    options.prompt_tokens = tokens;
    kit = PromptKit(options);
    std::vector<std::string> left_out;
    const ChatRequest request = ask(brief, &left_out);
    const bool short_one = !contains(request.system.at(0).text, "tensor_maps:");
    const bool in_full = contains(request.messages.at(0).text, rule);
    BOOST_TEST((in_full || contains(request.system.at(0).text, rule) ||
                std::ranges::find(left_out, "format in full") != left_out.end()),
               tokens);
    BOOST_TEST((!in_full || short_one), tokens);  // never twice
    if (in_full) BOOST_TEST(tokens_of(request) <= kMostOverBudget * tokens);
    told += in_full, left += short_one && !in_full;
  }
  BOOST_TEST(told > 0);
  BOOST_TEST(left > 0);
}

BOOST_AUTO_TEST_CASE(a_critique_gets_the_evidence_between_marks_and_the_kernel_that_worked) {
  const IndividualId parent = record_view.add(seed("cuda_naive.cu"), "seed", {}, measured(11.0));
  const IndividualId failed = record_view.add(
      seed("cuda_naive.cu") + "// bad\n", "mutate", {parent},
      rejection(Stage::compile, "error: expected ;", "kernel.cu(40): error: expected a \";\""));
  Brief brief = mutate(failed);
  brief.op = "critique_repair";
  const std::string user = ask(brief).messages.at(0).text;
  const std::size_t begin = user.find("<evidence>"), end = user.find("</evidence>");
  BOOST_REQUIRE(begin != std::string::npos);
  BOOST_REQUIRE(end != std::string::npos);
  BOOST_TEST(contains(user.substr(begin, end - begin), "Rejected at stage `compile`"));
  BOOST_TEST(contains(user.substr(begin, end - begin), "kernel.cu(40): error"));
  BOOST_TEST(contains(user, "The working kernel that it was derived from"));
  BOOST_TEST(!contains(user, "reference_row"));
  const IndividualId wrong = record_view.add(seed("cuda_naive.cu") + "// wrong\n", "mutate", {parent},
                                             rejection(Stage::stress, "wrong on stress/needle", "o[0] = 2"));
  brief = mutate(wrong);
  brief.op = "critique_repair";
  BOOST_TEST(contains(ask(brief).messages.at(0).text, "reference_row"));  // what would have been right
}

BOOST_AUTO_TEST_SUITE_END()

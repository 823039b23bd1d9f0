// SPDX-License-Identifier: Apache-2.0
#include "evaluators/variant/manifest.hpp"

#include <boost/test/unit_test.hpp>

#include "evaluators/variant/example.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using cultivar::testing::contains;
using example::attention;
using example::replaced;

namespace {

std::string error_of(const std::string& source) {
  const auto variant = make_variant(source, attention());
  return variant ? "no error" : std::to_string(variant.error().line) + ": " + variant.error().message;
}
void check_error(const std::string& source, const std::string& from, const std::string& to,
                 const std::string& expected) {
  const std::string message = error_of(replaced(source, from, to));
  BOOST_TEST(message.find(expected) != std::string::npos, message << "  should hold  " << expected);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(manifest)

BOOST_AUTO_TEST_CASE(the_design_example_parses_word_for_word) {
  const auto manifest = parse_manifest(example::excerpt);
  BOOST_REQUIRE_MESSAGE(manifest, (manifest ? "" : manifest.error().message));
  BOOST_TEST(manifest->name == "flash_pingpong");
  BOOST_TEST((manifest->target == target_named("cuda")));
  BOOST_TEST(manifest->tunables.size() == 3u);
  BOOST_TEST(manifest->tensor_maps.at(0).swizzle == "128B");
  BOOST_TEST(manifest->workspace.at(0).zero);
  BOOST_TEST(manifest->launch.at(0).args.size() == 12u);
  // It is an excerpt: what it leaves out is found, with its line.
  BOOST_TEST(error_of(example::excerpt)
                     .find("25: launch[0].args[1]: unknown argument 'map_k' (did you mean "
                           "'map_q'?") == 0u,
             error_of(example::excerpt));
  BOOST_TEST(error_of(example::cuda) == "no error");
}

BOOST_AUTO_TEST_CASE(every_cuda_field_is_read_and_survives_the_round_trip) {
  std::string source = replaced(example::cuda, "swizzle: 128B}\n      map_k",
                                "swizzle: 32B, interleave: 32B, l2_promotion: 256B, out_of_bounds: nan, "
                                "element_strides: [1, 2, 1, BLOCK_M / 64]}\n      map_k");
  source =
      replaced(source, "        shared: smem\n",
               "        shared: smem\n        cooperative: true\n        programmatic_dependent: true\n");
  source = replaced(source, "S_kv, scale]", "S_kv, {value: \"scale * 1.5\", type: bf16}]");
  source = replaced(source, "    target: cuda\n",
                    "    target: cuda\n    about: \"a \\\"quoted\\\" \\\\ text: here\"\n");
  const auto manifest = parse_manifest(source);
  BOOST_REQUIRE_MESSAGE(manifest, (manifest ? "" : manifest.error().message));
  const TensorMapSpec& map = manifest->tensor_maps.at(0);
  BOOST_TEST(map.interleave == "32B");
  BOOST_TEST(map.l2_promotion == "256B");
  BOOST_TEST(map.out_of_bounds == "nan");
  BOOST_TEST(map.element_strides.size() == 4u);
  BOOST_TEST(map.element_strides.at(3).text() == "BLOCK_M / 64");
  BOOST_TEST(map.strides.at(2).text() == "S_q*H*D");
  BOOST_TEST(map.box.at(2).text() == "BLOCK_M");
  const KernelLaunch& launch = manifest->launch.at(0);
  BOOST_TEST(launch.flag("cooperative"));
  BOOST_TEST(launch.flag("programmatic_dependent"));
  BOOST_TEST(launch.values("cluster").size() == 3u);
  BOOST_TEST(launch.values("shared").at(0).text() == "smem");
  BOOST_TEST((launch.args.back().type == Dtype::bf16));
  BOOST_TEST(manifest->about == "a \"quoted\" \\ text: here");
}

BOOST_AUTO_TEST_CASE(a_cpu_manifest_is_equal_to_itself_and_to_no_other) {
  const auto manifest = parse_manifest(example::cpu);
  BOOST_REQUIRE(manifest);
  const auto again = parse_manifest(example::cpu);
  BOOST_REQUIRE_MESSAGE(again, (again ? "" : again.error().message));
  BOOST_TEST((*again == *manifest));
  auto changed = *manifest;
  changed.launch[0].keys["threads"] = {Expression::constant(3)};
  BOOST_TEST((!(changed == *manifest)));
}

BOOST_AUTO_TEST_CASE(a_license_is_an_spdx_expression_or_not_stated) {
  const auto with = [](const std::string& value) {
    std::string changed = example::cpu;
    return changed.replace(changed.find("task:"), 0, "license: " + value + "\n");
  };
  BOOST_TEST(parse_manifest(example::cpu)->license.empty());
  BOOST_TEST(parse_manifest(with("(MIT OR Apache-2.0)"))->license == "(MIT OR Apache-2.0)");
  BOOST_TEST(contains(error_of(with("\"`MIT`\"")), "is not an SPDX license expression"));
  BOOST_TEST(contains(error_of(with("\"" + std::string(129, 'M') + "\"")), "at most 128 characters"));
}

BOOST_AUTO_TEST_CASE(where_the_manifest_must_be) {
  BOOST_TEST(error_of("// a licence\n\n" + example::cpu) == "no error");
  BOOST_TEST(error_of("\xef\xbb\xbf" + example::cpu) == "no error");
  BOOST_TEST(error_of("int x;\n" + example::cpu).find("2: the manifest must come before all code") == 0u);
  BOOST_TEST(error_of("int x;\n").find("1: the manifest is missing") == 0u);
  BOOST_TEST(error_of("").find("1: the manifest is missing") == 0u);
  check_error(example::cpu, "---*/", "*/", "1: the manifest comment is not closed");
  check_error(example::cpu, "cultivar\n", "cultivar name: x\n", "1: the line of the opening marker must be");
  BOOST_TEST(error_of(std::string("/*--- cultivar\n\0---*/", 20)).find("zero byte") != std::string::npos);
  BOOST_TEST(error_of(std::string(2 << 20, ' ')).find("longer than") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_ends_the_comment_early_is_named_with_its_line) {
  const std::string source =
      "/*--- cultivar\nname: k\nabout: \"tiles of A*B\"\ntask: softmax\n---*/\nint x;\n";
  const auto with = [&](const std::string& about) {
    std::string changed = source;
    return error_of(changed.replace(changed.find("tiles of A*B"), 12, about));
  };
  BOOST_TEST(with("a /* b */ c").find("3: '*/' ends the manifest comment") == 0u, with("a /* b */ c"));
  BOOST_TEST(with("rows/*/").find("3: '*/' ends the manifest comment") == 0u);
  BOOST_TEST(with("a ---*/ b").find("3: '---*/' ends the manifest in the middle of a line") == 0u,
             with("a ---*/ b"));
  BOOST_TEST(with("a * / b").find("ends the") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(errors_of_form_name_line_and_nearest_name) {
  const std::string& cpu = example::cpu;
  check_error(cpu, "launch:", "launhc:", "15: 'launch' is missing (did you misspell it as 'launhc'?)");
  check_error(cpu, "tunables:", "tunable:", "6: unknown key 'tunable' (did you mean 'tunables'?");
  check_error(cpu, "target: cpu", "target: gpu",
              "4: target: 'gpu' is not allowed here (did you mean 'cuda'?");
  check_error(cpu, "name: tiny", "name: tiny\nname: x", "3: the key 'name' is given twice, first on line 2");
  check_error(cpu, "default: 64", "default: 48", "7: tunables.TILE.default: 48 is not one of the values");
  check_error(cpu, "[32, 64]", "[32, 64, 32]", "7: tunables.TILE.values[2]: 32 is listed twice");
  check_error(cpu, "[32, 64]", "[32, row]", "7: tunables.TILE.values[1]: numbers and names cannot be mixed");
  check_error(cpu, "[32, 64]", "[]", "7: tunables.TILE.values: must list at least one value");
  check_error(cpu, "\"dtype == f32\"", "\"dtype = f32\"",
              "5: requires: 'dtype = f32': = is not a comparison");
  check_error(cpu, "\"4 * team * TILE\"", "\"4 * (team\"", "is not an expression");
  check_error(cpu, "    threads: team\n", "    threads: team\n    grid: [1, 1, 1]\n",
              "18: launch[0].grid: is only for target cuda, but this manifest's target is cpu");
  check_error(cpu, "workspace:", "tensor_maps:\n  m: {tensor: q, sizes: [4], box: [4]}\nworkspace:",
              "tensor_maps: is only for target cuda");
  check_error(cpu, "  TILE: {", "  9TILE: {", "'9TILE' is not a name");
  check_error(cpu, "kernel: attention_forward", "kernel: \"f<64>\"", "launch[0].kernel: must be a name");
  check_error(cpu, "type: f64", "type: fp64", "'fp64' is not allowed here (did you mean 'f64'?");
  const std::string& cuda = example::cuda;
  check_error(cuda, "        shared: smem", "        threads: 4\n        shared: smem",
              "launch[0].threads: is only for target cpu");
  check_error(cuda, "grid: [num_sms, 1, 1]", "grid: [num_sms]", "launch[0].grid: must have 3 entries, not 1");
  check_error(cuda, "        grid: [num_sms, 1, 1]\n", "", "launch[0]: 'grid' is missing");
  check_error(cuda, "swizzle: 128B}\n      map_k", "swizzle: 128}\n      map_k",
              "tensor_maps.map_q.swizzle: '128' is not allowed here (did you mean '128B'?");
  check_error(cuda, "strides: [D, H*D, S_q*H*D]", "strides: [D, H*D]",
              "tensor_maps.map_q.strides: must have 3 entries");
  check_error(cuda, "sizes: [D, H, S_q, B]", "sizes: [D, H, S_q, B, 1, 1]",
              "must have 1 to 5 entries, not 6");
  check_error(cuda, "box: [64, 1, BLOCK_M, 1]", "box: [64, 1]",
              "tensor_maps.map_q.box: must have 4 entries, not 2");
}

BOOST_AUTO_TEST_CASE(errors_of_names_name_line_and_nearest_name) {
  const std::string& cpu = example::cpu;
  check_error(cpu, "task: attention_forward", "task: softmax", "3: task: is 'softmax', but this task is");
  check_error(cpu, "args: [q,", "args: [qq,",
              "18: launch[0].args[0]: unknown argument 'qq' (did you mean 'q'?");
  check_error(cpu, "4 * team * TILE", "4 * team * TILES",
              "workspace.scratch.bytes: '4 * team * TILES' uses the unknown "
              "name 'TILES' (did you mean 'TILE'?");
  check_error(cpu, "specialize: [D,", "specialize: [TILE,", "specialize[0]: 'TILE' is not a dimension");
  check_error(cpu, "specialize: [D,", "specialize: [team,",
              "specialize[0]: the let 'team' depends on the device fact 'num_cores'; a macro must not");
  check_error(cpu, "\"dtype == f32\"", "\"TILE == 64\"",
              "requires: 'TILE == 64' uses the unknown name 'TILE'");
  check_error(cpu, "\"dtype == f32\"", "\"num_cores > 1\"", "only dimensions, parameters and dtype");
  check_error(cpu, "  TILE: {", "  D: {", "tunables.D: the name 'D' is already a dimension of the task");
  check_error(cpu, "  TILE: {", "  q: {", "already a tensor of the task");
  check_error(cpu, "  TILE: {", "  bf16: {", "the name 'bf16' is a function or dtype");
  check_error(cpu, "  TILE: {", "  int: {", "the name 'int' is a C++ keyword");
  check_error(cpu, "  TILE: {", "  min: {", "the name 'min' is a function or dtype");
  check_error(cpu, "  TILE: {", "  thread: {", "a built-in argument");
  // On a GPU no argument has that name, and authors like it for the block's size.
  BOOST_TEST(error_of(replaced(example::cuda, "    let:\n", "    let:\n      threads: 128\n")) == "no error");
  check_error(cpu, "  TILE: {", "  num_cores: {", "is a device fact");
  check_error(cpu, "  team: \"num_cores\"", "  team: \"later\"\n  later: 2",
              "let.team: 'later' uses the unknown name");
  check_error(cpu, "scratch: {", "k: {", "workspace.k: the name 'k' is already a tensor");
  check_error(cpu, "kernel: attention_forward", "kernel: atention", "the source does not mention 'atention'");
  check_error(cpu, "scratch, S_q", "scratch + 4, S_q",
              "scratch is a pointer or a tensor map and cannot be part of an expression");
  check_error(cpu, "[q, k,", "[{value: q, type: f32}, k,", "'q' takes no type");
  check_error(cpu, "args: [q, k, v, o, lse, scratch, ", "args: [", "no argument is a tensor");
  const std::string& cuda = example::cuda;
  check_error(cuda, "{tensor: q,", "{tensor: qq,",
              "tensor_maps.map_q.tensor: there is no tensor 'qq' (did you mean 'q'?");
  check_error(cuda, "{tensor: q,", "{tensor: ticket,", "is a workspace; give the map the `dtype`");
  check_error(cuda, "box: [64, 1, BLOCK_M", "box: [64, 1, BLOCK_W",
              "tensor_maps.map_q.box[2]: 'BLOCK_W' uses the unknown");
  check_error(cuda, "grid: [num_sms,", "grid: [num_sm,", "did you mean 'num_sms'?");
  check_error(cuda, "S_kv, scale]", "S_kv, threads]", "'threads' is only for target cpu");
  check_error(cuda, "swizzle: 128B}\n      map_k", "interleave: 32B}\n      map_k",
              "interleave 32B needs swizzle 32B");
  check_error(cuda, "sizes: [D, H, S_q, B], strides: [D, H*D, S_q*H*D], box: [64, 1, BLOCK_M, 1]",
              "sizes: [D, H], strides: [D], interleave: 16B, box: [64, 1]", "needs rank 3 or more");
}

BOOST_AUTO_TEST_CASE(a_hostile_manifest_is_refused_within_moments) {
  const auto among = [](const std::string& lines) {
    return error_of(replaced(example::cpu, "launch:\n", lines + "launch:\n"));
  };
  const auto list = [](int count, const std::function<std::string(int)>& item) {
    std::string text;
    for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + item(i);
    return text;
  };
  const auto number = [](int i) { return std::to_string(i); };
  const auto begun = std::chrono::steady_clock::now();
  BOOST_TEST(contains(among("about: " + std::string(900'000, 'x') + "\n"), "longer than the limit of 65536"));
  BOOST_TEST(contains(among("about: " + std::string(2000, 'x') + "\n"), "at most 1000 are allowed"));
  std::string keys;
  for (int i = 0; i < 90'000; ++i) keys += fmt::format("k{}: 1\n", i);
  BOOST_TEST(contains(among(keys), "longer than the limit of 65536"));
  BOOST_TEST(contains(error_of(replaced(example::cpu, "name: tiny", "name: " + std::string(900, 'n'))),
                      "at most 128 are allowed"));
  BOOST_TEST(contains(
      error_of(replaced(example::cpu, "[D, causal", "[" + list(5000, [](int) { return "D"; }) + ", causal")),
      "at most 256"));
  BOOST_TEST(contains(error_of(replaced(example::cpu, "[32, 64]", "[" + list(9000, number) + "]")),
                      "at most 4096 are allowed"));
  BOOST_TEST(contains(
      error_of(replaced(example::cpu, "S_kv >= TILE || LAYOUT == LAYOUT_row\"", "1\", " + list(300, number))),
      "at most 256 are allowed"));
  // Each let uses the two above it: as many paths as Fibonacci's numbers.
  std::string lets = "let:\n  g0: 1\n  g1: 1\n";
  for (int i = 2; i < 200; ++i) lets += fmt::format("  g{}: \"max(g{}, g{})\"\n", i, i - 1, i - 2);
  BOOST_TEST(error_of(replaced(replaced(example::cpu, "let:\n", lets), "[D, causal", "[g199, D, causal")) ==
             "no error");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  BOOST_TEST(took.count() < 20.0);
}

BOOST_AUTO_TEST_CASE(the_population_can_count_the_tunables_of_every_manifest) {
  const auto with = [](int count) {
    std::string tunables;
    for (int i = 0; i < count; ++i) tunables += fmt::format("  T{}: {{values: [1], default: 1}}\n", i);
    return error_of(replaced(example::cpu, "tunables:\n", "tunables:\n" + tunables));
  };
  BOOST_TEST(with(253) == "no error");  // and two of its own
  BOOST_TEST(contains(with(254), "more than 255 entries"), with(254));
}

BOOST_AUTO_TEST_CASE(a_comment_and_an_error_line_count_from_the_top_of_the_file) {
  const std::string source = "// one\n// two\n" + replaced(example::cpu, "launch:", "launhc:");
  BOOST_TEST(error_of(source).find("17: 'launch' is missing (did you misspell it as 'launhc'?)") == 0u);
}

BOOST_AUTO_TEST_CASE(a_launch_may_be_left_out_and_repeated) {
  const std::string source =
      replaced(example::cpu, "    threads: team\n",
               "    when: \"S_q > 1\"\n    repeat: \"S_q\"\n    threads: \"step + 1\"\n");
  const auto variant = make_variant(source, attention());
  BOOST_REQUIRE_MESSAGE(variant, error_of(source));
  Workload w = attention().workloads("cpu_quick")->workloads.front();
  w.values["S_q"] = 3;
  auto plan = make_plan(*variant, attention(), w, example::cpu_facts);
  BOOST_REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
  BOOST_TEST(plan->kernels.size() == 3u);
  BOOST_TEST(plan->kernels.at(2).launch.number("threads", 0) == 3);
  w.values["S_q"] = 65;
  plan = make_plan(*variant, attention(), w, example::cpu_facts);
  BOOST_REQUIRE(!plan);
  BOOST_TEST(contains(plan.error().message, "launch[0].repeat"), plan.error().message);
  w.values["S_q"] = 1;
  plan = make_plan(*variant, attention(), w, example::cpu_facts);
  BOOST_REQUIRE(!plan);
  BOOST_TEST(contains(plan.error().message, "no kernel runs"), plan.error().message);
  check_error(example::cpu, "threads: team\n", "threads: \"step + 1\"\n", "unknown name 'step'");
  check_error(source, "repeat: \"S_q\"", "repeat: \"step\"", "may not use `step`");
  check_error(source, "let:\n", "let:\n  step: \"1\"\n", "`step` counts the repeats, but the name is a let");
}

BOOST_AUTO_TEST_CASE(a_tensor_map_may_cover_a_workspace_with_a_dtype) {
  const std::string mapped =
      replaced(example::cuda, "      map_k: {tensor: k,",
               "      map_w: {tensor: room, dtype: bf16, sizes: [64, 128], strides: [64], box: "
               "[64, 64], swizzle: 128B}\n      map_k: {tensor: k,");
  const std::string source =
      replaced(replaced(mapped, "    workspace:\n", "    workspace:\n      room: {bytes: 16384}\n"),
               "args: [map_q,", "args: [map_w, map_q,");
  BOOST_TEST(error_of(source) == "no error");
  check_error(source, "dtype: bf16, sizes", "sizes", "'room' is a workspace; give the map the `dtype`");
  check_error(source, "{tensor: k,", "{tensor: k, dtype: f16,", "the tensor k has its own dtype");
  const auto variant = make_variant(replaced(source, "sizes: [64, 128]", "sizes: [64, 129]"), attention());
  BOOST_REQUIRE(variant);
  const auto plan = make_plan(*variant, attention(), attention().workloads("quick")->workloads.front(),
                              example::cuda_facts);
  BOOST_REQUIRE(!plan);
  BOOST_TEST(contains(plan.error().message, "the map reaches byte 16512 of 'room', which has only 16384"),
             plan.error().message);
}

BOOST_AUTO_TEST_SUITE_END()

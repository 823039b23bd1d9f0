// SPDX-License-Identifier: Apache-2.0
// What a letter says about the format of a kernel is what the parser accepts, in few bytes.
#include <boost/test/unit_test.hpp>

#include "evaluators/variant/example.hpp"
#include "operators/prompts/prompt.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct Format {
  PromptKit kit;

  const std::string& format_of(const std::string& target) const {
    const Language language = find_language(target);
    return kit.format_of(language != nullptr ? language : usual_language(target_named(target)));
  }

  // The manifest of a format's example, and code that it can stand above. `target`: or a language.
  std::string kernel(const std::string& target, const std::string& code) const {
    const std::string& text = format_of(target);
    const Language language = find_language(target);
    const CommentSyntax& comments =
        (language != nullptr ? language : usual_language(target_named(target)))->comments;
    const std::string open = "    " + comments.manifest_opening() + "\n",
                      close = "    " + comments.manifest_closing() + "\n";
    const std::size_t from = text.find(open), to = text.find(close);
    BOOST_TEST_REQUIRE(from != std::string::npos);
    BOOST_TEST_REQUIRE(to != std::string::npos);
    std::string manifest;
    for (std::size_t at = from; at < to + close.size(); at = text.find('\n', at) + 1)
      manifest += text.substr(at + 4, text.find('\n', at) + 1 - at - 4);
    return manifest + code;
  }
};

// Its example can be planned on every timed workload that it claims.
void require_planned(const std::string& source, const std::string& task_name, const Facts& facts) {
  const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/" + task_name);
  const auto variant = make_variant(source, task, {});
  BOOST_REQUIRE_MESSAGE(variant, (variant ? "" : variant.error().message));
  int claimed = 0;
  for (const WorkloadSet& set : task.workload_sets)
    for (const Workload& w : set.workloads) {
      if (!claims(*variant, task, w)) continue;
      ++claimed;
      const auto plan = make_plan(*variant, task, w, facts);
      BOOST_TEST(plan.has_value(), (plan ? "" : plan.error().message));
    }
  BOOST_TEST(claimed >= 3);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(format, Format)

BOOST_AUTO_TEST_CASE(it_takes_less_than_4_kib) {
  for (const char* target : {"cpu", "cuda", "opencl", "triton"})
    BOOST_TEST(format_of(target).size() < 4096U, target);
}

BOOST_AUTO_TEST_CASE(its_examples_are_manifests_that_the_parser_accepts) {
  require_planned(kernel("cpu", "extern \"C\" void softmax_rows() {}\n"), "softmax", example::cpu_facts);
  require_planned(kernel("cuda", "extern \"C\" __global__ void attention_tiles() {}\n"), "attention_forward",
                  example::cuda_facts);
  require_planned(kernel("triton", "@triton.jit\ndef softmax_rows():\n    pass\n"), "softmax",
                  example::cuda_facts);
  require_planned(kernel("opencl", "__kernel void softmax_rows() {}\n"), "softmax",
                  target_named("opencl")->stand_in_facts(2));
}

BOOST_AUTO_TEST_CASE(what_it_says_of_expressions_and_identifiers_is_so) {
  const auto value = [](const std::string& text, const Bindings& names) {
    const auto result = Expression::parse(text).value().evaluate(names);
    BOOST_TEST(result.has_value(), text);
    return result.value_or(-1.0);
  };
  for (const char* format : {"format_cpu", "format_cuda", "format_opencl", "format_triton", "format_brief"}) {
    const std::string& text = kit.piece(format);
    BOOST_TEST(contains(text, "`/` is not integer division"), format);
    BOOST_TEST(contains(text, "must hold on"), format);  // constraints
    BOOST_TEST(contains(text, "use those above it"), format);
    BOOST_TEST((contains(text, "only the chosen side") && contains(text, "`?:`")), format);
  }
  BOOST_TEST(value("7 / 2", {}) == 3.5);
  BOOST_TEST(value("n > 0 ? 8 / n : 3", {{"n", 0.0}}) == 3.0);  // what would be infinite is not computed
  BOOST_TEST(value("n == 0 ? 3 : 8 % n", {{"n", 0.0}}) == 3.0);
  for (const char* target : {"cpu", "cuda"}) BOOST_TEST(contains(format_of(target), "DEAL == DEAL_"));
}

BOOST_AUTO_TEST_CASE(what_only_a_gpu_has_is_told_only_for_a_gpu) {
  for (const char* word : {"tensor_maps", "programmatic_dependent", "swizzle", "l2_promotion"}) {
    BOOST_TEST(contains(format_of("cuda"), word), word);
    BOOST_TEST(!contains(format_of("cpu"), word), word);
    BOOST_TEST(!contains(kit.piece("format_brief"), word), word);
  }
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/task/mixture.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>

#include "evaluators/check/oracle.hpp"
#include "evaluators/task/task.hpp"

using namespace cultivar;

namespace {

const std::string kTasks = std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/";

}  // namespace

BOOST_AUTO_TEST_SUITE(mixture)

BOOST_AUTO_TEST_CASE(equal_seeds_give_equal_patterns_and_others_differ) {
  const Task task = load_task(kTasks + "attention_forward");
  const Workload& w = task.sweep.front();
  const Inputs a = make_inputs(nullptr, task, w, 1, {}, 2), b = make_inputs(nullptr, task, w, 1, {}, 2);
  BOOST_TEST((a.bytes == b.bytes));
  BOOST_TEST(a.mixture == b.mixture);
  BOOST_TEST(!a.mixture.empty());
  BOOST_TEST(a.mixture != make_inputs(nullptr, task, w, 1, {}, 3).mixture);
  // The patterns do not depend on the values between them.
  const Inputs other = make_inputs(nullptr, task, w, 9, {}, 2);
  BOOST_TEST((a.bytes != other.bytes));
  BOOST_TEST(a.mixture.substr(0, a.mixture.find(' ')) == other.mixture.substr(0, other.mixture.find(' ')));
}

BOOST_AUTO_TEST_CASE(every_pattern_is_planted_in_every_input_and_stays_finite) {
  for (const char* name : {"softmax", "attention_forward", "matmul"}) {
    const Task task = load_task(kTasks + name);
    for (const Dtype dtype : task.dtypes) {
      Workload w = task.sweep.front();
      w.dtype = dtype;
      std::set<std::string> seen;
      for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        const Inputs inputs = make_inputs(nullptr, task, w, seed, {}, seed);
        for (const char* words : {" times ", " plus ", " all equal ", "] is ", " stress case "})
          if (inputs.mixture.find(words) != std::string::npos) seen.insert(words);
        for (const TensorSpec& t : task.tensors)
          if (inputs.mixture.find(t.name + "[") != std::string::npos) seen.insert(t.name);
        for (const auto& values : inputs.decoded)
          for (const double x : values)
            if (!std::isfinite(x)) BOOST_ERROR(name << " " << name_of(dtype) << ": " << inputs.mixture);
      }
      for (const char* words : {" times ", " plus ", " all equal ", "] is "})
        BOOST_TEST(seen.contains(words), name << words);
      for (const TensorSpec& t : task.tensors)
        if (t.role == Role::input) BOOST_TEST(seen.contains(t.name), name << ": " << t.name);
    }
  }
}

BOOST_AUTO_TEST_CASE(values_of_a_uniform_fill_stay_in_its_range) {
  Task task = load_task(kTasks + "softmax");
  for (TensorSpec& t : task.tensors)
    if (t.role == Role::input) t.fill = {Fill::Kind::uniform, 2.0, 3.0, -1};
  task.stress.clear();
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Inputs inputs = make_inputs(nullptr, task, task.sweep[2], seed, {}, seed);
    BOOST_TEST(!inputs.mixture.empty());
    for (const double x : inputs.decoded.front())
      if (x < 2.0 || x > 3.0) BOOST_ERROR(x << " after " << inputs.mixture);
  }
}

BOOST_AUTO_TEST_CASE(whole_numbers_follow_each_other_but_for_a_few) {
  const Task rope = load_task(kTasks + "rope"), paged = load_task(kTasks + "attention_paged");
  const Workload &tokens = rope.sweep.back(), &pages = paged.sweep.front();
  int ordered = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Inputs inputs = make_inputs(nullptr, rope, tokens, seed, {}, seed);
    const auto& positions = inputs.decoded[2];
    int breaks = 0;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      BOOST_TEST((positions[i] >= 0.0 && positions[i] < tokens.values.at("P")));
      breaks += i > 0 && positions[i] != positions[i - 1] + 1.0;
    }
    if (inputs.mixture.find("positions in order") != std::string::npos) {
      BOOST_TEST(breaks <= 2 * 2 * 3 + 1);
      ++ordered;
    }
    std::set<double> table;
    const Inputs of_pages = make_inputs(nullptr, paged, pages, seed, {}, seed);
    for (std::size_t t = 0, next = 0; t < paged.tensors.size(); ++t) {
      if (paged.tensors[t].role != Role::input) continue;
      const auto& values = of_pages.decoded[next++];
      if (paged.tensors[t].name != "page_table") continue;
      table.insert(values.begin(), values.end());
      if (of_pages.mixture.find("page_table filled") == std::string::npos)
        BOOST_TEST(table.size() == values.size());
    }
  }
  BOOST_TEST(ordered > 20);
}

BOOST_AUTO_TEST_CASE(integers_and_fills_of_other_kinds_are_left_alone) {
  Task task = load_task(kTasks + "softmax");
  task.stress.clear();
  for (TensorSpec& t : task.tensors)
    if (t.role == Role::input) t.fill = {Fill::Kind::one_hot, 0.0, 1.0, 1};
  BOOST_TEST(make_inputs(nullptr, task, task.sweep.front(), 1, {}, 1).mixture.empty());
  for (TensorSpec& t : task.tensors)
    if (t.role == Role::input) t.fill = {Fill::Kind::uniform, 0.0, 100.0, 1}, t.dtype = Dtype::i32;
  BOOST_TEST(make_inputs(nullptr, task, task.sweep.front(), 1, {}, 1).mixture.empty());
}

BOOST_AUTO_TEST_SUITE_END()

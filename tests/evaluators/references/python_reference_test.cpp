// SPDX-License-Identifier: Apache-2.0
// A reference in PyTorch computes what the same reference in C++ does, permits about the same errors, and
// can neither harm nor stop the worker.
// also without bubblewrap: a_file_that_harms_is_refused
// long: 80 s, evaluators/references
// always: what_overflows*, rows_are*, a_process_that*, a_file_that_harms*
#include "evaluators/references/python/python_reference.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "evaluators/check/compare.hpp"
#include "evaluators/check/oracle.hpp"
#include "support/contains.hpp"
#include "support/places.hpp"
#include "support/pytorch.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

// Copies of shipped tasks whose reference is in PyTorch.
struct PythonTasks {
  fs::path folder = fs::temp_directory_path() / ("cultivar-python-reference-" + std::to_string(::getpid()));
  ~PythonTasks() { fs::remove_all(folder); }

  // By default the task's own pytorch.py is the reference. `whole`: the outputs are one row, because one of
  // the task's depends on others of the inputs.
  Task task(const std::string& name, const std::string& source = {}, bool whole = false) const {
    const fs::path from = source_folder() / "configs/tasks" / name, to = folder / name;
    fs::create_directories(to);
    std::ifstream yaml(from / "task.yaml");
    std::ofstream out(to / "task.yaml");
    bool in_controls = false;  // they are functions of the reference in C++
    for (std::string line; std::getline(yaml, line);) {
      if (!line.empty() && line[0] != ' ') in_controls = line.starts_with("controls:");
      if (whole && line.starts_with("rows:")) line = "rows: []";
      if (!in_controls) out << line << "\n";
    }
    out.close();
    if (source.empty())
      fs::copy_file(from / "pytorch.py", to / "reference.py", fs::copy_options::overwrite_existing);
    else
      std::ofstream(to / "reference.py") << source;
    return load_task(to);
  }
  Expected<TaskReference> open(const Task& task) const {
    return open_reference(task, folder / "cache", python_with_torch_2());
  }
};

std::vector<std::int64_t> all_rows(const RowLayout& layout) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(layout.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// Of the outputs of floating point: the worst ratio of what the two permit, in either direction.
double apart(const Task& task, const RowLayout& layout, const std::vector<double>& exact,
             const std::vector<LegalError>& one, const std::vector<LegalError>& other, Dtype dtype) {
  double worst = 1.0;
  const std::vector<double> zeros(exact.size(), 0.0);
  const auto size = legal_errors(layout, all_rows(layout), exact, zeros);
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (!is_floating(layout.outputs()[i].dtype)) continue;
    const double unit = task.tolerance.floor_eps * accumulation_epsilon(dtype);
    const double half = 0.5 * epsilon_of(layout.outputs()[i].dtype);
    const auto permitted = [&](double error, double of) {
      return task.tolerance.factor * std::max(error, half * of) + std::max(unit * of, std::exp2(-100));
    };
    const double a = permitted(one[i].max, size[i].max), b = permitted(other[i].max, size[i].max);
    worst = std::max({worst, a / b, b / a});
  }
  return worst;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(python_reference, PythonTasks, *boost::unit_test::precondition(pytorch_2_is_here))

BOOST_AUTO_TEST_CASE(computes_and_permits_what_the_reference_in_cpp_does) {
  for (const char* name :
       {"softmax", "layernorm", "rmsnorm", "cross_entropy", "rope", "matmul", "attention_forward"}) {
    const Task own = load_task(source_folder() / "configs/tasks" / name), other = task(name);
    const auto cpp = open_reference(own, folder / "cache"), python = open(other);
    BOOST_REQUIRE_MESSAGE(cpp, cpp.error().message);
    BOOST_REQUIRE_MESSAGE(python, python.error().message);
    std::vector<const StressCase*> cases{nullptr};
    for (const StressCase& stress : own.stress) cases.push_back(&stress);
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
      for (const StressCase* stress : cases) {
        Workload shape = own.stress_shapes.front();
        shape.dtype = dtype;
        const Inputs inputs =
            make_inputs(nullptr, own, shape, 7, stress ? stress->fills : std::map<std::string, Fill>{});
        const RowLayout layout(own, shape);
        const auto rows = all_rows(layout);
        const Oracle one(*cpp, own, shape, 2), two(*python, other, shape, 2);
        const auto exact = one.rows(cpp->exact(), inputs.view(), rows),
                   same = two.rows(python->exact(), inputs.view(), rows);
        double most = 0.0, worst = 0.0;
        for (std::size_t i = 0; i < exact.size(); ++i) {
          most = std::max(most, std::fabs(exact[i]));
          if (exact[i] != same[i]) worst = std::max(worst, std::fabs(exact[i] - same[i]));
        }
        const std::string where =
            std::string(name) + " " + std::string(name_of(dtype)) + " " + (stress ? stress->name : "plain");
        BOOST_TEST(worst <= 1e-10 * most + 1e-300, where);
        const double ratio =
            apart(own, layout, exact,
                  legal_errors(layout, rows, exact, one.rows(cpp->rounded(), inputs.view(), rows)),
                  legal_errors(layout, rows, exact, two.rows(python->rounded(), inputs.view(), rows)), dtype);
        BOOST_TEST(ratio <= 1.5, where << ": permitted errors differ by " << ratio);
      }
  }
}

BOOST_AUTO_TEST_CASE(computes_what_the_reference_in_cpp_does_where_rows_depend_on_others) {
  for (const char* name : {"depthwise_conv", "group_norm_silu"}) {
    const Task own = load_task(source_folder() / "configs/tasks" / name), other = task(name, {}, true);
    const auto cpp = open_reference(own, folder / "cache"), python = open(other);
    BOOST_REQUIRE_MESSAGE(cpp, cpp.error().message);
    BOOST_REQUIRE_MESSAGE(python, python.error().message);
    for (const auto* stage : {&own.smoke, &own.stress_shapes, &own.edge})
      for (Workload shape : *stage) {
        shape.dtype = Dtype::bf16;
        const Inputs inputs = make_inputs(nullptr, own, shape, 7, {});
        const Oracle one(*cpp, own, shape, 2), two(*python, other, shape, 2);
        const auto exact = one.rows(cpp->exact(), inputs.view(), all_rows(RowLayout(own, shape))),
                   same = two.rows(python->exact(), inputs.view(), all_rows(RowLayout(other, shape)));
        BOOST_REQUIRE(exact.size() == same.size());
        double most = 0.0, worst = 0.0;
        for (std::size_t i = 0; i < exact.size(); ++i) {
          most = std::max(most, std::fabs(exact[i]));
          worst = std::max(worst, std::fabs(exact[i] - same[i]));
        }
        BOOST_TEST(worst <= 1e-10 * most, name << " " << shape.name << ": " << worst << " of " << most);
      }
  }
}

// A plain kernel gives NaN where an intermediate value overflows: no reason to permit it, nor to ask for more
// than that.
BOOST_AUTO_TEST_CASE(what_overflows_on_the_way_is_told_apart) {
  const Task scaled =
      task("softmax", "import torch\n\ndef compute(x):\n    return torch.softmax(x * 1e20 * 1e20, 1)\n");
  const auto python = open(scaled);
  BOOST_REQUIRE_MESSAGE(python, python.error().message);
  Workload shape = scaled.stress_shapes.front();
  shape.dtype = Dtype::f32;
  const Inputs inputs = make_inputs(nullptr, scaled, shape, 7);
  const RowLayout layout(scaled, shape);
  const auto rows = all_rows(layout);
  const Oracle oracle(*python, scaled, shape, 2);
  const auto is_finite = [&](RowFunction function) {
    const auto values = oracle.rows(function, inputs.view(), rows);
    return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
  };
  BOOST_TEST(is_finite(python->exact()));
  BOOST_TEST(is_finite(python->rounded()));
  BOOST_TEST(!is_finite(python->rounded_or_overflow()));
  const auto cpp = open_reference(load_task(source_folder() / "configs/tasks/softmax"), folder / "cache");
  BOOST_REQUIRE_MESSAGE(cpp, cpp.error().message);
  BOOST_TEST(std::string(cpp->rounded_or_overflow()) == cpp->rounded());
}

BOOST_AUTO_TEST_CASE(rows_are_computed_by_slices) {
  const Task other = task("softmax");
  const auto python = open(other);
  BOOST_REQUIRE_MESSAGE(python, python.error().message);
  Workload shape;
  shape.dtype = Dtype::f32;
  shape.values = {{"R", 50}, {"C", 33}};
  const Inputs inputs = make_inputs(nullptr, other, shape, 3);
  const Oracle oracle(*python, other, shape, 1);
  const auto whole = oracle.rows(python->exact(), inputs.view(), all_rows(RowLayout(other, shape)));
  const std::vector<std::int64_t> some{0, 7, 8, 49};
  const auto part = oracle.rows(python->exact(), inputs.view(), some);
  for (std::size_t i = 0; i < part.size(); ++i)
    BOOST_TEST(part[i] == whole[static_cast<std::size_t>(some[i / 33]) * 33 + i % 33],
               boost::test_tools::tolerance(1e-12));
}

// derive() gets the inputs that it names, and rows of them are computed by slices.
BOOST_AUTO_TEST_CASE(derived_inputs_are_computed) {
  const std::string source =
      "import torch\n\n\ndef derive(x):\n    return x.square().mean(1)\n\n\n"
      "def compute(x, w, square):\n    return x * w / square.sqrt()[:, None]\n";
  const fs::path to = folder / "scaled";
  fs::create_directories(to);
  std::ofstream(to / "reference.py") << source;
  std::ofstream(to / "task.yaml") << R"(name: scaled
summary: "x over the root of its mean square"
dimensions: {R: {about: rows}, C: {about: columns}}
dtypes: [f32]
tensors:
  x: {role: input, shape: [R, C]}
  w: {role: input, shape: [C]}
  square: {role: input, shape: [R]}
  y: {role: output, shape: [R, C]}
rows: [R]
derived: {inputs: [square], from: [x], rows: [R]}
cost: {bytes: "8 * R * C", flops: "R * C", report: bytes}
checks: {smoke: [{R: 2, C: 8}], sweep: [{R: 3, C: 8}], edge: [{R: 1, C: 2}]}
workload_sets:
  cpu_quick: {about: test, dtype: f32, workloads: [{R: 6, C: 300}]}
)";
  const Task task = load_task(to);
  const auto python = open(task);
  BOOST_REQUIRE_MESSAGE(python, python.error().message);
  Workload shape;
  shape.dtype = Dtype::f32;
  shape.values = {{"R", 5}, {"C", 33}};
  const Inputs inputs = make_inputs(&*python, task, shape, 3);
  const auto exact =
      Oracle(*python, task, shape, 1).rows(python->exact(), inputs.view(), all_rows(RowLayout(task, shape)));
  for (std::size_t row = 0; row < 5; ++row) {
    double sum = 0.0;
    for (std::size_t c = 0; c < 33; ++c) sum += std::pow(inputs.values[0][row * 33 + c], 2) / 33;
    BOOST_TEST(inputs.values[2][row] == sum, boost::test_tools::tolerance(1e-6));
    const double y = inputs.values[0][row * 33] * inputs.values[1][0] / std::sqrt(inputs.values[2][row]);
    BOOST_TEST(exact[row * 33] == y, boost::test_tools::tolerance(1e-12));
  }
}

// What is wrong is said with the line, and the next question is answered by another process.
BOOST_AUTO_TEST_CASE(a_process_that_ends_is_replaced) {
  const Task other =
      task("softmax",
           "import os, torch\n\n\ndef compute(x):\n    if x.shape[0] == 5:\n        os._exit(7)\n"
           "    if x.shape[0] == 6:\n        raise ValueError('six rows')\n    print('a line')\n"
           "    return torch.softmax(x, -1)\n");
  const auto python = open(other);
  BOOST_REQUIRE_MESSAGE(python, python.error().message);
  const auto answer = [&](double rows) {
    Workload shape;
    shape.dtype = Dtype::f32;
    shape.values = {{"R", rows}, {"C", 8}};
    const Inputs inputs = make_inputs(nullptr, other, shape, 3);
    try {
      const auto values = Oracle(*python, other, shape, 1)
                              .rows(python->exact(), inputs.view(), all_rows(RowLayout(other, shape)));
      return std::string("right ") + std::to_string(values.size());
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
  };
  BOOST_TEST(answer(4) == "right 32");
  BOOST_TEST(contains(answer(5), "reference.py ended its process: it exited with 7"));
  BOOST_TEST(answer(4) == "right 32");
  BOOST_TEST(contains(answer(6), "reference.py:8: ValueError: six rows"));
  BOOST_TEST(answer(4) == "right 32");
}

BOOST_AUTO_TEST_CASE(a_file_that_harms_is_refused) {
  const fs::path outside = folder / "outside";
  const std::pair<std::string, std::string> files[] = {
      {"import nothing_of_this_name\n", "ModuleNotFoundError"},
      {"x = (\n", "reference.py:1"},
      {"compute = 3\n", "does not define compute"},
      {"raise SystemExit(0)\n", "SystemExit"},
      {"open(__file__, 'a').write('x')\n", "Error"},
      {"open('" + outside.string() + "', 'w').write('x')\n", ""},
      {"import socket\nsocket.create_connection(('192.0.2.1', 80), 2)\n", "Error"},
      {"import torch\ntorch.empty(1 << 40).fill_(1)\n", "Error"},
  };
  for (const auto& [source, said] : files) {
    const auto python = open(task("softmax", source));
    BOOST_REQUIRE_MESSAGE(!python, source);
    BOOST_TEST(contains(python.error().message, said), source << ": " << python.error().message);
  }
  BOOST_TEST(!fs::exists(outside));
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 30 s, evaluators/contenders
// PyTorch and a task's own Python program beside a kernel, on the command line. Skipped if no Python has
// PyTorch.
#include <boost/test/unit_test.hpp>

#include "support/contains.hpp"
#include "support/own_task.hpp"
#include "support/pytorch.hpp"

using namespace cultivar::testing;

BOOST_AUTO_TEST_SUITE(pytorch_contender, *boost::unit_test::precondition(pytorch_is_here))

BOOST_AUTO_TEST_CASE(evaluate_times_pytorch_and_a_program_of_the_task_and_says_how_exact_they_are) {
  TemporaryFolder folder;
  copy_task("softmax", folder / "own_softmax", "      - {R: 6000, C: 1500}\n");
  std::filesystem::create_directories(folder / "own_softmax/contenders");
  write_text(folder / "own_softmax/contenders/in_place.py",
             "import torch\n"
             "def prepare(workload, tensors):\n"
             "    if workload.R == 5:\n"
             "        raise NotImplementedError('not five rows')\n"
             "    def softmax(t, way):\n"
             "        return torch.softmax(t['x'], 1, out=t['y']) if way else t.no_such_thing\n"
             "    best = workload.fastest(lambda *way: softmax(tensors, *way), [(0,), (1,)])\n"
             "    assert best == (1,)\n"
             "    def launch(t):\n"
             "        softmax(t, *best)\n"
             "    return launch\n");
  write_text(folder / "own_softmax/contenders/absent_package.py", "import absent_package\n");
  const auto result = cultivar_in(
      folder.path(), {"evaluate", "own_softmax", "naive", "--contender", "torch", "--contender", "in_place",
                      "--contender", "absent_package", "--python", python_with_torch(), "--json"});
  BOOST_TEST_INFO(result.err);
  BOOST_TEST(result.exit == 1);  // because of absent_package alone
  const auto one = facts(result)[0];
  BOOST_TEST(one["verdict"] == "measured");
  BOOST_REQUIRE(one["workloads"].size() == 1U);
  for (const char* name : {"torch", "in_place"}) {
    BOOST_TEST_INFO(name << ": " << one["diagnostics"]);
    BOOST_TEST(one["workloads"][0]["ratios"].contains(name));
    BOOST_TEST(one["exactness"][0]["contenders"].contains(name));
  }
  BOOST_TEST(contains(one["diagnostics"].get<std::string>(),
                      "absent_package.py needs the package absent_package, which"),
             one["diagnostics"]);
  BOOST_TEST(one["exactness"][0]["distribution"] == "ordinary");
  BOOST_TEST(one["exactness"][0]["error"]["rms"].get<double>() > 0.0);

  const auto absent = cultivar_in(folder.path(), {"evaluate", "own_softmax", "naive", "--contender", "torch",
                                                  "--python", "/no/such/python3"});
  BOOST_TEST(absent.exit == 1);
  BOOST_TEST(contains(absent.out, "the interpreter '/no/such/python3' cannot be started"), absent.out);

  std::filesystem::remove(folder / "own_softmax/pytorch.py");
  const auto nothing =
      cultivar_in(folder.path(), {"evaluate", "own_softmax", "naive", "--contender", "torch"});
  BOOST_TEST(nothing.exit == 2);
  BOOST_TEST(contains(nothing.err, "computes with compute() of the task's pytorch.py, but there is no "),
             nothing.err);
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-License-Identifier: Apache-2.0
// Contenders that are Python programs, hosted in this process as in a worker, with a real PyTorch: its own
// computation of a task, and programs that are right, wrong or fail. Skipped if no Python has PyTorch.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>

#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/contenders/library.hpp"
#include "evaluators/devices/cpu/session.hpp"
#include "support/contains.hpp"
#include "support/pytorch.hpp"
#include "support/words.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

const Task& softmax() {
  static const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  return task;
}

struct Programs {
  TemporaryFolder folder;
  ContenderSettings settings{.python = python_with_torch(), .prepare_s = 120.0};

  static Workload shape(Dtype dtype) {
    Workload w;
    w.name = "w";
    w.dtype = dtype;
    w.values = {{"R", 3}, {"C", 4}};
    return w;
  }
  ContenderFile file(const std::string& text) {
    const fs::path programs = CULTIVAR_BIN_DIR;
    return find_contender_library(text, folder.path(), programs, {});
  }
  ContenderFile program(const std::string& body) {
    static int count = 0;
    const std::string name = "program" + std::to_string(++count) + ".py";
    write_text(folder / name, body);
    return file(name);
  }
  // "" if three runs compute the softmax of a row 0, 1, 2, 3.
  std::string run(const ContenderFile& contender, Dtype dtype = Dtype::f32) {
    auto session =
        HostContenderSession::open(contender, settings, softmax(), shape(dtype), 2, target_named("cpu"));
    if (!session) return std::string(name_of(session.error().kind)) + ": " + session.error().detail;
    std::vector<double> values(12), got(12);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 4);
    std::vector<std::vector<std::byte>> inputs(1), outputs(1);
    inputs[0].resize(12 * size_of(dtype));
    encode(dtype, values, inputs[0]);
    for (int i = 0; i < 3; ++i) {
      RunOptions options;
      options.timed = i == 1;
      options.poison_seed = static_cast<std::uint64_t>(i) + 5;
      const auto ran = (*session)->run(inputs, outputs, options);
      if (!ran) return std::string(name_of(ran.error().kind)) + ": " + ran.error().detail;
      if ((*session)->unwritten_elements() > 0) return "unwritten";
      decode(dtype, outputs[0], got);
      const double allowed = std::max(epsilon_of(dtype), 1e-6);
      if (std::abs(got[8] - 0.0320586) > allowed || std::abs(got[11] - 0.6439143) > allowed) return "wrong";
    }
    return "";
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(python, Programs, *boost::unit_test::precondition(pytorch_is_here))

BOOST_AUTO_TEST_CASE(pytorch_can_be_loaded_before_a_workload_is_prepared) {
  const Workload w = shape(Dtype::f32);
  const ContenderFile torch = file("torch");
  const auto loaded = [&] { return ContenderLibrary::load(torch.library, softmax(), target_named("cpu")); };
  const auto library = loaded();
  BOOST_REQUIRE_MESSAGE(library, words(library));
  BOOST_TEST(!contains(library->version(), "PyTorch"), library->version());
  library->warm_up({softmax(), w, {}, 2, nullptr, "torch", settings});
  BOOST_TEST(contains(loaded()->version(), "PyTorch"), loaded()->version());
}

// By torch.compile: as long as its programs are compiled, and only if there are others.
BOOST_AUTO_TEST_CASE(others_have_the_device_while_a_program_is_compiled) {
  const Workload w = shape(Dtype::f32);
  const ContenderFile file_of_it = file("torch_compile");
  const auto library = ContenderLibrary::load(file_of_it.library, softmax(), target_named("cpu"));
  BOOST_REQUIRE_MESSAGE(library, words(library));
  alignas(64) float x[12] = {}, y[12] = {};
  void* tensors[] = {x, y};
  for (const bool shared : {true, false, true}) {
    std::vector<bool> calls;
    ContenderSite site{softmax(), w, tensors, 2, nullptr, file_of_it.program, settings};
    if (shared) site.share = [&](bool others) { calls.push_back(others); };
    auto prepared = PreparedContender::prepare(*library, site);
    BOOST_REQUIRE_MESSAGE(prepared, words(prepared));
    std::fill_n(x, 12, 1.0f);  // prepare has written to it
    BOOST_TEST_REQUIRE((*prepared)->launch(tensors, nullptr, 60.0).has_value());
    BOOST_TEST_REQUIRE((*prepared)->results(tensors).has_value());
    BOOST_TEST(y[5] == 0.25f);
    if (!shared) {
      BOOST_TEST(calls.empty());
      continue;
    }
    static int compiled = 0;
    // The second program is the first one again; the last call is Cultivar's own.
    const std::vector<bool> wanted =
        compiled++ == 0 ? std::vector<bool>{true, false, false} : std::vector<bool>{false};
    BOOST_TEST(calls == wanted, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(pytorch_computes_a_task_in_every_type) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f64}) BOOST_TEST(run(file("torch"), dtype) == "");
}

BOOST_AUTO_TEST_CASE(a_program_may_return_the_outputs_or_write_them) {
  BOOST_TEST(
      run(program("import torch\n"
                  "def prepare(workload, tensors):\n"
                  "    assert workload.R == workload['C'] - 1 == 3 and workload.dtype == torch.float32\n"
                  "    assert workload.threads == 2 and workload.target == 'cpu'\n"
                  "    assert list(tensors) == ['x', 'y'] and tensors['x'].shape == (3, 4)\n"
                  "    def launch(tensors):\n"
                  "        return torch.softmax(tensors['x'], 1)\n"
                  "    return launch\n")) == "");
  BOOST_TEST(run(program("import torch\n"
                         "def prepare(workload, tensors):\n"
                         "    return lambda t: t['y'].copy_(torch.softmax(t['x'], 1)) and None\n")) ==
             "contender_failed: " + (folder / "program2.py").string() +
                 ":3: RuntimeError: Boolean value of Tensor with more than one value is ambiguous");
  BOOST_TEST(run(program("import torch\n"
                         "def prepare(workload, tensors):\n"
                         "    def launch(t):\n"
                         "        torch.softmax(t['x'], 1, out=t['y'])\n"
                         "    return launch\n")) == "");
}

BOOST_AUTO_TEST_CASE(returned_outputs_are_copied_by_results_not_by_the_launch) {
  const Workload w = shape(Dtype::f32);
  const ContenderFile torch = file("torch");
  const auto library = ContenderLibrary::load(torch.library, softmax(), target_named("cpu"));
  BOOST_REQUIRE_MESSAGE(library, words(library));
  alignas(64) float x[12], y[12];
  void* tensors[] = {x, y};
  auto prepared =
      PreparedContender::prepare(*library, {softmax(), w, tensors, 2, nullptr, "torch", settings});
  BOOST_REQUIRE_MESSAGE(prepared, words(prepared));
  std::fill_n(x, 12, 1.0f);
  std::fill_n(y, 12, 7.0f);
  BOOST_TEST_REQUIRE((*prepared)->launch(tensors, nullptr, 10.0).has_value());
  BOOST_TEST(y[0] == 7.0f);
  BOOST_TEST_REQUIRE((*prepared)->results(tensors).has_value());
  BOOST_TEST(y[0] == 0.25f);
  BOOST_TEST(y[11] == 0.25f);
}

BOOST_AUTO_TEST_CASE(a_program_that_fails_is_named_with_the_line_and_the_reason) {
  const auto said = [&](const std::string& body) { return run(program(body)); };
  const std::string raised = said("def prepare(workload, tensors):\n    raise ValueError('no luck today')\n");
  BOOST_TEST(contains(raised, ".py:2: ValueError: no luck today"), raised);
  BOOST_TEST(said("def prepare(workload, tensors):\n    raise NotImplementedError('4096 columns alone')\n") ==
             "unsupported: 4096 columns alone");
  BOOST_TEST(contains(said("import no_such_package\n"), "needs the package no_such_package, which"));
  BOOST_TEST(contains(said("def launch(t): pass\n"), "load_failed: "));
  BOOST_TEST(contains(said("def prepare(w, t): return 3\n"), "prepare returned int"));
  BOOST_TEST(contains(said("def prepare(w, t): return lambda t: (t['x'], t['x'])\n"),
                      "the program returned 2 tensors, but the task has 1 outputs"));
  const std::string shape = said("def prepare(w, t): return lambda t: t['x'].double()\n");
  BOOST_TEST(contains(shape, "returned y as torch.float64 of shape (3, 4), but the task has torch.float32"),
             shape);
  BOOST_TEST(said("def prepare(w, t): return lambda t: t['x'] * 1\n") == "wrong");
  BOOST_TEST(contains(said("import sys\ndef prepare(w, t): sys.exit('bye')\n"), "SystemExit: bye"));
}

BOOST_AUTO_TEST_SUITE_END()

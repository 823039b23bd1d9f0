// SPDX-License-Identifier: Apache-2.0
// The real workers behind the search's interface, with more devices configured than exist.
#include <boost/test/unit_test.hpp>

#include "engine/search/evaluator.hpp"
#include "engine/search/search.hpp"

using namespace cultivar;

namespace {

std::unique_ptr<Evaluator> evaluator(const std::vector<int>& devices) {
  Config config;
  config.evaluation.devices = devices;
  config.evaluation.compile_workers = 1;
  Runtime runtime;
  runtime.programs = CULTIVAR_BIN_DIR;
  runtime.cache = std::string(CULTIVAR_BIN_DIR) + "/../cache/tests";
  return make_worker_evaluator(config, std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax", runtime);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(worker_evaluator)

BOOST_AUTO_TEST_CASE(a_device_that_does_not_respond_is_skipped_with_a_message_and_the_others_continue) {
  const auto workers = evaluator({1, 0});
  const auto devices = workers->devices();
  BOOST_REQUIRE_MESSAGE(devices, (devices ? "" : devices.error().message));
  BOOST_TEST(devices->size() == 1U);
  BOOST_REQUIRE(workers->left_out().size() == 1U);
  BOOST_TEST(workers->left_out().front().find(
                 "device 1 is left out of this search: the cpu target has one device") != std::string::npos,
             workers->left_out().front());
  BOOST_TEST(!workers->compiler_identity().empty());
  // The remaining devices are numbered from 0: this is the one that responded.
  const auto answered = workers->evaluate(0, EvaluateRequest{}, [](const std::string&) {});
  BOOST_TEST((!answered || !answered->worker_lost));
}

BOOST_AUTO_TEST_CASE(when_no_device_answers_that_is_an_error_with_the_first_ones_words) {
  const auto devices = evaluator({3, 2})->devices();
  BOOST_REQUIRE(!devices);
  BOOST_TEST((devices.error().kind == ErrorKind::missing));
  BOOST_TEST(devices.error().message.find("one device") != std::string::npos, devices.error().message);
}

BOOST_AUTO_TEST_SUITE_END()

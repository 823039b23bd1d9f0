// SPDX-License-Identifier: Apache-2.0
// A worker driven directly through its protocol.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "evaluators/system/frame.hpp"
#include "evaluators/system/process.hpp"

using namespace cultivar;
using nlohmann::json;

BOOST_AUTO_TEST_SUITE(serve)

BOOST_AUTO_TEST_CASE(a_frame_that_is_no_request_is_answered_with_what_is_wrong) {
  ProcessOptions options;
  options.command = {std::string(CULTIVAR_BIN_DIR) + "/cultivar-worker-cpu", "compile"};
  auto child = ChildProcess::spawn(options);
  BOOST_REQUIRE(child);
  FrameStream frames(child->output(), child->input());
  const auto heard = [&] { return frames.read(deadline_in(30.0)); };
  BOOST_REQUIRE(heard());  // hello
  for (const json& odd : {json::array({1, 2}), json("text"), json(nullptr), json(7), json{{"request", 3}},
                          json{{"no", "request"}}}) {
    BOOST_REQUIRE(frames.write(odd, deadline_in(5.0)));
    const auto answer = heard();
    BOOST_REQUIRE_MESSAGE(answer, odd.dump());
    BOOST_TEST((*answer)["trouble"]["doing"] == "protocol", odd.dump());
    BOOST_TEST((*answer)["trouble"]["message"].get<std::string>().find("received a malformed request") !=
               std::string::npos);
  }
  BOOST_REQUIRE(frames.write({{"request", "shutdown"}}, deadline_in(5.0)));
  BOOST_REQUIRE(child->wait_or_kill(deadline_in(10.0)));
  BOOST_TEST(child->poll()->success());
}

BOOST_AUTO_TEST_SUITE_END()

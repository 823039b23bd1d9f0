// SPDX-License-Identifier: Apache-2.0
// Notifications to real programs and to a real HTTP server that fails.
#include "engine/notify/notifier.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <thread>

#include "evaluators/system/clock.hpp"
#include "support/chat_server.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

NotifyChannel hook(const ChatServer& server, std::set<Occasion> on = all_occasions()) {
  NotifyChannel channel;
  channel.webhook = server.url() + "/hook";
  channel.on = std::move(on);
  return channel;
}

DeliveryPolicy quick() {
  DeliveryPolicy policy;
  policy.first_wait_s = policy.longest_wait_s = 0.05;
  policy.attempt_s = 1.0;
  policy.farewell_s = 5.0;
  return policy;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(notifier, TemporaryFolder)

BOOST_AUTO_TEST_CASE(a_webhook_gets_json_and_only_what_it_asked_for) {
  ChatServer server([](const SeenRequest&) { return status_reply(204, ""); });
  {
    Notifier notifier({hook(server, {Occasion::best})}, quick());
    BOOST_TEST(notifier.wants(Occasion::best));
    BOOST_TEST(!notifier.wants(Occasion::end));
    notifier.tell(Occasion::end, {{"text", "no"}});
    notifier.tell(Occasion::best, {{"text", "#7 at 12 GFLOPS"}});
  }
  const auto seen = server.seen();
  BOOST_REQUIRE(seen.size() == 1);
  BOOST_TEST(seen[0].path.ends_with("/hook"));
  BOOST_TEST(seen[0].headers.at("content-type") == "application/json");
  BOOST_TEST(seen[0].body["event"] == "best");
  BOOST_TEST(seen[0].body["text"] == "#7 at 12 GFLOPS");
}

BOOST_AUTO_TEST_CASE(faults_that_pass_are_retried_and_each_notification_arrives_once) {
  ChatServer server([](const SeenRequest& request) {
    switch (request.number) {
      case 1:
        return status_reply(503, "busy");
      case 2:
        return status_reply(200, "cut").cut_after(5).reset();
      case 3:
        return Reply().stall();  // until the deadline of the attempt
      default:
        return status_reply(200, "ok");
    }
  });
  {
    Notifier notifier({hook(server)}, quick());
    notifier.tell(Occasion::trouble, {{"text", "first"}});
    notifier.tell(Occasion::end, {{"text", "second"}});
  }
  const auto seen = server.seen();
  BOOST_REQUIRE(seen.size() == 5);
  for (int i = 0; i < 4; ++i) BOOST_TEST(seen[i].body["text"] == "first");
  BOOST_TEST(seen[4].body["text"] == "second");
}

BOOST_AUTO_TEST_CASE(a_refusal_is_told_and_not_repeated) {
  ChatServer server([](const SeenRequest&) { return status_reply(404, "gone"); });
  Notifier notifier({hook(server)}, quick());
  notifier.tell(Occasion::best, {{"text", "x"}});
  std::vector<std::string> troubles;
  for (int i = 0; i < 100 && troubles.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    troubles = notifier.troubles();
  }
  BOOST_REQUIRE(troubles.size() == 1);
  BOOST_TEST(contains(troubles[0], "HTTP status 404"), troubles[0]);
  BOOST_TEST(server.seen().size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_receiver_that_never_answers_blocks_nobody_and_the_queue_is_bounded) {
  ChatServer server([](const SeenRequest&) { return Reply().stall(); });
  DeliveryPolicy policy = quick();
  policy.attempt_s = 30.0;
  policy.farewell_s = 0.5;
  policy.queue = 4;
  const auto begun = Clock::now();
  {
    Notifier notifier({hook(server), hook(server)}, policy);
    for (int i = 0; i < 1000; ++i) notifier.tell(Occasion::trouble, {{"text", std::to_string(i)}});
    BOOST_TEST(seconds_since(begun) < 2.0);
  }
  BOOST_TEST(seconds_since(begun) < 8.0);  // one farewell for both, not the attempts' deadlines
  BOOST_TEST(server.seen().size() <= 2U);
}

BOOST_AUTO_TEST_CASE(what_was_left_out_of_a_full_queue_is_counted) {
  ChatServer server([](const SeenRequest& request) {
    Reply reply;
    return reply.then("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", request.number == 1 ? 0.5 : 0.0);
  });
  {
    DeliveryPolicy policy = quick();
    policy.queue = 2;
    policy.attempt_s = 5.0;
    Notifier notifier({hook(server)}, policy);
    notifier.tell(Occasion::trouble, {{"text", "0"}});
    for (int i = 0; i < 100 && server.seen().empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    for (int i = 1; i <= 6; ++i) notifier.tell(Occasion::trouble, {{"text", std::to_string(i)}});
  }
  const auto seen = server.seen();
  BOOST_REQUIRE(seen.size() == 3);
  BOOST_TEST(seen[1].body["text"] == "5");
  BOOST_TEST(seen[1].body["left_out"] == 4);
  BOOST_TEST(seen[2].body["text"] == "6");
}

BOOST_AUTO_TEST_CASE(a_command_gets_json_on_stdin_and_its_failure_is_told) {
  const auto file = path() / "told.json";
  write_text(path() / "tell.sh", "#!/bin/sh\ncat > " + file.string() + "\n", true);
  NotifyChannel good, bad;
  good.command = {(path() / "tell.sh").string()};
  bad.command = {"sh", "-c", "echo it is closed >&2; exit 3"};
  std::vector<std::string> troubles;
  {
    DeliveryPolicy policy = quick();
    policy.attempts = 2;
    policy.attempt_s = 10.0;
    Notifier notifier({good, bad}, policy);
    notifier.tell(Occasion::end, {{"text", std::string(5000, 'x')}});
    for (int i = 0; i < 200 && troubles.empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      troubles = notifier.troubles();
    }
  }
  BOOST_TEST(nlohmann::json::parse(read_text(file))["event"] == "end");
  BOOST_REQUIRE(troubles.size() == 1);
  BOOST_TEST(contains(troubles[0], "it is closed"), troubles[0]);
  BOOST_TEST(contains(troubles[0], "2 attempts"), troubles[0]);
}

BOOST_AUTO_TEST_CASE(what_the_farewell_cannot_deliver_is_told_and_what_it_delivers_is_not) {
  ChatServer silent([](const SeenRequest&) { return Reply().stall(); });
  ChatServer good([](const SeenRequest&) { return status_reply(200, "ok"); });
  DeliveryPolicy policy = quick();
  policy.attempt_s = 30.0;
  policy.farewell_s = 0.5;
  Notifier notifier({hook(silent), hook(good)}, policy);
  for (const char* text : {"1", "2", "3"}) notifier.tell(Occasion::end, {{"text", text}});
  const std::vector<std::string> troubles = notifier.farewell();
  BOOST_REQUIRE(troubles.size() == 2U);
  BOOST_TEST(contains(troubles[0], "in 1 attempt before the search ended: it did not answer in time"),
             troubles[0]);
  BOOST_TEST(contains(troubles[1], "2 notifications were not delivered by "), troubles[1]);
  BOOST_TEST(good.seen().size() == 3U);
  BOOST_TEST(notifier.farewell().empty());
}

BOOST_AUTO_TEST_CASE(a_webhook_whose_variable_is_not_set_is_told_at_once) {
  NotifyChannel channel;
  channel.webhook_env = "CULTIVAR_TEST_UNSET";
  Notifier notifier({channel}, quick());
  const std::vector<std::string> troubles = notifier.troubles();
  BOOST_REQUIRE(troubles.size() == 1U);
  BOOST_TEST(contains(troubles[0], "the environment variable CULTIVAR_TEST_UNSET is not set"), troubles[0]);
}

BOOST_AUTO_TEST_SUITE_END()

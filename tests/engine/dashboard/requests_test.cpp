// SPDX-License-Identifier: Apache-2.0
// Who may read the dashboard, and what its handlers do with anything that is sent.
#include "engine/dashboard/requests.hpp"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>
#include <thread>

#include "engine/dashboard/dashboard.hpp"
#include "engine/dashboard/server.hpp"
#include "support/command.hpp"
#include "support/request_fuzzer.hpp"
#include "support/synthetic_run.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

PageRequest get(const std::string& target, const std::string& host = "127.0.0.1:8321") {
  PageRequest request;
  request.method = "GET";
  request.target = target;
  request.host = host;
  return request;
}

int status_of(const PageRequest& request, const AccessRules& rules = rules_of_loopback()) {
  const auto refused = refusal(request, rules);
  return refused ? refused->status : 200;
}

std::string header(const PageResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return {};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(requests)

BOOST_AUTO_TEST_CASE(only_reading_is_answered) {
  BOOST_TEST(status_of(get("/")) == 200);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "get", ""}) {
    PageRequest request = get("/");
    request.method = method;
    BOOST_TEST(status_of(request) == 405, method);
  }
}

BOOST_AUTO_TEST_CASE(a_name_that_another_site_has_pointed_here_is_refused) {
  for (const char* host : {"127.0.0.1", "localhost:8321", "LOCALHOST", "[::1]:8321", "localhost."})
    BOOST_TEST(status_of(get("/", host)) == 200, host);
  for (const char* host : {"", "evil.example", "127.0.0.1.evil.example", "localhost:80:80", "[::1", "::1",
                           "127.0.0.1:x", "a@localhost", "localhost/"})
    BOOST_TEST(status_of(get("/", host)) == 421, host);
}

BOOST_AUTO_TEST_CASE(a_header_that_stands_there_twice_is_refused) {
  PageRequest request = get("/api/state");
  request.repeated = true;
  BOOST_TEST(status_of(request) == 400);
}

BOOST_AUTO_TEST_CASE(another_site_may_link_to_the_page_but_not_read_it) {
  PageRequest linked = get("/");
  linked.fetch_site = "cross-site";
  BOOST_TEST(status_of(linked) == 200);
  linked.target = "/api/state";
  BOOST_TEST(status_of(linked) == 403);
  PageRequest read = get("/api/state");
  for (const char* origin :
       {"http://evil.example", "null", "http://127.0.0.1:9999", "http://127.0.0.1:8321.evil.example"}) {
    read.origin = origin;
    BOOST_TEST(status_of(read) == 403, origin);
  }
  read.origin = "http://127.0.0.1:8321";
  BOOST_TEST(status_of(read) == 200);
}

BOOST_AUTO_TEST_CASE(with_a_token_nothing_is_said_without_it) {
  AccessRules rules = rules_of_loopback();
  rules.token = "0123456789abcdef";
  for (const char* target : {"/", "/app.js", "/api/state", "/events?run=a",
                             "/?token=", "/?token=0123456789abcdeg", "/?token=0123456789abcdef0"})
    BOOST_TEST(status_of(get(target), rules) == 401, target);
  const auto right = refusal(get("/?token=0123456789abcdef"), rules);
  BOOST_REQUIRE(right);
  BOOST_TEST(right->status == 303);
  BOOST_TEST(header(*right, "Location") == "/");
  BOOST_TEST(header(*right, "Set-Cookie").find("HttpOnly; SameSite=Strict") != std::string::npos);
  PageRequest known = get("/api/state");
  known.cookie = "x=1; cultivar_token_8321=0123456789abcdef";
  BOOST_TEST(status_of(known, rules) == 200);
  known.cookie = "x=1; cultivar_token_8321=0123456789abcdefx; not_cultivar_token_8321=0123456789abcdef";
  BOOST_TEST(status_of(known, rules) == 401);
  known.cookie.clear();
  known.authorization = "Bearer 0123456789abcdef";
  BOOST_TEST(status_of(known, rules) == 200);
}

BOOST_AUTO_TEST_CASE(dashboards_on_other_ports_of_a_machine_leave_each_others_cookies_alone) {
  const auto cookie = [](const std::string& host, const std::string& token) {
    AccessRules rules = rules_of_loopback();
    rules.token = token;
    const auto right = refusal(get("/?token=" + token, host), rules);
    BOOST_REQUIRE(right);
    const std::string set = header(*right, "Set-Cookie"), pair = set.substr(0, set.find(';'));
    PageRequest known = get("/api/state", host);
    known.cookie = pair;
    BOOST_TEST(status_of(known, rules) == 200, host);
    return pair.substr(0, pair.find('='));
  };
  std::set<std::string> names;
  for (const char* host : {"localhost", "localhost:8321", "localhost:8322"})
    names.insert(cookie(host, "abc"));
  BOOST_TEST(names.size() == 3U);
  BOOST_TEST(cookie("[::1]:8321", "abc") == cookie("127.0.0.1:8321", "abc"));
  BOOST_TEST(cookie("[::1]", "abc") == cookie("localhost", "abc"));
}

BOOST_AUTO_TEST_CASE(no_target_leads_out_of_the_pages) {
  for (const char* target : {"", "x", "/../run.db", "/a/../b", "//etc/passwd", "/%2e%2e/run.db", "/run%2fdb",
                             "/a b", "/a\\b", "http://a/", "*", "/?a=%", "/?a=%4", "/?a=%zz", "/?%=1"})
    BOOST_TEST(!parsed_target(target).has_value(), target);
  const auto target = parsed_target("/api/table?text=a%20b+c%3C&from=12&count=9999&from=7&empty");
  BOOST_REQUIRE(target);
  BOOST_TEST(target->path == "/api/table");
  BOOST_TEST(target->value("text") == "a b c<");
  BOOST_TEST(target->number("from", 0, 1000) == 12U);
  BOOST_TEST(target->number("count", 0, 500) == 500U);
  BOOST_TEST(target->number("text", 3, 500) == 3U);
  BOOST_TEST(target->number("absent", 4, 500) == 4U);
  BOOST_TEST(target->value("empty").empty());
}

// A second of what bench-dashboard-fuzz sends for ten minutes.
BOOST_AUTO_TEST_CASE(whatever_is_asked_the_answer_is_text_and_for_who_may_read) {
  TemporaryFolder folder;
  SyntheticRun run;
  run.individuals = 30;
  run.hostile = true;
  write_synthetic_run(folder / "run", run);
  Dashboard dashboard({folder / "run"}, {});
  AccessRules rules = rules_of_loopback();
  for (const char* token : {"", "0123456789abcdef"}) {
    rules.token = token;
    RequestFuzzer fuzzer(11, token);
    std::map<int, int> statuses;
    for (int i = 0; i < 2000; ++i) {
      const PageRequest request = fuzzer.request();
      const Answered said = answered(dashboard, request, rules);
      BOOST_REQUIRE_MESSAGE(said.wrong.empty(),
                            said.wrong << ": " << request.method << " " << request.target);
      ++statuses[said.status];
    }
    BOOST_TEST(statuses[200] > 700);
    BOOST_TEST(statuses[400] > 50);
    BOOST_TEST(statuses[405] > 20);
    BOOST_TEST(statuses[421] > 20);
    BOOST_TEST((statuses[401] > 50) == !rules.token.empty());
  }
}

BOOST_AUTO_TEST_CASE(a_server_answers_after_whatever_was_sent) {
  TemporaryFolder folder;
  SyntheticRun run;
  run.individuals = 30;
  write_synthetic_run(folder / "run", run);
  Dashboard dashboard({folder / "run"}, {});
  auto server = DashboardServer::listen({"127.0.0.1", 0, rules_of_loopback()}, dashboard);
  BOOST_REQUIRE(server);
  std::atomic<bool> stop{false};
  std::thread serving([&] { (*server)->serve(stop); });
  RequestFuzzer fuzzer(5, "");
  for (int i = 0; i < 60; ++i) (void)said_to((*server)->port(), fuzzer.bytes());
  const std::string right = "GET /api/state HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  BOOST_TEST(said_to((*server)->port(), right, 60.0).starts_with("HTTP/1.1 200"));
  stop = true;
  serving.join();
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-License-Identifier: Apache-2.0
// Who may read the dashboard, and what its handlers do with anything that is sent.
#include "engine/dashboard/requests.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

#include "engine/dashboard/dashboard.hpp"
#include "support/command.hpp"
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
  known.cookie = "x=1; cultivar_token=0123456789abcdef";
  BOOST_TEST(status_of(known, rules) == 200);
  known.cookie = "x=1; cultivar_token=0123456789abcdefx; not_cultivar_token=0123456789abcdef";
  BOOST_TEST(status_of(known, rules) == 401);
  known.cookie.clear();
  known.authorization = "Bearer 0123456789abcdef";
  BOOST_TEST(status_of(known, rules) == 200);
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

// Half a second of what a fuzzer sends: pieces of real requests, changed and joined at random.
BOOST_AUTO_TEST_CASE(whatever_is_asked_the_answer_is_text_and_short) {
  TemporaryFolder folder;
  SyntheticRun run;
  run.individuals = 30;
  write_synthetic_run(folder / "run", run);
  Dashboard dashboard({folder / "run"}, {});
  static const std::vector<std::string> pieces{"/api/",
                                               "state",
                                               "table",
                                               "variant",
                                               "children",
                                               "series",
                                               "path",
                                               "events",
                                               "?",
                                               "&",
                                               "=",
                                               "run",
                                               "id",
                                               "from",
                                               "count",
                                               "text",
                                               "sort",
                                               "order",
                                               "state=rejected",
                                               "1",
                                               "-1",
                                               "99999999999999999999",
                                               "%00",
                                               "%ff",
                                               "%25",
                                               "/",
                                               "..",
                                               "'",
                                               "\"",
                                               "%27%20OR%201=1",
                                               "fitness",
                                               "island=3",
                                               "\x80",
                                               "<script>"};
  std::mt19937 random(11);
  const auto any = [&](std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random);
  };
  int answered = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string target = any(4) == 0 ? "" : "/api/" + pieces[1 + any(7)] + "?";
    for (std::size_t k = any(9); k > 0; --k) target += pieces[any(pieces.size())];
    const PageResponse response = dashboard.answer(get(target));
    BOOST_REQUIRE_MESSAGE(response.status == 200 || response.status == 400 || response.status == 404, target);
    BOOST_REQUIRE_MESSAGE(response.body.size() < 300'000U, target);
    answered += response.status == 200;
  }
  BOOST_TEST(answered > 300);
}

BOOST_AUTO_TEST_SUITE_END()

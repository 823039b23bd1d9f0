// SPDX-License-Identifier: Apache-2.0
// The protocol alone: lines in, lines out.
#include "engine/mcp/server.hpp"

#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <csignal>

#include "support/simulated_bench.hpp"

using namespace cultivar;
using namespace cultivar::testing;
using nlohmann::json;
using namespace std::chrono_literals;

namespace {

// A client at the other end of the lines.
struct Wire {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<json> lines;

  void put(const std::string& line) {
    {
      const std::lock_guard lock(mutex);  // from any thread: nothing is asserted here
      lines.push_back(line.find('\n') == std::string::npos ? json::parse(line) : json("two lines"));
    }
    changed.notify_all();
  }
  // The first that fits, taken out; waits for it.
  json next(const std::function<bool(const json&)>& fits, std::chrono::milliseconds most = 10s) {
    std::unique_lock lock(mutex);
    json found;
    changed.wait_for(lock, most, [&] {
      for (auto line = lines.begin(); line != lines.end(); ++line)
        if (fits(*line)) {
          found = *line;
          lines.erase(line);
          return true;
        }
      return false;
    });
    return found;
  }
  json answer(const json& id) {
    return next(
        [&](const json& line) { return line.is_object() && line.contains("id") && line["id"] == id; });
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return lines.size();
  }
};

struct Conversation {
  SimulatedBench bench;
  Toolbox toolbox{bench};
  Wire wire;
  McpServer server{offer(), [this](const std::string& line) { wire.put(line); }};

  McpOffer offer() {
    McpOffer offer;
    offer.version = "1.2.3";
    offer.instructions = "Improve the kernel.";
    offer.tools = toolbox.tools();
    offer.call = [this](const std::string& name, const json& arguments, std::stop_token stop,
                        std::function<void(const std::string&)> progress) {
      return toolbox.call(name, arguments, std::move(stop), std::move(progress));
    };
    offer.most_calls = 4;
    offer.heartbeat_s = 0.01;
    return offer;
  }
  void say(const json& message) { server.receive(message.dump()); }
  json ask(const json& id, const std::string& method, const json& params = json::object()) {
    say({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", params}});
    return wire.answer(id);
  }
  void begin(const std::string& version = "2025-11-25") {
    ask("begin", "initialize",
        {{"protocolVersion", version},
         {"capabilities", json::object()},
         {"clientInfo", {{"name", "test"}, {"version", "1"}}}});
    say({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}});
  }
  void start(const json& id, const std::string& tool, const json& arguments, const json& meta = nullptr) {
    json params = {{"name", tool}, {"arguments", arguments}};
    if (!meta.is_null()) params["_meta"] = meta;
    say({{"jsonrpc", "2.0"}, {"id", id}, {"method", "tools/call"}, {"params", params}});
  }
  json sleeping(int number = 0) { return {{"source", softmax_kernel("sleeps " + std::to_string(number))}}; }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(server, Conversation)

BOOST_AUTO_TEST_CASE(every_version_that_is_known_is_spoken_and_others_get_the_newest) {
  for (const char* version : {"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"}) {
    Conversation own;
    BOOST_TEST(own.ask(1, "initialize", {{"protocolVersion", version}})["result"]["protocolVersion"] ==
               version);
  }
  const json result = ask(1, "initialize", {{"protocolVersion", "2031-01-01"}})["result"];
  BOOST_TEST(result["protocolVersion"] == "2025-11-25");
  BOOST_TEST(result["serverInfo"]["name"] == "cultivar");
  BOOST_TEST(result["serverInfo"]["version"] == "1.2.3");
  BOOST_TEST(result["instructions"] == "Improve the kernel.");
  BOOST_TEST(result["capabilities"].contains("tools"));
  BOOST_TEST(ask(2, "initialize")["error"]["code"] == -32600);
}

BOOST_AUTO_TEST_CASE(nothing_but_a_ping_is_served_before_initialize) {
  BOOST_TEST(ask(1, "ping")["result"] == json::object());
  BOOST_TEST(ask(2, "tools/list")["error"]["code"] == -32600);
}

BOOST_AUTO_TEST_CASE(the_tools_are_listed_with_schemas) {
  begin();
  const json tools = ask(1, "tools/list")["result"]["tools"];
  BOOST_TEST_REQUIRE(tools.size() == 13u);
  for (const json& tool : tools) {
    BOOST_TEST(tool["inputSchema"]["type"] == "object");
    BOOST_TEST(tool["description"].get<std::string>() != "");
    BOOST_TEST(tool["annotations"]["readOnlyHint"] == (tool["name"] != "submit"));
  }
  BOOST_TEST(ask(2, "tools/list", {{"cursor", "x"}})["error"]["code"] == -32602);
}

BOOST_AUTO_TEST_CASE(what_is_no_message_is_answered_with_the_right_code) {
  const struct {
    const char* line;
    int code;
  } cases[] = {{"{", -32700},
               {"not json", -32700},
               {"\xff\xfe", -32700},
               {"7", -32600},
               {"[]", -32600},
               {R"({"id": 1, "method": "ping"})", -32600},
               {R"({"jsonrpc": "1.0", "id": 1, "method": "ping"})", -32600},
               {R"({"jsonrpc": "2.0", "id": null, "method": "ping"})", -32600},
               {R"({"jsonrpc": "2.0", "id": 1.5, "method": "ping"})", -32600},
               {R"({"jsonrpc": "2.0", "id": 1, "method": 7})", -32600},
               {R"({"jsonrpc": "2.0", "id": 1})", -32600},
               {R"({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]})", -32602},
               {R"({"jsonrpc": "2.0", "id": 1, "method": "resources/list"})", -32601}};
  for (const auto& each : cases) {
    server.receive(each.line);
    const json answer = wire.next([](const json&) { return true; });
    BOOST_TEST(answer["error"]["code"] == each.code, each.line);
  }
  server.receive("   ");
  server.receive(R"({"jsonrpc": "2.0", "method": "notifications/never_heard_of"})");
  server.receive(R"({"jsonrpc": "2.0", "id": 9, "result": {}})");
  BOOST_TEST(wire.count() == 0u);
  BOOST_TEST(ask(3, "ping")["result"] == json::object());
}

BOOST_AUTO_TEST_CASE(deep_nesting_is_refused_unread) {
  begin();
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  const std::string head =
      R"({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "check", "arguments": {"variant": )";
  for (const std::string& line : {deep, head + deep + "}}}", std::string(200'000, '{')}) {
    server.receive(line);
    BOOST_TEST(wire.next([](const json&) { return true; })["error"]["code"] == -32600);
  }
  server.receive(head + R"("]}[[\"{{[[")" + "}}}");  // brackets within text do not count
  BOOST_TEST(wire.answer(1)["result"]["isError"] == true);
}

BOOST_AUTO_TEST_CASE(a_call_answers_with_text) {
  begin();
  start(1, "list_lineage", json::object());
  const json result = wire.answer(1)["result"];
  BOOST_TEST(result["isError"] == false);
  BOOST_TEST(result["content"][0]["type"] == "text");
  BOOST_TEST(result["content"][0]["text"].get<std::string>().find("the best") != std::string::npos);
  start("two", "list_lineage", nullptr);  // arguments may be left out
  BOOST_TEST(wire.answer("two")["result"]["isError"] == false);
}

BOOST_AUTO_TEST_CASE(an_unknown_tool_is_an_error_and_bad_arguments_are_a_failed_call) {
  begin();
  BOOST_TEST(ask(1, "tools/call", {{"name", "shell"}, {"arguments", {{"command", "ls"}}}})["error"]["code"] ==
             -32602);
  BOOST_TEST(ask(2, "tools/call")["error"]["code"] == -32602);
  start(3, "check", {{"varient", "1"}});
  const json result = wire.answer(3)["result"];
  BOOST_TEST(result["isError"] == true);
  BOOST_TEST(result["content"][0]["text"].get<std::string>().find("did you mean") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(text_that_is_not_utf8_does_not_break_the_line) {
  begin();
  bench.known[0].source = softmax_kernel("\xff\xc3\x28");
  start(1, "read_variant", {{"variant", "1"}});
  BOOST_TEST(wire.answer(1)["result"]["isError"] == false);
}

BOOST_AUTO_TEST_CASE(a_ping_is_answered_during_a_benchmark) {
  begin();
  start(1, "benchmark", sleeping());
  while (bench.measuring == 0) std::this_thread::sleep_for(1ms);
  BOOST_TEST(ask(2, "ping")["result"] == json::object());
  start(3, "read_variant", {{"variant", "1"}});
  BOOST_TEST(wire.answer(3)["result"]["isError"] == false);
  BOOST_TEST(bench.measuring == 1);
}

BOOST_AUTO_TEST_CASE(a_cancelled_call_ends_and_is_not_answered) {
  begin();
  start(1, "benchmark", sleeping());
  while (bench.measuring == 0) std::this_thread::sleep_for(1ms);
  say({{"jsonrpc", "2.0"},
       {"method", "notifications/cancelled"},
       {"params", {{"requestId", 1}, {"reason", "user"}}}});
  while (!server.idle()) std::this_thread::sleep_for(1ms);
  BOOST_TEST(bench.measuring == 0);
  BOOST_TEST(wire.count() == 0u);
  // Too late, or about nothing: no harm.
  say({{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", 1}}}});
  say({{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", {{"requestId", {1, 2}}}}});
  say({{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}});
  start(1, "list_lineage", json::object());
  BOOST_TEST(wire.answer(1)["result"]["isError"] == false);
}

BOOST_AUTO_TEST_CASE(progress_rises_and_continues_while_nothing_new_happens) {
  begin();
  start(1, "benchmark", sleeping(), {{"progressToken", "p"}});
  double last = 0.0;
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(12ms);
    server.tick();
    const json told =
        wire.next([](const json& line) { return line.value("method", "") == "notifications/progress"; });
    BOOST_TEST_REQUIRE(told.is_object());
    BOOST_TEST(told["params"]["progressToken"] == "p");
    BOOST_TEST(told["params"]["progress"].get<double>() > last);
    BOOST_TEST(told["params"]["message"].get<std::string>() != "");
    last = told["params"]["progress"].get<double>();
  }
  start(2, "check", sleeping(2));  // nobody asked to be told
  server.stop_all();
  while (!server.idle()) std::this_thread::sleep_for(1ms);
}

BOOST_AUTO_TEST_CASE(calls_in_flight_are_bounded_and_an_id_is_used_once) {
  begin();
  for (int i = 1; i <= 4; ++i) start(i, "check", sleeping(i));
  start(2, "check", sleeping(2));
  BOOST_TEST(wire.answer(2)["error"]["code"] == -32600);
  start(5, "check", sleeping(5));
  BOOST_TEST(wire.answer(5)["error"]["code"] == -32000);
}

BOOST_AUTO_TEST_CASE(a_batch_is_answered_by_one_line) {
  begin("2025-03-26");
  server.receive(R"([{"jsonrpc": "2.0", "id": 1, "method": "ping"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_lineage"}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"}, 7])");
  const json answers = wire.next([](const json& line) { return line.is_array(); });
  BOOST_TEST(answers.size() == 3u);
  server.receive(R"([{"jsonrpc": "2.0", "method": "notifications/initialized"}])");
  BOOST_TEST(wire.count() == 0u);
}

BOOST_AUTO_TEST_CASE(closing_the_input_stops_what_is_in_flight_and_answers_it) {
  int in[2], out[2];
  BOOST_TEST_REQUIRE((::pipe(in) == 0 && ::pipe(out) == 0));
  const std::atomic<bool> stop{false};
  auto end = McpEnd::stopped;
  std::thread serving([&] {
    end = serve_mcp(offer(), in[0], out[1], stop, [] { std::abort(); });
    ::close(out[1]);
  });
  const auto write_line = [&](const json& message) {
    const std::string line = message.dump() + "\n";
    BOOST_TEST(::write(in[1], line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  };
  write_line({{"jsonrpc", "2.0"}, {"id", 1}, {"method", "initialize"}, {"params", json::object()}});
  write_line({{"jsonrpc", "2.0"},
              {"id", 2},
              {"method", "tools/call"},
              {"params", {{"name", "check"}, {"arguments", sleeping()}}}});
  while (bench.measuring == 0) std::this_thread::sleep_for(1ms);
  const auto begun = std::chrono::steady_clock::now();
  ::close(in[1]);
  std::string all;
  char buffer[4096];
  for (ssize_t got; (got = ::read(out[0], buffer, sizeof buffer)) > 0;)
    all.append(buffer, static_cast<std::size_t>(got));
  serving.join();
  BOOST_TEST((end == McpEnd::closed));
  BOOST_TEST((std::chrono::steady_clock::now() - begun < 5s));
  BOOST_TEST(all.find("Cancelled.") != std::string::npos);
  BOOST_TEST(bench.measuring == 0);
  ::close(in[0]);
  ::close(out[0]);
}

BOOST_AUTO_TEST_CASE(a_line_that_is_too_long_is_refused_and_the_next_is_served) {
  int in[2], out[2];
  BOOST_TEST_REQUIRE((::pipe(in) == 0 && ::pipe(out) == 0));
  const std::atomic<bool> stop{false};
  std::thread serving([&] {
    serve_mcp(offer(), in[0], out[1], stop, [] { std::abort(); });
    ::close(out[1]);
  });
  std::string bytes(kMcpLineBytes + 10, 'x');
  bytes += "\n{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\"}\r\n";
  for (std::size_t sent = 0; sent < bytes.size();)
    sent += static_cast<std::size_t>(::write(in[1], bytes.data() + sent, bytes.size() - sent));
  ::close(in[1]);
  std::string all;
  char buffer[4096];
  for (ssize_t got; (got = ::read(out[0], buffer, sizeof buffer)) > 0;)
    all.append(buffer, static_cast<std::size_t>(got));
  serving.join();
  BOOST_TEST(all.find("-32600") != std::string::npos);
  BOOST_TEST(all.find("\"id\":1") != std::string::npos);
  BOOST_TEST(all.find("-32700") == std::string::npos);  // of its rest nothing was kept
  ::close(in[0]);
  ::close(out[0]);
}

BOOST_AUTO_TEST_CASE(a_client_that_does_not_read_does_not_keep_the_server_from_ending) {
  int in[2], out[2];
  BOOST_TEST_REQUIRE((::pipe(in) == 0 && ::pipe(out) == 0));
  std::atomic<bool> stop{false};
  std::signal(SIGPIPE, SIG_IGN);
  for (int i = 0; i < 10'000; ++i) bench.known[0].source += "// line " + std::to_string(i) + "\n";
  std::thread serving([&] { serve_mcp(offer(), in[0], out[1], stop, [] { std::abort(); }); });
  std::string bytes = R"({"jsonrpc": "2.0", "id": 0, "method": "initialize"})"
                      "\n";
  for (int i = 1; i <= 40; ++i)
    bytes += json{{"jsonrpc", "2.0"}, {"id", i}, {"method", "tools/list"}}.dump() + "\n";
  BOOST_TEST(::write(in[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  std::this_thread::sleep_for(50ms);
  const auto begun = std::chrono::steady_clock::now();
  ::close(out[0]);  // it goes away without a word
  serving.join();
  BOOST_TEST((std::chrono::steady_clock::now() - begun < 5s));
  for (const int each : {in[0], in[1], out[1]}) ::close(each);
}

BOOST_AUTO_TEST_SUITE_END()

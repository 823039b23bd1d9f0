// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 80 s, engine/mcp
// A coding agent's session with the real program: kernels are compiled, run and timed on this machine's
// cores.
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <filesystem>
#include <thread>

#include "support/contains.hpp"
#include "support/mcp_client.hpp"
#include "support/own_task.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;
using nlohmann::json;

namespace {

std::string replacing(const std::string& search, const std::string& replace) {
  return "<<<<<<< SEARCH\n" + search + "\n=======\n" + replace + "\n>>>>>>> REPLACE\n";
}

const char* const kNorm = "    for (int c = 0; c < C; ++c) norm = std::hypot(norm, x[c]);";

// True if the process has ended or is a zombie waiting for its new parent.
bool ends(pid_t process) {
  for (int i = 0; i < 200; ++i) {
    const std::string stat = read_text("/proc/" + std::to_string(process) + "/stat");
    const std::size_t name = stat.rfind(") ");
    if (name == std::string::npos || stat[name + 2] == 'Z' || stat[name + 2] == 'X') return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// A small search that has ended.
struct OwnRun {
  TemporaryFolder folder;
  OwnRun() { write_own_task(folder.path(), "{evaluations: 3, wall: 15m}"); }
  void search() {
    const auto done = cultivar_in(folder.path(), {"run", "search.yaml", "--run-dir", "run"});
    BOOST_TEST_INFO(done.err);
    BOOST_TEST_REQUIRE(done.exit == 0);
  }
  std::vector<std::string> of_run() { return cultivar_command({"mcp", "--run", "run"}); }
  std::vector<std::string> of_task() {
    return cultivar_command({"mcp", "--task", "./rms_norm", "--workloads", "small"});
  }
};

// Fails with the whole text.
#define SAYS(text, part)                    \
  do {                                      \
    const std::string said = (text);        \
    BOOST_TEST(contains(said, part), said); \
  } while (false)

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mcp, OwnRun)

BOOST_AUTO_TEST_CASE(an_agent_reads_a_run_improves_a_kernel_and_submits_it) {
  search();
  const std::string before = read_text(folder / "run/run.db");
  {
    McpClient client(of_run(), folder.path());
    const json begun = client.begin();
    SAYS(begun["instructions"].get<std::string>(), "Run own: rms_norm on cpu, finished");
    BOOST_TEST(client.request("tools/list", json::object())["result"]["tools"].size() == 13u);

    SAYS(client.call("list_lineage", {{"order", "newest"}}), "seed; plain.cpp");
    const std::string best = client.call("read_variant", {{"variant", "best"}});
    SAYS(best, "Fitness");
    SAYS(best, "extern \"C\" void rms_norm");
    SAYS(client.call("read_variant", {{"variant", "../../etc/passwd"}}), "no individual");
    BOOST_TEST(client.failed);
    SAYS(client.call("read_knowledge", {{"name", "task"}}), "mean(x^2)");
    const std::string format = client.call("read_knowledge", {{"name", "variant_format"}});
    SAYS(format, "manifest");
    BOOST_TEST(format.size() < 3584u);
    SAYS(client.call("read_knowledge", {{"name", "device"}}), "num_cores");
    SAYS(client.call("read_knowledge", {{"name", "device"}}), "GB/s from memory");  // the measured peaks
    SAYS(client.call("list_lineage", {{"state", "rejected"}}), "None.");
    SAYS(client.call("diff", {{"a", "1"}, {"b", "2"}}), "+tunables:");

    // A kernel that does not compile, one that is wrong, and one that is right.
    const std::string broken =
        client.call("compile", {{"variant", "1"}, {"edit", replacing(kNorm, "    norm += nothing;")}});
    SAYS(broken, "Rejected at stage `compile`");
    SAYS(broken, "was not declared");
    const std::string wrong =
        client.call("check", {{"variant", "1"}, {"edit", replacing(kNorm, "    norm = C;")}});
    SAYS(wrong, "Rejected at stage `smoke`");
    SAYS(wrong, "y[");  // the first wrong element
    const std::string right = client.call(
        "check",
        {{"variant", "1"},
         {"edit", replacing(kNorm,
                            "    float part[8] = {};\n    int c = 0;\n    for (; c + 8 <= C; c += 8)\n"
                            "      for (int l = 0; l < 8; ++l) part[l] = std::hypot(part[l], x[c + l]);\n"
                            "    for (int l = 0; l < 8; ++l) norm = std::hypot(norm, part[l]);\n"
                            "    for (; c < C; ++c) norm = std::hypot(norm, x[c]);")}});
    SAYS(right, "d3 (rms_norm_plain)");
    SAYS(right, "Passed every check: smoke, sweep, stress, determinism, edge.");
    const std::string timed = client.call("benchmark", {{"variant", "d3"}, {"against", "1"}});
    SAYS(timed, "vs 1 (95 % interval) |");
    SAYS(timed, "the speed of 1 (95 % interval ");
    SAYS(timed, "GB/s");
    SAYS(client.call("profile", {{"variant", "d3"}}), "of this device's measured peak");
    SAYS(client.call("list_lineage", json::object()), "d3  ");
    const std::string loops = client.call("assembly", {{"variant", 1}});
    SAYS(loops, "calls hypotf");
    SAYS(loops, "call   ");
    const std::string tuned = client.call("tune", {{"variant", 2}, {"evaluations", 2}});
    SAYS(tuned, "| kernel | values | fitness | vs 2 (95 % interval) |");
    SAYS(client.call("benchmark", {{"variant", 2}, {"settings", {{{"LANES", 4}}}}, {"against", "none"}}),
         "LANES=4");
    SAYS(client.call("notes", {{"text", "hypot is the slow part"}}), "- hypot is the slow part");

    SAYS(client.call("submit", {{"variant", "d3"}, {"note", "eight norms at once"}}),
         "picks up the kernel when somebody resumes it");
    SAYS(client.call("wait", {{"variant", "d3"}}), "the search is not running");
    client.close_input();
    BOOST_TEST(client.wait(10.0) == 0);
  }
  BOOST_TEST((read_text(folder / "run/run.db") == before));  // read, and never written
  const auto resumed = cultivar_in(folder.path(), {"resume", "run", "--set", "budget.evaluations=4"});
  BOOST_TEST_INFO(resumed.err);
  BOOST_TEST(resumed.exit == 0);
  McpClient client(of_run(), folder.path());
  client.begin("2024-11-05");
  const std::string newest = client.call("list_lineage", {{"order", "newest"}});
  SAYS(newest, "submit");
  SAYS(newest, "eight norms at once");
  SAYS(newest, "; from 1; submit");
  SAYS(client.call("notes", json::object()), "- hypot is the slow part");  // of the earlier session
  SAYS(client.call("list_lineage", json::object()), "m1.d3");
  SAYS(client.call("read_variant", {{"variant", "m1.d3"}}), "std::hypot(part[l], x[c + l])");
  // The same change in other words is answered with what that one gave, before it is measured again.
  const json again{{"variant", "1"},
                   {"edit", replacing(kNorm,
                                      "    float part[8]  = {};\n    int c = 0;  // eight\n"
                                      "    for (; c + 8 <= C; c += 8)\n      for (int l = 0; l < 8; ++l)\n"
                                      "        part[l] = std::hypot(part[l], x[c + l]);\n"
                                      "    for (int l = 0; l < 8; ++l) norm = std::hypot(norm, part[l]);\n"
                                      "    for (; c < C; ++c) norm = std::hypot(norm, x[c]);")},
                   {"note", "eight parts"}};
  SAYS(client.call("submit", again), "nearly the same as one that was tried before: 4, submit of 1");
  BOOST_TEST(client.failed);
  SAYS(client.call("wait", {{"variant", 4}, {"seconds", 1}}), "4: ");
}

BOOST_AUTO_TEST_CASE(a_running_search_takes_up_what_is_submitted_beside_it) {
  write_own_task(folder.path(), "{wall: 5m}");
  RunningCommand search(cultivar_command({"run", "search.yaml", "--run-dir", "run"}),
                        {folder.path(), {}, 300.0});
  const auto best = [&] {
    const auto status = cultivar_in(folder.path(), {"status", "run", "--json"});
    return status.exit == 0 && facts(status)["best"].is_object();
  };
  for (int i = 0; i < 600 && !best(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  McpClient client(of_run(), folder.path());
  SAYS(client.begin()["instructions"].get<std::string>(), "rms_norm on cpu, running");
  SAYS(client.call("check", {{"variant", "1"}, {"up_to", "smoke"}}),
       "the search is measuring on this device");
  SAYS(client.call("submit", {{"variant", "1"},
                              {"edit", replacing("float norm = 0.0f;", "float norm = 0.0f;  // by hand")},
                              {"note", "submitted while it runs"}}),
       "picks it up within seconds");
  std::string newest;
  for (int i = 0; i < 600 && !contains(newest, "submitted while it runs"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    newest = client.call("list_lineage", {{"order", "newest"}, {"limit", 200}});
  }
  SAYS(newest, "submitted while it runs");
  search.signal(SIGINT);
  BOOST_TEST(search.wait().exit == 130);
  SAYS(client.call("list_lineage", json::object()), "stopped");
}

BOOST_AUTO_TEST_CASE(a_task_without_a_search_has_its_seeds_and_accepts_no_submissions) {
  McpClient client(of_task(), folder.path());
  SAYS(client.begin()["instructions"].get<std::string>(), "without a search");
  BOOST_TEST(client.request("tools/list", json::object())["result"]["tools"].size() == 11u);
  SAYS(client.call("list_lineage", json::object()), "blocked  not evaluated; seed; LANES=2");
  SAYS(client.call("benchmark", {{"variant", "plain"}, {"against", "none"}}), "Fitness");
  SAYS(client.call("benchmark", {{"variant", "blocked"}, {"tunables", {{"LANES", 16}}}}),
       "the speed of plain");
}

BOOST_AUTO_TEST_CASE(a_hostile_kernel_is_rejected_and_the_session_continues) {
  McpClient client(cultivar_command({"mcp", "--task", "softmax"}), folder.path());
  client.begin();
  for (const char* kernel : {"hostile/executes_a_program.cpp", "hostile/forks.cpp", "hostile/exits.cpp"}) {
    const std::string found = client.call(
        "check", {{"source", read_text(fs::path(CULTIVAR_SOURCE_DIR) / "tests/kernels" / kernel)}});
    SAYS(found, "Rejected at stage");
    BOOST_TEST(!client.failed);
  }
  SAYS(client.call("check", {{"variant", "naive"}, {"up_to", "smoke"}}), "Passed every check: smoke.");
}

BOOST_AUTO_TEST_CASE(a_ping_is_answered_during_a_benchmark_which_reports_progress_and_can_be_cancelled) {
  McpClient client(of_task(), folder.path());
  client.begin();
  const int benchmark = client.start(
      "tools/call",
      {{"name", "benchmark"}, {"arguments", {{"variant", "blocked"}}}, {"_meta", {{"progressToken", 7}}}});
  int pings = 0;
  while (client.others.empty()) {
    client.answer(client.start("ping", json::object()), 5.0);
    ++pings;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  BOOST_TEST(pings > 0);
  BOOST_TEST(client.others[0]["params"]["progressToken"] == 7);
  client.notify("notifications/cancelled", {{"requestId", benchmark}, {"reason", "changed my mind"}});
  SAYS(client.call("check", {{"variant", "plain"}, {"up_to", "smoke"}}), "Passed every check");
  for (const json& other : client.others) BOOST_TEST(!other.contains("id"), other.dump());
}

BOOST_AUTO_TEST_CASE(closing_stdin_ends_it_and_all_its_children_at_once) {
  McpClient client(of_task(), folder.path());
  client.begin();
  client.start("tools/call", {{"name", "benchmark"}, {"arguments", {{"variant", "plain"}}}});
  std::vector<pid_t> children;
  for (int i = 0; i < 2000 && children.size() < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    children = descendants(client.pid());
  }
  BOOST_TEST_REQUIRE(children.size() >= 2u);
  client.close_input();
  BOOST_TEST(client.wait(5.0) == 0);
  for (const pid_t child : children) BOOST_TEST(ends(child), "process " << child << " is left");
}

BOOST_AUTO_TEST_CASE(the_device_time_of_a_session_is_bounded) {
  std::vector<std::string> command = of_task();
  command.insert(command.end(), {"--device-time", "1s"});
  McpClient client(command, folder.path());
  client.begin();
  std::string last;
  for (int i = 0; i < 500 && !client.failed; ++i)
    last = client.call("check", {{"variant", i % 2 ? "plain" : "blocked"}});
  BOOST_TEST(client.failed);
  SAYS(last, "time");
  SAYS(client.call("read_variant", {{"variant", "plain"}}), "rms_norm_plain");
}

BOOST_AUTO_TEST_CASE(mistakes_on_the_command_line_are_explained) {
  const auto help = cultivar_in(folder.path(), {"mcp", "--help"});
  BOOST_TEST(help.exit == 0);
  SAYS(help.out, "\"mcpServers\"");
  const auto neither = cultivar_in(folder.path(), {"mcp"});
  BOOST_TEST(neither.exit == 2);
  SAYS(neither.err, "specify either --run RUN or --task TASK");
  BOOST_TEST(neither.out == "");
  BOOST_TEST(cultivar_in(folder.path(), {"mcp", "--run", "nowhere"}).exit == 2);
  SAYS(cultivar_in(folder.path(), {"mcp", "--task", "softmax", "--workloads", "cpu_holdout"}).err,
       "holdout workloads");
  SAYS(cultivar_in(folder.path(), {"mcp", "--task", "softmax", "--call-time", "soon"}).err, "duration");
  const auto closed = cultivar_in(folder.path(), {"mcp", "--task", "softmax"});  // stdin is empty
  BOOST_TEST(closed.exit == 0);
  BOOST_TEST(closed.out == "");
}

BOOST_AUTO_TEST_SUITE_END()

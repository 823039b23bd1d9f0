// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 40 s, engine/mcp
// The server with third-party clients: the official SDK and the command line of the MCP inspector. They are
// installed from npm into the build folder; if that fails, these tests are skipped.
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "support/npm_packages.hpp"
#include "support/own_task.hpp"

namespace fs = std::filesystem;
namespace utf = boost::unit_test;
using namespace cultivar::testing;

namespace {

const fs::path installed = npm_folder("mcp");

boost::test_tools::assertion_result clients_are_here(utf::test_unit_id) {
  auto sdk = npm_has("mcp", "@modelcontextprotocol/sdk", "1.32.2");
  return sdk ? npm_has("mcp", "@modelcontextprotocol/inspector", "0.15.0") : sdk;
}

struct Served {
  TemporaryFolder folder;
  std::vector<std::string> server =
      cultivar_command({"mcp", "--task", (folder / "rms_norm").string(), "--workloads", "small"});
  Served() { write_own_task(folder.path(), "{evaluations: 1}"); }

  CommandResult inspected(const std::vector<std::string>& method) {
    std::vector<std::string> command{
        "node", (installed / "node_modules/@modelcontextprotocol/inspector/cli/build/cli.js").string(),
        "--cli"};
    command.insert(command.end(), server.begin(), server.end());
    command.insert(command.end(), method.begin(), method.end());
    return run_command(command, {installed, {}, 120.0});
  }
};

bool contains(const nlohmann::json& text, const std::string& part) {
  return text.get<std::string>().find(part) != std::string::npos;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mcp_sdk, Served, *utf::precondition(clients_are_here))

BOOST_AUTO_TEST_CASE(the_official_client_lists_calls_watches_cancels_and_leaves) {
  fs::copy_file(fs::path(CULTIVAR_SOURCE_DIR) / "tests/support/mcp_sdk_client.mjs", installed / "client.mjs",
                fs::copy_options::overwrite_existing);
  std::vector<std::string> command{"node", (installed / "client.mjs").string()};
  command.insert(command.end(), server.begin(), server.end());
  const auto result = run_command(command, {installed, {}, 180.0});
  BOOST_TEST_INFO(result.err);
  BOOST_TEST_REQUIRE(result.exit == 0);
  const auto seen = facts(result);
  BOOST_TEST(seen["server"]["name"] == "cultivar");
  BOOST_TEST(contains(seen["instructions"], "rms_norm"));
  BOOST_TEST(seen["tools"].size() == 11u);
  BOOST_TEST(contains(seen["lineage"], "plain"));
  BOOST_TEST(seen["mistake"][0] == true);
  BOOST_TEST(contains(seen["mistake"][1], "did you mean 'variant'"));
  BOOST_TEST(contains(seen["unknown"], "Unknown tool"), seen["unknown"]);
  BOOST_TEST(seen["pingedBeforeChecked"] == true);
  BOOST_TEST(contains(seen["check"], "Passed every check"), seen["check"]);
  BOOST_TEST(seen["steps"].size() > 0u);
  BOOST_TEST(contains(seen["cancelled"], "enough"), seen["cancelled"]);
  BOOST_TEST(contains(seen["afterwards"], "Passed every check: smoke"), seen["afterwards"]);
  BOOST_TEST(seen["left"] == false);
}

BOOST_AUTO_TEST_CASE(the_inspector_lists_the_tools_and_calls_one) {
  const auto listed = inspected({"--method", "tools/list"});
  BOOST_TEST_INFO(listed.err);
  BOOST_TEST_REQUIRE(listed.exit == 0);
  BOOST_TEST(facts(listed)["tools"].size() == 11u);
  const auto called =
      inspected({"--method", "tools/call", "--tool-name", "compile", "--tool-arg", "variant=plain"});
  BOOST_TEST_INFO(called.err);
  BOOST_TEST_REQUIRE(called.exit == 0);
  BOOST_TEST(contains(facts(called)["content"][0]["text"], "It compiles"));
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 120 s, evaluators/variant
// A kernel and its header as user files: evaluated, profiled, submitted, recorded, exported and read again.
#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "support/contains.hpp"
#include "support/own_task.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;

namespace {

struct Headers {
  TemporaryFolder folder;
  Headers() {
    write_own_task(folder.path(), "{evaluations: 2, wall: 15m}");
    std::string source = read_text(folder / "rms_norm/seeds/blocked.cpp");
    const auto replace = [&](const std::string& from, const std::string& to) {
      const std::size_t at = source.find(from);
      BOOST_REQUIRE(at != std::string::npos);
      source.replace(at, from.size(), to);
    };
    replace("rms_norm_blocked", "rms_norm_in_two_files");
    replace("let:\n", "headers: [scale.hpp]\nlet:\n");
    replace("#include <cmath>\n", "#include \"scale.hpp\"\n");
    replace("float(1.0 / std::sqrt(sum / C + double(eps)))", "scale_of(sum, C, eps)");
    write_text(folder / "mine/kernel.cpp", source);
    write_text(folder / "mine/scale.hpp", header);
  }
  CommandResult run(std::vector<std::string> arguments) {
    return cultivar_in(folder.path(), std::move(arguments));
  }
  nlohmann::json judged(const std::string& file) {
    const auto result =
        run({"evaluate", "rms_norm", file, "--workloads", "small", "--stop-after", "smoke", "--json"});
    BOOST_TEST_INFO(result.err);
    BOOST_TEST_REQUIRE((result.exit == 0 || result.exit == 1));
    return facts(result).at(0);
  }

  const std::string header =
      "#pragma once\n#include <cmath>\n\ninline float scale_of(double sum, int C, float eps) {\n"
      "  return float(1.0 / std::sqrt(sum / C + double(eps)));\n}\n";
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(headers, Headers)

BOOST_AUTO_TEST_CASE(a_kernel_with_a_header_is_judged_profiled_and_compared) {
  const auto result =
      run({"evaluate", "rms_norm", "mine/kernel.cpp@LANES=16", "--workloads", "small", "--json"});
  BOOST_TEST_INFO(result.err);
  BOOST_TEST_REQUIRE(result.exit == 0);
  BOOST_TEST(facts(result)[0]["verdict"] == "measured", result.out);
  const auto profile =
      run({"profile", "mine/kernel.cpp@LANES=16", "--task", "rms_norm", "--against", "plain", "--json"});
  BOOST_TEST_INFO(profile.err);
  BOOST_TEST(profile.exit == 0);
  const auto compared =
      run({"compare", "rms_norm", "mine/kernel.cpp@LANES=16", "plain", "--max-seconds", "5", "--json"});
  BOOST_TEST_INFO(compared.err);
  BOOST_TEST(compared.exit == 0);
}

BOOST_AUTO_TEST_CASE(errors_in_a_header_are_reported_with_its_name_and_line) {
  write_text(folder / "mine/scale.hpp",
             "#pragma once\n\ninline float scale_of(double, int, float) { return oops; }\n");
  const auto broken = judged("mine/kernel.cpp");
  BOOST_TEST(broken["stage"] == "compile");
  BOOST_TEST(broken["reason"].get<std::string>().starts_with("scale.hpp:3:"), broken.dump());
  fs::remove(folder / "mine/scale.hpp");
  const auto missing = run({"evaluate", "rms_norm", "mine/kernel.cpp"});
  BOOST_TEST(missing.exit == 2);
  BOOST_TEST(contains(missing.err, "lists the header scale.hpp"), missing.err);
  const auto submitted = run({"submit", "own", "mine/kernel.cpp"});
  BOOST_TEST(submitted.exit == 2);
}

BOOST_AUTO_TEST_CASE(a_seed_with_a_header_that_tasks_share_is_searched_and_its_run_needs_neither_file) {
  fs::rename(folder / "mine/kernel.cpp", folder / "rms_norm/seeds/shares.cpp");
  fs::create_directory(folder / "headers");
  fs::rename(folder / "mine/scale.hpp", folder / "headers/scale.hpp");
  const auto searched = run({"run", "search.yaml", "--set", "seeds=[shares]"});
  BOOST_TEST_INFO(searched.err);
  BOOST_TEST_REQUIRE(searched.exit == 0);
  fs::copy(folder / "rms_norm/seeds/shares.cpp", folder / "copy.cpp");
  BOOST_TEST(judged("copy.cpp")["verdict"] == "passed");
  const auto profiled = run({"profile", "copy.cpp", "--json"});
  BOOST_TEST(profiled.exit == 0, profiled.err);
  // The manifest names the task of this folder.
  const auto submitted = run({"submit", "own", "copy.cpp@LANES=64"});
  BOOST_TEST(submitted.exit == 0, submitted.err);
  const auto nowhere = run({"export", "own", "--out", "/proc/none"});
  BOOST_TEST(nowhere.exit == 1);
  BOOST_TEST(contains(nowhere.err, "cannot write /proc/none: "), nowhere.err);
  fs::remove_all(folder / "headers");
  const auto missing = run({"evaluate", "rms_norm", "shares"});
  BOOST_TEST(missing.exit == 2);
  BOOST_TEST(contains(missing.err, "rms_norm/seeds/scale.hpp, "), missing.err);
  BOOST_TEST(contains(missing.err, "/headers/scale.hpp exists"), missing.err);
  fs::remove(folder / "rms_norm/seeds/shares.cpp");
  const auto resumed = run({"resume", "own", "--set", "budget.evaluations=3"});
  BOOST_TEST_INFO(resumed.err);
  BOOST_TEST_REQUIRE(resumed.exit == 0);
  BOOST_TEST_REQUIRE(run({"show", "own", "best", "--out", "files"}).exit == 0);
  BOOST_TEST(read_text(folder / "files/scale.hpp") == header);
  BOOST_TEST_REQUIRE(run({"export", "own", "--out", "bundle"}).exit == 0);
  BOOST_TEST(read_text(folder / "bundle/scale.hpp") == header);
  BOOST_TEST(run({"replay", "own", "--json"}).exit == 0);
}

BOOST_AUTO_TEST_CASE(
    a_submitted_kernel_with_a_header_is_recorded_exported_built_and_is_the_same_variant_again) {
  BOOST_TEST_REQUIRE(
      run({"run", "search.yaml", "--set", "seeds=[" + (folder / "mine/kernel.cpp").string() + "]"}).exit ==
      0);
  fs::rename(folder / "mine", folder / "moved");  // a run does not need the files that it started from
  const auto submitted = run({"submit", "own", "moved/kernel.cpp@LANES=32", "--note", "two files"});
  BOOST_TEST_INFO(submitted.err);
  BOOST_TEST_REQUIRE(submitted.exit == 0);
  const auto resumed = run({"resume", "own", "--set", "budget.evaluations=4"});
  BOOST_TEST_INFO(resumed.err);
  BOOST_TEST_REQUIRE(resumed.exit == 0);
  nlohmann::json found;
  for (int id = 1; id <= facts(run({"status", "own", "--json"}))["evaluations"].get<int>(); ++id)
    if (const auto one = facts(run({"show", "own", std::to_string(id), "--json"}));
        one["note"] == "two files")
      found = one;
  BOOST_TEST_REQUIRE(!found.is_null());
  const std::string id = std::to_string(found["id"].get<int>());
  BOOST_TEST(found["evaluation"]["verdict"] == "measured", found["evaluation"].dump());

  const std::string text = run({"show", "own", id, "--source"}).out;
  BOOST_TEST(text == read_text(folder / "moved/kernel.cpp") + "//// file: scale.hpp ////\n" + header);
  BOOST_TEST_REQUIRE(run({"show", "own", id, "--out", "files"}).exit == 0);
  BOOST_TEST(read_text(folder / "files/scale.hpp") == header);
  BOOST_TEST(run({"show", "own", id, "--out", "files"}).exit == 2);  // it is not empty
  BOOST_TEST_REQUIRE(run({"export", "own", "--id", id, "--out", "bundle"}).exit == 0);
  // The bundle's file has the configuration as its defaults, and so an id of its own.
  const std::string bundled = read_text(folder / "bundle/kernel.cpp");
  std::string expected = read_text(folder / "moved/kernel.cpp");
  const std::size_t value = expected.find("default: ", expected.find("LANES: {")) + 9;
  expected.replace(value, expected.find('}', value) - value, "32");
  BOOST_TEST(bundled == expected);
  BOOST_TEST(contains(read_text(folder / "bundle/README.md"),
                      judged("bundle/kernel.cpp")["id"].get<std::string>().substr(0, 12)));
  BOOST_TEST(read_text(folder / "bundle/scale.hpp") == header);
  BOOST_TEST(contains(read_text(folder / "bundle/README.md"), "| `scale.hpp` |"));
  write_text(folder / "one.cpp", text);
  for (const char* again : {"files/kernel.cpp@LANES=32", "one.cpp@LANES=32"})
    BOOST_TEST(judged(again)["id"] == found["variant"], again);

  const std::string bundle = (folder / "bundle").string();
  const auto build = run_command(
      {"sh", "-c", "cmake -S " + bundle + " -B " + bundle + "/build && cmake --build " + bundle + "/build"},
      {.folder = folder.path(), .environment = {}, .deadline_s = 300.0});
  BOOST_TEST_INFO(build.out + build.err);
  BOOST_TEST_REQUIRE(build.exit == 0);
  const auto verified = run_command({bundle + "/build/verify", "--quick"},
                                    {.folder = "/", .environment = {}, .deadline_s = 120.0});
  BOOST_TEST_INFO(verified.out + verified.err);
  BOOST_TEST(verified.exit == 0);
  const auto replayed = run({"replay", "own", "--json"});
  BOOST_TEST(replayed.exit == 0, replayed.err);
}

BOOST_AUTO_TEST_SUITE_END()

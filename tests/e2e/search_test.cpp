// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 430 s, engine/search
// always: a_search_finds*
// also without bubblewrap: a_search_finds*
// Whole searches on a user's own task: started, watched, stopped, resumed, exported, and the export built.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <regex>
#include <thread>

#include "support/contains.hpp"
#include "support/own_task.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;

namespace {

struct Search {
  TemporaryFolder folder;
  CommandResult run(std::vector<std::string> arguments) {
    return cultivar_in(folder.path(), std::move(arguments));
  }
  nlohmann::json status(const std::string& name = "runs/own") {
    return facts(run({"status", name, "--json"}));
  }

  // Until the run has judged `count` individuals; false when that takes longer than two minutes.
  bool wait_for_evaluations(int count) {
    for (int i = 0; i < 1200; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (!fs::exists(folder / "runs/own/run.db")) continue;
      const auto result = run({"status", "runs/own", "--json"});
      if (result.exit == 0 && facts(result)["evaluations"].get<int>() >= count) return true;
    }
    return false;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(search, Search)

BOOST_AUTO_TEST_CASE(a_search_finds_records_and_exports_a_kernel_that_builds_and_verifies) {
  write_own_task(folder.path(), "{evaluations: 8, wall: 15m}");
  const auto result = run({"run", "search.yaml", "--json"});
  BOOST_TEST_INFO(result.err);
  BOOST_TEST_REQUIRE(result.exit == 0);
  const auto end = facts(result);
  for (const char* field : {"run", "state", "stop_reason", "elapsed_s", "evaluations", "measured", "rejected",
                            "best", "budget", "models", "devices"})
    BOOST_TEST(end.contains(field), field << " is there");
  BOOST_TEST(end["state"] == "finished");
  BOOST_TEST(end["evaluations"].get<int>() >= 8);
  BOOST_TEST(end["best"]["fitness"].get<double>() > 0.0);
  BOOST_TEST(status()["best"]["id"] == end["best"]["id"]);

  const auto shown = facts(run({"show", "own", "best", "--json"}));
  BOOST_TEST(shown["id"] == end["best"]["id"]);
  BOOST_TEST(shown["evaluation"].is_object());
  const auto source = run({"show", "runs/own", "best", "--source"});
  BOOST_TEST(source.out.starts_with("/*--- cultivar"));
  BOOST_TEST(shown["source"] == source.out);
  const auto by_prefix =
      facts(run({"show", "own", shown["variant"].get<std::string>().substr(0, 12), "--json"}));
  BOOST_TEST(by_prefix["id"] == shown["id"]);
  BOOST_TEST(facts(run({"show", "own:best", "--json"})) == shown);
  BOOST_TEST(contains(run({"show", "own", "999999"}).err, "this run has no individual '999999'"));
  BOOST_TEST(facts(run({"show", "own", "--json"})) == shown);

  BOOST_TEST(!facts(run({"lineage", "own", "--json"})).empty());
  BOOST_TEST(
      contains(run({"lineage", "own", "best"}).out, "#" + std::to_string(end["best"]["id"].get<int>())));

  const std::string run_folder = (folder / "runs/own").string();
  const auto kernel = run({"export", "own:best"});
  BOOST_TEST(kernel.exit == 2);
  BOOST_TEST(contains(kernel.err, "export own --id best"), kernel.err);
  const auto report = run({"report", "own", "--out", "story", "--json"});
  BOOST_TEST(report.exit == 0);
  BOOST_TEST(facts(report)["steps"].back()["id"] == end["best"]["id"]);
  const std::string page = read_text(folder / "story/report.md");
  for (const std::string part : {"](running_best.svg)", "History of the best kernel", "| seed |", "rms_norm"})
    BOOST_TEST(contains(page, part), part);
  const std::regex gain(R"(\| \+\d+(\.\d)? % \()");  // every best kernel but the first won a duel
  BOOST_TEST(std::distance(std::sregex_iterator(page.begin(), page.end(), gain), {}) + 1 ==
                 std::ssize(facts(report)["steps"]),
             page);
  BOOST_TEST(contains(read_text(folder / "story/running_best.svg"), " best</text>"));
  BOOST_TEST(run({"report", "own", "--out", "story"}).exit == 0);
  write_text(folder / "mine/report.md", "of another");
  BOOST_TEST(run({"report", "own", "--out", "mine"}).exit == 2);
  BOOST_TEST(read_text(folder / "mine/report.md") == "of another");

  // As a user who may write nothing: by Landlock, or on older kernels by bubblewrap.
  const auto rules = cultivar::FileAccessRules::make({"/"}, {"/dev", "/proc"});
  std::vector<std::string> looking = cultivar_command({"show", "own", "best", "--json"});
  if (!rules) {
    const std::vector<std::string> walls{"bwrap", "--bind",    "/",        "/",       "--dev",
                                         "/dev",  "--ro-bind", run_folder, run_folder};
    looking.insert(looking.begin(), walls.begin(), walls.end());
  }
  const auto looked = run_command(
      looking,
      {.folder = folder.path(), .environment = {}, .deadline_s = 60.0, .walls = rules ? &*rules : nullptr});
  BOOST_TEST_INFO(looked.err);
  BOOST_TEST_REQUIRE(looked.exit == 0);
  BOOST_TEST(facts(looked) == shown);

  const auto again = run({"run", "search.yaml"});
  BOOST_TEST(again.exit == 2);
  BOOST_TEST(contains(again.err, "cultivar resume"));

  BOOST_TEST(fs::exists(folder / "runs/own/best/bundle.json"));
  const auto answers = run({"export", "own", "--answers", "answers.jsonl"});
  BOOST_TEST(answers.exit == 2);
  BOOST_TEST(answers.err.find("no language model has answered in this run") != std::string::npos,
             answers.err);
  BOOST_TEST(!fs::exists(folder / "answers.jsonl"));
  write_text(folder / "taken/notes", "mine");
  const auto taken = run({"export", "own", "--out", "taken"});
  BOOST_TEST(taken.exit == 1);
  BOOST_TEST(taken.err.starts_with("cultivar export: " + (folder / "taken").string() + " already exists"),
             taken.err);
  const auto draft = run({"show", "own", "d1"});
  BOOST_TEST(draft.exit == 2);
  BOOST_TEST(draft.err.find("`cultivar lineage RUN`") != std::string::npos, draft.err);
  BOOST_TEST(draft.err.find("A draft such as d1 has that name only in the conversation") != std::string::npos,
             draft.err);
  BOOST_TEST_REQUIRE(run({"export", "own", "--out", "bundle"}).exit == 0);
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
  BOOST_TEST(contains(verified.out, "verified"));

  // Called by hand: eps has its default (of a row of zeros 0 is left, and not a NaN), a null tensor is named.
  write_text(folder / "caller/CMakeLists.txt",
             "cmake_minimum_required(VERSION 3.20)\nproject(caller CXX)\nadd_subdirectory(" + bundle +
                 " bundle)\nadd_executable(caller caller.cpp)\ntarget_link_libraries(caller rms_norm)\n"
                 "add_executable(verify caller.cpp)  # a name that another project may use\n");
  write_text(folder / "caller/caller.cpp", R"(#include <cstdio>
#include "rms_norm.hpp"
int main() {
  alignas(64) float x[4] = {0, 0, 3, 3}, y[4] = {9, 9, 9, 9};
  cultivar_export::RmsNorm kernel;
  kernel({.R = 2, .C = 2, .x = x, .y = y});
  std::printf("%.3f %.3f\n", y[0], y[2]);
  try {
    kernel({.R = 2, .C = 2, .x = x});
  } catch (const std::invalid_argument& error) {
    std::printf("%s\n", error.what());
  }
}
)");
  const auto called = run_command({"sh", "-c",
                                   "cmake -S caller -B caller/build && cmake --build caller/build --target "
                                   "caller && echo && caller/build/caller"},
                                  {.folder = folder.path(), .environment = {}, .deadline_s = 300.0});
  BOOST_TEST(called.out.ends_with(
                 "\n0.000 1.000\nrms_norm: the tensor y is null: pass the address of its 16 bytes\n"),
             called.out + called.err);
}

BOOST_AUTO_TEST_CASE(an_exported_kernel_that_is_broken_fails_its_own_verification) {
  write_own_task(folder.path(), "{evaluations: 2, wall: 15m}");
  BOOST_TEST_REQUIRE(run({"run", "search.yaml"}).exit == 0);
  const fs::path bundle = folder / "runs/own/best";
  std::string source = read_text(bundle / "kernel.cpp");
  const std::size_t at = source.find("* scale");
  BOOST_TEST_REQUIRE(at != std::string::npos);
  write_text(bundle / "kernel.cpp", source.replace(at, 7, "* scale * 1.001f"));
  const std::string place = bundle.string();
  BOOST_TEST_REQUIRE(
      run_command(
          {"sh", "-c", "cmake -S " + place + " -B " + place + "/build && cmake --build " + place + "/build"},
          {.folder = folder.path(), .environment = {}, .deadline_s = 300.0})
          .exit == 0);
  const auto verified = run_command({place + "/build/verify", "--quick"});
  BOOST_TEST(verified.exit == 1);
  BOOST_TEST(contains(verified.out, "WRONG"));
}

BOOST_AUTO_TEST_CASE(ctrl_c_stops_with_130_and_resume_runs_to_the_end) {
  write_own_task(folder.path(), "{evaluations: 10, wall: 15m}");
  RunningCommand command(cultivar_command({"run", "search.yaml"}),
                         {.folder = folder.path(), .environment = {}, .deadline_s = 120.0});
  BOOST_TEST_REQUIRE(wait_for_evaluations(2));
  BOOST_TEST(status()["state"] == "running");

  const auto second = run({"resume", "runs/own"});
  BOOST_TEST(second.exit == 1);
  BOOST_TEST(contains(second.err, "own"));

  command.signal_group(SIGINT);
  command.signal_group(SIGTERM);  // the same request: batch systems and `timeout` signal a process twice
  const auto stopped = command.wait();
  BOOST_TEST_INFO(stopped.err);
  BOOST_TEST(stopped.exit == 130);
  BOOST_TEST(contains(stopped.err, "cultivar resume runs/own"));
  const auto between = status();
  BOOST_TEST(between["state"] == "stopped");

  const auto resumed = run({"resume", "own", "--json"});
  BOOST_TEST_INFO(resumed.err);
  BOOST_TEST(resumed.exit == 0);
  const auto end = facts(resumed);
  BOOST_TEST(end["state"] == "finished");
  BOOST_TEST(end["evaluations"].get<int>() >= 10);
  BOOST_TEST(end["elapsed_s"].get<double>() > between["elapsed_s"].get<double>());

  const auto replayed = run({"replay", "own", "--json"});
  BOOST_TEST_INFO(replayed.out + replayed.err);
  BOOST_TEST(replayed.exit == 0);
  BOOST_TEST(facts(replayed)["differences"].empty());

  fs::resize_file(folder / "runs/own/run.db", 20'000);  // as after a damaged disk
  const auto restored = run({"resume", "own"});
  BOOST_TEST_INFO(restored.err);
  BOOST_TEST(restored.exit == 0);
  BOOST_TEST(status()["evaluations"] == end["evaluations"]);
}

BOOST_AUTO_TEST_CASE(a_submitted_variant_is_judged_when_a_stopped_search_resumes) {
  write_own_task(folder.path(), "{evaluations: 3, wall: 15m}");
  BOOST_TEST_REQUIRE(run({"run", "search.yaml"}).exit == 0);
  std::string source = read_text(folder / "rms_norm/seeds/blocked.cpp");
  source.replace(source.find("rms_norm_blocked"), 16, "rms_norm_by_hand");
  write_text(folder / "mine.cpp", source);
  BOOST_TEST(run({"submit", "own", "mine.cpp@LANES=32", "--note", "by hand", "--from", "2"}).exit == 0);
  const auto stranger = run({"submit", "own", "mine.cpp@LANES=16", "--from", "999"});
  BOOST_TEST(stranger.exit == 2);
  BOOST_TEST(contains(stranger.err, "999"), stranger.err);
  write_text(folder / "wrong.cpp", "no manifest\n");
  BOOST_TEST(run({"submit", "own", "wrong.cpp"}).exit != 0);
  const auto resumed = run({"resume", "own", "--set", "budget.evaluations=6"});
  BOOST_TEST_INFO(resumed.err);
  BOOST_TEST_REQUIRE(resumed.exit == 0);
  bool found = false;
  for (int id = 1; id <= status()["evaluations"].get<int>() && !found; ++id) {
    const auto one = facts(run({"show", "own", std::to_string(id), "--json"}));
    found = one["operator"] == "submit" && one["note"] == "by hand" && one["configuration"]["LANES"] == 32 &&
            one["parents"] == nlohmann::json::array({2});
  }
  BOOST_TEST(found);
}

BOOST_AUTO_TEST_CASE(a_submission_to_a_running_search_is_told_its_number) {
  write_own_task(folder.path(), "{wall: 15m}");
  std::string source = read_text(folder / "rms_norm/seeds/blocked.cpp");
  source.replace(source.find("rms_norm_blocked"), 16, "rms_norm_by_hand");
  write_text(folder / "mine.cpp", source);
  RunningCommand search(cultivar_command({"run", "search.yaml"}),
                        {.folder = folder.path(), .environment = {}, .deadline_s = 300.0});
  while (search.running() && !contains(run({"status", "own"}).out, ", running"))
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto submitted = facts(run({"submit", "own", "mine.cpp@LANES=32", "--note", "by hand", "--json"}));
  BOOST_TEST_REQUIRE(submitted["individual"].is_number(), submitted.dump());
  const auto one = facts(run({"show", "own", submitted["individual"].dump(), "--json"}));
  BOOST_TEST(one["operator"] == "submit");
  BOOST_TEST(one["note"] == "by hand");
  search.signal(SIGINT);
  BOOST_TEST(search.wait().exit == 130);
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_written_is_a_clear_error) {
  write_own_task(folder.path(), "{evaluations: 1, wall: 15m}");
  write_text(folder / "file", "in the way\n");
  const auto result = run({"run", "search.yaml", "--run-dir", "file/run"});
  BOOST_TEST(result.exit == 1);
  BOOST_TEST(contains(result.err, "file"));
}

BOOST_AUTO_TEST_CASE(promoted_and_requested_kernels_have_a_profile) {
  write_own_task(folder.path(), "{evaluations: 6, wall: 15m}");
  const auto result = run({"run", "search.yaml", "--set", "evaluation.profile=elites", "--json"});
  BOOST_TEST_INFO(result.err);
  BOOST_TEST_REQUIRE(result.exit == 0);
  const auto best = facts(run({"show", "own", "best", "--json"}));
  BOOST_TEST_REQUIRE(best["profile"].is_object());
  BOOST_TEST(best["profile"]["profile"]["variant"] == best["variant"]);
  BOOST_TEST(best["profile"]["profile"]["median_us"].get<double>() > 0.0);
  BOOST_TEST(best["profile"]["profile"]["set"] == "quick");
  BOOST_TEST(contains(run({"show", "own", "best"}).out, "Profile"));
  BOOST_TEST(run({"replay", "own"}).exit == 0);

  const auto asked = run({"profile", "own:2", "--full", "--against", "own:best", "--json"});
  BOOST_TEST_INFO(asked.err);
  BOOST_TEST_REQUIRE(asked.exit == 0);
  BOOST_TEST(facts(asked)["against"]["variant"] == best["variant"]);
  BOOST_TEST(contains(asked.err, "Stored in the record"));
  BOOST_TEST(facts(run({"show", "own", "2", "--json"}))["profile"]["profile"]["set"] == "full");
  BOOST_TEST(run({"replay", "own"}).exit == 0);
}

BOOST_AUTO_TEST_SUITE_END()

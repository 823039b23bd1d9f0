// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 110 s, engine/store
// A search while others put everything into its folders that a file can be: it goes on, and to its end.
#include <sys/stat.h>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "support/contains.hpp"
#include "support/own_task.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;

namespace {

// For each request: a pipe, a link to a device and nested JSON as answers, then kernels with hostile
// manifests.
constexpr const char* kAnswerer = R"sh(#!/bin/bash
mail=$1
fence='```'
answer() {
  for wait in $(seq 1 50); do
    [ -e "$mail/answers/$1" ] || [ -L "$mail/answers/$1" ] || return 0
    sleep 0.1
  done
}
manifest() {
  echo "${fence}cpp"
  printf '/*--- cultivar\nname: hostile\ntask: rms_norm\ntarget: cpu\n'
  "$@"
  printf 'launch:\n  - kernel: k\n    args: [x, y, R, C, eps]\n%s\nextern "C" void k() {}\n' '---*/'
  echo "$fence"
}
keys() { seq -f 'k%.0f: 1' 1 60000; }
tunables() { echo 'tunables:'; seq -f '  T%.0f: {values: [1], default: 1}' 1 256; }
lets() {
  printf 'let:\n  g0: 1\n  g1: 1\n'
  for i in $(seq 2 99); do echo "  g$i: \"max(g$((i - 1)), g$((i - 2)))\""; done
  echo 'specialize: [g99]'
}
for i in $(seq 1 1200); do
  for request in "$mail"/requests/*.md; do
    [ -e "$request" ] || continue
    id=$(basename "$request" .md)
    [ -e "$mail/seen-$id" ] && continue
    : > "$mail/seen-$id"
    n=$(ls "$mail" | grep -c '^seen-')
    if [ "$n" -eq 1 ]; then
      mkfifo "$mail/answers/$id.json" && answer "$id.json"
      ln -s /dev/zero "$mail/answers/$id.md" && answer "$id.md"
      head -c 1000000 /dev/zero | tr '\0' '[' > "$mail/answers/$id.json" && answer "$id.json"
    fi
    case $((n % 3)) in
      0) manifest keys ;;
      1) manifest tunables ;;
      2) manifest lets ;;
    esac > "$mail/part"
    mv "$mail/part" "$mail/answers/$id.md"
  done
  sleep 0.1
done
)sh";

}  // namespace

BOOST_AUTO_TEST_SUITE(hostile_files)

BOOST_AUTO_TEST_CASE(a_search_goes_on_among_hostile_submissions_and_answers) {
  const TemporaryFolder folder;
  write_own_task(folder.path(), "{evaluations: 14, wall: 15m}");
  write_text(folder / "answerer.sh", kAnswerer, true);
  write_text(folder / "hostile.yaml",
             read_text(folder / "search.yaml") +
                 "operators: {mutate: 1, tune: 1}\nmodels:\n  me: {provider: mailbox, folder: mail}\n");
  const auto run = [&](std::vector<std::string> arguments) {
    return cultivar_in(folder.path(), std::move(arguments));
  };
  std::string source = read_text(folder / "rms_norm/seeds/blocked.cpp");
  source.replace(source.find("rms_norm_blocked"), 16, "rms_norm_by_hand");
  const std::size_t begin = source.find("task:");
  const auto with = [&](const std::string& lines) { return std::string(source).insert(begin, lines); };
  std::string keys, tunables = "tunables:\n";
  for (int i = 0; i < 90'000; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  for (int i = 0; i < 256; ++i) tunables += "  T" + std::to_string(i) + ": {values: [1], default: 1}\n";

  RunningCommand answerer({(folder / "answerer.sh").string(), (folder / "mail").string()},
                          {.folder = folder.path(), .environment = {}, .deadline_s = 400.0});
  RunningCommand search(cultivar_command({"run", "hostile.yaml", "--json"}),
                        {.folder = folder.path(), .environment = {}, .deadline_s = 400.0});
  const fs::path inbox = folder / "runs/own/submissions";
  for (int i = 0; i < 600 && !fs::exists(folder / "runs/own/run.db"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  BOOST_TEST_REQUIRE(fs::exists(inbox));
  const auto put = [&](const std::string& name, const std::string& text, const nlohmann::json& parents) {
    write_text(inbox / name, nlohmann::json{{"source", text},
                                            {"note", name},
                                            {"configuration", nlohmann::json::object()},
                                            {"parents", parents}}
                                 .dump());
  };
  BOOST_TEST(::mkfifo((inbox / "00.json").c_str(), 0600) == 0);
  fs::create_symlink("/dev/zero", inbox / "01.json");
  fs::create_directory(inbox / "02.json");
  put("03.json", source, std::vector<int>(300, 1));
  put("04.json", with(keys), nlohmann::json::array());
  put("05.json",
      source.substr(0, source.find("tunables:")) + tunables + source.substr(source.find("launch:")),
      nlohmann::json::array());
  put("06.json", with("about: " + std::string(900'000, 'a') + "\n"), nlohmann::json::array());
  put("07\n\x1b[2J.json", "no manifest", {1});
  write_text(inbox / "08.json", std::string(1'000'000, '['));
  for (int i = 0; i < 60; ++i) write_text(inbox / ("1" + std::to_string(i) + ".json"), "{");
  put("by_hand.json", source, {1});

  const auto result = search.wait();
  BOOST_TEST_INFO(result.err);
  BOOST_TEST_REQUIRE(result.exit == 0);
  BOOST_TEST(facts(result)["evaluations"].get<int>() >= 14);
  BOOST_TEST(contains(result.err, "it names 300 parents"), result.err);
  BOOST_TEST(contains(result.err, "longer than the limit of 65536 bytes"), result.err);
  BOOST_TEST(result.err.find('\x1b') == std::string::npos);
  const auto damaged = std::distance(fs::directory_iterator(folder / "runs/own/damaged"), {});
  BOOST_TEST(damaged == 69);  // all but one
  BOOST_TEST(fs::is_empty(inbox));
  bool found = false;
  for (int id = 1; id <= facts(result)["evaluations"].get<int>() && !found; ++id) {
    const auto one = facts(run({"show", "own", std::to_string(id), "--json"}));
    found = one["operator"] == "submit" && one["note"] == "by_hand.json" && one["state"] != "proposed";
  }
  BOOST_TEST(found);
  const auto rejected = std::distance(fs::directory_iterator(folder / "mail/answers/rejected"), {});
  BOOST_TEST(rejected == 6);  // three answers, each with its reason

  BOOST_TEST(::mkfifo((inbox / "00.json").c_str(), 0600) == 0);
  const auto resumed = run({"resume", "own", "--set", "budget.evaluations=16"});
  BOOST_TEST_INFO(resumed.err);
  BOOST_TEST(resumed.exit == 0);
  BOOST_TEST(run({"replay", "own"}).exit == 0);
  BOOST_TEST(run({"report", "own", "--out", "story"}).exit == 0);
}

BOOST_AUTO_TEST_SUITE_END()

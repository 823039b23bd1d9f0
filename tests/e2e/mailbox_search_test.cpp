// SPDX-License-Identifier: Apache-2.0
// runs alone
// long: 180 s, operators/llm
// A search on the real cpu target whose language model is a mailbox: another process answers with real
// kernels, which are compiled, checked and timed. Its record replays, and its answers serve a second search.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "support/contains.hpp"
#include "support/own_task.hpp"

namespace fs = std::filesystem;
using namespace cultivar::testing;

namespace {

// Much faster: rows distributed over all cores, sixteen partial norms.
constexpr const char* kBetter = R"(/*--- cultivar
name: rms_norm_answer
task: rms_norm
target: cpu
about: "All cores, partial norms."
requires: "dtype == f32"
launch:
  - kernel: rms_norm
    threads: num_cores
    args: [x, y, R, C, eps, thread, threads]
---*/
#include <cmath>

extern "C" void rms_norm(const float* x, float* y, int R, int C, float eps, int thread, int threads) {
  for (int r = thread; r < R; r += threads) {
    const float* in = x + long(r) * C;
    float* out = y + long(r) * C;
    double norms[16] = {};
    int c = 0;
    for (; c + 16 <= C; c += 16)
      for (int l = 0; l < 16; ++l) norms[l] = std::hypot(norms[l], double(in[c + l]));
    double sum = 0.0;
    for (int l = 0; l < 16; ++l) sum += norms[l] * norms[l];
    for (; c < C; ++c) sum += double(in[c]) * double(in[c]);
    const float scale = float(1.0 / std::sqrt(sum / C + double(eps)));
    for (int i = 0; i < C; ++i) out[i] = in[i] * scale;
  }
}
)";

// Answers everything in requests/: the first question at first with an unusable edit, the second with a wrong
// kernel, the others with the kernel above under new names.
constexpr const char* kAnswerer = R"sh(#!/bin/sh
mail=$1 better=$2
fence='```'
for i in $(seq 1 2400); do
  for request in "$mail"/requests/*.md; do
    [ -e "$request" ] || continue
    id=$(basename "$request" .md)
    [ -e "$mail/seen-$id" ] && continue
    : > "$mail/seen-$id"
    n=$(ls "$mail" | grep -c '^seen-')
    {
      echo "IDEA: answer number $n"
      if [ "$n" -eq 1 ]; then
        echo 'I will think about it.'
      else
        echo "${fence}cpp"
        if [ "$n" -eq 3 ]; then
          sed "s/rms_norm_answer/rms_norm_$n/; s/\* scale;/* scale * 1.01f;/" "$better"
        else
          sed "s/rms_norm_answer/rms_norm_$n/; s/16/$((8 * n))/g" "$better"
        fi
        echo "$fence"
      fi
    } > "$mail/part"
    mv "$mail/part" "$mail/answers/$id.md"
  done
  sleep 0.2
done
)sh";

std::set<std::string> variants_of(const fs::path& folder, const std::string& run, int count) {
  std::set<std::string> all;
  for (int id = 1; id <= count; ++id)
    all.insert(facts(cultivar_in(folder, {"show", run, std::to_string(id), "--json"}))["variant"]
                   .get<std::string>());
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(mailbox_search)

BOOST_AUTO_TEST_CASE(another_process_answers_and_its_kernels_are_judged_for_real_recorded_and_served_again) {
  const TemporaryFolder folder;
  write_own_task(folder.path(), "{evaluations: 5, wall: 15m}");
  write_text(folder / "slow.cpp", slow_rms_norm);
  write_text(folder / "better.cpp", kBetter);
  write_text(folder / "answerer.sh", kAnswerer, true);
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  set_own_workloads(folder.path(), "      - {R: 11000, C: 384}\n");
  const std::string settings =
      replaced(replaced(read_text(folder / "search.yaml"), "[plain, blocked]", "[./slow.cpp]"),
               "max_device_seconds: 1s", "max_device_seconds: 20s") +
      "operators: {mutate: 1}\nasking: {in_flight: 1}\n"
      "models:\n  me: ";
  write_text(folder / "mail.yaml", settings + "{provider: mailbox, folder: mail}\n");

  RunningCommand search(cultivar_command({"run", "mail.yaml", "--json"}),
                        {.folder = folder.path(), .environment = {}, .deadline_s = 500.0});
  // The search waits and says for which model.
  bool waited = false;
  for (int i = 0; i < 2000 && !waited && search.running(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (!fs::exists(folder / "runs/own/run.db")) continue;
    const auto status = cultivar_in(folder.path(), {"status", "own", "--json"});
    if (status.exit != 0) continue;
    const auto questions = facts(status)["questions"];
    waited = questions.is_object() && questions["open"] == 1 && !questions["waits_for"].empty() &&
             contains(questions["waits_for"][0].get<std::string>(), "me (mailbox: ");
  }
  BOOST_TEST(waited);
  RunningCommand answerer(
      {(folder / "answerer.sh").string(), (folder / "mail").string(), (folder / "better.cpp").string()},
      {.folder = folder.path(), .environment = {}, .deadline_s = 500.0});
  const auto result = search.wait();
  BOOST_TEST_INFO(result.err);
  BOOST_TEST_REQUIRE(result.exit == 0);
  const auto end = facts(result);
  BOOST_TEST(end["evaluations"] == 5);
  BOOST_TEST(end["models"]["me"]["calls"] == 5);  // four questions, one of them asked again after a refusal
  BOOST_TEST(end["questions"]["open"] == 0);
  const auto best = facts(cultivar_in(folder.path(), {"show", "own", "best", "--json"}));
  BOOST_TEST_CONTEXT(result.err) BOOST_TEST(best["operator"] == "mutate");
  BOOST_TEST(best["model"] == "me");
  BOOST_TEST(contains(best["note"].get<std::string>(), "answer number"));
  BOOST_TEST(end["best"]["ratio_to_seed"].get<double>() > 2.0);
  int wrong = 0;
  for (int id = 2; id <= 5; ++id) {
    const auto one = facts(cultivar_in(folder.path(), {"show", "own", std::to_string(id), "--json"}));
    wrong += one["stage"] == "smoke" && one["state"] == "rejected";
  }
  BOOST_TEST(wrong == 1);  // a model's kernel is checked like any other

  const auto prompt = cultivar_in(folder.path(), {"show", "own", "mutate/1", "--prompt"});
  BOOST_TEST_INFO(prompt.out + prompt.err);
  BOOST_TEST_REQUIRE(prompt.exit == 0);
  BOOST_TEST(contains(prompt.out, "==== mutate/1/0 to me"));
  BOOST_TEST(contains(prompt.out, "==== mutate/1/1 to me"));
  BOOST_TEST(contains(prompt.out, "Make one change in this direction"));
  BOOST_TEST(contains(prompt.out, "I will think about it."));
  BOOST_TEST(contains(prompt.out, "The answer has no edit."));
  // Of the second step only what is new, and how long each took.
  const std::string asked = "Make one change in this direction";
  BOOST_TEST(prompt.out.find(asked) == prompt.out.rfind(asked));
  BOOST_TEST(contains(prompt.out, "(the system text and 2 messages as before)"));
  BOOST_TEST(contains(prompt.out, ", answered after "));
  // Without an ID: the tree of all sources, also those that never were the best.
  const auto tree = cultivar_in(folder.path(), {"lineage", "own"});
  BOOST_TEST(contains(tree.out, "#1 "), tree.out);
  BOOST_TEST(contains(tree.out, "rejected at smoke"), tree.out);
  for (const std::string text : {"mutate/", "mutate"}) {
    const auto several = cultivar_in(folder.path(), {"show", "own", text, "--prompt"});
    BOOST_TEST(several.exit == 2);
    BOOST_TEST(contains(several.err, "'" + text + "' is an operator; name one of its calls"), several.err);
    BOOST_TEST(contains(several.err, "4 questions by mutate: mutate/1, "), several.err);
  }
  const auto none = cultivar_in(folder.path(), {"show", "own", "crossover/1", "--prompt"});
  BOOST_TEST(contains(none.err, "no call named 'crossover/1'"), none.err);
  BOOST_TEST(contains(none.err, "asked a model are mutate"), none.err);
  const auto sent = facts(cultivar_in(folder.path(), {"show", "own", "mutate/1/0", "--prompt", "--json"}));
  BOOST_TEST(sent.size() == 1U);
  bool found = false;  // exactly what lay in the mailbox
  for (const auto& file : fs::directory_iterator(folder / "mail/requests/closed"))
    if (file.path().extension() == ".json") {
      const auto lay = nlohmann::json::parse(read_text(file.path()));
      found = found || (lay["call"] == "mutate/1/0" && lay["messages"] == sent[0]["request"]["messages"] &&
                        lay["system"] == sent[0]["request"]["system"]);
    }
  BOOST_TEST(found);
  const auto replayed = cultivar_in(folder.path(), {"replay", "own", "--json"});
  BOOST_TEST_INFO(replayed.out);
  BOOST_TEST(replayed.exit == 0);
  BOOST_TEST(facts(replayed)["questions"] == 4);

  // Replays the same answers and evaluates them live, with no one to answer.
  BOOST_TEST_REQUIRE(cultivar_in(folder.path(), {"export", "own", "--answers", "answers.jsonl"}).exit == 0);
  BOOST_TEST(cultivar_in(folder.path(), {"export", "own", "--answers", "answers.jsonl"}).exit == 2);
  BOOST_TEST(cultivar_in(folder.path(), {"export", "own", "--answers", "answers.jsonl", "--force"}).exit ==
             0);
  write_text(folder / "again.yaml", settings + "{provider: replay, file: answers.jsonl, match: call}\n");
  const auto again =
      cultivar_in(folder.path(), {"run", "again.yaml", "--run-dir", "runs/again", "--json"}, 500.0);
  BOOST_TEST_INFO(again.err);
  BOOST_TEST_REQUIRE(again.exit == 0);
  BOOST_TEST(facts(again)["evaluations"] == 5);
  BOOST_TEST((variants_of(folder.path(), "runs/again", 5) == variants_of(folder.path(), "runs/own", 5)));
  BOOST_TEST(cultivar_in(folder.path(), {"replay", "runs/again"}).exit == 0);
}

BOOST_AUTO_TEST_SUITE_END()

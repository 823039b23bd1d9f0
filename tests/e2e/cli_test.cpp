// SPDX-License-Identifier: Apache-2.0
// The responses of every command to --help, mistakes and bad input.
#include <sys/stat.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/store/record_writer.hpp"
#include "support/contains.hpp"
#include "support/own_task.hpp"

namespace fs = std::filesystem;
using namespace cultivar;
using namespace cultivar::testing;

namespace {

struct Somewhere {
  TemporaryFolder folder;
  CommandResult run(std::vector<std::string> arguments) {
    return cultivar_in(folder.path(), std::move(arguments), 60.0);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cli, Somewhere)

BOOST_AUTO_TEST_CASE(help_lists_every_command_and_each_has_an_example) {
  const auto help = run({"--help"});
  BOOST_TEST(help.exit == 0);
  BOOST_TEST(contains(help.out, "\n  mcp "));
  for (const std::string command :
       {"run", "resume", "status", "show", "lineage", "report", "submit", "export", "evaluate", "compare",
        "profile", "tasks", "replay", "doctor", "attach", "stop", "runs", "gc"}) {
    BOOST_TEST(contains(help.out, "\n  " + command + " "));
    const auto own = run({command, "--help"});
    BOOST_TEST(own.exit == 0);
    BOOST_TEST(contains(own.out, "Example:\n  cultivar " + command));
    BOOST_TEST(contains(own.out, "--json"));
  }
}

BOOST_AUTO_TEST_CASE(a_misspelt_command_or_option_gets_a_suggestion_and_2) {
  const auto command = run({"evalute"});
  BOOST_TEST(command.exit == 2);
  BOOST_TEST(contains(command.err, "did you mean evaluate?"));
  const auto option = run({"status", "x", "--jsom"});
  BOOST_TEST(option.exit == 2);
  BOOST_TEST(contains(option.err, "did you mean --json?"));
  BOOST_TEST(run({"status"}).exit == 2);
  BOOST_TEST(run({}).exit == 2);
}

BOOST_AUTO_TEST_CASE(the_cache_may_be_another_folder) {
  const fs::path cache = folder / "cache";
  ::setenv("CULTIVAR_CACHE", cache.c_str(), 1);
  const auto done = run({"evaluate", "softmax", "naive", "--stop-after", "compile"});
  ::unsetenv("CULTIVAR_CACHE");
  BOOST_TEST(done.exit == 0, done.err);
  BOOST_TEST((fs::exists(cache) && !fs::is_empty(cache)));

  ::setenv("CULTIVAR_CACHE", "/proc/none", 1);
  const auto unwritable = run({"evaluate", "softmax", "naive", "--stop-after", "compile"});
  ::unsetenv("CULTIVAR_CACHE");
  BOOST_TEST(unwritable.exit == 1);
  BOOST_TEST(contains(unwritable.err, "CULTIVAR_CACHE names another folder"), unwritable.err);
  BOOST_TEST(!contains(unwritable.out + unwritable.err, "rejected"), unwritable.out + unwritable.err);
}

BOOST_AUTO_TEST_CASE(a_name_that_is_nearly_right_is_answered_with_what_was_meant) {
  const auto target = run({"evaluate", "softmax", "naive", "--target", "gpu"});
  BOOST_TEST(target.exit == 2);
  BOOST_TEST(contains(target.err, "did you mean 'cuda'?"), target.err);
  fs::create_directories(folder / "mine");
  const auto directory = run({"evaluate", "softmax", "mine", "--stop-after", "lint"});
  BOOST_TEST(directory.exit == 2);
  BOOST_TEST(contains(directory.err, "mine is a folder"), directory.err);
  const auto stage = run({"evaluate", "softmax", "naive", "--stop-after", "foo"});
  BOOST_TEST(stage.exit == 2);
  BOOST_TEST(contains(stage.err, "in order: lint, compile, screen, smoke, sweep"), stage.err);
}

BOOST_AUTO_TEST_CASE(what_lint_and_the_compiler_say_is_said_once) {
  const auto rejected = [&](const std::string& lines, const std::string& code) {
    std::ofstream(folder / "mine.cpp") << "/*--- cultivar\nname: mine\ntask: softmax\ntarget: cpu\n" + lines +
                                              "launch:\n  - {kernel: f, args: [x, y]}\n---*/\n" + code;
    return run({"evaluate", "softmax", "mine.cpp", "--workloads", "cpu_quick", "--stop-after", "screen"}).out;
  };
  const auto times = [](const std::string& text, const std::string& part) {
    int n = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
    return n;
  };
  const std::string compiled =
      rejected("", "extern \"C\" void f(const float*, float*) {}\nint x = nothing;\n");
  BOOST_TEST(times(compiled, "was not declared in this scope") == 1, compiled);
  const std::string linted = rejected("about: [1]\n", "");
  BOOST_TEST(times(linted, "rejected at lint: line") == 1, linted);
  BOOST_TEST(times(linted, "mine.cpp") == 1, linted);
  const std::string shape = rejected("requires: \"dtype == f32\"\nconstraints: [\"R > 16\"]\n",
                                     "extern \"C\" void f(const float*, float*) {}\n");
  BOOST_TEST(contains(shape, "a constraint does not hold on the check shape R16_C256_f32 (smoke)"), shape);
}

BOOST_AUTO_TEST_CASE(tasks_are_listed_and_explained) {
  BOOST_TEST(contains(run({"tasks", "softmax"}).out, "\nSeeds\n  "));
  BOOST_TEST(contains(run({"tasks", "softmax"}).out, "\nContenders\n  torch\n"));
  const auto all = facts(run({"tasks", "--json"}));
  BOOST_TEST(all.size() >= 2u);
  const auto one = facts(run({"tasks", "attention_forward", "--json"}));
  BOOST_TEST(one["name"] == "attention_forward");
  std::vector<std::string> sets;
  for (const auto& set : one["workload_sets"]) sets.push_back(set["name"]);
  for (const char* set : {"avo_mha", "avo_gqa8", "avo_gqa4", "fa_sweep", "quick", "holdout", "cpu_quick"})
    BOOST_TEST((std::find(sets.begin(), sets.end(), set) != sets.end()), set << " is there");
  const auto words = run({"tasks", "softmax"});
  BOOST_TEST(contains(words.out, "cpu_quick"));
  BOOST_TEST(contains(words.out, "Dimensions"));
}

BOOST_AUTO_TEST_CASE(an_unknown_task_is_named_with_its_nearest) {
  const auto result = run({"tasks", "atention_forward"});
  BOOST_TEST(result.exit == 2);
  BOOST_TEST(contains(result.err, "attention_forward"));
}

BOOST_AUTO_TEST_CASE(a_users_own_task_folder_works_by_its_path) {
  write_own_task(folder.path(), "{evaluations: 1}");
  const auto own = facts(run({"tasks", "rms_norm", "--json"}));
  BOOST_TEST(own["name"] == "rms_norm");
  BOOST_TEST(own["seeds"].size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_bad_configuration_is_refused_with_file_line_and_the_nearest_name) {
  write_own_task(folder.path(), "{evaluations: 1}");
  const std::string good = read_text(folder / "search.yaml");
  write_text(folder / "bad.yaml", good + "budgett: {wall: 1m}\n");
  auto result = run({"run", "bad.yaml"});
  BOOST_TEST(result.exit == 2);
  BOOST_TEST(contains(result.err, "bad.yaml:10"));
  BOOST_TEST(contains(result.err, "budget"));
  write_text(folder / "twice.yaml", good + "name: again\n");
  result = run({"run", "twice.yaml"});
  BOOST_TEST(result.exit == 2);
  BOOST_TEST(contains(result.err, "twice.yaml:10"));
  write_text(folder / "broken.yaml", "name: [\n");
  BOOST_TEST(run({"run", "broken.yaml"}).exit == 2);
  result = run({"run", "search.yaml", "--set", "workloads=smal"});
  BOOST_TEST(result.exit == 2);
  BOOST_TEST(contains(result.err, "small"));
  BOOST_TEST(!fs::exists(folder / "runs"));
}

BOOST_AUTO_TEST_CASE(a_suite_is_no_search_and_a_search_is_no_suite) {
  const auto suite = run({"run", "cpu_suite", "--check"});
  BOOST_TEST(suite.exit == 2);
  BOOST_TEST(contains(suite.err, "this is a suite: cultivar suite "), suite.err);
  const auto search = run({"suite", "quickstart", "--check"});
  BOOST_TEST(search.exit == 2);
  BOOST_TEST(contains(search.err, "this is one search: cultivar run "), search.err);
}

BOOST_AUTO_TEST_CASE(a_missing_configuration_gets_a_suggestion) {
  const auto result = run({"run", "configs/quikstart.yaml"});
  BOOST_TEST(result.exit == 2);
  BOOST_TEST(contains(result.err, "did you mean configs/quickstart.yaml?"));
}

BOOST_AUTO_TEST_CASE(a_folder_is_no_configuration_and_what_is_meant_is_told) {
  fs::create_directories(folder / "mine");
  for (const char* command : {"run", "suite"}) {
    const auto empty = run({command, "mine"});
    BOOST_TEST(empty.exit == 2);
    BOOST_TEST(contains(empty.err, "'mine' is a folder, not a configuration; give a YAML file"), empty.err);
  }
  write_text(folder / "mine" / "search.yaml", "");
  const auto task = run({"run", "mine/"});
  BOOST_TEST(
      contains(task.err, "is a folder, not a configuration; give a YAML file, for example mine/search.yaml"),
      task.err);
  write_text(folder / "mine" / "run.db", "");
  const auto begun = run({"run", "mine"});
  BOOST_TEST(contains(begun.err, "it holds a run, which this continues: "), begun.err);
  BOOST_TEST(contains(begun.err, " resume mine"), begun.err);
}

BOOST_AUTO_TEST_CASE(a_missing_run_is_explained) {
  const auto result = run({"status", "runs/nothing"});
  BOOST_TEST(result.exit == 2);
  BOOST_TEST(contains(result.err, "there is no run 'runs/nothing'"));
  fs::create_directories(folder / "empty");
  BOOST_TEST(contains(run({"resume", "empty"}).err, "holds no run.db"));
  BOOST_TEST(contains(run({"show", "runs/nothing"}).err, "there is no run 'runs/nothing'"));
}

BOOST_AUTO_TEST_CASE(a_configuration_must_be_a_regular_file_of_moderate_size) {
  BOOST_TEST(contains(run({"run", "/dev/zero", "--check"}).err, "/dev/zero is not a regular file"));
  write_text(folder / "big.yaml", std::string(2 << 20, '#'));
  const auto big = run({"run", "big.yaml", "--check"});
  BOOST_TEST(contains(big.err, "has 2097152 bytes, but at most 1048576 are read of a YAML file"), big.err);
}

BOOST_AUTO_TEST_CASE(names_on_the_command_line_are_checked_before_any_work) {
  BOOST_TEST(run({"evaluate", "softmax", "no_such_kernel"}).exit == 2);
  write_text(folder / "k.cpp", "int x;\n");
  BOOST_TEST(contains(run({"evaluate", "softmax", "k.cpp", "--workloads", "cpu_quik"}).err, "cpu_quick"));
  BOOST_TEST(contains(run({"evaluate", "softmax", "k.cpp", "--stop-after", "smok"}).err, "smoke"));
  BOOST_TEST(run({"evaluate", "softmax", "k.cpp", "--target", "tpu"}).exit == 2);
  BOOST_TEST(run({"evaluate", "softmax", "k.cpp@BLOCK"}).exit == 2);
  BOOST_TEST(run({"evaluate", "softmax", "k.cpp", "--contender", "none_such"}).exit == 2);
}

BOOST_AUTO_TEST_CASE(a_source_is_an_ordinary_file_of_bounded_size) {
  fs::create_directories(folder / "begun");
  write_text(folder / "begun" / "run.db", "");  // it is not even opened
  const auto refused = [&](const std::string& file, const std::string& why) {
    for (const auto& command :
         {std::vector<std::string>{"evaluate", "softmax", file}, {"submit", "begun", file}}) {
      const auto result = run(command);
      BOOST_TEST(result.exit == 2, result.err);
      BOOST_TEST(contains(result.err, why), result.err);
    }
  };
  BOOST_TEST(::mkfifo((folder / "pipe.cpp").c_str(), 0600) == 0);
  refused("/dev/zero", "is not a regular file");
  refused((folder / "pipe.cpp").string(), "is not a regular file");
  write_text(folder / "large.cpp", std::string(5 << 20, ' '));
  refused((folder / "large.cpp").string(), "is longer than the ");
}

BOOST_AUTO_TEST_CASE(more_cores_than_there_are_are_refused) {
  write_text(folder / "k.cpp", "int x;\n");
  const auto result = run({"evaluate", "softmax", "k.cpp", "--target", "cpu:4096"});
  BOOST_TEST(result.exit == 2);
  BOOST_TEST(contains(result.err, "this machine has "), result.err);
  write_own_task(folder.path(), "{evaluations: 1}");
  const auto search = run({"run", "search.yaml", "--set", "evaluation.cores=4000", "--check"});
  BOOST_TEST(search.exit == 2);
  BOOST_TEST(contains(search.err, "evaluation.cores: this machine has "), search.err);
}

BOOST_AUTO_TEST_CASE(a_contender_of_another_task_is_rejected_before_it_is_searched_for) {
  write_own_task(folder.path(), "{evaluations: 1}");
  write_text(folder / "beside.yaml", read_text(folder / "search.yaml") + "contenders: [cudnn]\n");
  const auto result = run({"run", "beside.yaml", "--check"});
  BOOST_TEST(result.exit == 2);
  BOOST_TEST(contains(result.err,
                      "beside.yaml:10: contenders: 'cudnn' is for the task attention_forward and "
                      "rmsnorm_backward on cuda, but "
                      "this is rms_norm on cpu"),
             result.err);
}

BOOST_AUTO_TEST_CASE(an_empty_folder_for_the_record_is_no_folder) {
  write_own_task(folder.path(), "{evaluations: 1}");
  BOOST_TEST(run({"run", "search.yaml", "--run-dir", ""}).exit == 2);
  BOOST_TEST(!fs::exists(folder / "runs"));
}

BOOST_AUTO_TEST_CASE(a_damaged_recording_is_reported_by_check) {
  write_own_task(folder.path(), "{evaluations: 1}");
  write_text(folder / "answers.jsonl", "{\"call\": 1}\n");
  write_text(folder / "replay.yaml",
             read_text(folder / "search.yaml") +
                 "operators: {mutate: 1}\nmodels: {r: {provider: replay, file: answers.jsonl}}\n");
  const auto result = run({"run", "replay.yaml", "--check"});
  BOOST_TEST(result.exit == 2, result.err);
  BOOST_TEST(contains(result.err, "answers.jsonl:1"), result.err);
  const std::string text = read_text(folder / "replay.yaml");
  const auto line =
      1 + std::count(text.begin(), text.begin() + static_cast<long>(text.find("models:")), '\n');
  BOOST_TEST(contains(result.err, "replay.yaml:" + std::to_string(line) + ": models.r.file: "), result.err);
}

BOOST_AUTO_TEST_CASE(what_models_and_prompts_need_is_looked_at_by_check_and_named_with_its_line) {
  write_own_task(folder.path(), "{evaluations: 1}");
  const std::string base = read_text(folder / "search.yaml") + "operators: {mutate: 1}\n";
  const auto lines = std::count(base.begin(), base.end(), '\n');
  write_text(folder / "file", "x");
  fs::create_directories(folder / "empty");
  write_text(folder / "empty/mutate.md", " \n");
  fs::create_directories(folder / "folders/crossover.md");
  fs::create_directories(folder / "nothing");
  write_text(folder / "nothing/agent.md", "");
  const struct {
    std::string models;
    int line;
    std::string words;
  } cases[] = {
      {"models:\n  m: {provider: mailbox, folder: file}\n", 2, "is not a folder, but a mailbox needs one"},
      {"models:\n  m: {provider: mailbox, folder: file/below}\n", 2,
       "is not a folder, but a mailbox needs one"},
      {"models:\n  m:\n    provider: command\n    command: [no-such-program]\n", 4,
       "models.m.command: there is no program 'no-such-program' on this machine; install it"},
      {"models: {m: {provider: mailbox, folder: mail}}\nasking: {templates: empty}\n", 2,
       "mutate.md: the prompt is empty"},
      {"models: {m: {provider: mailbox, folder: mail}}\nasking: {templates: nothing}\n", 2,
       "agent.md: the prompt is empty"},
      {"models: {m: {provider: mailbox, folder: mail}}\nasking: {templates: folders}\n", 2,
       "crossover.md: not a file"},
  };
  for (const auto& each : cases) {
    write_text(folder / "asks.yaml", base + each.models);
    const auto result = run({"run", "asks.yaml", "--check"});
    BOOST_TEST(result.exit == 2, each.models);
    BOOST_TEST(contains(result.err, "asks.yaml:" + std::to_string(lines + each.line) + ": "), result.err);
    BOOST_TEST(contains(result.err, each.words), result.err);
  }
  write_text(folder / "asks.yaml", base + "models: {m: {provider: mailbox, folder: not/yet/there}}\n");
  BOOST_TEST(run({"run", "asks.yaml", "--check"}).exit == 0);
}

BOOST_AUTO_TEST_CASE(the_configurations_that_come_with_it_are_sound_and_nothing_is_written_to_check_them) {
  int checked = 0;
  for (const auto& entry : fs::directory_iterator(CULTIVAR_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".yaml") continue;
    const bool suite = entry.path().stem().string().ends_with("_suite");
    const auto result = run({suite ? "suite" : "run", entry.path().string(), "--check", "--json"});
    BOOST_TEST(result.exit == 0, entry.path() << ": " << result.err);
    BOOST_TEST(!facts(result)[suite ? "tasks" : "seeds"].empty());
    ++checked;
  }
  BOOST_TEST(checked >= 4);
  BOOST_TEST(fs::is_empty(folder.path()));
}

BOOST_AUTO_TEST_CASE(a_search_on_gpus_that_are_not_there_says_what_is_missing_and_leaves_nothing_behind) {
  for (int time = 0; time < 2; ++time) {
    const auto result = run_command(
        cultivar_command({"run", CULTIVAR_SOURCE_DIR "/configs/attention_h100.yaml", "--set",
                          "evaluation.devices=[1, 2]"}),
        {.folder = folder.path(), .environment = {{"CUDA_VISIBLE_DEVICES", ""}}, .deadline_s = 60.0});
    BOOST_TEST(result.exit == 3, result.err);
    BOOST_TEST(!contains(result.err, "Searching"), result.err);
    BOOST_TEST(contains(result.err, "which shows 0 GPUs; there is no GPU number 1"), result.err);
    BOOST_TEST(!fs::exists(folder / "runs/attention-h100"));
  }
}

BOOST_AUTO_TEST_CASE(code_for_another_card_is_compiled_but_never_run) {
  const std::string kernel = CULTIVAR_SOURCE_DIR "/tests/kernels/cuda/honest_softmax.cu";
  const auto elsewhere = run({"evaluate", "softmax", kernel, "--target", "cuda", "--arch", "sm_80"});
  BOOST_TEST(elsewhere.exit == 2);
  BOOST_TEST(contains(elsewhere.err, "--arch needs"), elsewhere.err);
  const auto unknown = run({"evaluate", "softmax", kernel, "--target", "cuda", "--stop-after", "screen",
                            "--arch", "sm_119", "--workloads", "cpu_quick"});
  BOOST_TEST(unknown.exit == 3);
  BOOST_TEST(
      (contains(unknown.err, "does not support 'sm_119'") || contains(unknown.err, "NVRTC was not found")),
      unknown.err);
  for (const char* name : {"", "sm_90a;x", "sm_", "sm_75", "sm_86a", "90"}) {
    const auto misspelt = run({"evaluate", "softmax", kernel, "--target", "cuda", "--stop-after", "screen",
                               "--arch", name, "--workloads", "cpu_quick"});
    BOOST_TEST(misspelt.exit == 2, name << ": " << misspelt.err);
    BOOST_TEST(contains(misspelt.err, "--arch: '" + std::string(name) + "' "), misspelt.err);
    BOOST_TEST(contains(misspelt.err, "sm_"), misspelt.err);
  }
}

BOOST_AUTO_TEST_CASE(cuda_kernels_compile_without_a_gpu_or_the_command_says_what_to_install) {
  const std::string kernels = CULTIVAR_SOURCE_DIR "/tests/kernels/cuda/";
  const auto fit = run({"evaluate", "softmax", kernels + "two_kernels.cu", "--target", "cuda", "--stop-after",
                        "screen", "--workloads", "cpu_quick", "--json"});
  if (fit.exit == 3) {
    BOOST_TEST(contains(fit.err, "NVRTC was not found; install"), fit.err);
    return;
  }
  BOOST_REQUIRE_MESSAGE(fit.exit == 0, fit.err);
  const auto facts = nlohmann::json::parse(fit.out);
  BOOST_TEST(facts[0]["verdict"] == "passed");
  BOOST_TEST(facts[0]["resources"]["registers"] > 8);
  const auto unfit = run({"evaluate", "softmax", kernels + "refused/writable_global.cu", "--target", "cuda",
                          "--stop-after", "screen", "--workloads", "cpu_quick"});
  BOOST_TEST(unfit.exit == 1);
  BOOST_TEST(contains(unfit.out, "rejected at screen: the kernel has variables that it may write: runs"),
             unfit.out);
  std::string source = read_text(kernels + "two_kernels.cu");
  source.replace(source.find("grid: [R, 1, 1]"), 15, "grid: [R, 70000, 1]");
  write_text(folder / "k.cu", source);
  const auto illegal = run({"evaluate", "softmax", "k.cu", "--target", "cuda", "--stop-after", "lint",
                            "--workloads", "cpu_quick"});
  BOOST_TEST(illegal.exit == 1);
  BOOST_TEST(contains(illegal.out, "rejected at lint: line "), illegal.out);
  BOOST_TEST(contains(illegal.out, ": launch[0].grid[1]"), illegal.out);
  const auto other = run({"evaluate", "softmax", "k.cu", "--target", "cuda", "--stop-after", "lint"});
  BOOST_TEST(contains(other.out, "the variant claims no workload of the set quick"), other.out);
  BOOST_TEST(contains(other.out, "--workloads cpu_quick"), other.out);
}

BOOST_AUTO_TEST_CASE(a_winner_whose_confirmation_is_outstanding_is_named_as_that) {
  {
    RunFacts about;
    about.name = "won", about.task_name = "softmax", about.target = "cpu";
    about.task_files = {{"task.yaml", "name: softmax\n"}};
    about.environment = {{"devices", nlohmann::json::array()}};
    auto writer = RecordWriter::create(RunFolder(folder / "won"), about);
    BOOST_TEST_REQUIRE(writer.has_value());
    for (const IndividualId id : {1, 2})
      BOOST_TEST_REQUIRE(writer
                             ->step(1.0,
                                    [&](Step& step) {
                                      Individual i;
                                      i.id = id;
                                      i.variant_id = i.source_id =
                                          std::string(64, static_cast<char>('a' + id));
                                      i.descent.origin = Origin::seed;
                                      i.fitness = 10.0 * static_cast<double>(id);
                                      Evaluation e;
                                      e.verdict = Evaluation::Verdict::measured;
                                      e.fitness = i.fitness;
                                      e.unit = "GB/s";
                                      step.propose(i, "text", "s");
                                      step.judge(i, e);
                                      if (id == 1) step.promote(1, 10.0);
                                      if (id == 2)
                                        step.duel(2, 1, Verdict::better, 0.01, nlohmann::json::object(), {});
                                    })
                             .has_value());
  }
  const auto status = run({"status", "won"});
  BOOST_TEST(contains(status.out, "best        #1 at 10 GB/s"), status.out + status.err);
  BOOST_TEST(contains(status.out, "#2 at 20 GB/s during the search, confirmation pending"), status.out);
  BOOST_TEST(facts(run({"status", "won", "--json"}))["outstanding"]["id"] == 2);
  const auto shown = run({"show", "won", "2"});
  BOOST_TEST(contains(shown.out, "Its confirmation is pending"), shown.out + shown.err);
  BOOST_TEST(!contains(run({"show", "won", "1"}).out, "pending"));
}

BOOST_AUTO_TEST_CASE(a_plan_advice_and_lost_notifications_are_shown) {
  {
    RunFacts about;
    about.name = "told", about.task_name = "softmax", about.target = "cpu";
    about.task_files = {{"task.yaml", "name: softmax\n"}};
    about.environment = {{"devices", nlohmann::json::array()}};
    auto writer = RecordWriter::create(RunFolder(folder / "told"), about);
    BOOST_TEST_REQUIRE(writer.has_value());
    const nlohmann::json plan{{"question", 7}, {"strategies", {"fuse the passes", std::string(300, 'x')}}};
    const auto write = [&](Step& step) {
      step.set("plan", plan.dump());
      step.set("gate_advice", "noise");
      step.set("undelivered", "no answer");
    };
    BOOST_TEST_REQUIRE(writer->step(1.0, write).has_value());
  }
  const std::string status = run({"status", "told"}).out;
  BOOST_TEST(contains(status, "  plan        of question 7: fuse the passes; xxx"), status);
  BOOST_TEST(!contains(status, std::string(100, 'x')), status);
  BOOST_TEST(contains(status, "  advice      noise\n"), status);
  BOOST_TEST(contains(status, "  trouble     no answer\n"), status);
  const auto as_json = facts(run({"status", "told", "--json"}));
  BOOST_TEST(as_json["plan"]["question"] == 7);
  BOOST_TEST(as_json["gate_advice"] == "noise");
  BOOST_TEST(as_json["undelivered"] == "no answer");
  BOOST_TEST(run({"report", "told", "--out", "page"}).exit == 0);
  const std::string page = read_text(folder / "page/report.md");
  BOOST_TEST(contains(page, "## The present plan, of question 7\n\n- fuse the passes\n- xxx"), page);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_profiled_is_said_before_any_work) {
  BOOST_TEST(contains(run({"profile", "no_such_kernel"}).err, "no file, run or seed"));
  BOOST_TEST(contains(run({"profile", "naive"}).err, "with --task (add_rmsnorm, "));
  BOOST_TEST(run({"profile", "vectorised", "--task", "softmax", "--target", "cuda"}).exit != 0);
  const auto workload = run({"profile", "vectorised", "--task", "softmax", "--workload", "nothing"});
  BOOST_TEST(workload.exit == 2);
  BOOST_TEST(contains(workload.err, "has no workload 'nothing'"), workload.err);
  const auto orphan = run({"profile", "vectorised", "--task", "softmax", "--against", "parent"});
  BOOST_TEST(orphan.exit == 2);
  BOOST_TEST(contains(orphan.err, "`parent` needs an individual"), orphan.err);
}

BOOST_AUTO_TEST_CASE(a_gpu_that_does_not_exist_is_a_missing_device) {
  const auto result = run({"evaluate", "softmax", CULTIVAR_SOURCE_DIR "/tests/kernels/cuda/two_kernels.cu",
                           "--target", "cuda:63"});
  BOOST_TEST(result.exit == 3);
  BOOST_TEST(contains(result.err, "cultivar evaluate: "), result.err);
}

BOOST_AUTO_TEST_SUITE_END()

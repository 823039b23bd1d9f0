// SPDX-License-Identifier: Apache-2.0
// Any program as a language model: real programs, good ones and bad ones.
#include "operators/llm/command.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <future>
#include <thread>

#include "operators/llm/chat_errors.hpp"
#include "operators/llm/tool_text.hpp"
#include "support/ask_and_wait.hpp"
#include "support/chat_models.hpp"
#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;
using Kind = ChatError::Kind;

namespace {

struct Programs : TemporaryFolder {
  std::string script(const std::string& text) {
    const auto file = path() / ("model" + std::to_string(++number) + ".sh");
    write_text(file, "#!/bin/bash\n" + text, true);
    return file.string();
  }
  ChatResult ask(const std::string& text, std::vector<std::string> arguments = {},
                 CommandModelOptions::Answer answer = CommandModelOptions::Answer::text,
                 ChatTimeouts timeouts = {5, 5, 5, 10}) {
    CommandModelOptions options;
    options.command = {script(text)};
    options.command.insert(options.command.end(), arguments.begin(), arguments.end());
    options.answer = answer;
    options.model = "a-script";
    options.timeouts = timeouts;
    options.bounds.answer_bytes = 100'000;
    CommandModel model(options);
    return ask_and_wait(model, request);
  }
  ChatRequest request = question("Make it faster; $(touch /tmp/never) `x` \"q\" \xE2\x82\xAC");
  int number = 0;
};

#define CHECK_KIND(result, wanted)                                               \
  do {                                                                           \
    const ChatResult& r_ = (result);                                             \
    BOOST_TEST_REQUIRE(!r_.has_value(), words_of(r_));                           \
    BOOST_TEST(name_of(r_.error().kind) == name_of(wanted), r_.error().message); \
  } while (false)

bool alive(const std::string& pid) {
  return ::kill(std::stoi(pid), 0) == 0;
}

// Whether all processes that the file names end within moments.
bool gone(const std::filesystem::path& file) {
  std::istringstream list(read_text(file));
  std::string pid;
  int count = 0;
  while (list >> pid) {
    ++count;
    for (int i = 0; i < 500 && alive(pid); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (alive(pid)) return false;
  }
  return count > 0;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(command, Programs)

BOOST_AUTO_TEST_CASE(the_prompt_comes_on_stdin_and_stdout_is_the_answer) {
  const ChatResult result = ask("cat; echo from the program");
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  BOOST_TEST(result->text == plain_prompt(request) + "from the program\n");
  BOOST_TEST(result->model == "a-script");
  BOOST_TEST(result->usage.estimated);
  BOOST_TEST(result->usage.input == estimated_tokens(plain_prompt(request).size()));
}

BOOST_AUTO_TEST_CASE(the_prompt_may_come_as_a_file_and_the_answer_go_into_one) {
  const ChatResult result = ask("pwd; read -t 1 line && exit 9; cp \"$1\" \"$2\"; echo . >> \"$2\"",
                                {"{prompt_file}", "{answer_file}"}, CommandModelOptions::Answer::file);
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  BOOST_TEST(result->text == plain_prompt(request) + ".\n");
}

BOOST_AUTO_TEST_CASE(it_works_in_a_fresh_folder_that_is_gone_afterwards) {
  const ChatResult result = ask("cat > /dev/null; touch left; pwd");
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  const std::string folder = result->text.substr(0, result->text.size() - 1);
  BOOST_TEST(!std::filesystem::exists(folder));
}

BOOST_AUTO_TEST_CASE(text_of_the_request_is_never_an_argument) {
  request = question("{answer_file} {prompt_file} {folder}");
  const ChatResult result = ask("cat; echo \"$#\"", {"-p", "{folder}x"});
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  BOOST_TEST(result->text.find("{answer_file} {prompt_file} {folder}") != std::string::npos);
  BOOST_TEST(result->text.ends_with("2\n"));
}

BOOST_AUTO_TEST_CASE(the_json_of_claude_brings_tokens_and_price) {
  const ChatResult result = ask(
      R"(cat > /dev/null; echo '{"type": "result", "is_error": false, "result": "done", "session_id": "s1",
          "total_cost_usd": 0.125, "usage": {"input_tokens": 3, "cache_read_input_tokens": 40, "output_tokens": 9}}')",
      {}, CommandModelOptions::Answer::claude_json);
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  BOOST_TEST(result->text == "done");
  BOOST_TEST(result->usd.value() == 0.125);
  BOOST_TEST(result->usage.cached == 40);
  BOOST_TEST(!result->usage.estimated);
  CHECK_KIND(ask("cat > /dev/null; echo '{\"result\": \"limit reached\", \"is_error\": true}'", {},
                 CommandModelOptions::Answer::claude_json),
             Kind::program_failed);
  const ChatResult other = ask("cat > /dev/null; echo Hello", {}, CommandModelOptions::Answer::claude_json);
  CHECK_KIND(other, Kind::garbage);
  BOOST_TEST(other.error().usage.input == estimated_tokens(plain_prompt(request).size()));
  BOOST_TEST(other.error().usage.estimated);
}

BOOST_AUTO_TEST_CASE(what_a_program_says_of_its_cost_is_kept_however_it_ends) {
  const std::string result =
      R"(echo '{"type": "result", "is_error": false, "result": "x", "total_cost_usd": 0.08, "usage": {"output_tokens": 9}}')";
  for (const std::string end : {"exit 1", "sleep 60", "kill -SEGV $$"}) {
    const ChatResult failed = ask("cat > /dev/null; " + result + "; " + end, {},
                                  CommandModelOptions::Answer::claude_json, {5, 5, 0.5, 10});
    BOOST_TEST_REQUIRE(!failed.has_value(), end);
    BOOST_TEST(failed.error().usd.value_or(0.0) == 0.08, end);
    BOOST_TEST(failed.error().usage.output == 9, end);
  }
}

BOOST_AUTO_TEST_CASE(codes_for_terminals_are_no_part_of_an_answer) {
  const ChatResult result = ask(R"(cat > /dev/null; printf '\033[0mIDEA: x\033[K\n\033]0;t\007end')");
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  BOOST_TEST(result->text == "IDEA: x\nend");
}

BOOST_AUTO_TEST_CASE(a_program_that_fails_says_why) {
  const ChatResult result = ask("cat > /dev/null; echo 'not logged in' >&2; exit 3");
  CHECK_KIND(result, Kind::program_failed);
  BOOST_TEST(result.error().message.find("exited with 3") != std::string::npos);
  BOOST_TEST(result.error().message.find("not logged in") != std::string::npos);
  CHECK_KIND(ask("kill -SEGV $$"), Kind::program_failed);
}

BOOST_AUTO_TEST_CASE(a_missing_program_is_unreachable) {
  CommandModelOptions options;
  options.command = {"no-such-program-anywhere"};
  CommandModel model(options);
  CHECK_KIND(ask_and_wait(model, request), Kind::unreachable);
}

BOOST_AUTO_TEST_CASE(nothing_is_an_answer_without_text_and_a_missing_file_is_none) {
  for (const char* const nothing : {"cat > /dev/null", "cat > /dev/null; echo"}) {
    const ChatResult blank = ask(nothing);
    BOOST_TEST_REQUIRE(blank.has_value(), words_of(blank));
    BOOST_TEST(says_nothing(*blank));
    BOOST_TEST(blank->usage.input > 0);
  }
  CHECK_KIND(ask("true", {"{answer_file}"}, CommandModelOptions::Answer::file), Kind::garbage);
  for (const char* const no_file : {"mkfifo \"$1\"", "mkdir \"$1\"", "ln -s /dev/zero \"$1\""})
    CHECK_KIND(ask(no_file, {"{answer_file}"}, CommandModelOptions::Answer::file), Kind::garbage);
}

BOOST_AUTO_TEST_CASE(a_program_that_does_not_read_its_prompt_does_no_harm) {
  request = question(std::string(3 << 20, 'p'));  // far more than a pipe holds
  const ChatResult result = ask("exec 0<&-; sleep 0.2; echo answered");
  BOOST_TEST_REQUIRE(result.has_value(), words_of(result));
  BOOST_TEST(result->text == "answered\n");
}

BOOST_AUTO_TEST_CASE(a_program_that_hangs_is_killed_with_all_that_it_started) {
  const auto file = path() / "children";
  const ChatResult result =
      ask("sleep 600 & echo $! > " + file.string() + "; sleep 600 & echo $! >> " + file.string() + "; wait",
          {}, CommandModelOptions::Answer::text, {5, 0.7, 5, 10});
  CHECK_KIND(result, Kind::timeout_first_byte);
  std::istringstream children(read_text(file));
  std::string pid;
  int count = 0;
  while (children >> pid) {
    ++count;
    for (int i = 0; i < 200 && alive(pid); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    BOOST_TEST(!alive(pid));
  }
  BOOST_TEST(count == 2);
}

BOOST_AUTO_TEST_CASE(silence_and_length_have_their_limits) {
  CHECK_KIND(ask("echo begun; sleep 600", {}, CommandModelOptions::Answer::text, {5, 5, 0.4, 10}),
             Kind::timeout_idle);
  CHECK_KIND(ask("while echo .; do sleep 0.1; done", {}, CommandModelOptions::Answer::text, {5, 5, 5, 0.8}),
             Kind::timeout_total);
}

BOOST_AUTO_TEST_CASE(a_flood_is_stopped_at_the_bound) {
  CHECK_KIND(ask("yes"), Kind::too_large);
  CHECK_KIND(ask("yes | head -c 300000 > \"$1\"", {"{answer_file}"}, CommandModelOptions::Answer::file),
             Kind::too_large);
  const ChatResult noisy = ask("yes | head -c 5000000 >&2; echo fine");  // stderr is not the answer
  BOOST_TEST_REQUIRE(noisy.has_value(), words_of(noisy));
  BOOST_TEST(noisy->text == "fine\n");
}

BOOST_AUTO_TEST_CASE(an_answer_ends_where_its_tokens_were_reserved_and_counts_no_more) {
  const ChatResult flood = ask("yes");  // 1000 tokens were asked for
  CHECK_KIND(flood, Kind::too_large);
  BOOST_TEST(flood.error().message ==
             "killed: more than 21384 bytes of output; the limit for an answer is 1000 tokens "
             "(max_output_tokens)");
  BOOST_TEST(flood.error().usage.output == 1000);
  const ChatResult file =
      ask("yes | head -c 21385 > \"$1\"", {"{answer_file}"}, CommandModelOptions::Answer::file);
  CHECK_KIND(file, Kind::too_large);
  BOOST_TEST(file.error().usage.output == 1000);
  BOOST_TEST(ask("yes | head -c 21384").has_value());
}

BOOST_AUTO_TEST_CASE(stopping_kills_it_at_once) {
  CommandModelOptions options;
  options.command = {script("echo begun; sleep 600")};
  CommandModel model(options);
  std::stop_source stop;
  auto result =
      std::async(std::launch::async, [&] { return ask_and_wait(model, request, stop.get_token()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto begun = std::chrono::steady_clock::now();
  stop.request_stop();
  CHECK_KIND(result.get(), Kind::cancelled);
  BOOST_TEST((std::chrono::steady_clock::now() - begun < std::chrono::seconds(3)));
}

BOOST_AUTO_TEST_CASE(a_model_that_goes_takes_its_programs_with_it) {
  std::atomic<int> cancelled = 0;
  {
    CommandModelOptions options;
    options.command = {script("sleep 600")};
    CommandModel model(options);
    for (int i = 0; i < 5; ++i) {
      ChatListener listener;
      listener.done = [&](ChatResult result) {
        if (!result && result.error().kind == Kind::cancelled) ++cancelled;
      };
      model.ask(request, {}, std::move(listener));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  BOOST_TEST(cancelled.load() == 5);
}

BOOST_AUTO_TEST_CASE(tools_stand_in_the_prompt_with_how_they_are_called) {
  request.tools.push_back({"compile", "Compiles a source.", nlohmann::json::object()});
  const ChatResult answer = ask("cat");
  BOOST_TEST_REQUIRE(answer.has_value(), words_of(answer));
  BOOST_TEST(answer->text.find("## Tool `compile`\n\nCompiles a source.") != std::string::npos);
  BOOST_TEST(answer->text.find("```tool\n{\"tool\": \"NAME\"") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(processes_that_a_program_hid_in_another_session_end_with_the_call) {
  const auto file = path() / "hidden";
  CHECK_KIND(ask("setsid sleep 600 & echo $! > " + file.string() + "; sleep 600", {},
                 CommandModelOptions::Answer::text, {5, 0.7, 5, 10}),
             Kind::timeout_first_byte);
  BOOST_TEST(gone(file));
}

// As if the search were killed with SIGKILL: no cleanup code can run.
BOOST_AUTO_TEST_CASE(
    when_the_search_is_killed_all_that_its_model_started_dies_and_its_folder_goes_at_the_next_start) {
  const auto pids = path() / "pids", work = path() / "work";
  CommandModelOptions options;
  options.command = {script("pwd > " + work.string() + "; setsid sleep 600 & echo $! > " + pids.string() +
                            "; echo $$ >> " + pids.string() + "; sleep 600")};
  const pid_t search = ::fork();
  BOOST_TEST_REQUIRE(search >= 0);
  if (search == 0) {
    CommandModel model(options);
    (void)ask_and_wait(model, request);
    ::_exit(1);
  }
  const auto two_lines = [&] {
    const std::string text = std::filesystem::exists(pids) ? read_text(pids) : std::string();
    return std::count(text.begin(), text.end(), '\n') == 2;
  };
  for (int i = 0; i < 1000 && !two_lines(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ::kill(search, SIGKILL);
  BOOST_TEST(::waitpid(search, nullptr, 0) == search);
  BOOST_TEST(gone(pids));

  std::string folder = read_text(work);
  folder.pop_back();
  BOOST_TEST_REQUIRE(std::filesystem::is_directory(folder));
  { const CommandModel young(options); }
  BOOST_TEST(std::filesystem::exists(folder));  // its owner might be about to take the lock
  std::filesystem::last_write_time(folder,
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  { const CommandModel next(options); }
  BOOST_TEST(!std::filesystem::exists(folder));
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_in_use_stays_however_old_it_is) {
  CommandModelOptions options;
  options.command = {script("touch -d '2 hours ago' .; pwd; sleep 1; test -d . && ls -d \"$PWD\"")};
  CommandModel model(options);
  auto result = std::async(std::launch::async, [&] { return ask_and_wait(model, request); });
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const CommandModel other(options);
  }
  const ChatResult answer = result.get();
  BOOST_TEST(answer.has_value(), words_of(answer));
}

BOOST_AUTO_TEST_CASE(a_price_that_cannot_be_is_none) {
  const auto said = [&](const std::string& numbers) {
    return ask("cat > /dev/null; echo '{\"result\": \"done\", " + numbers + "}'", {},
               CommandModelOptions::Answer::claude_json);
  };
  const ChatResult negative =
      said(R"("total_cost_usd": -1000.0, "usage": {"input_tokens": -1000000000000000, "output_tokens": -1})");
  BOOST_TEST_REQUIRE(negative.has_value(), words_of(negative));
  BOOST_TEST(!negative->usd.has_value());
  BOOST_TEST(negative->usage.estimated);
  const ChatResult endless = said(R"("total_cost_usd": 1e308, "usage": {"input_tokens": 1.5e300})");
  BOOST_TEST_REQUIRE(endless.has_value(), words_of(endless));
  BOOST_TEST(endless->usd.value() <= 1e6);
  BOOST_TEST(endless->usage.total() <= 4'000'000'000);
}

BOOST_AUTO_TEST_SUITE_END()

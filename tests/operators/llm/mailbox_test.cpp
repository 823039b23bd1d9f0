// SPDX-License-Identifier: Apache-2.0
// A person or an agent as the model: answers come from a second thread, or a second process.
#include "operators/llm/mailbox.hpp"

#include <sys/stat.h>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <future>
#include <thread>

#include "support/chat_models.hpp"
#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;
using Kind = ChatError::Kind;
namespace fs = std::filesystem;

namespace {

struct Mail : TemporaryFolder {
  Mail() {
    options.folder = path() / "mail";
    options.look_every_s = 0.02;
    options.settled_s = 0.15;
    options.timeouts.total_s = 20.0;
  }
  std::future<ChatResult> ask(MailboxModel& model, const ChatRequest& what, std::stop_token stop = {}) {
    auto promise = std::make_shared<std::promise<ChatResult>>();
    ChatListener listener;
    listener.done = [promise](ChatResult result) { promise->set_value(std::move(result)); };
    model.ask(what, std::move(stop), std::move(listener));
    return promise->get_future();
  }
  fs::path at(const std::string& name) const { return options.folder / name; }
  static bool appears(const fs::path& file) {
    for (int i = 0; i < 500; ++i) {
      if (fs::exists(file)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  ChatRequest request = question("Make it faster.", "mutate/7/0");
  std::string id = MailboxModel::file_stem(request);
  MailboxOptions options;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mailbox, Mail)

BOOST_AUTO_TEST_CASE(a_request_is_there_to_be_read_and_an_answer_is_taken) {
  MailboxModel model(options);
  auto result = ask(model, request);
  BOOST_TEST_REQUIRE(appears(at("requests/" + id + ".md")));
  const std::string text = read_text(at("requests/" + id + ".md"));
  BOOST_TEST(text.find("You write kernels.") != std::string::npos);
  BOOST_TEST(text.find("Make it faster.") != std::string::npos);
  BOOST_TEST(text.find("answers/" + id + ".md") != std::string::npos);
  const auto exact = nlohmann::json::parse(read_text(at("requests/" + id + ".json")));
  BOOST_TEST(exact.at("call") == "mutate/7/0");
  BOOST_TEST(hash_of(request_from_record(exact)) == hash_of(request));
  BOOST_TEST(read_text(at("README.md")).find("you are the language model") != std::string::npos);

  write_text(at("answers/" + id + ".md"), "Use larger tiles.\n");
  const ChatResult answer = result.get();
  BOOST_TEST_REQUIRE(answer.has_value(), words_of(answer));
  BOOST_TEST(answer->text == "Use larger tiles.\n");
  BOOST_TEST(fs::exists(at("answers/taken/" + id + ".md")));
  BOOST_TEST(fs::exists(at("requests/closed/" + id + ".md")));
  BOOST_TEST(!fs::exists(at("requests/" + id + ".md")));
}

BOOST_AUTO_TEST_CASE(another_process_can_be_the_model) {
  MailboxModel model(options);
  // All that a shell needs to know: read requests/*.md, write elsewhere, rename.
  const std::string program = "cd " + options.folder.string() +
                              "; for i in $(seq 500); do for f in requests/*.md; do [ -e $f ] || continue; "
                              "n=$(basename $f .md); [ -e answers/$n.md ] && continue; grep -q Q $f && grep "
                              "-o 'Q[0-9]*' $f > .a.$n && "
                              "mv .a.$n answers/$n.md; done; sleep 0.02; done";
  fs::create_directories(options.folder);
  RunningCommand agent({"/bin/sh", "-c", program});
  std::vector<std::future<ChatResult>> results;
  for (int i = 0; i < 20; ++i)
    results.push_back(ask(model, question("Q" + std::to_string(i), "mutate/" + std::to_string(i))));
  for (int i = 0; i < 20; ++i) {
    const ChatResult answer = results[static_cast<std::size_t>(i)].get();
    BOOST_TEST_REQUIRE(answer.has_value(), words_of(answer));
    BOOST_TEST(answer->text == "Q" + std::to_string(i) + "\n");
  }
}

BOOST_AUTO_TEST_CASE(an_answer_written_slowly_in_place_is_taken_when_it_is_whole) {
  MailboxModel model(options);
  auto result = ask(model, request);
  BOOST_TEST_REQUIRE(appears(at("requests/" + id + ".md")));
  {
    std::ofstream out(at("answers/" + id + ".md"));
    for (int i = 0; i < 10; ++i) {
      out << i << std::flush;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  BOOST_TEST(result.get()->text == "0123456789");
}

BOOST_AUTO_TEST_CASE(tools_are_called_by_json) {
  request.tools.push_back({"compile", "Compiles a source.", {{"type", "object"}}});
  id = MailboxModel::file_stem(request);
  MailboxModel model(options);
  auto result = ask(model, request);
  BOOST_TEST_REQUIRE(appears(at("requests/" + id + ".md")));
  BOOST_TEST(read_text(at("requests/" + id + ".md")).find("Compiles a source.") != std::string::npos);
  write_text(
      at("answers/" + id + ".json"),
      R"({"text": "I try it.", "model": "Ada", "tool_calls": [{"name": "compile", "arguments": {"source": "x"}}]})");
  const ChatResult answer = result.get();
  BOOST_TEST_REQUIRE(answer.has_value(), words_of(answer));
  BOOST_TEST(answer->model == "Ada");
  BOOST_TEST((answer->stop == StopReason::tool_calls));
  BOOST_TEST(answer->tool_calls.at(0).parsed()->at("source") == "x");
}

BOOST_AUTO_TEST_CASE(a_bad_answer_is_moved_aside_with_a_word_and_the_request_stays_open) {
  request.tools.push_back({"compile", "", {{"type", "object"}}});
  id = MailboxModel::file_stem(request);
  MailboxModel model(options);
  auto result = ask(model, request);
  BOOST_TEST_REQUIRE(appears(at("requests/" + id + ".md")));
  const std::vector<std::pair<std::string, std::string>> bad{
      {"{\"text\": ", "not valid JSON: the text ends too early"},
      {"{\n \"text\": \"two\nlines\"}", "not valid JSON: line 2, byte 14"},
      {"[]", "one JSON object"},
      {"{\"text\": 1e999}", "not valid JSON: a number is too large"},
      {"{\"txt\": \"x\"}", "no key \"txt\""},
      {"{\"text\": 7}", "must be a string"},
      {"{}", "neither a text nor tool calls"},
      {"{\"tool_calls\": [{\"name\": \"complie\"}]}", "no tool \"complie\"; the request offers: compile"},
      {"{\"tool_calls\": [{\"name\": \"compile\", \"arguments\": [1]}]}", "must be an object"},
  };
  for (std::size_t i = 0; i < bad.size(); ++i) {
    write_text(at("answers/" + id + ".json"), bad[i].first);
    const std::string stem = i == 0 ? id : id + "-" + std::to_string(i + 1);
    BOOST_TEST_REQUIRE(appears(at("answers/rejected/" + stem + ".json")));
    BOOST_TEST(read_text(at("answers/rejected/" + stem + ".json")) == bad[i].first);
    const std::string why = read_text(at("answers/rejected/" + stem + ".why.txt"));
    BOOST_TEST(why.find(bad[i].second) != std::string::npos, why);
    BOOST_TEST(why.find("json.exception") == std::string::npos, why);
    BOOST_TEST(fs::exists(at("requests/" + id + ".md")));
  }
  write_text(at("answers/" + id + ".md"), "right at last");
  BOOST_TEST(result.get()->text == "right at last");
}

BOOST_AUTO_TEST_CASE(links_pipes_folders_and_floods_are_no_answers) {
  options.bounds.answer_bytes = 1000;
  MailboxModel model(options);
  auto result = ask(model, request);
  BOOST_TEST_REQUIRE(appears(at("requests/" + id + ".md")));
  const fs::path answer = at("answers/" + id + ".md");
  fs::create_symlink("/etc/passwd", answer);
  BOOST_TEST(appears(at("answers/rejected/" + id + ".why.txt")));
  const std::string why = read_text(at("answers/rejected/" + id + ".why.txt"));
  BOOST_TEST(why.find("This is a symbolic link, and links are not followed") == 0U, why);
  BOOST_TEST(read_text(at("README.md")).find("a symbolic link is rejected") != std::string::npos);
  ::mkfifo(answer.c_str(), 0600);
  BOOST_TEST(appears(at("answers/rejected/" + id + "-2.why.txt")));
  fs::create_directory(answer);
  BOOST_TEST(appears(at("answers/rejected/" + id + "-3.why.txt")));
  write_text(answer, std::string(5000, 'x'));
  BOOST_TEST(appears(at("answers/rejected/" + id + "-4.why.txt")));
  write_text(answer, "  \n");
  BOOST_TEST(appears(at("answers/rejected/" + id + "-5.why.txt")));
  write_text(answer, "good");
  BOOST_TEST(result.get()->text == "good");
}

BOOST_AUTO_TEST_CASE(pipes_and_links_where_requests_are_written_are_removed_and_not_written_to) {
  fs::create_directories(at("requests"));
  write_text(path() / "mine", "mine");
  BOOST_REQUIRE(::mkfifo(at("requests/." + id + ".md.part").c_str(), 0600) == 0);
  fs::create_symlink(path() / "mine", at("requests/." + id + ".json.part"));
  MailboxModel model(options);
  auto result = ask(model, request);
  BOOST_TEST_REQUIRE(appears(at("requests/" + id + ".md")));
  BOOST_TEST(read_text(path() / "mine") == "mine");
  write_text(at("answers/" + id + ".json"),
             R"({"text": "good", "model": "a\u001b[2J)" + std::string(50'000, 'x') + "\"}");
  const auto answer = result.get();
  BOOST_REQUIRE(answer);
  BOOST_TEST(answer->model.size() < 120U);
  BOOST_TEST(answer->model.find('\x1b') == std::string::npos);
}

BOOST_AUTO_TEST_CASE(asked_again_after_a_crash_an_answer_is_found_wherever_it_lies) {
  {
    MailboxModel model(options);
    auto result = ask(model, request);
    BOOST_TEST_REQUIRE(appears(at("requests/" + id + ".md")));
  }  // gone without an answer: the request stays
  BOOST_TEST(fs::exists(at("requests/" + id + ".md")));
  write_text(at("answers/" + id + ".md"), "meanwhile");  // while no search runs
  {
    MailboxModel model(options);
    BOOST_TEST(ask(model, request).get()->text == "meanwhile");
  }
  MailboxModel model(options);  // the answer was taken, but the process died before it was recorded
  BOOST_TEST(ask(model, request).get()->text == "meanwhile");
}

BOOST_AUTO_TEST_CASE(a_request_ends_with_its_time_or_its_caller) {
  options.timeouts.total_s = 0.3;
  MailboxModel model(options);
  const ChatResult late = ask(model, request).get();
  BOOST_TEST_REQUIRE(!late.has_value());
  BOOST_TEST((late.error().kind == Kind::timeout_total));
  BOOST_TEST(fs::exists(at("requests/closed/" + id + ".md")));
  std::stop_source stop;
  auto stopped = ask(model, question("other", "x"), stop.get_token());
  stop.request_stop();
  BOOST_TEST((stopped.get().error().kind == Kind::cancelled));
}

BOOST_AUTO_TEST_CASE(a_request_that_is_cancelled_stays_open_until_it_is_withdrawn) {
  MailboxModel model(options);
  std::stop_source stop;
  auto stopped = ask(model, request, stop.get_token());
  BOOST_TEST_REQUIRE(appears(at("requests/" + id + ".md")));
  BOOST_TEST(!model.has_answer(request));
  stop.request_stop();
  BOOST_TEST((stopped.get().error().kind == Kind::cancelled));
  BOOST_TEST(fs::exists(at("requests/" + id + ".md")));
  BOOST_TEST(fs::exists(at("requests/" + id + ".json")));
  write_text(at("answers/" + id + ".json"), "{}");  // of no use
  BOOST_TEST(!model.has_answer(request));
  write_text(at("answers/" + id + ".md"), "meanwhile");
  BOOST_TEST(model.has_answer(request));
  fs::rename(at("answers/" + id + ".md"), at("answers/taken/" + id + ".md"));
  BOOST_TEST(model.has_answer(request));
  model.withdraw(request);
  BOOST_TEST(!fs::exists(at("requests/" + id + ".md")));
  BOOST_TEST(fs::exists(at("requests/closed/" + id + ".md")));
  BOOST_TEST(fs::exists(at("requests/closed/" + id + ".json")));
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_written_is_said) {
  write_text(path() / "file", "x");
  options.folder = path() / "file";
  MailboxModel model(options);
  const ChatResult result = ask(model, request).get();
  BOOST_TEST_REQUIRE(!result.has_value());
  BOOST_TEST((result.error().kind == Kind::unreachable));
}

BOOST_AUTO_TEST_CASE(a_call_s_name_never_leaves_the_folder) {
  BOOST_TEST(MailboxModel::file_stem(question("x", "../../etc/passwd")).find('/') == std::string::npos);
  BOOST_TEST(MailboxModel::file_stem(question("x", "a")) != MailboxModel::file_stem(question("y", "a")));
  BOOST_TEST(MailboxModel::file_stem(question("x", std::string(5000, 'a'))).size() < 100U);
}

BOOST_AUTO_TEST_SUITE_END()

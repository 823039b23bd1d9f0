// SPDX-License-Identifier: Apache-2.0
// A file system that is really full: nothing unfinished stays on it, whoever asked is told, and the search
// and its mailbox go on when there is space again. Skipped where no file system may be mounted.
#include <sys/mount.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <future>
#include <thread>

#include "engine/search/search.hpp"
#include "engine/store/checkpoint.hpp"
#include "engine/store/exchanges.hpp"
#include "engine/store/record.hpp"
#include "engine/store/summary.hpp"
#include "operators/llm/mailbox.hpp"
#include "support/chat_models.hpp"
#include "support/child_process.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace fs = std::filesystem;

namespace {

const std::atomic<bool> kNever{false};

class SmallDisk : public TemporaryFolder {
 public:
  SmallDisk() {
    fs::create_directory(disk);
    if (!mounted("size=2m", 0)) throw std::runtime_error("mount: " + std::string(std::strerror(errno)));
  }
  ~SmallDisk() { ::umount2(disk.c_str(), MNT_DETACH); }

  bool mounted(const char* options, unsigned long how) const {
    return ::mount("tmpfs", disk.c_str(), "tmpfs", how | MS_NOSUID | MS_NODEV, options) == 0;
  }
  void fill() const {
    std::ofstream out(disk / "others", std::ios::binary);
    const std::string block(4096, 'x');
    while (out.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  std::vector<std::string> files_with(const std::string& words) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(disk))
      if (entry.is_regular_file() && contains(entry.path().filename().string(), words))
        found.push_back(entry.path().string());
    return found;
  }

  const fs::path disk = path() / "disk";
};

boost::test_tools::assertion_result a_disk_can_be_mounted(boost::unit_test::test_unit_id) {
  try {
    const SmallDisk disk;
    return true;
  } catch (const std::exception& e) {
    boost::test_tools::assertion_result no(false);
    no.message() << "no tmpfs can be mounted: " << e.what();
    return no;
  }
}

bool soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

struct Mail : SmallDisk {
  Mail() {
    options.folder = disk / "mail";
    options.look_every_s = 0.02;
    options.settled_s = 0.0;
    options.timeouts.total_s = 60.0;
  }
  static std::future<ChatResult> ask(MailboxModel& model, const ChatRequest& what) {
    auto promise = std::make_shared<std::promise<ChatResult>>();
    ChatListener listener;
    listener.done = [promise](ChatResult result) { promise->set_value(std::move(result)); };
    model.ask(what, {}, std::move(listener));
    return promise->get_future();
  }
  // The answer's file is complete when it gets its name.
  void answer(const std::string& name, const std::string& text) const {
    write_text(options.folder / "draft", text);
    fs::rename(options.folder / "draft", options.folder / "answers" / name);
  }
  MailboxOptions options;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(full_disk, *boost::unit_test::precondition(a_disk_can_be_mounted))

BOOST_FIXTURE_TEST_CASE(a_letter_that_finds_no_space_leaves_nothing_and_a_bad_answer_waits_for_its_reason,
                        Mail) {
  MailboxModel model(options);
  const ChatRequest first = question("Make it faster.", "mutate/1/0");
  const std::string id = MailboxModel::file_stem(first);
  auto result = ask(model, first);
  BOOST_TEST_REQUIRE(soon([&] { return fs::exists(options.folder / "requests" / (id + ".md")); }));
  write_text(options.folder / "draft", "{\"text\": 7}");
  fill();
  fs::rename(options.folder / "draft", options.folder / "answers" / (id + ".json"));
  // The mailbox looks at the answer after each of these.
  for (const char* call : {"mutate/2/0", "mutate/3/0", "mutate/4/0"}) {
    const ChatResult refused = ask(model, question("Faster still.", call)).get();
    BOOST_TEST_REQUIRE(!refused);
    BOOST_TEST(contains(refused.error().message, "cannot write to the mailbox: "), refused.error().message);
    BOOST_TEST(contains(refused.error().message, "No space left"), refused.error().message);
    BOOST_TEST((refused.error().kind == ChatError::Kind::unwritable));
  }
  BOOST_TEST(files_with(".part").empty());
  BOOST_TEST(files_with("mutate-3").empty());
  BOOST_TEST(fs::exists(options.folder / "answers" / (id + ".json")));

  fs::remove(disk / "others");
  const fs::path rejected = options.folder / "answers" / "rejected";
  BOOST_TEST_REQUIRE(soon([&] { return fs::exists(rejected / (id + ".json")); }));
  BOOST_TEST(read_text(rejected / (id + ".json")) == "{\"text\": 7}");
  const std::string why = read_text(rejected / (id + ".why.txt"));
  BOOST_TEST(contains(why, "must be a string"), why);
  BOOST_TEST(fs::directory_entry(rejected / (id + "-2.why.txt")).exists() == false);
  answer(id + ".md", "Larger tiles.");
  BOOST_TEST(result.get()->text == "Larger tiles.");
  BOOST_TEST(files_with(".part").empty());
}

BOOST_FIXTURE_TEST_CASE(a_question_waits_for_space_in_its_mailbox_longer_than_its_attempts, SmallDisk) {
  fill();
  std::atomic<bool> stop{false};
  std::atomic<int> troubles{0};
  SearchCallbacks callbacks;
  callbacks.event = [&](const Event& event) {
    troubles += event.kind == "trouble" && contains(event.text, "No space left");
  };
  const Config config = softmax_config(
      path() / "config", {"models.me={provider: mailbox, folder: \"" + (disk / "mail").string() +
                              "\", retry: {attempts: 1, first_wait: 1s, longest_wait: 1s}}",
                          "operators={mutate: 1}", "budget.evaluations=1000"});
  const fs::path run = path() / "run";
  Runtime runtime;
  runtime.evaluator = [](const Config&, const fs::path&) {
    return std::make_unique<SimulatedEvaluator>(Simulation{});
  };
  auto search =
      std::async(std::launch::async, [&] { return begin_search(config, run, runtime, callbacks, stop); });
  const auto waits = [&] {  // as `status` shows it, some tries later
    const auto record = Record::open(run);
    if (!record || exchanges_of(*record).size() < 4) return false;
    const nlohmann::json questions = summary_of(*record).questions;
    return questions.is_object() && contains(questions.value("paused", ""), "No space left");
  };
  BOOST_TEST((soon(waits) || soon(waits)));
  BOOST_TEST(troubles == 1);
  fs::remove(disk / "others");
  BOOST_TEST(soon([&] { return !files_with("mutate-").empty(); }));
  stop = true;
  BOOST_TEST(search.get().has_value());
}

BOOST_FIXTURE_TEST_CASE(a_search_tells_of_it_leaves_nothing_unfinished_and_goes_on_with_more_space,
                        SmallDisk) {
  const fs::path run = disk / "run", told = path() / "told", heard = path() / "heard";
  write_text(path() / "hear.sh",
             "#!/bin/sh\ncat >> '" + heard.string() + "'\necho >> '" + heard.string() + "'\n", true);
  Runtime runtime;
  runtime.installation.tasks = std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks";
  runtime.trusts_record = true;
  runtime.evaluator = [](const Config&, const fs::path&) {
    return std::make_unique<SimulatedEvaluator>(Simulation{});
  };
  wait_for(in_child(told, [&] {
    const Config config =
        softmax_config(path() / "config",
                       {"budget.evaluations=100000", "checkpoint.every=1s",
                        "notify=[{command: [\"" + (path() / "hear.sh").string() + "\"], on: [trouble]}]"});
    return told_by(begin_search(config, run, runtime, {}, kNever));
  }));
  const std::string text = read_text(told);
  BOOST_TEST(contains(text, "all recorded steps are safe"), text);
  BOOST_TEST(contains(read_text(heard), "all recorded steps are safe"), read_text(heard));
  for (const char* rest : {"unfinished", ".part", ".tmp", "restored"})
    BOOST_TEST(files_with(rest).empty(), rest);
  BOOST_TEST(damage_of(run / "run.db", true).empty());
  const std::int64_t judged = summary_of(*Record::open(run)).evaluations;
  BOOST_TEST(judged > 5);

  BOOST_REQUIRE(mounted("size=64m", MS_REMOUNT));
  const std::string budget = "budget.evaluations=" + std::to_string(judged + 30);
  wait_for(in_child(told, [&] { return told_by(resume_search(run, {budget}, runtime, {}, kNever)); }));
  BOOST_TEST(contains(read_text(told), "evaluations is exhausted"), read_text(told));
  wait_for(in_child(told, [&] { return told_by(replay(run, runtime)); }));
  BOOST_TEST(read_text(told) == "agrees");
}

BOOST_FIXTURE_TEST_CASE(the_status_of_a_search_that_could_not_record_its_end_says_why_it_ended, SmallDisk) {
  const fs::path run = disk / "run";
  SearchCallbacks callbacks;
  callbacks.progress = [&](const Progress& progress) {
    if (progress.evaluations > 5 && !fs::exists(disk / "others")) fill();
  };
  Runtime runtime;
  runtime.evaluator = [](const Config&, const fs::path&) {
    return std::make_unique<SimulatedEvaluator>(Simulation{});
  };
  const auto outcome = begin_search(softmax_config(path() / "config", {"budget.evaluations=100000"}), run,
                                    runtime, callbacks, kNever);
  BOOST_REQUIRE(outcome);
  BOOST_TEST((outcome->stop == Outcome::Stop::failed), outcome->reason);
  const auto status = [&] { return summary_of(*Record::open(run)); };
  BOOST_TEST(status().state == "failed");
  BOOST_TEST(status().stop_reason == outcome->reason);
  BOOST_TEST(contains(status().stop_reason, "Free disk space, then resume"), status().stop_reason);
}

BOOST_FIXTURE_TEST_CASE(a_damaged_record_that_cannot_be_restored_for_lack_of_space_stays_as_it_is,
                        SmallDisk) {
  const fs::path run = disk / "run", told = path() / "told";
  Runtime runtime;
  runtime.installation.tasks = std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks";
  runtime.evaluator = [](const Config&, const fs::path&) {
    return std::make_unique<SimulatedEvaluator>(Simulation{});
  };
  const auto session = [&](const std::string& evaluations) {
    wait_for(in_child(told, [&] {
      if (fs::exists(run / "run.db"))
        return told_by(resume_search(run, {"budget.evaluations=" + evaluations}, runtime, {}, kNever));
      return told_by(begin_search(softmax_config(path() / "config", {"budget.evaluations=" + evaluations}),
                                  run, runtime, {}, kNever));
    }));
    return read_text(told);
  };
  BOOST_REQUIRE(contains(session("10"), "evaluations is exhausted"));
  {
    std::fstream db(run / "run.db", std::ios::in | std::ios::out | std::ios::binary);
    db.seekp(8192);
    db << std::string(4096, 'x');
  }
  const std::string before = read_text(run / "run.db");
  fill();
  // Enough to open the damaged record, not for a copy of its checkpoint.
  fs::resize_file(disk / "others", fs::file_size(disk / "others") - (64 << 10));
  const std::string refused = session("20");
  BOOST_TEST(contains(refused, "the disk is full"), refused);
  BOOST_TEST(files_with("restored").empty());
  BOOST_TEST(read_text(run / "run.db") == before);
  fs::remove(disk / "others");
  BOOST_TEST(contains(session("20"), "evaluations is exhausted"), read_text(told));
  BOOST_TEST(summary_of(*Record::open(run)).evaluations == 20);
}

BOOST_AUTO_TEST_SUITE_END()

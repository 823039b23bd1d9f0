// SPDX-License-Identifier: Apache-2.0
// The inbox of a run, with everything in it that a file can be.
#include "engine/store/submissions.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/contains.hpp"
#include "support/simulated_evaluator.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

struct Run : ScratchFolder {
  Run() { fs::create_directories(folder.submissions()); }
  fs::path at(const std::string& name) const { return folder.submissions() / name; }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(at(name), std::ios::binary) << text;
  }
  static json body() {
    return {{"source", "a source"}, {"note", "mine"}, {"configuration", json::object()}, {"parents", {1}}};
  }
  void put_valid(const std::string& name) const { put(name, body().dump()); }
  // What is said of this one.
  std::string said(const std::string& name) {
    const Inbox::Found found = inbox.look();
    BOOST_TEST(found.submissions.empty());
    BOOST_TEST(!fs::exists(fs::symlink_status(at(name))), name);
    return found.troubles.size() == 1 ? found.troubles[0] : "not one trouble";
  }
  std::string said_of(const std::string& text) {
    put("it.json", text);
    return said("it.json");
  }

  RunFolder folder{path() / "run"};
  Inbox inbox{folder};
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(submissions, Run)

BOOST_AUTO_TEST_CASE(what_is_no_regular_file_is_put_aside_with_its_reason) {
  BOOST_REQUIRE(::mkfifo(at("pipe.json").c_str(), 0600) == 0);
  BOOST_TEST(contains(said("pipe.json"), "pipe.json is not a valid submission"));
  fs::create_directory(at("folder.json"));
  put("folder.json/file", "kept");
  BOOST_TEST(contains(said("folder.json"), "it is not a regular file"));
  BOOST_TEST(fs::exists(folder.damaged() / "folder.json/file"));
  fs::create_symlink("/etc/passwd", at("link.json"));
  BOOST_TEST(contains(said("link.json"), "it is a symbolic link"));
  fs::create_symlink("/dev/zero", at("device.json"));
  BOOST_TEST(contains(said("device.json"), "it is a symbolic link"));
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string place = at("s.json");
  BOOST_REQUIRE(place.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, place.c_str(), place.size());
  BOOST_REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  BOOST_TEST(contains(said("s.json"), "cannot be read"));
  ::close(listener);
  put("huge.json", "");
  fs::resize_file(at("huge.json"), std::uintmax_t{1} << 42);
  BOOST_TEST(contains(said("huge.json"), "at most 4194304 are read"));
}

BOOST_AUTO_TEST_CASE(what_is_no_submission_is_put_aside_with_its_reason) {
  const auto changed = [](const char* key, const json& value) {
    json text = body();
    text[key] = value;
    return text.dump();
  };
  BOOST_TEST(contains(said_of(""), "the text is empty"));
  BOOST_TEST(contains(said_of(std::string(1000, '\0')), "not valid JSON"));
  BOOST_TEST(contains(said_of("\xff\xfe{}"), "not valid JSON"));
  BOOST_TEST(contains(said_of(std::string(1'000'000, '[')), "nested more than"));
  BOOST_TEST(contains(said_of("[]"), "not a valid submission"));
  BOOST_TEST(contains(said_of("{\"source\": 1e999}"), "a number is too large"));
  BOOST_TEST(contains(said_of(changed("source", 7)), "must be string"));
  BOOST_TEST(contains(said_of(changed("note", std::string(100'000, 'n'))), "its note has 100000 bytes"));
  BOOST_TEST(contains(said_of(changed("parents", std::vector<int>(256, 1))), "it names 256 parents"));
  BOOST_TEST(contains(said_of(changed("parents", {1e300})), "individuals' numbers"));
  BOOST_TEST(contains(said_of(changed("configuration", {{"A", 1e300}})), "a whole number or a name"));
  BOOST_TEST(contains(said_of(changed("configuration", {{"A", 0.5}})), "a whole number or a name"));
  BOOST_TEST(contains(said_of(changed("configuration", {{"A", nullptr}})), "a whole number or a name"));
}

BOOST_AUTO_TEST_CASE(a_name_is_shown_as_text_and_what_was_put_aside_earlier_is_kept) {
  const std::string name = "a\n\x1b[2J\xff.json";
  for (int i = 0; i < 3; ++i) {
    put(name, "{");
    const std::string words = said(name);
    BOOST_TEST(words.find_first_of("\n\x1b") == std::string::npos, words);
    BOOST_TEST(contains(words, "a \\x1b[2J"), words);
  }
  BOOST_TEST(std::distance(fs::directory_iterator(folder.damaged()), {}) == 3);
  put(std::string(250, 'n') + ".json", "{");
  put(std::string(250, 'n') + ".json", "{");
  BOOST_TEST(inbox.look().troubles.size() == 1U);
}

BOOST_AUTO_TEST_CASE(what_can_be_neither_moved_nor_removed_is_read_once) {
  std::ofstream(folder.damaged()) << "in the way";
  for (int i = 0; i < 40; ++i) put(fmt::format("{:03}.json", i), "{");
  put_valid("valid.json");
  std::vector<Submission> found;
  for (int i = 0; i < 10 && found.empty(); ++i) {
    const Inbox::Found now = inbox.look();
    BOOST_TEST(now.troubles.empty());
    found = now.submissions;
  }
  BOOST_TEST_REQUIRE(found.size() == 1U);  // the others do not stand before it
  inbox.remove(found[0]);
  BOOST_TEST(!fs::exists(at("valid.json")));
  fs::create_directories(at("folder.json/x"));
  inbox.remove({at("folder.json"), "", "", {}, {}});
  BOOST_TEST(inbox.look().submissions.empty());
}

BOOST_AUTO_TEST_CASE(of_very_many_files_the_oldest_come_first_a_few_at_a_time) {
  constexpr int all = 20'000;
  for (int i = 0; i < all; ++i) put(fmt::format("{:06}.json", i), i % 2 == 0 ? body().dump() : "{");
  const auto begun = std::chrono::steady_clock::now();
  const Inbox::Found found = inbox.look();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  BOOST_TEST(took.count() < 5.0);
  BOOST_TEST(found.submissions.size() == 8U);
  BOOST_TEST(found.troubles.size() == 8U);
  BOOST_TEST(found.submissions.front().file.filename() == "000000.json");
  BOOST_TEST(found.submissions.back().file.filename() == "000014.json");
  BOOST_TEST(folder.submitted().size() == static_cast<std::size_t>(all - 8));
}

BOOST_AUTO_TEST_CASE(a_submission_that_would_be_refused_is_not_written) {
  const Submission large{{}, std::string(5 << 20, 's'), "", {}, {}};
  BOOST_TEST(!put_submission(folder, large));
  const auto written = put_submission(folder, {{}, "a source", "note", {{"A", std::int64_t{3}}}, {1, 2}});
  BOOST_REQUIRE(written);
  const Inbox::Found found = inbox.look();
  BOOST_TEST_REQUIRE(found.submissions.size() == 1U);
  BOOST_TEST(found.submissions[0].source == "a source");
  BOOST_TEST((found.submissions[0].parents == std::vector<IndividualId>{1, 2}));
  BOOST_TEST((found.submissions[0].configuration == Configuration{{"A", std::int64_t{3}}}));
  BOOST_TEST(waiting_like(folder, "a source", {{"A", std::int64_t{3}}}).has_value());
}

BOOST_AUTO_TEST_CASE(a_link_in_place_of_the_folder_does_not_choose_where_it_is_written) {
  const fs::path elsewhere = folder.path() / "elsewhere";
  fs::create_directories(elsewhere);
  fs::remove_all(folder.submissions());
  fs::create_directory_symlink(elsewhere, folder.submissions());
  const auto written = put_submission(folder, {{}, "a source", "note", {}, {}});
  BOOST_REQUIRE(!written);
  BOOST_TEST(written.error().message.find("is a symbolic link") != std::string::npos,
             written.error().message);
  BOOST_TEST(fs::is_empty(elsewhere));
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/binary_cache.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <barrier>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

using namespace cultivar;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  fs::path path = fs::temp_directory_path() / ("cultivar-cache-" + std::to_string(::getpid()));

  // Stored `age` hours ago.
  void store(const BinaryCache& cache, const std::string& key, std::size_t bytes, int age) {
    std::ofstream(path / "object", std::ios::binary) << std::string(bytes, 'x');
    const auto binary = cache.store(key, path / "object", {});
    BOOST_REQUIRE(binary);
    if (age > 0)
      fs::last_write_time(binary->path, fs::file_time_type::clock::now() - std::chrono::hours(age));
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(binary_cache, Folder)

BOOST_AUTO_TEST_CASE(what_was_not_used_for_longest_goes_first) {
  const BinaryCache cache(path / "cpu", ".so", 100'000);
  store(cache, "1old", 30'000, 3);
  store(cache, "2used", 30'000, 4);
  store(cache, "3young", 30'000, 1);
  BOOST_TEST(cache.find("2used").has_value());  // which makes it the youngest
  store(cache, "4new", 30'000, 0);
  BOOST_TEST(!cache.find("1old").has_value());
  BOOST_TEST(!cache.find("3young").has_value());  // down to three quarters
  BOOST_TEST(cache.find("2used").has_value());
  BOOST_TEST(cache.find("4new").has_value());
  BOOST_TEST(bytes_below(path / "cpu") < 75'000U);
}

BOOST_AUTO_TEST_CASE(a_complete_entry_stays_the_same_file_and_a_damaged_one_is_replaced) {
  const BinaryCache cache(path / "cpu", ".so", 200'000);
  store(cache, "key", 1'000, 2);
  const fs::path object = cache.find("key")->path;
  fs::create_hard_link(object, path / "opened");  // as a sandbox that is opened for this very file
  store(cache, "key", 1'000, 0);
  BOOST_TEST(fs::equivalent(object, path / "opened"));
  store(cache, "key", 2'000, 0);  // a compiler whose output is not the same each time
  BOOST_TEST(fs::equivalent(object, path / "opened"));
  std::ofstream(object) << "damaged";
  store(cache, "key", 2'000, 0);
  BOOST_TEST(!fs::equivalent(object, path / "opened"));
  BOOST_TEST(cache.find("key").has_value());
}

BOOST_AUTO_TEST_CASE(of_several_that_store_it_at_once_all_see_the_same_file) {
  constexpr int kKeys = 200, kAtOnce = 4;
  std::ofstream(path / "object", std::ios::binary) << std::string(1'000, 'x');
  std::vector<std::vector<ino_t>> seen(kAtOnce, std::vector<ino_t>(kKeys));
  std::barrier start(kAtOnce);
  std::vector<std::jthread> threads;
  for (int t = 0; t < kAtOnce; ++t)
    threads.emplace_back([&, t] {
      const BinaryCache cache(path / "cpu", ".so", 10'000'000);
      for (int key = 0; key < kKeys; ++key) {
        start.arrive_and_wait();
        struct stat facts {};
        if (const auto binary = cache.store(fmt::format("{:04}", 1000 + key), path / "object", {}))
          if (::stat(binary->path.c_str(), &facts) == 0) seen[t][key] = facts.st_ino;
      }
    });
  threads.clear();
  for (int t = 0; t < kAtOnce; ++t) BOOST_TEST(seen[t] == seen[0], boost::test_tools::per_element());
  BOOST_TEST(seen[0].back() != 0U);
}

BOOST_AUTO_TEST_CASE(below_its_limit_nothing_goes) {
  const BinaryCache cache(path / "cpu", ".so", 200'000);
  for (int i = 0; i < 6; ++i) store(cache, std::to_string(i) + "key", 30'000, 100 - i);
  for (int i = 0; i < 6; ++i) BOOST_TEST(cache.find(std::to_string(i) + "key").has_value());
  BOOST_TEST(bytes_below(path / "cpu") > 180'000U);
  BOOST_TEST(bytes_below(path / "nothing") == 0U);
}

BOOST_AUTO_TEST_CASE(a_kernel_that_went_is_compiled_again) {
  const BinaryCache cache(path / "cpu", ".so", 50'000);
  store(cache, "0first", 40'000, 2);
  store(cache, "0second", 40'000, 1);
  BOOST_TEST(!cache.find("0first").has_value());
  store(cache, "0first", 40'000, 0);
  BOOST_TEST(cache.find("0first").has_value());
}

BOOST_AUTO_TEST_SUITE_END()

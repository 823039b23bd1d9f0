// SPDX-License-Identifier: Apache-2.0
// Turns at a GPU, between processes. No GPU is needed for that.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "evaluators/devices/cuda/run/turns.hpp"
#include "evaluators/system/error.hpp"
#include "support/places.hpp"

using cultivar::cuda::Turns;

namespace {

// A file of this test's alone.
struct Place {
  std::filesystem::path file = cultivar::testing::tests_cache() / ("turns-" + std::to_string(::getpid()));
  ~Place() { std::filesystem::remove(file); }
};

// Another process, which says 'r' once it has the turn.
class Other {
 public:
  Other(const std::filesystem::path& file, const std::function<void(Turns&)>& with_the_turn) {
    BOOST_REQUIRE(::pipe(pipe_) == 0);
    pid_ = ::fork();
    BOOST_REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    {
      Turns turns(file);
      {
        const Turns::Turn turn = turns.take();
        say('r');
        with_the_turn(turns);
      }
      say('g');
      ::pause();
    }
    ::_exit(0);
  }
  ~Other() { end(); }
  char heard() const {
    char c = 0;
    BOOST_REQUIRE(::read(pipe_[0], &c, 1) == 1);
    return c;
  }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  void say(char c) const { (void)!::write(pipe_[1], &c, 1); }
  int pipe_[2] = {};
  pid_t pid_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_turns)

BOOST_AUTO_TEST_CASE(the_second_process_waits_until_the_first_gives_the_turn_back) {
  const Place place;
  const std::filesystem::path& file = place.file;
  Other first(file, [](Turns&) { ::usleep(300'000); });
  BOOST_TEST(first.heard() == 'r');
  Turns turns(file);
  const auto before = std::chrono::steady_clock::now();
  const Turns::Turn turn = turns.take();
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - before;
  BOOST_TEST(waited.count() > 0.15);
  BOOST_TEST(first.heard() == 'g');
}

BOOST_AUTO_TEST_CASE(turns_nest_and_only_the_outermost_gives_back) {
  const Place place;
  const std::filesystem::path& file = place.file;
  Turns turns(file), other(file);
  std::atomic<bool> had_it{false};
  std::jthread waits;
  {
    const Turns::Turn outer = turns.take();
    { const Turns::Turn inner = turns.take(); }
    waits = std::jthread([&] {
      const Turns::Turn turn = other.take();
      had_it = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    { const Turns::Turn inner = turns.take(); }
    BOOST_TEST(!had_it);
  }
  waits.join();
  const Turns::Turn again = turns.take();  // the other has had its turn, and gave it back
}

BOOST_AUTO_TEST_CASE(a_process_with_priority_gets_every_other_turn_beside_any_number_without) {
  const Place place;
  constexpr int searching = 6;
  std::atomic<bool> over{false};
  std::atomic<int> theirs{0};
  std::vector<std::jthread> others;
  for (int i = 0; i < searching; ++i)
    others.emplace_back([&] {
      Turns turns(place.file);
      while (!over) {
        const Turns::Turn turn = turns.take();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        ++theirs;
      }
    });
  Turns turns(place.file);
  turns.hasten(true);
  const auto taken = [&](int turns_of_mine) {
    const int before = theirs;
    for (int i = 0; i < turns_of_mine; ++i) {
      const Turns::Turn turn = turns.take();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return theirs - before;
  };
  (void)taken(5);
  const int beside = taken(50);
  turns.hasten(false);
  (void)taken(50);  // no lock is left behind: the others go on
  over = true;
  BOOST_TEST(beside <= 60);  // of 300 if all had equal priority
  BOOST_TEST(theirs > beside);
}

BOOST_AUTO_TEST_CASE(a_holder_that_is_killed_gives_its_turn_back) {
  const Place place;
  const std::filesystem::path& file = place.file;
  Other first(file, [](Turns&) { ::pause(); });
  BOOST_TEST(first.heard() == 'r');
  std::jthread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    first.end();
  });
  Turns turns(file);
  const Turns::Turn turn = turns.take();
}

BOOST_AUTO_TEST_CASE(a_turn_that_is_kept_ends_with_its_process_alone) {
  const Place place;
  const std::filesystem::path& file = place.file;
  Other first(file, [](Turns& turns) { turns.keep(); });
  BOOST_TEST(first.heard() == 'r');
  BOOST_TEST(first.heard() == 'g');  // it believes that it has given the turn back
  bool ended = false;
  std::jthread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ended = true;
    first.end();
  });
  Turns turns(file);
  const Turns::Turn turn = turns.take();
  BOOST_TEST(ended);
}

BOOST_AUTO_TEST_CASE(a_waiting_process_reports_progress) {
  const Place place;
  const std::filesystem::path& file = place.file;
  Other first(file, [](Turns&) { ::usleep(2'400'000); });
  BOOST_TEST(first.heard() == 'r');
  Turns turns(file);
  int signs = 0;
  turns.while_waiting([&] { ++signs; });
  const Turns::Turn turn = turns.take();
  BOOST_TEST(signs >= 1);
}

BOOST_AUTO_TEST_CASE(a_destructor_that_cannot_have_the_turn_gets_none_and_no_exception) {
  const Place place;
  const std::filesystem::path& file = place.file;
  Other first(file, [](Turns&) { ::pause(); });
  BOOST_TEST(first.heard() == 'r');
  Turns turns(file);
  turns.while_waiting([] { throw std::runtime_error("nobody listens any more"); });
  BOOST_TEST(!turns.take_or_not().has_value());
  // A turn that could not be given back lasts until the process ends; nothing continues, and no one is
  // blamed.
  first.end();
  BOOST_CHECK_EXCEPTION((void)turns.take(), std::runtime_error, [](const std::runtime_error& e) {
    return std::string(e.what()) == "nobody listens any more";
  });
  BOOST_TEST(!turns.take_or_not().has_value());
}

BOOST_AUTO_TEST_CASE(a_cache_that_cannot_be_written_is_said_with_the_remedy) {
  BOOST_CHECK_EXCEPTION(
      Turns("/proc/no-such/turns"), cultivar::MissingError, [](const cultivar::MissingError& e) {
        return std::string(e.what()).find("make the cache folder writable") != std::string::npos;
      });
}

BOOST_AUTO_TEST_SUITE_END()

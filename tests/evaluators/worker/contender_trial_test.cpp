// SPDX-License-Identifier: Apache-2.0
// Loads a contender's library in a separate process, which may crash.
#include "evaluators/contenders/library.hpp"

#include <boost/test/unit_test.hpp>

#include "support/contenders.hpp"
#include "support/words.hpp"

using namespace cultivar;
using cultivar::testing::words;

namespace {

Expected<std::string> tried(const std::string& macro) {
  static const testing::TemporaryFolder folder;
  return try_contender(CULTIVAR_BIN_DIR, testing::contender_library(folder.path(), macro),
                       std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax", target_named("cpu"));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(contender_trial)

BOOST_AUTO_TEST_CASE(a_library_that_loads_reports_its_version) {
  const auto version = tried("");
  BOOST_REQUIRE_MESSAGE(version, words(version));
  BOOST_TEST(*version == "1.0");
}

BOOST_AUTO_TEST_CASE(what_prevents_loading_is_reported) {
  const auto missing =
      try_contender(CULTIVAR_BIN_DIR, "/no/such/libx.so",
                    std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax", target_named("cpu"));
  BOOST_REQUIRE(!missing);
  BOOST_TEST(missing.error().message.find("does not load") != std::string::npos, missing.error().message);
}

BOOST_AUTO_TEST_CASE(a_library_without_its_vendors_says_what_to_install) {
  const auto version = tried("LACKS_ITS_VENDOR");
  BOOST_REQUIRE(!version);
  BOOST_TEST(version.error().message == "libvendor.so.9 does not load: install it");
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-License-Identifier: Apache-2.0
// Which limit on memory holds, from files as the kernel shows them.
#include "evaluators/system/memory_limit.hpp"

#include <boost/test/unit_test.hpp>

#include "support/command.hpp"
#include "support/contains.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

constexpr double kGiB = 1 << 30, kMachine = 24 * kGiB;

struct Cgroups : TemporaryFolder {
  void file(const std::string& name, const std::string& text) const {
    const auto whole = path() / name;
    std::filesystem::create_directories(whole.parent_path());
    write_text(whole, text);
  }
  MemoryLimit limit(const std::string& own) const { return cultivar::memory_limit(own, path(), kMachine); }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(memory_limit, Cgroups)

BOOST_AUTO_TEST_CASE(without_cgroups_it_is_the_machines) {
  const MemoryLimit found = limit("");
  BOOST_TEST(found.bytes == kMachine);
  BOOST_TEST(found.words == "the 24.0 GiB of this machine");
  BOOST_TEST(limit("0::/user.slice\n").bytes == kMachine);  // without the file
}

BOOST_AUTO_TEST_CASE(the_lowest_limit_on_the_way_to_the_root_holds) {
  file("memory.max", "max\n");
  file("batch/memory.max", "2147483648\n");
  file("batch/job/memory.max", "4294967296\n");
  file("batch/free/memory.max", "max\n");
  BOOST_TEST(limit("0::/batch/job\n").words == "the memory limit of 2.0 GiB (cgroup /batch)");
  BOOST_TEST(limit("0::/batch/free\n").bytes == 2 * kGiB);
  BOOST_TEST(limit("0::/other\n").bytes == kMachine);
}

BOOST_AUTO_TEST_CASE(version_1_has_limits_too) {
  file("memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  file("memory/jobs/7/memory.limit_in_bytes", "536870912\n");
  const MemoryLimit found = limit("9:name=systemd:/\n5:cpu,memory:/jobs/7\n2:cpuacct:/\n0::/\n");
  BOOST_TEST(found.bytes == 0.5 * kGiB);
  BOOST_TEST(found.words == "the memory limit of 512 MiB (cgroup /jobs/7)");
  BOOST_TEST(limit("5:memory:/\n").bytes == kMachine);
}

BOOST_AUTO_TEST_CASE(in_a_container_the_root_shows_the_limit) {
  file("memory/memory.limit_in_bytes", "1073741824\n");  // the path is that of the host
  BOOST_TEST(limit("4:memory:/docker/0123456789ab\n").bytes == kGiB);
  file("memory.max", "536870912\n");
  BOOST_TEST(limit("0::/\n").bytes == 0.5 * kGiB);
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-License-Identifier: Apache-2.0
// Which calls of the driver make memory repeat, by a driver that records them. What a card does is tested on
// a GPU.
#include "evaluators/devices/cuda/run/device_memory.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

using namespace cultivar::cuda;

namespace {

constexpr std::size_t kGrain = std::size_t{2} << 20;
std::vector<std::string> calls;
std::size_t maps_left = 0;

Driver recording() {
  calls.clear();
  maps_left = 1000;
  Driver driver;
  driver.MemGetAllocationGranularity = [](std::size_t*, const MemoryProperties*, int) {
    return result::success;
  };
  driver.MemCreate = [](MemoryHandle* handle, std::size_t bytes, const MemoryProperties* properties,
                        unsigned long long) {
    *handle = calls.size() + 100;
    calls.push_back(fmt::format("create {} on {}", bytes / kGrain, properties->device));
    return result::success;
  };
  driver.MemRelease = [](MemoryHandle) {
    calls.emplace_back("release");
    return result::success;
  };
  driver.MemAddressReserve = [](Address* at, std::size_t bytes, std::size_t, Address, unsigned long long) {
    *at = kGrain * 1000;
    calls.push_back(fmt::format("reserve {}", bytes / kGrain));
    return result::success;
  };
  driver.MemAddressFree = [](Address at, std::size_t bytes) {
    calls.push_back(fmt::format("free {} {}", at / kGrain, bytes / kGrain));
    return result::success;
  };
  driver.MemMap = [](Address at, std::size_t bytes, std::size_t offset, MemoryHandle handle,
                     unsigned long long) {
    BOOST_TEST(offset == 0u);
    if (maps_left-- == 0) return result::out_of_memory;
    calls.push_back(fmt::format("map {} {} of {}", at / kGrain, bytes / kGrain, handle));
    return result::success;
  };
  driver.MemUnmap = [](Address at, std::size_t bytes) {
    calls.push_back(fmt::format("unmap {} {}", at / kGrain, bytes / kGrain));
    return result::success;
  };
  driver.MemSetAccess = [](Address at, std::size_t bytes, const MemoryAccess* access, std::size_t) {
    calls.push_back(fmt::format("access {} {} {}", at / kGrain, bytes / kGrain, access->flags));
    return result::success;
  };
  return driver;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_repeated_memory)

BOOST_AUTO_TEST_CASE(one_allocation_is_mapped_again_and_again_and_another_one_behind_it) {
  const Driver driver = recording();
  {
    auto memory = RepeatedMemory::map(driver, 1, kGrain, 3 * kGrain, 4, kGrain + 5);
    BOOST_REQUIRE(memory.has_value());
    BOOST_TEST(memory->first() == 1000 * kGrain);
    BOOST_TEST(memory->last() == 1009 * kGrain);
    BOOST_TEST(memory->stored() == 5 * kGrain);  // three that repeat, two for the rest
    const RepeatedMemory moved = std::move(*memory);
    BOOST_TEST(moved.first() == 1000 * kGrain);
  }
  const std::vector<std::string> right{
      "reserve 14",        "create 3 on 1", "map 1000 3 of 101", "map 1003 3 of 101", "map 1006 3 of 101",
      "map 1009 3 of 101", "release",       "create 2 on 1",     "map 1012 2 of 107", "release",
      "access 1000 14 3",  "unmap 1000 3",  "unmap 1003 3",      "unmap 1006 3",      "unmap 1009 3",
      "unmap 1012 2",      "free 1000 14"};
  BOOST_TEST(calls == right, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_was_mapped_is_given_back_where_the_driver_refuses_more) {
  const Driver driver = recording();
  maps_left = 2;
  BOOST_TEST(!RepeatedMemory::map(driver, 0, kGrain, kGrain, 4, 0).has_value());
  const std::vector<std::string> right{"reserve 4", "create 1 on 0", "map 1000 1 of 101", "map 1001 1 of 101",
                                       "release",   "unmap 1000 1",  "unmap 1001 1",      "free 1000 4"};
  BOOST_TEST(calls == right, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(it_takes_whole_granules_and_a_driver_that_maps_memory) {
  Driver driver = recording();
  BOOST_TEST(!RepeatedMemory::map(driver, 0, kGrain, kGrain + 4096, 4, 0).has_value());
  BOOST_TEST(!RepeatedMemory::map(driver, 0, 0, kGrain, 4, 0).has_value());
  driver.MemMap = nullptr;
  BOOST_TEST(!RepeatedMemory::map(driver, 0, kGrain, kGrain, 4, 0).has_value());
  BOOST_TEST(calls.empty());
}

BOOST_AUTO_TEST_SUITE_END()

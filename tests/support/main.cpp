// SPDX-License-Identifier: Apache-2.0
// The entry point of every test executable.
#define BOOST_TEST_MODULE cultivar
#include <boost/test/unit_test.hpp>

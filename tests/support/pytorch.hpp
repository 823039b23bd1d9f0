// SPDX-License-Identifier: Apache-2.0
// The Python with which tests use PyTorch (Debian 12: apt-get install --no-install-recommends python3-torch).
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <string>

#include "support/command.hpp"

namespace cultivar::testing {

// The Python that tests/install_pytorch.sh made, with PyTorch 2; empty if there is none.
inline const std::string& python_with_torch_2() {
  static const std::string found = [] {
    const auto variable = [](const char* name) {
      const char* const value = std::getenv(name);
      return std::string(value == nullptr ? "" : value);
    };
    const std::string cache =
        variable("XDG_CACHE_HOME").empty() ? variable("HOME") + "/.cache" : variable("XDG_CACHE_HOME");
    const std::string python = cache + "/cultivar/pytorch/bin/python";
    return run_command({python, "-c", "import torch, numpy"}).exit == 0 ? python : std::string();
  }();
  return found;
}

// The system's Python with PyTorch, or that of tests/install_pytorch.sh; empty if there is none.
inline const std::string& python_with_torch() {
  static const std::string found = [] {
    for (const char* candidate : {"python3", "/usr/bin/python3"})
      if (run_command({candidate, "-c", "import torch"}).exit == 0) return std::string(candidate);
    return python_with_torch_2();
  }();
  return found;
}

// A precondition of a test suite.
inline boost::test_tools::assertion_result pytorch_is_here(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result here(!python_with_torch().empty());
  here.message() << "no python3 has PyTorch (Debian's package python3-torch, or tests/install_pytorch.sh)";
  return here;
}

// A precondition of a test suite.
inline boost::test_tools::assertion_result pytorch_2_is_here(boost::unit_test::test_unit_id) {
  boost::test_tools::assertion_result here(!python_with_torch_2().empty());
  here.message() << "PyTorch 2 is not installed for tests (tests/install_pytorch.sh)";
  return here;
}

}  // namespace cultivar::testing

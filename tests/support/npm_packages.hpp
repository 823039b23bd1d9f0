// SPDX-License-Identifier: Apache-2.0
// Third-party programs from npm, for interoperability tests. None of them is committed.
#pragma once

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>

namespace cultivar::testing {

// The build's folder for packages of this purpose ("mcp"); packages are in its node_modules.
std::filesystem::path npm_folder(const std::string& purpose);

// True if node is available and the package is installed or can be installed, once per build folder;
// otherwise says why. No script of a package is run. For preconditions.
boost::test_tools::assertion_result npm_has(const std::string& purpose, const std::string& package,
                                            const std::string& version);

}  // namespace cultivar::testing

// Programs that others wrote, from npm, for tests that try ours against them. Nothing of them is committed.
#pragma once

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>

namespace cultivar::testing {

// The folder of the build for packages of this purpose ("mcp"); packages lie in its node_modules.
std::filesystem::path npm_folder(const std::string& purpose);

// True when node is here and the package is installed or can be, once for each build folder; false says why.
// No script of a package is run. For preconditions.
boost::test_tools::assertion_result npm_has(const std::string& purpose, const std::string& package,
                                            const std::string& version);

}  // namespace cultivar::testing

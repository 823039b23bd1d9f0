// SPDX-License-Identifier: Apache-2.0
#include "support/npm_packages.hpp"

#include "support/command.hpp"

namespace fs = std::filesystem;

namespace cultivar::testing {

namespace {

bool install(const fs::path& folder, const std::string& package, const std::string& version) {
  std::error_code ignored;
  if (fs::exists(folder / "node_modules" / package / "package.json", ignored)) return true;
  fs::create_directories(folder, ignored);
  if (!fs::exists(folder / "package.json", ignored))
    write_text(folder / "package.json", R"({"name": "for-tests", "private": true, "type": "module"})");
  const auto done = run_command({"npm", "install", "--fetch-retries=1", "--fetch-retry-mintimeout=1000",
                                 "--ignore-scripts", "--no-audit", "--no-fund", package + "@" + version},
                                {folder, {}, 180.0});
  return done.exit == 0;
}

}  // namespace

fs::path npm_folder(const std::string& purpose) {
  return fs::path(CULTIVAR_BIN_DIR) / "../npm" / purpose;
}

boost::test_tools::assertion_result npm_has(const std::string& purpose, const std::string& package,
                                            const std::string& version) {
  boost::test_tools::assertion_result result(true);
  if (run_command({"node", "--version"}).exit != 0) {
    result = boost::test_tools::assertion_result(false);
    result.message() << "there is no node";
  } else if (!install(npm_folder(purpose), package, version)) {
    result = boost::test_tools::assertion_result(false);
    result.message() << "npm cannot install " << package;
  }
  return result;
}

}  // namespace cultivar::testing

// SPDX-License-Identifier: Apache-2.0
// Completion and manual pages say what the commands take.
#include "engine/cli/completion.hpp"

#include <boost/test/unit_test.hpp>

#include "engine/cli/commands.hpp"
#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

std::string completed(const std::filesystem::path& script, const std::filesystem::path& folder,
                      const std::string& words) {
  CommandOptions options;
  options.folder = folder;
  const std::string program = "source '" + script.string() + "'; COMP_WORDS=(" + words +
                              "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _cultivar; echo \"${COMPREPLY[*]}\"";
  const auto result = cultivar::testing::run_command({"bash", "-c", program}, options);
  BOOST_TEST(result.err == "");
  return result.out.substr(0, result.out.find('\n'));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(completion)

BOOST_AUTO_TEST_CASE(every_command_gives_its_definition) {
  const auto all = defined_commands();
  BOOST_TEST(all.size() == commands().size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    BOOST_TEST(all[i].definition.name == commands()[i].name);
    BOOST_TEST(!all[i].definition.about.empty());
    BOOST_TEST(all[i].definition.example.find("cultivar " + all[i].definition.name) == 0U);
  }
}

BOOST_AUTO_TEST_CASE(bash_completes_commands_options_and_runs) {
  TemporaryFolder folder;
  const auto script = folder / "completion";
  write_text(script, bash_completion(defined_commands()));
  write_text(folder / "runs" / "first" / "run.db", "");
  write_text(folder / "runs" / "second" / "run.db", "");
  BOOST_TEST(completed(script, folder.path(), "cultivar das") == "dashboard");
  BOOST_TEST(completed(script, folder.path(), "cultivar status --wa") == "--watch");
  BOOST_TEST(completed(script, folder.path(), "cultivar show f") == "first");
  BOOST_TEST(completed(script, folder.path(), "cultivar export first --out x") == "");
  for (const char* other : {"zsh", "fish"}) {  // where they are installed, they at least read it
    const auto file = folder / other;
    write_text(file, std::string(other) == "zsh" ? zsh_completion(defined_commands())
                                                 : fish_completion(defined_commands()));
    if (cultivar::testing::run_command({"sh", "-c", std::string("command -v ") + other}).exit == 0)
      BOOST_TEST(cultivar::testing::run_command({other, "-n", file.string()}).exit == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_manual_page_names_every_option_and_no_line_is_a_request_by_accident) {
  for (const DefinedCommand& command : defined_commands()) {
    const std::string page = manual_of(command);
    for (const CommandDefinition::Word& option : command.definition.options) {
      std::string name = option.name;
      for (std::size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2) name.insert(at, "\\");
      BOOST_TEST(page.find("\\fB" + name + "\\fR") != std::string::npos,
                 command.definition.name + " " + option.name);
    }
    for (std::size_t at = 0; (at = page.find("\n.", at)) != std::string::npos; ++at) {
      const std::string request = page.substr(at + 2, page.find_first_of(" \n", at + 2) - at - 2);
      BOOST_TEST((request == "TH" || request == "SH" || request == "TP" || request == "B" || request == "BR"),
                 request);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

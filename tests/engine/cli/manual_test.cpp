// SPDX-License-Identifier: Apache-2.0
// Manual pages say what the commands take, in roff that its readers accept without a warning.
#include "engine/cli/commands.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "support/command.hpp"

using namespace cultivar;
using namespace cultivar::testing;

namespace {

std::string escaped(std::string name) {
  for (std::size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2) name.insert(at, "\\");
  return name;
}

std::vector<std::string> pages() {
  std::vector<std::string> all{manual_of_program(defined_commands())};
  for (const DefinedCommand& command : defined_commands()) all.push_back(manual_of(command));
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(manual)

BOOST_AUTO_TEST_CASE(the_pages_name_every_command_argument_option_and_example) {
  const std::string whole = manual_of_program(defined_commands());
  for (const DefinedCommand& command : defined_commands()) {
    const CommandDefinition& d = command.definition;
    for (const std::string& page : {whole, manual_of(command)}) {
      for (const CommandDefinition::Word& option : d.options)
        BOOST_TEST(page.find("\\fB" + escaped(option.name) + "\\fR") != std::string::npos,
                   d.name + " " + option.name);
      for (const CommandDefinition::Word& argument : d.arguments)
        BOOST_TEST(page.find("\\fI" + escaped(argument.name) + "\\fR") != std::string::npos, d.name);
      BOOST_TEST(page.find(escaped("cultivar " + d.name)) != std::string::npos, d.name);
      for (const char* heading : {".SH EXIT STATUS", ".SH ENVIRONMENT", "CULTIVAR_CACHE", ".SH EXAMPLES"})
        BOOST_TEST(page.find(heading) != std::string::npos, d.name + " " + heading);
    }
  }
}

BOOST_AUTO_TEST_CASE(no_line_is_a_request_by_accident) {
  const std::set<std::string> used{"TH", "SH", "SS", "TP", "PP", "BR", "nf", "fi"};
  for (const std::string& page : pages())
    for (std::size_t at = 0; (at = page.find("\n.", at)) != std::string::npos; ++at) {
      const std::string request = page.substr(at + 2, page.find_first_of(" \n", at + 2) - at - 2);
      BOOST_TEST(used.contains(request), request);
    }
}

BOOST_AUTO_TEST_CASE(readers_of_roff_warn_of_nothing) {
  TemporaryFolder folder;
  const auto file = folder / "page.1";
  bool read = false;
  for (const std::string& page : pages()) {
    write_text(file, page);
    for (const std::string reader : {"mandoc -T lint -W warning", "groff -ww -man -Tutf8"}) {
      if (cultivar::testing::run_command({"sh", "-c", "command -v " + reader.substr(0, reader.find(' '))})
              .exit != 0)
        continue;
      const auto result = cultivar::testing::run_command(
          {"sh", "-c", reader + " " + file.string() + (reader.starts_with("groff") ? " >/dev/null" : "")});
      BOOST_TEST(result.out + result.err == "", page.substr(0, page.find('\n')));
      read = true;
    }
  }
  BOOST_TEST_MESSAGE((read ? "read" : "neither mandoc nor groff is installed: nothing was read"));
}

BOOST_AUTO_TEST_SUITE_END()

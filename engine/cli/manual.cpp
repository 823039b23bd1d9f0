// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/manual.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "engine/cli/output.hpp"

namespace cultivar {

namespace {

// Text of a page.
std::string roff(const std::string& words) {
  constexpr std::size_t kColumns = 72;
  std::string result;
  for (const char c : words.find('\n') == std::string::npos ? wrapped(words, kColumns, "") : words) {
    const bool begins = result.empty() || result.back() == '\n';
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if (c == '`')
      result += "\\(aq";
    else if (begins && (c == '.' || c == '\''))
      result += std::string("\\&") + c;
    else if (c == '\n' && begins)
      result += ".PP\n";
    else
      result += c;
  }
  return result;
}

// "2026-11-30" of "Nov 30 2026".
std::string date_of_build() {
  constexpr std::string_view built = __DATE__, months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  std::string date = fmt::format("{}-{:02}-{}", built.substr(7), months.find(built.substr(0, 3)) / 3 + 1,
                                 built.substr(4, 2));
  std::ranges::replace(date, ' ', '0');
  return date;
}

std::string title(const std::string& name) {
  return fmt::format(".TH \"{}\" 1 \"{}\" \"cultivar {}\" \"User Commands\"\n", name, date_of_build(),
                     CULTIVAR_VERSION);
}

std::string usage_of(const CommandDefinition& d) {
  std::string text = "\\fBcultivar " + roff(d.name) + "\\fR";
  for (const CommandDefinition::Word& a : d.arguments)
    text += fmt::format(" {}\\fI{}\\fR{}{}", a.required ? "" : "[", roff(a.name), a.many ? "..." : "",
                        a.required ? "" : "]");
  return text + " [\\fIOPTION\\fR...]\n";
}

std::string item(const std::string& what, const std::string& about) {
  return fmt::format(".TP\n{}\n{}\n", what, roff(about));
}

std::string words_of(const CommandDefinition& d) {
  std::string text;
  for (const CommandDefinition::Word& a : d.arguments) text += item("\\fI" + roff(a.name) + "\\fR", a.about);
  for (const CommandDefinition::Word& option : d.options)
    text += item(fmt::format("\\fB{}\\fR{}", roff(option.name), option.value ? " \\fIVALUE\\fR" : ""),
                 option.about);
  return text + item("\\fB\\-\\-help\\fR", "show the help");
}

std::string example(const std::string& words) {
  return ".PP\n.nf\n" + roff(words) + "\n.fi\n";
}

std::string what_all_have() {
  return ".SH EXIT STATUS\n" + item("0", "done") +
         item("1", "the work failed, or no kernel passed every check") +
         item("2", "bad usage or configuration") + item("3", "something needed is missing") +
         item("130", "interrupted: a search has written a checkpoint and can be resumed") +
         ".SH ENVIRONMENT\n" +
         item("\\fBCULTIVAR_CACHE\\fR",
              "the folder for compiled kernels; by default cultivar in $XDG_CACHE_HOME or in .cache of "
              "the home folder, and .cache of the source folder for a program that lies in one") +
         item("\\fBTZ\\fR", "the time zone of the times that are shown") +
         item("\\fBLC_ALL\\fR, \\fBLC_CTYPE\\fR, \\fBLANG\\fR",
              "whether a live view may use characters beyond ASCII") +
         item("\\fBTERM\\fR", "with the value dumb, nothing is redrawn: a search prints plain lines") +
         item("\\fBNO_COLOR\\fR", "is kept in any case: no command prints colors") +
         item("\\fBCUDA_VISIBLE_DEVICES\\fR", "the GPUs that a search may use") +
         ".PP\nA key of a language model is read from the variable that the\nconfiguration names "
         "(api_key_env).\n";
}

}  // namespace

std::string manual_of_program(const std::vector<DefinedCommand>& all) {
  std::string text =
      title("CULTIVAR") +
      ".SH NAME\ncultivar \\- evolves compute kernels\n"
      ".SH SYNOPSIS\n\\fBcultivar\\fR \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]\n.SH DESCRIPTION\n"
      "Improves compute kernels by evolutionary search:\nit changes, checks, times and selects them.\nA "
      "search writes its record into a folder, a run, which all other commands read.\n"
      ".SH COMMANDS\n";
  for (const auto& [summary, d] : all)
    text += fmt::format(".SS {}\n{}.PP\n{}\n{}", roff(d.name), usage_of(d), roff(d.about), words_of(d));
  text += what_all_have() + ".SH FILES\n" +
          item("\\fIruns/NAME\\fR",
               "the run of the search of that name: its record (run.db) and its exported kernel") +
          ".SH EXAMPLES\n";
  for (const auto& [summary, d] : all) text += fmt::format("To {}:\n", roff(summary)) + example(d.example);
  text += ".SH SEE ALSO\n";
  for (std::size_t i = 0; i < all.size(); ++i)
    text +=
        fmt::format(".BR cultivar\\-{} (1){}\n", roff(all[i].definition.name), i + 1 < all.size() ? "," : "");
  return text;
}

std::string manual_of(const DefinedCommand& command) {
  const CommandDefinition& d = command.definition;
  std::string upper = "CULTIVAR\\-";
  for (const char c : d.name) upper += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return title(upper) +
         fmt::format(".SH NAME\ncultivar\\-{} \\- {}\n.SH SYNOPSIS\n{}.SH DESCRIPTION\n{}\n.SH OPTIONS\n{}",
                     roff(d.name), roff(command.summary), usage_of(d), roff(d.about), words_of(d)) +
         what_all_have() + ".SH EXAMPLES\n" + example(d.example).substr(std::string(".PP\n").size()) +
         ".SH SEE ALSO\n.BR cultivar (1)\n";
}

}  // namespace cultivar

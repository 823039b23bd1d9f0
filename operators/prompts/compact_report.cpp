// SPDX-License-Identifier: Apache-2.0
#include "operators/prompts/compact_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/profile/disassembly.hpp"
#include "evaluators/system/plain_text.hpp"
#include "operators/prompts/describe.hpp"

namespace cultivar {

namespace {

// The innermost loops of the machine code, and the code of the first.
std::string loops_words(const std::vector<HotLoop>& loops) {
  constexpr std::size_t kLoops = 3, kCode = 12;
  std::string text = "Innermost loops of the machine code, the likeliest to take the time first:\n";
  for (std::size_t i = 0; i < std::min(kLoops, loops.size()); ++i) text += words_of(loops[i]) + "\n";
  text += "The first one, with its source lines:\n";
  const std::vector<CodeLine>& code = loops.front().code;
  for (std::size_t i = 0; i < std::min(kCode, code.size()); ++i)
    text += fmt::format("{:>5}  {}\n", code[i].line == 0 ? std::string() : std::to_string(code[i].line),
                        one_line_of(code[i].text, 70));
  if (code.size() > kCode || loops.front().instructions > static_cast<int>(code.size()))
    text += fmt::format("       ... {} instructions in all\n", loops.front().instructions);
  return text;
}

}  // namespace

std::vector<std::string> compact_report(const Profile& profile, const Profile* before) {
  constexpr std::size_t kFindings = 4, kLines = 6, kLinesAPart = 2, kChanges = 6;
  const Report report = explain(profile);
  std::string text = report.headline + "\n";
  for (std::size_t i = 0; i < std::min(kFindings, report.findings.size()); ++i)
    text += fmt::format("{}. {} [{}]\n", i + 1, report.findings[i].words, report.findings[i].kind);
  const KernelProfile* const kernel = main_kernel(profile);
  if (kernel && kernel->registers > 0)
    text += fmt::format("{}: {} registers, {} bytes of shared memory, {} blocks per SM, {:.2f} waves\n",
                        kernel->name, kernel->registers,
                        kernel->static_shared_bytes + kernel->dynamic_shared_bytes, kernel->occupancy.blocks,
                        kernel->waves);
  if (before) {
    const auto changes = differences(*before, profile);
    text += "Compared with its ancestor " + before->name + ": ";
    for (std::size_t i = 0; i < std::min(kChanges, changes.size()); ++i)
      text += (i ? "; " : "") + changes[i].words;
    text += changes.empty() ? "no differences\n" : "\n";
  }
  std::vector<std::string> parts{fenced(text)};
  if (!profile.loops.empty()) parts.push_back(fenced(loops_words(profile.loops)));
  if (!kernel) return parts;
  std::string lines;
  const std::size_t shown = std::min(kLines, kernel->lines.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const LineStalls& line = kernel->lines[i];
    std::string most;
    std::uint64_t samples = 0;
    for (const auto& [reason, count] : line.stalls)
      if (reason != "selected" && count.samples > samples) most = reason, samples = count.samples;
    lines += fmt::format("- line {}: {:.0f} % of samples, {}: {}\n", line.line,
                         100.0 * static_cast<double>(line.samples) /
                             static_cast<double>(std::max<std::uint64_t>(1, kernel->samples)),
                         most, one_line_of(line.text, 60));
    if ((i + 1) % kLinesAPart == 0 || i + 1 == shown) parts.push_back(std::exchange(lines, {}));
  }
  return parts;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "operators/critique_repair.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "evaluators/system/plain_text.hpp"
#include "operators/prompts/describe.hpp"
#include "operators/prompts/idea_pieces.hpp"
#include "operators/registry.hpp"
#include "operators/reply.hpp"
#include "population/archive.hpp"

namespace cultivar {

namespace {

constexpr std::string_view kName = "critique_repair";

// Only failures of written sources are repaired; the tuner tries other values of tunables anyway.
bool written(const Member& member) {
  if (member.origin != Origin::operator_) return member.origin == Origin::submission;
  const OperatorRow* const row = find_operator(member.op);
  return row != nullptr && row->writes;
}

// The number of consecutive repairs that led to it.
int repairs_before(IndividualId id, const Archive& archive) {
  int repairs = 0;
  for (Member m = archive.member(id); m.op == kName; m = archive.member(m.parents.front())) {
    ++repairs;
    if (m.parents.empty() || archive.state(m.parents.front()) == Member::State::measured) break;
  }
  return repairs;
}

// Between marks, so that a critique's quotations are searched only here.
void add_evidence(PromptWriter& to) {
  const std::optional<Evaluation>& evaluation = to.evaluation();
  std::string text = "<evidence>\n";
  if (evaluation && !evaluation->measured() && to.context().record_view.life(to.subject()).expelled)
    text += "It was measured, and then failed its confirmation, which checks more shapes with new inputs.\n";
  if (evaluation && !evaluation->measured())
    text += describe_rejection(*evaluation, 6000);
  else if (evaluation)
    text += to.table_of(*evaluation);
  if (evaluation && evaluation->measured())
    for (const std::string& part : to.nearest_report()) text += "\n" + part;
  text += "</evidence>";
  to.add("evidence", text, 0, "evidence");
  if (evaluation && evaluation->stage >= Stage::smoke && !evaluation->measured())
    to.add("evidence", describe_oracle(to.context().task), 4, "oracle");
  const auto parents = to.context().archive.parents(to.subject());
  if (!evaluation || evaluation->measured() || parents.empty()) return;
  if (to.context().archive.state(parents.front()) == Member::State::measured)
    to.add("origin", to.kernel_text(parents.front()), 4, fmt::format("origin #{}", parents.front()));
}

// The text without whitespace and without Markdown's quotation characters.
std::string bare(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r' && c != '`' && c != '"' && c != '*') out += c;
  return out;
}

// The parts of a quotation to look for: the complete quotation, or each part if it contains quoted text among
// other words, or dots for omissions. Very short parts prove nothing and are ignored.
bool stands(std::string_view quote, const std::string& evidence) {
  constexpr std::size_t kLeast = 6;
  constexpr int kMostParts = 8;
  const auto found = [&](std::string_view part) { return evidence.find(bare(part)) != std::string::npos; };
  if (bare(quote).size() >= kLeast && found(quote)) return true;
  for (const std::string_view mark : {"`", "\"", "...", "\xE2\x80\xA6"}) {
    const bool around = mark.size() == 1;  // every second part is inside quotes
    std::size_t longest = 0;
    bool all = true;
    int part = 0;
    for (std::size_t at = 0; part < kMostParts && at <= quote.size(); ++part) {
      const std::size_t end = std::min(quote.find(mark, at), quote.size());
      const std::string_view text = quote.substr(at, end - at);
      at = end + mark.size();
      if (around && (part % 2 == 0 || end == quote.size())) continue;
      longest = std::max(longest, bare(text).size());
      all = all && found(text);
    }
    if (part > 1 && all && longest >= kLeast) return true;
  }
  return false;
}

// Whether the kernel, or the one that a rejected kernel was made from, has less than half of the best
// fitness: a repair of it would still be far behind.
bool far_behind(IndividualId id, const Archive& archive) {
  constexpr double kNear = 0.5;
  const IndividualId best = fittest_of(archive, [](const std::string&) { return true; });
  if (archive.state(id) != Member::State::measured) {
    const auto parents = archive.parents(id);
    if (parents.empty()) return false;
    id = parents.front();
  }
  return best != 0 && archive.state(id) == Member::State::measured &&
         archive.fitness(id) < kNear * archive.fitness(best);
}

}  // namespace

std::string unfounded(const std::string& critique, const std::string& request) {
  const std::size_t begin = request.find("<evidence>"), end = request.rfind("</evidence>");
  const std::string evidence = begin == std::string::npos || end == std::string::npos || end < begin
                                   ? bare(request)
                                   : bare(std::string_view(request).substr(begin + 10, end - begin - 10));
  constexpr int kMostQuotes = 100, kMostNamed = 3;
  constexpr std::size_t kMostQuoted = 1000;  // bytes
  constexpr std::string_view kWhat =
      "exactly, one quotation per line: the stage, a line of the diagnostics, a row of the table, or a line "
      "of the profile. Write your conclusions on other lines.";
  int quotes = 0, named = 0;
  std::string missing;
  for (const std::string_view line : lines_of(critique)) {
    if (quotes == kMostQuotes || named == kMostNamed) break;
    const std::size_t at = line.find("EVIDENCE:");
    if (at == std::string::npos) continue;
    ++quotes;
    const std::string_view quote = line.substr(at + 9, kMostQuoted);
    if (stands(quote, evidence)) continue;
    ++named;
    missing += "\n- " + one_line_of(quote, 200);
  }
  if (quotes == 0)
    return fmt::format(
        "Your critique cites no evidence. Add at least one line `EVIDENCE: ...` that quotes, {}", kWhat);
  if (missing.empty()) return {};
  return fmt::format(
      "These quotations do not occur in the evidence that you were given:{}\nWrite the critique again. Quote "
      "{}",
      missing, kWhat);
}

void CritiqueRepair::observe(IndividualId id, const Archive& archive) {
  if (archive.state(id) != Member::State::rejected || archive.duplicate_of(id) != 0) return;
  if (!written(archive.member(id)) || repairs_before(id, archive) >= rounds_) return;
  failures_.push_back(id);
}

std::optional<Brief> CritiqueRepair::plan(const OperatorContext& s, RandomStream&) {
  Brief brief;
  // A failure that is far behind now stays so.
  while (s.frugal && !failures_.empty() && far_behind(failures_.back(), s.archive)) failures_.pop_back();
  if (!failures_.empty()) {
    const IndividualId failed = failures_.back();
    brief.parents = {failed};
    brief.island = s.archive.member(failed).island;
    brief.round = repairs_before(failed, s.archive) + 1;
    brief.direction = "find out why it was refused, and repair it";
    return brief;
  }
  if (s.parents.empty() || slow_.contains(s.archive.source_id(s.parents.front()))) return std::nullopt;
  brief.parents = {best_setting(s.archive, s.parents.front())};
  if (s.frugal && far_behind(brief.parents.front(), s.archive)) return std::nullopt;
  brief.island = s.island;
  brief.direction = "find out what makes it slow, and repair that";
  return brief;
}

void CritiqueRepair::asked(const Brief& brief, const Archive& archive) {
  const IndividualId subject = brief.parents.front();
  if (std::erase(failures_, subject) == 0) slow_.insert(archive.source_id(subject));
}

void CritiqueRepair::write(const Brief& brief, PromptWriter& to) const {
  add_insights(to);
  to.add_kernel();
  add_evidence(to);
  to.add_standing();
  to.add_lineage();
  add_ideas(to);
  to.add_notes();
  to.add("direction", brief.direction, 0);
}

// The edits follow the first critique whose quotations occur in the evidence.
Move CritiqueRepair::next(const Conversation& c) const {
  const std::string& request = c.turns.front().request.messages.front().text;
  std::string refusal;
  for (std::size_t i = 0; i < c.turns.size(); ++i) {
    const std::string& critique = c.turns[i].answer.text;
    if (auto end = declined(c.turns[i].answer, c.kit)) return *std::move(end);
    refusal = unfounded(critique, request);
    if (!refusal.empty()) continue;
    if (i + 1 == c.turns.size()) return reply_to(c.turns.back(), c.kit.follow_up("repair", ""), c.kit);
    // The repair has its own count of refusals. Records of versions without declines count both together.
    const int refused = c.kit.offers_decline() ? 0 : static_cast<int>(i);
    return edit_move(c, {i + 1, refused, said_after("CAUSE:", critique)});
  }
  return ask_again(c, static_cast<int>(c.turns.size()), refusal);
}

}  // namespace cultivar

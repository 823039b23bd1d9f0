#include "operators/dialogue.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <optional>
#include <sstream>

#include "operators/agent/agent_dialogue.hpp"
#include "operators/edits/edits.hpp"

namespace cultivar {

namespace {

// The rest of the first line that begins with `mark` ("IDEA:").
std::string said_after(const std::string& mark, const std::string& answer) {
  std::istringstream lines(answer);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find_first_not_of(" \t*#>-");
    if (at != std::string::npos && line.compare(at, mark.size(), mark) == 0) {
      const std::size_t text = line.find_first_not_of(" \t*", at + mark.size());
      return text == std::string::npos ? std::string() : one_line_of(line.substr(text), 200);
    }
  }
  return {};
}

// Without blanks and with what Markdown puts around quotations left out.
std::string bare(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r' && c != '`' && c != '"' && c != '*') out += c;
  return out;
}

// A quotation as it is; or with words around what stands in quotes, or with dots for what it leaves out: then
// each part. Of a few letters nothing follows.
bool stands(std::string_view quote, const std::string& evidence) {
  constexpr std::size_t kLeast = 6;
  constexpr int kMostParts = 8;
  const auto found = [&](std::string_view part) { return evidence.find(bare(part)) != std::string::npos; };
  if (bare(quote).size() >= kLeast && found(quote)) return true;
  for (const std::string_view mark : {"`", "\"", "...", "\xE2\x80\xA6"}) {
    const bool around = mark.size() == 1;  // every second part is within quotes
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

struct Understood {
  std::optional<Proposal> proposal;  // also with a refusal, when there is a source whose manifest is wrong
  std::string refusal;               // empty: none
};

// `base`: what blocks are applied to: the parent, or what came out of an answer whose manifest was wrong.
Understood understand(const Brief& brief, const EditedParent& parent, const std::string& base,
                      const Task& task, const ChatAnswer& answer) {
  Understood result;
  if (answer.stop == StopReason::length) {
    result.refusal =
        "Your answer was cut off because it was too long. Answer shorter: SEARCH/REPLACE blocks for "
        "what changes, and no more words than needed.";
    return result;
  }
  const auto edit = find_edit(answer.text);
  const auto source =
      edit ? apply_edit(base, *edit) : tl::expected<std::string, Refusal>(tl::make_unexpected(edit.error()));
  if (!source) {
    result.refusal = source.error().words;
    return result;
  }
  Proposal proposal;
  proposal.source = *source;
  proposal.descent.parents = brief.parents;
  proposal.descent.op = brief.op;
  proposal.descent.island = brief.island;
  const std::string idea = said_after("IDEA:", answer.text);
  proposal.descent.note = idea.empty() ? brief.direction : idea;
  const auto before = make_variant(parent.source, task, parent.configuration);
  const auto manifest = parse_manifest(*source);
  if (!manifest) {
    result.refusal = "The source that comes out has a wrong manifest: " + manifest.error().text();
  } else {
    if (const std::string why = too_many(*manifest); !why.empty()) {
      result.refusal = why;
      return result;
    }
    if (before) proposal.configuration = inherited(*manifest, before->manifest, parent.configuration);
    const auto variant = make_variant(*source, task, proposal.configuration);
    if (!variant)
      result.refusal = "The source that comes out has a wrong manifest: " + variant.error().text();
    else if (before && variant->manifest.target != before->manifest.target)
      result.refusal = fmt::format("The manifest must keep `target: {}`.", name_of(before->manifest.target));
    else if (before && variant->id == before->id)
      result.refusal = "The source that comes out is the one that you were given.";
  }
  result.proposal = std::move(proposal);
  return result;
}

// Its beginning and its end, in whole lines where there are any: each question is paid for by its length.
std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t head = most / 2, tail = text.size() - most / 2;
  if (const std::size_t end = text.rfind('\n', head); end != std::string::npos && end > head / 2)
    head = end + 1;
  if (const std::size_t end = text.find('\n', tail); end < tail + most / 4) tail = end + 1;
  const auto inside = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
  while (head > 0 && inside(head)) --head;
  while (tail < text.size() && inside(tail)) ++tail;
  return fmt::format("{}\n[... {} bytes are left out here ...]\n{}", text.substr(0, head), tail - head,
                     text.substr(tail));
}

// As much of an answer goes back as a first question may have.
ChatRequest reply_to(const Turn& last, std::string text, const PromptKit& kit) {
  const auto most = 3 * static_cast<std::size_t>(kit.options().prompt_tokens);  // bytes: three a token
  ChatRequest next = last.request;
  next.call.clear();
  next.messages.push_back(last.answer.as_message());
  ChatMessage& said = next.messages.back();
  said.tool_calls.clear();  // none were offered
  said.text = shortened(said.text, most);
  if (said.carried.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).size() > most)
    said.carried = nullptr;  // thoughts cannot be shortened: they are signed
  if (said.text.empty()) said.text = "(no text)";
  next.messages.push_back({ChatRole::user, std::move(text)});
  return next;
}

}  // namespace

std::string one_line_of(std::string_view text, std::size_t most) {
  std::string line;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t';
    if (c == '\n' || c == '\r') break;
    if (static_cast<unsigned char>(c) < 0x20 && !blank) continue;
    if (blank && (line.empty() || line.back() == ' ')) continue;
    line += blank ? ' ' : c;
  }
  if (line.size() > most) {
    line.resize(most);
    while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xC0) == 0x80) line.pop_back();
    if (!line.empty() && static_cast<unsigned char>(line.back()) >= 0xC0) line.pop_back();
    line += "...";
  }
  return line;
}

std::string too_many(const Manifest& manifest) {
  constexpr std::size_t kTunables = 32, kValues = 64;
  if (manifest.tunables.size() > kTunables)
    return fmt::format("The manifest has {} tunables; at most {} are allowed.", manifest.tunables.size(),
                       kTunables);
  for (const Tunable& tunable : manifest.tunables)
    if (tunable.values.size() > kValues)
      return fmt::format("Tunable {} has {} values; at most {} are allowed.", tunable.name,
                         tunable.values.size(), kValues);
  return {};
}

Configuration inherited(const Manifest& child, const Manifest& parent, const Configuration& values) {
  Configuration configuration;
  for (const Tunable& tunable : child.tunables) {
    const auto same = std::ranges::find(parent.tunables, tunable);
    const auto value = values.find(tunable.name);
    if (same != parent.tunables.end() && value != values.end()) configuration.insert(*value);
  }
  return configuration;
}

std::string unfounded(const std::string& critique, const std::string& request) {
  const std::size_t begin = request.find("<evidence>"), end = request.rfind("</evidence>");
  const std::string evidence = begin == std::string::npos || end == std::string::npos || end < begin
                                   ? bare(request)
                                   : bare(std::string_view(request).substr(begin + 10, end - begin - 10));
  constexpr int kMostQuotes = 100, kMostNamed = 3;
  constexpr std::size_t kMostQuoted = 1000;  // bytes
  constexpr std::string_view kWhat =
      "letter for letter, one quotation a line: the stage, a line of the diagnostics, a row of the table, or "
      "a "
      "line of the profile. What you conclude from it goes into other lines.";
  int quotes = 0, named = 0;
  std::string missing;
  std::istringstream lines(critique);
  for (std::string line; quotes < kMostQuotes && named < kMostNamed && std::getline(lines, line);) {
    const std::size_t at = line.find("EVIDENCE:");
    if (at == std::string::npos) continue;
    ++quotes;
    const std::string_view quote = std::string_view(line).substr(at + 9, kMostQuoted);
    if (stands(quote, evidence)) continue;
    ++named;
    missing += "\n- " + one_line_of(quote, 200);
  }
  if (quotes == 0)
    return fmt::format(
        "Your critique cites no evidence. Add at least one line `EVIDENCE: ...` that quotes, {}", kWhat);
  if (missing.empty()) return {};
  return fmt::format(
      "What you cite does not stand in the evidence that you were given:{}\nWrite the critique again. Quote "
      "{}",
      missing, kWhat);
}

Move next_move(const Brief& brief, const EditedParent& parent, const Task& task, const PromptKit& kit,
               const std::vector<Turn>& turns) {
  if (brief.op == "agent") return agent_move(brief, kit, turns);
  // The dialogue told again from its beginning: how often something was refused, and whether the critique
  // that a repair needs is there.
  bool criticised = brief.op != "critique_repair";
  std::string idea, base = parent.source;
  std::optional<Proposal> rest;  // of the last refused answer that had a source
  int refused = 0;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const Turn& turn = turns[i];
    const bool last = i + 1 == turns.size();
    std::string refusal;
    bool has_source = false;
    if (!criticised) {
      refusal = unfounded(turn.answer.text, turns.front().request.messages.front().text);
      if (refusal.empty()) {
        criticised = true;
        idea = said_after("CAUSE:", turn.answer.text);
        if (last) return reply_to(turn, kit.follow_up("repair", ""), kit);
        continue;
      }
    } else {
      Understood understood = understand(brief, parent, base, task, turn.answer);
      if (understood.proposal && !idea.empty()) understood.proposal->descent.note = idea;
      if (understood.refusal.empty()) return *std::move(understood.proposal);
      refusal = std::move(understood.refusal);
      has_source = understood.proposal.has_value();
      if (has_source) rest = std::move(understood.proposal), base = rest->source;
    }
    ++refused;
    if (!last) continue;
    constexpr std::size_t kMostWords = 4000;  // of a refusal: names and lines of the answer stand in it
    if (refused <= kit.resamples()) {
      const std::string_view then = has_source
                                        ? "\n\nThat source stays as it is: mend it by SEARCH/REPLACE blocks "
                                          "against it, or send all of it."
                                        : "\n\nNothing of the answer was applied: answer again, whole.";
      return reply_to(turn, kit.follow_up("refused", shortened(refusal, kMostWords) + std::string(then)),
                      kit);
    }
    if (rest) return *std::move(rest);
    return GivenUp{
        fmt::format("{} answers could not be used; the last: {}", refused, one_line_of(refusal, 300))};
  }
  return GivenUp{"nothing was answered"};
}

}  // namespace cultivar

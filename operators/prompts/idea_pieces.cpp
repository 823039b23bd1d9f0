// SPDX-License-Identifier: Apache-2.0
#include "operators/prompts/idea_pieces.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "evaluators/system/plain_text.hpp"
#include "operators/edits/similarity.hpp"
#include "population/individual.hpp"

namespace cultivar {

namespace {

constexpr std::size_t kLinesAPiece = 4;

// The logarithm of its gain, if a duel showed one; 0 if not.
double shown_gain(const Archive& archive, IndividualId id) {
  const DuelResult* const duel = archive.duel(id);
  if (!duel || archive.state(id) != Member::State::measured || !(duel->all.lower > 0.0)) return 0.0;
  return duel->all.log_ratio;
}

std::string told(PromptWriter& to, const Idea& idea, std::size_t most) {
  if (idea.end == Idea::End::individual) {
    const IndividualId family = to.context().archive.family(idea.id);
    return to.told(idea.id, most) +
           (family == idea.id ? " (the first of its family)" : fmt::format(" (family #{})", family));
  }
  std::string words = fmt::format("- question {}, {} about #{}: {}", idea.question, idea.op,
                                  fmt::join(idea.parents, ", #"), one_line_of(idea.words, most));
  if (idea.end == Idea::End::open) return words + " -> not answered yet";
  words += " -> came to nothing: " + one_line_of(idea.reason, most);
  constexpr std::size_t kDrafts = 4;
  for (std::size_t i = 0; i < std::min(kDrafts, idea.drafts.size()); ++i)
    words += "; " + one_line_of(idea.drafts[i], most);
  return words;
}

// `first_ranks`: of the first pieces, if they differ.
void add_lines(PromptWriter& to, const std::string& heading, const std::vector<std::string>& lines, int rank,
               const std::string& name, const std::vector<int>& first_ranks = {}) {
  for (std::size_t i = 0; i < lines.size(); i += kLinesAPiece) {
    std::string text = i == 0 ? heading + "\n" : std::string();
    for (std::size_t j = i; j < std::min(lines.size(), i + kLinesAPiece); ++j) text += lines[j] + "\n";
    const std::size_t piece = i / kLinesAPiece;
    to.add("ideas", std::move(text), piece < first_ranks.size() ? first_ranks[piece] : rank, name);
  }
}

// The nearest ancestor by first parents that has another source; 0 if there is none.
IndividualId made_from(const Archive& archive, IndividualId id) {
  const auto line = chain_to_seed(id, [&](IndividualId of) { return archive.parents(of); });
  for (auto ancestor = line.rbegin(); ancestor != line.rend(); ++ancestor)
    if (archive.source_id(*ancestor) != archive.source_id(id)) return *ancestor;
  return 0;
}

// At most about 800 tokens of it, in complete lines.
std::string change_of(const RecordView& record, IndividualId before, IndividualId after) {
  constexpr std::size_t kMostBytes = 2400;
  std::string diff = line_diff(record.source(before), record.source(after));
  if (diff.size() <= kMostBytes) return diff;
  const std::size_t end = diff.rfind('\n', kMostBytes) + 1;  // 0: its first line is longer
  return diff.substr(0, end) +
         fmt::format("[... {} lines omitted]\n",
                     std::count(diff.begin() + static_cast<std::ptrdiff_t>(end), diff.end(), '\n'));
}

void add_elite(PromptWriter& to, IndividualId id) {
  const PromptContext& s = to.context();
  std::string words = fmt::format("{} (family #{})\n", to.told(id), s.archive.family(id));
  if (const IndividualId before = made_from(s.archive, id); before != 0)
    words += fmt::format("\nIts change of #{}:\n\n{}", before,
                         fenced(change_of(s.record_view, before, id), "diff"));
  else if (const auto manifest = parse_manifest(s.record_view.source(id));
           manifest && !manifest->about.empty())
    words += fmt::format("\nIts idea: {}\n", manifest->about);
  constexpr int kLeastUseful = 20;
  to.add("best", std::move(words), kLeastUseful, fmt::format("change of #{}", id));
}

}  // namespace

void add_insights(PromptWriter& to) {
  std::string words;
  for (const std::string& insight : to.context().insights) words += "- " + insight + "\n";
  to.add("insights", std::move(words), 2, "insights");
}

void add_ideas(PromptWriter& to) {
  if (!to.kit().options().ideas) return;
  constexpr std::size_t kOpen = 6, kGained = 5, kOthers = 24, kNothing = 6, kMostWords = 300;
  const PromptContext& s = to.context();
  const std::vector<Idea> all = s.record_view.ideas();
  std::set<IndividualId> shown(to.line().begin(), to.line().end());
  for (const IndividualId child : s.record_view.children(to.subject())) shown.insert(child);
  std::vector<const Idea*> gained, others;
  std::vector<std::string> open, nothing;
  for (auto idea = all.rbegin(); idea != all.rend(); ++idea) {
    const bool individual = idea->end == Idea::End::individual;
    if (individual && shown.contains(idea->id)) continue;
    if (idea->end == Idea::End::open ||
        (individual && s.archive.state(idea->id) == Member::State::in_flight)) {
      if (open.size() < kOpen) open.push_back(told(to, *idea, kMostWords));
    } else if (!individual) {
      if (nothing.size() < kNothing) nothing.push_back(told(to, *idea, kMostWords));
    } else if (shown_gain(s.archive, idea->id) > 0.0) {
      gained.push_back(&*idea);
    } else if (s.archive.duplicate_of(idea->id) == 0) {
      others.push_back(&*idea);
    }
  }
  std::ranges::stable_sort(gained, std::greater<>(),
                           [&](const Idea* idea) { return shown_gain(s.archive, idea->id); });
  // The nearest to the subject first: changes of the same kernel, then of its family; of these, those that
  // changed the speed most.
  const auto& line = to.line();
  const auto nearness = [&](const Idea* idea) {
    const bool kin = std::ranges::any_of(s.archive.parents(idea->id), [&](IndividualId parent) {
      return std::ranges::find(line, parent) != line.end();
    });
    const bool family = s.archive.family(idea->id) == s.archive.family(to.subject());
    return std::pair(kin ? 2 : family ? 1 : 0, to.effect(idea->id));
  };
  std::ranges::stable_sort(others, std::greater<>(), nearness);
  const auto lines_of_first = [&](const std::vector<const Idea*>& ideas, std::size_t most) {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < std::min(most, ideas.size()); ++i)
      lines.push_back(told(to, *ideas[i], kMostWords));
    return lines;
  };
  add_lines(to, "Being tried now, by others:", open, 4, "open ideas");
  add_lines(to, "What gained most elsewhere, by duels:", lines_of_first(gained, kGained), 4,
            "ideas that gained");
  add_lines(to, "Other ideas, those about this kernel's line and family first, by their effect:",
            lines_of_first(others, kOthers), 5, "other ideas");
  add_lines(to, "Questions that came to nothing, newest first:", nothing, 6, "questions without a result");
}

void add_all_ideas(PromptWriter& to) {
  constexpr std::size_t kGained = 12, kNewest = 120, kNothing = 6, kMostWords = 200;
  const PromptContext& s = to.context();
  const std::vector<Idea> all = s.record_view.ideas();
  std::vector<const Idea*> gained;
  for (const Idea& idea : all)
    if (idea.end == Idea::End::individual && shown_gain(s.archive, idea.id) > 0.0) gained.push_back(&idea);
  std::ranges::stable_sort(gained, std::greater<>(),
                           [&](const Idea* idea) { return shown_gain(s.archive, idea->id); });
  std::vector<std::string> best, nothing, newest;
  for (std::size_t i = 0; i < std::min(kGained, gained.size()); ++i)
    best.push_back(told(to, *gained[i], PromptWriter::kMostNote));
  for (auto idea = all.rbegin(); idea != all.rend() && newest.size() < kNewest; ++idea) {
    if (idea->end == Idea::End::nothing && nothing.size() < kNothing)
      nothing.push_back(told(to, *idea, kMostWords));
    if (idea->end == Idea::End::individual && s.archive.duplicate_of(idea->id) == 0)
      newest.push_back(told(to, *idea, PromptWriter::kMostNote));
  }
  // What the question is about: neither a long kernel nor its report may leave no room for it.
  add_lines(to, "The largest gains, by duels:", best, 5, "ideas that gained", {1, 3});
  add_lines(to, "Questions that came to nothing, newest first:", nothing, 5, "questions without a result");
  add_lines(to, "All, newest first:", newest, 5, "older ideas", {1, 1, 3, 3, 3, 3});
}

namespace {

struct Tried {
  IndividualId id = 0;
  Configuration differing;
  double effect = 0.0;  // its speed over the subject's, as a logarithm
};

Configuration differing(const Configuration& other, const Configuration& own) {
  Configuration found;
  for (const auto& [name, value] : other)
    if (const auto mine = own.find(name); mine == own.end() || mine->second != value) found[name] = value;
  return found;
}

}  // namespace

void add_tried_values(PromptWriter& to) {
  constexpr std::size_t kMost = 10;
  const Archive& archive = to.context().archive;
  const Member subject = archive.member(to.subject());
  if (subject.configuration.empty() || subject.state != Member::State::measured) return;
  std::vector<Tried> tried;
  for (IndividualId id = 1; id <= archive.size(); ++id) {
    if (id == subject.id || archive.state(id) != Member::State::measured || archive.duplicate_of(id) != 0 ||
        archive.source_id(id) != subject.source_id)
      continue;
    Configuration values = differing(archive.member(id).configuration, subject.configuration);
    if (!values.empty() && archive.fitness(id) > 0.0)
      tried.push_back({id, std::move(values), std::log(archive.fitness(id) / subject.fitness)});
  }
  if (tried.empty()) return;
  std::ranges::sort(tried, [](const Tried& a, const Tried& b) {
    if (a.differing.size() != b.differing.size()) return a.differing.size() < b.differing.size();
    return std::abs(a.effect) > std::abs(b.effect);
  });
  const std::size_t left_out = tried.size() - std::min(tried.size(), kMost);
  tried.resize(tried.size() - left_out);
  double noise = 0.0;
  std::string rows;
  for (const Tried& each : tried) {
    if (!to.speeds().by_duels(each.id, subject.id))
      noise = std::max(noise, to.speeds().noise(each.id, subject.id));
    const std::string least = to.speeds().least_gain(each.id, subject.id);
    rows += fmt::format("- {}: {:+.1f} %{}\n", describe_configuration(each.differing),
                        100.0 * std::expm1(each.effect), least.empty() ? "" : ", " + least);
  }
  std::string words = "Other values of its tunables, and the speed that they gave beside it";
  if (noise > 0.0)
    words += fmt::format(" (by one measurement of each: noise up to {:.0f} %)", 100.0 * std::expm1(noise));
  words += ":\n" + rows;
  if (left_out > 0) words += fmt::format("- {} more\n", left_out);
  to.add("parent", std::move(words), 3, "tried values");
}

void add_subject(PromptWriter& to) {
  add_insights(to);
  to.add_kernel();
  to.add_measurements();
  add_tried_values(to);
  to.add_report();
  to.add_standing();
}

void add_other_families(PromptWriter& to) {
  constexpr std::size_t kSources = 24;  // that are looked at, fittest first
  const PromptContext& s = to.context();
  const IndividualId subject = to.subject();
  // What the best was made from is older than its idea.
  const auto older = s.incumbent == 0
                         ? std::vector<IndividualId>()
                         : chain_to_seed(s.incumbent, [&](IndividualId of) { return s.archive.parents(of); });
  std::set<IndividualId> families{s.archive.family(subject)};
  if (s.incumbent != 0 && s.archive.source_id(s.incumbent) != s.archive.source_id(subject)) {
    add_elite(to, s.incumbent);
    families.insert(s.archive.family(s.incumbent));
  }
  if (!to.kit().options().families) return;
  std::vector<IndividualId> fittest;
  for (IndividualId id = 1; id <= s.archive.size(); ++id)
    if (s.archive.state(id) == Member::State::measured) fittest.push_back(id);
  std::ranges::stable_sort(fittest, std::greater<>(), [&](IndividualId id) { return s.archive.fitness(id); });
  std::set<std::string> sources;
  for (const IndividualId id : fittest) {
    if (!sources.insert(s.archive.source_id(id)).second) continue;
    if (sources.size() > kSources) break;
    if (std::ranges::find(older, id) != older.end()) continue;
    if (families.contains(s.archive.family(id))) continue;
    return add_elite(to, id);
  }
}

}  // namespace cultivar

#include "operators/prompts/opening.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "evaluators/profile/bottleneck.hpp"
#include "operators/agent/agent_dialogue.hpp"
#include "operators/prompts/compact_report.hpp"
#include "population/lineage.hpp"

namespace cultivar {

namespace {

std::string shorter(std::string text, std::size_t most) {
  std::ranges::replace(text, '\n', ' ');
  if (text.size() <= most) return text;
  text.resize(most);
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
  return text + "...";
}

// Writes the pieces of one question.
class Writer {
 public:
  Writer(const Brief& brief, const Scene& scene, const PromptKit& kit) : brief_(brief), s_(scene), kit_(kit) {
    const auto cache = s_.facts.find(s_.target == "cuda" ? "l2_bytes" : "l3_bytes");
    for (const Workload& w : s_.workloads) {
      const bool cached = cache != s_.facts.end() && s_.task.bytes(w) <= cache->second;
      const double rate = cached ? std::max(s_.seen.bytes_per_second, s_.seen.cached_bytes_per_second)
                                 : s_.seen.bytes_per_second;
      const double arithmetic = s_.seen.flops > 0 ? s_.task.flops(w) / s_.seen.flops : 0.0;
      const double traffic = rate > 0 ? s_.task.bytes(w) / rate : 0.0;
      if (std::max(arithmetic, traffic) > 0) floors_us_.push_back(1e6 * std::max(arithmetic, traffic));
    }
    const IndividualId subject = brief_.parents.front();
    line_ = chain_to_seed(subject, [&](IndividualId id) { return s_.archive.parents(id); });
  }

  std::vector<Piece> pieces() {
    const IndividualId subject = brief_.parents.front();
    const bool critique = brief_.op == "critique_repair";
    const auto evaluation = s_.chronicle.evaluation(subject);
    auto profile = s_.chronicle.profile(subject);
    // Only what was promoted has been profiled: what an ancestor ran into is the next best that is known.
    std::string whose;
    for (auto ancestor = line_.rbegin(); ancestor != line_.rend() && !profile && !critique; ++ancestor)
      if ((profile = s_.chronicle.profile(*ancestor)))
        whose = fmt::format("It was not profiled; #{}, from which it came, was:\n\n", *ancestor);
    add("parent", kernel_text(subject), 0);
    if (!critique && evaluation && evaluation->measured()) add("parent", table_of(*evaluation), 1, "table");
    if (brief_.op == "crossover") add_partner();
    if (critique) add_evidence(evaluation, profile);
    if (!critique && profile) {
      bool first = true;
      for (const std::string& part : report_of(subject, *profile)) {
        add("report", (first ? whose : "") + part, whose.empty() ? 1 : 3,
            first ? "report" : "lines of the report");
        first = false;
      }
    }
    add("standing", standing(subject), 2, "standing");
    if (brief_.op == "mutate") add_best();
    add_lineage();
    if (!critique) add_failures();
    add_notes(evaluation, profile);
    add("direction", brief_.direction, 0);
    if (brief_.op == "mutate") add("reach", reach(subject, evaluation), 0);
    if (brief_.op == "agent")
      add("budget", budget_words(kit_.options().agent), 0);
    else
      add("answer", kit_.piece("answer"), 0);
    return std::move(pieces_);
  }

 private:
  void add(const std::string& slot, std::string text, int rank, std::string name = {}) {
    if (!text.empty()) pieces_.push_back({slot, std::move(text), rank, std::move(name)});
  }

  std::string kernel_text(IndividualId id) const {
    const Member member = s_.archive.member(id);
    return fmt::format("#{} ({}), with {}\n\n{}", id, standing_word(id),
                       describe_configuration(member.configuration),
                       fenced(s_.chronicle.source(id), s_.target == "cuda" ? "cuda" : "cpp"));
  }

  std::string standing_word(IndividualId id) const {
    if (id == s_.incumbent) return "the best so far";
    switch (s_.archive.state(id)) {
      case Member::State::measured:
        return fmt::format("fitness {:.5g}", s_.archive.fitness(id));
      case Member::State::rejected:
        return "refused";
      case Member::State::in_flight:
        break;
    }
    return "not judged yet";
  }

  std::vector<Reference> references(IndividualId subject) const {
    std::vector<Reference> all;
    const auto best = s_.incumbent != 0 ? s_.chronicle.evaluation(s_.incumbent) : std::nullopt;
    if (!best) return all;
    const auto value_of = [&](const std::string& workload) {
      for (const WorkloadResult& row : best->workloads)
        if (row.workload == workload) return row.value;
      return 0.0;
    };
    if (subject != s_.incumbent) {
      Reference incumbent{fmt::format("best (#{})", s_.incumbent), {}};
      for (const Workload& w : s_.workloads) incumbent.values.push_back(value_of(w.name));
      all.push_back(std::move(incumbent));
    }
    for (const auto& [name, ratios] : s_.chronicle.contenders()) {
      Reference contender{name, {}};
      for (const Workload& w : s_.workloads) {
        const auto ratio = ratios.find(w.name);  // its time over the incumbent's
        contender.values.push_back(
            ratio != ratios.end() && ratio->second > 0 ? value_of(w.name) / ratio->second : 0.0);
      }
      all.push_back(std::move(contender));
    }
    return all;
  }

  std::string table_of(const Evaluation& evaluation) const {
    return "As measured:\n\n" +
           describe_measurements(evaluation, s_.workloads, floors_us_, references(brief_.parents.front()));
  }

  std::vector<std::string> report_of(IndividualId id, const Profile& profile) const {
    std::optional<Profile> before;
    for (auto ancestor = line_.rbegin(); ancestor != line_.rend() && !before; ++ancestor)
      if (*ancestor != id)
        if (auto found = s_.chronicle.profile(*ancestor); found && found->workload == profile.workload)
          before = std::move(found);
    return compact_report(profile, before ? &*before : nullptr);
  }

  std::string standing(IndividualId subject) const {
    if (s_.incumbent == 0) return {};
    std::string words =
        fmt::format("The best so far is #{}, at {:.5g}.", s_.incumbent, s_.archive.fitness(s_.incumbent));
    if (subject == s_.incumbent) words = "This is the best kernel so far.";
    if (subject != s_.incumbent && s_.archive.fitness(subject) > s_.archive.fitness(s_.incumbent))
      words +=
          " That this one measured more may be noise: it has not been shown to be faster in turn with it.";
    const auto best = s_.chronicle.evaluation(s_.incumbent);
    if (best && floors_us_.size() == s_.workloads.size()) {
      double least = 1.0, most = 0.0;
      for (std::size_t i = 0; i < s_.workloads.size(); ++i)
        for (const WorkloadResult& row : best->workloads)
          if (row.workload == s_.workloads[i].name && row.median_us > 0) {
            const double share = floors_us_[i] / row.median_us;
            least = std::min(least, share);
            most = std::max(most, share);
          }
      if (most > 0)
        words += fmt::format(" It reaches {:.0f} to {:.0f} % of what the device was seen to do.", 100 * least,
                             100 * most);
    }
    for (const auto& [name, ratios] : s_.chronicle.contenders()) {
      double least = 1e300, most = 0.0;
      for (const auto& [workload, ratio] : ratios) {
        least = std::min(least, ratio);
        most = std::max(most, ratio);
      }
      if (most > 0)
        words += fmt::format(" Against the contender {} its speed is {:.3g}x to {:.3g}x.", name, least, most);
    }
    return words;
  }

  // What is known of why it is as fast as it is: what the compiler made of it otherwise than of its parent,
  // which workload gained least, how much its times scatter, and what it ran into.
  std::string causes(IndividualId id, const Member& member) const {
    const auto now = s_.chronicle.evaluation(id);
    if (!now || !now->measured()) return {};
    std::vector<std::string> known;
    const auto before =
        member.parents.empty() ? std::nullopt : s_.chronicle.evaluation(member.parents.front());
    if (before && before->measured()) {
      for (const auto& [name, value] : now->resources.values) {
        const auto was = before->resources.values.find(name);
        if (name != "text_bytes" && was != before->resources.values.end() &&
            std::abs(value - was->second) > 0.1 * std::max(value, was->second))
          known.push_back(fmt::format("{} {:.0f} -> {:.0f}", name, was->second, value));
      }
      const WorkloadResult* worst = nullptr;
      double least = 1e300, most = 0.0;
      for (const WorkloadResult& row : now->workloads)
        for (const WorkloadResult& old : before->workloads)
          if (old.workload == row.workload && old.value > 0.0) {
            const double ratio = row.value / old.value;
            if (ratio < least) least = ratio, worst = &row;
            most = std::max(most, ratio);
          }
      if (worst && most > 1.05 * least)
        known.push_back(fmt::format("least on {}: {:+.0f} %", worst->workload, 100.0 * (least - 1.0)));
    }
    double spread = 0.0;
    for (const WorkloadResult& row : now->workloads)
      if (row.median_us > 0.0) spread = std::max(spread, (row.q3_us - row.q1_us) / row.median_us);
    if (spread > 0.1) known.push_back(fmt::format("its times scatter by {:.0f} %", 100.0 * spread));
    if (const auto profile = s_.chronicle.profile(id); profile && id != brief_.parents.front())
      if (const auto findings = explain(*profile).findings; !findings.empty())
        known.push_back(shorter(findings.front().words, 100));
    return known.empty() ? std::string() : fmt::format(" [{}]", fmt::join(known, "; "));
  }

  std::string told(IndividualId id) const {
    const Member member = s_.archive.member(id);
    const Life life = s_.chronicle.life(id);
    std::string words = fmt::format("- #{} {}", id, member.op);
    if (!member.parents.empty()) words += fmt::format(" of #{}", fmt::join(member.parents, ", #"));
    if (!life.note.empty()) words += ": " + shorter(life.note, 160);
    if (member.state == Member::State::measured) {
      words += fmt::format(" -> {:.5g}", member.fitness);
      if (!member.parents.empty()) {
        const double before = s_.archive.fitness(member.parents.front());
        if (before > 0) words += fmt::format(" ({:+.1f} %)", 100.0 * (member.fitness / before - 1.0));
      }
      words += causes(id, member);
    } else if (member.state == Member::State::rejected) {
      words += fmt::format(" -> refused at {}: {}", life.stage, shorter(life.reason, 120));
    } else {
      words += " -> not judged yet";
    }
    return words;
  }

  // What the best does otherwise, where the subject is another source: the first to go when room is short.
  void add_best() {
    const IndividualId subject = brief_.parents.front();
    if (s_.incumbent == 0 || s_.incumbent == subject ||
        s_.archive.source_id(s_.incumbent) == s_.archive.source_id(subject))
      return;
    constexpr int kLeastUseful = 20;
    add("best", kernel_text(s_.incumbent), kLeastUseful,
        fmt::format("source of the best, #{}", s_.incumbent));
  }

  // How large a change should be: what is far from what is possible asks for another kernel, what is near for
  // care.
  std::string reach(IndividualId subject, const std::optional<Evaluation>& evaluation) const {
    constexpr double kFar = 0.25, kNear = 0.6, kFarBehind = 0.5, kBeside = 0.9;
    double logs = 0.0;
    int rows = 0;
    if (evaluation && evaluation->measured() && floors_us_.size() == s_.workloads.size())
      for (std::size_t i = 0; i < s_.workloads.size(); ++i)
        for (const WorkloadResult& row : evaluation->workloads)
          if (row.workload == s_.workloads[i].name && row.median_us > 0.0)
            logs += std::log(floors_us_[i] / row.median_us), ++rows;
    const double share = rows > 0 ? std::exp(logs / rows) : 0.0;  // of the roofline; 0: not known
    const double best = s_.incumbent == 0 ? 0.0 : s_.archive.fitness(s_.incumbent);
    const double beside = best > 0.0 ? s_.archive.fitness(subject) / best : 1.0;
    std::string where;
    if (share > 0.0)
      where = fmt::format("It reaches {:.0f} % of what the device was seen to do", 100 * share);
    if (beside < kBeside)
      where += fmt::format("{} {:.0f} % of the best", where.empty() ? "It reaches" : " and", 100 * beside);
    where += where.empty() ? "" : ". ";
    if ((share > 0.0 && share < kFar) || beside < kFarBehind)
      return where +
             "That is far from what is possible: one change means one idea, however much of the code it "
             "takes. Be "
             "bold, and write the core anew if the idea asks for it.";
    if (share >= kNear && beside >= kBeside)
      return where + "That is near what is possible: change only what serves this.";
    return where + "One change means one idea, carried through; what does not serve it stays as it is.";
  }

  // The way to the subject, and what else was made of it; knobs alone are told by the best of them only.
  void add_lineage() {
    const IndividualId subject = brief_.parents.front();
    std::string way;
    const std::size_t from = line_.size() > 8 ? line_.size() - 8 : 0;
    for (std::size_t i = from; i < line_.size(); ++i) way += told(line_[i]) + "\n";
    add("lineage", way, 3, "lineage");
    std::string others;
    int count = 0;
    const auto children = s_.chronicle.children(subject);
    for (auto child = children.rbegin(); child != children.rend() && count < 10; ++child) {
      const std::string op = s_.archive.member(*child).op;
      if (op == "tune" || op == "crossover_knobs") continue;
      others += told(*child) + "\n";
      ++count;
    }
    if (!others.empty()) add("lineage", "Made of it before:\n" + others, 4, "siblings");
  }

  void add_failures() {
    std::vector<IndividualId> failed;
    constexpr std::ptrdiff_t kAncestors = 4;  // each is a question to the record
    const auto last = line_.rbegin() + std::min<std::ptrdiff_t>(kAncestors, std::ssize(line_));
    for (auto ancestor = line_.rbegin(); ancestor != last; ++ancestor)
      for (const IndividualId child : s_.chronicle.children(*ancestor)) {
        const Member member = s_.archive.member(child);
        if (member.state == Member::State::rejected && member.duplicate_of == 0 && member.op != "tune" &&
            member.op != "crossover_knobs")
          failed.push_back(child);
      }
    std::ranges::sort(failed, std::greater());
    int rank = 5;
    for (std::size_t i = 0; i < std::min<std::size_t>(3, failed.size()); ++i)
      if (const auto evaluation = s_.chronicle.evaluation(failed[i]))
        add("failures", told(failed[i]) + "\n\n" + describe_rejection(*evaluation, 1200), rank++,
            fmt::format("failure #{}", failed[i]));
  }

  void add_partner() {
    const IndividualId first = brief_.parents.at(0), second = brief_.parents.at(1);
    add("partner", kernel_text(second), 0);
    const auto a = s_.chronicle.evaluation(first), b = s_.chronicle.evaluation(second);
    if (!a || !b) return;
    constexpr double kSame = 1.02;
    int rows = 0, alike = 0;
    std::string table = fmt::format("| workload | #{} | #{} | faster |\n|---|---|---|---|\n", first, second);
    for (const Workload& w : s_.workloads) {
      const auto row = [&](const Evaluation& e) -> const WorkloadResult* {
        for (const WorkloadResult& r : e.workloads)
          if (r.workload == w.name) return &r;
        return nullptr;
      };
      const WorkloadResult *one = row(*a), *two = row(*b);
      if (!one || !two || !(one->median_us > 0) || !(two->median_us > 0)) continue;
      const double ratio = two->median_us / one->median_us;
      ++rows;
      alike += ratio <= kSame && ratio >= 1.0 / kSame ? 1 : 0;
      table += fmt::format(
          "| {} | {:.4g} {} | {:.4g} {} | {} |\n", w.name, one->value, one->unit, two->value, two->unit,
          ratio > kSame         ? fmt::format("#{} by {:.1f} %", first, 100 * (ratio - 1))
          : ratio < 1.0 / kSame ? fmt::format("#{} by {:.1f} %", second, 100 * (1 / ratio - 1))
                                : std::string("neither"));
    }
    add("comparison", table, 0, "comparison");
    if (rows > 0 && alike == rows) add("same", "yes", 0);
    if (const auto profile = s_.chronicle.profile(second))
      add("comparison",
          fmt::format("What #{} runs into:\n\n{}", second,
                      fmt::join(compact_report(*profile, nullptr), "\n")),
          3, "report of the second");
  }

  // Between marks, so that what a critique quotes can be looked for here and nowhere else.
  void add_evidence(const std::optional<Evaluation>& evaluation, const std::optional<Profile>& profile) {
    std::string text = "<evidence>\n";
    if (evaluation && !evaluation->measured())
      text += describe_rejection(*evaluation, 6000);
    else if (evaluation)
      text += table_of(*evaluation);
    if (profile)
      for (const std::string& part : report_of(brief_.parents.front(), *profile)) text += "\n" + part;
    text += "</evidence>";
    add("evidence", text, 0, "evidence");
    const IndividualId subject = brief_.parents.front();
    const auto parents = s_.archive.parents(subject);
    if (!evaluation || evaluation->measured() || parents.empty()) return;
    if (s_.archive.state(parents.front()) == Member::State::measured)
      add("origin", kernel_text(parents.front()), 4, fmt::format("origin #{}", parents.front()));
  }

  void add_notes(const std::optional<Evaluation>& evaluation, const std::optional<Profile>& profile) {
    Situation situation;
    situation.target = s_.target;
    situation.task = s_.task.name;
    situation.architecture = s_.architecture;
    if (profile) {
      for (const Finding& finding : explain(*profile).findings) situation.bottlenecks.push_back(finding.kind);
      if (const KernelProfile* kernel = main_kernel(*profile))
        for (const StallShare& stall : stall_shares(*kernel))
          if (stall.share > 0.1) situation.bottlenecks.push_back("stall_" + stall.reason);
    }
    if (evaluation) situation.compiler_output = evaluation->diagnostics;
    int rank = 6;
    for (const Note* note : pick_notes(kit_.notes(), situation)) {
      if (rank >= 10) break;
      add("notes", "## " + note->title + "\n\n" + note->body, rank++, "note " + note->name);
    }
  }

  const Brief& brief_;
  const Scene& s_;
  const PromptKit& kit_;
  std::vector<double> floors_us_;
  std::vector<IndividualId> line_;  // from the seed to the subject
  std::vector<Piece> pieces_;
};

std::string system_text(const Scene& s, const PromptKit& kit, bool whole) {
  if (!whole)
    return kit.named("system_brief")
        .render({{"format", kit.piece("format_brief"), 0},
                 {"task", describe_task_briefly(s.task), 0},
                 {"device", describe_device_briefly(s.device, s.facts), 0}},
                kit.options().prompt_tokens)
        .text;
  return kit.named("system")
      .render({{"format", kit.piece("format_" + s.target), 0},
               {"task",
                describe_task(s.task, s.workloads, s.target == "cuda" ? TargetKind::cuda : TargetKind::cpu,
                              false),
                0},
               {"oracle", describe_oracle(s.task), 0},
               {"device", describe_device(s.device, s.facts, s.seen), 0}},
              kit.options().prompt_tokens)
      .text;
}

}  // namespace

ChatRequest opening(const Brief& brief, const Scene& scene, const PromptKit& kit,
                    std::vector<std::string>* left_out) {
  const PromptTemplate& page = kit.named(brief.op == "critique_repair" ? "critique" : brief.op);
  std::vector<Piece> pieces = Writer(brief, scene, kit).pieces();
  const std::int64_t budget = kit.options().prompt_tokens;
  // Without what helps a little, the whole system text must leave room for what the question is about.
  std::vector<Piece> needed;
  std::ranges::copy_if(pieces, std::back_inserter(needed), [](const Piece& p) { return p.rank <= 4; });
  std::string system = system_text(scene, kit, true);
  if (page.render(needed, budget).tokens + estimated_tokens(system) > budget) {
    system = system_text(scene, kit, false);
    // The rules that no manifest shows, where there is room for them: before failures and notes.
    constexpr int kAfterLineage = 5;
    pieces.push_back({"notes", "## The format of a kernel, in full\n\n" + kit.piece("format_" + scene.target),
                      kAfterLineage, "format in full"});
  }
  const Prompt user = page.render(pieces, budget - estimated_tokens(system));
  if (left_out) *left_out = user.left_out;
  ChatRequest request;
  request.system.push_back({system, true});
  request.messages.push_back({ChatRole::user, user.text});
  request.max_output_tokens = kit.options().output_tokens;
  if (brief.op == "agent") request.tools = agent_tool_specs();
  return request;
}

std::string beyond_budget(const ChatRequest& question, const PromptKit& kit) {
  std::int64_t tokens = 0;
  for (const ChatText& part : question.system) tokens += estimated_tokens(part.text);
  for (const ChatMessage& message : question.messages) tokens += estimated_tokens(message.text);
  const std::int64_t budget = kit.options().prompt_tokens;
  if (tokens <= kMostOverBudget * budget) return {};
  return fmt::format(
      "not asked: the kernel makes a question of about {} tokens, more than {} times asking.prompt_tokens "
      "({}); "
      "a run with asking.prompt_tokens: {} asks about it",
      tokens, kMostOverBudget, budget, (tokens / kMostOverBudget / 1000 + 1) * 1000);
}

}  // namespace cultivar

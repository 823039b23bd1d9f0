// SPDX-License-Identifier: Apache-2.0
// The tools that run nothing: lineage, sources, differences, knowledge, verdicts, notes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <string>
#include <vector>

#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/yaml/nearest_name.hpp"
#include "operators/agent/tool_session.hpp"
#include "operators/edits/similarity.hpp"
#include "operators/prompts/describe.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

// Notes that the conversations about one run leave for each other: a text file with one note a line.

inline constexpr std::size_t kMostRunNote = 1000,
                             kMostRunNotes = 100;  // bytes of a note; notes that are shown

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

// Appends one line; several processes may do so at once. `note` has no line breaks. Refused if the file has
// more than a mebibyte, or is no regular file.
Expected<void> add_run_note(const std::filesystem::path& file, const std::string& note) {
  return append_line(file, one_line_of(note, kMostRunNote), kMostBytes);
}

// The newest, oldest first. Empty if there is no readable file.
std::vector<std::string> run_notes_in(const std::filesystem::path& file) {
  const auto text = read_unlinked_file(file, 2 * kMostBytes);
  if (!text) return {};
  std::vector<std::string> notes;
  for (const std::string_view line : lines_of(*text))
    if (!line.empty()) notes.push_back(one_line_of(line, kMostRunNote));
  if (notes.size() > kMostRunNotes)
    notes.erase(notes.begin(), notes.end() - static_cast<std::ptrdiff_t>(kMostRunNotes));
  return notes;
}

constexpr std::size_t kSourceBytes = 32 * 1024;  // limit for one read_variant

std::string row_text(const KernelRow& row, const std::string& unit) {
  std::string text = row.id + "  ";
  if (row.state == "measured" && row.fitness > 0.0)
    text += fmt::format("{:.5g} {}{}", row.fitness, unit, row.duel.empty() ? "" : " (" + row.duel + ")");
  else if (row.state == "rejected")
    text += fmt::format("rejected at {}: {}", row.stage, row.reason.substr(0, 160));
  else
    text += row.state;
  if (row.best) text += ", the best";
  if (row.was_best && !row.best) text += ", was the best";
  if (!row.parents.empty()) text += fmt::format("; from {}", fmt::join(row.parents, " and "));
  if (!row.op.empty()) text += "; " + row.op;
  if (!row.configuration.empty()) text += "; " + describe_configuration(row.configuration);
  if (!row.note.empty()) text += "; " + row.note.substr(0, 240);
  std::ranges::replace(text, '\n', ' ');
  return text + "\n";
}

std::string about(const Kernel& kernel, const Bench& bench) {
  std::string text = row_text(kernel.row, bench.unit());
  for (const std::string& remark : kernel.remarks) text += remark + "\n";
  if (kernel.evaluation) {
    text += "\n";
    text += kernel.evaluation->measured() && !kernel.evaluation->workloads.empty()
                ? describe_measurements(*kernel.evaluation, bench.workloads(), {}, {})
            : kernel.evaluation->measured()
                ? fmt::format("Passed every check up to `{}`.\n", name_of(kernel.evaluation->stage))
                : describe_rejection(*kernel.evaluation);
  }
  if (kernel.profile) text += "\nProfile:\n" + report_text(*kernel.profile);
  return text;
}

// As many complete lines as fit, starting at line `from`.
std::string part_of(const std::string& source, std::size_t from, std::size_t count) {
  std::size_t begin = 0, line = 1;
  for (; line < from && begin < source.size(); ++line) {
    const std::size_t end = source.find('\n', begin);
    begin = end == std::string::npos ? source.size() : end + 1;
  }
  std::size_t end = begin, last = line;
  for (; last < line + count && end < source.size(); ++last) {
    const std::size_t next = source.find('\n', end);
    const std::size_t stop = next == std::string::npos ? source.size() : next + 1;
    if (stop - begin > kSourceBytes && end > begin) break;
    end = stop;
  }
  const auto total = static_cast<std::size_t>(std::ranges::count(source, '\n')) + !source.ends_with('\n');
  if (begin == source.size())
    return fmt::format("The source has only {} lines; from_line={} is past its end.\n", total, from);
  std::string words;
  if (begin > 0 || end < source.size()) words = fmt::format("Lines {} to {} of {}", line, last - 1, total);
  if (end < source.size()) words += fmt::format("; continue with from_line={}", last);
  return words + (words.empty() ? "" : ".\n") +
         fenced(source.substr(begin, end - begin), language_of(source)->fence);
}

}  // namespace

Answer list_lineage(ToolSession& session, const json& arguments, Watch&) {
  KernelQuery query;
  query.of = id_in(arguments, "of");
  query.state = arguments.value("state", "");
  const std::string order = arguments.value("order", "promotions");
  query.order = order == "fittest"  ? KernelQuery::Order::fittest
                : order == "newest" ? KernelQuery::Order::newest
                                    : KernelQuery::Order::promotions;
  query.limit = arguments.value("limit", 30);
  query.offset = arguments.value("offset", 0);
  const Bench& bench = session.bench;
  std::string text = bench.situation() + "\n";
  const auto drafts = session.drafts.all();
  std::string made;
  for (const Draft& draft : drafts)
    if (query.of.empty() || draft.id == query.of || draft.base == query.of)
      if (const auto kernel = find_kernel(session, draft.id);
          kernel && (query.state.empty() || kernel->row.state == query.state))
        made += row_text(kernel->row, bench.unit());
  std::string others;
  for (const KernelRow& row : bench.drafts())
    if ((query.of.empty() || row.id == query.of ||
         std::ranges::find(row.parents, query.of) != row.parents.end()) &&
        (query.state.empty() || row.state == query.state))
      others += row_text(row, bench.unit());
  if (!session.drafts.find(query.of)) {
    const auto rows = bench.kernels(query);
    if (!rows) return refused(rows.error().message);
    for (const KernelRow& row : *rows) text += row_text(row, bench.unit());
    if (static_cast<int>(rows->size()) == query.limit)
      text += fmt::format("There may be more: continue with offset={}.\n", query.offset + query.limit);
    if (rows->empty()) text += "None.\n";
  }
  if (!made.empty()) text += "\nDrafts of this session:\n" + made;
  if (!others.empty()) text += "\nDrafts of other conversations:\n" + others;
  return text;
}

Answer read_variant(ToolSession& session, const json& arguments, Watch&) {
  const auto kernel = find_kernel(session, id_in(arguments, "variant"));
  if (!kernel) return tl::make_unexpected(kernel.error());
  const auto from = static_cast<std::size_t>(arguments.value("from_line", 1));
  const auto count = static_cast<std::size_t>(arguments.value("lines", 100'000));
  return (from == 1 ? about(*kernel, session.bench) + "\n" : std::string()) +
         part_of(kernel->source, from, count);
}

Answer diff_variants(ToolSession& session, const json& arguments, Watch&) {
  const auto a = find_kernel(session, id_in(arguments, "a"));
  if (!a) return tl::make_unexpected(a.error());
  const auto b = find_kernel(session, id_in(arguments, "b"));
  if (!b) return tl::make_unexpected(b.error());
  const std::string& unit = session.bench.unit();
  std::string text = "a: " + row_text(a->row, unit) + "b: " + row_text(b->row, unit);
  const std::string lines = line_diff(a->source, b->source);
  text += lines.empty() ? "\nThe sources are the same.\n" : "\n" + fenced(lines, "diff");
  return text;
}

Answer read_knowledge(ToolSession& session, const json& arguments, Watch&) {
  Bench& bench = session.bench;
  const std::vector<Page> pages = bench.pages();
  const std::string name = arguments.value("name", "");
  if (!name.empty()) {
    for (const Page& page : pages) {
      if (page.name != name) continue;
      auto body = bench.page(name);
      if (!body) return refused(body.error().message);
      return std::move(*body);
    }
    std::vector<std::string> known;
    for (const Page& page : pages) known.push_back(page.name);
    for (const Note& note : bench.notes()) {
      if (note.name == name) return "# " + note.title + "\n\n" + note.body;
      known.push_back(note.name);
    }
    return refused(fmt::format("There is no note `{}`{}", name, did_you_mean(name, known)));
  }
  NoteQuery situation{
      std::string(name_of(bench.target())), bench.task().name, bench.architecture(), {}, {}, {}};
  if (arguments.contains("bottleneck")) situation.bottlenecks = {arguments["bottleneck"].get<std::string>()};
  situation.compiler_output = arguments.value("compiler_output", "");
  const bool filtered = !situation.bottlenecks.empty() || !situation.compiler_output.empty();
  std::string text = "Read one with `name`.\n";
  if (!filtered) {
    text += "\nAbout this task:\n";
    for (const Page& page : pages) text += fmt::format("- {}: {}\n", page.name, page.title);
  }
  const auto line = [](const Note& note) {
    return fmt::format("- {}: {} (bottlenecks: {})\n", note.name, note.title,
                       fmt::join(note.bottlenecks, ", "));
  };
  const std::vector<const Note*> picked = pick_notes(bench.notes(), situation);
  if (!picked.empty()) text += "\nNotes that apply here, most relevant first:\n";
  for (const Note* note : picked) text += line(*note);
  if (filtered) return picked.empty() ? text + "\nNo note applies.\n" : text;
  text += picked.empty() ? "\nNotes:\n" : "\nOther notes:\n";
  for (const Note& note : bench.notes()) {
    const bool of_target =
        note.targets.empty() || std::ranges::find(note.targets, situation.target) != note.targets.end();
    if (of_target && std::ranges::find(picked, &note) == picked.end()) text += line(note);
  }
  return text;
}

Answer wait_for_verdict(ToolSession& session, const json& arguments, Watch& watch) {
  constexpr auto kLook = std::chrono::milliseconds(500);
  std::string id = id_in(arguments, "variant");
  if (const auto draft = session.drafts.find(id)) id = draft->variant.id;
  const auto until =
      std::min(watch.deadline, Clock::now() + std::chrono::seconds(arguments.value("seconds", 300)));
  for (std::string last;;) {
    const auto outlook = session.bench.outlook(id);
    if (!outlook) return refused(outlook.error().message);
    if (outlook->settled) return outlook->words + "\n";
    if (outlook->words != last) watch.tell(outlook->words);
    last = outlook->words;
    if (watch.stop.stop_requested()) return refused("Cancelled.");
    if (Clock::now() + kLook >= until)
      return fmt::format("Not decided yet: {}. Call `wait` again, or go on with other work.\n", last);
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    (void)never.wait_for(lock, watch.stop, kLook, [] { return false; });
  }
}

Answer run_notes(ToolSession& session, const json& arguments, Watch&) {
  const std::filesystem::path file = session.bench.notes_file();
  const std::string text = one_line_of(arguments.value("text", ""), kMostRunNote);
  if (!text.empty()) {
    if (!file.empty()) {
      if (const auto done = add_run_note(file, text); !done) return refused(done.error().message);
    } else {
      const std::lock_guard lock(session.notes_mutex);
      if (session.notes.size() < kMostRunNotes) session.notes.push_back(text);
    }
  }
  std::vector<std::string> all;
  if (!file.empty()) {
    all = run_notes_in(file);
  } else {
    const std::lock_guard lock(session.notes_mutex);
    all = session.notes;
  }
  if (all.empty()) return "No notes yet. Leave one with `text`.\n";
  std::string words = file.empty() ? "Notes of this session, oldest first:\n"
                                   : "Notes of all conversations about this run, oldest first:\n";
  for (const std::string& note : all) words += "- " + note + "\n";
  return words;
}

}  // namespace cultivar

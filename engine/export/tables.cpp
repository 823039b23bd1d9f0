// SPDX-License-Identifier: Apache-2.0
#include "engine/export/tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>

#include "engine/store/standings.hpp"
#include "engine/store/summary.hpp"
#include "engine/views/individual_view.hpp"
#include "evaluators/launchers/index_inputs.hpp"
#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {

std::string in_a_cell(std::string_view text) {
  std::string cell;
  for (const char c : utf8_text(text))
    if (c == '&')
      cell += "&amp;";
    else if (c == '<')
      cell += "&lt;";
    else if (c == '>')
      cell += "&gt;";
    else if (c == '\n' || c == '\t')
      cell += ' ';
    else
      cell.append(std::string_view("|\\`[]!").find(c) != std::string_view::npos ? "\\" : "") += c;
  return cell;
}

std::string in_code(std::string_view text) {
  std::string code;
  for (const char c : utf8_text(text)) code += c == '`' ? '\'' : c == '\n' || c == '\t' ? ' ' : c;
  return code;
}

MarkdownTable::MarkdownTable(const std::vector<std::string>& heads) {
  row(heads);
  text_ += "|";
  for (std::size_t i = 0; i < heads.size(); ++i) text_ += "---|";
  text_ += "\n";
}

void MarkdownTable::row(const std::vector<std::string>& cells) {
  text_ += "|";
  for (const std::string& cell : cells) text_ += " " + in_a_cell(cell) + (cell.empty() ? "|" : " |");
  text_ += "\n";
}

constexpr const char* kDrawnShapes = "shapes drawn after the table was fitted";
constexpr const char* kListedShapes = "listed shapes";

std::string workload_table(const Evaluation& evaluation) {
  std::set<std::string> contenders;
  for (const auto& workload : evaluation.workloads)
    for (const auto& [name, ratio] : workload.ratios) contenders.insert(name);

  std::vector<std::string> heads{"workload",  "median us", "95 % interval",
                                 "quartiles", "samples",   evaluation.unit};
  for (const auto& name : contenders) heads.push_back("speedup over " + name);
  MarkdownTable table(heads);
  for (const auto& workload : evaluation.workloads) {
    std::vector<double> times;
    for (const auto& sample : workload.samples) times.push_back(sample.seconds * 1e6);
    std::string interval = "-";
    if (!times.empty()) {
      const auto bounds = bootstrap_interval(times, median, 0.95, 1);
      interval = fmt::format("{:.1f} - {:.1f}", bounds.lower, bounds.upper);
    }
    std::vector<std::string> cells{workload.workload,
                                   fmt::format("{:.1f}", workload.median_us),
                                   interval,
                                   fmt::format("{:.1f} - {:.1f}", workload.q1_us, workload.q3_us),
                                   fmt::format("{}", times.size()),
                                   fmt::format("{:.2f}", workload.value)};
    for (const auto& name : contenders) {
      const auto it = workload.ratios.find(name);
      cells.push_back(it == workload.ratios.end() ? "-" : fmt::format("{:.3f}", it->second));
    }
    table.row(cells);
  }
  const auto beside = beside_best_contenders(evaluation);
  return beside ? table.text() + "\n" + in_a_cell(words_of(*beside)) + ".\n" : table.text();
}

std::string exactness_section(const Evaluation& evaluation) {
  std::string domain = evaluation.checked ? "\n" + checked_words(*evaluation.checked) + "\n" : "";
  if (evaluation.coverage && !evaluation.coverage->not_run.empty()) {
    domain += "\nNo input that was drawn reached these lines, so nothing is known of calls that do:\n\n";
    for (const LinesNotRun& lines : evaluation.coverage->not_run)
      domain += "- " + in_a_cell(lines.text()) + "\n";
  }
  const auto rows = exactness_rows(evaluation);
  if (rows.empty()) return domain;
  MarkdownTable table(rows.front());
  for (std::size_t i = 1; i < rows.size(); ++i) table.row(rows[i]);
  const std::string words = exactness_words(evaluation);
  return "\nErrors against fp64, relative to those of the permitted roundings on the same inputs:\n\n" +
         table.text() + (words.empty() ? "" : "\n" + words + "\n") + domain;
}

const IndividualRow& source_row(const std::vector<IndividualRow>& lineage) {
  return *std::ranges::find_if(lineage, [&](const IndividualRow& row) {
    return row.individual.source_id == lineage.back().individual.source_id;
  });
}

std::string lineage_text(const std::vector<IndividualRow>& lineage, const std::string& unit) {
  MarkdownTable table(
      {"id", "operator", "parents", unit, "gain over the previous row", "configuration", "note"});
  double previous = 0.0;
  bool paced = false;
  for (const IndividualRow& row : lineage) {
    const Individual& individual = row.individual;
    const double fitness = row.by_duel.value_or(individual.fitness / row.pace);
    paced |= row.pace != 1.0 && !row.by_duel;
    const auto gain = previous > 0 && fitness > 0
                          ? fmt::format("{:+.1f} %{}", 100.0 * (fitness / previous - 1.0),
                                        row.by_duel ? "" : ", one measurement")
                          : "-";
    table.row({fmt::format("{}", individual.id), origin_name(individual.descent),
               individual.descent.parents.empty()
                   ? "-"
                   : fmt::format("{}", fmt::join(individual.descent.parents, ", ")),
               individual.measured ? fmt::format("{:.2f}", row.by_duel.value_or(individual.fitness))
               : row.expelled      ? "failed its confirmation"
                                   : "rejected at " + row.stage,
               gain, configuration_text(individual.configuration), individual.descent.note});
    if (fitness > 0) previous = fitness;
  }
  if (!paced) return table.text();
  return table.text() + "\nThe device's speed changed during the search; the gains are corrected for that.\n";
}

nlohmann::json lineage_json(const std::vector<IndividualRow>& lineage) {
  auto result = nlohmann::json::array();
  for (const auto& row : lineage) {
    nlohmann::json configuration = nlohmann::json::object();
    for (const auto& [name, value] : row.individual.configuration)
      std::visit([&configuration, &key = name](const auto& v) { configuration[key] = v; }, value);
    result.push_back({{"id", row.individual.id},
                      {"variant", row.individual.variant_id},
                      {"operator", origin_name(row.individual.descent)},
                      {"parents", row.individual.descent.parents},
                      {"island", row.individual.descent.island},
                      {"note", row.individual.descent.note},
                      {"fitness", row.individual.fitness},
                      {"measured", row.individual.measured},
                      {"configuration", configuration}});
  }
  return result;
}

std::string percent_text(double log_ratio) {
  return std::isfinite(log_ratio) ? fmt::format("{:+.1f} %", 100.0 * std::expm1(log_ratio)) : "?";
}

std::string learnt_words(const KernelPortfolio& portfolio) {
  if (!portfolio.over) return fmt::format("the {} listed workloads of the search", portfolio.entries.size());
  const DomainDispatch& over = *portfolio.over;
  const DispatchFigures figures = figures_of(over, over.drawn);
  std::string words = fmt::format("{} shapes drawn in the domain {}", over.learnt, over.domain);
  if (figures.shapes > 0)
    words += fmt::format("; on {} drawn later it took {:.3f} times the best kernel's time (geometric mean)",
                         figures.shapes, figures.regret);
  if (figures.beside > 0)
    words += fmt::format(" and had {:.3f} times the speed of the fastest contender", figures.ratio);
  return words;
}

std::string portfolio_table(const KernelPortfolio& portfolio) {
  MarkdownTable table({"workload", "kernel", fmt::format("gain over #{}", portfolio.best), "at least",
                       "at most", "decided by"});
  for (const PortfolioEntry& entry : portfolio.entries) {
    if (portfolio.over && entry.kernel != portfolio.best) {
      table.row({entry.workload, fmt::format("#{}", entry.kernel), percent_text(entry.log_ratio), "-", "-",
                 "the table"});
      continue;
    }
    const SpecialistDuel* const duel = portfolio.duel_of(entry.kernel, entry.workload);
    if (entry.kernel == portfolio.best || !duel)
      table.row({entry.workload, fmt::format("#{}", entry.kernel), "-", "-", "-", "-"});
    else
      table.row({entry.workload, fmt::format("#{}", entry.kernel), percent_text(entry.log_ratio),
                 percent_text(entry.lower), percent_text(entry.upper),
                 fmt::format("{} runs in random order, {} pairs", duel->runs, duel->blocks)});
  }
  const PortfolioEntry gain = portfolio.gain();
  table.row({"geometric mean", "", percent_text(gain.log_ratio), percent_text(gain.lower),
             percent_text(gain.upper), ""});
  return table.text();
}

bool is_installed_seed(const Record& record, const Individual& seed, const std::filesystem::path& tasks) {
  const auto file =
      tasks / record.facts().task_name / "seeds" / std::filesystem::path(seed.descent.note).filename();
  std::error_code none;
  if (tasks.empty() || !std::filesystem::is_regular_file(file, none)) return false;
  try {
    return normalised(read_source(file)) == normalised(record.source(seed.id));
  } catch (const InputError&) {
    return false;
  }
}

namespace {

std::string ratio_words(const Record& record, IndividualId id) {
  const auto found = ratio_to_seed(record, id);
  if (!found) return "";
  return found->beside
             ? fmt::format(
                   ". It has {:.2f} times the first seed's speed, timed beside it in the confirmation",
                   found->ratio)
             : fmt::format(
                   ". During the search it had {:.2f} times the first seed's fitness (not measured at the "
                   "same time)",
                   found->ratio);
}

// What made it: the search, or whoever gave it the source.
std::string origin_words(const Record& record, IndividualId id, const std::filesystem::path& tasks) {
  const auto lineage = record.lineage(id);
  if (lineage.empty()) return "of unknown origin";
  const Individual& last = lineage.back().individual;
  const Individual& first = source_row(lineage).individual;
  const Descent& of_source = first.descent;
  const bool written = of_source.origin == Origin::operator_;
  std::string words =
      of_source.origin == Origin::seed
          ? fmt::format("the {}seed `{}`", is_installed_seed(record, first, tasks) ? "hand-written " : "",
                        in_code(of_source.note))
      : written ? "written by " + of_source.op
                : "a submission";
  if (first.id != id) return words + ", values by " + origin_name(last.descent);
  return written ? words : words + ", as given";
}

// The rules, and their figures on drawn and on listed shapes.
std::string domain_section(const DomainDispatch& over) {
  std::string text = fmt::format(
      "## Which kernel a call goes to\n\nLearnt from {} shapes drawn in the domain `{}` (below {:.3g} GiB "
      "and {:.6g} ms a call):\n\n",
      over.learnt, in_code(over.domain), over.most_bytes / 1073741824.0, 1e3 * over.most_seconds);
  for (const std::string& rule : rules_of(over.table, over.kernels)) text += "- `" + in_code(rule) + "`\n";
  text += "\n" + in_a_cell(words_of(figures_of(over, over.drawn), kDrawnShapes)) + "\n\n" +
          in_a_cell(words_of(figures_of(over, over.listed), kListedShapes)) + "\n\n";
  std::set<std::string> contenders;
  for (const ShapeTimes& each : over.drawn)
    for (const auto& [name, seconds] : each.contenders) contenders.insert(name);
  std::vector<std::string> heads{"drawn shape", "kernel", "us", "beside the best kernel"};
  for (const std::string& name : contenders) heads.push_back("speedup over " + name);
  MarkdownTable table(heads);
  for (const ShapeTimes& each : over.drawn) {
    if (each.left_out) continue;
    const TimedShape shape = timed_shape(each, over.kernels);
    const std::size_t chosen = over.table.choice(shape.values, shape.serves());
    std::vector<std::string> cells{each.shape, fmt::format("#{}", over.kernels.at(chosen)),
                                   fmt::format("{:.1f}", 1e6 * shape.seconds[chosen]),
                                   fmt::format("{:.3f}", regret(over.table, shape))};
    for (const std::string& name : contenders) {
      const auto theirs = each.contenders.find(name);
      cells.push_back(theirs == each.contenders.end()
                          ? "-"
                          : fmt::format("{:.3f}", theirs->second / shape.seconds[chosen]));
    }
    table.row(cells);
  }
  text += table.text();
  for (const auto& [why, count] : over.left_out)
    text += fmt::format("\n{} drawn shapes do not count: {}.\n", count, in_a_cell(why));
  return text + "\n";
}

std::string measured_words(const BundledKernel& kernel) {
  return kernel.confirmed ? "\nMeasured in the confirmation: a fresh process with new secret inputs."
                          : "\nMeasured during the search.";
}

}  // namespace

std::string table_page(const std::string& name, const std::string& device,
                       const std::vector<BundledKernel>& kernels, const KernelPortfolio* portfolio) {
  const bool contended = std::ranges::any_of(kernels, [](const BundledKernel& kernel) {
    return beside_best_contenders(kernel.evaluation).has_value();
  });
  std::string text = fmt::format(
      "# {}\n\nMeasured by Cultivar on {}. The output of every timed run was checked on secret random rows, "
      "and every shape once on all rows.{}\n\n",
      name, in_a_cell(device), contended ? " Contenders were timed interleaved with the kernel." : "");
  if (portfolio != nullptr && portfolio->over) text += domain_section(*portfolio->over);
  const std::string where =
      portfolio == nullptr || portfolio->device.empty() ? "" : " on " + in_a_cell(portfolio->device);
  if (kernels.size() > 1 && portfolio->over)
    text += fmt::format(
        "The listed workloads, and what the table's choice gains over the best kernel, timed side by side{}:"
        "\n\n{}\n",
        where, portfolio_table(*portfolio));
  else if (kernels.size() > 1)
    text += fmt::format(
        "Each call goes to the first kernel of the rule that holds for its sizes, in the launcher at the "
        "top; the rules give each of these listed workloads its kernel, and on other shapes nothing was "
        "measured. The gains are those of duels with the best kernel, run side by side{}; the lower bounds "
        "hold for all workloads together. A specialist that was confirmed for this portfolio was timed on "
        "the workloads that go to it.\n\n{}\n",
        where, portfolio_table(*portfolio));
  for (const BundledKernel& kernel : kernels) {
    if (kernels.size() > 1)
      text += fmt::format("## #{}: {}\n\n", kernel.id(), in_a_cell(kernel.variant.manifest.name));
    text += workload_table(kernel.evaluation) + exactness_section(kernel.evaluation) +
            measured_words(kernel) + (&kernel == &kernels.back() ? "\n" : "\n\n");
  }
  return text;
}

std::string about_kernels(const Record& record, const std::string& workloads,
                          const std::vector<BundledKernel>& kernels, const std::string& identity,
                          const KernelPortfolio* portfolio, const std::filesystem::path& installed_tasks) {
  const auto figures = [&](const BundledKernel& kernel) {
    return fmt::format("{:.2f} {}", Standings(record).fitness(kernel.id()),
                       in_a_cell(kernel.evaluation.unit));
  };
  const auto identified = [](const BundledKernel& kernel) {
    const auto& tunables = kernel.variant.manifest.tunables;
    const std::string values =
        tunables.empty()
            ? "without tunables"
            : fmt::format("configuration `{}`", to_string(tunables, kernel.variant.configuration));
    std::string text = fmt::format("ariant `{}`, {}, identity `{}`", kernel.variant.manifest.name, values,
                                   short_identity(kernel.variant));
    if (kernel.file_identity != short_identity(kernel.variant))
      text += fmt::format(
          " in the record (`{}{}`{} is `{}`)", kernel.folder, kernel.parts.values.at("kernel_file"),
          tunables.empty() ? "" : ", with these values as its defaults,", kernel.file_identity);
    return text;
  };
  const std::string run = in_code(record.facts().name), set = in_code(workloads);
  if (kernels.size() == 1)
    return fmt::format("V{}.\nFrom the run `{}`, {}: {} over the workloads of `{}`{}.",
                       identified(kernels[0]), run, origin_words(record, kernels[0].id(), installed_tasks),
                       figures(kernels[0]), set, ratio_words(record, kernels[0].id()));
  const PortfolioEntry gain = portfolio->gain();
  std::string text = fmt::format("{} kernels behind one entry, identity `{}`, from the run `{}`. ",
                                 kernels.size(), identity, run);
  if (portfolio->over)
    text += fmt::format(
        "`TABLE.md` has the rules by which a call finds its kernel, learnt over the domain `{}`. {} {}\n",
        in_code(portfolio->over->domain),
        in_a_cell(words_of(figures_of(*portfolio->over, portfolio->over->drawn), kDrawnShapes)),
        in_a_cell(words_of(figures_of(*portfolio->over, portfolio->over->listed), kListedShapes)));
  else
    text += fmt::format(
        "The rules by which a call finds its kernel were learnt from the listed workloads of `{}` alone; "
        "`TABLE.md` says where each of these goes. Over them the kernels gain {} over the best alone (at "
        "least {}):\n",
        set, percent_text(gain.log_ratio), percent_text(gain.lower));
  for (const BundledKernel& kernel : kernels)
    text += fmt::format("\n- #{}, {}: v{}, {} over all workloads{}.", kernel.id(),
                        origin_words(record, kernel.id(), installed_tasks), identified(kernel),
                        figures(kernel), ratio_words(record, kernel.id()));
  return text;
}

std::string kernel_rows(const std::vector<BundledKernel>& kernels) {
  std::string text;
  for (const BundledKernel& kernel : kernels) {
    text += fmt::format("| `{}{}` | the source, manifest included |\n", kernel.folder,
                        kernel.parts.values.at("kernel_file"));
    for (const HeaderFile& header : split_source(kernel.variant.source).headers)
      text += fmt::format("| `{}{}` | a header of the source |\n", kernel.folder, header.name);
  }
  return text;
}

std::string licenses_of(const std::vector<BundledKernel>& kernels) {
  std::string text;
  for (const BundledKernel& kernel : kernels) {
    const std::string& license = kernel.variant.manifest.license;
    text += fmt::format("{}The license of `{}{}` is {}.", text.empty() ? "" : "\n", kernel.folder,
                        kernel.parts.values.at("kernel_file"),
                        license.empty() ? "not stated: its manifest has no `license`" : license);
  }
  return text;
}

std::string values_sentence(const Task& task, bool on_host) {
  std::vector<std::string> words, places;
  for (const auto& [name, values] : values_of_whole_inputs(task)) {
    words.push_back(fmt::format("{}: {}", name, values));
    if (is_index(task, *task.tensor(name))) places.push_back(name);
  }
  if (words.empty()) return {};
  std::string text =
      fmt::format("Precondition: inputs of whole numbers hold these values: {}.", fmt::join(words, "; "));
  if (!places.empty())
    text += on_host
                ? fmt::format(" Each call looks at all of {}, and refuses others.", fmt::join(places, ", "))
                : fmt::format(
                      " Others in {} are places outside of a tensor: the kernel would read or write there, "
                      "and no call "
                      "looks at them, because they are in the device's memory.",
                      fmt::join(places, ", "));
  return cpp_comment(text);
}

std::string parameters_sentence(const LauncherInput& input) {
  const std::string words = words_of_parameters(input);
  return words.empty() ? "" : "; parameters: " + cpp_comment(words);
}

}  // namespace cultivar

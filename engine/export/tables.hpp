// SPDX-License-Identifier: Apache-2.0
// The bundle's tables for people: times with intervals, and the lineage.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/export/bundled_kernel.hpp"
#include "engine/export/portfolio.hpp"
#include "engine/views/evaluation_view.hpp"

namespace cultivar {

// Markdown for text from other parties (operators, notes, devices, contenders): it cannot create columns,
// HTML, links or lines.

// Escaped for a line or a table's cell.
std::string in_a_cell(std::string_view text);
// For between two backticks, where escapes have no effect.
std::string in_code(std::string_view text);

// A table whose cells are all escaped.
class MarkdownTable {
 public:
  explicit MarkdownTable(const std::vector<std::string>& heads);
  void row(const std::vector<std::string>& cells);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Markdown: per workload the median with its 95 % bootstrap interval, quartiles, samples, value, contender
// ratios.
std::string workload_table(const Evaluation&);
std::string exactness_section(const Evaluation&);  // in Markdown, with a line of explanation; may be empty
// Of a lineage that is not empty: the row that brought the source of the last one; later ones changed values.
const IndividualRow& source_row(const std::vector<IndividualRow>& lineage);
// Whether a seed of a run is one that Cultivar installs below `tasks`, unchanged: only then is it known that
// its author is a person.
bool is_installed_seed(const Record&, const Individual& seed, const std::filesystem::path& tasks);
// Markdown: every step from the seed to the exported kernel, with its gain.
std::string lineage_text(const std::vector<IndividualRow>&, const std::string& unit);
nlohmann::json lineage_json(const std::vector<IndividualRow>&);
// "+4.4 %".
std::string percent_text(double log_ratio);
// Markdown of a portfolio: which kernel each workload goes to, and what that gains over the best alone.
std::string portfolio_table(const KernelPortfolio&);
// From what its table was learnt, and what that is worth: "the 4 listed workloads of the search".
std::string learnt_words(const KernelPortfolio&);

// Texts of a bundle, in Markdown; `portfolio` is not null if there are several kernels. TABLE.md; what the
// kernels are and how fast, for the README; and its rows for the kernels' files.
std::string table_page(const std::string& name, const std::string& device, const std::vector<BundledKernel>&,
                       const KernelPortfolio* portfolio);
std::string about_kernels(const Record&, const std::string& workloads, const std::vector<BundledKernel>&,
                          const std::string& identity, const KernelPortfolio* portfolio,
                          const std::filesystem::path& installed_tasks);
std::string kernel_rows(const std::vector<BundledKernel>&);
// A sentence for each kernel: under which license its manifest says that it is.
std::string licenses_of(const std::vector<BundledKernel>&);

// What inputs of whole numbers must hold, for README.md and the Python module; empty: there are none.
std::string values_sentence(const Task&, bool on_host);
// "; parameters: scale from -4 to 4", or nothing.
std::string parameters_sentence(const LauncherInput&);

}  // namespace cultivar

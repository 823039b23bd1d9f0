// SPDX-License-Identifier: Apache-2.0
// Shared by `run` and `resume`: the progress line, the end of a search, its summary and its export.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "engine/cli/detached_search.hpp"
#include "engine/cli/installation_paths.hpp"
#include "engine/cli/interrupt.hpp"
#include "engine/cli/options.hpp"
#include "engine/cli/output.hpp"
#include "engine/search/search.hpp"
#include "engine/store/record.hpp"
#include "engine/store/summary.hpp"

namespace cultivar {

Installation installation_of(const InstallationPaths&);
Runtime runtime_of(const InstallationPaths&);

// Doubles every exhausted budget, as options for `resume`: " --set budget.tokens=120000"; empty if none is.
// `models_too`: also the budgets of language models, because the rest is too small for another call.
std::string twice_what_is_spent(const Summary&, bool models_too = false);

// Where an exported kernel can be built, checked and timed: "on this or another machine". `devices`: that
// this machine has, as far as is known.
std::string where_it_runs(Target, int devices);
int devices_here(Target);

// The options that `run` and `resume` have in common.
struct SessionOptions {
  bool as_json = false, verbose = false, detach = false, dashboard = false;
  std::string log;

  void add_to(Options&);  // outlives its parse()
  void open_log();        // from here on everything is printed to `log`, if it is named
  // The options of the process that takes over with --detach.
  std::vector<std::string> again() const;
  std::shared_ptr<SearchLog> opened = {};
};

// Returns the command's exit code.
int search_session(const InstallationPaths&, const std::filesystem::path& run_folder, const Output&,
                   const SessionOptions&,
                   const std::function<Expected<Outcome>(const Runtime&, const SearchCallbacks&)>& search);

}  // namespace cultivar

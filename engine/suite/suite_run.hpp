// SPDX-License-Identifier: Apache-2.0
// One task of a suite: what is left to do, how long that takes, and doing it.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/search/search.hpp"
#include "engine/search/search_callbacks.hpp"
#include "engine/suite/suite.hpp"

namespace cultivar {

struct SuiteStep {
  // waits: to be resumed when an answer lies in one of its mailboxes; there is none, and a best kernel.
  enum class Kind { begin, resume, waits, done } kind = Kind::begin;
  std::vector<std::string> overrides = {};  // larger budgets than the record's, for resume_search
  double seconds_left = 0.0;                // of the wall budget; 0 also if there is none
};

// A search is done when it has finished; a larger budget in the suite's file continues it. Fails when the
// folder holds a search of another task, target or workloads, or an unreadable record.
Expected<SuiteStep> next_step(const SuiteTask&, const std::filesystem::path& run_folder);

struct SuiteTaskEnd {
  bool interrupted = false;
  // Of a turn (Runtime::turn_s): the search is not done, and goes on in a later turn, or once answers lie in
  // its mailboxes.
  bool turn_over = false, waits_for_letters = false;
  std::string trouble = {};  // why the search or its export failed, with the remedy; empty: it did not
  bool missing = false;      // this machine lacks what the trouble says, for every search on this target
};

// Begins or resumes the search and, when it is done, exports its best kernel to run_folder/best. Every
// failure is a trouble.
SuiteTaskEnd take_step(const SuiteTask&, const SuiteStep&, const std::filesystem::path& run_folder,
                       const Runtime&, const SearchCallbacks&, const std::atomic<bool>& stop);

// How much longer a suite takes: the budgets of its searches, and the work that each of them still does when
// its budget is spent, mainly the confirmation of its best kernel. How long that takes is known from the
// searches that have ended, to which a usual one is added.
class SuiteRemaining {
 public:
  // The budgets of all searches that will run, and their number.
  SuiteRemaining(double searches_s, int searches) : searches_s_(searches_s), searches_(searches) {}

  void begins(double budget_s);  // the next search, with what is left of its budget
  void skips(double budget_s);   // it will not run
  double seconds(const Progress&);
  void ended();  // the search that began last

 private:
  double usual_s() const;  // from the end of a budget to the end of its search

  double searches_s_;  // of those that have not begun
  int searches_;
  double began_closing_s_ = -1.0, closing_s_ = 0.0;  // of the current one; closing_s_: how long so far
  double all_closing_s_ = 0.0;
  int closed_ = 0;
};

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// How much longer a suite takes: the budgets of its searches, and the work that each of them still does when
// its budget is spent, mainly the confirmation of its best kernel. How long that takes is known from the
// searches that have ended, to which a usual one is added.
#pragma once

#include "engine/search/search_callbacks.hpp"

namespace cultivar {

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

// SPDX-License-Identifier: Apache-2.0
#include "engine/store/evaluation_rate.hpp"

#include <SQLiteCpp/Database.h>

#include "engine/store/rows.hpp"

namespace cultivar {

void EvaluationRate::ended(double elapsed_s) {
  ends_.push_back(elapsed_s);
  if (ends_.size() > kMost + 1) ends_.pop_front();
}

double EvaluationRate::per_hour() const {
  if (ends_.size() < kLeast) return 0.0;
  const double last = ends_.back();
  std::size_t from = ends_.size() - 1;
  while (from > 0 && (ends_[from - 1] >= last - kWindow || ends_.size() - from < kFewest)) --from;
  const double seconds = last - ends_[from];
  return seconds > 0.0 ? 3600.0 * static_cast<double>(ends_.size() - 1 - from) / seconds : 0.0;
}

EvaluationRate rate_of(const Record& record) {
  EvaluationRate rate;
  each_row(
      record.database(), "SELECT elapsed_s FROM decisions WHERE kind = 'judge' ORDER BY seq DESC LIMIT ?",
      [&](SQLite::Statement& row) { rate.ends_.push_front(column<double>(row, 0)); },
      static_cast<std::int64_t>(EvaluationRate::kMost + 1));
  return rate;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// Whether kernels go before a comparison that is due: it keeps a device for minutes, they for seconds each,
// and they may make it needless.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/breeding/breeding.hpp"
#include "engine/config/config.hpp"
#include "engine/search/evaluations.hpp"

namespace cultivar {

// Not thread-safe. All references outlive it.
class Precedence {
 public:
  // The last three say what may still come.
  struct Now {
    double elapsed_s = 0.0, session_s = 0.0;
    std::int64_t answers = 0;    // of models in this session
    bool answers_come = false;   // models were asked, other than by letters
    bool settings_come = false;  // operators propose without asking, or their proposals are being measured
  };
  // `turn_s`: of the session, 0 without turns (Runtime::turn_s). `asks`: language models.
  Precedence(const Config&, double turn_s, bool asks, const Breeding&, const Evaluations&);

  // To be asked while a comparison is due and none is in flight. Two minutes at most: for kernels that models
  // or users wrote and that were under way when it became due. The first confirmation, without which no
  // kernel is the best, waits longer: while the fastest kernel still becomes noticeably faster, until a
  // quarter of the budget is used; and, if it is a seed's, for the first answers, though not for letters, of
  // which only those are read that lie there.
  bool of_kernels(const Now&);
  void reset() { due_.reset(); }  // a comparison has begun, or none may wait

 private:
  bool answers_awaited(const Now&) const;
  bool still_faster(const Now&);
  double share_used(const Now&) const;

  const Config& config_;
  const double turn_s_;
  const bool asks_;
  const Breeding& breeding_;
  const Evaluations& evaluations_;
  struct Due {
    double since_s = 0.0;
    IndividualId last = 0;     // the comparison waits for kernels up to this one
    std::int64_t answers = 0;  // how many had come when it became due
  };
  std::optional<Due> due_;
  double fastest_ = 0.0;            // when a kernel was last noticeably faster
  std::int64_t measured_then_ = 0;  // number of kernels
};

}  // namespace cultivar

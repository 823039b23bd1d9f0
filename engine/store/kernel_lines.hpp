// SPDX-License-Identifier: Apache-2.0
// What lists show of an individual: its row without the texts and lists that cost the most to read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/record.hpp"

namespace cultivar {

struct KernelLine {
  IndividualId id = 0, parent = 0, duplicate_of = 0;  // parent: the first one; 0: none
  std::int64_t source = 0;                            // equal for equal sources
  std::string op, model;                              // op: as origin_name()
  int island = 0;
  double usd = 0.0;
  std::int64_t tokens = 0;
  double proposed_at = 0.0, judged_at = 0.0;  // seconds since 1970
  IndividualState state = IndividualState::proposed;
  bool expelled = false;
  std::string stage, reason;
  double fitness = 0.0;  // as measured
};

void each_kernel_line(const Record&, const std::function<void(const KernelLine&)>&,
                      IndividualId after = 0);  // by id
std::optional<KernelLine> kernel_line(const Record&, IndividualId);
// Those whose note or configuration, as "BLOCK_M=64 STAGES=2", contains the text, in either case of ASCII
// letters; by id.
std::vector<IndividualId> kernels_mentioning(const Record&, const std::string& text);
// The configuration and the note of some individuals, as recorded, each cut to this many bytes; in the order
// of `ids`.
struct KernelTexts {
  std::string configuration, note;
};
std::vector<KernelTexts> kernel_texts(const Record&, const std::vector<IndividualId>& ids, std::size_t most);

// Seconds since 1970. evaluated_at: of the newest evaluation of that kind; 0: there is none.
double evaluated_at(const Record&, IndividualId, Examination);
double last_step_at(const Record&);  // when the search last recorded anything

// Differs from what it was if another process has written to the record since this one was opened.
std::int64_t revision_of(const Record&);

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// Creates the pieces of a question about one kernel of the search, its subject. Each operator adds the pieces
// that it needs; their order decides the order in a slot, and which of equal rank are dropped first.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/profile/bottleneck.hpp"
#include "operators/prompts/prompt.hpp"
#include "operators/prompts/prompt_context.hpp"
#include "operators/prompts/speeds.hpp"

namespace cultivar {

// The references must outlive the writer. It has more than 25 functions because each piece of a prompt is one
// of them, and operators compose their prompts from them.
class PromptWriter {
 public:
  // `keeps_sources`: whether the operator of this name only sets tunables. Its individuals are left out of
  // lists.
  PromptWriter(const PromptContext&, const PromptKit&, IndividualId subject,
               std::function<bool(const std::string& op)> keeps_sources = {});

  const PromptContext& context() const { return s_; }
  const PromptKit& kit() const { return kit_; }
  const Speeds& speeds() const { return speeds_; }
  IndividualId subject() const { return subject_; }
  const std::vector<IndividualId>& line() const { return line_; }              // from the seed to the subject
  const std::optional<Evaluation>& evaluation() const { return evaluation_; }  // of the subject
  const std::optional<Profile>& profile() const { return profile_; }           // of the subject
  // The main finding of the profile that add_report() used; nullopt if there is none, or if it is of another
  // source: a change may have removed the limit.
  std::optional<Finding> limit() const;
  // The shortest possible time of each workload at the device's measured peak. Unknown if the size differs
  // from that of the workloads.
  const std::vector<double>& floors_us() const { return floors_us_; }

  // An empty text adds nothing.
  void add(const std::string& slot, std::string text, int rank, std::string name = {});

  // Pieces about the subject, for the slots parent, report, standing, lineage, failures, notes and answer.
  void add_kernel();
  // For questions that are not about its source: cut to a quarter of the prompt's limit, and dropped next.
  void add_kernel_briefly();
  void add_measurements();
  void add_report();  // of its profile, or the profile of the nearest ancestor
  void add_standing();
  void add_lineage();   // and other sources derived from it
  void add_failures();  // the newest of its lineage
  void add_notes();     // that apply to its bottlenecks
  void add_answer();    // how to write an edit

  // For the slot trajectory: the incumbents of the search, and the newest sources.
  void add_trajectory();

  // Parts of pieces.
  // With its state and its values; the source is cut to `most` bytes.
  std::string kernel_text(IndividualId, std::size_t most = std::string::npos) const;
  std::string table_of(const Evaluation&) const;
  std::vector<std::string> report_of(IndividualId, const Profile&) const;
  // Of its profile, or the profile of the nearest ancestor, introduced as such; empty: there is none.
  std::vector<std::string> nearest_report();
  // On one line: its origin, its idea, cut to `most` bytes, and its result.
  std::string told(IndividualId, std::size_t most = kMostNote) const;

  // What an idea says for another one: the distance of its speed from its parent's, as a logarithm, and 0 if
  // it was rejected or is not measured yet.
  double effect(IndividualId) const;

  static constexpr std::size_t kMostNote = 600;  // bytes of an idea

  std::vector<Piece> pieces() const { return pieces_; }

 private:
  std::string standing_word(IndividualId) const;
  // Whether the table says that the profiled workload takes longer than at the roofline, whatever its
  // profile, of another moment, says: a letter states one share of the peak.
  bool far_from_roofline() const;
  std::string find_report();  // sets reported_; the introduction of another's profile
  std::vector<Reference> references(const Evaluation&) const;
  std::string causes(IndividualId, const Member&) const;
  bool keeps_source(IndividualId) const;

  const PromptContext& s_;
  Speeds speeds_;
  const PromptKit& kit_;
  IndividualId subject_;
  std::function<bool(const std::string&)> keeps_sources_;
  std::optional<Evaluation> evaluation_;
  std::optional<Profile> profile_, reported_;
  IndividualId reported_of_ = 0;  // whose profile reported_ is
  std::vector<double> floors_us_;
  std::vector<IndividualId> line_;  // lineage from the seed to the subject
  std::vector<Piece> pieces_;
};

}  // namespace cultivar

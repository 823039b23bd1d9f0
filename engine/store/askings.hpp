// SPDX-License-Identifier: Apache-2.0
// Questions to language models as decisions in the record: each question and its dialogue.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/breeding/breeding.hpp"
#include "engine/store/exchanges.hpp"
#include "engine/store/record.hpp"
#include "operators/registry.hpp"

namespace cultivar {

// Body of the decision `ask`.
struct AskedQuestion {
  std::int64_t number = 0;
  Brief brief;
  AskingLimits room;
  std::string request_hash;           // of the first question
  std::vector<std::string> left_out;  // omitted because it did not fit the prompt's token limit
};
struct AskedOn {
  AskedQuestion question;
  std::string stream;
};
std::int64_t given_up_questions(const Record&);       // those that ended without a proposal
std::vector<AskedOn> asked_questions(const Record&);  // all, in order
struct GivenUpQuestion {
  std::int64_t number = 0;
  std::string reason;
  bool withdrawn = false;  // nobody had answered it: it says nothing about its direction
};
std::vector<GivenUpQuestion> newest_given_up(const Record&, std::size_t most);  // newest first
nlohmann::json to_json(const AskedQuestion&);
AskedQuestion asked_question(const std::string& body);

// For a proposal made without a model while models are configured: the AskingLimits it was made with. Empty
// body: none.
std::string room_body(const AskingLimits&);
// Body of the decision `propose`: a AskingLimits, or the question that produced the proposal.
struct ProposalBody {
  AskingLimits room;
  std::int64_t asking = 0;
  double device_s = 0.0;  // used by the tools of the question's dialogue
};
ProposalBody proposal_body(const std::string& body);
std::string proposal_body_of(std::int64_t asking, double device_s);

// The name of a turn's call in the exchange log: "mutate/12/0".
std::string call_name(const Brief&, std::int64_t asking, std::size_t turn);
std::optional<ChatRequest> recorded_request(const Record&, const std::string& hash);
// The source and tunable values that a brief's proposal edits.
EditedParent edited_parent(ParsedSources&, const Archive&, const Brief&);

// A question's dialogue as recorded: the answered turns with the results of their tools, and the next move
// that follows from them.
struct RecordedDialogue {
  std::vector<Turn> turns;
  std::optional<Move> move;  // nullopt: not even the first answer arrived
};
RecordedDialogue recorded_dialogue(const Record&, ParsedSources&, const Archive&, const PromptKit&,
                                   const AskedQuestion&);

}  // namespace cultivar

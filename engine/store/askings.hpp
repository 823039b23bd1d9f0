// Questions to language models as decisions in the record: what was asked, and the dialogue that followed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/breeding.hpp"
#include "engine/store/exchanges.hpp"
#include "engine/store/record.hpp"
#include "operators/dialogue.hpp"

namespace cultivar {

// Body of the decision `ask`.
struct AskedQuestion {
  std::int64_t number = 0;
  Brief brief;
  Room room;
  std::string request_hash;           // of the first question
  std::vector<std::string> left_out;  // what its budget had no room for
};
struct AskedOn {
  AskedQuestion question;
  std::string stream;
};
std::int64_t given_up_questions(const Record&);       // that came to nothing
std::vector<AskedOn> asked_questions(const Record&);  // all, in order
nlohmann::json to_json(const AskedQuestion&);
AskedQuestion asked_question(const std::string& body);

// Of a proposal that asked nobody, when there are models: what room there was. Empty body: none.
std::string room_body(const Room&);
// Body of the decision `propose`: a room, or the question that it came of.
struct ProposalBody {
  Room room;
  std::int64_t asking = 0;
  double device_s = 0.0;  // that the tools of the question's dialogue used
};
ProposalBody proposal_body(const std::string& body);
std::string proposal_body_of(std::int64_t asking, double device_s);

// "mutate/12/0": the name of the turn's call in the exchange log.
std::string call_name(const Brief&, std::int64_t asking, std::size_t turn);
std::optional<ChatRequest> recorded_request(const Record&, const std::string& hash);
// The source and values that a brief's proposal is an edit of.
EditedParent edited_parent(const Record&, const Archive&, const Brief&);

// What the record says of a question's dialogue: turns as far as answers arrived, with what their tools gave,
// and what follows from them.
struct RecordedDialogue {
  std::vector<Turn> turns;
  std::optional<Move> move;  // nullopt: not even the first answer arrived
};
RecordedDialogue recorded_dialogue(const Record&, const Archive&, const Task&, const PromptKit&,
                                   const AskedQuestion&);

}  // namespace cultivar

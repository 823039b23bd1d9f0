// SPDX-License-Identifier: Apache-2.0
// Which models a search may ask in this session, and which operators may ask. A model or an operator is
// closed when its calls fail repeatedly, when its questions are given up repeatedly, or when its budget is
// exhausted.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "engine/breeding/breeding.hpp"
#include "engine/search/recorder.hpp"
#include "operators/asking_operator.hpp"
#include "operators/llm/chat_errors.hpp"

namespace cultivar {

// Not thread-safe. Both references outlive it.
class Availability {
 public:
  Availability(Recorder&, const Breeding&);

  void restrict(AskingLimits&) const;  // adds the closed models and operators
  // A call of this model was answered. `nothing`: the answer has no text and calls no tool.
  void answered(const std::string& model, bool nothing = false);
  // Whether so many answers of this model in a row had nothing that another try of a question is not worth
  // its price.
  bool sends_nothing(const std::string& model) const;
  // A question to this model led to a proposal or to directions.
  void question_succeeded(const std::string& model) { fruitless_.erase(model); }
  // It led to a source with values that are those of an earlier individual.
  void question_repeated(const std::string& model, IndividualId twin);
  // Its dialogue ended without a proposal or directions.
  void question_given_up(const std::string& model, const GivenUp&);
  // A call of this question failed, after all its attempts.
  void failed(const Brief&, const ChatError&);

  // Why the run's budget for models allows no more calls; nullopt if it allows some.
  const std::optional<std::string>& cap_spent() const { return cap_spent_; }
  // Why no arm can ask a model anymore; empty if one can.
  std::string why_no_model_left() const;

 private:
  using Closed = std::map<std::string, std::string>;  // name -> reason
  void close(Closed&, const std::string& name, const std::string& why);

  Recorder& recorder_;
  const Breeding& breeding_;
  std::map<std::string, int> failed_calls_;  // consecutive, by model; for recordings, by model/operator
  struct Fruitless {                         // consecutive questions that led to nothing new
    int questions = 0, without_text = 0, repeated = 0;
  };
  std::map<std::string, Fruitless> fruitless_;  // by model
  std::map<std::string, int> nothing_;          // consecutive answers with nothing, by model
  Closed models_, operators_;
  std::optional<std::string> cap_spent_;
};

}  // namespace cultivar

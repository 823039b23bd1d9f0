// Whom a search may ask in this session: models and operators are closed when their calls keep failing, when
// nothing comes of their answers, or when their budget is spent.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "engine/breeding/breeding.hpp"
#include "engine/search/recorder.hpp"
#include "operators/llm/chat_errors.hpp"

namespace cultivar {

// Not thread-safe. Both references outlive it.
class Availability {
 public:
  Availability(Recorder&, const Breeding&);

  void restrict(AskingLimits&) const;  // by who is closed
  void answered(const std::string& model) { failed_calls_.erase(model); }
  void question_succeeded(const std::string& model) { fruitless_.erase(model); }  // of what it answered
  void question_given_up(const std::string& model, const std::string& reason);
  void failed(const Brief&, const ChatError&);  // for good, after its own attempts

  // Why the run's budget for models allows no more calls; nullopt: it allows some.
  const std::optional<std::string>& cap_spent() const { return cap_spent_; }
  std::string why_no_model_left() const;  // why no model can be asked any more; empty: one can

 private:
  using Closed = std::map<std::string, std::string>;  // by name: why
  void close(Closed&, const std::string& name, const std::string& why);

  Recorder& recorder_;
  const Breeding& breeding_;
  std::map<std::string, int> failed_calls_;  // in a row, by model; of recordings by model/operator
  std::map<std::string, int> fruitless_;     // questions in a row that came to nothing, by model
  Closed models_, operators_;
  std::optional<std::string> cap_spent_;
};

}  // namespace cultivar

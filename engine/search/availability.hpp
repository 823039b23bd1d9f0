// Which models and operators may be used in this session. A model or operator is closed when its calls keep
// failing, when its answers lead to no proposal, or when its budget is exhausted.
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

  void restrict(AskingLimits&) const;  // removes closed models and operators
  void answered(const std::string& model) { failed_calls_.erase(model); }
  void made_use_of(const std::string& model) { fruitless_.erase(model); }  // of what it answered
  void came_to_nothing(const std::string& model, const std::string& reason);
  void failed(const Brief&, const ChatError&);  // after all attempts

  // Why the run's budget for models allows no more calls; nullopt if it allows some.
  const std::optional<std::string>& cap_spent() const { return cap_spent_; }
  std::string nobody_left() const;  // why no model can be asked any more; empty if one can

 private:
  using Closed = std::map<std::string, std::string>;  // by name: why
  void close(Closed&, const std::string& name, const std::string& why);

  Recorder& recorder_;
  const Breeding& breeding_;
  std::map<std::string, int> failed_calls_;  // consecutive, by model; for recordings by model/operator
  std::map<std::string, int> fruitless_;     // consecutive questions without a proposal, by model
  Closed models_, operators_;
  std::optional<std::string> cap_spent_;
};

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// Delivers notifications to commands and webhooks, each channel by a thread of its own, so that a search
// never waits for a receiver.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/config/notify_settings.hpp"

namespace cultivar {

// Of one attempt to deliver. A failure that cannot pass by itself (an address that does not exist, HTTP 4xx)
// is not retried.
struct DeliveryPolicy {
  int attempts = 8;
  double first_wait_s = 1.0, longest_wait_s = 60.0;  // between attempts: doubled each time, with jitter
  double attempt_s = 30.0;                           // deadline of one attempt
  double farewell_s = 10.0;                          // for what is still waiting at the end
  std::size_t queue = 32;  // notifications that wait for one channel; then the oldest is left out
};

// Thread-safe.
class Notifier {
 public:
  explicit Notifier(const std::vector<NotifyChannel>&, const DeliveryPolicy& = {});
  ~Notifier();  // farewell(), if nobody called it
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

  bool wants(Occasion) const;  // whether any channel does
  // Returns at once. The body gets the field "event", and "left_out" if earlier ones were left out.
  void tell(Occasion, const nlohmann::json& body);
  // What could not be delivered since the last call, for people; at most a few messages.
  std::vector<std::string> troubles();
  // Delivers what waits, as far as the policy's farewell allows; then nothing more is told. Returns the
  // troubles, including what is still undelivered. May take that long.
  std::vector<std::string> farewell();

 private:
  class Channel;
  std::vector<std::unique_ptr<Channel>> channels_;
};

}  // namespace cultivar

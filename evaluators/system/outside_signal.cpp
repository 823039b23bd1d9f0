// SPDX-License-Identifier: Apache-2.0
#include "evaluators/system/outside_signal.hpp"

#include <algorithm>
#include <array>
#include <csignal>

namespace cultivar {

bool sent_from_outside(int signal) {
  constexpr std::array kSent{SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPWR, SIGUSR1, SIGUSR2};
  return std::ranges::find(kSent, signal) != kSent.end();
}

}  // namespace cultivar

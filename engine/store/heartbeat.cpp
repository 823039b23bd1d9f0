// SPDX-License-Identifier: Apache-2.0
#include "engine/store/heartbeat.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "engine/store/plausible.hpp"
#include "engine/store/run_lock.hpp"
#include "engine/store/witness.hpp"
#include "evaluators/system/clock.hpp"

namespace cultivar {

namespace {

bool is_full(const RunFolder& folder) {
  constexpr std::uintmax_t kLittle = 256 << 10;  // a step needs less
  std::error_code failed;
  const auto space = std::filesystem::space(folder.path(), failed);
  return !failed && space.available < kLittle;
}

}  // namespace

void set_liveness(Summary& s, const RunFolder& folder, const std::string& heartbeat) {
  s.process = RunLock::holder(folder);
  if (!s.process) {
    const auto end = witnessed_end(folder);
    s.state = end ? "failed" : "stopped";
    s.stop_reason = end ? *end
                    : is_full(folder)
                        ? "its process ended without writing why, and its file system is full now: "
                          "free disk space, then resume it with `cultivar resume`"
                        : "its process was killed; resume it with `cultivar resume`";
    return;
  }
  if (heartbeat.empty()) return;
  s.heartbeat_age_s = std::max(0.0, unix_now() - number_in(heartbeat, "heartbeat"));
  if (*s.heartbeat_age_s <= Summary::kFrozenAfter) return;
  s.state = "frozen";
  s.stop_reason = fmt::format(
      "process {0} has recorded nothing for {1:.0f} s: it is suspended (`kill -CONT {0}` lets it go on), or "
      "the "
      "disk does not respond",
      *s.process, *s.heartbeat_age_s);
}

}  // namespace cultivar

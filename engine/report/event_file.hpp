// SPDX-License-Identifier: Apache-2.0
// A run's history as an event file of TensorBoard.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/views/run_index.hpp"

namespace cultivar {

// Scalars over the number of evaluations, at most a thousand points of each besides the promotions:
// best/fitness (as in reports), best/over_first_seed (ratio), evaluations/measured,
// evaluations/rejected/STAGE, cost/usd, cost/device_s (sums so far). The time of a point is `started_at`
// (seconds since 1970) plus search time.
std::string event_file(const RunIndex&, double started_at);

// One record of a TFRecord file: its length and its data, each with the masked CRC-32C of it.
std::string tf_record(std::string_view data);
std::uint32_t crc32c(std::string_view data);

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// What is told of a device, and the most that it was seen to do.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/target/traits.hpp"

namespace cultivar {

// How fast that many bytes, read + written, were moved by a run that began with cold caches.
struct ColdRate {
  double bytes = 0.0, bytes_per_second = 0.0;
  bool operator==(const ColdRate&) const = default;
};

struct Ceilings {
  double flops = 0.0;             // per second, the most this device was seen to do
  double bytes_per_second = 0.0;  // from memory beyond the last cache, read + write
  double cached_bytes_per_second = 0.0;
  double handshake_s = 0.0;  // an empty kernel
  // In the order of sizes; no rate is greater than one before it, and the last is bytes_per_second. Empty:
  // not measured, as on a GPU and in older records.
  std::vector<ColdRate> cold = {};
};

// Measured rates in a folder, by the device's whole name ("NVIDIA H200 0000:18:00.0 driver 13000"); none if
// the file is missing or damaged. A folder that cannot be written costs the next start a measurement.
std::optional<Ceilings> kept_ceilings(const std::filesystem::path& folder, const std::string& device);
void keep_ceilings(const std::filesystem::path& folder, const std::string& device, const Ceilings&);
// No rate is less than the known one; cold rates and the handshake stay.
void raise_rates(Ceilings&, const Ceilings& known);

struct DeviceInfo {
  std::string description;  // "AMD EPYC, 2 cores, AVX-512"
  std::string isolation;    // how candidate code is isolated and what is missing
  std::string weakness;     // what isolation lacks and the remedy, in one line; empty if nothing
  Facts facts;
  Ceilings ceilings;
  std::string model = {};  // of the processor or card: "AMD EPYC 7763"
  // Whether times on both can be compared. Cards of two models may have equal facts and other ceilings.
  bool same_kind(const DeviceInfo& other) const { return facts == other.facts && model == other.model; }
};

// How long moving a workload's data takes with nothing else to do, in microseconds: the shortest of some runs
// of Cultivar's own kernels on buffers of these sizes. 0: not measured, or too short to be timed.
struct Traffic {
  double read_bytes = 0.0, written_bytes = 0.0;
  double loads_us = 0.0;     // of read_bytes
  double stores_us = 0.0;    // of written_bytes; ordinary stores read each line before they change it
  double both_us = 0.0;      // loads and ordinary stores
  double streamed_us = 0.0;  // loads, and stores that bypass the caches
};

}  // namespace cultivar

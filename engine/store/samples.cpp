// SPDX-License-Identifier: Apache-2.0
#include "engine/store/samples.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace cultivar {

static_assert(std::endian::native == std::endian::little, "the record's blobs are little-endian");

namespace {

template <class T>
void put(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  template <class T>
  bool take(T& value) {
    if (bytes_.size() - at_ < sizeof value) return false;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return true;
  }
  bool at_end() const { return at_ == bytes_.size(); }
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  const std::string& bytes_;  // outlives the reader
  std::size_t at_ = 0;
};

}  // namespace

std::string pack_samples(const Evaluation& evaluation) {
  std::string out;
  for (const WorkloadResult& workload : evaluation.workloads) {
    const auto& samples = workload.samples;
    const bool full = std::ranges::any_of(samples, [](const Sample& s) {
      return s.clock_mhz != 0 || s.temperature_c != 0 || s.power_w != 0 || s.throttle != 0;
    });
    put(out, static_cast<std::uint32_t>(samples.size()));
    put(out, static_cast<std::uint8_t>(full ? 2 : 1));
    for (const Sample& s : samples) put(out, s.seconds);
    if (!full) continue;
    for (const Sample& s : samples) put(out, s.clock_mhz);
    for (const Sample& s : samples) put(out, s.temperature_c);
    for (const Sample& s : samples) put(out, s.power_w);
    for (const Sample& s : samples) put(out, s.throttle);
  }
  return out;
}

bool unpack_samples(const std::string& bytes, Evaluation& evaluation) {
  Reader reader(bytes);
  for (WorkloadResult& workload : evaluation.workloads) {
    std::uint32_t count = 0;
    std::uint8_t columns = 0;
    if (!reader.take(count) || !reader.take(columns) || columns < 1 || columns > 2) return false;
    if (reader.left() < std::size_t{count} * sizeof(double)) return false;
    workload.samples.assign(count, {});
    for (Sample& s : workload.samples) reader.take(s.seconds);
    if (columns == 1) continue;
    bool whole = true;
    for (Sample& s : workload.samples) whole = whole && reader.take(s.clock_mhz);
    for (Sample& s : workload.samples) whole = whole && reader.take(s.temperature_c);
    for (Sample& s : workload.samples) whole = whole && reader.take(s.power_w);
    for (Sample& s : workload.samples) whole = whole && reader.take(s.throttle);
    if (!whole) return false;
  }
  return reader.at_end();
}

}  // namespace cultivar

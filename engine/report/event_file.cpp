// SPDX-License-Identifier: Apache-2.0
#include "engine/report/event_file.hpp"

#include <array>
#include <bit>
#include <map>

namespace cultivar {

namespace {

template <class Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>((number >> (8 * i)) & 0xFF);
  return bytes;
}

// Fields of a protocol buffer: https://protobuf.dev/programming-guides/encoding
std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>((number & 0x7F) | 0x80);
  return bytes + static_cast<char>(number);
}
std::string key(int field, int wire_type) {
  return varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire_type));
}
std::string integer(int field, std::uint64_t value) {
  return key(field, 0) + varint(value);
}
std::string real64(int field, double value) {
  return key(field, 1) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string real32(int field, float value) {
  return key(field, 5) + little_endian(std::bit_cast<std::uint32_t>(value));
}
std::string bytes(int field, std::string_view value) {
  return key(field, 2) + varint(value.size()) + std::string(value);
}

// Of event.proto and summary.proto: Event {1 wall_time, 2 step, 3 file_version, 5 summary},
// Summary {1 value}, Value {1 tag, 2 simple_value}.
std::string event(double wall_time, std::uint64_t step, const std::map<std::string, double>& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars)
    summary += bytes(1, bytes(1, tag) + real32(2, static_cast<float>(value)));
  return real64(1, wall_time) + integer(2, step) + bytes(5, summary);
}

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  static const auto table = [] {
    constexpr std::uint32_t kPolynomial = 0x82F63B78;  // Castagnoli's, reflected
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t i = 0; i < entries.size(); ++i) {
      entries[i] = i;
      for (int bit = 0; bit < 8; ++bit) entries[i] = (entries[i] >> 1) ^ (entries[i] & 1 ? kPolynomial : 0);
    }
    return entries;
  }();
  std::uint32_t sum = ~0U;
  for (const char c : data) sum = (sum >> 8) ^ table[(sum ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~sum;
}

std::string tf_record(std::string_view data) {
  const auto masked = [](std::string_view of) {
    const std::uint32_t sum = crc32c(of);
    return little_endian((sum >> 15 | sum << 17) + 0xA282EAD8U);
  };
  const std::string length = little_endian(static_cast<std::uint64_t>(data.size()));
  return length + masked(length) + std::string(data) + masked(data);
}

std::string event_file(const RunIndex& index, double started_at) {
  constexpr std::size_t kMost = 1000;
  std::string file = tf_record(real64(1, started_at) + bytes(3, "brain.Event:2"));
  std::map<std::string, double> sums{
      {"cost/device_s", 0.0}, {"cost/usd", 0.0}, {"evaluations/measured", 0.0}};
  const auto& judged = index.judged();
  const std::size_t stride = judged.size() / kMost + 1;
  double seed = 0.0;  // the fitness of the first one that was measured
  auto promotion = index.promotions().begin();
  for (std::size_t i = 0; i < judged.size(); ++i) {
    const KernelFacts* const k = index.find(judged[i].id);
    if (!k) continue;
    if (seed == 0.0 && k->parent == 0) seed = k->fitness;
    sums["cost/device_s"] += judged[i].device_s;
    sums["cost/usd"] += k->usd;
    if (k->state == IndividualState::rejected)
      ++sums["evaluations/rejected/" + index.word(k->stage)];
    else
      ++sums["evaluations/measured"];
    if (i % stride == 0 || i + 1 == judged.size())
      file += tf_record(event(started_at + judged[i].elapsed_s, i + 1, sums));
    for (;
         promotion != index.promotions().end() && promotion->evaluations <= static_cast<std::int64_t>(i + 1);
         ++promotion)
      if (const KernelFacts* const best = index.find(promotion->id)) {
        std::map<std::string, double> scalars{{"best/fitness", best->fitness}};
        if (seed > 0.0) scalars["best/over_first_seed"] = best->fitness / seed;
        file += tf_record(event(started_at + promotion->elapsed_s, i + 1, scalars));
      }
  }
  return file;
}

}  // namespace cultivar

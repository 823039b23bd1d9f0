// SPDX-License-Identifier: Apache-2.0
#include "engine/store/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace {

[[noreturn]] void inconsistent(const std::string& how) {
  throw InconsistentRecord("the record is inconsistent: " + how);
}

// A path below the folder for which it is meant, at most one folder deep.
bool stays_inside(const std::string& name) {
  const std::filesystem::path path(name);
  if (name.empty() || path.is_absolute() || name.find('\0') != std::string::npos) return false;
  const auto plain = [](const std::filesystem::path& part) {
    return part != ".." && part != "." && !part.empty();
  };
  return std::distance(path.begin(), path.end()) <= 2 && std::ranges::all_of(path, plain);
}

}  // namespace

double number_in(const std::string& text, std::string_view what) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    inconsistent(fmt::format("its {} is '{}', not a number", what, plain_line(text, 40)));
  return value;
}

IndividualId existing(IndividualId id, std::int64_t count) {
  if (id < 1 || id > count) inconsistent(fmt::format("it names individual {}, but holds {}", id, count));
  return id;
}

void require_inside(const RunFacts& facts) {
  const auto require = [](const std::string& name) {
    if (!stays_inside(name))
      inconsistent(fmt::format("'{}' is not a name for a file of its task", plain_line(name, 200)));
  };
  require(facts.task_name);
  for (const auto& [name, text] : facts.task_files.items()) require(name);
}

void require_plausible(IndividualId id, IndividualState state) {
  if (state < IndividualState::proposed || state > IndividualState::rejected)
    inconsistent(fmt::format("individual {} has an unknown state", id));
}

void require_plausible(const IndividualRow& row) {
  constexpr std::size_t longest_name = 200;
  const Individual& i = row.individual;
  require_plausible(i.id, row.state);
  if (!std::isfinite(i.fitness)) inconsistent(fmt::format("individual {} has no finite fitness", i.id));
  if (i.descent.op.size() > longest_name || i.descent.model.size() > longest_name)
    inconsistent(fmt::format("the operator or the model of individual {} has a name of more than {} bytes",
                             i.id, longest_name));
}

void require_plausible(const DecisionRow& decision) {
  if (!std::isfinite(decision.elapsed_s)) inconsistent(fmt::format("decision {} has no time", decision.seq));
}

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

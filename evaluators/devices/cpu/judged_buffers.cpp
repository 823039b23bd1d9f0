// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/judged_buffers.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <cstring>

namespace cultivar {
namespace {

std::uint64_t secret() {
  std::uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, 0) != sizeof seed)
    throw MissingError("getrandom returned no random bytes");
  return seed;
}

std::uint64_t poison_of(const RunOptions& options, std::size_t buffer) {
  return RunOptions::same_poison(options.poison_seed, mixed(options.poison_seed + buffer));
}

}  // namespace

Expected<JudgedBuffers> JudgedBuffers::create(const Plan& plan, std::span<const Repetition> repetitions) {
  auto arena = Arena::create(plan, secret(), repetitions);
  if (!arena) return tl::make_unexpected(arena.error());
  Plan stored = plan;
  for (std::size_t i = 0; i < stored.buffers.size(); ++i) stored.buffers[i].bytes = arena->data(i).size();
  return JudgedBuffers(stored, std::move(*arena));
}

void JudgedBuffers::prepare(const RunInputs& inputs, const RunOptions& options) {
  // Timed runs keep the offset within a page, because it affects speed, and move by whole pages. Checked runs
  // have these placements too, so that none belongs to timed runs alone, and one that catches accesses past
  // the end.
  static constexpr Placement checked[] = {Placement::against_end, Placement::start, Placement::shifted};
  static constexpr Placement timed[] = {Placement::start, Placement::shifted};
  arena_.place(options.timed ? timed[runs_ % 2] : checked[(options.placement + runs_) % 3]);
  ++runs_;
  std::size_t next_input = 0;
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    const auto& buffer = plan_.buffers[i];
    if (buffer.use == PlannedBuffer::Use::input) {
      const auto contents = inputs[next_input++].bytes;
      if (contents.size() != buffer.bytes) throw std::logic_error("wrong size of input " + buffer.name);
      arena_.fill(i, contents);
    } else if (!buffer.zero && buffer.starts_as < 0) {
      arena_.poison(i, poison_of(options, i));
    }
  }
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
    if (const int input = plan_.buffers[i].starts_as; input >= 0)
      arena_.fill(i, arena_.data(static_cast<std::size_t>(input)));
  arena_.write_canaries();
}

std::optional<Fault> JudgedBuffers::inspect(const RunInputs& inputs,
                                            std::span<std::vector<std::byte>> outputs,
                                            const RunOptions& options) {
  std::size_t next_input = 0, next_output = 0;
  unwritten_ = 0;
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    if (plan_.buffers[i].use != PlannedBuffer::Use::output) continue;
    const std::span<const std::byte> data = arena_.data(i);
    const std::span<const ElementRange> wanted = next_output < options.wanted.size()
                                                     ? std::span(options.wanted[next_output])
                                                     : std::span<const ElementRange>{};
    auto& output = outputs[next_output++];
    if (wanted.empty() || output.size() != data.size()) {
      output.assign(data.begin(), data.end());
    } else {
      const std::size_t width = plan_.buffers[i].element_bytes;
      for (const ElementRange& range : wanted) {
        const std::size_t first = static_cast<std::size_t>(range.first) * width;
        std::memcpy(output.data() + first, data.data() + first,
                    static_cast<std::size_t>(range.count) * width);
      }
    }
    if (plan_.buffers[i].starts_as < 0) unwritten_ += arena_.still_poisoned(data, poison_of(options, i));
  }
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    if (plan_.buffers[i].use != PlannedBuffer::Use::input) continue;
    if (!arena_.holds(i, inputs[next_input++].bytes))
      return Fault{Fault::Kind::input_changed,
                   fmt::format("the kernel changed the input '{}'", plan_.buffers[i].name)};
  }
  if (auto broken = arena_.broken_canary()) return Fault{Fault::Kind::guard_overwritten, "it " + *broken};
  return std::nullopt;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/code/profile_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "evaluators/profile/disassembly.hpp"

namespace cultivar {
namespace {

using Found = std::optional<Finding>;

// From the machine code only.
Found narrow_vectors(const Profile& p) {
  const auto resource = [&](const char* name) {
    const auto found = p.resources.find(name);
    return found == p.resources.end() ? std::nullopt : std::optional(found->second);
  };
  const auto bits = resource("widest_vector_bits"), all = resource("instructions"),
             wide = resource("vector_instructions");
  if (!bits || !all || !wide || *all <= 0.0) return std::nullopt;
  if (*bits == 0.0) return Finding{"narrow_vectors", 0.4, "the machine code uses no vector registers"};
  if (*wide / *all >= 0.1) return std::nullopt;
  return Finding{"narrow_vectors", 0.2,
                 fmt::format("only {:.0f} of {:.0f} instructions use {:.0f}-bit registers, the widest in use",
                             *wide, *all, *bits)};
}

std::string where(const HotLoop& loop) {
  if (loop.first_line == 0) return "a loop of " + loop.function;
  std::string lines = loop.first_line == loop.last_line
                          ? fmt::format("line {}", loop.first_line)
                          : fmt::format("lines {} to {}", loop.first_line, loop.last_line);
  return "the innermost loop at " + lines + (loop.file.empty() ? "" : " of " + loop.file);
}

// Functions of the source that take or return vectors ("Dv" in their mangled names) do not work on one
// element.
bool scalar(const std::string& function) {
  return !function.starts_with("_Z") || function.find("Dv") == std::string::npos;
}

Found calls_in_loops(const Profile& p) {
  for (const HotLoop& loop : p.loops) {
    std::vector<std::string> calls = loop.calls;
    std::erase_if(calls, [](const std::string& name) { return moves_blocks(name) || !scalar(name); });
    if (calls.empty()) continue;
    // Beside vectors, a call is made once for many elements, as the logarithm of a row's sum.
    if (loop.vectors > 0)
      return Finding{"scalar_calls", 0.04,
                     fmt::format("{} calls {} once in each pass, beside {} instructions on vectors: tens of "
                                 "cycles, which matter only if its passes are short",
                                 where(loop), fmt::join(calls, ", "), loop.vectors)};
    return Finding{"scalar_calls", 0.7,
                   fmt::format("{} calls {} for each element: a call takes tens of cycles and keeps the loop "
                               "from being vectorized. Write it out on whole vectors (exp: a polynomial, see "
                               "the notes), or move it out of the loop",
                               where(loop), fmt::join(calls, ", "))};
  }
  return std::nullopt;
}

Found scalar_loops(const Profile& p) {
  for (const HotLoop& loop : p.loops) {
    if (loop.scalars == 0 || loop.vectors > 0) continue;
    // The rest of a vectorized loop has the same lines and few elements.
    const bool rest = std::ranges::any_of(p.loops, [&](const HotLoop& other) {
      return other.vectors > 0 && other.file == loop.file && other.first_line <= loop.last_line &&
             loop.first_line <= other.last_line;
    });
    if (!rest)
      return Finding{"scalar_loop", 0.6,
                     fmt::format("{} works on one element at a time: {} floating-point instructions, none on "
                                 "vectors. A sum or maximum of floats is vectorized only if the source has "
                                 "several of them, one for each lane",
                                 where(loop), loop.scalars)};
  }
  return std::nullopt;
}

Found moved_bytes(const Profile& p) {
  const Traffic& t = p.traffic;
  if (t.both_us <= 0.0 || p.median_us <= 0.0) return std::nullopt;
  const bool streamed = t.streamed_us > 0.0 && p.resources.contains("streamed_stores");
  const double share = (streamed ? t.streamed_us : t.both_us) / p.median_us;
  constexpr double kNear = 0.5;
  // A busy machine may have let none of the runs of one of them count.
  const auto taking = [](double us) { return us > 0.0 ? time_words(us) : std::string("an unknown time"); };
  std::string words = fmt::format(
      "loading its inputs ({:.3g} MB) takes {} here with nothing else to do, storing its outputs "
      "({:.3g} MB) {}, and both {}{}: {:.0f} % of its time",
      t.read_bytes * 1e-6, taking(t.loads_us), t.written_bytes * 1e-6, taking(t.stores_us),
      time_words(streamed ? t.streamed_us : t.both_us),
      streamed ? " with stores that bypass the caches, as this kernel has them" : "", 100.0 * share);
  if (t.streamed_us > 0.0 && !streamed)
    words += fmt::format(
        "; with stores that bypass the caches {}. Ordinary stores read each line before they "
        "change it: {:.3g} MB move instead of {:.3g}",
        time_words(t.streamed_us), (t.read_bytes + 2.0 * t.written_bytes) * 1e-6,
        (t.read_bytes + t.written_bytes) * 1e-6);
  constexpr double kPays = 0.95;
  const bool streams = !streamed && t.streamed_us > 0.0 && t.streamed_us < kPays * t.both_us;
  words += share < kNear ? ". Bytes are not the limit yet"
           : streams
               ? ". Bytes are the limit: fewer passes over memory, or stores that bypass the caches for "
                 "outputs that are written once and not read back"
               : ". Bytes are the limit: fewer passes over memory";
  return Finding{share >= kNear ? "dram" : "traffic", share >= kNear ? std::min(1.0, share) : 0.05, words};
}

constexpr Rule all_rules[] = {
    {"roofline", near_the_roof},        {"several_kernels", several_kernels}, {"clock", slowed_clock},
    {"narrow_vectors", narrow_vectors}, {"scalar_calls", calls_in_loops},     {"scalar_loop", scalar_loops},
    {"traffic", moved_bytes},
};

}  // namespace

const ProfileWords& cpu_profile_words() {
  static const ProfileWords words{.rules = all_rules};
  return words;
}

}  // namespace cultivar

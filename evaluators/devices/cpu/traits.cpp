// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "evaluators/devices/cpu/device.hpp"
#include "evaluators/devices/cpu/launcher.hpp"
#include "evaluators/profile/bottleneck.hpp"
#include "evaluators/profile/disassembly.hpp"
#include "evaluators/system/random.hpp"

namespace cultivar {
namespace {

Facts this_machine(int cores) {
  Facts facts = cpu_facts();
  if (cores > 0) facts["num_cores"] = cores;
  return facts;
}

// From one core to those that there are, and caches from a quarter to four times as large.
Facts another_machine(Facts facts, std::uint64_t seed) {
  RandomStream stream = stream_of(seed, "another machine", 0);
  double& cores = facts["num_cores"];
  cores = 1.0 + static_cast<double>(below(stream, static_cast<std::size_t>(cores)));
  for (const char* cache : {"l1_bytes", "l2_bytes", "l3_bytes"})
    facts[cache] *= std::exp2(static_cast<double>(below(stream, 5)) - 2.0);
  return facts;
}

// Shares of threads are products of their numbers.
Facts largest_machine(Facts facts) {
  facts["num_cores"] = std::max(facts["num_cores"], 128.0);
  return facts;
}

std::unique_ptr<Device> open_device(const std::filesystem::path& cache, int number) {
  if (number != 0)
    throw MissingError("the cpu target has one device, number 0; use `cores` to set its number of cores");
  return std::make_unique<CpuDevice>(CpuDeviceOptions{cache / "cpu"});
}

// How profiles are explained. A new rule is one function and one line in a table.
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

const ProfileWords& profile_words() {
  static const ProfileWords words{.rules = all_rules};
  return words;
}

}  // namespace

Target cpu_target() {
  static const TargetTraits row{
      .name = "cpu",
      .device = "core",
      .dtypes = {Dtype::f32, Dtype::f64},
      .facts = {{"num_cores", "cores that a variant may use: the default of `threads`"},
                {"l1_bytes", "level 1 data cache of a core"},
                {"l2_bytes", "level 2 cache of a core"},
                {"l3_bytes", "last-level cache"},
                {"vector_bits", "width of the widest vector register: 128, 256 or 512"},
                {"page_bytes", "size of a memory page"}},
      .launch_keys = {{.name = "threads", .fallback = "num_cores", .most = {1024}}},
      .thread_arguments = true,
      // A slow kernel on the host is warm after one run.
      .warm_up = {},
      .on_host = true,
      .usual_workloads = {"cpu_quick", "quick"},
      .reported = {"text_bytes", "stack_bytes", "constant_bytes"},
      .stand_in_facts = this_machine,
      .another_machine = another_machine,
      .largest_machine = largest_machine,
      .open = open_device,
      .exporter = cpu_parts,
      .programs = {{"g++", "g++", "apt-get install g++"},
                   {"bwrap", "bubblewrap",
                    "apt-get install bubblewrap: without it kernels are kept in by fewer walls", false}},
      .directions = {{"vector",
                      "use wider vectors: layout, alignment, unit stride, several independent sums"},
                     {"blocking",
                      "block for the caches: loop order, tile sizes, packing of what is read often"}},
      .profile = &profile_words()};
  return &row;
}

}  // namespace cultivar

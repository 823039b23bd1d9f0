// SPDX-License-Identifier: Apache-2.0
#include "evaluators/profile/bottleneck.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include "evaluators/profile/disassembly.hpp"
#include "evaluators/target/traits.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

constexpr double least_points = 2.0,
                 least_share = 0.1;  // smallest changes to report: in percentage points, and relative
constexpr std::size_t most_lines = 10;

std::string headline_of(const Profile& p) {
  if (p.median_us <= 0.0) return fmt::format("{} on {}: not timed", p.name, p.workload);
  std::string text =
      fmt::format("{} on {}: {}, {:.4g} {}", p.name, p.workload, time_words(p.median_us), p.value, p.unit);
  if (p.floor_us() <= 0.0) return text;
  const double share = p.floor_us() / p.median_us;
  text += share <= 1.0 ? fmt::format("; {:.0f} % of this device's measured peak", 100.0 * share)
                       : std::string("; faster than this device's measured peak");
  text += fmt::format(" (at peak rate the {} would take {}",
                      p.flops_us >= p.bytes_us ? "arithmetic" : "bytes", time_words(p.floor_us()));
  if (p.flops_us > 0.0 && p.bytes_us > 0.0)
    text += fmt::format(", the {} {}", p.flops_us >= p.bytes_us ? "bytes" : "arithmetic",
                        time_words(std::min(p.flops_us, p.bytes_us)));
  return text + ")";
}

json facts_of(const Report& report) {
  json findings = json::array();
  for (const Finding& finding : report.findings)
    findings.push_back({{"kind", finding.kind}, {"weight", finding.weight}, {"words", finding.words}});
  return {{"headline", report.headline}, {"limited_by", report.limited_by}, {"findings", findings}};
}

std::string stalls_words(const LineStalls& line) {
  std::vector<std::pair<std::uint64_t, std::string>> reasons;
  for (const auto& [reason, count] : line.stalls)
    if (reason != "selected") reasons.emplace_back(std::max(count.samples, count.exposed), reason);
  std::sort(reasons.rbegin(), reasons.rend());
  std::string text;
  double all = 0.0;
  for (const auto& [samples, reason] : reasons) all += static_cast<double>(samples);
  for (std::size_t i = 0; i < std::min<std::size_t>(2, reasons.size()); ++i)
    text += fmt::format("{}{} {:.0f} %", i == 0 ? "" : ", ", reasons[i].second,
                        100.0 * static_cast<double>(reasons[i].first) / std::max(all, 1.0));
  return text;
}

std::string kernel_words(const KernelProfile& k, const Profile& p) {
  std::string text = fmt::format("  kernel {}: grid {}x{}x{}, block {}x{}x{}", k.name, k.grid[0], k.grid[1],
                                 k.grid[2], k.block[0], k.block[1], k.block[2]);
  if (k.cluster[0] * k.cluster[1] * k.cluster[2] > 1)
    text += fmt::format(", cluster {}x{}x{}", k.cluster[0], k.cluster[1], k.cluster[2]);
  text += fmt::format("\n    {} registers, {} bytes of stack, {} + {} bytes of shared memory\n", k.registers,
                      k.stack_bytes, k.static_shared_bytes, k.dynamic_shared_bytes);
  const Occupancy& o = k.occupancy;
  text += fmt::format(
      "    occupancy: {} blocks per multiprocessor, {} warps ({:.0f} %), limited by {}; {:.2f} waves\n",
      o.blocks, o.warps, 100.0 * o.share, words_of(o.limit), k.waves);
  if (!k.counters.empty()) {
    for (const CounterWords& known : words_for(p).counters) {
      const auto found = k.counters.find(known.key);
      if (found == k.counters.end() || known.key.starts_with("stall_")) continue;
      text += fmt::format("    {:<18} {:>12.6g}  {}\n", known.key, found->second, known.about);
    }
  }
  if (const auto shares = stall_shares(k); !shares.empty()) {
    text += fmt::format("    warp stalls ({}):",
                        shares.front().exposed ? "exposed: no other warp could issue" : "exposed and hidden");
    for (const StallShare& share : shares)
      if (share.share >= 0.02) text += fmt::format(" {} {:.0f} %", share.reason, 100.0 * share.share);
    text += "\n";
  }
  if (!k.lines.empty()) {
    text += fmt::format("    source lines with the most of {} samples{}:\n", k.samples,
                        p.dropped_samples == 0 ? "" : fmt::format(" ({} dropped)", p.dropped_samples));
    for (std::size_t i = 0; i < std::min(most_lines, k.lines.size()); ++i) {
      const LineStalls& line = k.lines[i];
      text += fmt::format("    {:>6} {:>5.1f} %  {:<44} {}\n",
                          line.line == 0 ? std::string("other") : line.place(),
                          100.0 * static_cast<double>(line.samples) /
                              static_cast<double>(std::max<std::uint64_t>(1, k.samples)),
                          stalls_words(line), line.text);
    }
  }
  return text;
}

}  // namespace

std::string_view words_of(OccupancyLimit limit) {
  static constexpr std::array<std::string_view, 5> words{"the number of warps", "the number of blocks",
                                                         "registers", "shared memory",
                                                         "the size of one block, which does not fit"};
  return words.at(static_cast<std::size_t>(limit));
}

std::string time_words(double us) {
  return us >= 1000.0 ? fmt::format("{:.3g} ms", us / 1000.0) : fmt::format("{:.3g} us", us);
}

Report explain(const Profile& profile) {
  Report report;
  report.headline = headline_of(profile);
  for (const Rule& rule : words_for(profile).rules)
    if (auto found = rule.apply(profile)) report.findings.push_back(std::move(*found));
  std::stable_sort(report.findings.begin(), report.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.weight > b.weight; });
  if (!report.findings.empty()) report.limited_by = report.findings.front().kind;
  return report;
}

std::vector<Change> differences(const Profile& parent, const Profile& child) {
  std::vector<Change> changes;
  if (parent.median_us > 0.0 && child.median_us > 0.0) {
    const double ratio = parent.median_us / child.median_us;
    changes.push_back({"median_us", parent.median_us, child.median_us,
                       fmt::format("{} -> {}: {:.1f} % {} (each timed once, not interleaved)",
                                   time_words(parent.median_us), time_words(child.median_us),
                                   100.0 * std::abs(ratio - 1.0), ratio >= 1.0 ? "faster" : "slower")});
  }
  const KernelProfile *before = main_kernel(parent), *after = main_kernel(child);
  if (before == nullptr || after == nullptr) return changes;
  const auto tell = [&](std::string what, double was, double is, std::string words) {
    changes.push_back({std::move(what), was, is, std::move(words)});
  };
  for (const CounterWords& known : words_for(child).counters) {
    const auto was = before->counters.find(known.key), is = after->counters.find(known.key);
    if (was == before->counters.end() || is == after->counters.end() || known.key.starts_with("stall_") ||
        known.key == "duration_ns" || known.key.starts_with("cycles"))
      continue;
    const bool share = known.key.ends_with("_pct");
    const double larger = std::max(std::abs(was->second), std::abs(is->second));
    const bool matters = share ? std::abs(is->second - was->second) >= least_points
                               : std::abs(is->second - was->second) > least_share * larger;
    if (matters)
      tell(std::string(known.key), was->second, is->second,
           fmt::format("{}: {:.4g} -> {:.4g} ({})", known.key, was->second, is->second, known.about));
  }
  const auto shares_before = stall_shares(*before), shares_after = stall_shares(*after);
  const auto share_of = [](const std::vector<StallShare>& shares, const std::string& reason) {
    for (const StallShare& share : shares)
      if (share.reason == reason) return share.share;
    return 0.0;
  };
  if (!shares_before.empty() && !shares_after.empty()) {
    std::vector<std::string> reasons;
    for (const auto* shares : {&shares_before, &shares_after})
      for (const StallShare& share : *shares)
        if (std::find(reasons.begin(), reasons.end(), share.reason) == reasons.end())
          reasons.push_back(share.reason);
    for (const std::string& reason : reasons) {
      const double was = share_of(shares_before, reason), is = share_of(shares_after, reason);
      if (std::abs(is - was) >= 0.03)
        tell("stall_" + reason, was, is,
             fmt::format("waiting for {} ({}): {:.0f} % -> {:.0f} % of the stalls",
                         words_for(child).of_stall(reason).about, reason, 100.0 * was, 100.0 * is));
    }
  }
  const auto number = [&](const char* what, double was, double is, const char* words) {
    if (was != is) tell(what, was, is, fmt::format("{}: {:.6g} -> {:.6g}", words, was, is));
  };
  number("registers", before->registers, after->registers, "registers per thread");
  number("stack_bytes", before->stack_bytes, after->stack_bytes, "bytes of stack");
  number("shared_bytes", before->static_shared_bytes + before->dynamic_shared_bytes,
         after->static_shared_bytes + after->dynamic_shared_bytes, "bytes of shared memory per block");
  number("occupancy_warps", before->occupancy.warps, after->occupancy.warps,
         "warps that fit on a multiprocessor");
  if (before->occupancy.limit != after->occupancy.limit)
    tell("occupancy_limit", static_cast<double>(before->occupancy.limit),
         static_cast<double>(after->occupancy.limit),
         fmt::format("the limit of occupancy changed from {} to {}", words_of(before->occupancy.limit),
                     words_of(after->occupancy.limit)));
  return changes;
}

json report_json(const Profile& profile, const Profile* parent) {
  json all = {{"profile", profile}, {"report", facts_of(explain(profile))}, {"against", nullptr}};
  for (const char* sensor : {"clock_mhz", "temperature_c", "power_w"})  // 0: not read
    if (all["profile"][sensor] == 0.0) all["profile"][sensor] = nullptr;
  if (all["report"].value("limited_by", "") == "") all["report"]["limited_by"] = nullptr;
  if (parent == nullptr) return all;
  json changes = json::array();
  for (const Change& change : differences(*parent, profile))
    changes.push_back(
        {{"what", change.what}, {"before", change.before}, {"after", change.after}, {"words", change.words}});
  all["against"] = {{"variant", parent->variant},
                    {"median_us", parent->median_us},
                    {"limited_by", explain(*parent).limited_by},
                    {"changes", changes}};
  return all;
}

std::string report_text(const Profile& profile, const Profile* parent) {
  const Report report = explain(profile);
  std::string text = report.headline + "\n";
  std::size_t number = 0;
  for (const Finding& finding : report.findings)
    text += fmt::format("  {}. {} [{}]\n", ++number, finding.words, finding.kind);
  if (report.findings.empty()) text += "  No bottleneck found in the available data.\n";
  for (const std::string& why : profile.missing) text += fmt::format("  missing: {}\n", why);
  if (profile.passes > 0)
    text += fmt::format("  counters collected in {} pass{} ({})\n", profile.passes,
                        profile.passes == 1 ? "" : "es", profile.replay);
  for (const KernelProfile& kernel : profile.kernels) text += kernel_words(kernel, profile);
  if (!profile.loops.empty())
    text += "  innermost loops, those that call functions first, then those inside the most other loops:\n";
  for (const HotLoop& loop : profile.loops) text += "    " + words_of(loop) + "\n";
  if (!profile.resources.empty()) {
    text += "  machine code:";
    for (const auto& [name, value] : profile.resources) text += fmt::format(" {} {:.6g}", name, value);
    text += "\n";
  }
  if (parent == nullptr) return text;
  text += fmt::format("  compared with {} ({}):\n", parent->name, parent->variant.substr(0, 12));
  const auto changes = differences(*parent, profile);
  for (const Change& change : changes) text += fmt::format("    {}\n", change.words);
  if (changes.empty()) text += "    no differences in what was measured for both\n";
  return text;
}

std::optional<Finding> several_kernels(const Profile& p) {
  double all = 0.0;
  for (const KernelProfile& kernel : p.kernels)
    if (const auto ns = kernel.counters.find("duration_ns"); ns != kernel.counters.end()) all += ns->second;
  const KernelProfile* kernel = main_kernel(p);
  if (p.kernels.size() < 2 || all <= 0.0 || kernel == nullptr) return std::nullopt;
  const double others = 1.0 - kernel->counters.at("duration_ns") / all;
  if (others < least_noted_share) return std::nullopt;
  return Finding{
      "several_kernels", others,
      fmt::format("{:.0f} % of the time goes to the plan's other kernels; this report is about '{}'",
                  100.0 * others, kernel->name)};
}

std::optional<Finding> slowed_clock(const Profile& p) {
  if (p.throttle.empty()) return std::nullopt;
  std::string words = fmt::format("the clock was slowed ({})", p.throttle);
  if (p.clock_mhz > 0.0) words += fmt::format(": {:.0f} MHz", p.clock_mhz);
  if (p.power_w > 0.0) words += fmt::format(" at {:.0f} W and {:.0f} C", p.power_w, p.temperature_c);
  return Finding{"clock", 0.1, words + ". Less work or less data movement lets the clock rise again"};
}

std::optional<Finding> near_the_roof(const Profile& p) {
  if (p.floor_us() <= 0.0 || p.median_us <= 0.0 || p.floor_us() / p.median_us < 0.85) return std::nullopt;
  return Finding{
      "roofline", p.floor_us() / p.median_us,
      "on this workload the time is within 15 % of this device's measured peak: only less work makes it "
      "faster here"};
}

const ProfileWords& words_for(const Profile& profile) {
  static constexpr Rule common[] = {
      {"roofline", near_the_roof}, {"several_kernels", several_kernels}, {"clock", slowed_clock}};
  static const ProfileWords plain{.rules = common};
  const Target target = find_target(profile.target);
  return target == nullptr || target->profile == nullptr ? plain : *target->profile;
}

StallReasonWords ProfileWords::of_stall(std::string_view reason) const {
  const auto found = std::ranges::find(stalls, reason, &StallReasonWords::reason);
  return found == stalls.end() ? StallReasonWords{reason, reason, ""} : *found;
}

const KernelProfile* main_kernel(const Profile& p) {
  const KernelProfile* main = nullptr;
  const auto weight = [](const KernelProfile& kernel) {
    const auto ns = kernel.counters.find("duration_ns");
    return ns == kernel.counters.end() ? static_cast<double>(kernel.samples) : ns->second;
  };
  for (const KernelProfile& kernel : p.kernels)
    if (main == nullptr || weight(kernel) > weight(*main)) main = &kernel;
  return main;
}

std::vector<StallShare> stall_shares(const KernelProfile& kernel) {
  std::vector<StallShare> shares;
  double exposed = 0.0, samples = 0.0, ratios = 0.0;
  const auto counts = [](std::string_view reason) {
    return reason != "selected" && reason != "not_selected";
  };
  for (const auto& [reason, count] : kernel.stalls) {
    if (!counts(reason)) continue;
    exposed += static_cast<double>(count.exposed);
    samples += static_cast<double>(count.samples);
  }
  constexpr std::string_view prefix = "stall_";
  for (const auto& [key, value] : kernel.counters)
    if (key.starts_with(prefix) && counts(std::string_view(key).substr(prefix.size()))) ratios += value;
  if (exposed + samples > 0.0) {
    for (const auto& [reason, count] : kernel.stalls)
      if (counts(reason))
        shares.push_back({reason,
                          exposed > 0.0 ? static_cast<double>(count.exposed) / exposed
                                        : static_cast<double>(count.samples) / samples,
                          exposed > 0.0});
  } else if (ratios > 0.0) {
    for (const auto& [key, value] : kernel.counters)
      if (key.starts_with(prefix) && counts(std::string_view(key).substr(prefix.size())))
        shares.push_back({key.substr(prefix.size()), value / ratios, false});
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const StallShare& a, const StallShare& b) { return a.share > b.share; });
  return shares;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/profiling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "evaluators/judge/sampler.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/random.hpp"
#include "evaluators/timing/roofline.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

constexpr std::size_t longest_text = 100;
constexpr double sampled_seconds = 3e-3;  // duration of sampled runs, for enough samples
constexpr int most_sampled_runs = 8;

// As they are shown: without indentation, and not longer than that.
std::vector<std::string> shown_lines(std::string_view source) {
  std::vector<std::string> lines;
  for (const std::string_view line : lines_of(source)) {
    const std::size_t first = line.find_first_not_of(" \t\r");
    lines.emplace_back(first == line.npos ? std::string_view() : line.substr(first, longest_text));
  }
  return lines;
}

class Profiling {
 public:
  Profiling(const CascadeSite& site, const ProfileRequest& request)
      : site_(site), request_(request), seed_(request.seed != 0 ? request.seed : secret_seed()) {}

  ProfilePartial run() {
    const Variant& variant = request_.variant.variant;
    if (!claims(variant, site_.task, request_.workload)) {
      out_.rejection = rejection(Stage::profile, "the variant does not claim " + request_.workload.name, "");
      return std::move(out_);
    }
    describe();
    if (out_.rejection) return std::move(out_);
    if (request_.part == ProfilePart::timing) {
      time();
    } else if (Instruments* const instruments = site_.device.instruments()) {
      if (request_.part == ProfilePart::stalls)
        sample_stalls(*instruments);
      else
        count(*instruments);
    }
    return std::move(out_);
  }

 private:
  Profile& profile() { return out_.profile; }

  void describe() {
    const Variant& variant = request_.variant.variant;
    const Task& task = site_.task;
    Profile& p = profile();
    p.target = name_of(variant.manifest.target);
    p.device = site_.device.info().description;
    p.variant = variant.id;
    p.name = variant.manifest.name;
    p.workload = request_.workload.name;
    p.set = request_.full ? "full" : "quick";
    p.flops = task.flops(request_.workload);
    p.bytes = task.bytes(request_.workload);
    binary_ = request_.variant.binary(macros(variant, task, request_.workload));
    if (binary_ != nullptr) p.resources = binary_->resources.values;
    auto plan = make_plan(variant, task, request_.workload, site_.device.facts());
    if (!plan) {
      out_.rejection = rejection(Stage::profile, plan.error().message, "");
      return;
    }
    plan_ = std::move(*plan);
    if (binary_ != nullptr) site_.device.describe(*binary_, plan_, variant.source, p);
  }

  void time() {
    const Workload& workload = request_.workload;
    const Target target = request_.variant.variant.manifest.target;
    std::vector<SampledSide> sides;
    sides.push_back(SampledSide{"variant", [&] {
                                  return open_session(site_.device, Stage::profile, site_.task,
                                                      request_.variant, workload, workload.name,
                                                      site_.run_deadline_s);
                                }});
    auto stock = site_.stock ? site_.stock : std::make_shared<TimingStock>();
    stock->stretches->renew(derive_seed(seed_, "stretches"));
    TimedRuns runs(site_.task, site_.oracle, workload, seed_, request_.sampling.oracle_rows,
                   site_.run_deadline_s, cores_of(site_.device.facts()), stock,
                   input_source_of(site_.device));
    if (site_.device.apart_from_host()) runs.work_beside_runs();
    out_.rejection = sample(
        runs, sides, request_.sampling, 0.0, 2.0, seed_,
        [&] {
          site_.progress({Stage::profile, {}, fmt::format("profile {}: timing", workload.name)});
        },
        target->warm_up);
    if (out_.rejection) return;
    const WorkloadResult result = summarise(site_.task, workload, target, sides);
    Profile& p = profile();
    p.median_us = result.median_us;
    p.value = result.value;
    p.unit = result.unit;
    const Roofline floor =
        timed_roofline(site_.task, workload, site_.device.ceilings(), site_.device.facts(), target);
    p.flops_us = floor.flops_seconds * 1e6;
    p.bytes_us = floor.bytes_seconds * 1e6;
    double read = 0.0, written = 0.0;
    for (const TensorSpec& tensor : site_.task.tensors)
      (tensor.role == Role::input ? read : written) +=
          static_cast<double>(site_.task.bytes_of(tensor, workload));
    try {
      p.traffic = site_.device.traffic(read, written);
    } catch (const MissingError& error) {
      p.missing.push_back(fmt::format("the time that loads and stores alone take: {}", error.what()));
    }
    if (result.samples.empty()) return;
    const auto count = static_cast<double>(result.samples.size());
    std::uint64_t usual = 0;  // reasons present in more than half of the samples
    for (int bit = 0; bit < 64; ++bit) {
      std::size_t with = 0;
      for (const Sample& s : result.samples) with += (s.throttle >> bit) & 1U;
      if (2 * with > result.samples.size()) usual |= std::uint64_t{1} << bit;
    }
    for (const Sample& s : result.samples) {
      p.clock_mhz += s.clock_mhz / count;
      p.temperature_c += s.temperature_c / count;
      p.power_w += s.power_w / count;
    }
    p.throttle = site_.device.throttle_words(usual);
  }

  // Returns true if the run succeeded and its outputs were correct.
  bool checked_run(Checker& checker, std::uint64_t number, const std::string& what) {
    site_.progress({Stage::profile, {}, fmt::format("profile {}: {}", request_.workload.name, what)});
    const auto wrong =
        checker.check(Stage::profile, request_.variant, request_.workload, derive_seed(seed_, what, number));
    if (!wrong) return true;
    profile().missing.push_back(fmt::format("{}: {}", what, wrong->reason));
    out_.again = true;
    return false;
  }

  void failed(const std::string& what, const Error& error) {
    profile().missing.push_back(fmt::format("{}: {}", what, error.message));
    out_.again = error.kind != ErrorKind::denied && error.kind != ErrorKind::missing;
  }

  CheckLimits check_limits() const { return {.run_deadline_s = site_.run_deadline_s}; }

  void sample_stalls(Instruments& instruments) {
    const std::string what = "stall reasons by source line";
    const double seconds = request_.median_us * 1e-6;
    if (auto begun = instruments.begin_sampling(sampling_period(seconds)); !begun)
      return failed(what, begun.error());
    Checker checker(site_.device, site_.task, site_.oracle, check_limits());
    const int runs = seconds <= 0.0 ? 1 : static_cast<int>(std::ceil(sampled_seconds / seconds));
    for (int run = 0; run < std::clamp(runs, 1, most_sampled_runs); ++run)
      if (!checked_run(checker, static_cast<std::uint64_t>(run), what)) return;
    const auto samples =
        instruments.end_sampling(binary_ == nullptr ? std::filesystem::path() : binary_->path);
    if (!samples) return failed(what, samples.error());
    profile().dropped_samples = samples->dropped;
    if (!samples->without_lines.empty())
      profile().missing.push_back(fmt::format("source lines: {}", samples->without_lines));
    std::vector<std::string> known;
    for (KernelProfile& kernel : profile().kernels) {
      if (std::find(known.begin(), known.end(), kernel.name) != known.end())
        continue;  // reported with the first
      known.push_back(kernel.name);
      for (const PcSample& sample : samples->samples) {
        if (sample.function != kernel.name) continue;
        StallCount& count = kernel.stalls[sample.reason];
        count.samples += sample.samples;
        count.exposed += sample.exposed;
        kernel.samples += sample.samples;
      }
      kernel.lines = stalls_by_line(*samples, kernel.name, request_.variant.variant.source, main_file());
    }
    if (std::all_of(profile().kernels.begin(), profile().kernels.end(),
                    [](const KernelProfile& k) { return k.samples == 0; })) {
      std::string functions;
      for (const PcSample& sample : samples->samples)
        if (functions.find(sample.function) == functions.npos) functions += " " + sample.function;
      failed(what,
             {ErrorKind::failed, "sample",
              fmt::format("there are no samples of these kernels ({} in total, {} dropped{}{})",
                          samples->total, samples->dropped, functions.empty() ? "" : "; of", functions)});
    }
  }

  void count(Instruments& instruments) {
    const std::string what = "counters";
    const std::size_t kernels = plan_.kernels.size();
    if (auto begun = instruments.begin_counting(request_.full, kernels, request_.replay); !begun)
      return failed(what, begun.error());
    for (const std::string& key : instruments.absent())
      profile().missing.push_back(fmt::format("counter {}: this chip does not have it", key));
    profile().passes = static_cast<int>(instruments.passes());
    Checker checker(site_.device, site_.task, site_.oracle, check_limits());
    for (std::uint64_t run = 0;; ++run) {
      if (!checked_run(checker, run, what)) return;
      const auto done = instruments.counted();
      if (!done) return failed(what, done.error());
      if (*done) break;
      if (run > instruments.passes())
        return failed(
            what, {ErrorKind::failed, "count",
                   fmt::format("it takes more passes than the {} that it announced", instruments.passes())});
    }
    const auto values = instruments.end_counting();
    if (!values) return failed(what, values.error());
    for (std::size_t i = 0; i < std::min(values->size(), profile().kernels.size()); ++i)
      profile().kernels[i].counters = (*values)[i];
  }

  std::string main_file() const {  // the compiler's name of the source
    return "variant" + request_.variant.variant.manifest.language->extension;
  }

  const CascadeSite& site_;
  const ProfileRequest& request_;
  std::uint64_t seed_;
  ProfilePartial out_;
  Plan plan_;
  const Binary* binary_ = nullptr;
};

}  // namespace

ProfilePartial run_profile(const CascadeSite& site, const ProfileRequest& request) {
  return Profiling(site, request).run();
}

int sampling_period(double seconds) {
  constexpr double cycles_per_second = 1.7e9, wanted = 2000.0;
  if (seconds <= 0.0) return 13;
  const double cycles = std::max(1.0, seconds * cycles_per_second / wanted);
  return std::clamp(static_cast<int>(std::floor(std::log2(cycles))), 8, 20);
}

std::vector<LineStalls> stalls_by_line(const PcSamples& samples, std::string_view function,
                                       std::string_view source, const std::string& main, std::size_t most) {
  const SourceFiles files = split_source(source);
  std::map<std::string, std::vector<std::string>, std::less<>> texts{{main, shown_lines(files.main)}};
  for (const HeaderFile& header : files.headers) texts.emplace(header.name, shown_lines(header.text));
  std::map<std::pair<std::string, int>, LineStalls> by_line;
  for (const PcSample& sample : samples.samples) {
    if (sample.function != function) continue;
    // The innermost that lies in a file which the kernel's author can change.
    const auto own =
        std::ranges::find_if(sample.lines, [&](const SourceLine& l) { return texts.contains(l.file); });
    const SourceLine where = own != sample.lines.end() ? *own : SourceLine{main, 0};
    LineStalls& line = by_line[{where.file, where.line}];
    line.line = where.line;
    line.file = where.file == main ? "" : where.file;
    line.samples += sample.samples;
    line.stalls[sample.reason].samples += sample.samples;
    line.stalls[sample.reason].exposed += sample.exposed;
  }
  std::vector<LineStalls> lines;
  for (auto& [where, line] : by_line) {
    const auto& [file, number] = where;
    const std::vector<std::string>& text = texts.at(file);
    if (number > 0 && static_cast<std::size_t>(number) <= text.size())
      line.text = text[static_cast<std::size_t>(number) - 1];
    lines.push_back(std::move(line));
  }
  const auto waiting = [](const LineStalls& line) {
    std::uint64_t sum = 0;
    for (const auto& [reason, count] : line.stalls)
      if (reason != "selected" && reason != "not_selected") sum += count.samples;
    return sum;
  };
  std::stable_sort(lines.begin(), lines.end(),
                   [&](const LineStalls& a, const LineStalls& b) { return waiting(a) > waiting(b); });
  if (lines.size() > most) lines.resize(most);
  return lines;
}

}  // namespace cultivar

// How many candidates a GPU judges in an hour, and where the time goes: variants of a task, compiled
// beforehand, go through the whole cascade one after the other until the time is up.
//
//   bench-gpu-judgements TASK_FOLDER WORKLOADS SECONDS VARIANT[@TUNABLE=VALUE]...
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <map>

#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/targets/cuda/known_devices.hpp"
#include "evaluators/worker/services.hpp"
#include "support/places.hpp"

using namespace cultivar;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Configuration configuration_of(const Variant& plain, const std::string& text) {
  Configuration wanted = plain.configuration;
  const std::size_t at = text.find('=');
  if (at == std::string::npos) throw InputError("not TUNABLE=VALUE: " + text);
  wanted[text.substr(0, at)] = std::atol(text.c_str() + at + 1);
  return wanted;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    fmt::print(stderr, "usage: {} TASK_FOLDER WORKLOADS SECONDS VARIANT[@TUNABLE=VALUE]...\n", argv[0]);
    return 2;
  }
  try {
    ServiceOptions options;
    options.target = TargetKind::cuda;
    options.programs = testing::programs_folder();
    options.cache = testing::tests_cache();
    options.task_folder = argv[1];
    options.compile_workers = 4;
    const Task task = load_task(options.task_folder);
    const WorkloadSet* set = task.workloads(argv[2]);
    if (set == nullptr) throw InputError(fmt::format("task {} has no workloads {}", task.name, argv[2]));
    DeviceService device(options);
    const auto info = device.info();
    if (!info) throw MissingError(info.error().message);
    options.architecture = architecture_of(static_cast<int>(info->facts.at("compute_capability")));
    CompileService compiler(options);
    fmt::print("{}\n{}\nceilings: {:.0f} TFLOPS, {:.0f} GB/s, cached {:.0f} GB/s\n", info->description,
               info->isolation, info->ceilings.flops * 1e-12, info->ceilings.bytes_per_second * 1e-9,
               info->ceilings.cached_bytes_per_second * 1e-9);

    std::vector<std::pair<std::string, Compiled>> compiled;
    for (int i = 4; i < argc; ++i) {
      const std::string text = argv[i];
      const std::size_t at = text.find('@');
      Variant variant = load_variant(text.substr(0, at), task);
      if (at != std::string::npos)
        variant = load_variant(text.substr(0, at), task, configuration_of(variant, text.substr(at + 1)));
      std::vector<Workload> claimed;
      for (const Workload& w : set->workloads)
        if (claims(variant, task, w)) claimed.push_back(w);
      const double start = now();
      auto made = compiler.compile(variant, claimed);
      if (!made) {
        fmt::print("{}: {} at {}\n{}\n", text, made.error().reason, name_of(made.error().stage),
                   made.error().diagnostics);
        continue;
      }
      fmt::print("{}: compiled in {:.2f} s\n", text, now() - start);
      compiled.emplace_back(text, std::move(*made));
    }
    if (compiled.empty()) return 1;

    const double limit = std::atof(argv[3]), start = now();
    int judged = 0;
    double checks = 0.0, measuring = 0.0, kernels = 0.0;
    for (std::size_t i = 0; now() - start < limit; i = (i + 1) % compiled.size()) {
      EvaluateRequest request;
      request.variant = compiled[i].second;
      for (const Workload& w : set->workloads)
        if (claims(request.variant.variant, task, w)) request.workloads.push_back(w);
      const double before = now();
      const auto e = device.evaluate(request);
      if (!e) throw MissingError(e.error().message);
      ++judged;
      checks += e->check_seconds;
      measuring += e->measure_seconds;
      for (const WorkloadResult& w : e->workloads)
        for (const Sample& s : w.samples) kernels += s.seconds;
      fmt::print("{}: {} {:.1f} {} in {:.2f} s (checks {:.2f}, measuring {:.2f}) {}\n", compiled[i].first,
                 e->measured() ? "measured" : name_of(e->stage), e->fitness, e->unit, now() - before,
                 e->check_seconds, e->measure_seconds, e->reason);
      if (!e->measured()) fmt::print("{}\n", e->diagnostics);
      if (judged <= static_cast<int>(compiled.size()))
        for (const WorkloadResult& w : e->workloads)
          fmt::print("  {:<40} {:>9.1f} us [{:.1f}, {:.1f}] {:>7.1f} {} n={} {:.0f} MHz {:.0f} C {:.0f} W\n",
                     w.workload, w.median_us, w.q1_us, w.q3_us, w.value, w.unit, w.samples.size(),
                     w.samples.back().clock_mhz, w.samples.back().temperature_c, w.samples.back().power_w);
    }
    const double all = now() - start;
    fmt::print(
        "judged {} in {:.1f} s: {:.0f} an hour; checks {:.0f} %, measuring {:.0f} %, kernels in counted "
        "samples "
        "{:.0f} %\n",
        judged, all, 3600.0 * judged / all, 100 * checks / all, 100 * measuring / all, 100 * kernels / all);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 3;
  }
}

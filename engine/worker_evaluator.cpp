#include <algorithm>
#include <thread>

#include "engine/evaluator.hpp"
#include "engine/search.hpp"
#include "evaluators/worker/services.hpp"

namespace cultivar {

namespace {

class WorkerEvaluator : public Evaluator {
 public:
  WorkerEvaluator(const ServiceOptions& options, const std::vector<int>& devices)
      : quiet_(options.target == TargetKind::cpu), workers_(options.compile_workers), compiler_(options) {
    for (const int device : devices) {
      ServiceOptions own = options;
      own.device = device;
      devices_.push_back(std::make_unique<DeviceService>(own));
    }
  }

  Expected<std::vector<DeviceInfo>> devices() override {
    std::vector<DeviceInfo> infos;
    for (const auto& device : devices_) {
      auto info = device->info();
      if (!info) return tl::make_unexpected(info.error());
      infos.push_back(std::move(*info));
    }
    return infos;
  }
  std::string compiler_identity() override { return compiler_.compiler_identity(); }
  bool timing_needs_quiet() const override { return quiet_; }
  int compile_workers() const override { return workers_; }

  tl::expected<Compiled, Evaluation> compile(const Variant& variant, const std::vector<Workload>& workloads,
                                             Breadth breadth) override {
    return compiler_.compile(variant, workloads, breadth);
  }
  Expected<Evaluation> evaluate(int device, const EvaluateRequest& request, const Note& note) override {
    return devices_.at(static_cast<std::size_t>(device))->evaluate(request, note);
  }
  Expected<GateReport> gate(int device, const GateRequest& request, const Note& note) override {
    return devices_.at(static_cast<std::size_t>(device))->gate(request, note);
  }
  Expected<ProfilePartial> profile(int device, const ProfileRequest& request, const Note& note) override {
    return devices_.at(static_cast<std::size_t>(device))->profile(request, note);
  }
  void interrupt() override {
    compiler_.interrupt();
    for (const auto& device : devices_) device->interrupt();
  }

 private:
  bool quiet_;
  int workers_;
  CompileService compiler_;
  std::vector<std::unique_ptr<DeviceService>> devices_;
};

}  // namespace

std::unique_ptr<Evaluator> make_worker_evaluator(const Config& config,
                                                 const std::filesystem::path& task_folder,
                                                 const Surface& surface) {
  const EvaluationConfig& e = config.evaluation;
  ServiceOptions options;
  options.target = config.target;
  options.programs = surface.programs;
  options.launcher = e.launcher;
  options.cores = e.cores;
  options.cache = surface.cache;
  options.task_folder = task_folder;
  options.compile_workers = e.compile_workers > 0
                                ? e.compile_workers
                                : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  options.compile_deadline_s = e.compile_deadline_s;
  options.run_deadline_s = e.run_deadline_s;
  options.recycle_after = e.recycle_after;
  return std::make_unique<WorkerEvaluator>(options, e.devices);
}

}  // namespace cultivar

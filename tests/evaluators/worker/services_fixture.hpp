// SPDX-License-Identifier: Apache-2.0
// Real worker processes for a task, and the kernels that their tests evaluate.
#pragma once

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "evaluators/worker/services.hpp"
#include "support/words.hpp"

namespace cultivar::testing {

namespace fs = std::filesystem;

inline const fs::path kSource = CULTIVAR_SOURCE_DIR;

inline ServiceOptions options_for(const std::string& task) {
  ServiceOptions options;
  options.programs = CULTIVAR_BIN_DIR;
  options.cache = fs::path(CULTIVAR_BIN_DIR) / "../cache/tests";
  options.task_folder = kSource / "configs/tasks" / task;
  options.compile_workers = 2;
  options.run_deadline_s = 10.0;
  return options;
}

// The compiler and the device of a task, in worker processes.
struct Services {
  explicit Services(const std::string& name, ServiceOptions given)
      : task(load_task(kSource / "configs/tasks" / name)), compiler(given), device(given) {}
  explicit Services(const std::string& name) : Services(name, options_for(name)) {}

  Workload workload(std::map<std::string, double> values) const {
    Workload w;
    w.name = "w";
    w.dtype = Dtype::f32;
    for (const auto& [key, value] : values) w.values[key] = value;
    return w;
  }
  EvaluateRequest request(const fs::path& file, const Workload& w) {
    const auto compiled = compiler.compile(load_variant(file, task), {w});
    BOOST_REQUIRE_MESSAGE(compiled, words(compiled));
    EvaluateRequest r;
    r.variant = *compiled;
    r.workloads = {w};
    r.sampling.screening_samples = 5;
    return r;
  }
  Evaluation evaluate(const EvaluateRequest& r) {
    const auto evaluation = device.evaluate(r);
    BOOST_REQUIRE_MESSAGE(evaluation, words(evaluation));
    return *evaluation;
  }

  Task task;
  CompileService compiler;
  DeviceService device;
};

inline Services& softmax() {
  static Services services("softmax");
  return services;
}
inline Workload rows_and_columns(double rows, double columns) {
  return softmax().workload({{"R", rows}, {"C", columns}});
}
inline const fs::path kHonest = kSource / "tests/kernels/honest_softmax.cpp";
inline const fs::path kSlow = kSource / "tests/kernels/slow_softmax.cpp";  // long enough on small inputs

// The processes below one, which are the workers if it is this one.
inline std::vector<int> children(int of = getpid()) {
  std::vector<int> pids;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "stat");
    std::string stat;
    std::getline(in, stat, '\0');
    if (stat.find(')') == std::string::npos) continue;  // it has ended
    std::istringstream rest(stat.substr(stat.rfind(')') + 1));
    std::string state;
    int parent = 0;
    if (rest >> state >> parent && parent == of && state != "Z") pids.push_back(std::stoi(name));
  }
  return pids;
}

}  // namespace cultivar::testing

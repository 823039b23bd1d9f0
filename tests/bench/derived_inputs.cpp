// SPDX-License-Identifier: Apache-2.0
// Measures what the inputs of a task with derived ones cost the host, for each workload of a set.
//   bench-derived-inputs TASK_FOLDER WORKLOAD_SET [PART_OF_THE_WORKLOADS_NAME]
#include <fmt/format.h>
#include <sys/resource.h>
#include <tbb/info.h>

#include <chrono>
#include <filesystem>

#include "evaluators/check/oracle.hpp"
#include "evaluators/task/task.hpp"

using namespace cultivar;

int main(int argc, char** argv) {
  if (argc < 3)
    return fmt::print(stderr, "usage: {} TASK_FOLDER WORKLOAD_SET [PART_OF_A_NAME]\n", argv[0]), 2;
  const Task task = load_task(argv[1]);
  const WorkloadSet* const set = task.workloads(argv[2]);
  if (set == nullptr) return fmt::print(stderr, "{} has no workload set {}\n", task.name, argv[2]), 1;
  const auto oracle =
      open_reference(task, std::filesystem::temp_directory_path() / "cultivar-derived-inputs");
  if (!oracle) return fmt::print(stderr, "{}\n", oracle.error().message), 1;
  fmt::print("{} cores\n", tbb::info::default_concurrency());
  double wall = 0.0;
  for (const Workload& workload : set->workloads) {
    if (argc > 3 && workload.name.find(argv[3]) == std::string::npos) continue;
    const auto begun = std::chrono::steady_clock::now();
    rusage before{}, after{};
    ::getrusage(RUSAGE_SELF, &before);
    const Inputs inputs = make_inputs(&*oracle, task, workload, 1);
    ::getrusage(RUSAGE_SELF, &after);
    const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    fmt::print("{}: {:.2f} s, {:.2f} s of processor time, of which {:.2f} s in the kernel\n", workload.name,
               spent,
               seconds(after.ru_utime) - seconds(before.ru_utime) + seconds(after.ru_stime) -
                   seconds(before.ru_stime),
               seconds(after.ru_stime) - seconds(before.ru_stime));
    std::fflush(stdout);
    wall += spent;
  }
  fmt::print("together: {:.2f} s\n", wall);
}

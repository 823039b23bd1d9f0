// SPDX-License-Identifier: Apache-2.0
// A contender's shared library, loaded into this process (a device worker), and its handle for one workload.
// The library is the user's own code, so it is not isolated. Unintended errors are caught and reported:
// another version of the ABI, a missing function, an exception, a call that does not return. A crash ends the
// process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/contenders/cultivar_contender.h"
#include "evaluators/system/error.hpp"
#include "evaluators/target/traits.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/manifest.hpp"

namespace cultivar {

// Ends this process when a trusted call exceeds its time limit, because a call that does not return cannot be
// stopped in any other way.
inline constexpr int exit_overdue = 75;  // exit code of the process in that case

// A thread that checks a few times per second, so that watching wakes no thread while something is timed.
// watch() and done() must be called by one thread at a time.
class Watchdog {
 public:
  explicit Watchdog(std::string who);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  // Starts and ends a watched call. If it exceeds the limit (plus one check interval), "WHO did not return
  // from CALL within ..." is written to stderr and the process ends.
  void watch(const char* call, double seconds);
  void done() { due_ns_.store(0); }

 private:
  void look();
  std::string who_;
  std::atomic<const char*> call_ = "";
  std::atomic<double> limit_s_ = 0.0;
  std::atomic<std::int64_t> due_ns_ = 0;  // on the steady clock; 0 if nothing is watched
  std::mutex mutex_;
  std::condition_variable ending_;
  bool end_ = false;
  std::thread thread_;  // declared last because it uses the members above
};

// A plan with tensors but without kernels: what a target places, guards and poisons for a contender.
struct Plan;
Plan contender_plan(const Task&, const Workload&);

struct ContenderSite;

class ContenderLibrary {  // stays loaded until the process ends; copies share one library; not thread-safe
 public:
  // Loads the library and calls its describe function. An Error says what is wrong: the library does not
  // load, lacks a function, uses another ABI version, or computes another task or for another target than
  // these.
  static Expected<ContenderLibrary> load(const std::filesystem::path&, const Task&, Target);

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  // Why the library does not know its version: what it wraps is missing. Empty if it knows its version.
  std::string trouble() const;
  // Loads what needs no device, if the library has a function for that: before a turn on a shared GPU is
  // taken. What fails is told by PreparedContender::prepare.
  void warm_up(const ContenderSite&) const;

 private:
  friend class PreparedContender;
  ContenderLibrary() = default;
  std::string name_, version_;
  decltype(&cultivar_contender_prepare) prepare_ = nullptr;
  decltype(&cultivar_contender_launch) launch_ = nullptr;
  decltype(&cultivar_contender_release) release_ = nullptr;
  decltype(&cultivar_contender_results) results_ = nullptr;  // null if the library has none
  decltype(&cultivar_contender_warm_up) warm_up_ = nullptr;  // the same
  decltype(&cultivar_contender_share) share_ = nullptr;      // the same
  decltype(&cultivar_contender_last_error) last_error_ = nullptr;
};

// What prepare receives in addition to the current addresses of the tensors.
struct ContenderSite {
  const Task& task;
  const Workload& workload;
  std::span<void* const> tensors;  // in the task's order
  int threads = 0;                 // cpu: number of cores that it may use
  void* stream = nullptr;          // cuda: the stream of the launches
  std::string program = {};        // see ContenderFile
  ContenderSettings settings = {};
  // Where programs share the device: lets others use it (true) or takes it back, from the thread of prepare.
  std::function<void(bool others)> share = {};
};

class PreparedContender {
 public:
  // An Error has kind unsupported if the contender does not support this workload, and missing if it can be
  // prepared for none.
  static Expected<std::unique_ptr<PreparedContender>> prepare(const ContenderLibrary&, const ContenderSite&);
  ~PreparedContender();
  PreparedContender(const PreparedContender&) = delete;

  // Runs one launch. If it does not return by the deadline, the process ends after writing a line to stderr.
  Expected<void> launch(std::span<void* const> tensors, void* stream, double deadline_s);
  // Completes the outputs of the last launch, when its work has ended; not timed.
  Expected<void> results(std::span<void* const> tensors);
  // Never call the library again: its device objects are gone.
  void abandon() { abandoned_ = true; }

 private:
  PreparedContender(ContenderLibrary, const std::string& who);
  Expected<void> answered(const char* call, const Expected<std::int32_t>& answer) const;
  ContenderLibrary library_;
  Watchdog watchdog_;
  void* handle_ = nullptr;
  bool abandoned_ = false;
};

// Tests in a separate process, `cultivar-worker-TARGET contender LIBRARY TASK_FOLDER`, whether a contender's
// library can be loaded here and can load its vendor's libraries. Returns the version that the library
// reports. The Error says what is missing, with the remedy if the library knows one.
Expected<std::string> try_contender(const std::filesystem::path& programs,
                                    const std::filesystem::path& library,
                                    const std::filesystem::path& task_folder, Target target);

// The child process's side: prints the version to stdout and returns 0, or the error to stderr and returns 1.
int contender_trial(const std::filesystem::path& library, const std::filesystem::path& task_folder,
                    Target target);

}  // namespace cultivar

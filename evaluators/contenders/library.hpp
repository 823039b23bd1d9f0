// A contender's shared library, loaded into this process (a device worker), and its handle for one workload.
// It is the user's own code, so nothing keeps it in; what it may do wrong without meaning to is caught and
// told: another version of the ABI, a missing function, an exception, a call that does not return. A crash
// ends the process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "evaluators/contenders/cultivar_contender.h"
#include "evaluators/contenders/watchdog.hpp"
#include "evaluators/error.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/manifest.hpp"

namespace cultivar {

// The tensors alone, as a plan without kernels: what a target places, guards and poisons for a contender.
struct Plan;
Plan contender_plan(const Task&, const Workload&);

class ContenderLibrary {  // stays loaded until the process ends; copies are one library; not thread-safe
 public:
  // Loads it and asks what it is. An Error says what is wrong with the library: it does not load, lacks a
  // function, speaks another version, or computes another task or for another target than these.
  static Expected<ContenderLibrary> load(const std::filesystem::path&, const Task&, TargetKind);

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  // Why it does not know its version: what it stands for is not there. Empty: it knows it.
  std::string trouble() const;

 private:
  friend class PreparedContender;
  ContenderLibrary() = default;
  std::string name_, version_;
  decltype(&cultivar_contender_prepare) prepare_ = nullptr;
  decltype(&cultivar_contender_launch) launch_ = nullptr;
  decltype(&cultivar_contender_release) release_ = nullptr;
  decltype(&cultivar_contender_last_error) last_error_ = nullptr;
};

// What prepare is given, besides where the tensors are at that moment.
struct ContenderSite {
  const Task& task;
  const Workload& workload;
  std::span<void* const> tensors;  // in the task's order
  int threads = 0;                 // cpu: cores that it may use
};

class PreparedContender {
 public:
  // An Error's stage is "unsupported" when the contender does not take this workload, else "prepare".
  static Expected<std::unique_ptr<PreparedContender>> prepare(const ContenderLibrary&, const ContenderSite&);
  ~PreparedContender();
  PreparedContender(const PreparedContender&) = delete;

  // One launch. The process ends when it has not returned by then, with a line on stderr that says so.
  Expected<void> launch(std::span<void* const> tensors, void* stream, double deadline_s);
  // Never call the library again: what it works on is gone.
  void abandon() { abandoned_ = true; }

 private:
  explicit PreparedContender(ContenderLibrary);
  ContenderLibrary library_;
  Watchdog watchdog_;
  void* handle_ = nullptr;
  bool abandoned_ = false;
};

}  // namespace cultivar

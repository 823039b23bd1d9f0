// SPDX-License-Identifier: Apache-2.0
// One worker process and the connection to it: started when first needed, replaced after any fault.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "evaluators/judge/requests.hpp"
#include "evaluators/worker/services.hpp"

namespace cultivar {

struct ExitStatus;

struct LinkTrouble {
  enum class Kind {
    unavailable,  // no worker can be started: program missing, launcher failed, wrong version, task rejected
    lost,         // the worker died or sent malformed data during the request
    timed_out,    // the worker's process group was killed at the deadline
    refused,      // the worker is intact and reports that it cannot do this
    interrupted
  } kind = Kind::unavailable;
  Error error;
  Activity last = {};                        // the last one reported
  HostFault fault = HostFault::worker_lost;  // of unavailable and lost: what it says of the machine
  std::string contender =
      {};  // the contender whose library ended the worker or broke the device; empty if none
};

// call() and stop() must be called by one thread at a time; interrupt() may be called by any thread.
class WorkerLink {
 public:
  WorkerLink(ServiceOptions options, std::string role);  // "compile", "measure"
  ~WorkerLink();

  using Progress = std::function<void(const std::string&)>;
  using Enough = std::shared_ptr<const std::atomic<bool>>;  // GateRequest::enough
  // Returns the worker's reply. `quiet_s` is the longest allowed time without a message; `deadline_s` the
  // longest allowed total time. The worker is told of `enough` after its next progress.
  tl::expected<nlohmann::json, LinkTrouble> call(const nlohmann::json& request, double deadline_s,
                                                 double quiet_s, const Progress& progress = {},
                                                 const Enough& enough = {});
  tl::expected<void, LinkTrouble> open(
      const Progress& = {});  // starts a worker if there is none; call() does this by itself
  // Only starts a worker, waits for its hello, and stops it. For a launcher that is tried out.
  tl::expected<void, LinkTrouble> greet();
  void stop(double goodbye_s = 1.0);  // the next call starts a new process
  void interrupt();                   // permanent
  int pid() const;                    // 0 if there is none; with a launcher, the launcher's

 private:
  struct Conversation;
  const std::vector<std::string>& launcher() const;
  tl::expected<void, LinkTrouble> launch();  // until the worker's hello
  tl::expected<void, LinkTrouble> start(const Progress&);
  tl::expected<nlohmann::json, LinkTrouble> exchange(const nlohmann::json& request, double deadline_s,
                                                     double quiet_s, const Progress&, const Enough& = {});
  LinkTrouble trouble(LinkTrouble::Kind, const std::string& what);
  HostFault fault_of(const ExitStatus&) const;

  ServiceOptions options_;
  std::string role_, program_;
  std::unique_ptr<Conversation> conversation_;
  mutable std::mutex mutex_;  // guards conversation_ against interrupt()
  std::atomic<bool> interrupted_ = false;
  std::uint64_t memory_kills_before_ = 0;  // when the worker was started
};

// The folder of the running program.
std::filesystem::path program_folder();

}  // namespace cultivar

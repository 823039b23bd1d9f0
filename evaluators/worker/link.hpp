// One worker process and the conversation with it: started when first needed, replaced after any fault.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "evaluators/worker/services.hpp"

namespace cultivar {

struct LinkTrouble {
  enum class Kind {
    unavailable,  // no worker can be had: program missing, launcher failed, wrong version, task refused
    lost,         // it died or spoke garbage in the middle of the request
    timed_out,    // its process group was killed at the deadline
    refused,      // it is well, and says that it cannot do this
    interrupted
  } kind = Kind::unavailable;
  Error error;
  std::string last_progress;
};

// call() and stop() by one thread at a time; interrupt() by any.
class WorkerLink {
 public:
  WorkerLink(ServiceOptions options, std::string role);  // "compile", "measure"
  ~WorkerLink();

  using Progress = std::function<void(const std::string&)>;
  // The worker's answer. `quiet_s`: the longest it may be silent; `deadline_s`: the longest it may take in
  // all.
  tl::expected<nlohmann::json, LinkTrouble> call(const nlohmann::json& request, double deadline_s,
                                                 double quiet_s, const Progress& progress = {});
  tl::expected<void, LinkTrouble> open();  // starts one where there is none, which call() does by itself
  void stop(double goodbye_s = 1.0);       // the next call starts a fresh process
  void interrupt();                        // for good
  int pid() const;                         // 0: none; of the launcher, when there is one

 private:
  struct Conversation;
  tl::expected<void, LinkTrouble> start();
  tl::expected<nlohmann::json, LinkTrouble> exchange(const nlohmann::json& request, double deadline_s,
                                                     double quiet_s, const Progress&);
  LinkTrouble trouble(LinkTrouble::Kind, const std::string& what);

  ServiceOptions options_;
  std::string role_, program_;
  std::unique_ptr<Conversation> conversation_;
  mutable std::mutex mutex_;  // guards conversation_ against interrupt()
  std::atomic<bool> interrupted_ = false;
};

// Folder of the running program.
std::filesystem::path program_folder();

}  // namespace cultivar

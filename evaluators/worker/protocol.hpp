// What engine and workers say to each other, one frame each. The worker speaks first (its hello); then the
// engine sends `configure`, and after the answer one request at a time:
//
//   -> {"request": "compile", "variant": {...}, "macros": [...], "deadline_s": 60, "contender": false}
//   <- {"progress": "..."}                     any number, at most one in half a second
//   <- {"answer": {...}} or {"trouble": {"stage": "...", "message": "..."}}
//
// With "last": true beside it the worker has lost its device: it ends, and the next request wants a new
// worker.
//
// Requests: configure, info, compile, evaluate, gate, profile, shutdown. A variant travels as its source and
// its tunable values: the worker reads and checks it itself. Every function here throws
// nlohmann::json::exception on a message that is not what it should be, and InputError on a variant that does
// not parse.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "evaluators/worker/requests.hpp"

namespace cultivar::protocol {

nlohmann::json from(const Variant&);
Variant variant(const nlohmann::json&, const Task&);
nlohmann::json from(const Workload&);
Workload workload(const nlohmann::json&);
nlohmann::json from(const Binary&);
Binary binary(const nlohmann::json&);
nlohmann::json from(const CompileFailure&);
CompileFailure compile_failure(const nlohmann::json&);
nlohmann::json from(const Compiled&);
Compiled compiled(const nlohmann::json&, const Task&);
nlohmann::json from(const EvaluateRequest&);
EvaluateRequest evaluate_request(const nlohmann::json&, const Task&);
nlohmann::json from(const GateRequest&);
GateRequest gate_request(const nlohmann::json&, const Task&);
nlohmann::json from(const GateReport&);
GateReport gate_report(const nlohmann::json&);
nlohmann::json from(const ProfileRequest&);
ProfileRequest profile_request(const nlohmann::json&, const Task&);
nlohmann::json from(const ProfilePartial&);
ProfilePartial profile_partial(const nlohmann::json&);
nlohmann::json from(const DeviceInfo&);
DeviceInfo device_info(const nlohmann::json&);

}  // namespace cultivar::protocol

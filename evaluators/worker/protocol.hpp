// SPDX-License-Identifier: Apache-2.0
// The messages between engine and workers, one frame each. The worker speaks first (its hello). Then the
// engine sends `configure` and, after the reply, one request at a time:
//
//   -> {"request": "compile", "variant": {...}, "macros": [...], "deadline_s": 60}
//   <- {"progress": {"stage": "measure", "contender": "", "text": "..."}}   any number; the same text, and
//   one of a duel after another, at most once in half a second
//   -> {"request": "enough"}   during a duel that is no longer needed: it ends after the pair that runs. It
//   has no reply, and between requests no effect
//   <- {"answer": {...}} or {"trouble": {"kind": "...", "doing": "...", "message": "..."}, "contender": ""}
//
// The contender of a trouble is the one whose library broke the device; empty if none did.
// "last": true in the reply means that the worker has lost its device: it exits, and the next request needs a
// new worker.
//
// Requests: configure, info, compile, evaluate, gate, profile, shutdown. A variant is sent as its source and
// its tunable values; the worker parses and checks it itself. Every function here throws
// nlohmann::json::exception on a malformed message and InputError on a variant that does not parse or a
// target that is unknown.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "evaluators/judge/requests.hpp"

namespace cultivar {

inline constexpr int protocol_version = 8;

// {"cultivar": version, "worker": name}.
nlohmann::json hello(std::string_view worker);
// An Error names both versions.
Expected<void> check_hello(const nlohmann::json&, std::string_view worker);

void to_json(nlohmann::json&, const Error&);
void from_json(const nlohmann::json&, Error&);
void to_json(nlohmann::json&, const Workload&);
void from_json(const nlohmann::json&, Workload&);
void to_json(nlohmann::json&, const Binary&);
void from_json(const nlohmann::json&, Binary&);
void to_json(nlohmann::json&, const CompileFailure&);
void from_json(const nlohmann::json&, CompileFailure&);
void to_json(nlohmann::json&, const GateReport&);
void from_json(const nlohmann::json&, GateReport&);
void to_json(nlohmann::json&, const ProfilePartial&);
void from_json(const nlohmann::json&, ProfilePartial&);
void to_json(nlohmann::json&, const DeviceInfo&);
void from_json(const nlohmann::json&, DeviceInfo&);

void to_json(nlohmann::json&, const Activity&);
void from_json(const nlohmann::json&, Activity&);

void to_json(nlohmann::json&, const Variant&);
void to_json(nlohmann::json&, const EvaluateRequest&);
void to_json(nlohmann::json&, const GateRequest&);
void to_json(nlohmann::json&, const ProfileRequest&);

}  // namespace cultivar

namespace cultivar::protocol {

Variant variant(const nlohmann::json&, const Task&);
EvaluateRequest evaluate_request(const nlohmann::json&, const Task&);
GateRequest gate_request(const nlohmann::json&, const Task&);
ProfileRequest profile_request(const nlohmann::json&, const Task&);

}  // namespace cultivar::protocol

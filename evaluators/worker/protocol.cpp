// SPDX-License-Identifier: Apache-2.0
#include "evaluators/worker/protocol.hpp"

#include <fmt/format.h>

#include "evaluators/system/json_fields.hpp"
#include "evaluators/variant/tunables.hpp"

namespace cultivar {

nlohmann::json hello(std::string_view worker) {
  return {{"cultivar", protocol_version}, {"worker", std::string(worker)}};
}

Expected<void> check_hello(const nlohmann::json& message, std::string_view worker) {
  const std::string stage = fmt::format("greet worker {}", worker);
  if (!message.is_object() || !message.contains("cultivar") || !message["cultivar"].is_number_integer())
    return failure(
        stage,
        "the worker's first frame is not a hello; make sure that the launcher prints nothing to stdout");
  const int version = message["cultivar"].get<int>();
  if (version != protocol_version)
    return failure(stage, fmt::format("the worker uses protocol version {}, but this program uses version "
                                      "{}; build both from the same source tree",
                                      version, protocol_version));
  if (message.value("worker", "") != worker)
    return failure(stage, fmt::format("the worker's name is {}", message["worker"].dump()));
  return {};
}

using Json = nlohmann::json;

CULTIVAR_JSON_ENUM(ErrorKind, "failed", "missing", "unsupported", "denied", "interrupted")
CULTIVAR_JSON(Error, kind, doing, message)

static void to_json(Json& j, const Dtype& dtype) {
  j = name_of(dtype);
}
static void from_json(const Json& j, Dtype& dtype) {
  const auto known = dtype_named(j.get_ref<const std::string&>());
  if (!known) throw Json::other_error::create(501, "unknown dtype " + j.dump(), &j);
  dtype = *known;
}
CULTIVAR_JSON(Workload, name, dtype, values)

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Sampling, screening_samples, min_samples, screening_seconds, max_samples,
                                   max_seconds, oracle_rows, until_clear)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ColdRate, bytes, bytes_per_second)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Ceilings, flops, bytes_per_second, cached_bytes_per_second, handshake_s,
                                   cold)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Resources, values, shares)

CULTIVAR_JSON(Binary, path, machine_code, macros, resources, log, chosen, blocks, counters)
static void to_json(Json& j, const HostFault& fault) {
  j = name_of(fault);
}
static void from_json(const Json& j, HostFault& fault) {
  const auto known = host_fault_named(j.get_ref<const std::string&>());
  if (!known) throw Json::other_error::create(501, "unknown host fault " + j.dump(), &j);
  fault = *known;
}
CULTIVAR_JSON(CompileFailure, stage, reason, diagnostics, late, host_fault)
CULTIVAR_JSON(GateReport, decision, times, trouble, challenger_seconds, incumbent_seconds, seconds,
              input_seed, host_fault)
CULTIVAR_JSON(ProfilePartial, profile, rejection, again)
CULTIVAR_JSON(Activity, stage, contender, text)
CULTIVAR_JSON(DeviceInfo, description, isolation, weakness, facts, ceilings, model)

void to_json(Json& j, const Variant& v) {
  j = {{"source", v.source}, {"configuration", v.configuration}};
}

static void to_json(Json& j, const Compiled& c) {
  if (c.is_library())
    j = {{"library", c.library},
         {"program", c.program},
         {"name", c.variant.manifest.name},
         {"target", name_of(c.variant.manifest.target)},
         {"id", c.variant.id}};
  else
    j = {{"variant", c.variant},
         {"binaries", c.binaries},
         {"check_builds", c.check_builds},
         {"no_check_build", c.no_check_build},
         {"overflow_builds", c.overflow_builds},
         {"compile_seconds", c.compile_seconds},
         {"drawn", c.drawn}};
}

CULTIVAR_JSON_PART(EvaluateRequest, workloads, stop_after, holdout, every_row, exactness, checks_only,
                   timed_only, small_shapes, sampling, seed, incumbent_us, give_up)
void to_json(Json& j, const EvaluateRequest& r) {
  write_fields(j, r);
  j["variant"] = r.variant;
  j["contenders"] = r.contenders;
  if (r.incumbent) j["incumbent"] = *r.incumbent;
}

CULTIVAR_JSON_PART(GateRequest, workloads, options, seed, oracle_rows, earlier, within_limit)
void to_json(Json& j, const GateRequest& r) {
  write_fields(j, r);
  j.update({{"challenger", r.challenger}, {"incumbent", r.incumbent}, {"control", r.control}});
}

CULTIVAR_JSON_PART(ProfileRequest, workload, full, sampling, seed, part, replay, median_us)
void to_json(Json& j, const ProfileRequest& r) {
  write_fields(j, r);
  j["variant"] = r.variant;
}

}  // namespace cultivar

namespace cultivar::protocol {

static Compiled compiled(const Json& j, const Task& task) {
  Compiled c;
  if (j.contains("library")) {
    j.at("library").get_to(c.library);
    j.at("program").get_to(c.program);
    j.at("name").get_to(c.variant.manifest.name);
    c.variant.manifest.target = target_named(j.at("target").get_ref<const std::string&>());
    j.at("id").get_to(c.variant.id);
  } else {
    c.variant = variant(j.at("variant"), task);
    j.at("binaries").get_to(c.binaries);
    j.at("check_builds").get_to(c.check_builds);
    j.at("no_check_build").get_to(c.no_check_build);
    j.at("overflow_builds").get_to(c.overflow_builds);
    j.at("compile_seconds").get_to(c.compile_seconds);
    j.at("drawn").get_to(c.drawn);
  }
  return c;
}

Variant variant(const Json& j, const Task& task) {
  auto made = make_variant(j.at("source"), task, j.at("configuration").get<Configuration>());
  if (!made) throw InputError(fmt::format("line {}: {}", made.error().line, made.error().message));
  return std::move(*made);
}

EvaluateRequest evaluate_request(const Json& j, const Task& task) {
  EvaluateRequest r;
  read_fields(j, r);
  r.variant = compiled(j.at("variant"), task);
  for (const Json& c : j.at("contenders")) r.contenders.emplace_back(c.at(0), compiled(c.at(1), task));
  if (j.contains("incumbent")) r.incumbent = compiled(j.at("incumbent"), task);
  return r;
}

GateRequest gate_request(const Json& j, const Task& task) {
  GateRequest r;
  read_fields(j, r);
  r.challenger = compiled(j.at("challenger"), task);
  r.incumbent = compiled(j.at("incumbent"), task);
  r.control = compiled(j.at("control"), task);
  return r;
}

ProfileRequest profile_request(const Json& j, const Task& task) {
  ProfileRequest r;
  read_fields(j, r);
  r.variant = compiled(j.at("variant"), task);
  return r;
}

}  // namespace cultivar::protocol

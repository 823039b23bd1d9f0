#include "evaluators/worker/protocol.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace cultivar::protocol {
namespace {

using Json = nlohmann::json;

template <class T, class F>
Json array_of(const std::vector<T>& values, const F& convert) {
  Json out = Json::array();
  for (const T& value : values) out.push_back(convert(value));
  return out;
}

std::vector<Workload> workloads(const Json& j) {
  std::vector<Workload> all;
  for (const Json& w : j) all.push_back(workload(w));
  return all;
}

Json from_bindings(const Bindings& bindings) {
  Json j = Json::object();
  for (const auto& [name, value] : bindings) j[name] = value;
  return j;
}

Bindings bindings(const Json& j) {
  Bindings all;
  for (const auto& [name, value] : j.items()) all[name] = value.get<double>();
  return all;
}

Stage stage(const Json& j) {
  const auto known = stage_named(j.get<std::string>());
  if (!known) throw Json::other_error::create(501, "unknown stage " + j.dump(), &j);
  return *known;
}

Json from(const GateOptions& o) {
  return {{"min_gain", o.min_gain},     {"max_workload_loss", o.max_workload_loss},
          {"alpha", o.alpha},           {"futility", o.futility},
          {"guard", o.guard},           {"min_blocks", o.min_blocks},
          {"max_blocks", o.max_blocks}, {"max_device_seconds", o.max_device_seconds}};
}

GateOptions gate_options(const Json& j) {
  GateOptions o;
  j.at("min_gain").get_to(o.min_gain);
  j.at("max_workload_loss").get_to(o.max_workload_loss);
  j.at("alpha").get_to(o.alpha);
  j.at("futility").get_to(o.futility);
  j.at("guard").get_to(o.guard);
  j.at("min_blocks").get_to(o.min_blocks);
  j.at("max_blocks").get_to(o.max_blocks);
  j.at("max_device_seconds").get_to(o.max_device_seconds);
  return o;
}

}  // namespace

Json from(const Variant& v) {
  Json configuration = Json::object();
  for (const auto& [name, value] : v.configuration)
    std::visit([&, &key = name](const auto& held) { configuration[key] = held; }, value);
  return {{"source", v.source}, {"configuration", configuration}};
}

Variant variant(const Json& j, const Task& task) {
  Configuration configuration;
  for (const auto& [name, value] : j.at("configuration").items()) {
    if (value.is_string())
      configuration[name] = value.get<std::string>();
    else
      configuration[name] = value.get<std::int64_t>();
  }
  auto made = make_variant(j.at("source").get<std::string>(), task, std::move(configuration));
  if (!made) throw InputError(fmt::format("line {}: {}", made.error().line, made.error().message));
  return std::move(*made);
}

Json from(const Workload& w) {
  return {{"name", w.name}, {"dtype", name_of(w.dtype)}, {"values", from_bindings(w.values)}};
}

Workload workload(const Json& j) {
  Workload w;
  j.at("name").get_to(w.name);
  const auto dtype = dtype_named(j.at("dtype").get<std::string>());
  if (!dtype) throw Json::other_error::create(501, "unknown dtype " + j.at("dtype").dump(), &j);
  w.dtype = *dtype;
  w.values = bindings(j.at("values"));
  return w;
}

Json from(const Binary& b) {
  return {{"path", b.path.string()},
          {"machine_code", b.machine_code},
          {"macros", b.macros},
          {"resources", b.resources.values},
          {"log", b.log}};
}

Binary binary(const Json& j) {
  Binary b;
  b.path = j.at("path").get<std::string>();
  j.at("machine_code").get_to(b.machine_code);
  j.at("macros").get_to(b.macros);
  j.at("resources").get_to(b.resources.values);
  j.at("log").get_to(b.log);
  return b;
}

Json from(const CompileFailure& f) {
  return {
      {"stage", name_of(f.stage)}, {"reason", f.reason}, {"diagnostics", f.diagnostics}, {"late", f.late}};
}

CompileFailure compile_failure(const Json& j) {
  return {stage(j.at("stage")), j.at("reason").get<std::string>(), j.at("diagnostics").get<std::string>(),
          j.at("late").get<bool>()};
}

Json from(const Compiled& c) {
  if (c.is_library())
    return {{"library", c.library.string()},
            {"name", c.variant.manifest.name},
            {"target", name_of(c.variant.manifest.target)},
            {"id", c.variant.id}};
  return {{"variant", from(c.variant)},
          {"binaries", array_of(c.binaries, [](const Binary& b) { return from(b); })},
          {"compile_seconds", c.compile_seconds}};
}

Compiled compiled(const Json& j, const Task& task) {
  if (j.contains("library")) {
    Compiled c;
    c.library = j.at("library").get<std::string>();
    c.variant.manifest.name = j.at("name").get<std::string>();
    c.variant.manifest.target =
        j.at("target").get<std::string>() == name_of(TargetKind::cuda) ? TargetKind::cuda : TargetKind::cpu;
    j.at("id").get_to(c.variant.id);
    return c;
  }
  Compiled c{variant(j.at("variant"), task), {}, j.at("compile_seconds").get<double>()};
  for (const Json& b : j.at("binaries")) c.binaries.push_back(binary(b));
  return c;
}

static Json from(const Sampling& s) {
  return {{"screening_samples", s.screening_samples},
          {"min_samples", s.min_samples},
          {"screening_seconds", s.screening_seconds},
          {"max_samples", s.max_samples},
          {"max_seconds", s.max_seconds},
          {"oracle_rows", s.oracle_rows}};
}

static Sampling sampling(const Json& j) {
  Sampling s;
  j.at("screening_samples").get_to(s.screening_samples);
  j.at("min_samples").get_to(s.min_samples);
  j.at("screening_seconds").get_to(s.screening_seconds);
  j.at("max_samples").get_to(s.max_samples);
  j.at("max_seconds").get_to(s.max_seconds);
  j.at("oracle_rows").get_to(s.oracle_rows);
  return s;
}

Json from(const EvaluateRequest& r) {
  Json contenders = Json::array();
  for (const auto& [name, contender] : r.contenders)
    contenders.push_back({{"name", name}, {"compiled", from(contender)}});
  Json incumbent = Json::object();
  for (const auto& [name, us] : r.incumbent_us) incumbent[name] = us;
  const auto convert = [](const Workload& w) { return from(w); };
  return {{"variant", from(r.variant)},
          {"workloads", array_of(r.workloads, convert)},
          {"stop_after", name_of(r.stop_after)},
          {"holdout", array_of(r.holdout, convert)},
          {"contenders", contenders},
          {"every_row", r.every_row},
          {"small_shapes", r.small_shapes},
          {"sampling", from(r.sampling)},
          {"seed", r.seed},
          {"incumbent_us", incumbent},
          {"give_up", r.give_up}};
}

EvaluateRequest evaluate_request(const Json& j, const Task& task) {
  EvaluateRequest r;
  r.variant = compiled(j.at("variant"), task);
  r.workloads = workloads(j.at("workloads"));
  r.stop_after = stage(j.at("stop_after"));
  r.holdout = workloads(j.at("holdout"));
  for (const Json& c : j.at("contenders"))
    r.contenders.emplace_back(c.at("name").get<std::string>(), compiled(c.at("compiled"), task));
  j.at("every_row").get_to(r.every_row);
  j.at("small_shapes").get_to(r.small_shapes);
  r.sampling = sampling(j.at("sampling"));
  j.at("seed").get_to(r.seed);
  for (const auto& [name, us] : j.at("incumbent_us").items()) r.incumbent_us[name] = us.get<double>();
  j.at("give_up").get_to(r.give_up);
  return r;
}

Json from(const GateRequest& r) {
  return {{"challenger", from(r.challenger)},
          {"incumbent", from(r.incumbent)},
          {"control", from(r.control)},
          {"workloads", array_of(r.workloads, [](const Workload& w) { return from(w); })},
          {"options", from(r.options)},
          {"seed", r.seed},
          {"oracle_rows", r.oracle_rows}};
}

GateRequest gate_request(const Json& j, const Task& task) {
  GateRequest r;
  r.challenger = compiled(j.at("challenger"), task);
  r.incumbent = compiled(j.at("incumbent"), task);
  r.control = compiled(j.at("control"), task);
  r.workloads = workloads(j.at("workloads"));
  r.options = gate_options(j.at("options"));
  j.at("seed").get_to(r.seed);
  j.at("oracle_rows").get_to(r.oracle_rows);
  return r;
}

Json from(const GateReport& r) {
  return {{"decision", r.decision},
          {"trouble", r.trouble},
          {"challenger_seconds", r.challenger_seconds},
          {"incumbent_seconds", r.incumbent_seconds},
          {"seconds", r.seconds},
          {"input_seed", r.input_seed}};
}

GateReport gate_report(const Json& j) {
  GateReport r;
  j.at("decision").get_to(r.decision);
  j.at("trouble").get_to(r.trouble);
  j.at("challenger_seconds").get_to(r.challenger_seconds);
  j.at("incumbent_seconds").get_to(r.incumbent_seconds);
  j.at("seconds").get_to(r.seconds);
  j.at("input_seed").get_to(r.input_seed);
  return r;
}

Json from(const ProfileRequest& r) {
  return {{"variant", from(r.variant)},
          {"workload", from(r.workload)},
          {"full", r.full},
          {"sampling", from(r.sampling)},
          {"seed", r.seed},
          {"part", static_cast<int>(r.part)},
          {"replay_runs", r.replay == Instruments::Replay::by_run},
          {"median_us", r.median_us}};
}

ProfileRequest profile_request(const Json& j, const Task& task) {
  ProfileRequest r;
  r.variant = compiled(j.at("variant"), task);
  r.workload = workload(j.at("workload"));
  j.at("full").get_to(r.full);
  r.sampling = sampling(j.at("sampling"));
  j.at("seed").get_to(r.seed);
  r.part = static_cast<ProfilePart>(j.at("part").get<int>());
  r.replay = j.at("replay_runs").get<bool>() ? Instruments::Replay::by_run : Instruments::Replay::by_kernel;
  j.at("median_us").get_to(r.median_us);
  return r;
}

Json from(const ProfilePartial& p) {
  return {
      {"profile", p.profile}, {"rejection", p.rejection ? Json(*p.rejection) : Json()}, {"again", p.again}};
}

ProfilePartial profile_partial(const Json& j) {
  ProfilePartial p;
  j.at("profile").get_to(p.profile);
  if (!j.at("rejection").is_null()) p.rejection = j.at("rejection").get<Evaluation>();
  j.at("again").get_to(p.again);
  return p;
}

Json from(const DeviceInfo& d) {
  return {{"description", d.description},
          {"isolation", d.isolation},
          {"weakness", d.weakness},
          {"facts", from_bindings(d.facts)},
          {"ceilings",
           {{"flops", d.ceilings.flops},
            {"bytes_per_second", d.ceilings.bytes_per_second},
            {"cached_bytes_per_second", d.ceilings.cached_bytes_per_second},
            {"handshake_s", d.ceilings.handshake_s}}}};
}

DeviceInfo device_info(const Json& j) {
  DeviceInfo d;
  j.at("description").get_to(d.description);
  j.at("isolation").get_to(d.isolation);
  j.at("weakness").get_to(d.weakness);
  d.facts = bindings(j.at("facts"));
  const Json& c = j.at("ceilings");
  c.at("flops").get_to(d.ceilings.flops);
  c.at("bytes_per_second").get_to(d.ceilings.bytes_per_second);
  c.at("cached_bytes_per_second").get_to(d.ceilings.cached_bytes_per_second);
  c.at("handshake_s").get_to(d.ceilings.handshake_s);
  return d;
}

}  // namespace cultivar::protocol

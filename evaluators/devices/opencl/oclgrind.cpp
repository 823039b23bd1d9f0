// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/opencl/oclgrind.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "evaluators/devices/opencl/device.hpp"
#include "evaluators/devices/opencl/session.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/variant/source_files.hpp"

namespace cultivar {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr double kAllSeconds =
    60.0;  // for all shapes: a simulator takes a microsecond for a few instructions
constexpr std::size_t kMostFindings = 4000;

bool begins_a_finding(std::string_view line) {
  for (const std::string_view words :
       {"Invalid ", "Read-write data race", "Write-write data race", "Work-group divergence", "Work-item ",
        "Unaligned ", "Uninitialized ", "Controlflow depends on uninitialized",
        "Instruction depends on an uninitialized"})
    if (line.starts_with(words)) return true;
  return false;
}

json job_of(const Task& task, const Workload& workload, const Plan& plan) {
  json job{{"launches", launches_json(plan)}, {"buffers", json::array()}};
  for (const PlannedBuffer& buffer : plan.buffers) {
    const TensorSpec* const tensor = task.tensor(buffer.name);
    job["buffers"].push_back(
        {{"bytes", buffer.bytes},
         {"input", buffer.use == PlannedBuffer::Use::input},
         {"element",
          tensor != nullptr ? std::string(name_of(task.dtype(*tensor, workload))) : std::string("i32")}});
  }
  return job;
}

}  // namespace

OclgrindLog read_oclgrind_log(const std::string& text) {
  OclgrindLog log;
  for (const std::string_view line : lines_of(text)) {
    if (begins_a_finding(line)) {
      if (log.findings++ == 0) log.first = line;
    }
    if (log.text.size() < kMostFindings) log.text += std::string(line) + "\n";
  }
  return log;
}

Oclgrind::Oclgrind(const ServiceOptions& given) {
  if (find_program("oclgrind").empty()) {
    missing_ = "oclgrind is not installed (apt-get install oclgrind)";
    return;
  }
  try {
    program_.emplace(given.programs.empty() ? fs::path() : given.programs / "cultivar-opencl");
    task_ = load_task(given.task_folder);
    const OpenclDeviceWords& words = program_->device();
    facts_ = opencl_facts(words.compute_units, words.group_max, words.local_bytes_max, words.cache_bytes,
                          words.vector_floats);
  } catch (const std::exception& error) {
    missing_ = error.what();
  }
}

Oclgrind::~Oclgrind() = default;

void Oclgrind::interrupt() {
  interrupted_ = true;
  const std::lock_guard lock(mutex_);
  if (child_) child_->kill();
}

SecondLook::Outcome Oclgrind::look(const Variant& variant, const Workload& workload,
                                   const std::string& plugin, double seconds) {
  const auto plan = make_plan(variant, *task_, workload, facts_);
  if (!plan) return {std::nullopt, fmt::format("no plan on {}: {}", workload.name, plan.error().message)};
  const ScratchFolder scratch;
  const SourceFiles files = split_source(variant.source);
  auto written = write_atomically(scratch.path() / "variant.cl", std::string(files.main));
  for (const HeaderFile& header : files.headers)
    if (written && header_name_trouble(header.name).empty())
      written = write_atomically(scratch.path() / header.name, header.text);
  if (!written) return {std::nullopt, written.error().message};
  const std::string inside = program_->inside(scratch.path());
  std::string options = fmt::format("-cl-std=CL1.2 -I {}", inside);
  for (const std::string& macro : macros(variant, *task_, workload)) options += " -D " + macro;
  const auto whole = [&](const char* fact) { return fmt::format("{:.0f}", facts_.at(fact)); };
  OpenclProgram::Start start =
      program_->start({"simulate", inside + "/variant.cl", options, job_of(*task_, workload, *plan).dump()},
                      scratch.path(), {},
                      {"/usr/bin/oclgrind", plugin, "--max-errors", "3", "--max-wgsize", whole("group_max"),
                       "--local-mem-size", whole("local_bytes_max"), "--log", inside + "/log"});
  start.process.limits.emplace_back(RLIMIT_AS, std::size_t{8} << 30);
  {
    const std::lock_guard lock(mutex_);
    if (interrupted_) return {std::nullopt, "interrupted"};
    auto child = start.spawn();
    if (!child) return {std::nullopt, child.error().message};
    child_.emplace(std::move(*child));
  }
  const bool in_time = child_->wait_or_kill(deadline_in(seconds));
  const ExitStatus status = child_->poll() != nullptr ? *child_->poll() : ExitStatus{};
  const std::string said = child_->captured();
  {
    const std::lock_guard lock(mutex_);
    child_.reset();
  }
  if (interrupted_) return {std::nullopt, "interrupted"};
  const auto text = read_unlinked_file(scratch.path() / "log", most_output_bytes);
  const OclgrindLog log = read_oclgrind_log(text.value_or(""));
  if (log.findings > 0)
    return {rejection(Stage::confirm, fmt::format("oclgrind, on {}: {}", workload.name, log.first),
                      fmt::format("oclgrind {} found, on {}:\n{}", plugin, workload.name, log.text)),
            ""};
  if (!in_time) return {std::nullopt, fmt::format("{} takes more than {:.0f} s", workload.name, seconds)};
  if (!status.success())
    return {std::nullopt, fmt::format("it {} on {}: {}", status.describe(), workload.name,
                                      said.substr(0, said.find('\n')))};
  return {};
}

SecondLook::Outcome Oclgrind::run(const Compiled& compiled, const std::vector<Workload>& workloads,
                                  const Progress& progress) {
  if (!missing_.empty()) return {std::nullopt, missing_};
  const auto deadline = deadline_in(kAllSeconds);
  std::vector<Workload> shapes;
  for (const auto* listed : {&task_->smoke, &task_->edge})
    for (Workload shape : *listed) {
      shape.dtype = workloads.empty() ? Dtype::f32 : workloads.front().dtype;
      if (claims(compiled.variant, *task_, shape)) shapes.push_back(shape);
    }
  std::ranges::stable_sort(shapes, {}, [&](const Workload& shape) { return task_->flops(shape); });
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    if (left < 1.0)
      return {std::nullopt, i > 0 ? std::string() : "oclgrind: there was no time for any shape"};
    if (progress) progress("oclgrind: " + shapes[i].name);
    Outcome outcome = look(compiled.variant, shapes[i], "--data-races", left);
    // Local memory and locals that are read before they are written. Some builtins end this look (sincos of a
    // local): that says nothing.
    if (!outcome.rejection && outcome.note.empty()) {
      const double more = std::chrono::duration<double>(deadline - Clock::now()).count();
      if (more < 1.0) break;
      outcome.rejection = look(compiled.variant, shapes[i], "--uninitialized", more).rejection;
    }
    // Of larger shapes than it was found clean on, oclgrind says nothing where the time ends.
    if (outcome.rejection || (!outcome.note.empty() && i == 0)) {
      if (!outcome.note.empty()) outcome.note.insert(0, "oclgrind: ");
      return outcome;
    }
    if (!outcome.note.empty()) break;
  }
  return {};
}

}  // namespace cultivar

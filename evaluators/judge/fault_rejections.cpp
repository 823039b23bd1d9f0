// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/fault_rejections.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cultivar {
namespace {

std::string remedy_for(Fault::Kind kind) {
  switch (kind) {
    case Fault::Kind::load_failed:
      return "The compiled code could not be loaded: check that the kernel named in `launch` is "
             "defined with C linkage and that all its symbols are defined.";
    case Fault::Kind::crashed:
      return {};  // the target knows what usually causes such an end, and has said it
    case Fault::Kind::timed_out:
      return "Look for loops that do not end for this shape, and for threads that wait for each "
             "other.";
    case Fault::Kind::forbidden_call:
      return "A kernel may only compute: no files, no processes, no threads, no memory "
             "mapping. If it needs memory, declare a `workspace` in the manifest.";
    case Fault::Kind::guard_overwritten:
      return "The kernel wrote outside a buffer. Check the last tile of shapes that are not "
             "multiples of the tile.";
    case Fault::Kind::input_changed:
      return "Inputs are read-only: put intermediate values into a `workspace`.";
    case Fault::Kind::idle_activity:
      return "The kernel worked after it had returned: do all work inside the call.";
    case Fault::Kind::out_of_memory:
      return "The kernel needs more memory than the device can provide.";
    case Fault::Kind::launch_failed:
      return "The launch could not be started as declared in the manifest.";
    case Fault::Kind::too_short:
      return "The workload is too small for this machine at its present load. When the machine is less busy, "
             "the kernel can be evaluated again (in a search by `cultivar resume`, with `--again ID` if it "
             "was rejected).";
    case Fault::Kind::unsupported:
    case Fault::Kind::contender_failed:
      return "The message comes from the contender's library.";
    case Fault::Kind::killed:
      return "No kernel can send such a signal: find out which program or person did.";
    case Fault::Kind::memory_limit:
      return "Give this machine or container more memory or processes (ulimit -u), or let the kernel and the "
             "workloads need less.";
    case Fault::Kind::memory_held:
      return "End the other programs that use the device (`nvidia-smi` lists them), or use another one.";
  }
  return {};
}

}  // namespace

bool may_be_noise(Fault::Kind kind) {
  return kind == Fault::Kind::idle_activity || kind == Fault::Kind::too_short;
}

Evaluation rejection_of(Stage stage, const Fault& fault, const std::string& where) {
  std::string kind(name_of(fault.kind));
  std::replace(kind.begin(), kind.end(), '_', ' ');
  const bool too_short = fault.kind == Fault::Kind::too_short;
  std::string words = too_short ? std::string() : fmt::format("{}: {}\n", where, fault.detail);
  if (const std::string remedy = remedy_for(fault.kind); !remedy.empty()) words += remedy + "\n";
  // With the times, because some messages show only the reason.
  const std::string reason =
      too_short ? fmt::format("runs are too short to be timed on {}: {}; use a larger workload", where,
                              fault.detail)
                : fmt::format("{} on {}", kind, where);
  Evaluation e = rejection(stage, reason, words);
  e.late = fault.kind == Fault::Kind::timed_out;
  if (too_short) e.host_fault = HostFault::busy;
  if (fault.kind == Fault::Kind::killed) e.host_fault = HostFault::killed;
  if (fault.kind == Fault::Kind::memory_limit) e.host_fault = HostFault::out_of_memory;
  if (fault.kind == Fault::Kind::memory_held) e.host_fault = HostFault::memory_held;
  return e;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// What runs a binary, as one row of facts for each kind of device: everything that others need to know of it
// without its folder below evaluators/devices. Users call it a target. The programs' list of rows is
// evaluators/table.cpp.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evaluators/dtype/dtype.hpp"
#include "evaluators/expression/expression.hpp"
#include "evaluators/target/launch_key.hpp"

namespace cultivar {

class Device;      // devices/device.hpp
class SecondLook;  // worker/services.hpp
class YamlNode;
struct ExportOrder;  // launchers/launcher_parts.hpp
struct Plan;
struct PlannedTensorMap;
struct ProfileWords;  // profile/bottleneck.hpp
struct Resources;
struct ServiceOptions;  // worker/services.hpp
struct TargetParts;     // launchers/launcher_parts.hpp
struct Task;
struct TensorMapSpec;
struct Variant;
struct Workload;

// What kernels of every target may rely on, what checks give them at times and no more, and what exported
// launchers ask of callers: tensors begin at multiples of this many bytes.
inline constexpr std::size_t kTensorAlignment = 64;
// Tensors and workspaces that no check had larger end here, where offsets of 32 bits begin to wrap around.
inline constexpr std::int64_t kUncheckedBytes = 2147483647;

// Device facts by name, as a manifest's expressions see them.
using Facts = Bindings;

// Runs that are timed but not counted, before the first counted run.
struct WarmUp {
  int runs = 10;
  double seconds = 0.0;    // minimum wall time, in addition to the runs
  double enough_s = 0.05;  // wall time after which the device counts as warm in any case
  bool checked = true;     // as counted runs are
};

// A program that must, or should, be on the machine.
struct NeededProgram {
  std::string program, package, remedy;
  bool needed = true;  // false: advised
};

// What a language model may be told to try: a short name, and the words.
struct Direction {
  std::string_view name, words;
  bool much_arithmetic = false;  // only for tasks with many operations on each byte, such as matrix products
};

// Machine code for one kind of device among several.
struct Architectures {
  std::string usual;                              // that is compiled for when nobody says: "sm_90a"
  std::string (*of)(const Facts&);                // empty: the facts do not tell
  std::string (*trouble)(std::string_view name);  // with the name of one; empty: this is how one is written
  // What no device of the architecture could launch; a file or a plan that cannot be judged passes.
  Expected<void> (*check)(const std::filesystem::path&, const Variant&, const Task&, const Workload&,
                          const std::string& architecture);
  // Which of the kernels and contenders that come with Cultivar it cannot run, and what to do; empty: all
  // run.
  std::string (*without)(std::string_view name);
};

struct TargetTraits {
  // --- Names ---
  std::string name;                    // in manifests, configurations and records: "cuda"
  std::string device;                  // one of its devices, in words: "GPU"
  std::vector<std::string> also = {};  // other words that people use for it; not accepted, but understood

  // --- The variant format ---
  std::vector<Dtype> dtypes;  // what it computes in; a task's dtypes are cut down to these
  std::vector<std::pair<std::string, std::string>> facts;  // that every device supplies, and what each is
  std::vector<LaunchKey> launch_keys;
  // What no device with these facts could launch.
  std::optional<LaunchTrouble> (*launch_trouble)(const LaunchNumbers&, const Facts&) = nullptr;
  // Evaluates every expression of a tensor map and checks the rules of the hardware; null: there are none.
  Expected<PlannedTensorMap> (*plan_tensor_map)(const TensorMapSpec&, int buffer, Dtype,
                                                std::size_t buffer_bytes, const Bindings&) = nullptr;
  bool thread_arguments = false;   // kernels are called once a thread: `thread` and `threads` are arguments
  std::string thread_remedy = {};  // what to use in place of those; where they are not

  // --- Measuring ---
  std::string unit = "GFLOPS";  // of fitness, where a task counts operations
  double unit_scale = 1e9;
  WarmUp warm_up = {};
  // Kernels run on the host's own cores: compilers disturb timing, there is one device, and what is chosen is
  // how many cores it has. Otherwise devices are chosen by number.
  bool on_host = false;
  int workers_per_device = 1;  // that take turns, unless told otherwise
  bool instruments = false;    // devices count and sample while kernels run (instruments.hpp)
  std::vector<std::string> usual_workloads = {"quick"};  // sets that are taken when none is named, best first
  std::vector<std::string> reported = {};  // numbers about a kernel that its compiler reports: Resources
  // More numbers about a plan, and their names; null: none.
  std::vector<std::string> planned = {};
  std::map<std::string, double> (*describe_plan)(const Resources&, const Plan&, const Facts&) = nullptr;

  const Architectures* architectures = nullptr;  // null: one kind of machine code, for the machine at hand

  // --- Without asking a device ---
  Facts (*stand_in_facts)(int cores) = nullptr;  // for plans; `cores`: of the host, 0: all
  std::string stand_in_words = {};               // whose facts these are; empty: of no use to a reader
  // Of these facts, those of another machine for which this one can run a plan, drawn from a seed: a kernel
  // is exported to machines with fewer cores and other caches. Null: all machines are alike.
  Facts (*another_machine)(Facts, std::uint64_t seed) = nullptr;
  // Those of the largest machine for which this one can run a plan in a repeating session, slowly.
  Facts (*largest_machine)(Facts) = nullptr;
  int (*device_count)() = nullptr;  // devices of this machine; 0: nothing is known

  // --- In a worker ---
  // Opens a device by its number; may throw MissingError.
  std::unique_ptr<Device> (*open)(const std::filesystem::path& cache, int number) = nullptr;

  // At what was confirmed, in the engine; null: none.
  std::unique_ptr<SecondLook> (*second_look)(const ServiceOptions&) = nullptr;

  // The target's part of an exported project; null: kernels of this target are not exported.
  Expected<TargetParts> (*exporter)(const ExportOrder&) = nullptr;
  bool in_pytorch = true;  // its tensors are pointers that PyTorch has

  // --- For people and models ---
  std::vector<NeededProgram> programs = {};
  std::vector<Direction> directions = {};  // that make sense on this target alone
  const ProfileWords* profile = nullptr;   // how its profiles are explained; null: by what holds everywhere
};

// A row. Never null, lives as long as the program, compares by identity.
using Target = const TargetTraits*;

// All that this program knows. Each program links one definition: evaluators/table.cpp, as a rule.
std::span<const Target> targets();
inline Target usual_target() {
  return targets().front();
}  // where none is named

inline const std::string& name_of(Target target) {
  return target->name;
}
Target find_target(std::string_view name);                   // nullptr: there is none of that name
std::string known_targets_beside(std::string_view);          // " (did you mean 'cuda'? known: cpu, cuda)"
Target target_named(std::string_view name);                  // throws InputError that lists the known ones
Target target_of(const YamlNode&);                           // the value is a target's name; throws YamlError
std::string worker_program(Target);                          // "cultivar-worker-cuda"
std::string architecture_of(Target, const Facts&);           // empty: unknown, or the target has none
const LaunchKey* launch_key(Target, std::string_view name);  // nullptr: it has no such key

}  // namespace cultivar

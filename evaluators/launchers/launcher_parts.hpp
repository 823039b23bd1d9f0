// SPDX-License-Identifier: Apache-2.0
// The input of the launcher generators, and the generated parts that all targets share.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

// One compilation of the kernel: its macros, and the values of the specialized names that it serves.
struct Specialisation {
  std::string suffix;                                     // "D64_causal1"; "any" when nothing is specialized
  std::vector<std::string> macros;                        // "D=64", "TILE=32", ...
  std::vector<std::pair<std::string, double>> condition;  // specialized dimensions, parameters and lets
};

struct LauncherInput {
  const Task& task;
  const Variant& variant;
  const Facts& facts;               // of the machine the kernel was tuned on
  std::vector<Workload> workloads;  // not empty, all of one dtype
  std::string folder = {};          // in the bundle, with a slash at its end: that of one kernel of several
  // Of each tensor, up to which the kernel was checked; absent: 2^31 - 1 bytes.
  std::map<std::string, std::int64_t> most_elements = {};
  std::vector<Workload> covered = {};  // of more specializations that are built in
  // Up to where the kernel was checked in each dimension; absent: not limited.
  std::map<std::string, double> longest = {};
  // Of each parameter, the least and the greatest value that the kernel was checked with, beside its default;
  // absent: every finite one.
  std::map<std::string, std::pair<double, double>> checked = {};
};

// Machine code, one for each specialization, and the compiler that made it ("NVRTC 13.0").
struct MachineCode {
  std::vector<std::string> code;
  std::string compiler;
  // What the compiler decided of launches, for each: kernel -> launch key -> numbers (Binary::chosen).
  std::vector<std::map<std::string, std::map<std::string, std::vector<std::int64_t>>>> chosen = {};
};
struct ExportOrder {
  const LauncherInput& input;
  const std::vector<Specialisation>& served;
  std::vector<std::string> architectures;  // to compile for; empty: that of the device
  // The machine code of each of `served` for one architecture. Throws MissingError when the compiler is not
  // installed or does not support it.
  std::function<Expected<MachineCode>(const std::string& architecture)> compile;
};
// What the entry of several kernels is made of and called with, in C++; each kernel's launcher is, too.
struct FrontWords {
  std::string parameter, device;  // of its constructor: "int cores = 0", and the name, "cores"
  std::string when_made, needs;   // for comments
  std::string parameters, given;  // of a call, behind the arguments
  std::string types = {};         // of those parameters
  std::string prepared = "void";  // what prepare() returns
  std::string tensor = {};        // the type of tensors; empty: pointers to their elements
  std::string space = {};         // a namespace of a kernel's launcher that the entry has, too
  std::string includes = {}, members = {};
};
// What a kind of device adds to the exported project of a kernel: its row makes it (TargetTraits::exporter).
struct TargetParts {
  std::map<std::string, std::string> files;                // the launcher and the files that it needs
  std::string_view cmake, bench, device, code;             // templates
  std::map<std::string, std::string, std::less<>> values;  // for templates
  std::vector<std::string> architectures;                  // that were compiled for
  FrontWords front = {};
};

// A kernel's identity in the names of generated symbols and namespaces, shared by the files of a bundle.
std::string short_identity(const Variant&);

// "536870911 elements in w, and 2147614720 elements in x, y".
std::string words_of_sizes(const LauncherInput&);

// "scale from -4 to 4, window from 1 to 2147483647 or 0": the values of parameters, in the task's order.
std::string words_of_parameters(const LauncherInput&);

// Whether the kernel claims the workload, and has a binary for it.
bool serves(const LauncherInput&, const std::vector<Specialisation>&, const Workload&);

// One for each distinct set of macros, in the order of the workloads and of those that are covered.
std::vector<Specialisation> specialisations(const LauncherInput&);

// The fill of the generated tests that is nearest to a task's: a name of verify/data.hpp.
std::string_view kind_of(const Fill&);

// "attention_forward" -> "AttentionForward".
std::string pascal_case(std::string_view);
// A C++ literal of type double.
std::string literal(double);
// "float"; 16-bit floating-point types are passed as their bits, std::uint16_t.
std::string_view cpp_type(Dtype);

// Names of the task and the kernel, for the launcher's template.
std::map<std::string, std::string, std::less<>> launcher_values(const LauncherInput&);
// What a tensor's pointer points to, given its dtype. On a GPU void if it has 16 bits or fewer, so that
// callers need no cast: such types have many names.
std::string_view pointee_of(Target, Dtype);
// The fields of the launcher's Arguments, with the task's defaults: dimensions, parameters, tensors.
// `tensor`: FrontWords::tensor.
std::string argument_members(const LauncherInput&, std::string_view tensor = {});
// The input that an output may overwrite because the task says so (`in_place`); empty: an output shares
// memory with nothing.
std::string in_place_of(const Task&, const TensorSpec& output);
// An expression that is true if every output is empty and null: there is nothing to compute.
std::string nothing_to_compute(const Task&);
// Declares `tensors`, an array of the launcher's place_t.
std::string tensor_places(const LauncherInput&);
// The same with checks of them that throw std::invalid_argument for tensors that are null, not aligned to
// kTensorAlignment or that overlap. `remedy`: for a tensor that is not aligned.
std::string tensor_checks(const LauncherInput&, std::string_view remedy);
// Statements that return the name of the specialization for `arguments`, or null. `late`: late_values().
Expected<std::string> specialisation_names(const LauncherInput&, const std::vector<Specialisation>&,
                                           std::string_view late,
                                           std::string (*fact)(const std::string&, double));
// The statement that defines one name, and those that define the names of dtypes, `dtype` and
// `element_bytes`.
std::string binding(std::string_view name, std::string_view value);
// A kernel's scalar argument from a C++ expression: rounded, or an exception when its type cannot represent
// it.
std::string scalar(Dtype type, std::string_view value, std::string_view what);
std::string dtype_bindings(Dtype);
// Statements that define the task's dimensions and parameters from `arguments`; and every name an expression
// may use, each before its first use. `fact` returns the C++ expression for a fact of the device.
Expected<std::string> task_bindings(const LauncherInput&);
Expected<std::string> name_bindings(const LauncherInput&,
                                    std::string (*fact)(const std::string& name, double value));
// What a launcher's check does with a shape that it refuses: throw Unsupported, or return false.
enum class Otherwise { throws, returns_false };
// Generates checks of the task's relations and the manifest's `requires`; `on_this_device`: also of its
// constraints.
Expected<std::string> requirements(const LauncherInput&, bool on_this_device, Otherwise = Otherwise::throws);
// Declares `sizes`, the bytes of each workspace (the launcher's bytes_t), and `places`, their addresses,
// which the call `room` returns. The statements `between` follow the sizes.
Expected<std::string> workspace_places(const LauncherInput&, std::string_view room,
                                       std::string_view between = {});
// An if for each specialization around its statements; `late`: those for others.
std::string choice_of_specialisation(const std::vector<Specialisation>&,
                                     const std::vector<std::string>& bodies, std::string_view late);
// The statements of a function that says whether the requirements are satisfied and there is a
// specialization.
Expected<std::string> acceptance(const LauncherInput&, const std::vector<Specialisation>&,
                                 bool on_this_device, std::string (*fact)(const std::string&, double));

// The plan of the first workload with each launch of the manifest exactly once, whatever `when` and `repeat`
// say there; the numbers of a launch with `when` are 1.
Expected<Plan> plan_of_each_launch(const LauncherInput&);
// Translates a manifest's expressions for a generator of launches; what cannot be translated is noted.
class ExpressionWriter {
 public:
  std::string cpp(const Expression&);
  // The value of an argument that is a number.
  std::string value(const PlannedArgument&, const ArgumentSpec&);
  void note(const std::string& trouble) {
    if (trouble_.empty()) trouble_ = trouble;
  }
  const std::string& trouble() const { return trouble_; }  // the first; empty: none

 private:
  std::string trouble_;
};
// Puts statements that launch one kernel under the launch's `when` and `repeat`.
Expected<std::string> as_often_as_said(const KernelLaunch&, const std::string& statements);

}  // namespace cultivar

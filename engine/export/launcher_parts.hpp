// The input of the launcher generators, and the generated parts that all targets share.
#pragma once

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
};

// A kernel's identity in the names of generated symbols and namespaces, shared by the files of a bundle.
std::string short_identity(const Variant&);

// One for each distinct set of macros, in the order of the workloads.
std::vector<Specialisation> specialisations(const LauncherInput&);

// The fill of the generated tests that is nearest to a task's: a name of verify/data.hpp.
std::string_view kind_of(const Fill&);

// "attention_forward" -> "AttentionForward".
std::string pascal_case(std::string_view);
// A C++ literal of type double.
std::string literal(double);
// "float"; 16-bit floating-point types are passed as their bits, std::uint16_t.
std::string_view cpp_type(Dtype);

// The fields of the launcher's Arguments, with the task's defaults: dimensions, parameters, tensors.
// `pointee` is what a tensor's pointer points to, given its dtype.
std::string argument_members(const LauncherInput&, std::string_view (*pointee)(Dtype));
// Generates checks that throw std::invalid_argument for a tensor that is null or not aligned to `alignment`
// bytes.
std::string tensor_checks(const Task&, int alignment);
// The statement that defines one name, and those that define the names of dtypes, `dtype` and
// `element_bytes`.
std::string binding(std::string_view name, std::string_view value);
// A kernel's scalar argument from a C++ expression: rounded, or an exception when its type cannot represent
// it.
std::string scalar(Dtype type, std::string_view value, std::string_view what);
std::string dtype_bindings(Dtype);
// Statements that define every name an expression may use, each before its first use. `fact` returns the C++
// expression for a fact of the device.
Expected<std::string> name_bindings(const LauncherInput&,
                                    std::string (*fact)(const std::string& name, double value));
// Generates checks that throw std::invalid_argument when the task's relations or the manifest's `requires`
// are not satisfied.
Expected<std::string> requirements(const LauncherInput&);
// "    if ((EXPRESSION) == 0.0) throw std::invalid_argument(MESSAGE);"
Expected<std::string> requirement(const Expression&, const std::string& message);
// Declares `sizes`, the bytes of each workspace, and `places`, their addresses, which the call `room`
// returns. The statements `between` follow the sizes.
Expected<std::string> workspace_places(const LauncherInput&, std::string_view room,
                                       std::string_view between = {});
// An if for each specialization around the statements that `body` returns for it; other sizes throw.
std::string choice_of_specialisation(const LauncherInput&, const std::vector<Specialisation>&,
                                     const std::vector<std::string>& bodies);

// The data header of verify.cpp and contender.cpp: the task's tensors, rows, workloads and tolerance.
Expected<std::string> verify_data(const LauncherInput&);

// The plan of the first workload with each launch of the manifest exactly once, whatever `when` and `repeat`
// say there.
Expected<Plan> plan_of_each_launch(const LauncherInput&);
// Puts statements that launch one kernel under the launch's `when` and `repeat`.
Expected<std::string> as_often_as_said(const KernelLaunch&, const std::string& statements);

}  // namespace cultivar

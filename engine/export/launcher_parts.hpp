// What launchers of every target are generated from, and the parts that they have in common.
#pragma once

#include <string>
#include <vector>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

// One compile of the kernel: the macros it gets and the values of the specialised names it serves.
struct Specialisation {
  std::string suffix;                                     // "D64_causal1"; "any" when nothing is specialised
  std::vector<std::string> macros;                        // "D=64", "TILE=32", ...
  std::vector<std::pair<std::string, double>> condition;  // specialised dimensions, parameters and lets
};

struct LauncherInput {
  const Task& task;
  const Variant& variant;
  const Facts& facts;               // of the machine the kernel was tuned on
  std::vector<Workload> workloads;  // not empty, all of one dtype
};

// A kernel's identity in what is generated: in names of symbols and namespaces, which files of a bundle
// share.
std::string short_identity(const Variant&);

// One for each distinct set of macros, in the order of the workloads.
std::vector<Specialisation> specialisations(const LauncherInput&);

// "attention_forward" -> "AttentionForward".
std::string pascal_case(std::string_view);
// A C++ literal of type double.
std::string literal(double);
// "float"; 16-bit floating types are std::uint16_t, their bits.
std::string_view cpp_type(Dtype);

// The fields of the launcher's Arguments, with the task's defaults: dimensions, parameters, tensors.
// `pointee` is what a tensor's pointer points to, given its dtype.
std::string argument_members(const LauncherInput&, std::string_view (*pointee)(Dtype));
// Throws std::invalid_argument where a tensor is null, or begins at no multiple of `alignment` bytes.
std::string tensor_checks(const Task&, int alignment);
// The statement that binds one name, and those that bind the names of dtypes, `dtype` and `element_bytes`.
std::string binding(std::string_view name, std::string_view value);
// A kernel's scalar, from a C++ expression: rounded, or refused where its type cannot say it.
std::string scalar(Dtype type, std::string_view value, std::string_view what);
std::string dtype_bindings(Dtype);
// Statements that bind every name an expression may use, in an order in which each is known before it is
// used. `fact` says what a fact of the device is in C++.
Expected<std::string> name_bindings(const LauncherInput&,
                                    std::string (*fact)(const std::string& name, double value));
// Throws std::invalid_argument where the task's relations or the manifest's `requires` do not hold.
Expected<std::string> requirements(const LauncherInput&);
// "    if ((EXPRESSION) == 0.0) throw std::invalid_argument(MESSAGE);"
Expected<std::string> requirement(const Expression&, const std::string& message);
// Declares `sizes`, the bytes of each workspace, and `places`, where they are: `room` is a call that returns
// them; the statements `between` follow the sizes.
Expected<std::string> workspace_places(const LauncherInput&, std::string_view room,
                                       std::string_view between = {});
// An if for each specialisation around the statements that `body` returns for it; anything else throws.
std::string choice_of_specialisation(const LauncherInput&, const std::vector<Specialisation>&,
                                     const std::vector<std::string>& bodies);

// What verify.cpp and contender.cpp include: the task's tensors, rows, workloads and tolerance as C++ data.
Expected<std::string> verify_data(const LauncherInput&);

}  // namespace cultivar

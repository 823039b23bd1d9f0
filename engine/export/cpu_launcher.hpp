// The generated parts of a cpu bundle.
#pragma once

#include <string>
#include <vector>

#include "evaluators/variant/variant.hpp"

namespace cultivar {

// One compile of the kernel: the macros it gets and the values of the specialised names it serves.
struct Specialisation {
  std::string suffix;                                     // "D64_causal1"; empty when nothing is specialised
  std::vector<std::string> macros;                        // "D=64", "TILE=32", ...
  std::vector<std::pair<std::string, double>> condition;  // specialised dimensions and parameters
};

struct LauncherInput {
  const Task& task;
  const Variant& variant;
  const Facts& facts;  // of the machine the kernel was tuned on; num_cores is the user's to choose
  std::vector<Workload> workloads;
};

// One for each distinct set of macros, in the order of the workloads.
std::vector<Specialisation> specialisations(const LauncherInput&);
// The launcher header.
Expected<std::string> launcher_header(const LauncherInput&, const std::vector<Specialisation>&);
// What verify.cpp includes: the task's tensors, rows, workloads and tolerance as C++ data.
std::string verify_data(const LauncherInput&);
// cultivar_kernel(...) lines for CMakeLists.txt.
std::string cmake_kernels(const LauncherInput&, const std::vector<Specialisation>&);

// "attention_forward" -> "AttentionForward".
std::string pascal_case(std::string_view);

}  // namespace cultivar

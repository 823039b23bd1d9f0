// The export bundle: a folder with everything needed to use, build, verify and understand an evolved kernel
// on another machine, with no dependency on Cultivar.
//
//   kernel.cpp, .cu       the source as it was evolved, manifest included
//   <task>.hpp            a self-contained C++ launcher, generated from the plan
//   cubin/, cubins.cpp    cuda: machine code for each specialisation and architecture, and what links it
//   CMakeLists.txt        builds the kernel, the verifier and the libraries
//   verify/               checks the kernel against the task's fp64 oracle and times it
//   contender/            the kernel behind the C interface for contenders, as a shared library
//   pytorch/              that library as an operator of PyTorch's, and its test
//   TABLE.md              per-workload times with intervals, and contenders beside them
//   environment.json      where these figures were taken
//   lineage.md, .json     how the kernel came to be
//   bundle.json           identity, configuration, what this folder is
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/search.hpp"
#include "engine/store/record.hpp"

namespace cultivar {

struct ExportRequest {
  const Record& record;
  IndividualId id = 0;        // 0: the run's best
  std::filesystem::path out;  // made; an earlier bundle's files in it are replaced, what others put beside
                              // them stays; a folder of anything else is an Error
  const Surface& surface;     // its workers compile a cuda kernel
  // cuda: what to compile for, as "sm_90a"; empty: the kind of card that the run was made on.
  std::vector<std::string> architectures = {};
};

struct ExportReport {
  IndividualId id = 0;
  std::filesystem::path folder;
  std::vector<std::string> files;            // relative, sorted
  std::vector<std::string> specialisations;  // "D=64 causal=1"
};

Expected<ExportReport> export_bundle(const ExportRequest&);

}  // namespace cultivar

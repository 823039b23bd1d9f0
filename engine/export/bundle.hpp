// SPDX-License-Identifier: Apache-2.0
// The export bundle: a folder with everything needed to use, build, verify and understand a kernel on another
// machine, without Cultivar.
//
//   kernel.cpp, .cu       the source, manifest included
//   <task>.hpp            a self-contained C++ launcher, generated from the plan
//   kernels/ID/           of a bundle of several kernels: these two for each; <task>.hpp passes calls to them
//   cubin/, cubins.cpp    cuda: machine code for each built-in specialization and architecture, and the file
//   that embeds it CMakeLists.txt        builds the kernel, the verifier and the libraries; installs them
//   late/                 compiles, checks and keeps code for sizes that none was built in for
//   verify/               checks the kernel against the task's fp64 oracle and times it
//   contender/            the kernel as a shared library with the C interface for contenders, and more
//   pytorch/              that library as a PyTorch operator and module, and its test
//   TABLE.md              times per workload with intervals, and the contenders' times
//   environment.json      the machine on which these times were measured
//   lineage.md, .json     the kernel's ancestors
//   manifest.json         what programs ask of the bundle
//   bundle.json           the kernel's identity and configuration; marks the folder as an export
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/export/portfolio.hpp"
#include "engine/search/search.hpp"
#include "engine/store/record.hpp"

namespace cultivar {

struct ExportRequest {
  const Record& record;
  IndividualId id = 0;        // 0: the run's best
  std::filesystem::path out;  // created; files of an earlier bundle in it are replaced, other files
                              // are kept; a folder that is not a bundle is an Error
  const Runtime& runtime;     // provides the workers that compile a cuda kernel
  // cuda: the architectures to compile for, such as "sm_90a"; empty: that of the run's GPU.
  std::vector<std::string> architectures = {};
  // Not null: its kernels behind one entry, instead of one individual.
  const KernelPortfolio* portfolio = nullptr;
  std::string cover = {};  // for which sizes all code is built in, besides the workloads' (domain.hpp)
};

struct ExportReport {
  std::vector<IndividualId> ids;
  std::filesystem::path folder;
  std::vector<std::string> files;            // relative, sorted
  std::vector<std::string> specialisations;  // "D=64 causal=1"
};

Expected<ExportReport> export_bundle(const ExportRequest&);

}  // namespace cultivar

// The export bundle: a folder with everything needed to use, build, verify and understand an evolved kernel
// on another machine, with no dependency on Cultivar.
//
//   kernel.cpp            the source as it was evolved, manifest included
//   <task>.hpp            a self-contained C++ launcher, generated from the plan
//   CMakeLists.txt        builds one object for each specialisation, tunables frozen, and the verifier
//   verify.cpp, verify/   checks the kernel against the task's fp64 oracle and times it
//   TABLE.md              per-workload times with intervals, and contenders beside them
//   environment.json      where these figures were taken
//   lineage.md, .json     how the kernel came to be
//   bundle.json           identity, configuration, what this folder is
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/config.hpp"
#include "engine/store/record.hpp"

namespace cultivar {

struct ExportRequest {
  const Record& record;
  IndividualId id = 0;  // 0: the run's best
  std::filesystem::path
      out;  // made; replaced when it holds an earlier bundle; anything else in it is an Error
  Installation installation;
};

struct ExportReport {
  IndividualId id = 0;
  std::filesystem::path folder;
  std::vector<std::string> files;            // relative, sorted
  std::vector<std::string> specialisations;  // "D=64 causal=1"
};

Expected<ExportReport> export_bundle(const ExportRequest&);

}  // namespace cultivar

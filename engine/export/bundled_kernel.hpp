// SPDX-License-Identifier: Apache-2.0
// One kernel of a bundle, as the record knows it, with the files that only it has.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/config/config.hpp"
#include "engine/search/search.hpp"
#include "engine/store/record.hpp"
#include "evaluators/judge/extents.hpp"
#include "evaluators/launchers/launcher_parts.hpp"

namespace cultivar {

struct BundledKernel {
  IndividualRow row;
  Evaluation evaluation;  // its confirmation, if there is one
  bool confirmed = false;
  Variant variant;
  std::string file_identity = {};   // short, of its file in the bundle
  std::vector<Workload> workloads;  // that its launcher serves
  std::vector<Specialisation> served;
  std::string folder;  // in the bundle, with a slash at its end; empty: the bundle itself
  TargetParts parts = {};
  std::map<std::string, std::int64_t> most_elements = {};  // of each tensor, up to which it was checked
  std::vector<Workload> covered = {};                      // of more specializations that are built in

  IndividualId id() const { return row.individual.id; }
  // References the task, the facts and this object.
  LauncherInput input(const Task& task, const Facts& facts) const {
    return {task,
            variant,
            facts,
            workloads,
            folder,
            most_elements,
            covered,
            accepted_extents(task),
            checked_parameters(task)};
  }
  nlohmann::json configuration() const;
  // Its source by path in the bundle, the main file first.
  std::vector<std::string> source_files() const;
  // Its source and its launcher, by their paths in the bundle.
  std::map<std::string, std::string> files() const;
};

// `confirmation`: one that the record does not hold; may be null. Fails if the kernel was not measured or
// failed its confirmation. Compiles nothing: `parts` is empty.
Expected<BundledKernel> bundled_kernel(const Record&, const Task&, const Config&, IndividualId,
                                       const Evaluation* confirmation, std::string folder);
// Its launcher, and what else its target adds; `served`: the specializations. May compile in the runtime's
// workers. Throws MissingError when the compiler is not installed or does not support an architecture.
Expected<TargetParts> target_parts(const LauncherInput&, const std::vector<Specialisation>& served,
                                   const Runtime&, const std::string& python,
                                   std::vector<std::string> architectures);

}  // namespace cultivar

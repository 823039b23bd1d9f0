// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <mutex>

#include "evaluators/references/reference.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"

namespace cultivar {

namespace fs = std::filesystem;

ReferenceWorkload::ReferenceWorkload(const Task& task, const Workload& workload)
    : dtype(workload.dtype),
      permitted_unit(0.5 * task.tolerance.factor * epsilon_of(workload.dtype) +
                     task.tolerance.floor_eps * accumulation_epsilon(workload.dtype)) {
  for (const TensorSpec& tensor : task.tensors)
    if (tensor.role == Role::input)
      inputs.push_back(
          {tensor.name, tensor.shape, task.shape(tensor, workload), task.dtype(tensor, workload)});
  for (const auto& [name, value] : task.bindings(workload)) numbers.emplace_back(name, value);
}

struct TaskReference::ControlNames {
  std::mutex mutex;
  std::map<std::string, bool> defined;  // by the whole name, as far as anybody asked
};

TaskReference::TaskReference(std::shared_ptr<const ReferenceProgram> program, fs::path kept, bool index_rule)
    : program_(std::move(program)),
      controls_(std::make_shared<ControlNames>()),
      kept_(std::move(kept)),
      has_rounded_(program_->defines("rounded")),
      has_overflow_(program_->defines("rounded_or_overflow")),
      has_index_rule_(index_rule) {}

RowFunction TaskReference::control(const std::string& name) const {
  const std::lock_guard lock(controls_->mutex);
  const auto [known, added] = controls_->defined.try_emplace("control_" + name, false);
  if (added) known->second = program_->defines(known->first);
  return known->second ? known->first.c_str() : nullptr;
}

namespace {

fs::path legal_file(const fs::path& folder, const std::string& workload) {
  return folder / fmt::format("legal-{}", sha256_hex(workload).substr(0, 24));
}

}  // namespace

std::vector<LegalError> TaskReference::known_legal_errors(const std::string& workload) const {
  std::ifstream in(legal_file(kept_, workload));
  std::vector<LegalError> errors;
  std::size_t count = 0;
  in >> count;
  for (LegalError error; errors.size() < count && in >> error.max >> error.rms;) errors.push_back(error);
  if (errors.size() != count) errors.clear();
  return errors;
}

void TaskReference::keep_legal_errors(const std::string& workload,
                                      const std::vector<LegalError>& errors) const {
  std::string text = fmt::format("{}\n", errors.size());
  for (const LegalError& error : errors) text += fmt::format("{:.17g} {:.17g}\n", error.max, error.rms);
  // If writing fails, the next worker computes it again.
  (void)write_atomically(legal_file(kept_, workload), text);
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "engine/benches/task_bench.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {

namespace fs = std::filesystem;

TaskBench::TaskBench(BenchSettings settings) : WorkerBench(std::move(settings)) {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(task().folder / "seeds", ignored))
    if (language_of_file(entry.path()) != nullptr) files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    auto variant = make_variant(read_source(file, task().folder), task());
    if (variant && variant->manifest.target == target())
      seeds_.push_back({file.stem().string(), std::move(*variant), std::nullopt});
  }
  if (seeds_.empty())
    throw InputError(fmt::format("task {} has no seed for target {} in {}", task().name, name_of(target()),
                                 (task().folder / "seeds").string()));
}

const TaskBench::Seed& TaskBench::best() const {
  const Seed* found = &seeds_.front();
  const auto fitness = [](const Seed& seed) { return seed.evaluation ? seed.evaluation->fitness : 0.0; };
  for (const Seed& seed : seeds_)
    if (fitness(seed) > fitness(*found)) found = &seed;
  return *found;
}

KernelRow TaskBench::row_of(const Seed& seed) const {
  KernelRow row;
  row.id = seed.name;
  row.state = !seed.evaluation ? "not evaluated" : seed.evaluation->measured() ? "measured" : "rejected";
  if (seed.evaluation) {
    row.stage = name_of(seed.evaluation->stage);
    row.reason = seed.evaluation->reason;
    row.fitness = seed.evaluation->fitness;
  }
  row.op = "seed";
  row.note = seed.variant.manifest.about;
  row.configuration = seed.variant.configuration;
  return row;
}

std::string TaskBench::situation() const {
  std::vector<std::string> names;
  for (const Workload& workload : workloads()) names.push_back(workload.name);
  return fmt::format(
      "Task {} on {}, without a search: the kernels are the task's seeds and the drafts of this session.\n"
      "Timed workloads: {}.\n",
      task().name, name_of(target()), fmt::join(names, ", "));
}

Expected<std::vector<KernelRow>> TaskBench::kernels(const KernelQuery& query) const {
  const std::lock_guard lock(mutex_);
  std::vector<KernelRow> rows;
  for (const Seed& seed : seeds_)
    if (query.of.empty() || seed.name == query.of)
      if (KernelRow row = row_of(seed); query.state.empty() || row.state == query.state)
        rows.push_back(std::move(row));
  if (query.order == KernelQuery::Order::fittest)
    std::ranges::stable_sort(rows, std::ranges::greater(), &KernelRow::fitness);
  const auto from = std::min(rows.size(), static_cast<std::size_t>(query.offset));
  rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(from));
  if (rows.size() > static_cast<std::size_t>(query.limit)) rows.resize(static_cast<std::size_t>(query.limit));
  return rows;
}

Expected<Kernel> TaskBench::kernel(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto told = [&](const Seed& seed) {
    return Kernel{row_of(seed), seed.variant.source, seed.evaluation, {}, {}};
  };
  if (id == "best") return told(best());
  if (id == "seed") return told(seeds_.front());
  std::vector<std::string> known{"best", "seed"};
  for (const Seed& seed : seeds_) {
    if (seed.name == id) return told(seed);
    known.push_back(seed.name);
  }
  return failure(
      "task", fmt::format("There is no kernel '{}'{}; the drafts of this session are named d1, d2, ...", id,
                          did_you_mean(id, known)));
}

Expected<std::string> TaskBench::submit(const Variant&, const std::string&, const std::string&) {
  return failure("submit", "There is no search to submit to: this session serves a task");
}

Expected<Evaluation> TaskBench::evaluate(const EvaluateRequest& request, const Watch& watch) {
  auto evaluation = WorkerBench::evaluate(request, watch);
  if (!evaluation || watch.over() || request.stop_after < Stage::measure) return evaluation;
  if (request.workloads.size() != claimed(request.variant.variant, task(), workloads()).size())
    return evaluation;
  const std::lock_guard lock(mutex_);
  for (Seed& seed : seeds_)
    if (seed.variant.id == request.variant.variant.id) seed.evaluation = *evaluation;
  return evaluation;
}

}  // namespace cultivar

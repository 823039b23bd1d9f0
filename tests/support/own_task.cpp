// SPDX-License-Identifier: Apache-2.0
#include "support/own_task.hpp"

#include <stdexcept>

namespace cultivar::testing {
namespace {

constexpr const char* task_yaml = R"yaml(name: rms_norm
summary: "Each row over its root mean square: y = x / sqrt(mean(x^2) + eps)"
dimensions:
  R: {about: "rows"}
  C: {about: "columns"}
parameters:
  eps: {type: f32, default: "1e-5", about: "keeps rows of zeros finite"}
dtypes: [f32]
tensors:
  x: {role: input, shape: [R, C], fill: {kind: normal, a: 0, b: 2}}
  y: {role: output, shape: [R, C]}
rows: [R]
cost: {flops: "3 * R * C", bytes: "2 * R * C * element_bytes", report: bytes}
tolerance: {factor: 4, floor_eps: 8, block_rows: 64}
checks:
  smoke:
    - {R: 8, C: 64}
  sweep:
    - {R: 3, C: 1000}
    - {R: 64, C: 256}
  stress_shapes:
    - {R: 4, C: 256}
  stress:
    extreme_range: {about: "many orders of magnitude", x: {kind: spread, a: 1, b: 4}}
  edge:
    - {R: 1, C: 127}
    - {R: 2, C: 3}
workload_sets:
  small:
    about: "tens of milliseconds"
    dtype: f32
    workloads:
      - {R: 6400, C: 1024}
      - {R: 3701, C: 1777}
  unseen:
    about: "what the search never sees"
    dtype: f32
    workloads:
      - {R: 6173, C: 555}
)yaml";

constexpr const char* reference = R"(#include "cultivar_reference.hpp"

extern "C" void reference_row(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = args.integer("C");
  const double* x = args.tensor("x") + row * C;
  double sum = 0.0;
  for (std::int64_t c = 0; c < C; ++c) sum += x[c] * x[c];
  for (std::int64_t c = 0; c < C; ++c) out[c] = x[c] / std::sqrt(sum / double(C) + args.number("eps"));
}

extern "C" void reference_row_rounded(const ReferenceArgs& args, std::int64_t row, double* out) {
  const std::int64_t C = args.integer("C");
  const double* x = args.tensor("x") + row * C;
  float sum = 0.0f;
  for (std::int64_t c = 0; c < C; ++c) sum += float(x[c]) * float(x[c]);
  const float scale = 1.0f / std::sqrt(sum / float(C) + float(args.number("eps")));
  for (std::int64_t c = 0; c < C; ++c) out[c] = args.round(float(x[c]) * scale);
}
)";

constexpr const char* plain = R"(/*--- cultivar
name: rms_norm_plain
task: rms_norm
target: cpu
about: "One loop after the other."
requires: "dtype == f32"
launch:
  - kernel: rms_norm
    threads: 1
    args: [x, y, R, C, eps]
---*/
#include <cmath>

extern "C" void rms_norm(const float* x, float* y, int R, int C, float eps) {
  for (int r = 0; r < R; ++r, x += C, y += C) {
    float norm = 0.0f;
    for (int c = 0; c < C; ++c) norm = std::hypot(norm, x[c]);
    const float scale = float(1.0 / std::sqrt(double(norm) * norm / C + double(eps)));
    for (int c = 0; c < C; ++c) y[c] = x[c] * scale;
  }
}
)";

constexpr const char* blocked = R"(/*--- cultivar
name: rms_norm_blocked
task: rms_norm
target: cpu
about: "Several norms at once, rows dealt out to threads."
requires: "dtype == f32"
tunables:
  LANES: {values: [1, 2, 4, 8, 16, 32, 64], default: 2}
  ROWS: {values: [1, 2, 4, 8], default: 1}
  TEAM: {values: [one, all], default: one}
let:
  team: "TEAM == TEAM_all ? num_cores : 1"
launch:
  - kernel: rms_norm
    threads: team
    args: [x, y, R, C, eps, thread, threads]
---*/
#include <cmath>

extern "C" void rms_norm(const float* x, float* y, int R, int C, float eps, int thread, int threads) {
  for (int first = thread * ROWS; first < R; first += threads * ROWS)
    for (int r = first; r < R && r < first + ROWS; ++r) {
      const float* in = x + long(r) * C;
      float* out = y + long(r) * C;
      float norms[LANES] = {};
      int c = 0;
      for (; c + LANES <= C; c += LANES)
        for (int l = 0; l < LANES; ++l) norms[l] = std::hypot(norms[l], in[c + l]);
      double sum = 0.0;
      for (int l = 0; l < LANES; ++l) sum += double(norms[l]) * double(norms[l]);
      for (; c < C; ++c) sum += double(in[c]) * double(in[c]);
      const float scale = float(1.0 / std::sqrt(sum / C + double(eps)));
      for (int i = 0; i < C; ++i) out[i] = in[i] * scale;
    }
}
)";

void set_workloads(const std::filesystem::path& task, const std::string& set, const std::string& lines) {
  std::string text = read_text(task);
  const std::string head = "    workloads:\n", item = "      - ";
  const std::size_t begin = text.find(head, text.find("\n  " + set + ":\n")) + head.size();
  std::size_t end = begin;
  while (text.compare(end, item.size(), item) == 0) end = text.find('\n', end) + 1;
  if (begin < head.size() || end == begin)
    throw std::runtime_error("no workloads '" + set + "' in " + task.string());
  write_text(task, text.replace(begin, end - begin, lines));
}

}  // namespace

const char* const slow_rms_norm = R"(/*--- cultivar
name: rms_norm_slow
task: rms_norm
target: cpu
about: "One loop after the other."
requires: "dtype == f32"
launch:
  - kernel: rms_norm
    threads: 1
    args: [x, y, R, C, eps]
---*/
#include <cmath>

extern "C" void rms_norm(const float* x, float* y, int R, int C, float eps) {
  for (int r = 0; r < R; ++r, x += C, y += C)
    for (int first = 0; first < C; first += 128) {
      float norm = float(first) * 1e-30f;
      for (int c = 0; c < C; ++c) norm = std::hypot(norm, x[c]);
      const float scale = float(1.0 / std::sqrt(double(norm) * norm / C + double(eps)));
      for (int c = first; c < C && c < first + 128; ++c) y[c] = x[c] * scale;
    }
}
)";

void write_own_task(const std::filesystem::path& folder, const std::string& budget) {
  write_text(folder / "rms_norm" / "task.yaml", task_yaml);
  write_text(folder / "rms_norm" / "reference.cpp", reference);
  write_text(folder / "rms_norm" / "seeds" / "plain.cpp", plain);
  write_text(folder / "rms_norm" / "seeds" / "blocked.cpp", blocked);
  write_text(folder / "search.yaml",
             "name: own\ntask: ./rms_norm\ntarget: cpu\nworkloads: small\nholdout: unseen\n"
             "seeds: [plain, blocked]\nbudget: " +
                 budget +
                 "\n"
                 "evaluation: {screening_samples: 5, max_samples: 8, max_seconds: 1s}\n"
                 "gate: {max_device_seconds: 1s}\n");
}

void set_own_workloads(const std::filesystem::path& folder, const std::string& lines) {
  set_workloads(folder / "rms_norm" / "task.yaml", "small", lines);
}

void copy_task(const std::string& name, const std::filesystem::path& folder, const std::string& lines) {
  std::filesystem::copy(std::filesystem::path(CULTIVAR_SOURCE_DIR) / "configs/tasks" / name, folder,
                        std::filesystem::copy_options::recursive);
  set_workloads(folder / "task.yaml", "cpu_quick", lines);
}

std::vector<std::string> cultivar_command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), CULTIVAR_BIN_DIR "/cultivar");
  return arguments;
}

CommandResult cultivar_in(const std::filesystem::path& folder, std::vector<std::string> arguments,
                          double deadline_s) {
  return run_command(cultivar_command(std::move(arguments)),
                     {.folder = folder, .environment = {}, .deadline_s = deadline_s});
}

nlohmann::json facts(const CommandResult& result) {
  try {
    return nlohmann::json::parse(result.out);
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(std::string(error.what()) + "\nstdout: " + result.out +
                             "\nstderr: " + result.err);
  }
}

}  // namespace cultivar::testing

// A search's configuration, as the user wrote it and with every default filled in. Unknown and duplicate
// keys, values out of range and names that do not exist are InputErrors: "file:line: what is wrong (remedy)".
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/gate.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/manifest.hpp"
#include "operators/bandit.hpp"
#include "operators/llm/model_config.hpp"
#include "operators/prompts/prompt_kit.hpp"
#include "population/islands.hpp"

namespace cultivar {

struct Budget {
  double wall_s = 0.0;           // over all sessions of the run; 0: no limit
  std::int64_t evaluations = 0;  // individuals judged; 0: no limit
  Cap models;                    // of all calls of language models together
};

struct OperatorShare {
  std::string name;
  double weight = 1.0;
  std::vector<std::string> models = {};  // of one that asks: whom
  Cap budget = {};                       // and what for at most
};

// How language models are asked.
struct AskingConfig {
  int in_flight = 8;  // questions that are out, apart from EvaluationConfig::depth
  int rounds = 3;     // repairs on one line of failures
  PromptOptions prompts;
  std::filesystem::path templates;               // *.md that replace ours of the same name; empty: none
  std::vector<std::filesystem::path> knowledge;  // folders of notes, beside ours
};

struct EvaluationConfig {
  int depth = 4;            // proposals in flight
  int compile_workers = 0;  // 0: one a core
  std::vector<int> devices{0};
  int workers_per_device = 1;  // measuring ones; on a GPU they take turns
  int cores = 2;               // that each of them may use; 0: all
  std::vector<std::string> launcher;
  double compile_deadline_s = 60.0, run_deadline_s = 10.0;
  int recycle_after = 200;
  int screening_samples = 20, max_samples = 60;
  double screening_seconds = 1.5;  // wall time for one workload
  double max_seconds = 20.0;       // of timed work for one workload
  int oracle_rows = 24;
  double pace_every_s = 1800.0;                                 // the best is measured once more
  enum class Profiles { off, elites } profile = Profiles::off;  // elites: whatever is promoted
};

struct CheckpointConfig {
  double every_s = 600.0;
  int keep = 3;
};

struct Config {
  std::string name;
  std::filesystem::path task_folder;
  TargetKind target = TargetKind::cpu;
  std::string workloads, holdout;  // names of the task's workload sets; no holdout: empty
  std::vector<std::filesystem::path> seeds;
  std::vector<std::filesystem::path> contenders;  // sources
  std::vector<std::string> libraries;             // contenders too: the catalogue's names, or absolute paths
  Budget budget;
  IslandOptions population;
  std::vector<OperatorShare> operators;
  BanditOptions portfolio;  // learns where an operator asks a model, unless told otherwise
  std::vector<ModelConfig> models;
  AskingConfig asking;
  EvaluationConfig evaluation;
  GateOptions gate;
  double gate_alpha = 0.01;  // the chance that any promotion of the whole run was noise
  CheckpointConfig checkpoint;
  std::uint64_t seed = 1;
};

// Where the installation's own tasks are: <tasks>/NAME.
struct Installation {
  std::filesystem::path tasks;
  std::filesystem::path programs =
      {};  // what contender libraries are looked for beside; empty: the program's folder
};

// `overrides` are "a.b=c", in order. Paths in the file are relative to the file.
Config load_config(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                   const Installation&);
// The same from text that a record holds; `origin` is named in messages, relative paths start at `base`.
Config parse_config(const std::string& text, const std::string& origin, const std::filesystem::path& base,
                    const std::vector<std::string>& overrides, const Installation&);
// Complete: parse_config of it gives an equal Config.
std::string to_yaml(const Config&);

// "90s", "3m", "2h", "7d", "1h30m" or a plain number of seconds.
std::optional<double> duration_seconds(std::string_view text);
std::string duration_text(double seconds);

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// A search's configuration, with every default filled in. Unknown and duplicate keys, values out of range and
// unknown names throw InputError: "file:line: what is wrong; remedy".
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/notify_settings.hpp"
#include "evaluators/system/interpreter.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/manifest.hpp"
#include "evaluators/verdict/gate.hpp"
#include "operators/llm/chat_model.hpp"
#include "operators/portfolio.hpp"
#include "operators/prompts/prompt.hpp"
#include "operators/supervisor/supervisor.hpp"
#include "population/strategy.hpp"

namespace cultivar {

class YamlNode;
struct Sampling;

struct Budget {
  double wall_s = 0.0;           // summed over all sessions of the run; 0: no limit
  std::int64_t evaluations = 0;  // evaluated individuals; 0: no limit
  double device_s = 0.0;         // of all devices together; 0: no limit
  double plateau_s = 0.0;        // search time without a promotion; 0: no limit
  Cap models;                    // for all calls to language models together
  // Duels and confirmations after the last evaluation that `evaluations` or `models` permits.
  std::int64_t last_comparisons = 64;
};

struct OperatorShare {
  std::string name;
  double weight = 1.0;
  std::vector<std::string> models = {};  // the models that an asking operator uses
  Cap budget = {};                       // its limit for calls to them
};

// How language models are asked.
struct AskingConfig {
  int in_flight = 8;       // pending questions, not counted in EvaluationConfig::depth
  int rounds = 3;          // repairs in a row for one failing variant
  double grace_s = 300.0;  // a question in a mailbox is not withdrawn before: somebody may be answering it
  PromptOptions prompts;
  std::filesystem::path
      templates;  // folder of *.md files that replace the built-in templates of the same name; empty: none
  std::vector<std::filesystem::path> knowledge;  // folders of notes in addition to the built-in ones
};

struct EvaluationConfig {
  int depth = 4;            // proposals in flight; by default three for each measuring worker
  int compile_workers = 0;  // 0: one per core
  std::vector<int> devices{0};
  int workers_per_device = 1;  // measuring workers; on a GPU they take turns
  int cores = 2;               // cores for each worker; 0: all
  // Prefixes of the workers' command lines, for example {"srun", "-n1"}; empty: child processes of the
  // search.
  std::vector<std::string> launcher, compile_launcher;  // of measuring and of compile workers
  double patience_s = 21600.0;  // how long a search without a worker waits before it ends
  double compile_deadline_s = 60.0, run_deadline_s = 10.0;
  std::string python = default_python();  // for Python programs: contenders and references
  double prepare_deadline_s = 600.0;      // for a contender to prepare one workload
  int recycle_after = 200;
  int screening_samples = 20, max_samples = 60;
  double screening_seconds = 1.5;  // wall time per workload
  double max_seconds = 20.0;       // timed work per workload
  int oracle_rows = 24;
  double pace_every_s = 1800.0;  // longest interval between measurements of the best kernel's pace
  enum class Profiles { off, elites } profile = Profiles::off;  // elites: every promoted kernel is profiled
};
// How often and how long a search times a kernel, as requests to a device say it.
Sampling sampling_of(const EvaluationConfig&);

struct CheckpointConfig {
  double every_s = 600.0;
  int keep = 3;
};

inline constexpr int kNewestRules = 11;

struct Config {
  std::string name;
  std::filesystem::path task_folder;
  std::shared_ptr<const Task> task;  // what that folder holds
  Target target = usual_target();
  std::string workloads, holdout;  // names of the task's workload sets; no holdout: empty
  std::vector<std::filesystem::path> seeds;
  std::vector<std::filesystem::path> contenders;  // sources
  std::vector<std::string> libraries;             // more contenders: names of the catalog, or absolute paths
                                                  // of libraries (.so) and Python programs (.py)
  Budget budget;
  PopulationOptions population;
  std::vector<OperatorShare> operators;
  BanditOptions portfolio;  // learns by default when an operator asks a model
  SupervisorOptions supervisor;
  std::vector<ModelConfig> models;
  AskingConfig asking;
  EvaluationConfig evaluation;
  GateOptions gate;
  double gate_alpha = 0.01;  // probability that any promotion of the whole run is a false positive
  double max_error_growth =
      1.1;  // of a new best's rms error, beside the best before it and the permitted error
  CheckpointConfig checkpoint;
  std::vector<NotifyChannel> notify;
  std::filesystem::path metrics;  // the file for Prometheus; empty: none
  std::uint64_t seed = 1;
  // The version of the rules by which the search decides. A new search uses the newest; a record keeps its
  // own, and one without the key has 1.
  int rules = kNewestRules;
};

// The folder of the installation's tasks: <tasks>/NAME.
struct Installation {
  std::filesystem::path tasks;
  std::filesystem::path programs =
      {};  // folder to look for contender libraries in; empty: the program's folder
};

// `overrides` are "a.b=c", applied in order. Paths in the file are relative to the file.
Config load_config(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                   const Installation&);
// The same for text from a record, whose absent `rules` are 1. Messages name `origin`; relative paths start
// at `base`.
Config parse_config(const std::string& text, const std::string& origin, const std::filesystem::path& base,
                    const std::vector<std::string>& overrides, const Installation&);
// The same for a tree that has been read: a search that is part of another file.
Config config_of(const YamlNode&, const std::filesystem::path& base,
                 const std::vector<std::string>& overrides, const Installation&);
// A name that becomes a folder's name.
std::string read_folder_name(const YamlNode&);
// Writes every value: parse_config of the result gives an equal Config.
std::string to_yaml(const Config&);

}  // namespace cultivar

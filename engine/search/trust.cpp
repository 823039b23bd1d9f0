// SPDX-License-Identifier: Apache-2.0
#include "engine/search/trust.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/config/model_settings.hpp"
#include "engine/search/search.hpp"
#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/plain_text.hpp"
#include "operators/llm/providers.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

std::string interpreter_line(const std::string& python) {
  return fmt::format("the interpreter {} of Python contenders", python);
}

// What would run as the user, leave this machine, or be read outside the run's folder, and the files whose
// contents decide what it does.
struct Program {
  std::string line;
  std::vector<std::string> files = {};
};

// Those words of a command that are programs or scripts.
std::vector<std::string> files_of(const std::vector<std::string>& command) {
  std::vector<std::string> files;
  for (const std::string& word : command) {
    std::error_code ignored;
    const fs::file_status status = fs::status(word, ignored);
    const bool executable = (status.permissions() & fs::perms::owner_exec) != fs::perms::none;
    if (fs::is_regular_file(status) && (executable || names_a_program(word) || word.ends_with(".sh")))
      files.push_back(word);
  }
  return files;
}

// A link out of the run's folder is outside.
bool in_run(const fs::path& path, const RunFolder& run) {
  std::error_code ignored;
  const bool moves = *path.begin() == kRunPlaceholder;
  const fs::path there = moves ? run.path() / path.lexically_relative(kRunPlaceholder) : path;
  const fs::path from_run = fs::weakly_canonical(fs::absolute(there), ignored)
                                .lexically_relative(fs::weakly_canonical(fs::absolute(run.path()), ignored));
  return !from_run.empty() && *from_run.begin() != "..";
}

std::optional<Program> program_of(const ModelConfig& model, const RunFolder& run) {
  if (!model.command.empty())
    return Program{fmt::format("the command of model {}: {}", model.name, fmt::join(model.command, " ")),
                   files_of(model.command)};
  if (!model.folder.empty()) {
    if (in_run(model.folder, run)) return {};
    return Program{fmt::format("the mailbox of model {} writes to {}", model.name, model.folder)};
  }
  if (!model.file.empty()) {
    if (in_run(model.file, run)) return {};
    return Program{fmt::format("the answers of model {} are read from {}", model.name, model.file)};
  }
  const ProviderFacts* const provider = provider_named(model.provider);
  if (provider == nullptr) return {};
  const bool elsewhere = !model.base_url.empty() && model.base_url != provider->base_url;
  if (!model.api_key_env.empty() && (elsewhere || model.api_key_env != provider->api_key_env))
    return Program{fmt::format("model {} sends the environment variable {} to {}", model.name,
                               model.api_key_env,
                               model.base_url.empty() ? "its provider's own address" : model.base_url)};
  if (elsewhere) return Program{fmt::format("model {} sends its requests to {}", model.name, model.base_url)};
  return {};
}

// All except the launchers.
std::vector<Program> programs_of(const Config& config, const RunFolder& folder) {
  std::vector<Program> programs;
  for (const ModelConfig& model : config.models)
    if (auto program = program_of(model, folder)) programs.push_back(*std::move(program));
  bool python = false;
  for (const std::string& library : config.libraries) {
    const bool torch = library.find('/') == library.npos && library.starts_with("torch");
    python = python || torch || names_a_program(library);
    if (torch) {  // runs the pytorch.py of the record's task
      const std::string file = (config.task_folder / "pytorch.py").string();
      programs.push_back({fmt::format("the contender {}: {}", library, file), {file}});
    } else if (library.find('/') != library.npos) {
      programs.push_back({"the contender " + library, {library}});
    }
  }
  // It also compiles kernels in some languages.
  for (const Language language : languages())
    python = python || (compiles_for(language, config.target) && language->compiler_of != nullptr);
  const std::string& interpreter = config.evaluation.python;
  if (python && interpreter != EvaluationConfig{}.python)
    programs.push_back({interpreter_line(interpreter), files_of({interpreter})});
  for (const NotifyChannel& channel : config.notify)
    programs.push_back(
        {"notify: " +
             (channel.command.empty() ? channel.name() : fmt::format("{}", fmt::join(channel.command, " "))),
         files_of(channel.command)});
  if (!config.metrics.empty()) programs.push_back({"the metrics file " + config.metrics.string()});
  return programs;
}

// A file with other contents is another program.
std::string identity_of(const Program& program) {
  std::string identity = program.line;
  for (const std::string& file : program.files) {
    const auto bytes = read_file(file);
    identity += fmt::format("\n{} {}", bytes ? sha256_hex(*bytes) : "missing", file);
  }
  return identity;
}

fs::path memory_of(const std::string& identity, const Runtime& runtime) {
  return runtime.cache / "known-programs" / sha256_hex(identity).substr(0, 32);
}

}  // namespace

void require_trust(const Config& config, const RunFolder& folder, const Runtime& runtime,
                   const std::vector<std::string>& own_settings) {
  if (runtime.trusts_record) return;
  std::vector<std::string> unknown;
  for (const auto* launcher : {&config.evaluation.launcher, &config.evaluation.compile_launcher})
    if (!launcher->empty()) unknown.push_back(fmt::format("the launcher: {}", fmt::join(*launcher, " ")));
  const bool own_python = std::ranges::any_of(
      own_settings, [](const std::string& text) { return text.starts_with("evaluation.python="); });
  for (const Program& program : programs_of(config, folder)) {
    if (own_python && program.line == interpreter_line(config.evaluation.python)) continue;
    std::error_code ignored;
    if (runtime.cache.empty() || !fs::exists(memory_of(identity_of(program), runtime), ignored))
      unknown.push_back(program.line);
  }
  if (unknown.empty()) return;
  std::string lines;
  for (const std::string& line : unknown) lines += "\n  " + plain_line(line, 400);
  throw InputError(
      fmt::format("{}: the record names what would run as you, outside the sandbox, or be sent away, or be "
                  "read outside the run's folder:{}\nIf you wrote this "
                  "configuration yourself, or trust who did, add --trust",
                  folder.path().string(), lines));
}

void remember_programs(const Config& config, const RunFolder& folder, const Runtime& runtime) {
  if (runtime.cache.empty()) return;
  // If this cannot be written, the user is asked once more.
  for (const Program& program : programs_of(config, folder)) {
    const std::string identity = identity_of(program);
    (void)write_atomically(memory_of(identity, runtime), identity + "\n");
  }
}

}  // namespace cultivar

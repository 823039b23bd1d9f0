#include "engine/search/trust.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/search/search.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/plain_text.hpp"
#include "operators/llm/providers.hpp"

namespace cultivar {
namespace {

// Whether it sends the value of a variable that is not the provider's own, or to another address.
bool sends_secret(const ModelConfig& model) {
  const ProviderFacts* const provider = provider_named(model.provider);
  if (provider == nullptr || model.api_key_env.empty()) return false;
  return model.api_key_env != provider->api_key_env ||
         (!model.base_url.empty() && model.base_url != provider->base_url);
}

// One line for each program, except the launchers, and for each secret of this machine that is sent away.
std::vector<std::string> programs_of(const Config& config) {
  std::vector<std::string> lines;
  for (const ModelConfig& model : config.models) {
    if (!model.command.empty())
      lines.push_back(fmt::format("the command of model {}: {}", model.name, fmt::join(model.command, " ")));
    if (sends_secret(model))
      lines.push_back(fmt::format("model {} sends the environment variable {} to {}", model.name,
                                  model.api_key_env,
                                  model.base_url.empty() ? "its provider's own address" : model.base_url));
  }
  for (const std::string& library : config.libraries)
    if (library.find('/') != library.npos)
      lines.push_back("the contender " + library);
    else if (library.starts_with("torch"))  // runs the pytorch.py of the record's task
      lines.push_back(
          fmt::format("the contender {}: {}", library, (config.task_folder / "pytorch.py").string()));
  for (const NotifyChannel& channel : config.notify)
    lines.push_back("notify: " + (channel.command.empty()
                                      ? channel.name()
                                      : fmt::format("{}", fmt::join(channel.command, " "))));
  if (!config.metrics.empty()) lines.push_back("the metrics file " + config.metrics.string());
  return lines;
}

std::filesystem::path memory_of(const std::string& program, const Runtime& runtime) {
  return runtime.cache / "known-programs" / sha256_hex(program).substr(0, 32);
}

}  // namespace

void require_trust(const Config& config, const RunFolder& folder, const Runtime& runtime) {
  if (runtime.trusts_record) return;
  std::vector<std::string> unknown;
  for (const auto* launcher : {&config.evaluation.launcher, &config.evaluation.compile_launcher})
    if (!launcher->empty()) unknown.push_back(fmt::format("the launcher: {}", fmt::join(*launcher, " ")));
  for (const std::string& program : programs_of(config)) {
    std::error_code ignored;
    if (runtime.cache.empty() || !std::filesystem::exists(memory_of(program, runtime), ignored))
      unknown.push_back(program);
  }
  if (unknown.empty()) return;
  std::string lines;
  for (const std::string& line : unknown) lines += "\n  " + plain_line(line, 400);
  throw InputError(
      fmt::format("{}: the record names what would run as you, outside the sandbox, or what would be sent "
                  "away:{}\nIf you wrote this "
                  "configuration yourself, or trust who did, add --trust",
                  folder.path().string(), lines));
}

void remember_programs(const Config& config, const Runtime& runtime) {
  if (runtime.cache.empty()) return;
  // If this cannot be written, the user is asked once more.
  for (const std::string& program : programs_of(config))
    (void)write_atomically(memory_of(program, runtime), program + "\n");
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/worker/contender_trial.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "evaluators/contenders/library.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {
namespace {

constexpr double kSeconds = 90.0;  // the library's own watchdog ends the process earlier

}  // namespace

Expected<std::string> try_contender(const std::filesystem::path& programs,
                                    const std::filesystem::path& library,
                                    const std::filesystem::path& task_folder, Target target) {
  constexpr const char* stage = "load contender";
  ProcessOptions options;
  options.command = {(programs / worker_program(target)).string(), "contender", library.string(),
                     task_folder.string()};
  options.pipe_input = options.pipe_output = false;
  auto child = ChildProcess::spawn(options);
  if (!child) return tl::make_unexpected(child.error());
  const bool in_time = child->wait_or_kill(deadline_in(kSeconds));
  std::string said = child->captured();
  said.erase(said.find_last_not_of(" \n") + 1);
  said = plain_text(
      said.substr(said.rfind('\n') + 1));  // output of the vendor's libraries precedes the last line
  if (!in_time)
    return failure(stage, fmt::format("{}: no response within {:g} s", library.string(), kSeconds));
  if (child->poll()->success()) return said;
  return failure(stage,
                 said.empty() ? fmt::format("{}: {}", library.string(), child->poll()->describe()) : said);
}

int contender_trial(const std::filesystem::path& library, const std::filesystem::path& task_folder,
                    Target target) {
  try {
    const auto loaded = ContenderLibrary::load(library, load_task(task_folder), target);
    const std::string trouble = loaded ? loaded->trouble() : loaded.error().message;
    if (trouble.empty()) {
      fmt::print("{}\n", loaded->version());
      return 0;
    }
    fmt::print(stderr, "{}\n", trouble);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
  }
  return 1;
}

}  // namespace cultivar

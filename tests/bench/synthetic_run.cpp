// SPDX-License-Identifier: Apache-2.0
// Writes the record of a run that nobody searched, for the tests and measurements of whatever reads records:
//
//   bench-synthetic-run FOLDER [--individuals N] [--pending N] [--hostile] [--cells] [--live PER_SECOND]
//
// --live: then goes on like a running search until it is ended.
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include "support/synthetic_run.hpp"

int main(int count, char** words) {
  using namespace cultivar::testing;
  SyntheticRun run;
  double live = 0.0;
  std::string folder;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--hostile")
      run.hostile = true;
    else if (word == "--cells")
      run.cells = true;
    else if (word == "--individuals" && i + 1 < count)
      run.individuals = std::stoll(words[++i]);
    else if (word == "--pending" && i + 1 < count)
      run.pending = std::stoll(words[++i]);
    else if (word == "--live" && i + 1 < count)
      live = std::stod(words[++i]);
    else
      folder = word;
  }
  if (folder.empty()) {
    fmt::print(stderr,
               "usage: bench-synthetic-run FOLDER [--individuals N] [--pending N] [--hostile] [--cells] "
               "[--live PER_SECOND]\n");
    return 2;
  }
  if (live > 0.0) {
    run.until = run.individuals + 10'000'000;
    run.goes_on = [&](std::int64_t so_far) {
      if (so_far > run.individuals) std::this_thread::sleep_for(std::chrono::duration<double>(1.0 / live));
      return true;
    };
  }
  try {
    write_synthetic_run(folder, run);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}

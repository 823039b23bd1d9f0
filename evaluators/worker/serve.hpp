// SPDX-License-Identifier: Apache-2.0
// The main loop of a worker program: says hello, is configured, and answers one request at a time until its
// input closes. The same for every target and language: their rows open devices and compilers.
#pragma once

#include "evaluators/target/traits.hpp"

namespace cultivar {

// argv: `compile`, or `measure [--device N] [--cores N]` (0: all). Returns the exit code: 0 when the engine
// disconnected, 2 for bad usage.
int serve(Target, int argc, char** argv);

}  // namespace cultivar

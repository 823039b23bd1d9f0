// SPDX-License-Identifier: Apache-2.0
// cultivar-worker-TARGET, one program for each target: compiles variants (`compile`, no device needed), or
// checks and times them on one device (`measure`).
#include "evaluators/worker/serve.hpp"

int main(int argc, char** argv) {
  return cultivar::serve(cultivar::target_named(CULTIVAR_TARGET), argc, argv);
}

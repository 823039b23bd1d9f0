// SPDX-License-Identifier: Apache-2.0
// cultivar-worker-toy: compiles variants (`compile`), or checks and times them (`measure`), on the toy.
#include "evaluators/worker/serve.hpp"
#include "support/toy_target/toy_target.hpp"

int main(int argc, char** argv) {
  using namespace cultivar;
  WorkerParts parts;
  parts.target = toy::toy_target();
  parts.compiler = [](const CompilerOrder& order) { return toy::make_compiler(order.cache); };
  parts.device = [](const std::filesystem::path&, int) { return toy::make_device(); };
  return serve(parts, argc, argv);
}

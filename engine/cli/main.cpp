// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/commands.hpp"

int main(int argc, char** argv) {
  return cultivar::cultivar_main({argv + 1, argv + argc});
}

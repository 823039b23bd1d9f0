// SPDX-License-Identifier: Apache-2.0
// cultivar-cell OBJECT: the sandbox process in which one cpu variant runs. Started by a cpu worker; not for
// manual use.
#include "evaluators/devices/cpu/cell_layout.hpp"

int main(int argc, char** argv) {
  return argc == 2 ? cultivar::cell::run(argv[1]) : cultivar::cell::exit_bad_start;
}

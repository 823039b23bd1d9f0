// SPDX-License-Identifier: Apache-2.0
// The process in which OpenCL lives: lists the devices, measures the first one's peak rates, compiles one
// source, or runs one kernel's plans (a cell). Started by workers, in a sandbox.
#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "evaluators/devices/opencl/calls/open_cl.hpp"

int main(int argc, char** argv) {
  namespace opencl = cultivar::opencl;
  const std::string mode = argc > 1 ? argv[1] : "";
  try {
    if (mode == "list" && argc == 2) return opencl::list_devices();
    if (mode == "ceilings" && argc == 2) return opencl::measure_ceilings();
    if (mode == "compile") return opencl::build_program(argc - 2, argv + 2);
    if (mode == "simulate") return opencl::simulate(argc - 2, argv + 2);
    if (mode == "run") return opencl::serve_cell(argc - 2, argv + 2);
    fmt::print(stderr,
               "usage: cultivar-opencl list | ceilings | compile ... | run ... | simulate ...\nStarted by "
               "workers; not "
               "for manual use.\n");
    return 2;
  } catch (const opencl::NoDevice& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 4;
  }
}

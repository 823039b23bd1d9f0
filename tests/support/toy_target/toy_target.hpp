// SPDX-License-Identifier: Apache-2.0
// A target that is nobody's hardware: a machine of seven instructions on blocks of rows, interpreted in the
// worker. It shows what a new target needs: this folder, one worker program, and one line in a table.
#pragma once

#include <filesystem>
#include <memory>

#include "evaluators/devices/device.hpp"
#include "evaluators/languages/compiler.hpp"

namespace cultivar::toy {

Target toy_target();
std::unique_ptr<Compiler> make_compiler(const std::filesystem::path& cache);
std::unique_ptr<Device> make_device();

}  // namespace cultivar::toy

// SPDX-License-Identifier: Apache-2.0
// What Triton is asked to compile (the types, constants and attributes that follow from a manifest and a
// task), and the module that becomes of what it writes.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "evaluators/devices/binary.hpp"
#include "evaluators/system/error.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// Triton's names of dtypes, by Dtype.
std::array<std::string_view, dtype_count> triton_types();

// The order for cultivar_triton/build.py as JSON, without its paths. A CompileFailure names the part of the
// manifest that leaves something open.
tl::expected<std::string, CompileFailure> triton_order(const Variant&, const Task&,
                                                       const std::vector<std::string>& macros,
                                                       int architecture);

// Whether all workloads that a variant claims, and that have these macros, give this name a multiple of 16:
// only by a term `NAME % 16 == 0` (or a multiple of 16) of `requires`, or of a let that `specialize` lists
// and that holds.
bool surely_multiple_of_16(const Manifest&, const std::vector<std::string>& macros, std::string_view name);

// The PTX that Triton writes for one kernel.
struct TritonKernelText {
  std::string kernel, ptx;
  std::size_t arguments = 0;  // that the launch gives
};

// One module that any launcher can use: without the parameters that Triton adds behind a kernel's own, for
// scratch memory of its launcher, and without folders in the names of files. An Error: one of those
// parameters is used.
Expected<std::string> one_module(const std::vector<TritonKernelText>&);

}  // namespace cultivar

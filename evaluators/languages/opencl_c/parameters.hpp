// SPDX-License-Identifier: Apache-2.0
// Whether the parameters of kernels, as the OpenCL compiler reports them, match the manifest's `args`.
#pragma once

#include <string>

#include "evaluators/variant/manifest.hpp"

namespace cultivar {

// The macro DTYPE, and the names of types in messages.
std::string_view opencl_type(Dtype);

// `reported`: {"NAME": [{"type": "float*", "space": "global"}, ...], ...}, as cultivar-opencl writes it. One
// line; empty: they match.
std::string parameter_trouble(const Manifest&, const Task&, const std::string& reported);

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// SHA-256, the identity of kernels and files.
#pragma once

#include <string>
#include <string_view>

namespace cultivar {

// 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace cultivar

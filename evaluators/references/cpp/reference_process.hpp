// SPDX-License-Identifier: Apache-2.0
// Calls the functions of a task's reference.cpp in a forked process that can only compute. A task may come
// from anybody, so its code never runs in the worker: the process has no files (Landlock: it reads libraries
// only), no network, no capabilities and few system calls (seccomp), and it ends with the call, so that no
// state survives. It inherits a copy of the worker's memory, which is how it reads the inputs without their
// being copied.
#pragma once

#include <cfenv>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "evaluators/references/cultivar_reference.hpp"
#include "evaluators/system/error.hpp"

namespace cultivar {

struct OracleCall {
  const std::filesystem::path& library;
  const char* function;
  int threads = 1;
  bool low_priority = false;
  int rounding = FE_TONEAREST;  // of RowsAsked
};

// How this thread's arithmetic rounds (RowsAsked::rounding), as long as it lives. Where a processor cannot
// flush, numbers below the smallest normal one stay.
class Arithmetic {
 public:
  explicit Arithmetic(int rounding);
  ~Arithmetic();
  Arithmetic(const Arithmetic&) = delete;
  Arithmetic& operator=(const Arithmetic&) = delete;

 private:
  bool usual_;
  std::fenv_t before_{};
};

// Calls in such arithmetic. Where something overflows, which rounding down or towards zero would bound by the
// greatest finite number, it is called again in the usual one.
template <class Call>
void call_in_arithmetic(int rounding, const Call& call) {
  {
    const Arithmetic arithmetic(rounding);
    if (rounding != FE_TONEAREST) std::feclearexcept(FE_OVERFLOW);
    call();
    if (rounding == FE_TONEAREST || std::fetestexcept(FE_OVERFLOW) == 0) return;
  }
  call();
}

// One call of the function: a row, whose elements are stored from out[value] on; or an answer, about which
// is_right_index decides and of which out[value] becomes 1 (right) or 0.
struct OracleRow {
  const ReferenceArgs* args;
  std::int64_t row;
  std::size_t value;
  const IndexAnswer* answer = nullptr;
};
using IndexRule = bool (*)(const ReferenceArgs& args, const IndexAnswer& answer);

// Stores the elements of these rows. An Error if the function crashed, made a system call, or took longer
// than ten minutes.
Expected<void> compute_apart(const OracleCall&, std::span<const OracleRow> rows, std::span<double> out);

// Whether the library defines the function. An Error if it cannot be loaded.
Expected<bool> defines_apart(const OracleCall&);

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// The JSON that a record has of every individual, read without a tree of values: a resumed search reads all
// of it. Text of any other form than a RecordWriter gives it is read as any JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "evaluators/variant/tunables.hpp"

namespace cultivar {

// The body of a decision `judge`.
struct JudgeBody {
  double device_s = 0.0;
  std::map<std::string, double> descriptors;
  double spread = 0.0;  // absent in older records
};

// Throw std::exception for text that is no JSON, or JSON of something else.
Configuration configuration_in(const std::string& text);
std::vector<double> numbers_in(const std::string& text);
std::vector<std::int64_t> whole_numbers_in(const std::string& text);
JudgeBody judge_body(const std::string& text);

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// A record's individuals, read by id in step with the decisions that propose and judge them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/store/record.hpp"
#include "evaluators/variant/tunables.hpp"
#include "population/archive.hpp"

namespace SQLite {
class Statement;
}

namespace cultivar {

// The record outlives it. Each function throws std::runtime_error where the record contradicts itself.
class RecordedIndividuals {
 public:
  struct Result {  // results that later decisions report
    double fitness = 0.0;
    std::uint32_t duplicate_of = 0;
    bool measured = false;
    std::optional<Stage> stage;
    std::string machine_code;
    std::vector<double> workload_values;
  };

  // Those that the archive does not hold, and the results of those that it holds as in flight.
  RecordedIndividuals(const Record&, const Archive& known);
  ~RecordedIndividuals();
  RecordedIndividuals(const RecordedIndividuals&) = delete;
  RecordedIndividuals& operator=(const RecordedIndividuals&) = delete;

  Individual next(IndividualId);
  // For its `judge` decision, which is the only one.
  Result result(IndividualId);

 private:
  std::unique_ptr<SQLite::Statement> query_;
  std::unordered_map<std::int64_t, std::string> sources_;  // by number
  std::unordered_map<IndividualId, Result> unjudged_;
};

// The JSON that a record has of every individual, read without a tree of values: a resumed search reads all
// of it. Text of any other form than a RecordWriter gives it is read as any JSON.

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

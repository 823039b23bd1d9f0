// Families of kernels: a seed founds one, and so does a rewrite, which shares less than half of its lines
// with its parent. A pure function of the individuals and their sources.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "population/archive.hpp"

namespace cultivar {

// Reads each source once. The archive outlives it.
class Families {
 public:
  Families(const Archive& archive, std::function<std::string(IndividualId)> source_of)
      : archive_(archive), source_of_(std::move(source_of)) {}

  IndividualId founder(IndividualId);
  // The lines of its source that count (operators/edits/similarity.hpp).
  const std::vector<std::string>& lines(IndividualId);

 private:
  const Archive& archive_;
  std::function<std::string(IndividualId)> source_of_;
  std::map<std::string, std::vector<std::string>> lines_;  // by source id
  std::map<IndividualId, IndividualId> founders_;
};

}  // namespace cultivar

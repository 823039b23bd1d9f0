// SPDX-License-Identifier: Apache-2.0
// How exact a variant is beside the permitted roundings and the contenders, for each distribution of inputs,
// and whether a new best would buy speed with exactness.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace cultivar {

// Errors against the fp64 oracle, as multiples of the error of the permitted roundings on the same inputs.
struct RelativeError {
  double rms = 0.0;  // of several sets of inputs together
  double max = 0.0;  // the greatest of them
  // Of the compared elements of outputs of whole numbers, which have no errors: how many are wrong.
  std::int64_t wrong = 0, integers = 0;
};

struct Exactness {
  std::string distribution;  // "ordinary": the task's fills; otherwise the name of a stress case
  RelativeError error;
  // The rms error as a multiple of what no kernel can be blamed for: the permitted roundings and the order of
  // sums (the tolerance's floor). The median of the sets of inputs. 1 is as exact as required.
  double of_allowed = 0.0;
  std::map<std::string, RelativeError> contenders = {};  // on the same inputs; absent: it does not take them
  // The least of_allowed of all best variants of the run so far, at least 1; 0: unknown.
  double bar = 0.0;
};

void to_json(nlohmann::json&, const RelativeError&);
void from_json(const nlohmann::json&, RelativeError&);  // throws nlohmann::json::exception
void to_json(nlohmann::json&, const Exactness&);
void from_json(const nlohmann::json&, Exactness&);  // throws nlohmann::json::exception

// Sets the bars of a new best from those of the best before it.
void set_bars(std::vector<Exactness>& next, const std::vector<Exactness>& before);

// The worst distribution on which the error grew beyond `most` times the bar; nullopt if there is none, or if
// the exactness of one of the two is unknown, as in older records.
struct ErrorGrowth {
  std::string distribution;
  double of_allowed = 0.0, limit = 0.0;
};
std::optional<ErrorGrowth> error_growth(const std::vector<Exactness>& next,
                                        const std::vector<Exactness>& before, double most);

}  // namespace cultivar

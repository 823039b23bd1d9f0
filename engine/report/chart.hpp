// SPDX-License-Identifier: Apache-2.0
// A run's history as a chart: every evaluated kernel, the best so far as a line, the contenders as horizontal
// lines.
#pragma once

#include <string>

#include "engine/views/run_report.hpp"

namespace cultivar {

// A standalone SVG without scripts, for light and dark pages. The x axis is search time, the y axis is
// fitness (in `unit`), logarithmic if the best is more than eight times the slowest. Overlapping dots are
// merged.
std::string running_best_chart(const RunReport&, const std::string& unit);

// Round tick values from `low` to `high`, at most `most` of them: multiples of 0.1, 0.2, 0.5, 1, 2 ...
std::vector<double> round_values(double low, double high, int most);

}  // namespace cultivar

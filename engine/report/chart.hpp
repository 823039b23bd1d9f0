// A run's course as a picture: every kernel that was judged, the best so far as a line, the contenders
// across.
#pragma once

#include <string>

#include "engine/report/story.hpp"

namespace cultivar {

// An SVG of its own, without scripts, for light and dark pages. Search time goes right, fitness (in `unit`)
// goes up, on a logarithmic scale where the best is more than eight times the slowest. Dots that would lie on
// each other are one.
std::string running_best_chart(const Story&, const std::string& unit);

// Values between which a person can count, `low` to `high` at most `most` of them: 0.1, 0.2, 0.5, 1, 2 ...
std::vector<double> round_values(double low, double high, int most);

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "engine/report/chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <tuple>

#include "evaluators/system/plain_text.hpp"
#include "operators/registry.hpp"
#include "population/individual.hpp"

namespace cultivar {

namespace {

constexpr double width = 960, height = 460, left = 72, right = 150, top = 24, bottom = 78;

// Used for operators that this program does not know, for example from a newer version.
constexpr std::string_view other_colour = "#9a8866";

std::string_view colour_of(const std::string& maker) {
  Descent descent;
  set_origin(descent, maker);
  switch (descent.origin) {
    case Origin::seed:
      return "#7f7f7f";
    case Origin::submission:
      return "#d55e00";
    case Origin::operator_:
      break;
  }
  const OperatorRow* const row = find_operator(maker);
  return row == nullptr ? other_colour : row->colour;
}

// Maps values to positions on an axis.
struct Axis {
  double low = 0.0, high = 1.0, from = 0.0, to = 1.0;  // values, and pixels
  bool logarithmic = false;

  double at(double value) const {
    const double share =
        logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + std::clamp(share, 0.0, 1.0) * (to - from);
  }
};

struct TimeUnit {
  const char* name;
  double seconds;
};
TimeUnit unit_of_time(double longest_s) {
  if (longest_s < 180) return {"seconds", 1.0};
  if (longest_s < 3 * 3600) return {"minutes", 60.0};
  if (longest_s < 3 * 86400) return {"hours", 3600.0};
  return {"days", 86400.0};
}

Axis fitness_axis(const RunReport& run_report) {
  double low = INFINITY, high = 0.0;
  const auto include = [&](double fitness) {
    constexpr double least = 1e-100, most = 1e100;  // beyond, an axis has no round values
    if (fitness < least || fitness > most) return;
    low = std::min(low, fitness);
    high = std::max(high, fitness);
  };
  for (const JudgedKernel& kernel : run_report.judged) include(kernel.fitness);
  for (const auto& [name, fitness] : run_report.contenders) include(fitness);
  if (high == 0.0) return {0.0, 1.0, height - bottom, top, false};
  // Long searches evaluate many slow kernels: the line of the best takes the upper two thirds of the chart.
  const bool logarithmic = high > 8.0 * low;
  if (!logarithmic && !run_report.steps.empty())
    low = std::max(low, high - 3.0 * std::max(high - run_report.steps.front().fitness, 0.1 * high));
  const double margin = logarithmic ? 0.0 : 0.04 * (high - low) + 1e-3 * high;
  return logarithmic ? Axis{low / 1.1, high * 1.15, height - bottom, top, true}
                     : Axis{std::max(low - margin, 0.0), high + 2.0 * margin, height - bottom, top, false};
}

std::string text_at(double x, double y, const char* kind, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", x, y, kind, xml_text(words));
}

std::string grid(const RunReport& run_report, const Axis& time, const Axis& fitness, const TimeUnit& unit,
                 const std::string& fitness_unit) {
  std::string svg;
  for (const double value : round_values(time.low / unit.seconds, time.high / unit.seconds, 9)) {
    const double x = time.at(value * unit.seconds);
    svg +=
        fmt::format("<path class=\"grid\" d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/>\n", x, fitness.to, fitness.from);
    svg += text_at(x, fitness.from + 18, "middle", fmt::format("{:.6g}", value));
  }
  const bool measured =
      std::ranges::any_of(run_report.judged, [](const JudgedKernel& k) { return k.fitness > 0.0; });
  std::vector<double> levels = measured ? round_values(fitness.low, fitness.high, 8) : std::vector<double>{};
  if (!measured)
    svg += text_at((time.from + time.to) / 2, (fitness.from + fitness.to) / 2, "middle",
                   "nothing has been measured");
  if (fitness.logarithmic) {
    levels.clear();
    for (double decade = std::pow(10.0, std::floor(std::log10(fitness.low))); decade < fitness.high;
         decade *= 10.0)
      for (const double step : {1.0, 2.0, 5.0})
        if (decade * step >= fitness.low && decade * step <= fitness.high) levels.push_back(decade * step);
  }
  for (const double value : levels) {
    const double y = fitness.at(value);
    svg += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", time.from, y, time.to);
    svg += text_at(time.from - 8, y + 4, "end", fmt::format("{:.6g}", value));
  }
  svg +=
      text_at((time.from + time.to) / 2, fitness.from + 36, "middle", fmt::format("{} of search", unit.name));
  svg += text_at(time.from, fitness.to - 9, "",
                 fitness_unit + " during the search" + (fitness.logarithmic ? " (logarithmic)" : ""));
  return svg;
}

struct Mark {
  const JudgedKernel* kernel = nullptr;
  double x = 0.0, y = 0.0;
};

// One of those that would lie within the same few pixels: fewer, the more there are.
std::vector<Mark> marks_of(const RunReport& run_report, const Axis& time, const Axis& fitness) {
  constexpr std::size_t kMost = 5000;  // at most 150 bytes each
  std::vector<Mark> marks;
  for (double cell = 2.0;; cell *= 2.0) {
    std::set<std::tuple<int, int, std::string>> taken;
    marks.clear();
    for (const JudgedKernel& kernel : run_report.judged) {
      const bool rejected = kernel.fitness <= 0.0;
      const double x = time.at(kernel.elapsed_s), y = rejected ? fitness.from : fitness.at(kernel.fitness);
      const std::string kind = (rejected ? "" : kernel.op) + (kernel.refused ? " refused" : "");
      if (taken.emplace(static_cast<int>(x / cell), static_cast<int>(y / cell), kind).second)
        marks.push_back({&kernel, x, y});
      if (marks.size() > kMost && cell < width) break;
    }
    if (marks.size() <= kMost || cell >= width) return marks;
  }
}

// Rejected kernels are drawn below the scale; kernels too slow for the scale are arrows at its edge.
std::string dots(const RunReport& run_report, const Axis& time, const Axis& fitness) {
  std::string svg;
  for (const auto& [marked, x, y] : marks_of(run_report, time, fitness)) {
    const JudgedKernel& kernel = *marked;
    const std::string_view colour = colour_of(kernel.op);
    if (kernel.fitness <= 0.0) {
      svg += fmt::format("<path class=\"rejected\" d=\"M{:.1f} {:.1f}v6\"/>\n", x, y);
      continue;
    }
    const std::string title = fmt::format("<title>#{} {}, {:.4g}{}</title>", kernel.id, xml_text(kernel.op),
                                          kernel.fitness, kernel.refused ? ", failed confirmation" : "");
    svg += kernel.fitness < fitness.low
               ? fmt::format("<path fill=\"{}\" d=\"M{:.1f} {:.1f}h6l-3 5z\">{}</path>\n", colour, x - 3,
                             y - 6, title)
               : fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\" {}>{}</circle>\n", x, y,
                             kernel.refused ? fmt::format("fill=\"none\" stroke=\"{}\"", colour)
                                            : fmt::format("fill=\"{}\"", colour),
                             title);
  }
  return svg;
}

std::string best_line(const RunReport& run_report, const Axis& time, const Axis& fitness) {
  if (run_report.steps.empty()) return {};
  std::string path, labels;
  double last_label = INFINITY;
  for (const BestStep& step : run_report.steps) {
    const double x = time.at(step.elapsed_s), y = fitness.at(step.fitness);
    path += path.empty() ? fmt::format("M{:.1f} {:.1f}", x, y) : fmt::format("H{:.1f}V{:.1f}", x, y);
    if (last_label - y < 13.0 && &step != &run_report.steps.back()) continue;  // labels would overlap
    last_label = y;
    labels += text_at(x - 5, y - 6, "end best", fmt::format("#{}", step.id));
  }
  return fmt::format("<path class=\"line\" d=\"{}H{:.1f}\"/>\n", path, time.to) + labels +
         text_at(time.to + 6, fitness.at(run_report.steps.back().fitness) + 4, "best",
                 fmt::format("{:.4g} best", run_report.steps.back().fitness));
}

std::string contender_lines(const RunReport& run_report, const Axis& time, const Axis& fitness) {
  std::string svg;
  constexpr std::size_t room = 17;  // characters, to the right of the chart
  const double best = run_report.steps.empty() ? -100.0 : fitness.at(run_report.steps.back().fitness);
  std::vector<double> taken{best};
  for (const auto& [name, value] : run_report.contenders) {
    const double y = fitness.at(value);
    svg += fmt::format("<path class=\"contender\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", time.from, y, time.to);
    double label = y;
    while (std::ranges::any_of(taken, [&](double other) { return std::abs(other - label) < 13.0; }))
      label += 13.0;
    taken.push_back(label);
    svg +=
        text_at(time.to + 6, label + 4, "",
                fmt::format("{:.4g} {}", value, name.size() > room ? name.substr(0, room - 2) + ".." : name));
  }
  return svg;
}

std::string legend(const RunReport& run_report, const Axis& fitness) {
  std::set<std::string> present;
  bool rejected = false, refused = false, slower = false;
  for (const JudgedKernel& kernel : run_report.judged) {
    rejected |= kernel.fitness <= 0.0;
    refused |= kernel.refused;
    slower |= kernel.fitness > 0.0 && kernel.fitness < fitness.low;
    if (kernel.fitness > 0.0) present.insert(kernel.op);
  }
  std::string svg;
  double x = left;
  const double y = height - 14;
  const auto entry = [&](const std::string& mark, const std::string& words) {
    svg += mark + "\n" + text_at(x + 12, y, "", words);
    x += 28.0 + 7.0 * static_cast<double>(words.size());
  };
  const auto dot = [&](const std::string& look) {
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" {}/>", x + 4, y - 4, look);
  };
  for (const std::string& op : present) entry(dot(fmt::format("fill=\"{}\"", colour_of(op))), op);
  if (refused) entry(dot("fill=\"none\" stroke=\"#7f7f7f\""), "failed confirmation");
  if (slower) entry(fmt::format("<path fill=\"#7f7f7f\" d=\"M{:.1f} {:.1f}h8l-4 7z\"/>", x, y - 8), "slower");
  if (rejected)
    entry(fmt::format("<path class=\"rejected\" d=\"M{:.1f} {:.1f}v8\"/>", x + 4, y - 8), "rejected");
  return svg;
}

}  // namespace

std::vector<double> round_values(double low, double high, int most) {
  if (!(high > low) || most < 1) return {};
  const double coarse = (high - low) / most;
  double step = std::pow(10.0, std::floor(std::log10(coarse)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0})
    if (step * factor >= coarse) {
      step *= factor;
      break;
    }
  std::vector<double> values;
  // Counted, because numbers of very different sizes add up to the larger one.
  const double first = std::ceil(low / step - 1e-9);
  for (int n = 0; n <= most && (first + n) * step <= high + 1e-9 * step; ++n)
    values.push_back((first + n) * step + 0.0);  // no "-0"
  return values;
}

std::string running_best_chart(const RunReport& run_report, const std::string& unit) {
  const double longest =
      std::max({run_report.summary.elapsed_s,
                run_report.judged.empty() ? 0.0 : run_report.judged.back().elapsed_s, 1.0});
  const Axis time{0.0, longest, left, width - right, false};
  const Axis fitness = fitness_axis(run_report);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
             "aria-label=\"{}: fitness of every evaluated kernel over search time, and the best so far\">\n"
             "<style>\n"
             "text{{font:12px system-ui,sans-serif;fill:#24292f}} .end{{text-anchor:end}} "
             ".middle{{text-anchor:middle}}\n"
             ".best{{font-weight:600}} .grid{{stroke:#8888;stroke-width:.5;fill:none}} "
             ".rejected{{stroke:#c0392b;opacity:.5}}\n"
             ".line{{stroke:#24292f;stroke-width:1.8;fill:none}} "
             ".contender{{stroke:#b8860b;stroke-dasharray:6 4;fill:none}}\n"
             "circle{{opacity:.75}} svg{{background:#fff}}\n"
             "@media (prefers-color-scheme:dark){{text{{fill:#e6edf3}} .line{{stroke:#e6edf3}} "
             "svg{{background:#0d1117}}}}\n"
             "</style>\n",
             width, height, xml_text(run_report.summary.run)) +
         grid(run_report, time, fitness, unit_of_time(longest), unit) + dots(run_report, time, fitness) +
         contender_lines(run_report, time, fitness) + best_line(run_report, time, fitness) +
         legend(run_report, fitness) + "</svg>\n";
}

}  // namespace cultivar

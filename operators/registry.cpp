#include "operators/registry.hpp"

#include <array>
#include <utility>

#include "operators/crossover_knobs.hpp"
#include "operators/tune.hpp"

namespace cultivar {

namespace {

using Maker = std::unique_ptr<Operator> (*)(std::uint64_t run_seed);

// A new operator is one line here.
constexpr std::array<std::pair<const char*, Maker>, 2> kOperators{{
    {"tune",
     [](std::uint64_t seed) -> std::unique_ptr<Operator> { return std::make_unique<TuneOperator>(seed); }},
    {"crossover_knobs",
     [](std::uint64_t) -> std::unique_ptr<Operator> { return std::make_unique<CrossoverKnobs>(); }},
}};

}  // namespace

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kOperators) names.emplace_back(name);
  return names;
}

std::unique_ptr<Operator> make_operator(const std::string& name, std::uint64_t run_seed) {
  for (const auto& [known, make] : kOperators)
    if (name == known) return make(run_seed);
  throw InputError("no operator is called '" + name + "'");
}

}  // namespace cultivar

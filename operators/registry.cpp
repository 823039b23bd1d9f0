#include "operators/registry.hpp"

#include <array>

#include "operators/agent.hpp"
#include "operators/critique_repair.hpp"
#include "operators/crossover.hpp"
#include "operators/crossover_knobs.hpp"
#include "operators/mutate.hpp"
#include "operators/tune.hpp"

namespace cultivar {

namespace {

struct Known {
  const char* name;
  bool asks;
  std::unique_ptr<Operator> (*make)(const OperatorOptions&);
};

template <class Made>
std::unique_ptr<Operator> plain(const OperatorOptions&) {
  return std::make_unique<Made>();
}

// A new operator is one line here.
constexpr std::array<Known, 6> kOperators{{
    {"tune", false,
     [](const OperatorOptions& o) -> std::unique_ptr<Operator> {
       return std::make_unique<TuneOperator>(o.run_seed);
     }},
    {"crossover_knobs", false, plain<CrossoverKnobs>},
    {"mutate", true, plain<Mutate>},
    {"crossover", true, plain<Crossover>},
    {"critique_repair", true,
     [](const OperatorOptions& o) -> std::unique_ptr<Operator> {
       return std::make_unique<CritiqueRepair>(o.repair_rounds);
     }},
    {"agent", true, plain<Agent>},
}};

}  // namespace

std::vector<std::string> operator_names() {
  std::vector<std::string> names;
  for (const Known& known : kOperators) names.emplace_back(known.name);
  return names;
}

bool asks_a_model(const std::string& name) {
  for (const Known& known : kOperators)
    if (name == known.name) return known.asks;
  return false;
}

std::unique_ptr<Operator> make_operator(const std::string& name, const OperatorOptions& options) {
  for (const Known& known : kOperators)
    if (name == known.name) return known.make(options);
  throw InputError("no operator is called '" + name + "'");
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// bench-search-strategies: compares the strategies of a population, and searches with and without a
// supervisor, on synthetic landscapes of kernels. Everything that decides is real: breeding with its
// operators, bandit, strategy and supervisor, and the gate. The language model, the compiler and the device
// are simulated; timing noise is that of bench-gate-rates for shared cores. Exit code 1 if a demand is
// missed.
//
//   bench-search-strategies [--seeds N=30] [--stagnation-seeds N=50] [--evaluations N=300]
//                           [--stagnation-evaluations N=500] [--threads N=2] [--first-seed N=1]
//                           [--islands YAML] [--map_elites YAML]
//
// A kernel has a genome of twelve structural choices, which only the simulated model changes, and the five
// knobs of the simulated softmax kernel, which `tune` and `crossover_knobs` change. The logarithm of its
// speed on a workload is a sum over the choices and the knobs:
// - additive: each right choice gives 8 %.
// - deceptive: four blocks of three choices. A block with 0, 1, 2, 3 of its choices made gives 18, 10, 2 and
//   35 %: each single step on the way to the best is a loss, as with kernels that need a new layout, a new
//   pipeline and a new schedule together.
// - chain: the choices have an order; each gives 8 % if all before it are made, else nothing.
// - rugged: each choice gives 0 to 16 %, drawn anew for each combination with its two neighbors (an NK
// landscape
//   with K = 2, Kauffman 1993).
// - locked: like additive with 5 %, but one more choice gives 25 % at once and makes all others worthless,
//   and no answer of the model takes it back. The search begins with a population whose elites all made it.
// An answer of the model changes one choice (directions `rewrite`: two of a block), and does not compile with
// a probability of 12 %. What the compiler reports depends on the choices made: registers on those of the
// first half, shared memory on those of the second.
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "engine/breeding/breeding.hpp"
#include "evaluators/statistics/quantiles.hpp"
#include "evaluators/statistics/sequential_test.hpp"
#include "gate_noise.hpp"
#include "support/simulated_evaluator.hpp"

namespace {

using namespace cultivar;
using namespace cultivar::testing;

constexpr int kGenes = 12, kWorkloads = 4;
enum class Landscape { additive, deceptive, chain, rugged, locked };

// The choices as '0' and '1' in the kernel's name, and last the one that locks the others.
using Genome = std::string;
const std::string kPrefix = "softmax_g";

Genome genome_of(const std::string& name) {
  return name.substr(name.find(kPrefix) + kPrefix.size());
}

// What a choice gives with its two neighbors.
double contribution(std::uint64_t seed, std::size_t gene, const Genome& genome) {
  const char around[] = {genome[gene], genome[(gene + 1) % kGenes], genome[(gene + 2) % kGenes], '\0'};
  RandomStream stream = stream_of(seed, fmt::format("rugged/{}/{}", gene, around), 0);
  return uniform(stream);
}

// The logarithm of the speed on a workload that the choices give. Blocks matter more on one workload.
double structure(Landscape landscape, std::uint64_t seed, const Genome& genome, int workload) {
  constexpr std::array trap{0.18, 0.10, 0.02, 0.35};
  const bool locked = genome.back() == '1';
  if (landscape == Landscape::locked && locked) return 0.25 + 0.10;
  double sum = 0.0;
  bool open = true;  // chain: all choices before are made
  for (int block = 0; block < 4; ++block) {
    const double weight = block == workload ? 1.3 : 0.9;
    const auto made = std::count(genome.begin() + 3 * block, genome.begin() + 3 * block + 3, '1');
    if (landscape == Landscape::chain || landscape == Landscape::rugged) {
      for (auto gene = static_cast<std::size_t>(3 * block), end = gene + 3; gene < end; ++gene) {
        open = open && genome[gene] == '1';
        sum += weight * (landscape == Landscape::rugged ? 0.16 * contribution(seed, gene, genome)
                         : open                         ? 0.08
                                                        : 0.0);
      }
      continue;
    }
    sum += weight * (landscape == Landscape::deceptive  ? trap.at(static_cast<std::size_t>(made))
                     : landscape == Landscape::additive ? 0.08 * static_cast<double>(made)
                                                        : 0.05 * static_cast<double>(made));
  }
  return sum;
}

double log_speed(Landscape landscape, std::uint64_t seed, const Variant& variant, int workload) {
  return structure(landscape, seed, genome_of(variant.manifest.name), workload) +
         std::log(true_fitness(variant));
}

double true_value(Landscape landscape, std::uint64_t seed, const Variant& variant) {
  double sum = 0.0;
  for (int w = 0; w < kWorkloads; ++w) sum += log_speed(landscape, seed, variant, w) / kWorkloads;
  return sum;
}

std::map<std::string, double> descriptors_of(const Genome& genome) {
  const auto ones = [&](int from) {
    return std::count(genome.begin() + from, genome.begin() + from + 6, '1');
  };
  return {{"registers", 24.0 * std::exp2(static_cast<double>(ones(0)) / 2)},
          {"shared_bytes", 1024.0 * std::exp2(static_cast<double>(ones(6)))}};
}

struct Setup {
  Landscape landscape = Landscape::additive;
  std::string population;  // YAML
  bool supervisor = true;
  int evaluations = 300;
  std::uint64_t seed = 1;
};

class Run {
 public:
  explicit Run(const Setup& setup)
      : setup_(setup),
        config_(configured(setup)),
        sources_(*config_.task, [this](const std::string& id) { return texts_.at(id); }),
        breeding_(config_, SimulatedEvaluator({}).devices()->front().facts, sources_),
        random_(1000 + setup.seed),
        ledger_(config_.gate_alpha) {
    noise_.start(random_);
  }

  // Returns the logarithm of the true speed of the last incumbent.
  double run() {
    if (setup_.landscape == Landscape::locked)
      plant();
    else
      add_seed(seed_genome());
    while (breeding_.judged() < setup_.evaluations + planted_) {
      while (const auto decision = breeding_.supervise())
        if (const auto* begun = std::get_if<Intervention>(&*decision)) {
          (void)breeding_.begin(*begun);
          ++interventions;
        } else {
          breeding_.end(std::get<InterventionResult>(*decision));
        }
      const auto offspring = breeding_.breed({.questions = true});
      if (!offspring) break;
      if (const auto* asking = std::get_if<Asking>(&*offspring))
        answer(asking->brief);
      else
        take(std::get<NewProposal>(*offspring).proposal, 0);
      compare();
    }
    return best();
  }
  double best() { return true_value(setup_.landscape, setup_.seed, *variant_of(breeding_.incumbent())); }
  bool unlocked() { return genome_of(variant_of(breeding_.incumbent())->manifest.name).back() == '0'; }

  int interventions = 0;

 private:
  static Config configured(const Setup& setup) {
    const ScratchFolder scratch;
    return softmax_config(
        scratch.path(),
        {"seed=" + std::to_string(setup.seed), "population=" + setup.population,
         "models={m: {provider: mailbox, folder: letters}}",
         "operators={tune: 1, crossover_knobs: 0.5, mutate: 3, crossover: 1}", "budget={evaluations: 100000}",
         fmt::format("supervisor={{active: {}}}", setup.supervisor)});
  }

  VariantPtr variant_of(IndividualId id) {
    const Member member = breeding_.archive().member(id);
    return sources_.recorded(member.source_id, member.configuration).value();
  }
  // One choice of each block is made: both ways are open.
  Genome seed_genome() {
    Genome genome(kGenes + 1, '0');
    if (setup_.landscape == Landscape::deceptive)
      for (std::size_t block = 0; block < 4; ++block) genome[3 * block + random_.below(3)] = '1';
    return genome;
  }

  IndividualId take(const Proposal& proposal, std::int64_t asking) {
    const ParsedVariant variant = sources_.variant(proposal.source, proposal.configuration);
    Individual individual;
    individual.id = breeding_.next_id();
    individual.variant_id = (*variant)->id;
    individual.source_id = (*variant)->source_id;
    individual.configuration = (*variant)->configuration;
    individual.descent = proposal.descent;
    texts_.try_emplace(individual.source_id, proposal.source);
    const auto twin = breeding_.twin_by_variant(individual.variant_id);
    breeding_.admit(individual, asking);
    (void)breeding_.judge(individual.id, evaluated(**variant, twin.value_or(0)));
    return individual.id;
  }

  Findings evaluated(const Variant& variant, IndividualId twin) {
    Findings findings;
    findings.device_s = 1.0;
    findings.duplicate_of = twin;
    if (twin != 0) findings.rejected_at = Stage::lint;
    const auto unroll = variant.configuration.find("UNROLL");
    if (unroll != variant.configuration.end() && std::get<std::int64_t>(unroll->second) == 16)
      findings.rejected_at = Stage::compile;
    if (broken_) findings.rejected_at = Stage::compile;
    broken_ = false;
    if (findings.rejected_at) return findings;
    findings.measured = true;
    double logs = 0.0;
    for (int w = 0; w < kWorkloads; ++w) {
      std::vector<double> times;
      const auto workload = static_cast<std::size_t>(w);
      for (int i = 0; i < 20; ++i)
        times.push_back(
            noise_.sample(workload, log_speed(setup_.landscape, setup_.seed, variant, w), random_));
      findings.workload_values.push_back(1.0 / median(times));
      logs += std::log(findings.workload_values.back()) / kWorkloads;
    }
    findings.fitness = std::exp(logs);
    findings.descriptors = descriptors_of(genome_of(variant.manifest.name));
    return findings;
  }

  void answer(const Brief& brief) {
    breeding_.ask(brief);
    const VariantPtr parent = variant_of(brief.parents.front());
    Genome genome = genome_of(parent->manifest.name);
    if (brief.parents.size() > 1) {
      const Genome other = genome_of(variant_of(brief.parents[1])->manifest.name);
      for (int block = 0; block < 4; ++block)
        if (random_.chance(0.5)) std::copy_n(other.begin() + 3 * block, 3, genome.begin() + 3 * block);
      if (random_.chance(0.5)) genome.back() = other.back();
    } else {
      const std::size_t block = random_.below(4), first = random_.below(3);
      const bool rewrite = brief.direction.starts_with("write the core loop anew");
      for (std::size_t i = 0; i < (rewrite ? 2U : 1U); ++i) {
        char& choice = genome[3 * block + (first + i) % 3];
        choice = choice == '1' ? '0' : '1';
      }
    }
    broken_ = random_.chance(0.12);
    Proposal proposal{softmax_source(kPrefix + genome), parent->configuration, {}};
    proposal.descent.parents = brief.parents;
    proposal.descent.op = brief.op;
    proposal.descent.model = brief.model;
    proposal.descent.island = brief.island;
    take(proposal, breeding_.next_asking() - 1);
  }

  IndividualId add_seed(const Genome& genome) {
    Proposal seed{softmax_source(kPrefix + genome), {}, {}};
    seed.descent.origin = Origin::seed;
    const IndividualId id = take(seed, 0);
    compare();
    return id;
  }

  // A line of three, of which the last made the locking choice, and forty elites that descend from it.
  void plant() {
    Genome genome(kGenes + 1, '0');
    IndividualId last = add_seed(genome);
    const auto add = [&](const Genome& g, IndividualId parent, int island) {
      Proposal proposal{softmax_source(kPrefix + g), variant_of(parent)->configuration, {}};
      proposal.descent.parents = {parent};
      proposal.descent.op = "mutate";
      proposal.descent.island = island;
      return take(proposal, 0);
    };
    for (const std::size_t gene : {std::size_t{0}, std::size_t{4}}) {
      genome[gene] = '1';
      last = add(genome, last, 0);
    }
    genome.back() = '1';
    last = add(genome, last, 0);
    const IndividualId locked = last;
    for (int i = 0; i < 40; ++i) {
      Genome other = genome;
      for (int gene = 0; gene < kGenes; ++gene)
        other[static_cast<std::size_t>(gene)] = random_.chance(0.5) ? '1' : '0';
      if (breeding_.twin_by_variant(sources_.variant(softmax_source(kPrefix + other)).value()->id)) continue;
      add(other, locked, i % 3);
    }
    compare();
    planted_ = static_cast<int>(breeding_.judged());
  }

  void compare() {
    while (const auto challenger = breeding_.challenger()) {
      if (breeding_.incumbent() == 0) {
        breeding_.promote(*challenger);
        continue;
      }
      const Verdict verdict = duel(*variant_of(*challenger), *variant_of(breeding_.incumbent()));
      const IndividualId id = *challenger;
      breeding_.compared(id, verdict);
      if (verdict == Verdict::better) breeding_.promote(id);
    }
  }

  Verdict duel(const Variant& challenger, const Variant& incumbent) {
    GateOptions options = config_.gate;
    options.alpha = ledger_.next();
    Gate gate({"a", "b", "c", "d"}, options, setup_.seed + ledger_.comparisons());
    while (!gate.done()) {
      std::vector<double> seconds;
      for (const Slot& slot : gate.next_order())
        seconds.push_back(
            noise_.sample(static_cast<std::size_t>(slot.workload),
                          log_speed(setup_.landscape, setup_.seed,
                                    slot.side == Side::challenger ? challenger : incumbent, slot.workload),
                          random_));
      gate.add(seconds);
    }
    return gate.verdict();
  }

  Setup setup_;
  Config config_;
  std::map<std::string, std::string> texts_;
  ParsedSources sources_;
  Breeding breeding_;
  bench::Random random_;
  bench::SharedCpuNoise noise_;
  AlphaLedger ledger_;
  bool broken_ = false;
  int planted_ = 0;
};

struct Options {
  int seeds = 30, stagnation_seeds = 50, evaluations = 300, stagnation_evaluations = 500, threads = 2;
  int first_seed = 1;
};

// Every seed with every setup, in parallel; results by setup and seed.
template <class Result>
std::vector<std::vector<Result>> all_of(const std::vector<Setup>& setups, int seeds, const Options& options,
                                        const std::function<Result(Run&)>& of) {
  std::vector<std::vector<Result>> results(setups.size(),
                                           std::vector<Result>(static_cast<std::size_t>(seeds)));
  std::atomic<int> next = 0;
  std::vector<std::thread> pool;
  for (int t = 0; t < options.threads; ++t)
    pool.emplace_back([&] {
      const int all = static_cast<int>(setups.size()) * seeds;
      for (int i = next++; i < all; i = next++) {
        Setup setup = setups[static_cast<std::size_t>(i / seeds)];
        setup.seed = static_cast<std::uint64_t>(options.first_seed + i % seeds);
        Run run(setup);
        results[static_cast<std::size_t>(i / seeds)][static_cast<std::size_t>(i % seeds)] = of(run);
      }
    });
  for (std::thread& thread : pool) thread.join();
  return results;
}

struct Named {
  const char* name;
  std::string population;
};
std::array strategies_tried{Named{"lineage", "{strategy: lineage}"}, Named{"islands", "{strategy: islands}"},
                            Named{"map_elites", "{strategy: map_elites, axes: [registers, shared_bytes]}"}};

double mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// The mean of the paired differences, and a bootstrap interval of 95 % over the seeds.
std::array<double, 3> difference(const std::vector<double>& a, const std::vector<double>& b) {
  bench::Random random(1);
  std::vector<double> paired, means;
  for (std::size_t i = 0; i < a.size(); ++i) paired.push_back(a[i] - b[i]);
  for (int draw = 0; draw < 2000; ++draw) {
    double sum = 0.0;
    for (std::size_t i = 0; i < paired.size(); ++i) sum += paired[random.below(paired.size())];
    means.push_back(sum / static_cast<double>(paired.size()));
  }
  std::ranges::sort(means);
  return {mean(paired), means[50], means[1949]};
}

bool strategies(const Options& options) {
  bool met = true;
  constexpr std::array landscapes{
      std::pair{Landscape::additive, "additive"}, std::pair{Landscape::deceptive, "deceptive"},
      std::pair{Landscape::chain, "chain"}, std::pair{Landscape::rugged, "rugged"}};
  for (const auto& [landscape, name] : landscapes) {
    const bool deceives = landscape == Landscape::deceptive;
    std::vector<Setup> setups;
    for (const Named& strategy : strategies_tried)
      setups.push_back({landscape, strategy.population, false, options.evaluations});
    const auto results = all_of<double>(setups, options.seeds, options, [](Run& run) { return run.run(); });
    fmt::print("\n{}: {} evaluations, {} seeds; true speed of the best, relative to the mean of lineage\n",
               name, options.evaluations, options.seeds);
    for (std::size_t s = 0; s < strategies_tried.size(); ++s) {
      const auto [middle, low, high] = difference(results[s], results[0]);
      const bool enough = s == 0 || (deceives ? low > 0.0 : middle > std::log(0.9));
      met = met && enough;
      std::vector<double> sorted = results[s];
      std::ranges::sort(sorted);
      const double base = mean(results[0]);
      fmt::print(
          "  {:<11} {:.3f} (worst {:.3f}, best {:.3f}); paired with lineage {:.3f} [{:.3f}, {:.3f}]{}\n",
          strategies_tried.at(s).name, std::exp(mean(results[s]) - base), std::exp(sorted.front() - base),
          std::exp(sorted.back() - base), std::exp(middle), std::exp(low), std::exp(high),
          s == 0     ? ""
          : deceives ? (enough ? "  > 1: met" : "  > 1: MISSED")
                     : (enough ? "  > 0.9: met" : "  > 0.9: MISSED"));
      std::fflush(stdout);
    }
  }
  return met;
}

bool stagnation(const Options& options) {
  bool met = true;
  fmt::print("\nplanted stagnation: {} evaluations, {} seeds; searches whose best left it\n",
             options.stagnation_evaluations, options.stagnation_seeds);
  for (const Named& strategy : strategies_tried) {
    std::vector<Setup> setups;
    for (const bool supervisor : {false, true})
      setups.push_back({Landscape::locked, strategy.population, supervisor, options.stagnation_evaluations});
    const auto results = all_of<double>(setups, options.stagnation_seeds, options, [](Run& run) {
      (void)run.run();
      return run.unlocked() ? 1.0 : 0.0;
    });
    const double without = mean(results[0]), with = mean(results[1]);
    const bool demanded = std::string_view(strategy.name) == "islands";
    const bool enough = with >= 0.9 && without <= 0.4;
    met = met && (enough || !demanded);
    fmt::print("  {:<11} without supervisor {:3.0f} %, with {:3.0f} %{}\n", strategy.name, 100 * without,
               100 * with, demanded ? (enough ? "  <= 40 and >= 90: met" : "  <= 40 and >= 90: MISSED") : "");
    std::fflush(stdout);
  }
  return met;
}

}  // namespace

int main(int argc, char** argv) try {
  Options options;
  const std::map<std::string, int*> numbers{{"--seeds", &options.seeds},
                                            {"--stagnation-seeds", &options.stagnation_seeds},
                                            {"--evaluations", &options.evaluations},
                                            {"--stagnation-evaluations", &options.stagnation_evaluations},
                                            {"--threads", &options.threads},
                                            {"--first-seed", &options.first_seed}};
  for (int i = 1; i < argc; i += 2) {
    const auto strategy = std::ranges::find_if(
        strategies_tried, [&](const Named& named) { return "--" + std::string(named.name) == argv[i]; });
    if (strategy != strategies_tried.end() && i + 1 < argc) {
      strategy->population = argv[i + 1];
      continue;
    }
    const auto found = numbers.find(argv[i]);
    if (found == numbers.end() || i + 1 == argc)
      throw std::runtime_error(
          fmt::format("{}: not an option with a number; see the top of the source", argv[i]));
    *found->second = std::stoi(argv[i + 1]);
  }
  const bool first = options.seeds == 0 || strategies(options);
  const bool second = options.stagnation_seeds == 0 || stagnation(options);
  return first && second ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

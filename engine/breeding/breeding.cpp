// SPDX-License-Identifier: Apache-2.0
#include "engine/breeding/breeding.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>

#include "engine/breeding/steering.hpp"
#include "evaluators/system/hash.hpp"
#include "operators/registry.hpp"
#include "population/individual.hpp"

namespace cultivar {

Breeding::Breeding(const Config& config, Facts facts, ParsedSources& sources)
    : config_(config),
      sources_(sources),
      source_of_([&sources](const std::string& id) { return sources.text(id); }),
      workloads_(sources.task().workloads(config.workloads)->workloads),
      facts_(std::move(facts)),
      strategy_(make_strategy(config.population)),
      portfolio_(make_portfolio()),
      bandit_(
          [this] {
            std::vector<double> priors;
            for (const Portfolio::Arm& arm : portfolio_.arms()) priors.push_back(arm.weight);
            return priors;
          }(),
          config.portfolio),
      supervisor_(config.supervisor, [this] {
        std::vector<std::string> names;
        for (const Portfolio::Arm& arm : portfolio_.arms())
          names.push_back(arm.op->name() + (arm.model.empty() ? "" : " with " + arm.model));
        return names;
      }()) {}

Portfolio Breeding::make_portfolio() const {
  std::vector<Portfolio::Share> shares;
  for (const OperatorShare& share : config_.operators)
    shares.push_back({make_operator(share.name, {config_.seed, config_.asking.rounds, config_.rules >= 4,
                                                 config_.rules >= 9}),
                      share.weight, share.models});
  return Portfolio(std::move(shares));
}

std::optional<Offspring> Breeding::breed(const AskingLimits& room) {
  const int first_island = stage_ >= 0 ? stage_ : strategy_->turn(bred_);
  const std::string stream_name = fmt::format("proposal/island-{}", first_island);
  RandomStream stream = stream_of(config_.seed, stream_name, static_cast<std::uint64_t>(next_id() + asked_));
  const auto open = [&](const Portfolio::Arm& arm) {
    if (arm.model.empty()) return room.proposals;
    return room.questions && !room.closed.contains(arm.model) &&
           !room.closed_operators.contains(arm.op->name());
  };
  const std::optional<Intervention>& intervention = supervisor_.current();
  const std::vector<double> shares = steered(bandit_.shares(), portfolio_.arms(), intervention);
  const bool must_plan =
      intervention && intervention->answer == Answer::plan && planned_under_ != intervention->number;
  // A new line begins with the settings of the best: those of an ancestor are from before they were tuned.
  const bool must_inherit =
      intervention && intervention->answer == Answer::ancestor && inherited_under_ != intervention->number;
  // A proposal whose variant is known is not made again. The number of tries is a bound: an operator that
  // draws at random may have new proposals left even if all tries drew known ones.
  constexpr int kTries = 12;
  // Sources from which nothing new came: a later try begins with another parent. Selection prefers a few.
  std::set<std::string> fruitless, avoid;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const int island = (first_island + attempt / 4) % strategy_->islands();
    bool any = false;
    auto order = portfolio_.order(stream, open, shares);
    if (must_plan)
      std::stable_partition(order.begin(), order.end(),
                            [](const Portfolio::Arm* arm) { return arm->op->plans(); });
    if (must_inherit)
      std::stable_partition(order.begin(), order.end(),
                            [](const Portfolio::Arm* arm) { return arm->op->partner() == Partner::tuning; });
    for (const Portfolio::Arm* arm : order) {
      Operator* op = arm->op;
      OperatorContext context{sources_.task(),
                              workloads_,
                              facts_,
                              archive_,
                              source_of_,
                              island,
                              parents_for(*op, island, avoid, stream),
                              config_.target};
      context.must_plan = must_plan;
      context.all_settings = must_inherit;
      context.kin_apart = config_.rules >= 2;
      context.apt_directions = config_.rules >= 5;
      context.mutual_gain = config_.rules >= 6;
      context.limited_by_bytes = config_.rules >= 7;
      context.frugal = config_.rules >= 9;
      if (intervention && intervention->answer == Answer::direction)
        context.avoid_directions = lately_.directions();
      if (config_.rules >= 2 && !context.parents.empty())
        fruitless.insert(archive_.source_id(context.parents.front()));
      if (AskingOperator* const asking = op->asking()) {
        const bool chooses = chooses_subjects() && operator_named(op->name()).writes;
        if (chooses && !context.parents.empty())
          if (const IndividualId faster = left_behind_by(best_setting(archive_, context.parents.front())))
            context.parents.front() = faster;
        auto brief = asking->plan(context, stream);
        // The incumbent descends from the kernel that a planner saw and is much faster: what was planned is
        // out of date.
        if (brief && chooses && config_.rules >= 4 && incumbent_ != 0 &&
            faster_descendant(brief->parents.front(), {incumbent_}, archive_) != 0 &&
            asking->drop_directions(brief->direction))
          brief = asking->plan(context, stream);
        if (!brief) continue;
        // While a comparison keeps the device, no offspring is judged, and waiting for one would leave the
        // models idle for minutes.
        const IndividualId subject = brief->parents.front();
        const bool kept = config_.rules >= 10 && !room.proposals;
        if (chooses && (kept ? left_behind_by(subject) != 0 : waits_for_offspring(subject))) continue;
        brief->op = op->name();
        brief->model = arm->model;
        return Asking{std::move(*brief), stream_name};
      }
      auto proposal = op->propose(context, stream);
      if (!proposal) continue;
      any = true;
      ParsedVariant variant = sources_.variant(proposal->source, proposal->configuration);
      if (variant && novelty_.with_variant((*variant)->id)) continue;
      return NewProposal{std::move(*proposal), std::move(variant), stream_name};
    }
    const int tried = config_.rules >= 2 ? (attempt + 1) / 4 : attempt / 4 + 1;  // islands
    if (!any && tried >= strategy_->islands()) break;
    avoid = fruitless;  // not before: an operator with nothing to do now says nothing about the others
  }
  return std::nullopt;
}

std::vector<IndividualId> Breeding::parents_for(const Operator& op, int island,
                                                const std::set<std::string>& avoid,
                                                RandomStream& stream) const {
  const std::optional<Intervention>& intervention = supervisor_.current();
  ParentsWanted wanted{op.parents_wanted(), op.partner(), avoid};
  if (!intervention || wanted.count == 0) return strategy_->parents(island, wanted, archive_, stream);
  if (intervention->answer == Answer::parent || intervention->answer == Answer::tuning)
    wanted.avoid.merge(lately_.sources());
  std::vector<IndividualId> parents = strategy_->parents(island, wanted, archive_, stream);
  if (!branch_.empty()) {
    // Mostly the fittest of the new line, which is a line only as long as it continues its best.
    constexpr double kAny = 0.25;
    IndividualId first = branch_[below(stream, branch_.size())];
    if (uniform(stream) >= kAny)
      first = *std::ranges::max_element(
          branch_, {}, [&](IndividualId id) { return std::pair(archive_.fitness(id), -id); });
    std::erase(parents, first);
    // A partner from outside would bring back what the line was begun to leave.
    if (config_.rules >= 4 && wanted.partner == Partner::complement) {
      const ParentsOf parents_of = [this](IndividualId id) { return archive_.parents(id); };
      parents = branch_;
      std::erase_if(parents, [&](IndividualId id) {
        return archive_.source_id(id) == archive_.source_id(first) || in_one_line(id, first, parents_of);
      });
      if (parents.empty()) return {};
      parents = {parents[below(stream, parents.size())]};
    }
    parents.insert(parents.begin(), first);
  }
  if (intervention->answer == Answer::ancestor && wanted.partner == Partner::tuning && !parents.empty() &&
      parents.front() != incumbent_)
    parents = {parents.front(), incumbent_};
  if (parents.size() > static_cast<std::size_t>(wanted.count))
    parents.resize(static_cast<std::size_t>(wanted.count));
  return parents;
}

bool Breeding::chooses_subjects() const {
  const std::optional<Intervention>& intervention = supervisor_.current();
  if (config_.rules < 3) return false;
  return !intervention || (intervention->answer != Answer::parent &&
                           intervention->answer != Answer::ancestor && intervention->answer != Answer::reset);
}

IndividualId Breeding::left_behind_by(IndividualId id) const {
  if (incumbent_ != 0 && faster_descendant(id, {incumbent_}, archive_) != 0) return 0;
  std::set<IndividualId> candidates;
  for (const Rank& rank : waiting_) candidates.insert(id_of(rank));
  if (winner_ != 0) candidates.insert(winner_);
  return faster_descendant(id, candidates, archive_);
}

bool Breeding::waits_for_offspring(IndividualId subject) const {
  if (archive_.state(subject) != Member::State::measured) return false;  // a repair
  if (left_behind_by(subject) != 0) return true;
  constexpr double kFar = 0.25;  // share of the roofline
  if (roofline_ > 0.0 && archive_.fitness(subject) >= kFar * roofline_) return false;
  return first_offspring_due(subject, archive_);
}

std::optional<Supervision> Breeding::supervise() const {
  if (const auto result = supervisor_.over()) return *result;
  if (!supervisor_.stagnates()) return std::nullopt;
  const auto ancestors = older_ancestors(incumbent_, archive_);
  auto intervention = supervisor_.due(
      possible_answers(portfolio_.arms(), *strategy_, config_.population.strategy, ancestors));
  if (!intervention) return std::nullopt;
  if (intervention->answer == Answer::ancestor)
    intervention->ancestor =
        ancestors[static_cast<std::size_t>(supervisor_.given(Answer::ancestor)) % ancestors.size()];
  return *intervention;
}

std::vector<Migration> Breeding::begin(const Intervention& intervention) {
  supervisor_.begin(intervention);
  std::vector<Migration> moves;
  if (intervention.answer == Answer::reset) moves = strategy_->reset(archive_);
  if (intervention.answer == Answer::ancestor) {
    moves = strategy_->reset(archive_, intervention.ancestor);
    if (moves.empty()) branch_ = {intervention.ancestor};
  }
  if (!moves.empty()) stage_ = moves.front().to;
  return moves;
}

void Breeding::end(const InterventionResult&) {
  supervisor_.end();
  stage_ = -1;
  branch_.clear();
}

double Breeding::gain_over_parent(IndividualId id) const {
  // The noise of two measurements of their own; duels, which measure pairs, decide about less.
  constexpr double kNoise = 0.02;
  auto parents = archive_.parents(id);
  while (!parents.empty() && archive_.state(parents.front()) != Member::State::measured)
    parents = archive_.parents(parents.front());
  if (parents.empty() || !(archive_.fitness(parents.front()) > 0.0)) return 0.0;
  const double gain = archive_.fitness(id) / archive_.fitness(parents.front()) - 1.0;
  return gain > std::max(kNoise, config_.gate.min_gain) ? gain : 0.0;
}

bool Breeding::deserves_a_duel(IndividualId id) const {
  if (incumbent_ == 0) return true;
  // Fitness is one noisy measurement, perhaps from another day on a cooler card; only the gate decides. A
  // threshold of half its minimum gain saves device time on most individuals that cannot win. Submissions get
  // a lower threshold because a person wrote them.
  const double least = submitted(id) ? 0.95 : 1.0 + 0.5 * config_.gate.min_gain;
  return archive_.fitness(id) > archive_.fitness(incumbent_) * least;
}

bool Breeding::submitted(IndividualId id) const {
  return archive_.origin(id) == Origin::submission;
}

std::optional<IndividualId> Breeding::challenger() const {
  const std::set<Rank>& next = waiting_.empty() ? open_duels_ : waiting_;
  if (!seeds_judged() || next.empty()) return std::nullopt;
  return id_of(*next.rbegin());
}

Breeding::Rank Breeding::rank_of(IndividualId id) const {
  const double off = config_.rules >= 10 ? error_of(id) : 0.0;
  return {submitted(id), archive_.fitness(id) * std::exp(-off), -id};
}

double Breeding::error_of(IndividualId id) const {
  if (const DuelResult* const duel = archive_.duel(id); duel && std::isfinite(duel->all.lower))
    return duel->all.log_ratio - duel->all.lower;
  const auto spread = spreads_.find(id);
  return spread == spreads_.end() ? 0.0 : static_cast<double>(spread->second);
}

IndividualId Breeding::overtakes(IndividualId challenger) const {
  if (waiting_.empty() || incumbent_ == 0) return 0;
  // Between two measurements a machine may change more than during one.
  const double least = archive_.error_of_measurements().value_or(0.0);
  const auto log_of = [&](IndividualId id, double errors) {
    const double fitness = archive_.fitness(id);
    return fitness > 0.0 ? std::log(fitness) + errors * std::max(least, error_of(id)) : -HUGE_VAL;
  };
  const double both = std::max(log_of(challenger, 1.0), log_of(incumbent_, 1.0));
  const IndividualId first = id_of(*waiting_.rbegin());
  return first != challenger && log_of(first, -1.0) > both ? first : 0;
}

void Breeding::no_challenger(IndividualId id) {
  waiting_.erase(rank_of(id));
  open_duels_.erase(rank_of(id));
}

std::optional<IndividualId> Breeding::twin_by_variant(const std::string& variant_id) const {
  return novelty_.with_variant(variant_id);
}

std::optional<IndividualId> Breeding::twin_by_machine_code(const std::string& hash) const {
  for (const auto& [id, claimed] : claims_)
    if (claimed == hash) return id;
  return novelty_.with_machine_code(hash);
}

void Breeding::ask(const Brief& brief) {
  open_.emplace(++asked_, brief);
  briefs_.push_back(brief);
  ++bred_;
  lessons_.push_back(static_cast<std::int32_t>(-asked_));
  portfolio_.asked(brief, archive_);
  const std::optional<Intervention>& intervention = supervisor_.current();
  if (intervention) asked_under_[asked_] = intervention->number;
  const std::size_t arm = portfolio_.arm_of(brief.op, brief.model);
  if (intervention && arm < arms().size() && arms()[arm].op->plans()) planned_under_ = intervention->number;
  const OperatorRow* const row = find_operator(brief.op);
  if (row == nullptr || !row->writes || brief.parents.empty()) return;
  const std::string& source = archive_.source_id(brief.parents.front());
  lately_.used(source, brief.direction);
  // An agent has ideas of its own; its direction does not name them.
  const std::string idea = fmt::format("{}\n{}\n{}\n{}", brief.op, source, brief.direction, brief.round);
  const bool again = !known_briefs_.insert(name_hash(idea)).second;
  if (!row->uses_tools()) supervisor_.asked(again);
}

void Breeding::give_up(std::int64_t asking, double usd, double device_s) {
  const Brief& brief = open_.at(asking);
  bandit_.tried(portfolio_.arm_of(brief.op, brief.model), usd, device_s);
  supervisor_.spent(usd, device_s);
  open_.erase(asking);
  asked_under_.erase(asking);
}

void Breeding::direct(std::int64_t asking, const Directions& given) {
  const Brief& brief = open_.at(asking);
  if (operator_named(brief.op).informs) {
    insights_ = given;
  } else {
    const IndividualId subject = brief.parents.front();
    directed_.push_back({lessons_.size(), subject, given});
    portfolio_.directed(subject, given);
  }
  open_.erase(asking);
  asked_under_.erase(asking);
}

void Breeding::admit(const Individual& individual, std::int64_t asking, double device_s) {
  archive_.add(individual);
  novelty_.add_variant(individual.variant_id, individual.id);
  const std::string model = asking != 0 ? open_.at(asking).model : std::string();
  trials_.push_back({static_cast<std::uint32_t>(portfolio_.arm_of(individual.descent.op, model))});
  if (individual.descent.usd != 0.0 || device_s != 0.0)
    expenses_[individual.id] = {static_cast<float>(individual.descent.usd), static_cast<float>(device_s)};
  const std::optional<Intervention>& intervention = supervisor_.current();
  if (asking != 0) {  // ask() has counted it in bred_
    if (const auto under = asked_under_.find(asking); under != asked_under_.end())
      trials_.back().under = static_cast<std::uint32_t>(under->second);
    open_.erase(asking);
    asked_under_.erase(asking);
    return;
  }
  if (individual.descent.origin == Origin::seed)
    ++seeds_in_flight_;
  else if (individual.descent.origin == Origin::operator_) {
    ++bred_;
    if (intervention) trials_.back().under = static_cast<std::uint32_t>(intervention->number);
    if (const std::size_t arm = trials_.back().arm;
        intervention && arm < arms().size() && arms()[arm].op->partner() == Partner::tuning)
      inherited_under_ = intervention->number;
    if (!individual.descent.parents.empty())
      lately_.used(archive_.source_id(individual.descent.parents.front()), "");
  }
}

void Breeding::claim_machine_code(IndividualId id, const std::string& hash) {
  if (!hash.empty() && !twin_by_machine_code(hash)) claims_.emplace(id, hash);
}

std::vector<Migration> Breeding::judge(IndividualId id, Findings findings) {
  findings.fitness /= pace_;
  archive_.judge(id, findings.measured, findings.fitness, findings.duplicate_of);
  if (const auto claim = claims_.extract(id)) novelty_.add_machine_code(claim.mapped(), id);
  if (archive_.origin(id) == Origin::seed) --seeds_in_flight_;
  if (findings.measured) {
    ++measured_;
    strategy_->settle(id, findings, archive_);
    if (deserves_a_duel(id)) {
      spreads_[id] = static_cast<float>(findings.spread);
      waiting_.insert(rank_of(id));
    }
  }
  ++judged_;
  lessons_.push_back(static_cast<std::int32_t>(id));
  const Trial& trial = trials_.at(static_cast<std::size_t>(id - 1));
  const auto spent = expenses_.find(id);
  const Expense expense = spent == expenses_.end() ? Expense{} : spent->second;
  bandit_.tried(trial.arm, expense.usd, findings.device_s + static_cast<double>(expense.device_s));
  if (findings.measured && !branch_.empty() && trial.under == supervisor_.current()->number)
    branch_.push_back(id);
  const double gain = findings.measured ? gain_over_parent(id) : 0.0;
  if (config_.rules >= 2 && gain > 0.0) {
    // A gain far below the best is worth little: at half of its fitness, a sixteenth.
    const double best = incumbent_ == 0 ? findings.fitness : archive_.fitness(incumbent_);
    const double beside = best > 0.0 ? std::min(1.0, findings.fitness / best) : 1.0;
    bandit_.gained(trial.arm, std::log1p(gain) * std::pow(beside, 4));
  }
  supervisor_.judged(findings, {trial.arm, gain, static_cast<double>(expense.usd), trial.under});
  portfolio_.observe(id, archive_);
  return strategy_->judged();
}

void Breeding::compared(IndividualId challenger, Verdict verdict, bool may_go_on,
                        std::optional<DuelResult> result) {
  no_challenger(challenger);  // before its fitness changes
  if (result && incumbent_ != 0) {
    const double fitness = archive_.fitness(incumbent_) * std::exp(result->all.log_ratio);
    result->incumbent = incumbent_;
    archive_.settle(challenger, fitness, *std::move(result));
    strategy_->revalue(challenger, fitness);
  }
  if (verdict == Verdict::better) winner_ = challenger;
  if (verdict != Verdict::undecided) {
    undecided_.erase(challenger);
    return;
  }
  const int parts = ++undecided_[challenger];
  if (may_go_on && parts < kMostParts) open_duels_.insert(rank_of(challenger));
}

void Breeding::change(const GateOptions& gate) {
  config_.gate = gate;
  for (const auto& [id, parts] : undecided_)
    if (id != winner_) waiting_.insert(rank_of(id));
  undecided_.clear();
  open_duels_.clear();
}

void Breeding::promote(IndividualId id) {
  if (incumbent_ != 0 && archive_.fitness(incumbent_) > 0 && archive_.fitness(id) > 0)
    bandit_.gained(trials_.at(static_cast<std::size_t>(id - 1)).arm,
                   std::log(archive_.fitness(id) / archive_.fitness(incumbent_)));
  incumbent_ = id;
  winner_ = 0;
  strategy_->promoted(id);
  supervisor_.promoted(roofline_ > 0.0 ? archive_.fitness(id) / roofline_ : 0.0,
                       trials_.at(static_cast<std::size_t>(id - 1)).under);
  undecided_.clear();
  open_duels_.clear();
  if (control_ == 0) control_ = id;
  std::erase_if(waiting_,
                [&](const Rank& other) { return id_of(other) == id || !deserves_a_duel(id_of(other)); });
}

void Breeding::expel(IndividualId id) {
  no_challenger(id);  // before its fitness changes
  if (archive_.state(id) == Member::State::measured) --measured_;
  archive_.expel(id);
  strategy_->expel(id);
  std::erase(branch_, id);
  undecided_.erase(id);
  if (winner_ == id) winner_ = 0;
}

void Breeding::rebuild_operators() {
  portfolio_ = make_portfolio();
  auto next = directed_.begin();
  for (std::size_t i = 0; i <= lessons_.size(); ++i) {
    for (; next != directed_.end() && next->after == i; ++next)
      portfolio_.directed(next->subject, next->given);
    if (i == lessons_.size()) break;
    const std::int32_t lesson = lessons_[i];
    if (lesson > 0)
      portfolio_.observe(lesson, archive_);
    else
      portfolio_.asked(briefs_.at(static_cast<std::size_t>(-lesson - 1)), archive_);
  }
}

namespace {

// Records contain hashes of this text, so its format must not change: these keys always, others only if the
// launch has them.
std::string launch_identity(const LaunchNumbers& launch) {
  std::string text = fmt::format(":{}:{}:{}:{}:{}:{}:{}", launch.number("threads", 1),
                                 fmt::join(launch.three("grid"), ","), fmt::join(launch.three("block"), ","),
                                 fmt::join(launch.three("cluster"), ","), launch.number("shared", 0),
                                 launch.flag("cooperative"), launch.flag("programmatic_dependent"));
  constexpr std::array always{
      "threads", "grid", "block", "cluster", "shared", "cooperative", "programmatic_dependent"};
  for (const auto& [key, values] : launch.all())
    if (std::ranges::find(always, key) == always.end())
      text += fmt::format(":{}={}", key, fmt::join(values, ","));
  return text;
}

}  // namespace

std::string kernel_hash(const std::vector<std::string>& machine_code, const Variant& variant,
                        const Task& task, const std::vector<Workload>& workloads, const Facts& facts) {
  std::string all;
  for (const std::string& code : machine_code) all += code + '\n';
  for (const Workload& workload : workloads) {
    const auto plan = make_plan(variant, task, workload, facts);
    if (!plan) continue;
    all += workload.name;
    for (const PlannedBuffer& b : plan->buffers) all += fmt::format(" {}:{}:{}", b.name, b.bytes, b.zero);
    for (const PlannedTensorMap& m : plan->tensor_maps)
      all += fmt::format(" {}:{}:{}:{}:{}:{}:{}:{}", m.buffer, fmt::join(m.sizes, ","),
                         fmt::join(m.stride_bytes, ","), fmt::join(m.box, ","), m.swizzle, m.interleave,
                         m.l2_promotion, m.out_of_bounds);
    for (const PlannedKernel& k : plan->kernels) {
      all += " " + k.kernel + launch_identity(k.launch);
      for (const PlannedArgument& a : k.args)
        all += fmt::format(" {}/{}/{}", static_cast<int>(a.kind), a.index, a.value);
    }
    all += '\n';
  }
  return sha256_hex(all);
}

}  // namespace cultivar

// What goes out from the steward: seeds, submissions, proposals, comparisons; and when to stop.
#include <fmt/format.h>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/search_loop.hpp"
#include "engine/store/checkpoint.hpp"
#include "engine/submissions.hpp"

namespace cultivar {

namespace fs = std::filesystem;

void SearchLoop::propose_seeds() {
  std::vector<std::pair<Individual, std::string>> seeds;
  for (const fs::path& file : config_.seeds) {
    const Variant variant = load_variant(file, breeding_.task());
    Individual seed;
    seed.id = breeding_.next_id();
    seed.variant_id = variant.id;
    seed.source_id = variant.source_id;
    seed.configuration = variant.configuration;
    seed.descent.op = "seed";
    seed.descent.note = file.filename().string();
    breeding_.admit(seed);
    owed_.push_back(seed.id);
    seeds.emplace_back(std::move(seed), variant.source);
  }
  record([&](Step& step) {
    for (const auto& [seed, source] : seeds) step.propose(seed, source, "");
  });
}

void SearchLoop::advance() {
  if (phase_ == Phase::leaving) return;
  start_pacing();
  if (unpaced_ && pacing_) return;  // what is measured now would be compared with another day
  start_comparison();
  start_profile();
  if (phase_ != Phase::running || outcome_) return;
  const int depth = config_.evaluation.depth;
  while (evaluating_ < depth && !owed_.empty()) {
    const IndividualId id = owed_.front();
    owed_.pop_front();
    reevaluate(id);
  }
  // Proposals cost milliseconds to tens of them (a surrogate is fitted), which a measurement beside them
  // would feel.
  while (evaluating_ < depth && owed_.empty() && breeding_.ready() && budget_allows_another() &&
         cap_spent_.empty() && !exhausted_) {
    if (!pipeline_->begin_thinking()) return;  // asked again at the next result or tick
    const auto end = std::shared_ptr<void>(nullptr, [this](void*) { pipeline_->end_thinking(); });
    if (!breed_one()) exhausted_ = true;
  }
}

bool SearchLoop::budget_allows_another() const {
  if (config_.budget.evaluations == 0) return true;
  const auto asked = static_cast<std::int64_t>(breeding_.open_askings().size());
  return breeding_.archive().size() + asked < config_.budget.evaluations;
}

std::optional<Variant> SearchLoop::variant_of(IndividualId id) const {
  const Member member = breeding_.archive().member(id);
  auto variant =
      make_variant(journal_.record().source_named(member.source_id), breeding_.task(), member.configuration);
  if (!variant) return std::nullopt;
  return std::move(*variant);
}

// Recorded before, to be evaluated now: a seed, a submission, or what was in flight when the process went.
void SearchLoop::reevaluate(IndividualId id) {
  const auto row = journal_.record().individual(id);
  auto variant = make_variant(journal_.record().source(id), breeding_.task(), row->individual.configuration);
  if (!variant) {
    const std::string reason = variant.error().text();
    return judge(id, rejection(Stage::lint, reason, reason), "", 0);
  }
  if (const auto twin = breeding_.twin_by_variant(variant->id); twin && *twin != id)
    return judge(id,
                 rejection(Stage::lint, fmt::format("the same source and values as individual {}", *twin),
                           "It was proposed before."),
                 "", *twin);
  dispatch(id, *variant);
}

std::optional<Evaluation> SearchLoop::lint(const Variant& variant) const {
  if (const auto fits = check_target(variant, config_.target); !fits)
    return rejection(Stage::lint, fits.error().message, fits.error().text());
  for (const Workload& workload : breeding_.workloads()) {
    if (!claims(variant, breeding_.task(), workload)) {
      const std::string why = fmt::format("does not claim workload {}", workload.name);
      return rejection(
          Stage::lint, why,
          why + ": its `requires` is " +
              (variant.manifest.requires_ ? "\"" + variant.manifest.requires_->text() + "\"" : "empty") +
              ", and a search needs variants that run all of its workloads");
    }
    if (auto holds = check_constraints(variant, breeding_.task(), workload, breeding_.facts()); !holds)
      return rejection(Stage::lint, holds.error().message, holds.error().message);
    if (auto plan = make_plan(variant, breeding_.task(), workload, breeding_.facts()); !plan)
      return rejection(Stage::lint, plan.error().message, plan.error().message);
  }
  return std::nullopt;
}

void SearchLoop::dispatch(IndividualId id, const Variant& variant) {
  if (const auto rejected = lint(variant)) return judge(id, *rejected, "", 0);
  auto job = std::make_shared<Job>();
  job->id = id;
  job->variants = {variant};
  job->workloads = breeding_.workloads();
  ops_[id] = breeding_.archive().member(id).op;
  ++evaluating_;
  pipeline_->compile(std::move(job));
}

bool SearchLoop::breed_one() {
  const Room room = this->room();
  auto offspring = breeding_.breed(room);
  if (!offspring) return false;
  if (const Asking* asking = std::get_if<Asking>(&*offspring)) {
    ask(*asking, room);
    return true;
  }
  const Bred& bred = std::get<Bred>(*offspring);
  Individual child;
  introduce(child, bred.proposal, bred.variant);
  breeding_.admit(child);
  record([&](Step& step) {
    step.propose(child, bred.proposal.source, bred.stream, correspondence_ ? room_body(room) : "");
  });
  if (bred.variant) {
    dispatch(child.id, *bred.variant);
  } else {
    const std::string reason = bred.variant.error().text();
    judge(child.id, rejection(Stage::lint, reason, reason), "", 0);
  }
  return true;
}

void SearchLoop::introduce(Individual& child, const Proposal& proposal,
                           const tl::expected<Variant, ManifestError>& variant) const {
  child.id = breeding_.next_id();
  child.descent = proposal.descent;
  child.configuration = variant ? variant->configuration : proposal.configuration;
  child.variant_id = variant ? variant->id : sha256_hex(proposal.source);
  child.source_id = variant ? variant->source_id : sha256_hex(normalised(proposal.source));
}

JobPtr SearchLoop::comparison_job(Job::Kind kind, IndividualId id) const {
  auto job = std::make_shared<Job>();
  job->kind = kind;
  job->id = id;
  job->workloads = breeding_.workloads();
  job->variants.push_back(variant_of(id).value());
  // What could not be confirmed needs no duel; but where compilers and timing share the cores, compiling for
  // all that a confirmation checks costs more than the duels of the few that it refuses.
  if (kind == Job::Kind::confirm || !evaluator_.timing_needs_quiet()) {
    job->breadth = Breadth::everything;
    job->workloads.insert(job->workloads.end(), holdout_.begin(), holdout_.end());
  }
  if (kind == Job::Kind::duel) {
    job->variants.push_back(variant_of(breeding_.incumbent()).value());
    job->variants.push_back(variant_of(breeding_.control()).value());
  } else {
    job->variants.insert(job->variants.end(), contenders_.begin(), contenders_.end());
  }
  return job;
}

void SearchLoop::start_comparison() {
  if (comparing_) return;
  if (troubles_ > 0 && (evaluating_ > 0 || !owed_.empty()))
    return;  // after trouble, an evaluation goes first
  JobPtr job;
  if (breeding_.winner() != 0) {
    job = comparison_job(Job::Kind::confirm, breeding_.winner());
  } else if (const auto challenger = breeding_.challenger()) {
    // Nothing is replaced by the first incumbent, so it needs no duel; that it is right must be confirmed all
    // the same.
    job = comparison_job(breeding_.incumbent() ? Job::Kind::duel : Job::Kind::confirm, *challenger);
  } else {
    return;
  }
  record([&](Step& step) { step.challenge(job->id); });
  comparing_ = true;
  pipeline_->compile(std::move(job));
}

// Another day, another card, a warmer room: the incumbent is measured once more, when a search goes on and
// from time to time, and what is measured beside it is compared with that.
void SearchLoop::start_pacing() {
  if (pacing_ || phase_ != Phase::running || outcome_ || elapsed() < pace_due_ || breeding_.incumbent() == 0)
    return;
  if (owed_.empty() && !budget_allows_another()) return;  // nobody will be measured beside it
  pace_due_ = elapsed() + pace_gap_s_;
  if (!doubted_) pace_gap_s_ = std::min(2.0 * pace_gap_s_, config_.evaluation.pace_every_s);
  auto job = std::make_shared<Job>();
  job->kind = Job::Kind::pace;
  job->id = breeding_.incumbent();
  job->variants = {variant_of(job->id).value()};
  job->workloads = breeding_.workloads();
  pacing_ = true;
  pipeline_->compile(std::move(job));
}

void SearchLoop::start_profile() {
  if (profiling_ || to_profile_ == 0 || phase_ != Phase::running || outcome_) return;
  const IndividualId id = std::exchange(to_profile_, 0);
  if (!no_profiles_.empty()) return;
  const auto variant = variant_of(id);
  if (!variant) return;
  auto job = std::make_shared<Job>();
  job->kind = Job::Kind::profile;
  job->id = id;
  job->variants = {*variant};
  // The one with most arithmetic: the others differ from it in length mostly.
  const auto& all = breeding_.workloads();
  job->workloads = {*std::max_element(all.begin(), all.end(), [&](const Workload& a, const Workload& b) {
    return breeding_.task().flops(a) < breeding_.task().flops(b);
  })};
  profiling_ = true;
  pipeline_->compile(std::move(job));
}

void SearchLoop::watch_budgets() {
  const double limit = config_.budget.wall_s;
  if (limit <= 0 || phase_ == Phase::leaving) return;
  // What has begun may end, because a measured kernel that was not compared is work thrown away; but not for
  // long. Without the first confirmation the whole search would be.
  const bool first = comparing_ && breeding_.incumbent() == 0;
  const double grace = std::max(std::clamp(0.1 * limit, 5.0, 60.0), first ? 120.0 : 0.0);
  if (phase_ == Phase::running && elapsed() >= limit) {
    phase_ = Phase::closing;
    stop(Outcome::Stop::wall, fmt::format("the wall-clock budget of {} is spent", duration_text(limit)));
    pipeline_->abandon_waiting();
  }
  if (phase_ == Phase::closing && elapsed() >= limit + grace) {
    phase_ = Phase::leaving;
    tools_stop_.request_stop();
    evaluator_.interrupt();
    if (correspondence_) correspondence_->cancel();
  }
}

void SearchLoop::take_submissions() {
  if (elapsed() - last_inbox_ < 0.5) return;
  last_inbox_ = elapsed();
  const Inbox inbox = waiting_submissions(folder_);
  for (const std::string& trouble : inbox.troubles)
    record([&](Step& step) { tell(step, "trouble", 0, trouble); });
  for (const Submission& submission : inbox.submissions) {
    auto variant = make_variant(submission.source, breeding_.task(), submission.configuration);
    const auto stranger = std::ranges::find_if(
        submission.parents, [&](IndividualId id) { return id < 1 || id >= breeding_.next_id(); });
    // Both were checked when it was submitted, so it was put here by hand.
    const std::string why = !variant ? variant.error().text()
                            : stranger != submission.parents.end()
                                ? fmt::format("its parent #{} is not of this run", *stranger)
                                : "";
    if (!why.empty()) {
      const std::string words = put_aside(folder_, submission.file, why);
      if (!words.empty()) record([&](Step& step) { tell(step, "trouble", 0, words); });
      continue;
    }
    Individual individual;
    individual.id = breeding_.next_id();
    individual.variant_id = variant->id;
    individual.source_id = variant->source_id;
    individual.configuration = variant->configuration;
    individual.descent.op = "submit";
    individual.descent.parents = submission.parents;
    individual.descent.note = submission.note;
    breeding_.admit(individual);
    std::string said = submission.note;
    if (!submission.parents.empty())
      said = fmt::format("of #{}{}{}", fmt::join(submission.parents, ", #"), said.empty() ? "" : ": ", said);
    record([&](Step& step) {
      step.propose(individual, variant->source, "");
      tell(step, "submitted", individual.id, said);
    });
    owed_.push_front(individual.id);
    // Recorded first and removed then: a kill in between makes it come twice, and the second is a duplicate.
    std::error_code ignored;
    fs::remove(submission.file, ignored);
  }
}

void SearchLoop::take_checkpoint(bool last) {
  if (checkpoint_.valid() &&
      (last || checkpoint_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)) {
    const auto made = checkpoint_.get();
    const std::string text = made ? made->filename().string() : made.error().message;
    if (!last) record([&](Step& step) { tell(step, made ? "checkpoint" : "trouble", 0, text); });
  }
  if (last) {
    if (auto made = make_checkpoint(folder_, config_.checkpoint.keep); !made && faces_.event)
      faces_.event({elapsed(), "trouble", made.error().message, 0});
    return;
  }
  if (checkpoint_.valid() || elapsed() - last_checkpoint_ < config_.checkpoint.every_s) return;
  last_checkpoint_ = elapsed();
  checkpoint_ = std::async(std::launch::async, [folder = folder_, keep = config_.checkpoint.keep] {
    return make_checkpoint(folder, keep);
  });
}

void SearchLoop::finish_if_idle() {
  if (evaluating_ > 0 || comparing_ || pacing_ || profiling_ || calls_out_ > 0) return;
  if (phase_ == Phase::running && !outcome_) {
    const bool comparison_due = breeding_.winner() != 0 || breeding_.challenger().has_value();
    if (!owed_.empty() || comparison_due) return;
    if (!breeding_.ready())
      stop(Outcome::Stop::failed, why_no_seed());
    else if (!budget_allows_another())
      stop(Outcome::Stop::evaluations,
           fmt::format("the budget of {} evaluations is spent", config_.budget.evaluations));
    else if (!cap_spent_.empty())
      stop(Outcome::Stop::models, "the budget for language models is spent: " + cap_spent_);
    else if (const std::string why = nobody_to_ask(); exhausted_ && !why.empty())
      stop(Outcome::Stop::failed, why);
    else if (exhausted_)
      stop(Outcome::Stop::exhausted, "every configuration that the operators can reach has been tried");
    else
      return;
  }
  if (phase_ == Phase::closing && (breeding_.winner() != 0 || breeding_.challenger()))
    return;  // until the grace ends
  if (outcome_) done_ = true;
}

std::string SearchLoop::why_no_seed() const {
  std::string words;
  bool late = false;
  journal_.record().each_individual([&](const IndividualRow& row) {
    if (row.individual.descent.op != "seed") return;
    const IndividualId id = row.individual.id;
    const auto confirmation = row.expelled ? journal_.record().confirmation(id) : std::nullopt;
    const bool twice = put_off_.contains({id, row.expelled ? "confirm" : "search"});
    words +=
        fmt::format("{}#{} {} ({}: {}{})", words.empty() ? "" : ", ", id, row.individual.descent.note,
                    confirmation ? std::string(name_of(confirmation->stage)) : row.stage,
                    confirmation ? confirmation->reason : row.reason, twice ? ", at the second try" : "");
    late = late || twice;
  });
  return fmt::format(
      "no seed is usable, so there is nothing to breed from: {}. `cultivar show` tells more of each{}", words,
      late ? "; what was late twice needs a quieter machine, or a longer evaluation.run_deadline" : "");
}

void SearchLoop::show_progress() {
  if (elapsed() - last_heartbeat_ > 5.0 && !outcome_) {  // so that a kill does not give the budget back
    last_heartbeat_ = elapsed();
    record([this](Step& step) { record_models(step); });
  }
  if (!faces_.progress) return;
  Progress p;
  p.elapsed_s = elapsed();
  p.evaluations = breeding_.judged();
  p.measured = measured_;
  p.rejected = rejected_;
  for (const auto& [id, doing] : pipeline_->board().doing()) {
    const auto op = ops_.find(id);
    p.in_flight.push_back({id, op == ops_.end() ? "" : op->second, doing});
  }
  p.best = breeding_.incumbent();
  // As it was measured, which `status` says too, and not at another session's pace.
  if (p.best) p.best_fitness = journal_.record().individual(p.best)->individual.fitness;
  p.unit = unit_;
  if (p.best && first_seed_fitness_ > 0) p.ratio_to_seed = p.best_fitness / first_seed_fitness_;
  const double session = p.elapsed_s - elapsed_before_;
  const auto judged_here = static_cast<double>(p.evaluations - judged_before_);
  if (session > 1.0) p.evaluations_per_hour = judged_here / session * 3600.0;
  p.wall_limit_s = config_.budget.wall_s;
  p.evaluation_limit = config_.budget.evaluations;
  if (p.wall_limit_s > 0) p.seconds_left = std::max(0.0, p.wall_limit_s - p.elapsed_s);
  if (p.evaluation_limit > 0 && p.evaluations_per_hour > 0) {
    const double by_count =
        static_cast<double>(std::max<std::int64_t>(0, p.evaluation_limit - p.evaluations)) /
        p.evaluations_per_hour * 3600.0;
    p.seconds_left = p.wall_limit_s > 0 ? std::min(p.seconds_left, by_count) : by_count;
  }
  p.device_stage = pipeline_->board().device_note();
  show_questions(p);
  faces_.progress(p);
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "engine/export/portfolio_over.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <future>
#include <mutex>

#include "engine/config/duration.hpp"
#include "engine/export/domain.hpp"
#include "engine/export/domain_dispatch.hpp"
#include "engine/export/portfolio_duels.hpp"
#include "engine/export/shape_bench.hpp"
#include "engine/store/recorded_run.hpp"
#include "evaluators/judge/check_shapes.hpp"
#include "evaluators/judge/memory_need.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/timing/roofline.hpp"

namespace cultivar {
namespace {

// Of what the worker may have: the rest is for kernels' workspaces and the contenders.
constexpr double kShareOfMemory = 0.7;

// A table from fewer would say nothing.
constexpr std::size_t kLeastShapes = 4;

class PortfolioOver {
 public:
  PortfolioOver(const Record& record, const Config& config, Evaluator& evaluator,
                const OverSettings& settings, const std::function<void(const std::string&)>& tell,
                const std::atomic<bool>& stop, Facts facts)
      : record_(record),
        config_(config),
        task_(*config.task),
        evaluator_(evaluator),
        settings_(settings),
        tell_([this, &tell](const std::string& step) {
          const std::lock_guard lock(telling_);
          tell(step);
        }),
        facts_(std::move(facts)),
        workloads_(task_.workloads(config.workloads)->workloads),
        confirmations_(record, config, evaluator, tell_, stop),
        bench_(config, evaluator, confirmations_, tell_, stop, settings.most_seconds) {}

  Expected<KernelPortfolio> decided(const std::string& device, const std::filesystem::path& file) {
    portfolio_.best = record_.best().value_or(0);
    portfolio_.device = device;
    if (portfolio_.best == 0)
      return failure("portfolio", "the run has no best kernel yet; let it run longer");
    const auto ranges = parse_ranges("--over", settings_.domain, task_);
    if (!ranges) return tl::make_unexpected(ranges.error());
    ranges_ = *ranges;
    if (auto known = know_members(); !known) return tl::make_unexpected(known.error());
    auto opened = DomainLog::open(
        file, {settings_.domain, device, settings_.most_bytes, settings_.most_seconds, ids_of(members_)},
        settings_.seed);
    if (!opened) return tl::make_unexpected(opened.error());
    log_ = std::move(*opened);
    if (!log_.why_new().empty())
      tell_(fmt::format("beginning anew, because of the earlier measurement, which is kept in {}: {}",
                        log_.earlier().filename().string(), log_.why_new()));
    portfolio_.confirmations = log_.confirmations();
    for (const auto* known : {&log_.learning(), &log_.proving(), &log_.listed()})
      if (auto done = refuse_failed(*known); !done) return tl::make_unexpected(done.error());
    if (counted(log_.learning()) < settings_.shapes && log_.choice()) log_.learn_more();
    do {
      if (log_.choice() && is_refused(log_.choice()->kernels)) log_.learn_more();
      if (!log_.choice()) {
        // What it does not use of its half is for the proof.
        if (auto done = measure_drawn(log_.seed(), settings_.shapes, settings_.budget_s / 2.0, false); !done)
          return tl::make_unexpected(done.error());
        if (auto done = choose(); !done) return tl::make_unexpected(done.error());
      }
      if (auto done = measure_drawn(log_.choice()->seed, settings_.proof, settings_.budget_s, true); !done)
        return tl::make_unexpected(done.error());
      if (auto done = measure_listed(); !done) return tl::make_unexpected(done.error());
    } while (is_refused(log_.choice()->kernels));
    finish();
    return portfolio_;
  }

 private:
  static std::vector<IndividualId> ids_of(const std::vector<DispatchMember>& members) {
    std::vector<IndividualId> ids;
    for (const DispatchMember& member : members) ids.push_back(member.id);
    return ids;
  }
  static std::size_t counted(const std::vector<ShapeTimes>& shapes) {
    return static_cast<std::size_t>(
        std::ranges::count_if(shapes, [](const ShapeTimes& each) { return !each.left_out; }));
  }

  // What counts against the budget.
  double elapsed() const { return seconds_since(began_) - confirming_s_; }

  Expected<void> know_members() {
    for (const IndividualId id : members_over(record_, portfolio_.best, settings_)) {
      const auto row = record_.individual(id);
      if (!row) return failure("portfolio", fmt::format("the run holds no individual {}", id));
      auto variant = make_variant(record_.source(id), task_, row->individual.configuration);
      if (!variant && id == portfolio_.best)
        return failure("portfolio",
                       fmt::format("the best kernel, #{}, is no valid variant in this version: {}", id,
                                   variant.error().message));
      if (variant)
        members_.push_back({id, std::move(*variant)});
      else
        portfolio_.refused[id] = variant.error().message;
    }
    for (const DispatchMember& member : members_)
      if (const auto row = record_.individual(member.id))
        for (const double value : row->individual.workload_values) rate_ = std::max(rate_, value);
    return {};
  }

  bool serves(const DispatchMember& member, const Workload& shape) const {
    return claims(member.variant, task_, shape) && is_legal(member.variant, task_, shape, facts_);
  }
  bool fits(const MemoryNeed& need, const MemoryNeed& held) const {
    return held.tensors + need.tensors <= settings_.most_bytes &&
           held.worker + need.worker <= kShareOfMemory * allowed_.memory.bytes;
  }
  // Within the limits, as far as that can be known before a run: by the greatest rate of the record.
  bool is_usable(const Workload& shape) const {
    const MemoryNeed need = memory_need(task_, shape, config_.target);
    if (!fits(need, {})) return false;
    if (allowed_.file_bytes && need.largest_shared > static_cast<double>(*allowed_.file_bytes)) return false;
    if (task_.cost.report != Cost::Report::time && rate_ > 0.0 &&
        rate_of(task_, shape, config_.target, 1.0) / rate_ > settings_.most_seconds)
      return false;
    return std::ranges::any_of(members_, [&](const DispatchMember& member) { return serves(member, shape); });
  }

  DomainDraw drawing(std::uint64_t seed) const {
    std::vector<Variant> variants;
    for (const DispatchMember& member : members_) variants.push_back(member.variant);
    return DomainDraw(
        task_, ranges_, workloads_.front(), compared_numbers(variants),
        [this](const Workload& shape) { return is_usable(shape); }, seed);
  }
  // Shapes of the domain that are not measured.
  std::vector<Bindings> drawn_beside(const std::vector<TimedShape>& measured) const {
    std::vector<Bindings> drawn;
    DomainDraw draw = drawing(stream_of(settings_.seed, "beside", measured.size())());
    while (drawn.size() < kFurtherShapes) {
      auto shape = draw.next();
      if (!shape) break;
      drawn.push_back(std::move(shape->values));
    }
    return drawn;
  }

  // Draws and measures shapes until `most` count, those of earlier calls included, or until `deadline_s`
  // seconds of this call are over.
  Expected<void> measure_drawn(std::uint64_t seed, std::size_t most, double deadline_s, bool proving) {
    DomainDraw draw = drawing(seed);
    const auto next = [&]() -> std::optional<Workload> {
      while (auto shape = draw.next())
        if (!log_.knows(shape->name)) return shape;
      return std::nullopt;
    };
    const auto& known = proving ? log_.proving() : log_.learning();
    const auto keep = [this](const ShapeTimes& times) { return log_.add(times); };
    Measuring measuring{.known = known,
                        .most = most,
                        .deadline_s = deadline_s,
                        .beside = proving,
                        .what = proving ? "proving on drawn shape" : "learning on drawn shape",
                        .next = next,
                        .keep = keep};
    if (auto done = measure(measuring); !done) return done;
    if (!proving && known.empty() && measuring.all_taken)
      return failure(
          "portfolio",
          fmt::format("--over: of {} shapes drawn in \"{}\" none is allowed by the task, claimed by "
                      "a kernel, below {:.3g} GiB and {:.6g} ms: name dimensions that belong "
                      "together (what is not named is as in {}), or allow more",
                      DomainDraw::kAttempts, settings_.domain, settings_.most_bytes / 1073741824.0,
                      1e3 * settings_.most_seconds, workloads_.front().name));
    return {};
  }

  Expected<void> measure_listed() {
    std::size_t at = 0;
    const auto next = [&]() -> std::optional<Workload> {
      while (at < workloads_.size()) {
        const Workload& workload = workloads_[at++];
        const auto is = [&](const ShapeTimes& each) { return each.shape == workload.name; };
        if (std::ranges::none_of(log_.listed(), is)) return workload;
      }
      return std::nullopt;
    };
    const auto keep = [this](const ShapeTimes& times) { return log_.add_listed(times); };
    Measuring measuring{.known = log_.listed(),
                        .most = workloads_.size(),
                        .deadline_s = settings_.budget_s,
                        .beside = true,
                        .what = "listed shape",
                        .next = next,
                        .keep = keep};
    return measure(measuring);
  }

  // Shapes that all device workers measure, each one at a time; what the workers share.
  struct Measuring {
    const std::vector<ShapeTimes>& known;  // that were measured, those of earlier calls included
    const std::size_t most;                // that count
    const double deadline_s;
    const bool beside;  // the kernels of the choice, beside the contenders; else all members
    const std::string what;
    const std::function<std::optional<Workload>()> next;
    const std::function<Expected<void>(const ShapeTimes&)> keep;

    std::mutex mutex = {};  // guards what follows, the calls above, and of PortfolioOver what they change
    std::condition_variable changed = {};
    std::optional<Workload> waiting = {};  // for memory
    bool all_taken = false, over = false;
    std::size_t in_flight = 0, left_out = 0;  // in this call
    MemoryNeed held = {};                     // by all that is in flight
    Expected<void> outcome = {};

    void end(Expected<void> how) {
      if (outcome) outcome = std::move(how);
      over = true;
      changed.notify_all();
    }
  };

  Expected<void> measure(Measuring& m) {
    std::vector<std::future<void>> others;
    for (int worker = 1; worker < evaluator_.device_workers(); ++worker)
      others.push_back(std::async(std::launch::async, [this, &m, worker] {
        if (evaluator_.prepare(worker)) measure(m, worker);  // else the others measure without it
      }));
    measure(m, 0);
    for (std::future<void>& other : others) other.get();
    return m.outcome;
  }

  // One worker's part; its errors are the outcome of all.
  void measure(Measuring& m, int worker) {
    try {
      std::unique_lock lock(m.mutex);
      while (const auto shape = taken(m, lock)) {
        const MemoryNeed need = memory_need(task_, *shape, config_.target);
        ++m.in_flight;
        m.held.tensors += need.tensors;
        m.held.worker += need.worker;
        const auto members = serving(*shape, m.beside);
        const std::string what = words_of(m, *shape);
        lock.unlock();
        tell_(what);
        const auto times = bench_.times(worker, *shape, members, m.beside, what);
        lock.lock();
        --m.in_flight;
        m.held.tensors -= need.tensors;
        m.held.worker -= need.worker;
        if (times && times->left_out) ++m.left_out;
        if (!times)
          m.end(tl::make_unexpected(times.error()));
        else if (auto kept = m.keep(*times); !kept)
          m.end(kept);
        else if (auto done = refuse_failed({*times}); !done)
          m.end(done);
        else if (m.beside && is_refused(log_.choice()->kernels))
          m.end({});
        m.changed.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(m.mutex);
      m.end({});
      throw;
    }
  }

  // The next shape to be measured, when there is memory for it beside those in flight, which together are
  // held to the limits of one; nullopt: there are enough, no time is left, or all is over.
  std::optional<Workload> taken(Measuring& m, std::unique_lock<std::mutex>& lock) {
    while (!m.over && counted(m.known) < m.most && elapsed() < m.deadline_s) {
      if (m.left_out > 3 * m.most + 40) {
        m.end(failure("portfolio", too_many_left_out(m.known)));
        break;
      }
      if (!m.waiting && !m.all_taken && counted(m.known) + m.in_flight < m.most) {
        m.waiting = m.next();
        m.all_taken = !m.waiting;
      }
      if (m.all_taken && !m.waiting) break;
      if (m.waiting && (m.in_flight == 0 || fits(memory_need(task_, *m.waiting, config_.target), m.held)))
        return std::exchange(m.waiting, std::nullopt);
      m.changed.wait_for(lock, std::chrono::seconds(1));
    }
    return std::nullopt;
  }

  std::string words_of(const Measuring& m, const Workload& shape) const {
    const std::size_t done = counted(m.known);
    const double workers = std::max(1, evaluator_.device_workers());
    const double left = std::min(m.deadline_s - elapsed(),
                                 mean_spent(m.known) * static_cast<double>(m.most - done) / workers);
    return fmt::format("{} {} of {}{}: {}", m.what, done + m.in_flight, m.most,
                       m.known.empty() ? "" : fmt::format(", about {} left", duration(std::ceil(left))),
                       shape.name);
  }

  static double mean_spent(const std::vector<ShapeTimes>& shapes) {
    double sum = 0.0;
    for (const ShapeTimes& each : shapes) sum += each.spent_s;
    return sum / static_cast<double>(std::max<std::size_t>(1, counted(shapes)));
  }
  static std::string too_many_left_out(const std::vector<ShapeTimes>& shapes) {
    const LeftOut& last = *std::ranges::find_if(shapes.rbegin(), shapes.rend(), [](const ShapeTimes& each) {
                             return each.left_out.has_value();
                           })->left_out;
    return fmt::format("--over: only {} of {} drawn shapes could be timed; the last of the others: {}. {}",
                       counted(shapes), shapes.size(), last.words,
                       last.passes()
                           ? "Runs as short as these cannot be told from the noise of this machine: "
                             "ask for larger shapes, or repeat the command, which measures them "
                             "again, when nothing else runs"
                           : "Choose another domain");
  }

  // All members, or those of the choice, that serve the shape and did not fail elsewhere.
  std::vector<const DispatchMember*> serving(const Workload& shape, bool chosen) const {
    std::vector<const DispatchMember*> members;
    for (const DispatchMember& member : members_)
      if (!portfolio_.refused.contains(member.id) && serves(member, shape) &&
          (!chosen || std::ranges::count(log_.choice()->kernels, member.id) > 0))
        members.push_back(&member);
    return members;
  }

  // A kernel that was wrong or crashed on a shape is in no table, from now on and in later calls.
  Expected<void> refuse_failed(const std::vector<ShapeTimes>& shapes) {
    for (const ShapeTimes& each : shapes)
      for (const auto& [id, why] : each.failed) {
        portfolio_.refused.emplace(id, fmt::format("it failed on {}: {}", each.shape, why));
        if (id == portfolio_.best)
          return failure("portfolio",
                         fmt::format("the best kernel, #{}, failed on {}: {}. It claims that shape: its "
                                     "`requires` is wider than what it computes, or it is wrong",
                                     id, each.shape, why));
      }
    return {};
  }
  bool is_refused(const std::vector<IndividualId>& kernels) const {
    return std::ranges::any_of(kernels, [&](IndividualId id) { return portfolio_.refused.contains(id); });
  }

  std::vector<TimedShape> learnt_from(const std::vector<IndividualId>& kernels) const {
    std::vector<TimedShape> shapes;
    for (const ShapeTimes& each : log_.learning())
      if (!each.left_out) shapes.push_back(timed_shape(each, kernels));
    return shapes;
  }

  // Fits the table, confirms its kernels, and fits it again without those that are refused.
  Expected<void> choose() {
    while (true) {
      DispatchChoice choice;
      std::vector<IndividualId> open;
      for (const DispatchMember& member : members_)
        if (!portfolio_.refused.contains(member.id)) open.push_back(member.id);
      const std::vector<TimedShape> all = learnt_from(open);
      if (all.size() < kLeastShapes)
        return failure(
            "portfolio",
            all.size() < log_.learning().size()
                ? too_many_left_out(log_.learning())
                : fmt::format("only {} shapes were measured, too few to learn from; allow more with "
                              "--budget or --shapes; what was measured is kept",
                              all.size()));
      const double price = kKernelPrice * static_cast<double>(all.size());
      for (const std::size_t kernel : useful_kernels(all, open.size(), settings_.kernels, price))
        choice.kernels.push_back(open[kernel]);
      const std::vector<TimedShape> shapes = learnt_from(choice.kernels);
      const bool many = shapes.size() >= kLeastForForest;
      const std::vector<Bindings> further = many ? drawn_beside(shapes) : std::vector<Bindings>{};
      choice.table =
          fit_table(shapes, choice.kernels.size(), dispatch_features(task_),
                    (many ? kLeafPrice : kKernelPrice) * static_cast<double>(shapes.size() + further.size()),
                    kLeastInLeaf, further);
      choice.learnt = shapes.size();
      const std::size_t refused = portfolio_.refused.size();
      for (const IndividualId id : choice.kernels) {
        if (id == portfolio_.best) continue;
        const double before = elapsed();
        const auto added = confirmations_.confirm(portfolio_, id, listed_for(choice, id));
        confirming_s_ += elapsed() - before;
        if (!added) return tl::make_unexpected(added.error());
        if (*added)
          if (auto kept = log_.add(id, portfolio_.confirmations.at(id)); !kept) return kept;
      }
      if (portfolio_.refused.size() != refused) continue;
      choice.seed = stream_of(settings_.seed, "proof", choice.learnt)();
      return log_.add(choice);
    }
  }

  IndividualId chosen_for(const DispatchChoice& choice, const Workload& workload) const {
    std::vector<bool> serving;
    for (const IndividualId id : choice.kernels)
      serving.push_back(std::ranges::any_of(members_, [&](const DispatchMember& member) {
        return member.id == id && serves(member, workload);
      }));
    return choice.kernels.at(choice.table.choice(workload.values, serving));
  }
  // The listed workloads that go to the kernel; all of them if none does.
  std::vector<Workload> listed_for(const DispatchChoice& choice, IndividualId id) const {
    std::vector<Workload> own;
    for (const Workload& workload : workloads_)
      if (chosen_for(choice, workload) == id) own.push_back(workload);
    return own.empty() ? workloads_ : own;
  }

  void finish() {
    const DispatchChoice& choice = *log_.choice();
    DomainDispatch over{.domain = settings_.domain,
                        .most_bytes = settings_.most_bytes,
                        .most_seconds = settings_.most_seconds,
                        .kernels = choice.kernels,
                        .table = choice.table,
                        .learnt = choice.learnt,
                        .drawn = log_.proving(),
                        .listed = log_.listed()};
    for (const ShapeTimes& each : over.drawn)
      if (each.left_out) ++over.left_out[each.left_out->words];
    constexpr double kUnknown = std::numeric_limits<double>::infinity();
    for (const Workload& workload : workloads_) {
      PortfolioEntry entry{workload.name, chosen_for(choice, workload), 0.0, 0.0, 0.0};
      for (const ShapeTimes& each : over.listed) {
        if (each.shape != workload.name || entry.kernel == portfolio_.best) continue;
        const auto best = each.kernels.find(portfolio_.best), own = each.kernels.find(entry.kernel);
        if (best == each.kernels.end() || own == each.kernels.end()) continue;
        entry.log_ratio = std::log(best->second / own->second);
      }
      if (entry.kernel != portfolio_.best) entry.lower = -kUnknown, entry.upper = kUnknown;
      portfolio_.entries.push_back(std::move(entry));
    }
    std::erase_if(portfolio_.confirmations,
                  [&](const auto& each) { return std::ranges::count(choice.kernels, each.first) == 0; });
    portfolio_.over = std::move(over);
  }

  const Record& record_;
  const Config& config_;
  const Task& task_;
  Evaluator& evaluator_;
  const OverSettings& settings_;
  std::mutex telling_;
  const std::function<void(const std::string&)> tell_;  // thread-safe
  const Facts facts_;
  const std::vector<Workload> workloads_;
  const MemoryAllowed allowed_ = memory_allowed();
  PortfolioConfirmations confirmations_;
  ShapeBench bench_;
  std::vector<ValueRange> ranges_;
  std::vector<DispatchMember> members_;
  double rate_ = 0.0;  // the greatest value of a member on a listed workload
  DomainLog log_;
  KernelPortfolio portfolio_;
  const Clock::time_point began_ = Clock::now();
  double confirming_s_ = 0.0;
};

}  // namespace

std::vector<IndividualId> members_over(const Record& record, IndividualId best,
                                       const OverSettings& settings) {
  std::vector<IndividualId> members{best};
  const auto add = [&](IndividualId id) {
    if (std::ranges::count(members, id) == 0 && !settings.without.contains(id)) members.push_back(id);
  };
  for (const IndividualId id : settings.with) add(id);
  for (const SpecialistCandidate& candidate :
       specialist_candidates(record, best, settings.each, settings.without))
    if (members.size() < settings.members) add(candidate.kernel);
  return members;
}

Expected<KernelPortfolio> decide_portfolio_over(const Record& record, const Config& config,
                                                Evaluator& evaluator, const OverSettings& settings,
                                                const std::filesystem::path& log,
                                                const std::function<void(const std::string&)>& tell,
                                                const std::atomic<bool>& stop) {
  tell("starting the workers");
  evaluator.prefer(facts_in(record.facts().environment));
  const auto devices = evaluator.devices();
  if (!devices) return tl::make_unexpected(devices.error());
  if (auto ready = evaluator.prepare(0); !ready) return tl::make_unexpected(ready.error());
  return PortfolioOver(record, config, evaluator, settings, tell, stop, devices->front().facts)
      .decided(devices->front().description, log);
}

}  // namespace cultivar

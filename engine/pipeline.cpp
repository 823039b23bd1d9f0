#include "engine/pipeline.hpp"

#include <fmt/format.h>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <thread>

#include "operators/agent/bench.hpp"

namespace cultivar {

namespace flow = oneapi::tbb::flow;

namespace {

// How often in a row a device may fail to have a worker before the others go on without it.
constexpr int kDevicePatience = 2;

// Threads that may wait for other processes, which TBB's own must not. Each thread is one worker's; in a lane
// of devices one whose worker cannot be had hands its job to the others, and leaves when that happens again.
class Lane {
 public:
  using Done = std::function<void(JobPtr)>;

  Lane(int threads, bool of_devices, std::function<void(Job&, int)> work)
      : work_(std::move(work)), of_devices_(of_devices), living_(threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this, i] { run(i); });
  }
  ~Lane() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

  void push(JobPtr job, bool urgent, Done done) {
    {
      const std::lock_guard lock(mutex_);
      if (urgent)
        waiting_.emplace_front(std::move(job), std::move(done));
      else
        waiting_.emplace_back(std::move(job), std::move(done));
    }
    changed_.notify_one();
  }

 private:
  // True: others have the job now, and whether this thread goes on is for `troubles` to say.
  bool handed_over(JobPtr& job, Done& done, int index, int troubles) {
    if (!of_devices_ || !job->trouble || job->trouble->stage == "interrupted") return false;
    const std::lock_guard lock(mutex_);
    if (living_ < 2 || closed_) return false;
    const bool leaves = troubles >= kDevicePatience;
    if (leaves) --living_;
    job->device_troubles.push_back(fmt::format(
        "device worker {} of the search: {}: {}{}", index, job->trouble->stage, job->trouble->message,
        leaves ? " (it is out of use from now on; the others go on)" : ""));
    job->trouble.reset();
    waiting_.emplace_front(std::move(job), std::move(done));
    changed_.notify_all();
    return true;
  }

  void run(int index) {
    int troubles = 0;  // in a row
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      auto [job, done] = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      try {
        work_(*job, index);
      } catch (const std::exception& e) {
        job->trouble = Error{"missing", e.what()};
      }
      troubles = job->trouble ? troubles + 1 : 0;
      if (!handed_over(job, done, index, troubles))
        done(std::move(job));
      else if (troubles >= kDevicePatience)
        return;
    }
  }

  std::function<void(Job&, int)> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<JobPtr, Done>> waiting_;
  bool closed_ = false;
  bool of_devices_;
  int living_;
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

bool is_urgent(const Job& job) {
  return job.kind == Job::Kind::duel || job.kind == Job::Kind::confirm || job.kind == Job::Kind::pace ||
         job.kind == Job::Kind::profile;
}

// What has been measured must still be compared; everything else is work that nobody waits for.
bool may_be_abandoned(const Job& job) {
  return job.kind == Job::Kind::evaluate || job.kind == Job::Kind::pace || job.kind == Job::Kind::profile ||
         job.kind == Job::Kind::probe;
}

// Nobody waits for it any more. One that a device handed over was begun before.
bool withdrawn(Job& job) {
  return job.kind == Job::Kind::probe && job.device_troubles.empty() && job.claimed.exchange(true);
}

double seconds_since(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

}  // namespace

void WorkBoard::put(IndividualId id, std::string doing) {
  const std::lock_guard lock(mutex_);
  const auto place = std::ranges::find(doing_, id, &std::pair<IndividualId, std::string>::first);
  if (place != doing_.end())
    place->second = std::move(doing);
  else
    doing_.emplace_back(id, std::move(doing));
}

void WorkBoard::note(std::string text) {
  const std::lock_guard lock(mutex_);
  note_ = std::move(text);
}

std::vector<std::pair<IndividualId, std::string>> WorkBoard::doing() const {
  const std::lock_guard lock(mutex_);
  return doing_;
}

std::string WorkBoard::device_note() const {
  const std::lock_guard lock(mutex_);
  return note_;
}

void WorkBoard::remove(IndividualId id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(doing_, [&](const auto& entry) { return entry.first == id; });
}

struct Pipeline::Graph {
  using Steward = flow::multifunction_node<JobPtr, std::tuple<JobPtr, JobPtr, JobPtr, JobPtr>>;
  using Station = flow::async_node<JobPtr, JobPtr>;

  Graph(Pipeline& pipeline, Correspondence* correspondence, int compilers, int devices, int callers,
        std::function<void(JobPtr)> handler)
      : threads(oneapi::tbb::global_control::max_allowed_parallelism,
                std::max<std::size_t>(2, oneapi::tbb::global_control::active_value(
                                             oneapi::tbb::global_control::max_allowed_parallelism))),
        compile_lane(compilers, false, [&pipeline](Job& job, int) { pipeline.compile_now(job); }),
        measure_lane(devices, true, [&pipeline](Job& job, int device) { pipeline.measure_now(job, device); }),
        call_lane(callers, false, [](Job& job, int) { job.work(job); }),
        steward(graph, flow::serial,
                [this, handler = std::move(handler)](JobPtr job, Steward::output_ports_type& out) {
                  ports = &out;
                  handler(std::move(job));
                  ports = nullptr;
                }),
        compile(graph, flow::unlimited, station(compile_lane)),
        measure(graph, flow::unlimited, station(measure_lane)),
        call(graph, flow::unlimited, station(call_lane)),
        propose(graph, flow::unlimited, [correspondence](const JobPtr& job, Station::gateway_type& gateway) {
          gateway.reserve_wait();
          correspondence->ask(*job->order, [&gateway, job](ServedResult answer) {
            job->answer = std::move(answer);
            gateway.try_put(job);
            gateway.release_wait();
          });
        }) {
    flow::make_edge(flow::output_port<0>(steward), compile);
    flow::make_edge(flow::output_port<1>(steward), measure);
    flow::make_edge(flow::output_port<2>(steward), propose);
    flow::make_edge(flow::output_port<3>(steward), call);
    flow::make_edge(propose, steward);
    flow::make_edge(call, steward);
    flow::make_edge(compile, steward);
    flow::make_edge(measure, steward);
  }

  static std::function<void(const JobPtr&, Station::gateway_type&)> station(Lane& lane) {
    return [&lane](const JobPtr& job, Station::gateway_type& gateway) {
      gateway.reserve_wait();
      lane.push(job, is_urgent(*job), [&gateway](JobPtr done) {
        gateway.try_put(done);
        gateway.release_wait();
      });
    };
  }

  // The steward needs a thread while the caller sleeps, on a machine with one core too.
  oneapi::tbb::global_control threads;
  flow::graph graph;
  Lane compile_lane, measure_lane;
  Lane call_lane;  // its threads use the others
  Steward steward;
  Station compile, measure, call, propose;
  Steward::output_ports_type* ports = nullptr;  // of the steward's present call
};

Pipeline::Pipeline(Evaluator& evaluator, Correspondence* correspondence, int callers,
                   std::function<void(JobPtr)> steward)
    : evaluator_(evaluator),
      lease_(evaluator.timing_needs_quiet()),
      graph_(std::make_unique<Graph>(*this, correspondence, std::max(1, evaluator.compile_workers()),
                                     std::max(1, evaluator.device_workers()), callers, std::move(steward))) {}

Pipeline::~Pipeline() {
  wait();
}

void Pipeline::compile(JobPtr job) {
  lease_.expect_compile();
  board_.put(job->id, "waiting to be compiled");
  std::get<0>(*graph_->ports).try_put(std::move(job));
}

void Pipeline::measure(JobPtr job) {
  lease_.expect_measure();
  board_.put(job->id, "waiting for the device");
  std::get<1>(*graph_->ports).try_put(std::move(job));
}

void Pipeline::ask(JobPtr job) {
  std::get<2>(*graph_->ports).try_put(std::move(job));
}

void Pipeline::call(JobPtr job) {
  std::get<3>(*graph_->ports).try_put(std::move(job));
}

namespace {

bool served(Lane& lane, const JobPtr& job, const Watch& watch) {
  struct End {
    std::mutex mutex;
    std::condition_variable_any changed;
    bool reached = false;
  };
  const auto end = std::make_shared<End>();
  lane.push(job, false, [end](const JobPtr&) {
    {
      const std::lock_guard lock(end->mutex);
      end->reached = true;
    }
    end->changed.notify_all();
  });
  const auto reached = [&] { return end->reached; };
  // A bound, as the clock's own maximum overflows in conversions.
  const auto until = std::min(watch.deadline, std::chrono::steady_clock::now() + std::chrono::hours(24));
  std::unique_lock lock(end->mutex);
  if (!end->changed.wait_until(lock, watch.stop, until, reached)) {
    if (!job->claimed.exchange(true)) return false;
    end->changed.wait(lock, reached);
  }
  return !job->abandoned;
}

}  // namespace

bool Pipeline::compile_probe(const JobPtr& job, const Watch& watch) {
  lease_.expect_compile();
  return served(graph_->compile_lane, job, watch);
}

bool Pipeline::measure_probe(const JobPtr& job, const Watch& watch) {
  lease_.expect_measure();
  return served(graph_->measure_lane, job, watch);
}

void Pipeline::wake() {
  graph_->steward.try_put(nullptr);
}
void Pipeline::abandon_waiting() {
  abandoning_ = true;
}
void Pipeline::wait() {
  graph_->graph.wait_for_all();
}

void Pipeline::compile_now(Job& job) {
  lease_.begin_compile();
  const auto end = std::shared_ptr<void>(nullptr, [this](void*) { lease_.end_compile(); });
  if (withdrawn(job) || (abandoning_ && may_be_abandoned(job))) {
    job.abandoned = true;
    return;
  }
  if (job.id != 0) board_.put(job.id, "compiling");
  for (const Variant& variant : job.variants)
    job.compiled.push_back(evaluator_.compile(variant, job.workloads, job.breadth));
}

void Pipeline::measure_now(Job& job, int device) {
  if (!job.device_troubles.empty()) lease_.expect_measure();  // again, elsewhere
  lease_.begin_measure();
  const auto end = std::shared_ptr<void>(nullptr, [this](void*) { lease_.end_measure(); });
  if (withdrawn(job) || (abandoning_ && may_be_abandoned(job))) {
    job.abandoned = true;
    return;
  }
  const auto begun = std::chrono::steady_clock::now();
  const auto note = [this](const std::string& text) { board_.note(text); };
  if (job.profiling) {
    if (job.id != 0) board_.put(job.id, "profile");
    auto profile = evaluator_.profile(device, *job.profiling, note);
    if (profile)
      job.profile = std::move(*profile);
    else
      job.trouble = profile.error();
  } else if (job.duel) {
    board_.put(job.id, "duel");
    auto report = evaluator_.gate(device, *job.duel, note);
    if (report)
      job.report = std::move(*report);
    else
      job.trouble = report.error();
  } else {
    if (job.id != 0) board_.put(job.id, job.kind == Job::Kind::confirm ? "confirm" : "evaluating");
    auto evaluation = evaluator_.evaluate(device, *job.evaluate, note);
    if (evaluation)
      job.evaluation = std::move(*evaluation);
    else
      job.trouble = evaluation.error();
  }
  job.seconds += seconds_since(begun);
  board_.note("");
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "evaluators/contenders/catalogue.hpp"
#include "evaluators/contenders/library.hpp"
#include "evaluators/devices/cuda/code/launch_rules.hpp"
#include "evaluators/devices/cuda/run/driver.hpp"
#include "evaluators/devices/cuda/run/kernel_trace.hpp"
#include "evaluators/system/random.hpp"

namespace cultivar::cuda {

namespace {

// The first failure of a series of driver calls.
class Steps {
 public:
  Steps& operator<<(Result next) {
    if (result_ == result::success) result_ = next;
    return *this;
  }
  Result result() const { return result_; }

 private:
  Result result_ = result::success;
};

constexpr std::uint64_t kGuardBytes = 64 << 10;  // minimum on each side
constexpr std::uint64_t kPage = 4096;            // data starts at a multiple of this
constexpr std::uint64_t kGranule = 2 << 20;      // of the memory of a device
constexpr std::uint64_t kPlaces = 16;            // number of places; one is chosen anew for every run
constexpr std::uint64_t kBlockLimitNs = 20'000'000'000;
constexpr double kJudgeSeconds = 20.0;  // for copies and the judge's own kernels
// How far host time may exceed event time: scheduling and the round trip to the device.
constexpr double kHostSlack = 0.05, kHostSlackSeconds = 2e-3;
constexpr std::size_t kWorthACopy = 4096;  // bytes
constexpr int kTracedRuns = 3;             // at most, until CUPTI's records agree with the plan

using Use = PlannedBuffer::Use;

Fault fault(Fault::Kind kind, std::string detail) {
  return {kind, std::move(detail)};
}

// True under compute-sanitizer: memcheck knows where an allocation ends, and guards would hide overruns from
// it (see sanitizing.hpp).
bool sanitized() {
  static const bool told = std::getenv("CULTIVAR_SANITIZED") != nullptr;
  return told;
}

std::uint64_t poison_of(const RunOptions& options, std::string_view of, std::uint64_t index = 0) {
  return RunOptions::same_poison(options.poison_seed, derive_seed(options.poison_seed, of, index));
}

bool holds_poison(const PlannedBuffer& buffer) {
  return (buffer.use == Use::output && buffer.starts_as < 0) ||
         (buffer.use == Use::workspace && !buffer.zero);
}

}  // namespace

tl::expected<std::unique_ptr<CudaSession>, Fault> CudaSession::make(Gpu& gpu, Plan plan,
                                                                    std::span<const Repetition> repetitions) {
  if (gpu.lost())
    return tl::make_unexpected(fault(Fault::Kind::crashed, "an earlier fault has broken the GPU's context"));
  if (2 * plan.buffers.size() > max_regions)
    return tl::make_unexpected(fault(Fault::Kind::launch_failed,
                                     fmt::format("the plan has {} tensors and workspaces; the limit is {}",
                                                 plan.buffers.size(), max_regions / 2)));
  std::unique_ptr<CudaSession> session(new CudaSession(gpu, std::move(plan)));
  session->secret_ = secret_seed();
  if (session->plan_.kernels.size() > 1)
    session->overlaps_ = Geometry(session->plan_.kernels.back().launch).programmatic_dependent;
  if (auto none = session->repeat(repetitions)) return tl::make_unexpected(std::move(*none));
  if (auto none = session->allocate()) return tl::make_unexpected(std::move(*none));
  return session;
}

tl::expected<std::unique_ptr<CudaSession>, Fault> CudaSession::open(Gpu& gpu, const Binary& binary,
                                                                    const Plan& plan,
                                                                    std::span<const Repetition> repetitions) {
  const Turns::Turn turn = gpu.turn();
  auto session = make(gpu, plan, repetitions);
  if (!session) return session;
  auto program = Program::load(gpu, binary.path, plan);
  if (!program) return tl::make_unexpected(program.error());
  (*session)->program_ = std::move(*program);
  return session;
}

tl::expected<std::unique_ptr<CudaSession>, Fault> CudaSession::open_contender(
    Gpu& gpu, const ContenderFile& file, const ContenderSettings& settings, const Task& task,
    const Workload& workload) {
  // Others have the card while an interpreter starts.
  const auto library = ContenderLibrary::load(file.library, task, target_named("cuda"));
  if (!library) return tl::make_unexpected(Fault{Fault::Kind::load_failed, library.error().message});
  library->warm_up({task, workload, {}, 0, nullptr, file.program, settings});
  std::optional<Turns::Turn> turn(gpu.turn());
  std::exception_ptr lost;
  const auto share = [&](bool others) noexcept {
    if (others) {
      turn.reset();
    } else if (!turn && !lost) {
      try {
        turn.emplace(gpu.turn());
      } catch (...) {
        lost = std::current_exception();
      }
    }
  };
  auto session = make(gpu, contender_plan(task, workload));
  if (!session) return session;
  (*session)->foreign_ = true;
  (*session)->choose_places(0);
  auto contender =
      Contender::open(gpu, *library, file.program, settings, task, workload, (*session)->addresses_, share);
  if (lost) std::rethrow_exception(lost);
  if (!contender) return tl::make_unexpected(contender.error());
  (*session)->program_ = std::move(*contender);
  return session;
}

// Another worker may be timing, so nothing is freed without a turn. If none can be had, the card is given up
// and the worker exits, which frees everything.
CudaSession::~CudaSession() {
  const std::optional<Turns::Turn> turn = gpu_.turns().take_or_not();
  if (!turn) gpu_.lose();
  program_.reset();
  for (DeviceMemory* memory : {&index_, &gathered_}) *memory = DeviceMemory();
  apart_.clear();
  if (gpu_.lost())
    for (auto& [buffer, memory] : repeated_) memory.leave();
  repeated_.clear();
  if (memory_.size() > 0) gpu_.leave_memory(std::move(memory_));
}

std::optional<Fault> CudaSession::repeat(std::span<const Repetition> repetitions) {
  for (const Repetition& each : repetitions) {
    std::size_t& bytes = plan_.buffers.at(each.buffer).bytes;
    const std::uint64_t rest = bytes - each.period * each.repeats;
    auto memory = sanitized() ? std::nullopt
                              : RepeatedMemory::map(gpu_.driver(), gpu_.index(), gpu_.memory_grain(),
                                                    each.period, each.repeats, rest);
    if (!memory) return fault(Fault::Kind::unsupported, "this driver cannot repeat memory");
    repeated_.insert_or_assign(each.buffer, std::move(*memory));
    bytes = each.period + rest;
  }
  return std::nullopt;
}

std::optional<Fault> CudaSession::allocate() {
  if (sanitized()) {
    for (const PlannedBuffer& buffer : plan_.buffers) {
      auto memory = DeviceMemory::allocate(gpu_, buffer.bytes);
      if (!memory)
        return gpu_.lack_of_memory(buffer.bytes, "the kernel's buffers do not fit into the GPU's memory");
      addresses_.push_back(memory->address());
      apart_.push_back(std::move(*memory));
    }
    return std::nullopt;
  }
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    begins_.push_back(total);
    const std::uint64_t data = (plan_.buffers[i].bytes + kPage - 1) / kPage * kPage;
    if (!repeated_.contains(i)) total += 2 * kGuardBytes + kPlaces * kPage + data;
    ends_.push_back(total);
  }
  // The device maps whole granules. What is behind the last guard would be memory that nobody checks, and
  // that a kernel finds again in its next run, so the last guard extends to the end.
  total = (total + kGranule - 1) / kGranule * kGranule;
  if (!ends_.empty()) ends_.back() = total;
  auto memory = gpu_.take_memory(total);
  if (!memory)
    return gpu_.lack_of_memory(
        total,
        fmt::format("the kernel's buffers need {} bytes of GPU memory, which is more than is free", total));
  memory_ = std::move(*memory);
  return std::nullopt;
}

void CudaSession::choose_places(std::uint64_t seed) {
  if (!apart_.empty()) return;
  addresses_.clear();
  guards_.clear();
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    if (const auto repeated = repeated_.find(i); repeated != repeated_.end()) {
      const RepeatedMemory& memory = repeated->second;
      const std::uint64_t bytes = plan_.buffers[i].bytes;
      addresses_.push_back(memory.last());
      guards_.push_back({memory.last(), 0});
      guards_.push_back({memory.last() + bytes, memory.stored() - bytes});
      continue;
    }
    const Address begin = memory_.address() + begins_[i], end = memory_.address() + ends_[i];
    const Address data = begin + kGuardBytes + derive_seed(seed ^ secret_, "place", i) % kPlaces * kPage;
    addresses_.push_back(data);
    guards_.push_back({begin, data - begin});
    guards_.push_back({data + plan_.buffers[i].bytes, end - data - plan_.buffers[i].bytes});
  }
}

tl::expected<Sample, Fault> CudaSession::run(const RunInputs& inputs,
                                             std::span<std::vector<std::byte>> outputs,
                                             const RunOptions& options) {
  if (dead_) return tl::make_unexpected(*dead_);
  const auto die = [this](Fault why) {
    dead_ = why;
    return tl::make_unexpected(std::move(why));
  };
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].stretch != 0) gpu_.residents().stage(inputs[i].stretch, inputs[i].whole);
  tl::expected<Sample, Fault> sample;
  {
    const Turns::Turn turn = gpu_.turn();
    if (gpu_.lost()) return die(fault(Fault::Kind::crashed, "an earlier fault has broken the GPU's context"));
    if (options.timed && !proven_) {
      if (auto ran = once(Mode::plain, inputs, options); !ran) return die(ran.error());
      // What a plan does wrong it does in each run, while CUPTI delivers a record late or wrongly now and
      // then.
      for (int run = 1; !proven_; ++run) {
        const auto ran = once(Mode::traced, inputs, options);
        if (!ran && (run == kTracedRuns || ran.error().kind != Fault::Kind::forbidden_call))
          return die(ran.error());
        proven_ = ran.has_value();
      }
    }
    sample = once(options.timed ? Mode::timed : Mode::plain, inputs, options);
    if (!sample) return die(sample.error());
    if (auto lost = fetch(outputs, options)) return die(*lost);
  }
  if (options.timed) judge_clock(*sample, gpu_.sensors(), gpu_.default_clock_mhz());
  return sample;
}

tl::expected<Sample, Fault> CudaSession::once(Mode mode, const RunInputs& inputs, const RunOptions& options) {
  if (auto failed = prepare(inputs, options)) return tl::make_unexpected(std::move(*failed));
  auto sample = execute(mode, options.deadline_s);
  if (!sample) return sample;
  if (auto failed = inspect(options)) return tl::make_unexpected(std::move(*failed));
  return sample;
}

std::optional<Fault> CudaSession::bring_findings(const std::string& what) {
  const Tools& tools = gpu_.tools();
  const Result copied = gpu_.driver().MemcpyDtoHAsync(tools.findings.host, tools.found.address(),
                                                      sizeof(Findings), gpu_.stream());
  if (copied != result::success) return gpu_.fault_of(copied, what);
  return gpu_.wait(deadline_in(kJudgeSeconds), what);
}

std::optional<Fault> CudaSession::prepare(const RunInputs& inputs, const RunOptions& options) {
  const OwnKernels& own = gpu_.kernels();
  const Driver& driver = gpu_.driver();
  const Address found = gpu_.tools().found.address();
  choose_places(options.poison_seed);
  poison_ = options.poison_seed;
  std::vector<Address> given = addresses_;
  for (const auto& [buffer, memory] : repeated_) given[buffer] = memory.first();
  if (auto refused = program_->place(given)) return refused;
  Steps steps;
  if (!foreign_ && !sanitized())
    steps << gpu_.scrub_local(program_->local_bytes(), poison_of(options, "local"));
  if (!guards_.empty()) steps << own.write_guards(guards_, secret_);
  steps << driver.MemsetD8Async(found, 0, sizeof(Findings), gpu_.stream());
  std::size_t next_input = 0;
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan_.buffers[i];
    if (holds_poison(buffer)) steps << own.poison(addresses_[i], buffer.bytes, poison_of(options, "", i));
    if (buffer.use != Use::input) continue;
    const RunInput& input = inputs[next_input];
    if (input.bytes.size() != buffer.bytes) throw std::logic_error("wrong size of input " + buffer.name);
    if (input.stretch != 0) {
      const Address whole = gpu_.residents().get(input.stretch, input.whole);
      if (whole == 0)
        return gpu_.lack_of_memory(input.whole.size(), "the GPU has too little free memory for the inputs");
      const auto offset = static_cast<std::uint64_t>(input.bytes.data() - input.whole.data());
      steps << own.window(addresses_[i], whole + offset, buffer.bytes);
    } else if (buffer.bytes > 0) {
      steps << driver.MemcpyHtoDAsync(addresses_[i], input.bytes.data(), buffer.bytes, gpu_.stream());
    }
    steps << own.checksum(addresses_[i], buffer.bytes, secret_,
                          found + offsetof(Findings, sums) + 8 * next_input);
    ++next_input;
  }
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
    if (const int input = plan_.buffers[i].starts_as; input >= 0)
      steps << own.window(addresses_[i], addresses_[static_cast<std::size_t>(input)], plan_.buffers[i].bytes);
  if (steps.result() != result::success) return gpu_.fault_of(steps.result(), "preparing the buffers");
  if (auto failed = bring_findings("preparing the buffers")) return failed;
  const auto& findings = *static_cast<const Findings*>(gpu_.tools().findings.host);
  sums_.assign(findings.sums, findings.sums + next_input);
  return std::nullopt;
}

tl::expected<Sample, Fault> CudaSession::execute(Mode mode, double deadline_s) {
  const OwnKernels& own = gpu_.kernels();
  const Driver& driver = gpu_.driver();
  Tools& tools = gpu_.tools();
  const bool blocked = mode != Mode::plain;
  LaunchWatch* const watch = blocked ? nullptr : gpu_.watch();
  const std::uint64_t stamp_bytes =
      2 * sizeof(std::uint64_t) * static_cast<std::uint64_t>(gpu_.attribute(attribute::multiprocessors));
  auto* const flag = static_cast<std::atomic<std::uint32_t>*>(tools.flag.host);
  const auto give_back = [](Fault why) { return tl::make_unexpected(std::move(why)); };

  Steps steps;
  if (blocked || watch != nullptr) {  // watched runs start under the same conditions as timed ones
    // Reset first: the flush does not evict lines that a kernel has asked the cache to keep.
    const DeviceMemory& flush = gpu_.flush_memory();
    steps << driver.CtxResetPersistingL2Cache()
          << driver.MemsetD8Async(flush.address(), static_cast<unsigned char>(tools.token), flush.size(),
                                  gpu_.stream());
    if (steps.result() != result::success)
      return give_back(gpu_.fault_of(steps.result(), "flushing the cache"));
    if (auto failed = gpu_.wait(deadline_in(kJudgeSeconds), "flushing the cache")) return give_back(*failed);
    std::memset(tools.stamps.host, 0, 2 * stamp_bytes);
  }
  // Here and not earlier, so that nothing of the judge's kernels above remains in shared memory either.
  steps << own.scrub(RunOptions::same_poison(poison_, secret_seed()), !sanitized());
  const bool traced = mode == Mode::traced && gpu_.trace().begin();
  const std::uint32_t token = ++tools.token == 0 ? ++tools.token : tools.token;
  if (blocked)
    steps << own.wait(tools.flag.device, token, tools.flag.device + sizeof(std::uint32_t), kBlockLimitNs)
          << own.stamp(tools.stamps.device);
  // Last of all the judge's kernels, whose registers hold addresses and seeds. Instruments want an idle
  // device, and compute-sanitizer needs registers itself.
  if (watch == nullptr && !sanitized()) steps << own.fill_registers(secret_seed());
  steps << driver.EventRecord(tools.begin, gpu_.stream());
  std::optional<Fault> refused;
  if (watch != nullptr) watch->before();
  if (steps.result() == result::success) refused = program_->launch(deadline_s);
  // A kernel launched by programmatic dependence may end before the one ahead of it, so its end need not be
  // the end of the plan. A launch without it waits for both.
  if (overlaps_ && watch == nullptr) steps << own.nothing();
  steps << driver.EventRecord(tools.end, gpu_.stream());
  if (blocked) steps << own.stamp(tools.stamps.device + stamp_bytes);
  const Clock::time_point released = Clock::now();
  flag[0].store(token, std::memory_order_seq_cst);
  const std::optional<Fault> unfinished = gpu_.wait(deadline_in(deadline_s), "the kernel's run");
  const double host_seconds = seconds_since(released);
  if (watch != nullptr && !gpu_.lost()) watch->after();
  std::vector<TracedKernel> seen;
  if (traced && !gpu_.lost()) seen = gpu_.trace().end();
  if (refused) return give_back(*refused);
  if (unfinished) return give_back(*unfinished);
  if (steps.result() != result::success)
    return give_back(gpu_.fault_of(steps.result(), "launching the kernels"));

  if (foreign_ && blocked && flag[1].load() == token)
    return give_back(
        fault(Fault::Kind::contender_failed,
              "its launch function waited for the device; launch must only queue work on the stream, and "
              "allocation and waiting belong in prepare"));

  float milliseconds = 0.0f;
  if (const Result told = driver.EventElapsedTime(&milliseconds, tools.begin, tools.end);
      told != result::success)
    return give_back(gpu_.fault_of(told, "reading the events"));
  Sample sample;
  sample.seconds = static_cast<double>(milliseconds) * 1e-3;
  if (traced)
    if (auto other = compare_trace(plan_, foreign_, seen, sample.seconds)) return give_back(*other);
  if (foreign_)
    if (auto incomplete = program_->results()) return give_back(*incomplete);
  if (!blocked) return sample;

  sample.clock_mhz = stamped_clock_mhz(static_cast<const std::uint64_t*>(tools.stamps.host),
                                       static_cast<std::size_t>(gpu_.attribute(attribute::multiprocessors)));
  const auto disturb = [&](Sample::Disturber by, std::string why) {
    if (!sample.disturbance.empty()) return;
    sample.disturbance = std::move(why);
    sample.disturber = by;
  };
  if (flag[1].load() == token)
    disturb(Sample::Disturber::host, "the stream started before all work was queued");
  // Event times come from the driver; only the host's clock is fully under our control.
  if (host_seconds < 0.95 * sample.seconds)
    disturb(Sample::Disturber::kernel,
            fmt::format("the run took {:.1f} us by CUDA events but only {:.1f} us by the host's clock",
                        1e6 * sample.seconds, 1e6 * host_seconds));
  if (host_seconds > (1.0 + kHostSlack) * sample.seconds + kHostSlackSeconds)
    disturb(Sample::Disturber::host,
            fmt::format("the run took {:.1f} us by the host's clock but only {:.1f} us by CUDA events",
                        1e6 * host_seconds, 1e6 * sample.seconds));
  return sample;
}

std::optional<Fault> CudaSession::inspect(const RunOptions& options) {
  const OwnKernels& own = gpu_.kernels();
  const Address found = gpu_.tools().found.address();
  Steps steps;
  steps << gpu_.driver().MemsetD8Async(found, 0, sizeof(Findings), gpu_.stream())
        << gpu_.driver().MemsetD8Async(found + offsetof(Findings, low), 0xff, sizeof Findings{}.low,
                                       gpu_.stream());
  if (!guards_.empty())
    steps << own.check_guards(guards_, secret_, found + offsetof(Findings, low),
                              found + offsetof(Findings, high));
  std::size_t next_input = 0;
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan_.buffers[i];
    if (buffer.use == Use::input)
      steps << own.checksum(addresses_[i], buffer.bytes, secret_,
                            found + offsetof(Findings, sums) + 8 * next_input++);
    if (buffer.use == Use::output && buffer.starts_as < 0)
      steps << own.still_poisoned(addresses_[i], buffer.bytes, poison_of(options, "", i),
                                  found + offsetof(Findings, unwritten));
  }
  if (steps.result() != result::success) return gpu_.fault_of(steps.result(), "inspecting the buffers");
  if (auto failed = bring_findings("inspecting the buffers")) return failed;
  const auto& findings = *static_cast<const Findings*>(gpu_.tools().findings.host);
  unwritten_ = static_cast<std::size_t>(findings.unwritten);
  if (auto broken = broken_guard()) return broken;
  next_input = 0;
  for (const PlannedBuffer& buffer : plan_.buffers) {
    if (buffer.use != Use::input) continue;
    if (findings.sums[next_input] != sums_[next_input])
      return fault(Fault::Kind::input_changed, fmt::format("the kernel changed the input '{}'", buffer.name));
    ++next_input;
  }
  return std::nullopt;
}

std::optional<Fault> CudaSession::broken_guard() const {
  if (guards_.empty()) return std::nullopt;
  const auto& findings = *static_cast<const Findings*>(gpu_.tools().findings.host);
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan_.buffers[i];
    const std::size_t before = 2 * i, behind = 2 * i + 1;
    if (findings.high[before] != 0)  // report the byte nearest to the buffer: it is the best clue
      return fault(Fault::Kind::guard_overwritten,
                   fmt::format("the kernel wrote {} bytes before the start of '{}' ({} bytes)",
                               guards_[before].bytes - findings.high[before] + 1, buffer.name, buffer.bytes));
    if (findings.high[behind] != 0)
      return fault(Fault::Kind::guard_overwritten,
                   fmt::format("the kernel wrote {} bytes past the end of '{}' ({} bytes)",
                               findings.low[behind], buffer.name, buffer.bytes));
  }
  return std::nullopt;
}

std::optional<Fault> CudaSession::fetch(std::span<std::vector<std::byte>> outputs,
                                        const RunOptions& options) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan_.buffers[i];
    if (buffer.use != Use::output) continue;
    std::vector<std::byte>& output = outputs[next];
    output.resize(buffer.bytes);
    std::vector<ElementRange> wanted;
    if (next < options.wanted.size()) wanted = options.wanted[next];
    ++next;
    if (wanted.empty()) wanted.push_back({0, static_cast<std::int64_t>(buffer.bytes / buffer.element_bytes)});
    std::size_t bytes = 0;
    for (const ElementRange& range : wanted)
      bytes += static_cast<std::size_t>(range.count) * buffer.element_bytes;
    // A copy costs some microseconds, an element that is gathered its index of eight bytes.
    auto failed = bytes >= kWorthACopy * wanted.size() ? copy_back(addresses_[i], buffer, wanted, output)
                                                       : gather(addresses_[i], buffer, wanted, bytes, output);
    if (failed) return failed;
  }
  return std::nullopt;
}

std::optional<Fault> CudaSession::copy_back(Address from, const PlannedBuffer& buffer,
                                            std::span<const ElementRange> wanted,
                                            std::vector<std::byte>& output) {
  Steps steps;
  for (const ElementRange& range : wanted) {
    const std::size_t first = static_cast<std::size_t>(range.first) * buffer.element_bytes;
    steps << gpu_.driver().MemcpyDtoHAsync(output.data() + first, from + first,
                                           static_cast<std::size_t>(range.count) * buffer.element_bytes,
                                           gpu_.stream());
  }
  if (steps.result() != result::success) return gpu_.fault_of(steps.result(), "fetching the output");
  return gpu_.wait(deadline_in(kJudgeSeconds), "fetching the output");
}

std::optional<Fault> CudaSession::gather(Address from, const PlannedBuffer& buffer,
                                         std::span<const ElementRange> wanted, std::size_t bytes,
                                         std::vector<std::byte>& output) {
  const Driver& driver = gpu_.driver();
  const std::size_t width = buffer.element_bytes;
  std::vector<std::int64_t> elements;
  elements.reserve(bytes / width);
  for (const ElementRange& range : wanted)
    for (std::int64_t e = 0; e < range.count; ++e) elements.push_back(range.first + e);
  const std::span<const std::int64_t> index = elements;
  for (auto [memory, needed] : {std::pair{&index_, index.size_bytes()}, {&gathered_, bytes}}) {
    if (memory->size() >= needed) continue;
    auto larger = DeviceMemory::allocate(gpu_, needed);
    if (!larger) return gpu_.lack_of_memory(needed, "the GPU has too little free memory to fetch the output");
    *memory = std::move(*larger);
  }
  std::vector<std::byte> compact(bytes);
  Steps steps;
  steps << driver.MemcpyHtoDAsync(index_.address(), index.data(), index.size_bytes(), gpu_.stream())
        << gpu_.kernels().gather(from, index_.address(), index.size(), static_cast<std::uint32_t>(width),
                                 gathered_.address())
        << driver.MemcpyDtoHAsync(compact.data(), gathered_.address(), compact.size(), gpu_.stream());
  if (steps.result() != result::success) return gpu_.fault_of(steps.result(), "fetching the output");
  if (auto failed = gpu_.wait(deadline_in(kJudgeSeconds), "fetching the output")) return failed;
  const std::byte* next = compact.data();
  for (const ElementRange& range : wanted) {
    const std::size_t some = static_cast<std::size_t>(range.count) * width;
    std::memcpy(output.data() + static_cast<std::size_t>(range.first) * width, next, some);
    next += some;
  }
  return std::nullopt;
}

}  // namespace cultivar::cuda

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/session.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "evaluators/devices/cpu/cell_process.hpp"

namespace cultivar {
namespace {

// The longest handshake on an otherwise idle machine, including virtual machines with slow wake-ups.
constexpr double usual_handshake_s = 60e-6;
constexpr double most_handshake_s = 4 * usual_handshake_s;  // longer ones have waited for a core

Fault fault_of(Fault::Kind kind, std::string detail) {
  return Fault{kind, std::move(detail)};
}
auto failed(std::string detail) {
  return tl::make_unexpected(fault_of(Fault::Kind::launch_failed, std::move(detail)));
}

cell::Argument scalar(Dtype type, double value) {
  using cell::Value;
  // In the order of Dtype; f16, bf16 and the 8-bit floating types travel as their bits.
  static constexpr std::array kinds{Value::f64, Value::f32, Value::u16, Value::u16, Value::i64,
                                    Value::i32, Value::i16, Value::i8,  Value::u64, Value::u32,
                                    Value::u16, Value::u8,  Value::u8,  Value::u8};
  std::uint64_t bits = 0;
  encode(type, {&value, 1}, std::as_writable_bytes(std::span(&bits, 1)).first(size_of(type)));
  return {kinds[static_cast<std::size_t>(type)], 0, bits};
}

// `untimed`: several threads may take turns on a core.
tl::expected<cell::Job, Fault> job_of(const Plan& plan, const std::vector<int>& cores, const Arena& arena,
                                      bool untimed) {
  if (plan.kernels.empty() || plan.kernels.size() > cell::max_kernels)
    return failed(
        fmt::format("the plan has {} kernels; it must have 1 to {}", plan.kernels.size(), cell::max_kernels));
  cell::Job job;
  job.region_count = static_cast<std::uint32_t>(arena.regions().size());
  std::copy(arena.regions().begin(), arena.regions().end(), job.regions);
  for (std::size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers[i].use == PlannedBuffer::Use::workspace && plan.buffers[i].zero)
      job.zeroed[job.zeroed_count++] = {static_cast<std::uint32_t>(i), plan.buffers[i].bytes};
  for (const auto& planned : plan.kernels) {
    const std::size_t limit = untimed ? cell::max_threads : std::min(cores.size(), cell::max_threads);
    const std::int64_t threads = planned.launch.number("threads", 1);
    if (threads < 1 || static_cast<std::size_t>(threads) > limit)
      return failed(fmt::format(
          "kernel '{}' asks for {} threads, but this device has {} cores; make `threads` depend on num_cores",
          planned.kernel, threads, limit));
    if (planned.args.size() > cell::max_arguments || planned.kernel.size() >= cell::name_bytes)
      return failed(
          fmt::format("kernel '{}' has too many arguments or too long a name", planned.kernel.substr(0, 80)));
    cell::Kernel& kernel = job.kernels[job.kernel_count++];
    std::memcpy(kernel.name, planned.kernel.c_str(), planned.kernel.size() + 1);
    kernel.threads = static_cast<std::uint32_t>(threads);
    job.threads = std::max(job.threads, kernel.threads);
    for (const auto& argument : planned.args) {
      cell::Argument& place = kernel.arguments[kernel.argument_count++];
      switch (argument.kind) {
        case PlannedArgument::Kind::buffer:
          place = {cell::Value::pointer, static_cast<std::uint32_t>(argument.index), 0};
          break;
        case PlannedArgument::Kind::thread:
          place = {cell::Value::thread, 0, 0};
          break;
        case PlannedArgument::Kind::threads:
          place = {cell::Value::threads, 0, 0};
          break;
        case PlannedArgument::Kind::scalar:
          place = scalar(argument.type, argument.value);
          break;
        case PlannedArgument::Kind::tensor_map:
          return failed("tensor maps are only for the cuda target");
      }
    }
  }
  // Use the last cores first: the first core serves interrupts and, most likely, the worker.
  for (std::uint32_t i = 0; i < job.threads; ++i)
    job.cores[i] = static_cast<std::uint32_t>(cores[cores.size() - 1 - i % cores.size()]);
  return job;
}

std::uint64_t secret() {
  std::uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, 0) != sizeof seed)
    throw MissingError("getrandom returned no random bytes");
  return seed;
}

std::uint64_t poison_of(const RunOptions& options, std::size_t buffer) {
  return RunOptions::same_poison(options.poison_seed, mixed(options.poison_seed + buffer));
}

}  // namespace

CpuSession::CpuSession(JudgedBuffers buffers, CellProcess cell)
    : buffers_(std::move(buffers)), cell_(std::move(cell)) {}

tl::expected<std::unique_ptr<CpuSession>, Fault> CpuSession::open(const CellOptions& options,
                                                                  const Sandbox& sandbox, const Plan& plan,
                                                                  const std::vector<int>& cores,
                                                                  double deadline_s,
                                                                  std::span<const Repetition> repetitions) {
  const auto deadline = deadline_in(deadline_s);
  auto buffers = JudgedBuffers::create(plan, repetitions);
  if (!buffers) return failed(buffers.error().message);
  auto job = job_of(plan, cores, buffers->arena(), !repetitions.empty());
  if (!job) return tl::make_unexpected(job.error());
  auto cell = CellProcess::start(options, sandbox, *job, buffers->arena(), deadline);
  if (!cell) return tl::make_unexpected(cell.error());
  std::unique_ptr<CpuSession> session(new CpuSession(std::move(*buffers), std::move(*cell)));
  session->cell_.set_explain([arena = &session->buffers_.arena()](std::uint64_t address) {
    return arena->describe_address(address);
  });
  session->cell_.order_copy(CellProcess::Loading::later);
  if (auto ready = session->cell_.await_copy(deadline); !ready) return tl::make_unexpected(ready.error());
  // Measured before candidate code is in the process, so that no kernel can make an empty request look slow.
  if (auto measured = session->measure_handshake(deadline); !measured)
    return tl::make_unexpected(measured.error());
  if (auto loaded = session->cell_.load(deadline); !loaded) return tl::make_unexpected(loaded.error());
  session->fresh_ = true;
  return session;
}

tl::expected<void, Fault> CpuSession::measure_handshake(Clock::time_point deadline) {
  // Use the smallest lower quartile. On a busy machine other processes slow most handshakes; subtracting too
  // little only makes a kernel look slower, while subtracting too much rejects kernels as too short. Slow
  // handshakes are therefore measured again; if all rounds are slow, threads wait for cores, and the fastest
  // handshake of all, within a limit, is closest to the truth.
  double fastest = most_handshake_s;
  handshake_s_ = INFINITY;
  for (int round = 0; round < 8 && handshake_s_ > usual_handshake_s; ++round) {
    std::array<double, 16> times{};
    for (double& time : times) {
      const auto ring = cell_.ring(cell::Command::nothing, deadline);
      if (!ring) return tl::make_unexpected(ring.error());
      time = ring->wall_s;
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 4, times.end());
    handshake_s_ = std::min(handshake_s_, times[times.size() / 4]);
    fastest = std::min(fastest, *std::min_element(times.begin(), times.end()));
  }
  if (handshake_s_ > usual_handshake_s) handshake_s_ = fastest;
  return {};
}

tl::expected<Sample, Fault> CpuSession::run(const RunInputs& inputs,
                                            std::span<std::vector<std::byte>> outputs,
                                            const RunOptions& options) {
  if (dead_) return tl::make_unexpected(*dead_);
  const auto die = [this](Fault f) {
    dead_ = f;
    return tl::make_unexpected(std::move(f));
  };
  const bool fresh = std::exchange(fresh_, false);
  if (!fresh)
    cell_.order_copy(CellProcess::Loading::at_once);  // it starts while this process fills the buffers
  buffers_.prepare(inputs, options);
  if (!fresh)
    if (auto ready = cell_.await_copy(deadline_in(options.deadline_s)); !ready) return die(ready.error());
  cell_.set_addresses(buffers_.arena());
  // An empty request first, so that a new copy's threads have waited and answered once before they are timed.
  if (const auto empty = cell_.ring(cell::Command::nothing, deadline_in(options.deadline_s)); !empty)
    return die(empty.error());
  buffers_.arena().flush_caches();
  const auto ring = cell_.ring(cell::Command::run, deadline_in(options.deadline_s));
  if (!ring) return die(ring.error());
  if (auto trouble = buffers_.inspect(inputs, outputs, options)) return die(*trouble);

  Sample sample;
  sample.seconds = std::max(ring->wall_s - handshake_s_, 0.0);
  if (!ring->settled) {  // no candidate code had run in this process, so it was not the candidate
    sample.disturbance =
        "the machine was so busy that the threads of the run could not go to sleep before it";
    sample.disturber = Sample::Disturber::host;
  }
  if (options.timed && sample.seconds < shortest_in_handshakes * handshake_s_)
    return die(fault_of(
        Fault::Kind::too_short,
        fmt::format("a run took {:.1f} us, less than the limit of {:.1f} us ({:.0f} handshakes of {:.1f} us)",
                    1e6 * sample.seconds, 1e6 * shortest_in_handshakes * handshake_s_, shortest_in_handshakes,
                    1e6 * handshake_s_)));
  return sample;
}

Expected<JudgedBuffers> JudgedBuffers::create(const Plan& plan, std::span<const Repetition> repetitions) {
  auto arena = Arena::create(plan, secret(), repetitions);
  if (!arena) return tl::make_unexpected(arena.error());
  Plan stored = plan;
  for (std::size_t i = 0; i < stored.buffers.size(); ++i) stored.buffers[i].bytes = arena->data(i).size();
  return JudgedBuffers(stored, std::move(*arena));
}

void JudgedBuffers::prepare(const RunInputs& inputs, const RunOptions& options) {
  // Timed runs keep the offset within a page, because it affects speed, and move by whole pages. Checked runs
  // have these placements too, so that none belongs to timed runs alone, and one that catches accesses past
  // the end.
  static constexpr Placement checked[] = {Placement::against_end, Placement::start, Placement::shifted};
  static constexpr Placement timed[] = {Placement::start, Placement::shifted};
  arena_.place(options.timed ? timed[runs_ % 2] : checked[(options.placement + runs_) % 3]);
  ++runs_;
  std::size_t next_input = 0;
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    const auto& buffer = plan_.buffers[i];
    if (buffer.use == PlannedBuffer::Use::input) {
      const auto contents = inputs[next_input++].bytes;
      if (contents.size() != buffer.bytes) throw std::logic_error("wrong size of input " + buffer.name);
      arena_.fill(i, contents);
    } else if (!buffer.zero && buffer.starts_as < 0) {
      arena_.poison(i, poison_of(options, i));
    }
  }
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
    if (const int input = plan_.buffers[i].starts_as; input >= 0)
      arena_.fill(i, arena_.data(static_cast<std::size_t>(input)));
  arena_.write_canaries();
}

std::optional<Fault> JudgedBuffers::inspect(const RunInputs& inputs,
                                            std::span<std::vector<std::byte>> outputs,
                                            const RunOptions& options) {
  std::size_t next_input = 0, next_output = 0;
  unwritten_ = 0;
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    if (plan_.buffers[i].use != PlannedBuffer::Use::output) continue;
    const std::span<const std::byte> data = arena_.data(i);
    const std::span<const ElementRange> wanted = next_output < options.wanted.size()
                                                     ? std::span(options.wanted[next_output])
                                                     : std::span<const ElementRange>{};
    auto& output = outputs[next_output++];
    if (wanted.empty() || output.size() != data.size()) {
      output.assign(data.begin(), data.end());
    } else {
      const std::size_t width = plan_.buffers[i].element_bytes;
      for (const ElementRange& range : wanted) {
        const std::size_t first = static_cast<std::size_t>(range.first) * width;
        std::memcpy(output.data() + first, data.data() + first,
                    static_cast<std::size_t>(range.count) * width);
      }
    }
    if (plan_.buffers[i].starts_as < 0) unwritten_ += arena_.still_poisoned(data, poison_of(options, i));
  }
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    if (plan_.buffers[i].use != PlannedBuffer::Use::input) continue;
    if (!arena_.holds(i, inputs[next_input++].bytes))
      return Fault{Fault::Kind::input_changed,
                   fmt::format("the kernel changed the input '{}'", plan_.buffers[i].name)};
  }
  if (auto broken = arena_.broken_canary()) return Fault{Fault::Kind::guard_overwritten, "it " + *broken};
  return std::nullopt;
}

tl::expected<std::unique_ptr<HostContenderSession>, Fault> HostContenderSession::open(
    const ContenderFile& file, const ContenderSettings& settings, const Task& task, const Workload& workload,
    int threads, Target target) {
  const auto failed = [](Fault::Kind kind, const Error& why) {
    return tl::make_unexpected(Fault{kind, why.message});
  };
  const auto library = ContenderLibrary::load(file.library, task, target);
  if (!library) return failed(Fault::Kind::load_failed, library.error());
  library->warm_up({task, workload, {}, threads, nullptr, file.program, settings});
  auto buffers = JudgedBuffers::create(contender_plan(task, workload));
  if (!buffers) return failed(Fault::Kind::launch_failed, buffers.error());
  std::unique_ptr<HostContenderSession> session(new HostContenderSession(std::move(*buffers)));
  const std::vector<void*> tensors = session->addresses();
  auto prepared = PreparedContender::prepare(
      *library, {task, workload, tensors, threads, nullptr, file.program, settings});
  if (!prepared)
    return failed(prepared.error().kind == ErrorKind::unsupported ? Fault::Kind::unsupported
                  : prepared.error().kind == ErrorKind::missing   ? Fault::Kind::load_failed
                                                                  : Fault::Kind::contender_failed,
                  prepared.error());
  session->contender_ = std::move(*prepared);
  return session;
}

std::vector<void*> HostContenderSession::addresses() const {
  std::vector<void*> all;
  for (std::size_t i = 0; i < buffers_.size(); ++i) all.push_back(buffers_.arena().data(i).data());
  return all;
}

tl::expected<Sample, Fault> HostContenderSession::run(const RunInputs& inputs,
                                                      std::span<std::vector<std::byte>> outputs,
                                                      const RunOptions& options) {
  if (dead_) return tl::make_unexpected(*dead_);
  const auto die = [this](Fault why) {
    dead_ = why;
    return tl::make_unexpected(std::move(why));
  };
  buffers_.prepare(inputs, options);
  if (options.timed) buffers_.arena().flush_caches();
  const std::vector<void*> tensors = addresses();
  const double begin = raw_seconds();
  const Expected<void> launched = contender_->launch(tensors, nullptr, options.deadline_s);
  const double seconds = raw_seconds() - begin;
  if (!launched) return die({Fault::Kind::contender_failed, launched.error().message});
  if (const auto completed = contender_->results(tensors); !completed)
    return die({Fault::Kind::contender_failed, completed.error().message});
  if (auto trouble = buffers_.inspect(inputs, outputs, options)) return die(*trouble);
  Sample sample;
  sample.seconds = seconds;
  return sample;
}

}  // namespace cultivar

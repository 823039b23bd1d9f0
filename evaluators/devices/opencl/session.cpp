// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/opencl/session.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "evaluators/system/process.hpp"

namespace cultivar {
namespace {

using nlohmann::json;
using opencl::Request;

// By how much the time around a run may exceed that of its events: the launches of a plan and the wake-ups.
// On an idle machine PoCL takes 10 to 40 us for them.
constexpr double kLaunchSeconds = 100e-6;
// The shortest run that is timed, in handshakes, as on the cpu target.
constexpr double kShortestInHandshakes = 20.0;
// The same where a device of its own tells the time: 20 times the usual resolution of its events.
constexpr double kShortestOfEvents = 20e-6;

auto refused(std::string detail) {
  return tl::make_unexpected(Fault{Fault::Kind::launch_failed, std::move(detail)});
}

tl::expected<json, Fault> job_of(const OpenclSessionOptions& options, const Plan& plan, const Arena& arena) {
  if (plan.buffers.size() > opencl::most_buffers)
    return refused(fmt::format("the plan has {} buffers; it must have at most {}", plan.buffers.size(),
                               opencl::most_buffers));
  json job{{"binary", options.binary.string()}, {"copies", options.copies},
           {"regions", json::array()},          {"buffers", json::array()},
           {"launches", launches_json(plan)},   {"counters", options.counters}};
  for (const cell::Region& region : arena.regions())
    job["regions"].push_back({{"address", region.address},
                              {"bytes", region.bytes},
                              {"offset", region.offset},
                              {"input", region.input != 0}});
  for (const PlannedBuffer& buffer : plan.buffers)
    job["buffers"].push_back({{"bytes", buffer.bytes},
                              {"input", buffer.use == PlannedBuffer::Use::input},
                              {"zero", buffer.use == PlannedBuffer::Use::workspace && buffer.zero}});
  return job;
}

Fault fault(Fault::Kind kind, std::string detail) {
  return Fault{kind, std::move(detail)};
}
auto failed(std::string why) {
  return tl::make_unexpected(fault(Fault::Kind::launch_failed, std::move(why)));
}

// bubblewrap exits with 128 and the number of the signal that ended its child.
ExitStatus end_of_child(ExitStatus status) {
  if (status.signal == 0 && status.code > 128) status.signal = std::exchange(status.code, 0) - 128;
  return status;
}

std::string_view remedy_after(int signal) {
  if (signal == SIGFPE) return "Look for a division of whole numbers by 0, for this shape.";
  if (signal == SIGILL) return "Look for __builtin_trap and __builtin_unreachable.";
  return "Look for indices beyond a buffer and for large private arrays, for this shape.";
}

using nlohmann::json;

json scalar(const PlannedArgument& argument) {
  std::uint64_t bits = 0;
  const std::size_t bytes = size_of(argument.type);
  encode(argument.type, {&argument.value, 1}, std::as_writable_bytes(std::span(&bits, 1)).first(bytes));
  return {{"bytes", bytes}, {"bits", bits}};
}

}  // namespace

OpenclSession::OpenclSession(JudgedBuffers buffers, OpenclCell cell, std::size_t launches, bool apart)
    : buffers_(std::move(buffers)), cell_(std::move(cell)), launches_(launches), apart_(apart) {}

tl::expected<std::unique_ptr<OpenclSession>, Fault> OpenclSession::open(const OpenclSessionOptions& options,
                                                                        const Plan& plan, double deadline_s) {
  const auto deadline = deadline_in(deadline_s);
  auto buffers = JudgedBuffers::create(plan);
  if (!buffers) return refused(buffers.error().message);
  Plan own = plan;
  std::erase_if(own.kernels,
                [](const PlannedKernel& kernel) { return kernel.kernel == opencl::check_begin; });
  const auto job = job_of(options, own, buffers->arena());
  if (!job) return tl::make_unexpected(job.error());
  auto cell = OpenclCell::start(options.program, *job, buffers->arena(), options.folder, options.binary,
                                options.memory_bytes, deadline);
  if (!cell) return tl::make_unexpected(cell.error());
  std::unique_ptr<OpenclSession> session(
      new OpenclSession(std::move(*buffers), std::move(*cell), own.kernels.size(), options.copies));
  session->cell_.set_explain([arena = &session->buffers_.arena()](std::uint64_t address) {
    return arena->describe_address(address);
  });
  if (const auto warm = session->warm_up(deadline); !warm) return tl::make_unexpected(warm.error());
  return session;
}

tl::expected<void, Fault> OpenclSession::place(Clock::time_point deadline) {
  Request request{Request::Kind::prepare, 0, {}};
  for (std::size_t i = 0; i < buffers_.size(); ++i) request.addresses[i] = buffers_.arena().cell_address(i);
  const auto placed = cell_.ask(request, deadline);
  if (!placed) return tl::make_unexpected(placed.error());
  return {};
}

// Before candidate code runs, so that no kernel can make an empty request look slow.
tl::expected<void, Fault> OpenclSession::warm_up(Clock::time_point deadline) {
  std::array<double, 16> times{};
  for (double& time : times) {
    const auto empty = cell_.ask({Request::Kind::nothing, 0, {}}, deadline);
    if (!empty) return tl::make_unexpected(empty.error());
    time = empty->wall_s;
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 4, times.end());
  handshake_s_ = std::min(times[times.size() / 4], kLaunchSeconds);
  if (const auto placed = place(deadline); !placed) return placed;
  for (const Request::Kind kind : {Request::Kind::run, Request::Kind::lock})
    if (const auto done = cell_.ask({kind, 0, {}}, deadline); !done) return tl::make_unexpected(done.error());
  return {};
}

tl::expected<Sample, Fault> OpenclSession::run(const RunInputs& inputs,
                                               std::span<std::vector<std::byte>> outputs,
                                               const RunOptions& options) {
  if (dead_) return tl::make_unexpected(*dead_);
  const auto die = [this](Fault why) {
    dead_ = why;
    return tl::make_unexpected(std::move(why));
  };
  const auto deadline = deadline_in(options.deadline_s);
  buffers_.prepare(inputs, options);
  if (const auto placed = place(deadline); !placed) return die(placed.error());
  buffers_.arena().flush_caches();
  const auto done = cell_.ask({Request::Kind::run, 0, {}}, deadline);
  if (!done) return die(done.error());
  if (auto trouble = buffers_.inspect(inputs, outputs, options)) return die(*trouble);

  Sample sample;
  const double most = std::max(done->wall_s - handshake_s_, 0.0);
  const double told = done->reply.seconds;
  const double slack = 2.0 * handshake_s_ + kLaunchSeconds * static_cast<double>(launches_);
  const bool agrees = told >= 0.0 && told <= most && (apart_ || most - told <= slack);
  sample.seconds = agrees ? told : most;
  const double shortest = apart_ ? kShortestOfEvents : kShortestInHandshakes * handshake_s_;
  if (options.timed && sample.seconds < shortest)
    return die({Fault::Kind::too_short,
                fmt::format("a run took {:.1f} us, less than the limit of {:.1f} us{}", 1e6 * sample.seconds,
                            1e6 * shortest,
                            apart_ ? std::string()
                                   : fmt::format(" ({:.0f} handshakes of {:.1f} us)", kShortestInHandshakes,
                                                 1e6 * handshake_s_))});
  return sample;
}

OpenclCell::OpenclCell(ChildProcess process, UniqueDescriptor socket)
    : process_(std::move(process)), socket_(std::move(socket)) {}

tl::expected<OpenclCell, Fault> OpenclCell::start(const OpenclProgram& program, const nlohmann::json& job,
                                                  const Arena& arena, const std::filesystem::path& folder,
                                                  const std::filesystem::path& binary,
                                                  std::size_t memory_bytes, Clock::time_point deadline) {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return failed("cannot create a socket: no file descriptors are left");
  UniqueDescriptor here(ends[0]), there(ends[1]);
  const UniqueDescriptor read_only(arena.inputs().open_read_only());
  OpenclProgram::Start start = program.start({"run", job.dump()}, folder, {binary});
  start.process.descriptors = {read_only.number() >= 0 ? read_only.number() : arena.inputs().descriptor(),
                               arena.others().descriptor(), there.number()};
  if (memory_bytes > 0) start.process.limits.emplace_back(RLIMIT_AS, arena.mapped_bytes() + memory_bytes);
  auto child = start.spawn();
  if (!child) return failed(child.error().message);
  OpenclCell cell(std::move(*child), std::move(here));
  const auto ready = cell.hear(deadline);
  if (!ready) return tl::make_unexpected(ready.error());
  if (ready->kind != opencl::Reply::Kind::ready)
    return tl::make_unexpected(fault(Fault::Kind::load_failed, ready->text));
  cell.ready_ = true;
  return cell;
}

tl::expected<OpenclCell::Answer, Fault> OpenclCell::ask(opencl::Request request, Clock::time_point deadline) {
  request.number = ++requests_;
  const double before = raw_seconds();
  if (::send(socket_.number(), &request, sizeof request, MSG_NOSIGNAL) !=
      static_cast<ssize_t>(sizeof request))
    return tl::make_unexpected(died());
  auto reply = hear(deadline);
  const double wall = raw_seconds() - before;
  if (!reply) return tl::make_unexpected(reply.error());
  if (reply->kind == opencl::Reply::Kind::refused)
    return failed(fmt::format("OpenCL does not accept the launch: {}", reply->text));
  if (reply->kind == opencl::Reply::Kind::failed)
    return tl::make_unexpected(fault(Fault::Kind::crashed, fmt::format("the device ended the kernel: {}\n{}",
                                                                       reply->text, remedy_after(SIGSEGV))));
  if (reply->kind == opencl::Reply::Kind::changed)
    return tl::make_unexpected(fault(
        Fault::Kind::input_changed,
        fmt::format("the kernel changed {}", explain_ ? explain_(reply->address) : std::string("an input"))));
  if (reply->kind != opencl::Reply::Kind::done || reply->number != request.number)
    return tl::make_unexpected(
        fault(Fault::Kind::crashed, "the kernel wrote into its own process: its reply is odd"));
  return Answer{*reply, wall};
}

tl::expected<opencl::Reply, Fault> OpenclCell::hear(Clock::time_point deadline) {
  for (;;) {
    pollfd wait{socket_.number(), POLLIN, 0};
    const int ready = ::poll(&wait, 1, 20);
    if (ready > 0) {
      opencl::Reply reply;
      const ssize_t got = ::recv(socket_.number(), &reply, sizeof reply, MSG_DONTWAIT);
      if (got != static_cast<ssize_t>(sizeof reply)) return tl::make_unexpected(died());
      reply.text[sizeof reply.text - 1] = '\0';
      if (reply.kind != opencl::Reply::Kind::signal) return reply;
      last_words_ = reply;
    }
    if (Clock::now() >= deadline) return tl::make_unexpected(timed_out());
  }
}

Fault OpenclCell::timed_out() {
  process_.kill();
  process_.wait(deadline_in(5.0));
  return fault(Fault::Kind::timed_out, ready_
                                           ? "the kernel did not finish before the deadline and was killed"
                                           : "the OpenCL driver did not load the kernel before the deadline");
}

Fault OpenclCell::died() {
  if (!process_.wait(deadline_in(5.0))) {
    process_.kill();
    process_.wait(deadline_in(5.0));
  }
  const ExitStatus* const over = process_.poll();
  const ExitStatus status = over != nullptr ? end_of_child(*over) : ExitStatus{};
  const int told = last_words_.kind == opencl::Reply::Kind::signal ? static_cast<int>(last_words_.number) : 0;
  if (!ready_)
    return fault(Fault::Kind::launch_failed, fmt::format("the OpenCL process {} before the kernels ran: {}",
                                                         status.describe(), process_.captured()));
  if (status.signal == SIGKILL && out_of_memory_kills() > memory_kills_before_)
    return fault(Fault::Kind::memory_limit,
                 fmt::format("the system killed the kernel's process at {}", memory_limit_in_words()));
  if (sent_from_outside(status.signal))
    return fault(Fault::Kind::killed, fmt::format("the kernel's process was killed from outside ({})",
                                                  signal_name(status.signal)));
  if (status.signal == SIGSYS)
    return fault(Fault::Kind::forbidden_call, "the kernel made a forbidden system call (abort, or a file)");
  if (status.signal == 0)
    return fault(Fault::Kind::crashed,
                 fmt::format("the kernel ended its own process ({})", status.describe()));
  std::string where;
  if (told == status.signal && told == SIGSEGV) {
    if (explain_) where = explain_(last_words_.address);
    if (where.empty()) where = fmt::format("address {:#x}", last_words_.address);
    where.insert(0, " at ");
  }
  return fault(Fault::Kind::crashed,
               fmt::format("{}{}\n{}", signal_name(status.signal), where, remedy_after(status.signal)));
}

json launches_json(const Plan& plan) {
  json launches = json::array();
  for (const PlannedKernel& planned : plan.kernels) {
    json arguments = json::array();
    for (const PlannedArgument& argument : planned.args)
      arguments.push_back(argument.kind == PlannedArgument::Kind::buffer ? json{{"buffer", argument.index}}
                                                                         : scalar(argument));
    launches.push_back({{"kernel", planned.kernel},
                        {"global", planned.launch.three("global")},
                        {"local", planned.launch.three("local")},
                        {"local_bytes", planned.launch.number("local_bytes", 0)},
                        {"arguments", std::move(arguments)}});
  }
  return launches;
}

}  // namespace cultivar

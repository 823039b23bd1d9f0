// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/opencl/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "evaluators/devices/opencl/launches_json.hpp"

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

}  // namespace cultivar

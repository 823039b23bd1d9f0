// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/opencl/cell_process.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <utility>

#include "evaluators/system/outside_signal.hpp"

namespace cultivar {
namespace {

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

}  // namespace

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

}  // namespace cultivar

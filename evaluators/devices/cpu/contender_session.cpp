// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cpu/contender_session.hpp"

#include "evaluators/devices/cpu/cell_process.hpp"

namespace cultivar {

tl::expected<std::unique_ptr<HostContenderSession>, Fault> HostContenderSession::open(
    const ContenderFile& file, const ContenderSettings& settings, const Task& task, const Workload& workload,
    int threads, Target target) {
  const auto failed = [](Fault::Kind kind, const Error& why) {
    return tl::make_unexpected(Fault{kind, why.message});
  };
  const auto library = ContenderLibrary::load(file.library, task, target);
  if (!library) return failed(Fault::Kind::load_failed, library.error());
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

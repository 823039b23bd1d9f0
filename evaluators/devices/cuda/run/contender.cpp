// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/contender.hpp"

namespace cultivar::cuda {
namespace {

constexpr double kSettleSeconds = 20.0;  // for work that prepare left on the device

}  // namespace

tl::expected<std::unique_ptr<Contender>, Fault> Contender::open(Gpu& gpu, const ContenderFile& file,
                                                                const ContenderSettings& settings,
                                                                const Task& task, const Workload& workload,
                                                                std::span<const Address> tensors) {
  const auto library = ContenderLibrary::load(file.library, task, target_named("cuda"));
  if (!library) return tl::make_unexpected(Fault{Fault::Kind::load_failed, library.error().message});
  std::unique_ptr<Contender> contender(new Contender(gpu));
  contender->place(tensors);
  auto prepared = PreparedContender::prepare(
      *library, {task, workload, contender->tensors_, 0, gpu.stream(), file.program, settings});
  // prepare may have used its own streams. A fault there belongs to this contender, not to the next one that
  // runs.
  if (const Result left = gpu.driver().CtxSynchronize(); left != result::success)
    return tl::make_unexpected(gpu.fault_of(left, library->name() + ": prepare"));
  if (auto unfinished = gpu.wait(deadline_in(kSettleSeconds), library->name() + ": prepare"))
    return tl::make_unexpected(std::move(*unfinished));
  if (!prepared)
    return tl::make_unexpected(
        Fault{prepared.error().kind == ErrorKind::unsupported ? Fault::Kind::unsupported
              : prepared.error().kind == ErrorKind::missing   ? Fault::Kind::load_failed
                                                              : Fault::Kind::contender_failed,
              prepared.error().message});
  contender->prepared_ = std::move(*prepared);
  return contender;
}

Contender::~Contender() {
  if (prepared_ && gpu_.lost()) prepared_->abandon();
}

std::optional<Fault> Contender::place(std::span<const Address> tensors) {
  tensors_.clear();
  for (const Address address : tensors) tensors_.push_back(reinterpret_cast<void*>(address));
  return std::nullopt;
}

std::optional<Fault> Contender::launch(double deadline_s) {
  const Expected<void> queued = prepared_->launch(tensors_, gpu_.stream(), deadline_s);
  if (queued) return std::nullopt;
  return Fault{Fault::Kind::contender_failed, queued.error().message};
}

std::optional<Fault> Contender::results() {
  const Expected<void> completed = prepared_->results(tensors_);
  if (completed) return std::nullopt;
  return Fault{Fault::Kind::contender_failed, completed.error().message};
}

}  // namespace cultivar::cuda

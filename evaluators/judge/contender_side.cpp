#include "evaluators/judge/contender_side.hpp"

#include <fmt/format.h>

#include "evaluators/judge/sampler.hpp"
#include "evaluators/judge/stages.hpp"

namespace cultivar {
namespace {

class Contender : public Session {
 public:
  Contender(const CascadeSite& site, Stage stage, std::string name, const Workload& workload)
      : site_(site), stage_(stage), name_(std::move(name)), workload_(workload) {}

  ~Contender() override {
    if (!session_) return;
    call("release");
    session_.reset();
    back();
  }

  std::optional<Evaluation> open(const Compiled& compiled) {
    call("prepare");
    auto opened = site_.device.open_contender(compiled.library, site_.task, workload_, site_.run_deadline_s);
    back();
    if (opened) {
      session_ = std::move(*opened);
      return std::nullopt;
    }
    fail_with_the_device(opened.error());
    // Independent of the workload, and advice for kernels would not apply.
    if (opened.error().kind == Fault::Kind::load_failed)
      return rejection(Stage::lint, "the library cannot be used", opened.error().detail + "\n");
    return rejection_of(stage_, opened.error(), workload_.name);
  }

  tl::expected<Sample, Fault> run(const RunInputs& inputs, std::span<std::vector<std::byte>> outputs,
                                  const RunOptions& options) override {
    call("run");
    auto ran = session_->run(inputs, outputs, options);
    back();
    if (!ran) fail_with_the_device(ran.error());
    return ran;
  }
  std::size_t unwritten_elements() const override { return session_->unwritten_elements(); }

 private:
  void call(const char* what) const {
    site_.announce({stage_, name_, fmt::format("contender {}: {} on {}", name_, what, workload_.name)});
  }
  void back() const { site_.announce({stage_, {}, fmt::format("{} {}", name_of(stage_), workload_.name)}); }
  void fail_with_the_device(const Fault& fault) const {
    if (!site_.device.usable()) throw ContenderBrokeDevice(name_, workload_.name + ": " + fault.detail);
  }

  const CascadeSite& site_;
  Stage stage_;
  std::string name_;
  const Workload& workload_;
  std::unique_ptr<Session> session_;
};

}  // namespace

tl::expected<std::unique_ptr<Session>, Evaluation> open_side(const CascadeSite& site, Stage stage,
                                                             const Compiled& compiled,
                                                             const Workload& workload) {
  if (!compiled.is_library())
    return open_session(site.device, stage, site.task, compiled, workload, workload.name,
                        site.run_deadline_s);
  auto contender = std::make_unique<Contender>(site, stage, compiled.variant.manifest.name, workload);
  if (auto refused = contender->open(compiled)) return tl::make_unexpected(std::move(*refused));
  return contender;
}

std::optional<Evaluation> check_contender(const CascadeSite& site, Stage stage, const Compiled& compiled,
                                          const Workload& workload, std::uint64_t seed) {
  Checker checker(
      site.device, site.task, site.oracle,
      {.run_deadline_s = site.run_deadline_s, .oracle_flops = kContenderFlops, .stock = site.stock});
  checker.open_with([&] { return open_side(site, stage, compiled, workload); });
  return checker.check(stage, compiled, workload, seed);
}

}  // namespace cultivar

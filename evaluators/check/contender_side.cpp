#include "evaluators/check/contender_side.hpp"

#include <fmt/format.h>

#include "evaluators/check/stages.hpp"
#include "evaluators/timing/sampler.hpp"

namespace cultivar {
namespace {

constexpr std::string_view kPrefix = "contender ", kUnusable = "it cannot be used";

class Contender : public Session {
 public:
  Contender(const CascadeSite& site, Stage stage, std::string name, const Workload& workload)
      : site_(site), stage_(stage), name_(std::move(name)), workload_(workload) {}

  ~Contender() override {
    if (!session_) return;
    site_.announce(contender_progress(name_, "release on " + workload_.name));
    session_.reset();
    back();
  }

  std::optional<Evaluation> open(const Compiled& compiled) {
    site_.announce(contender_progress(name_, "prepare on " + workload_.name));
    auto opened = site_.device.open_contender(compiled.library, site_.task, workload_, site_.run_deadline_s);
    back();
    if (opened) {
      session_ = std::move(*opened);
      return std::nullopt;
    }
    fail_with_the_device(opened.error());
    // Of no workload in particular, and no advice for kernels would help.
    if (opened.error().kind == Fault::Kind::load_failed)
      return rejection(Stage::lint, std::string(kUnusable), opened.error().detail + "\n");
    return rejection_of(stage_, opened.error(), workload_.name);
  }

  tl::expected<Sample, Fault> run(const RunInputs& inputs, std::span<std::vector<std::byte>> outputs,
                                  const RunOptions& options) override {
    site_.announce(contender_progress(name_, "run on " + workload_.name));
    auto ran = session_->run(inputs, outputs, options);
    back();
    if (!ran) fail_with_the_device(ran.error());
    return ran;
  }
  std::size_t unwritten_elements() const override { return session_->unwritten_elements(); }

 private:
  void back() const { site_.announce(fmt::format("{} {}", name_of(stage_), workload_.name)); }
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

std::string contender_progress(const std::string& name, const std::string& doing) {
  return fmt::format("{}{}: {}", kPrefix, name, doing);
}

std::string unusable_contender(const std::string& name) {
  return fmt::format("{}{}: {}\n", kPrefix, name, kUnusable);
}

bool contender_in_progress(const std::string& progress) {
  return progress.starts_with(kPrefix);
}

std::string contender_in_progress(const std::string& progress, const std::vector<std::string>& names) {
  std::string longest;  // a name may hold what parts it from the rest
  for (const std::string& name : names)
    if (progress.starts_with(contender_progress(name, "")) && name.size() > longest.size()) longest = name;
  return longest;
}

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

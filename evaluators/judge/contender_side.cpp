// SPDX-License-Identifier: Apache-2.0
#include "evaluators/judge/contender_side.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "evaluators/judge/requests.hpp"
#include "evaluators/judge/sampler.hpp"
#include "evaluators/judge/stages.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"

namespace cultivar {

namespace {

// Calls a function every few seconds, from a thread of its own.
class Heartbeat {
 public:
  explicit Heartbeat(std::function<void(double seconds)> beat)
      : thread_([this, beat = std::move(beat)] {
          const Clock::time_point start = Clock::now();
          std::unique_lock lock(mutex_);
          while (!ending_.wait_for(lock, std::chrono::seconds(5), [this] { return end_; }))
            beat(seconds_since(start));
        }) {}
  ~Heartbeat() {
    {
      const std::lock_guard lock(mutex_);
      end_ = true;
    }
    ending_.notify_one();
    thread_.join();
  }
  Heartbeat(const Heartbeat&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ending_;
  bool end_ = false;
  std::thread thread_;  // last: it uses the members above
};

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
    auto opened = [&] {
      const Heartbeat alive([this](double seconds) {
        site_.announce({stage_, name_,
                        fmt::format("contender {}: prepare on {} ({:.0f} s of at most {:.0f} s)", name_,
                                    workload_.name, seconds, site_.contenders.prepare_s)});
      });
      return site_.device.open_contender({compiled.library, compiled.program}, site_.contenders, site_.task,
                                         workload_);
    }();
    back();
    if (opened) {
      session_ = std::move(*opened);
      return std::nullopt;
    }
    fail_with_the_device(opened.error());
    // Independent of the workload, and advice for kernels would not apply.
    if (opened.error().kind == Fault::Kind::load_failed)
      return rejection(Stage::lint, "the contender cannot be used", opened.error().detail + "\n");
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

Compiled library_contender(const std::string& name, const ContenderFile& file, Target target) {
  const std::filesystem::path& library = file.library;
  auto bytes = read_file(library);
  if (!bytes) throw InputError(fmt::format("the contender {} ({}) cannot be read", name, library.string()));
  *bytes += file.program;
  if (file.program.ends_with(".py")) {
    const auto program = read_file(file.program);
    if (!program) throw InputError(fmt::format("the contender {} ({}) cannot be read", name, file.program));
    *bytes += *program;
  }
  Compiled contender;
  contender.library = library;
  contender.program = file.program;
  contender.variant.manifest.name = name;
  contender.variant.manifest.target = target;
  contender.variant.id = sha256_hex(*bytes);
  return contender;
}

}  // namespace cultivar

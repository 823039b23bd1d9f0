// SPDX-License-Identifier: Apache-2.0
// runs alone
// Stage 10 on a real cpu device with fake instruments: what they reject, how often runs are repeated, and
// that every run of a profile is checked.
#include "evaluators/judge/profiling.hpp"
#include "evaluators/check/oracle.hpp"

#include "evaluators/worker/protocol.hpp"
#include "nlohmann/json.hpp"
#include "support/cpu_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cpu_test;

namespace {

struct StandIn : Instruments {
  std::optional<Error> refusal, failure_later;
  std::size_t wanted_passes = 1;
  mutable std::size_t asked = 0;
  int ended = 0;
  int period = 0;

  Expected<void> begin_counting(bool, std::size_t, Replay) override {
    if (refusal) return tl::make_unexpected(*refusal);
    return {};
  }
  Expected<bool> counted() const override {
    if (failure_later) return tl::make_unexpected(*failure_later);
    return ++asked >= wanted_passes;
  }
  Expected<std::vector<CounterValues>> end_counting() override {
    ++ended;
    return std::vector<CounterValues>{};
  }
  std::size_t passes() const override { return 3; }
  Expected<void> begin_sampling(int every) override {
    period = every;
    if (refusal) return tl::make_unexpected(*refusal);
    return {};
  }
  Expected<PcSamples> end_sampling(const std::filesystem::path&) override {
    ++ended;
    return PcSamples{};
  }
};

struct Instrumented : Device {
  StandIn tools;
  int opened = 0;
  const Facts& facts() const override { return device().facts(); }
  DeviceInfo info() const override { return device().info(); }
  const Ceilings& ceilings() override { return device().ceilings(); }
  tl::expected<std::unique_ptr<Session>, Fault> open_repeating(const Binary& binary, const Plan& plan,
                                                               std::span<const Repetition> repetitions,
                                                               double deadline_s) override {
    ++opened;
    return device().open_repeating(binary, plan, repetitions, deadline_s);
  }
  Instruments* instruments() override { return &tools; }
};

const TaskReference& oracle() {
  static const Expected<TaskReference> built = open_reference(softmax(), cache_folder);
  BOOST_REQUIRE(built.has_value());
  return *built;
}

struct Profiled : Instrumented {
  ProfileRequest request;
  Profiled() {
    request.workload.name = "w";
    request.workload.values = {{"R", 4096}, {"C", 2000}};  // long beside a handshake with a thread that slept
    request.seed = 5;
    request.sampling.screening_seconds = 0.2;
    use("honest_softmax.cpp");
  }
  void use(const std::string& file) {
    const Variant variant = load_variant(source_folder / "tests/kernels" / file, softmax());
    Binary binary = compiled(variant);
    binary.macros = macros(variant, softmax(), request.workload);
    request.variant = Compiled{variant, {binary}, 0.0};
  }
  ProfilePartial run(ProfilePart part) {
    request.part = part;
    // As it travels to the worker and back.
    const ProfileRequest travelled =
        protocol::profile_request(nlohmann::json::parse(nlohmann::json(request).dump()), softmax());
    const CascadeSite site{*this, softmax(), oracle(), 10.0, [](const Activity&) {}, {}};
    return nlohmann::json::parse(nlohmann::json(run_profile(site, travelled)).dump()).get<ProfilePartial>();
  }
};

bool misses(const Profile& profile, const std::string& words) {
  for (const std::string& why : profile.missing)
    if (why.find(words) != why.npos) return true;
  return false;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(profiling, Profiled)

BOOST_AUTO_TEST_CASE(without_permission_it_is_said_and_not_tried_again) {
  tools.refusal = Error{ErrorKind::denied, "profile", "run as root"};
  for (const ProfilePart part : {ProfilePart::stalls, ProfilePart::counters}) {
    const ProfilePartial found = run(part);
    BOOST_TEST(!found.rejection.has_value());
    BOOST_TEST(!found.again);
    BOOST_TEST(misses(found.profile, "run as root"));
    BOOST_TEST(found.profile.flops > 0.0);  // what is known without running anything
    BOOST_TEST(found.profile.resources.contains("text_bytes"));
  }
  BOOST_TEST(opened == 0);
}

BOOST_AUTO_TEST_CASE(a_call_that_fails_is_named_and_may_be_tried_again) {
  tools.failure_later =
      Error{ErrorKind::failed, "RangeProfilerStart", "cuptiRangeProfilerStart: CUPTI_ERROR_UNKNOWN (999)"};
  const ProfilePartial found = run(ProfilePart::counters);
  BOOST_TEST(found.again);
  BOOST_TEST(misses(found.profile, "cuptiRangeProfilerStart: CUPTI_ERROR_UNKNOWN (999)"));
  BOOST_TEST(tools.ended == 0);
}

BOOST_AUTO_TEST_CASE(a_run_is_repeated_until_every_pass_is_counted_and_not_for_ever) {
  tools.wanted_passes = 3;
  const ProfilePartial found = run(ProfilePart::counters);
  BOOST_TEST(tools.asked == 3u);
  BOOST_TEST(tools.ended == 1);
  BOOST_TEST(found.profile.passes == 3);
  BOOST_TEST(!found.again);
  tools.asked = 0;
  tools.wanted_passes = 1000;
  const ProfilePartial endless = run(ProfilePart::counters);
  BOOST_TEST(tools.asked < 10u);
  BOOST_TEST(misses(endless.profile, "more passes than the 3"));
  BOOST_TEST(endless.again);
}

BOOST_AUTO_TEST_CASE(the_outputs_of_profiled_runs_are_checked) {
  use("cheats/writes_nothing.cpp");
  for (const ProfilePart part : {ProfilePart::stalls, ProfilePart::counters}) {
    const ProfilePartial found = run(part);
    BOOST_TEST(misses(found.profile, "not written"));
    BOOST_TEST(found.again);
  }
  BOOST_TEST(tools.ended == 0);
}

BOOST_AUTO_TEST_CASE(timing_is_timed_as_everything_is_and_knows_the_roofline) {
  const ProfilePartial found = run(ProfilePart::timing);
  BOOST_REQUIRE_MESSAGE(!found.rejection, (found.rejection ? found.rejection->reason : ""));
  BOOST_TEST(found.profile.median_us > 0.0);
  BOOST_TEST(found.profile.bytes_us > 0.0);
  BOOST_TEST(found.profile.unit.size() > 0u);
  BOOST_TEST(found.profile.workload == "w");
  BOOST_TEST(tools.ended == 0);
}

BOOST_AUTO_TEST_CASE(a_wrong_variant_is_rejected_where_it_is_timed) {
  use("cheats/writes_nothing.cpp");
  const ProfilePartial found = run(ProfilePart::timing);
  BOOST_REQUIRE(found.rejection.has_value());
  BOOST_TEST((found.rejection->stage == Stage::measure || found.rejection->stage == Stage::profile));
}

BOOST_AUTO_TEST_CASE(short_runs_are_sampled_more_often) {
  BOOST_TEST(sampling_period(10e-6) == 8);
  BOOST_TEST(sampling_period(3e-3) == 11);
  BOOST_TEST(sampling_period(0.15) == 16);
  BOOST_TEST(sampling_period(1e6) == 20);
  request.median_us = 3000.0;
  (void)run(ProfilePart::stalls);
  BOOST_TEST(tools.period == 11);
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-License-Identifier: Apache-2.0
// A third target in a language of its own, known by two lines of a table: its sources are parsed, planned,
// compiled, judged, bred and promoted by a search that was never told of it.
#include <boost/test/unit_test.hpp>
#include <fstream>

#include "engine/scaffold/task_folder.hpp"
#include "engine/search/search.hpp"
#include "engine/store/record.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"
#include "toy/device/toy_device.hpp"
#include "toy/language/toy_language.hpp"

using namespace cultivar;
using namespace cultivar::testing;
namespace fs = std::filesystem;

namespace {

std::string softmax(const std::string& name, const std::string& program,
                    const std::string& launch = "lanes: LANES") {
  return "; a toy\n(*--- cultivar\nname: " + name +
         "\ntask: softmax\ntarget: toy\nrequires: \"dtype == f32\"\n" +
         "tunables:\n  LANES: {values: [1, 4, 64], default: 1}\nlaunch:\n  - kernel: " + name + "\n    " +
         launch + "\n    args: [x, y, R, C]\n---*)\nkernel " + name + "\n" + program + "\n";
}

constexpr const char* kRight = "load max sub exp sum div store";

std::string error_of(const std::string& source) {
  const auto manifest = parse_manifest(source);
  return manifest ? "no error" : manifest.error().message;
}

std::string with(std::string text, const std::string& what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}
std::string in_comments_of_c(const std::string& source) {
  return with(with(with(source, ";", "//"), "(*---", "/*---"), "---*)", "---*/");
}

// The task softmax with workloads that suit a toy.
void write_search(const fs::path& folder) {
  fs::copy(fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks/softmax", folder / "softmax",
           fs::copy_options::recursive);
  std::ofstream(folder / "softmax/task.yaml", std::ios::app)
      << "  toy_quick:\n    about: milliseconds\n    dtype: f32\n    workloads:\n      - {R: 512, C: 256}\n"
      << "  toy_holdout:\n    about: unseen\n    dtype: f32\n    workloads:\n      - {R: 301, C: 133}\n";
  std::ofstream(folder / "right.toy") << softmax("right", kRight);
  std::ofstream(folder / "wrong.toy") << softmax("wrong", "load max sub exp sum store");
  std::ofstream(folder / "unknown.toy") << softmax("unknown", "load max sub exp sum divide store");
  std::ofstream(folder / "search.yaml") << "name: toy\ntask: softmax\ntarget: toy\nworkloads: toy_quick\n"
                                           "holdout: toy_holdout\nseeds: [right.toy, wrong.toy, "
                                           "unknown.toy]\nbudget: {evaluations: 12, wall: 4m}\n";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(toy_target)

BOOST_AUTO_TEST_CASE(its_launch_keys_are_its_own_and_errors_name_every_target) {
  const auto manifest = parse_manifest(softmax("right", kRight));
  BOOST_REQUIRE_MESSAGE(manifest, (manifest ? "" : manifest.error().message));
  BOOST_TEST(manifest->launch.front().values("lanes").size() == 1);
  BOOST_TEST(
      contains(error_of(softmax("k", kRight, "grid: [1, 1, 1]\n    lanes: 1")), "is only for target cuda"));
  BOOST_TEST(contains(error_of(softmax("k", kRight, "lanse: 1")), "'lanes' is missing"));
  std::string elsewhere = in_comments_of_c(softmax("k", kRight));
  elsewhere.replace(elsewhere.find("target: toy"), 11, "target: cpu");
  BOOST_TEST(contains(error_of(elsewhere), "launch[0].lanes: is only for target toy"));
  elsewhere.replace(elsewhere.find("target: cpu"), 11, "target: tpu");
  BOOST_TEST(contains(error_of(elsewhere), "known: cpu, cuda, toy"), error_of(elsewhere));
}

BOOST_AUTO_TEST_CASE(its_language_has_comments_and_words_of_its_own) {
  const std::string right = softmax("right", kRight);
  const auto manifest = parse_manifest(right);
  BOOST_REQUIRE(manifest);
  BOOST_TEST(name_of(manifest->language) == "toy_words");
  BOOST_TEST(
      name_of(parse_manifest(with(right, "target: toy", "target: toy\nlanguage: toy_words"))->language) ==
      "toy_words");
  BOOST_TEST(contains(error_of(with(right, "target: toy", "target: toy\nlanguage: cpp")),
                      "language: 'cpp' is not a language for target toy"));
  BOOST_TEST(
      contains(error_of(in_comments_of_c(right)), "a manifest in toy words begins with '(*--- cultivar'"));
  BOOST_TEST(contains(error_of(with(right, "target: toy", "target: cpu")),
                      "a manifest in C++ begins with '/*--- cultivar'"));
  BOOST_TEST(contains(error_of(with(right, "target: toy", "target: toy\nheaders: [a.h]")),
                      "headers: a source in toy words has no headers"));
  const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  const auto reserved = make_variant(with(right, "LANES: {", "exp: {"), task);
  BOOST_TEST(contains(reserved ? "" : reserved.error().message, "the name 'exp' is"));
  const auto written = make_variant(seed_source(task, toy::toy_language(), toy::toy_device(), "mine"), task);
  BOOST_TEST(written.has_value(), (written ? "" : written.error().message));
}

BOOST_AUTO_TEST_CASE(a_file_is_named_as_its_language_is) {
  const TemporaryFolder folder;
  const Task task = load_task(std::string(CULTIVAR_SOURCE_DIR) + "/configs/tasks/softmax");
  BOOST_TEST((language_by_extension("a/b.toy") == toy::toy_language()));
  BOOST_TEST((language_by_extension("a/b.txt") == nullptr));
  BOOST_TEST(is_source_for(toy::toy_device(), "b.toy"));
  BOOST_TEST(!is_source_for(target_named("cpu"), "b.toy"));
  std::ofstream(folder / "right.toy") << softmax("right", kRight);
  BOOST_TEST((load_variant(folder / "right.toy", task).manifest.language == toy::toy_language()));
  std::ofstream(folder / "right.cu") << softmax("right", kRight);
  BOOST_CHECK_EXCEPTION(
      (void)load_variant(folder / "right.cu", task), InputError, [](const InputError& error) {
        return contains(
            error.what(),
            "right.cu:5: the manifest is of toy words, but a file *.cu is CUDA C++ (rename it to *.toy)");
      });
}

BOOST_AUTO_TEST_CASE(a_search_on_it_refuses_what_is_wrong_and_promotes_what_is_faster) {
  const TemporaryFolder folder;
  write_search(folder.path());
  Runtime runtime;
  runtime.programs = TOY_PROGRAMS;
  runtime.cache = folder / "cache";
  const Config config = load_config(folder / "search.yaml", {}, {folder.path()});
  BOOST_TEST(name_of(config.target) == "toy");
  const std::atomic<bool> never{false};
  const auto outcome = begin_search(config, folder / "run", runtime, {}, never);
  BOOST_REQUIRE_MESSAGE(outcome, (outcome ? "" : outcome.error().message));
  BOOST_TEST_INFO(outcome->reason);
  BOOST_REQUIRE(outcome->best != 0);

  const auto record = Record::open(folder / "run");
  BOOST_REQUIRE(record);
  BOOST_TEST(record->facts().target == "toy");
  std::map<std::string, std::string> refused;
  record->each_individual([&](const IndividualRow& row) {
    if (row.individual.descent.parents.empty()) refused[row.stage] += row.reason;
  });
  BOOST_TEST(contains(refused["compile"], "there is no instruction 'divide'"));
  BOOST_TEST(!refused["smoke"].empty());
  const auto best = record->individual(outcome->best), seed = record->individual(1);
  BOOST_TEST((best->individual.configuration.at("LANES") == TunableValue(std::int64_t{64})));
  BOOST_TEST(best->individual.fitness > 1.5 * seed->individual.fitness);
  BOOST_TEST(record->confirmation(outcome->best)->measured());

  const auto report = replay(folder / "run", runtime);
  BOOST_REQUIRE_MESSAGE(report, (report ? "" : report.error().message));
  for (const std::string& difference : report->differences) BOOST_ERROR(difference);
  BOOST_TEST(report->promotions >= 1);
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-License-Identifier: Apache-2.0
// What the parts of a search share, over the simulated evaluator: each part can be tested without the others.
#pragma once

#include <boost/test/unit_test.hpp>

#include "engine/search/evaluations.hpp"
#include "engine/search/host_faults.hpp"
#include "engine/search/pipeline.hpp"
#include "engine/search/proposals.hpp"
#include "engine/search/search.hpp"
#include "engine/store/recorded_run.hpp"
#include "support/simulated_evaluator.hpp"

namespace cultivar::testing {

struct SearchParts {
  explicit SearchParts(const Simulation& simulation = {}, const std::vector<std::string>& overrides = {},
                       int callers = 0)
      : config(softmax_config(scratch.path() / "config", overrides)),
        folder(scratch.path() / "run"),
        evaluator(simulation),
        writer(created()),
        sources(*config.task, [this](const std::string& id) { return writer.record().source_named(id); }),
        breeding(config, evaluator.devices()->front().facts, sources),
        recorder(writer, callbacks),
        dialogues(opened()),
        pipeline(evaluator, dialogues.get(), callers),
        second_tries(recorder),
        faults(recorder, config.evaluation.patience_s),
        proposals(config, folder, recorder, breeding, sources) {}

  // The jobs that come back, as long as there are any, to whoever handles them.
  void drain(const std::function<void(const JobPtr&)>& handle) {
    while (pipeline.in_flight() > 0) {
      const JobPtr job = pipeline.next(Clock::now() + std::chrono::seconds(60));
      BOOST_REQUIRE(job);
      BOOST_REQUIRE_MESSAGE(!job->trouble, (job->trouble ? job->trouble->text() : ""));
      handle(job);
    }
  }
  std::vector<EventRow> events(const std::string& kind) const {
    std::vector<EventRow> all = writer.record().events(1000);
    std::erase_if(all, [&](const EventRow& event) { return event.kind != kind; });
    return all;
  }

  ScratchFolder scratch;
  Config config;
  RunFolder folder;
  SimulatedEvaluator evaluator;
  SearchCallbacks callbacks;
  RecordWriter writer;
  ParsedSources sources;
  Breeding breeding;
  Recorder recorder;
  std::unique_ptr<ModelDialogues> dialogues;
  Pipeline pipeline;
  SecondTries second_tries;
  HostFaults faults;
  Proposals proposals;

 private:
  RecordWriter created() {
    RunFacts facts;
    facts.name = config.name;
    facts.config_yaml = to_yaml(config);
    facts.task_name = config.task->name;
    facts.target = "cpu";
    facts.task_files = nlohmann::json::object();
    facts.environment = {{"compiler", "c"}, {"devices", nlohmann::json::array()}};
    facts.unit_of_fitness = "GB/s";
    for (const Workload& workload : config.task->workloads(config.workloads)->workloads)
      facts.workloads.push_back(workload.name);
    auto made = RecordWriter::create(folder, facts);
    BOOST_REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    return std::move(*made);
  }
  std::unique_ptr<ModelDialogues> opened() {
    auto models = make_models(config, folder);
    BOOST_REQUIRE(models);
    if (models->empty()) return nullptr;
    auto made = ModelDialogues::open(config, std::move(*models), folder, writer, {});
    BOOST_REQUIRE(made);
    return std::move(*made);
  }
};

}  // namespace cultivar::testing

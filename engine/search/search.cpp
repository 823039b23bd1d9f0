// SPDX-License-Identifier: Apache-2.0
#include "engine/search/search.hpp"

#include <SQLiteCpp/Exception.h>
#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/config/asking_settings.hpp"
#include "engine/config/duration.hpp"
#include "engine/history/rebuild.hpp"
#include "engine/search/announcements.hpp"
#include "engine/search/beginning.hpp"
#include "engine/search/model_dialogues.hpp"
#include "engine/search/search_end.hpp"
#include "engine/search/search_loop.hpp"
#include "engine/search/trust.hpp"
#include "engine/store/decision_kind.hpp"
#include "engine/store/recorded_run.hpp"
#include "engine/store/run_folder.hpp"
#include "engine/store/schema.hpp"
#include "engine/store/submissions.hpp"
#include "engine/store/summary.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using nlohmann::json;

std::string_view name_of(Outcome::Stop stop) {
  switch (stop) {
    case Outcome::Stop::wall:
      return "wall";
    case Outcome::Stop::evaluations:
      return "evaluations";
    case Outcome::Stop::device:
      return "device_hours";
    case Outcome::Stop::plateau:
      return "plateau";
    case Outcome::Stop::models:
      return "models";
    case Outcome::Stop::exhausted:
      return "exhausted";
    case Outcome::Stop::turn:
      return "turn";
    case Outcome::Stop::letters:
      return "letters";
    case Outcome::Stop::interrupted:
      return "interrupted";
    case Outcome::Stop::failed:
      break;
  }
  return "failed";
}

std::string state_after(Outcome::Stop stop) {
  switch (stop) {
    case Outcome::Stop::turn:
    case Outcome::Stop::letters:
    case Outcome::Stop::interrupted:
      return "stopped";
    case Outcome::Stop::failed:
      return "failed";
    default:
      return "finished";
  }
}

namespace {

void warn_of_weakness(Evaluator& evaluator, const DeviceInfo& device, const SearchCallbacks& callbacks) {
  for (const std::string& weakness : {device.weakness, evaluator.compiler_weakness()})
    if (!weakness.empty() && callbacks.event) callbacks.event({0.0, "warning", weakness, 0});
}

void tell_end(Announcements& announcements, RecordWriter& writer, const SearchCallbacks& shown,
              const Outcome& outcome) {
  Summary summary;
  try {
    summary = summary_of(writer.record());
  } catch (const std::exception&) {
    // The record cannot be read; the outcome says why the search ended.
  }
  summary.state = state_after(outcome.stop);  // not always recorded: the disk may be full
  summary.stop_reason = outcome.reason;
  const auto undelivered = announcements.ended(std::string(name_of(outcome.stop)), summary);
  if (undelivered.empty()) return;
  for (const std::string& text : undelivered)
    if (shown.event) shown.event({summary.elapsed_s, "trouble", text, 0});
  (void)writer.step(summary.elapsed_s, [&](Step& step) {
    step.set("undelivered", undelivered.front());
    for (const std::string& text : undelivered) step.event("trouble", 0, text);
  });
}

std::unique_ptr<Evaluator> evaluator_for(const Config& config, const Runtime& runtime) {
  auto made = runtime.evaluator ? runtime.evaluator(config, config.task_folder)
                                : make_worker_evaluator(config, config.task_folder, runtime);
  for (const std::string& library : config.libraries) (void)made->contender(library);
  return made;
}

// Who is to be told that a session did not begin is told.
tl::unexpected<Error> in_vain(const Config& config, const RunFolder& folder, RecordWriter& writer,
                              const SearchCallbacks& callbacks, Error error) {
  const bool interrupted = error.kind == ErrorKind::interrupted;
  const Outcome::Stop stop = interrupted ? Outcome::Stop::interrupted : Outcome::Stop::failed;
  Announcements announcements(config, folder.path(), callbacks);
  tell_end(announcements, writer, callbacks, {stop, error.text(), 0});
  error.message +=
      "\nThe search is recorded. To start it again: cultivar resume " + shell_word(folder.path().string());
  return tl::make_unexpected(std::move(error));
}

std::vector<VariantPtr> loaded_from(const std::vector<fs::path>& files, const Config& config) {
  std::vector<VariantPtr> variants;
  for (const fs::path& file : files)
    variants.push_back(std::make_shared<const Variant>(load_variant(file, *config.task, config.target)));
  return variants;
}

GateOptions gate_of(const Config& config) {
  GateOptions gate = config.gate;
  gate.alpha = config.gate_alpha;
  return gate;
}

// Records the start of a session, which waits for its workers first.
Expected<void> open_session(RecordWriter& writer, const RunFolder& folder, const Config& config,
                            const std::string& what, const std::optional<GateChange>& change = {}) {
  return writer.step(summary_of(writer.record()).elapsed_s, [&](Step& step) {
    step.session(what, change);
    step.set("state", kWaitingForWorkers);
    step.set("stop_reason", "");
    step.set("stop", "");
    for (const char* outdated : {"undelivered", "gate_advice"}) step.set(outdated, "");
    step.set("budget",
             json{{"wall", config.budget.wall_s},
                  {"evaluations", config.budget.evaluations},
                  {"device_hours", config.budget.device_s / 3600.0},
                  {"plateau", config.budget.plateau_s},
                  {"usd", config.budget.models.usd ? json(*config.budget.models.usd) : json()},
                  {"tokens", config.budget.models.tokens ? json(*config.budget.models.tokens) : json()}}
                 .dump());
    step.set("config", to_yaml(relative_to(folder, config)));
  });
}

// Records that it has them: `environment`, if the record has none yet.
Expected<void> begin_work(const SessionParts& parts, const std::string& session,
                          const std::optional<json>& environment) {
  const double elapsed = summary_of(parts.writer.record()).elapsed_s;
  const std::vector<std::string> troubles = parts.evaluator.left_out();
  auto begun = parts.writer.step(elapsed, [&](Step& step) {
    step.set("state", "running");
    step.set("momentary", to_body(Momentary{}));
    if (environment) step.set("environment", json_text(*environment));
    step.event("session", 0, session);
    for (const std::string& text : troubles) step.event("trouble", 0, text);
  });
  if (!begun || !parts.callbacks.event) return begun;
  parts.callbacks.event({elapsed, "session", session, 0});
  for (const std::string& text : troubles) parts.callbacks.event({elapsed, "trouble", text, 0});
  return begun;
}

// At once: a session may end before it has workers, or be refused.
void tell_of_recovery(RecordWriter& writer, const SearchCallbacks& callbacks) {
  if (writer.recovery().empty()) return;
  const double elapsed = summary_of(writer.record()).elapsed_s;
  (void)writer.step(elapsed, [&](Step& step) { step.event("trouble", 0, writer.recovery()); });
  if (callbacks.event) callbacks.event({elapsed, "trouble", writer.recovery(), 0});
}

void record_failure(RecordWriter& writer, const std::string& why) {
  try {
    if (writer.step(summary_of(writer.record()).elapsed_s, [&](Step& step) {
          step.set("state", state_after(Outcome::Stop::failed));
          step.set("stop_reason", why);
          step.event("stop", 0, why);
        }))
      return;
  } catch (const std::exception&) {
    // The record cannot be read either.
  }
  writer.end_unrecorded(why);
}

// For a session that may only compare what waits, because a budget is used up, if anything does.
bool has_comparisons_due(const Breeding& breeding) {
  return breeding.winner() != 0 || breeding.challenger().has_value();
}

Outcome ended_at_once(const Config& config, const RunFolder& folder, RecordWriter& writer,
                      const SearchCallbacks& shown, const SpentBudget& spent, IndividualId best) {
  const double elapsed = summary_of(writer.record()).elapsed_s;
  Announcements announcements(config, folder.path(), shown);
  const Outcome outcome{spent.stop, spent.reason, best};
  if (shown.event) shown.event({elapsed, "stop", spent.reason, best});
  if (!writer.step(elapsed, [&](Step& step) {
        step.set("state", state_after(spent.stop));
        step.set("stop_reason", spent.reason);
        step.set("momentary", to_body(Momentary{}));
        step.event("stop", best, spent.reason);
      }))
    writer.end_unrecorded(spent.reason);
  tell_end(announcements, writer, shown, outcome);
  return outcome;
}

void tell_of_last_comparisons(RecordWriter& writer, const SearchCallbacks& shown, const SpentBudget& spent,
                              const Breeding& breeding) {
  const std::size_t waiting = breeding.challengers();
  const std::string what = breeding.incumbent() == 0 ? "the best kernel so far is confirmed"
                           : waiting == 0            ? "the winner of the last duel is confirmed"
                                          : fmt::format("{} kernel{} compared with the best", waiting,
                                                        waiting == 1 ? " that waits is" : "s that wait are");
  const std::string text = fmt::format(
      "{}: only {}, for at most {} once the workers run, then the search ends (to go on, stop it and set a "
      "larger budget with --set budget.{}=...)",
      spent.reason, what, duration(grace_after(spent.limit_s, far_ahead(breeding) != 0)),
      name_of(spent.stop));
  const double elapsed = summary_of(writer.record()).elapsed_s;
  if (shown.event) shown.event({elapsed, "session", text, 0});
  (void)writer.step(elapsed, [&](Step& step) { step.event("session", 0, text); });
}

// Runs one session. Every failure becomes an Outcome with its message, except an InputError, which is thrown.
Outcome run_session(const Config& config, const RunFolder& folder, RecordWriter& writer, Breeding& breeding,
                    ParsedSources& sources, Evaluator& evaluator, ChatModels models, LoadedSources loaded,
                    const Runtime& runtime, const SearchCallbacks& shown, const std::atomic<bool>& stop,
                    const std::string& session, const std::optional<json>& environment,
                    const std::optional<GateChange>& change = {}) {
  Announcements announcements(config, folder.path(), shown);
  const SearchCallbacks callbacks = announcements.callbacks();
  const PromptKit kit = prompt_kit(config.asking);
  SessionParts parts{config,
                     folder,
                     writer,
                     breeding,
                     sources,
                     evaluator,
                     nullptr,
                     kit,
                     callbacks,
                     stop,
                     runtime.checkpoints_wanted,
                     runtime.turn_s,
                     runtime.turn_ends,
                     std::move(loaded)};
  const auto ended = [&](const Outcome& outcome) {
    tell_end(announcements, writer, shown, outcome);
    return outcome;
  };
  const auto failed = [&](const std::string& why) {
    record_failure(writer, why);
    return ended({Outcome::Stop::failed, why, breeding.incumbent()});
  };
  if (const auto begun = begin_work(parts, session, environment); !begun)
    return failed(begun.error().message);
  if (change) breeding.change(change->now);
  try {
    std::unique_ptr<ModelDialogues> dialogues;
    if (!models.empty()) {
      auto talk = ModelDialogues::open(config, std::move(models), folder, writer, runtime);
      if (!talk) return failed(talk.error().message);
      dialogues = std::move(*talk);
    }
    parts.dialogues = dialogues.get();
    return ended(SearchLoop(std::move(parts)).run());
  } catch (const InputError& e) {
    record_failure(writer, e.what());
    throw;
  } catch (const std::exception& e) {
    return failed(said_shortly(e));
  }
}

}  // namespace

Expected<Outcome> begin_search(const Config& config, const fs::path& run_folder, const Runtime& runtime,
                               const SearchCallbacks& callbacks, const std::atomic<bool>& stop) {
  const RunFolder folder(fs::absolute(run_folder).lexically_normal());
  // Check keys and sources before anything is written.
  auto models = make_models(config, folder);
  if (!models) return tl::make_unexpected(models.error());
  LoadedSources loaded{loaded_from(config.seeds, config), loaded_from(config.contenders, config)};
  std::error_code ec;
  const auto holds_a_run = [&] {
    return failure(
        "create run",
        fmt::format("{} already holds a run: continue it with `cultivar resume`, or choose another "
                    "folder with --run-dir",
                    folder.path().string()));
  };
  if (fs::exists(folder.database(), ec)) return holds_a_run();
  const bool fresh = !fs::exists(folder.path(), ec) || folder.is_unused();
  fs::create_directories(folder.path(), ec);
  if (ec)
    return failure("create run", fmt::format("{}: {}; name another folder with --run-dir",
                                             folder.path().string(), ec.message()));
  // Lock before anything is written: if two searches begin in one folder, only one continues.
  auto lock = RunLock::take(folder);
  if (!lock) return tl::make_unexpected(lock.error());
  if (fs::exists(folder.database(), ec)) return holds_a_run();
  NewRun made(folder, fresh);
  RunFacts facts;
  auto relative = take_snapshot(config, loaded, folder, facts.task_files);
  if (!relative) return tl::make_unexpected(relative.error());
  facts.name = config.name;
  facts.config_yaml = to_yaml(*relative);
  facts.task_name = config.task->name;
  facts.target = name_of(config.target);
  const Config own = absolute_in(folder, *std::move(relative));
  for (const Workload& workload : own.task->workloads(own.workloads)->workloads)
    facts.workloads.push_back(workload.name);

  remember_programs(own, folder, runtime);
  const auto evaluator = evaluator_for(own, runtime);
  facts.environment = {{"devices", json::array()}};  // not known yet
  auto writer = RecordWriter::create(folder, facts, std::move(*lock));
  if (!writer) return tl::make_unexpected(writer.error());
  const std::string session = "begun";
  if (auto opened = open_session(*writer, folder, own, session); !opened)
    return tl::make_unexpected(opened.error());
  FirstWorkers workers(*writer, own, callbacks, stop, false);
  const auto found = found_by(workers, *evaluator);
  if (!found && workers.waited() && !own.evaluation.launcher.empty()) {
    made.keep();
    return in_vain(own, folder, *writer, callbacks, found.error());
  }
  if (!found) return tl::make_unexpected(found.error());
  made.keep();
  warn_of_weakness(*evaluator, found->devices.front(), callbacks);
  ParsedSources sources(*own.task, [&](const std::string& id) { return writer->record().source_named(id); });
  Breeding breeding(own, facts_in(found->environment), sources);
  breeding.set_roofline(roofline_in(found->environment, own));
  return run_session(own, folder, *writer, breeding, sources, *evaluator, std::move(*models),
                     std::move(loaded), runtime, callbacks, stop, session, found->environment);
}

namespace {

// What the record says about a card of another model that has equal facts.
std::string changed_device(const json& recorded, const DeviceInfo& now) {
  const std::string model = recorded.value("model", now.model);  // older records name none
  if (model == now.model) return {};
  return fmt::format(
      " on a device of another model: '{}'; the run was begun on '{}'. Earlier times were measured there, so "
      "the best kernel is measured again first, and new variants are compared at its current pace",
      now.model, model);
}

}  // namespace

Expected<Outcome> resume_search(const fs::path& run_folder, const std::vector<std::string>& overrides,
                                const Runtime& runtime, const SearchCallbacks& callbacks,
                                const std::atomic<bool>& stop) {
  require_changeable(overrides);
  const RunFolder folder(fs::absolute(run_folder).lexically_normal());
  std::string damage;
  for (int attempt = 0;; ++attempt) {
    auto writer = RecordWriter::open(folder, damage);
    if (!writer) return tl::make_unexpected(writer.error());
    try {
      tell_of_recovery(*writer, callbacks);
      const RunFacts facts = writer->record().facts();
      if (auto restored = restore_snapshot(facts.task_files, facts.task_name, folder); !restored)
        return tl::make_unexpected(restored.error());
      const Config config = recorded_config(facts.config_yaml, folder, overrides, runtime.installation);
      require_trust(config, folder, runtime, overrides);
      remember_programs(config, folder, runtime);
      require_larger_budgets(config, overrides, summary_of(writer->record()));
      auto models = make_models(config, folder);
      if (!models) return tl::make_unexpected(models.error());
      const auto evaluator = evaluator_for(config, runtime);
      ParsedSources sources(*config.task,
                            [&](const std::string& id) { return writer->record().source_named(id); });
      // Decisions up to now were made with the settings of their time.
      Config before = config;
      const Config recorded = recorded_config(facts.config_yaml, folder, {}, runtime.installation);
      before.gate = recorded.gate;
      std::optional<GateChange> change = GateChange{gate_of(recorded), gate_of(config)};
      if (json(change->before) == json(change->now)) change.reset();
      std::optional<Breeding> breeding;
      const auto rebuild = [&](const json& environment) {
        breeding.emplace(before, facts_in(environment), sources);
        breeding->set_roofline(roofline_in(environment, config));
        Listener nobody;
        apply_decisions(writer->record(), *breeding, nobody);
        breeding->rebuild_operators();
      };
      const bool had_workers = !facts.environment.at("devices").empty();
      if (had_workers) {
        evaluator->prefer(facts_in(facts.environment));
        rebuild(facts.environment);
      }
      FirstWorkers workers(*writer, config, callbacks, stop, overrides.empty());
      const std::string session = had_workers ? "resumed" : "begun";
      if (auto opened = open_session(*writer, folder, config, session, change); !opened) {
        record_failure(*writer, opened.error().message);
        return in_vain(config, folder, *writer, callbacks, opened.error());
      }
      const Summary so_far = summary_of(writer->record());
      const auto spent =
          spent_budget(config.budget, so_far.elapsed_s, 3600.0 * so_far.budget.at("device_hours").used);
      if (spent && had_workers) {
        if (change) breeding->change(change->now);  // challengers that were undecided wait again
        if (!has_comparisons_due(*breeding))
          return ended_at_once(config, folder, *writer, callbacks, *spent, breeding->incumbent());
        tell_of_last_comparisons(*writer, callbacks, *spent, *breeding);
      }
      const auto found = found_by(workers, *evaluator);
      if (!found) return in_vain(config, folder, *writer, callbacks, found.error());
      warn_of_weakness(*evaluator, found->devices.front(), callbacks);
      std::string others = changed_settings(overrides);
      if (had_workers) {
        const json &then = facts.environment.at("devices").at(0),
                   &now = found->environment.at("devices").at(0);
        if (now.at("facts") != then.at("facts")) {
          const Error other{
              ErrorKind::failed, "resume",
              fmt::format("this run was measured on '{}' and this machine is '{}'; their times cannot be "
                          "compared. Begin a new run here, and `cultivar submit` the best kernel to it",
                          then.at("description").get<std::string>(), found->devices.front().description)};
          workers.never_began(other);
          return tl::make_unexpected(other);
        }
        others = changed_device(then, found->devices.front()) + others;
      } else {
        rebuild(found->environment);
      }
      return run_session(config, folder, *writer, *breeding, sources, *evaluator, std::move(*models),
                         {{}, loaded_from(config.contenders, config)}, runtime, callbacks, stop,
                         session + others, had_workers ? std::nullopt : std::optional(found->environment),
                         change);
    } catch (const SQLite::Exception& e) {
      if (!means_damage(e) || attempt > 0)
        return tl::make_unexpected(trouble(e, "resume", folder.database()));
      damage = e.what();
    } catch (const UnknownDecision& e) {
      return failure("resume", e.what());
    }
  }
}

Expected<fs::path> submit_variant(const fs::path& run_folder, const std::string& source,
                                  const Configuration& configuration, const std::string& note,
                                  const std::vector<IndividualId>& parents, bool again) {
  const Submission submission{{}, source, note, configuration, parents};
  if (const std::string wrong = submission_trouble(submission); !wrong.empty()) throw InputError(wrong);
  const auto record = Record::open(run_folder);
  if (!record) return tl::make_unexpected(record.error());
  const RunFolder folder(run_folder);
  const RunFacts facts = record->facts();
  if (auto restored = restore_snapshot(facts.task_files, facts.task_name, folder); !restored)
    return tl::make_unexpected(restored.error());
  const auto variant = make_variant(source, load_task(folder.tasks() / facts.task_name), configuration);
  if (!variant) throw InputError(variant.error().text());
  if (const auto fits = check_target(*variant, target_named(facts.target)); !fits)
    throw InputError(ManifestError{
        fits.error().line, fmt::format("target: the variant is for {0}, but this run's target is {1} (submit "
                                       "it to a run with target {0}, or write the kernel for {1})",
                                       name_of(variant->manifest.target), facts.target)}
                         .text());
  if (const auto twin = twin_of(*record, variant->id); twin && !(again && twin->rejected))
    return failure(
        "submit",
        fmt::format("#{} of this run is the same kernel with the same values of its tunables: "
                    "`cultivar show {} {}`{}",
                    twin->id, shell_word(run_folder.string()), twin->id,
                    twin->rejected ? "; it was rejected, and `--again` has it evaluated once more" : ""));
  if (const auto waiting = waiting_like(folder, source, variant->configuration))
    return failure("submit",
                   fmt::format("the same kernel is already in the inbox, as {}", waiting->string()));
  return put_submission(folder, {{}, source, note, variant->configuration, parents});
}

}  // namespace cultivar

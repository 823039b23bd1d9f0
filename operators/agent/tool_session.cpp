// SPDX-License-Identifier: Apache-2.0
#include "operators/agent/tool_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace cultivar {

using nlohmann::json;

namespace {

std::string text_of(const json& arguments, const char* name) {
  const auto found = arguments.find(name);
  return found == arguments.end() ? std::string() : found->get<std::string>();
}

// The base's tunable values that differ from the defaults, as far as the new source has these tunables.
Configuration carried_over(const Kernel& base, const Manifest& made) {
  Configuration kept;
  const auto old = parse_manifest(base.source);
  if (!old) return kept;
  const Configuration defaults = default_configuration(old->tunables);
  for (const Tunable& tunable : made.tunables) {
    const auto set = base.row.configuration.find(tunable.name);
    if (set == base.row.configuration.end()) continue;
    const auto usual = defaults.find(tunable.name);
    if (usual != defaults.end() && usual->second == set->second) continue;
    if (std::ranges::find(tunable.values, set->second) != tunable.values.end())
      kept[tunable.name] = set->second;
  }
  return kept;
}

tl::expected<Variant, EditRefusal> linted(const Bench& bench, std::string source,
                                          Configuration configuration) {
  auto variant = make_variant(std::move(source), bench.task(), std::move(configuration));
  if (!variant) return refused(fmt::format("Rejected at stage `lint`, {}", variant.error().text()));
  if (const auto fits = check_target(*variant, bench.target()); !fits)
    return refused(fmt::format("Rejected at stage `lint`, {}", fits.error().text()));
  return std::move(*variant);
}

// A model may send the file directly, or in a fenced block with text around it.
tl::expected<std::string, EditRefusal> whole_source(const std::string& text) {
  if (text.find("```") == std::string::npos) return text;
  auto edit = find_edit(text);
  if (!edit) return tl::make_unexpected(edit.error());
  if (const auto* whole = std::get_if<WholeSource>(&*edit)) return whole->text;
  return refused(
      "`source` must be a complete file; put SEARCH/REPLACE blocks into `edit`, with the id of the kernel to "
      "change in `variant`");
}

}  // namespace

std::string id_in(const json& arguments, const char* name) {
  const auto found = arguments.find(name);
  if (found == arguments.end()) return {};
  return found->is_string() ? found->get<std::string>() : std::to_string(found->get<std::int64_t>());
}

Configuration tunables_of(const json& values) {
  Configuration configuration;
  for (const auto& [name, value] : values.items())
    configuration[name] =
        value.is_string() ? TunableValue(value.get<std::string>()) : TunableValue(value.get<std::int64_t>());
  return configuration;
}

tl::expected<Kernel, EditRefusal> find_kernel(ToolSession& session, const std::string& id) {
  if (const auto draft = session.drafts.find(id)) {
    Kernel kernel;
    kernel.row.id = draft->id;
    if (!draft->base.empty()) kernel.row.parents = {draft->base};
    kernel.row.op = "draft";
    kernel.row.draft = true;
    kernel.row.configuration = draft->variant.configuration;
    kernel.row.state = !draft->evaluation              ? "not evaluated"
                       : draft->evaluation->measured() ? "measured"
                                                       : "rejected";
    if (draft->evaluation) {
      kernel.row.stage = name_of(draft->evaluation->stage);
      kernel.row.reason = draft->evaluation->reason;
      kernel.row.fitness = draft->evaluation->fitness;
    }
    kernel.source = draft->variant.source;
    kernel.evaluation = draft->evaluation;
    return kernel;
  }
  std::string drafts;
  for (const Draft& draft : session.drafts.all()) drafts += (drafts.empty() ? "" : ", ") + draft.id;
  if (id.size() > 1 && id[0] == 'd' && id.find_first_not_of("0123456789", 1) == id.npos)
    return refused(fmt::format("skipped: there is no draft {}, because no call has made it. Drafts: {}", id,
                               drafts.empty() ? "none yet" : drafts));
  auto kernel = session.bench.kernel(id);
  if (kernel) return std::move(*kernel);
  return refused(fmt::format("{}. Drafts of this session: {}. `list_lineage` lists kernels",
                             kernel.error().message, drafts.empty() ? "none yet" : drafts));
}

tl::expected<Variant, EditRefusal> variant_of(const Bench& bench, const Kernel& kernel) {
  return linted(bench, kernel.source, kernel.row.configuration);
}

std::string likeness(ToolSession& session, const Draft& draft) {
  const std::lock_guard lock(session.shared_mutex);
  if (!session.compared.insert(draft.id).second) return {};
  return session.bench.similar(draft.variant, draft.origin);
}

tl::expected<Subject, EditRefusal> subject_of(ToolSession& session, const json& arguments) {
  const std::string id = id_in(arguments, "variant"), source = text_of(arguments, "source"),
                    edit = text_of(arguments, "edit");
  Configuration tunables = tunables_of(arguments.value("tunables", json::object()));
  if (source.empty() && id.empty())
    return refused(
        "Specify a kernel: `variant` (an id), `variant` with `edit` (SEARCH/REPLACE blocks against it), "
        "or `source` (a complete file)");
  if (!source.empty() && !(id.empty() && edit.empty()))
    return refused("`source` is a complete file: omit `variant` and `edit`, or omit `source`");

  if (!source.empty()) {
    auto text = whole_source(source);
    if (!text) return tl::make_unexpected(text.error());
    auto variant = linted(session.bench, std::move(*text), std::move(tunables));
    if (!variant) return tl::make_unexpected(variant.error());
    const Draft draft = session.drafts.put(std::move(*variant), "");
    return Subject{draft.id, draft.variant, true};
  }
  const auto base = find_kernel(session, id);
  if (!base) return tl::make_unexpected(base.error());
  if (edit.empty() && tunables.empty()) {
    auto variant = variant_of(session.bench, *base);
    if (!variant) return tl::make_unexpected(variant.error());
    Subject subject{base->row.id, std::move(*variant), base->row.draft, {}};
    if (base->row.draft && !base->row.parents.empty()) subject.base = base->row.parents.front();
    return subject;
  }
  std::string text = base->source;
  if (!edit.empty()) {
    const auto found = find_edit(edit);
    if (!found) return tl::make_unexpected(found.error());
    auto changed = apply_edit(base->source, *found);
    if (!changed) return tl::make_unexpected(changed.error());
    text = std::move(*changed);
  }
  const auto manifest = parse_manifest(text);
  if (!manifest) return refused(fmt::format("Rejected at stage `lint`, {}", manifest.error().text()));
  Configuration configuration = carried_over(*base, *manifest);
  for (const auto& [name, value] : tunables) configuration[name] = value;
  auto variant = linted(session.bench, std::move(text), std::move(configuration));
  if (!variant) return tl::make_unexpected(variant.error());
  const bool others = base->row.draft && !session.drafts.find(base->row.id);  // of another conversation
  const Draft draft =
      session.drafts.put(std::move(*variant), base->row.id,
                         others && !base->row.parents.empty() ? base->row.parents.front() : "");
  return Subject{draft.id, draft.variant, true};
}

Draft Drafts::put(Variant variant, const std::string& base, const std::string& origin) {
  const std::lock_guard lock(mutex_);
  for (const Draft& draft : drafts_)
    if (draft.variant.id == variant.id && draft.variant.source == variant.source) return draft;
  keep({fmt::format("d{}", ++made_), std::move(variant), base, std::nullopt, origin});
  return drafts_.back();
}

void Drafts::restore(Draft draft) {
  const std::lock_guard lock(mutex_);
  std::size_t number = 0;
  if (draft.id.size() > 1) std::from_chars(draft.id.data() + 1, draft.id.data() + draft.id.size(), number);
  made_ = std::max(made_, number);
  keep(std::move(draft));
}

void Drafts::keep(Draft draft) {
  if (draft.origin.empty()) draft.origin = draft.base;
  for (const Draft& other : drafts_)
    if (other.id == draft.base) draft.origin = other.origin;
  drafts_.push_back(std::move(draft));
  if (drafts_.size() > most_) drafts_.pop_front();
}

std::optional<Draft> Drafts::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  for (const Draft& draft : drafts_)
    if (draft.id == id) return draft;
  return std::nullopt;
}

void Drafts::judged(const std::string& id, const Evaluation& evaluation) {
  const std::lock_guard lock(mutex_);
  for (Draft& draft : drafts_) {
    if (draft.id != id) continue;
    const bool less = draft.evaluation && evaluation.measured() && draft.evaluation->measured() &&
                      evaluation.workloads.size() < draft.evaluation->workloads.size();
    if (!less) draft.evaluation = evaluation;
  }
}

std::vector<Draft> Drafts::all() const {
  const std::lock_guard lock(mutex_);
  return {drafts_.begin(), drafts_.end()};
}

DeviceTurns::Turn::~Turn() {
  if (turns_ == nullptr) return;
  {
    const std::lock_guard lock(turns_->mutex_);
    turns_->used_s_ += seconds();
    turns_->queue_.pop_front();
  }
  turns_->free_.notify_all();
}

double DeviceTurns::Turn::seconds() const {
  const auto metered = turns_->bench_.device_seconds();
  return metered ? *metered - metered_ : seconds_since(begun_);
}

void DeviceTurns::restore(double used_s) {
  const std::lock_guard lock(mutex_);
  used_s_ += used_s;
}

double DeviceTurns::used() const {
  const std::lock_guard lock(mutex_);
  return used_s_;
}

tl::expected<DeviceTurns::Turn, EditRefusal> DeviceTurns::take(Watch& watch) {
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = ++tickets_;
  queue_.push_back(ticket);
  const auto mine = [&] { return queue_.front() == ticket; };
  if (!mine()) {
    lock.unlock();
    watch.tell("waiting for the device: another call is using it");
    lock.lock();
  }
  const bool got = watch.deadline == Clock::time_point::max()
                       ? free_.wait(lock, watch.stop, mine)
                       : free_.wait_until(lock, watch.stop, watch.deadline, mine);
  const bool spent = limit_s_ > 0.0 && used_s_ >= limit_s_;
  if (!got || spent || watch.stop.stop_requested()) {
    queue_.erase(std::ranges::find(queue_, ticket));
    lock.unlock();
    free_.notify_all();
    if (spent)
      return tl::make_unexpected(EditRefusal{
          fmt::format("The device time of this session is exhausted: {:.0f} s of {:.0f} s. No kernel can be "
                      "run; tools that need no device still work.",
                      used(), limit_s_)});
    return tl::make_unexpected(
        EditRefusal{"Timed out: the device did not become free within this call's time limit."});
  }
  // If calls queue for the device, wall time includes waiting.
  if (limit_s_ > 0.0 && !bench_.device_seconds()) {
    const auto left = duration_of(limit_s_ - used_s_);
    watch.deadline = std::min(watch.deadline, Clock::now() + left);
  }
  return Turn(this);
}

}  // namespace cultivar

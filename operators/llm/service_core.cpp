// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/service_core.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <limits>

#include "operators/llm/chat_errors.hpp"
#include "operators/llm/ledger.hpp"
#include "operators/llm/providers.hpp"

namespace cultivar {

using Kind = ChatError::Kind;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

std::string in_words(const ChatError& error) {
  return fmt::format("{}: {}", name_of(error.kind), error.message);
}

KeyMask mask_for(const ChatServiceOptions& options) {
  std::vector<std::string> variables = options.key_variables;
  for (const ModelConfig& model : options.models) variables.push_back(model.api_key_env);
  for (const ProviderFacts& provider : known_providers()) variables.emplace_back(provider.api_key_env);
  return KeyMask(variables);
}

void take_keys_out(const KeyMask& mask, ChatResult& result) {
  if (!result) {
    result.error().message = mask.without_keys(std::move(result.error().message));
    result.error().request_id = mask.without_keys(std::move(result.error().request_id));
    return;
  }
  result->text = mask.without_values(std::move(result->text));
  for (ToolCall& call : result->tool_calls)
    for (std::string* part : {&call.id, &call.name, &call.arguments})
      *part = mask.without_values(std::move(*part));
  result->model = mask.without_values(std::move(result->model));
  result->request_id = mask.without_values(std::move(result->request_id));
}

}  // namespace

ChatService::Core::Core(ChatServiceOptions o, std::map<std::string, std::unique_ptr<ChatModel>> models,
                        ExchangeLog& l)
    : options(std::move(o)),
      log(l),
      ledger(options.caps),
      mask(mask_for(options)),
      jitter(stream_of(options.seed, "chat service", 0)) {
  for (const ModelConfig& config : options.models) {
    auto found = models.find(config.name);
    if (found == models.end()) throw InputError("model '" + config.name + "' was not created");
    desks.emplace_back(config, std::move(found->second), now());
  }
  for (const ModelConfig& config : options.models)
    for (const std::string& name : config.fallbacks)
      if (std::ranges::none_of(desks, [&](const LimitedModel& d) { return d.config.name == name; }))
        throw InputError("model '" + config.name + "' has the fallback '" + name + "', which does not exist");
}

void ChatService::Core::tell(const std::string& text, bool of_this_machine) const {
  if (options.event) options.event(text, of_this_machine);
}

void ChatService::Core::run() {
  for (;;) {
    std::list<ServedCall> fresh;
    std::deque<Done> over;
    bool stopping = false;
    {
      const std::lock_guard lock(mutex);
      fresh.swap(arriving);
      over.swap(finished);
      stopping = closing;
      woken = false;
    }
    for (Done& done : over) conclude(*done.call, std::move(done.result));
    accept(fresh);
    if (stopping)
      for (ServedCall& call : calls) call.stop.request_stop();
    double next = kNever;
    for (LimitedModel& desk : desks) desk.blocked = false;
    for (auto it = calls.begin(); it != calls.end();) {
      const auto call = it++;
      if (!call->flying) next = std::min(next, consider(call));
    }
    publish();

    std::unique_lock lock(mutex);
    if (closing && calls.empty() && arriving.empty()) return;
    const auto something = [this, stopping] {
      return !arriving.empty() || !finished.empty() || woken || closing != stopping;
    };
    // A clock other than the steady one is polled.
    const double wait = std::clamp(next - now(), 0.0, 1.0);
    if (next == kNever)
      changed.wait(lock, something);
    else
      changed.wait_for(lock, std::chrono::duration<double>(wait), something);
  }
}

void ChatService::Core::accept(std::list<ServedCall>& fresh) {
  for (auto it = fresh.begin(); it != fresh.end();) {
    const auto call = it++;
    calls.splice(calls.end(), fresh, call);
    call->waits_since = now();
    std::vector<std::string> chain{call->order.model};
    for (const LimitedModel& desk : desks)
      if (desk.config.name == call->order.model)
        chain.insert(chain.end(), desk.config.fallbacks.begin(), desk.config.fallbacks.end());
    for (const std::string& name : chain)
      for (LimitedModel& desk : desks)
        if (desk.config.name == name) {
          CallTry next;
          next.desk = &desk;
          next.fitted = fitted(desk.config, call->order.request);
          next.reservation.op = call->order.op;
          next.reservation.model = name;
          next.expected.input = estimated_tokens(bytes_of(next.fitted));
          next.expected.output = next.fitted.max_output_tokens;
          call->tries.push_back(std::move(next));
        }
    if (call->tries.empty()) {
      finish(call,
             tl::make_unexpected(ChatError{.kind = Kind::bad_request,
                                           .message = "there is no model '" + call->order.model + "'"}));
      continue;
    }
    if (call->order.request.call.empty()) continue;
    std::optional<Error> trouble;
    for (CallTry& each : call->tries)
      if (!trouble) trouble = look_up(*call, each);
    if (trouble) {
      finish(call, chat_failure(Kind::not_recorded, trouble->message));
      continue;
    }
    auto known = log.find(call->order.request.call, call->hash);
    if (!known) {
      finish(call, chat_failure(Kind::not_recorded, known.error().message));
    } else if (*known) {
      ArrivedAnswer& arrived = **known;
      finish(call, ServedAnswer{std::move(arrived.answer), arrived.id, arrived.model, arrived.usd, true});
    }
  }
}

void ChatService::Core::finish(std::list<ServedCall>::iterator call, ServedResult result) {
  std::list<ServedCall> last;
  last.splice(last.end(), calls, call);
  call->on_stop.reset();
  call->on_withdrawal.reset();
  // A canceled or unrecorded call is asked again on resume. In all other cases it has ended at every model.
  const bool asked_again =
      !result && (result.error().kind == Kind::not_recorded ||
                  (result.error().kind == Kind::cancelled && !call->order.withdrawn.stop_requested()));
  if (!asked_again)
    for (CallTry& each : call->tries) {
      drop_left_open(*call, each, 0);
      each.desk->model->withdraw(each.fitted);
    }
  call->listener.done(std::move(result));
}

std::optional<Error> ChatService::Core::look_up(ServedCall& call, CallTry& each) {
  if (!each.desk->model->knows_again()) return std::nullopt;
  auto left = log.unended(call.order.request.call, call.hash, each.desk->config.name);
  if (!left) return left.error();
  each.left_open = std::move(*left);
  return std::nullopt;
}

// They no longer count. If this cannot be recorded, they count again in the next session: the count is then
// too high, never too low.
void ChatService::Core::drop_left_open(const ServedCall& call, CallTry& each, ExchangeId but) {
  for (const UnendedExchange& left : each.left_open) {
    ledger.take_back(call.order.op, each.desk->config.name, left.counted);
    if (left.id != but)
      (void)log.failed(left.id,
                       ChatError{.kind = Kind::cancelled,
                                 .message = "the process that sent it was killed; its answer is not needed"},
                       0.0);
  }
  each.left_open.clear();
}

double ChatService::Core::consider(std::list<ServedCall>::iterator it) {
  ServedCall& call = *it;
  if (call.stop.stop_requested()) {
    finish(it, chat_failure(Kind::cancelled, "cancelled"));
    return kNever;
  }
  double next = kNever, patience = 0.0;
  bool any = false;
  for (CallTry& each : call.tries) {
    if (each.over) continue;
    patience = std::max(patience, each.desk->config.retry.patience_s);
    const auto when = offer(call, each);
    if (!when) return kNever;  // in flight
    if (each.over) continue;
    any = true;
    next = std::min(next, *when);
    if (*when == kNever || *when <= now() + each.desk->config.retry.fallback_after_s)
      break;  // worth waiting for
  }
  if (!any) {
    ChatError error =
        call.last_error.value_or(ChatError{.kind = Kind::gave_up, .message = "no model could be asked"});
    finish(it, tl::make_unexpected(std::move(error)));
    return kNever;
  }
  const double end = call.waits_since + patience;
  if (now() >= end) {
    finish(it, chat_failure(Kind::gave_up,
                            fmt::format("timed out after waiting {:g} s for a model; the last error was: {}",
                                        patience, call.last_error ? in_words(*call.last_error) : "none")));
    return kNever;
  }
  return std::min(next, end);
}

// The most that was asked for, at the highest price of input, which is that for writing to a cache.
static ReservedCost most_asked_for(const CallTry& each) {
  const Usage usage = most_of(each.fitted, each.desk->tokens_per_byte);
  Prices dearest = each.desk->config.prices;
  dearest.input = std::max({dearest.input, dearest.cache_written, dearest.cached});
  return {usage, dearest.usd_of(usage), bytes_of(each.fitted)};
}

void ChatService::Core::reckon(CallTry& each) {
  const LimitedModel& desk = *each.desk;
  const ReservedCost asked = most_asked_for(each);
  each.reservation.usage = asked.usage;
  each.reservation.usage.output += desk.beyond_limit;
  each.reservation.usd = std::max(asked.usd, desk.most_usd);
}

// What a call showed of the model's costs.
void ChatService::Core::learn_cost(const CallTry& each, const Usage& used, double usd) {
  LimitedModel& desk = *each.desk;
  const ReservedCost asked = most_asked_for(each);
  desk.beyond_limit = std::max(desk.beyond_limit, used.output - asked.usage.output);
  if (usd > asked.usd) desk.most_usd = std::max(desk.most_usd, usd);
}

// Programs ask models as often as they like: what a call costs is known when the first has ended.
bool ChatService::Core::must_be_first(const ServedCall& call, const LimitedModel& desk) const {
  if (desk.config.answer != "claude_json" || desk.cost_known) return false;
  const auto of_operator = options.caps.by_operator.find(call.order.op);
  return options.caps.run.usd || desk.config.cap.usd ||
         (of_operator != options.caps.by_operator.end() && of_operator->second.usd);
}

void ChatService::Core::tell_of_nothing(const ServedCall& call, const CallTry& each,
                                        const ChatAnswer& answer) {
  LimitedModel& desk = *each.desk;
  if ((!says_nothing(answer) && !answer.from_reasoning) || std::exchange(desk.told_of_nothing, true)) return;
  tell(fmt::format("an answer of model {} has no text: {}; {}", desk.config.name,
                   what_came(answer, each.fitted.max_output_tokens),
                   remedy_for(answer, desk.config, call.order.request.max_output_tokens)),
       true);
}

std::optional<double> ChatService::Core::offer(ServedCall& call, CallTry& each) {
  LimitedModel& desk = *each.desk;
  const double at = now();
  const double ready = std::max({each.not_before, desk.held_until, desk.breaker.ready_at(at)});
  // Another call is testing the model; its result will be known soon.
  if (ready == kNever) return at + desk.config.retry.fallback_after_s + 1.0;
  if (ready > at) return ready;
  // First come, first served among calls that need the same model's slots and tokens.
  if (desk.blocked || desk.in_flight >= (must_be_first(call, desk) ? 1 : desk.config.limits.in_flight)) {
    desk.blocked = true;
    return kNever;
  }
  if (const double tokens = desk.limits.ready_at(each.expected, at); tokens > at) {
    desk.blocked = true;
    return tokens;
  }
  reckon(each);
  // Its own old reservation does not block it, because that is released when it is sent.
  for (const UnendedExchange& left : each.left_open)
    ledger.take_back(call.order.op, desk.config.name, left.counted);
  const std::optional<Refusal> refusal = ledger.forbids(each.reservation);
  for (const UnendedExchange& left : each.left_open)
    ledger.add(call.order.op, desk.config.name, left.counted);
  if (refusal && !desk.model->has_answer(each.fitted)) {
    if (!refusal->even_alone) return kNever;  // calls in flight hold more than they will cost
    each.over = true;
    call.last_error = ChatError{.kind = Kind::over_budget, .message = refusal->words, .cap = refusal->scope};
    return at;
  }
  begin(call, each);
  if (!call.flying) return at;  // the log could not be written
  return std::nullopt;
}

void ChatService::Core::begin(ServedCall& call, CallTry& each) {
  LimitedModel& desk = *each.desk;
  SentRequest sent;
  sent.op = call.order.op;
  sent.model = desk.config.name;
  sent.request = call.order.request;
  sent.request_hash = call.hash;
  sent.attempt = ++call.attempts;
  sent.reserved = each.reservation.usage;
  sent.reserved_usd = each.reservation.usd;
  if (!each.left_open.empty()) sent.goes_on = each.left_open.back().id;
  auto id = log.sent(sent);
  if (!id) {
    for (CallTry& one : call.tries) one.over = true;
    call.last_error = ChatError{
        .kind = Kind::not_recorded,
        .message = "the call was not sent, because it could not be recorded: " + id.error().message};
    return;
  }
  drop_left_open(call, each, *id);
  call.exchange = *id;
  call.flying = &each;
  ledger.reserve(each.reservation);
  desk.limits.begin(each.expected, now());
  desk.breaker.begin(now());
  ++desk.in_flight;
  if (call.listener.attempt) call.listener.attempt(desk.config.name, call.attempts);
  ChatListener listener;
  listener.delta = call.listener.delta;
  listener.done = [this, which = &call](ChatResult result) {
    {
      const std::lock_guard lock(mutex);
      finished.push_back({which, std::move(result)});
    }
    changed.notify_all();
  };
  desk.model->ask(each.fitted, call.stop.get_token(), std::move(listener));
}

void ChatService::Core::hold(LimitedModel& desk, const ChatError& error) {
  desk.breaker.undecided();
  const bool anew = desk.holds == 0 || now() > desk.held_until + desk.config.retry.longest_wait_s;
  // Calls that were in flight together are rejected together: count that as one hold.
  if (now() >= desk.held_until) ++desk.holds;
  const double until = now() + hold_time(desk.config.retry, desk.holds, error, jitter);
  if (until <= desk.held_until) return;
  desk.held_until = until;
  desk.reason = in_words(error);
  // Trouble once, not after each try.
  const bool disk = error.kind == Kind::unwritable;
  tell(fmt::format("model {} is on hold for {:.0f} s: {}{}", desk.config.name, until - now(), desk.reason,
                   disk ? fmt::format("; its questions wait, for at most {:g} s (retry.patience)",
                                      desk.config.retry.patience_s)
                        : std::string()),
       disk && anew);
}

void ChatService::Core::conclude(ServedCall& call, ChatResult result) {
  CallTry& each = *call.flying;
  LimitedModel& desk = *each.desk;
  const double at = now();
  call.flying = nullptr;
  --desk.in_flight;
  take_keys_out(mask, result);
  // A wrong number from a provider must neither lift a cap nor exhaust one.
  Usage& used = result ? result->usage : result.error().usage;
  std::optional<double>& said_usd = result ? result->usd : result.error().usd;
  BelievedCost cost = believed(used, said_usd, most_asked_for(each));
  used = cost.usage;
  said_usd = cost.usd;
  if (!cost.not_believed.empty()) {
    tell(fmt::format("model {}: {}, which is implausible; the most that was expected is counted instead",
                     desk.config.name, cost.not_believed));
    if (result)
      result->not_believed = cost.not_believed;
    else
      result.error().message += fmt::format(" (implausible: {})", cost.not_believed);
  }
  const double usd = cost.usd ? *cost.usd : desk.config.prices.usd_of(used);
  desk.limits.end(each.expected, used, at);
  ledger.settle(each.reservation, used, usd, !result);
  desk.cost_known = desk.cost_known || result || cost.usd;
  learn_cost(each, used, usd);
  if (!used.estimated && used.input + used.cached + used.cache_written > each.reservation.usage.input)
    desk.tokens_per_byte = std::max(desk.tokens_per_byte,
                                    1.1 * static_cast<double>(used.input + used.cached + used.cache_written) /
                                        static_cast<double>(std::max<std::size_t>(1, bytes_of(each.fitted))));
  const auto self = std::ranges::find_if(calls, [&](const ServedCall& c) { return &c == &call; });

  if (result) {
    const bool rested = desk.breaker.state(at) != CircuitBreaker::State::closed;
    desk.breaker.succeeded();
    desk.holds = 0;
    tell_of_nothing(call, each, *result);
    if (rested) tell("model " + desk.config.name + " is available again");
    if (auto kept = log.arrived(call.exchange, *result, usd); !kept)
      return finish(
          self, chat_failure(Kind::not_recorded,
                             "the answer arrived, but it could not be recorded: " + kept.error().message));
    return finish(self, ServedAnswer{std::move(*result), call.exchange, desk.config.name, usd, false});
  }

  const ChatError error = std::move(result.error());
  if (auto kept = log.failed(call.exchange, error, usd); !kept)
    return finish(self, chat_failure(Kind::not_recorded, kept.error().message));
  call.last_error = error;
  switch (consequence_of(error.kind)) {
    case Consequence::hold:
      --call.attempts;
      hold(desk, error);
      break;
    case Consequence::retry: {
      const bool was_closed = desk.breaker.state(at) == CircuitBreaker::State::closed;
      desk.breaker.failed(at);
      desk.reason = in_words(error);
      if (was_closed && desk.breaker.state(at) != CircuitBreaker::State::closed)
        tell(fmt::format("model {} is paused after {} failures in a row: {}", desk.config.name,
                         desk.config.retry.breaker_failures, desk.reason));
      if (++each.failures >= desk.config.retry.attempts) each.over = true;
      each.not_before = at + wait_before_retry(desk.config.retry, each.failures, error, jitter);
      break;
    }
    case Consequence::next_model:
      // The server works; it rejects this call or the key.
      if (error.kind == Kind::auth)
        desk.breaker.undecided();
      else
        desk.breaker.succeeded();
      each.over = true;
      break;
    case Consequence::give_up:
      desk.breaker.undecided();
      return finish(self, tl::make_unexpected(error));
  }
}

void ChatService::Core::publish() {
  ChatServiceState state;
  const double at = now();
  std::string reasons;
  bool all_down = !desks.empty();
  for (const LimitedModel& desk : desks) {
    ModelState m;
    m.name = desk.config.name;
    m.in_flight = desk.in_flight;
    const auto breaker = desk.breaker.state(at);
    if (desk.held_until > at) {
      m.kind = ModelState::Kind::held;
      m.for_s = desk.held_until - at;
    } else if (breaker == CircuitBreaker::State::open) {
      m.kind = ModelState::Kind::resting;
      m.for_s = desk.breaker.ready_at(at) - at;
    } else if (breaker == CircuitBreaker::State::trying) {
      m.kind = ModelState::Kind::trying;
    }
    if (m.kind != ModelState::Kind::ready) m.reason = desk.reason;
    all_down = all_down && m.kind != ModelState::Kind::ready;
    reasons += fmt::format("{}{} ({})", reasons.empty() ? "" : "; ", m.name, m.reason);
    state.in_flight += m.in_flight;
    state.models.push_back(std::move(m));
  }
  state.waiting =
      static_cast<int>(std::ranges::count_if(calls, [](const ServedCall& c) { return !c.flying; }));
  if (all_down) state.paused = "no language model is available: " + reasons;
  // Each model's reason was reported when it was put on hold.
  if (all_down && paused_before.empty()) tell("no language model is available at present");
  if (!all_down && !paused_before.empty()) tell("a language model is available again");
  paused_before = state.paused;
  state.spent = ledger.run();
  state.reserved_usd = ledger.reserved_usd();
  state.by_operator_and_model = ledger.by_operator_and_model();
  const std::lock_guard lock(mutex);
  shown = std::move(state);
}

}  // namespace cultivar

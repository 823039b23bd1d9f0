// SPDX-License-Identifier: Apache-2.0
#include "engine/store/momentary.hpp"

#include <SQLiteCpp/Database.h>

#include <algorithm>

#include "engine/store/rows.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {

using nlohmann::json;

std::string to_body(const Momentary& now) {
  json body{{"challengers", now.challengers}};
  if (now.pause)
    body["pause"] = {{"since", now.pause->since}, {"next_try", now.pause->next_try}, {"why", now.pause->why}};
  if (now.closing) body["closing"] = {{"why", now.closing->why}, {"until", now.closing->until}};
  if (now.duel) body["duel"] = *now.duel;
  if (!now.step.empty()) body["step"] = now.step;
  body["workers"] = now.workers;
  return json_text(body);
}

void set_momentary(Summary& s, const std::string& text) {
  if (text.empty()) return;
  const json body = json_in(text);
  s.challengers = body.value("challengers", std::int64_t{0});
  if (s.alive()) s.workers = body.value("workers", std::vector<WorkersOf>());
  if (s.alive()) s.step = body.value("step", "");
  if (const json closing = body.value("closing", json()); s.alive() && closing.is_object())
    s.ending = Ending{closing.value("why", ""), std::max(0.0, closing.value("until", 0.0) - unix_now())};
  if (const json duel = body.value("duel", json()); s.alive() && duel.is_object()) {
    s.duel = duel.get<DuelNow>();
    s.challengers = std::max<std::int64_t>(0, s.challengers - 1);
  }
  const json pause = body.value("pause", json());
  if (!s.alive() || !pause.is_object()) return;
  s.waiting = Waiting{std::max(0.0, unix_now() - pause.value("since", 0.0)),
                      std::max(0.0, pause.value("next_try", 0.0) - unix_now()), pause.value("why", "")};
}

std::int64_t comparisons_since_judgement(const Record& record) {
  // The inner query reads from the end.
  return record.database()
      .execAndGet(
          "SELECT count(*) FROM decisions WHERE kind IN ('duel', 'confirm') AND seq > coalesce((SELECT seq "
          "FROM decisions WHERE kind = 'judge' ORDER BY seq DESC LIMIT 1), 0)")
      .getInt64();
}

}  // namespace cultivar

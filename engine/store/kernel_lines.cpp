// SPDX-License-Identifier: Apache-2.0
#include "engine/store/kernel_lines.hpp"

#include <SQLiteCpp/Database.h>

#include "engine/store/rows.hpp"

namespace cultivar {

namespace {

constexpr const char* kLine =
    "SELECT id, coalesce(json_extract(parents, '$[0]'), 0), duplicate_of, source, op, model, island, usd, "
    "tokens, proposed_at, judged_at, state, expelled, stage, reason, fitness FROM individuals ";

KernelLine line_of(SQLite::Statement& row) {
  KernelLine line;
  read_row(row, line.id, line.parent, line.duplicate_of, line.source, line.op, line.model, line.island,
           line.usd, line.tokens, line.proposed_at, line.judged_at, line.state, line.expelled, line.stage,
           line.reason, line.fitness);
  require_plausible(line.id, line.state);
  if (line.parent >= line.id) line.parent = 0;  // a circle would never end
  return line;
}

}  // namespace

void each_kernel_line(const Record& record, const std::function<void(const KernelLine&)>& visit,
                      IndividualId after) {
  each_row(
      record.database(), std::string(kLine) + "WHERE id > ? ORDER BY id",
      [&](SQLite::Statement& row) { visit(line_of(row)); }, after);
}

std::optional<KernelLine> kernel_line(const Record& record, IndividualId id) {
  auto row = query(record.database(), std::string(kLine) + "WHERE id = ?", id);
  if (!row.executeStep()) return std::nullopt;
  return line_of(row);
}

std::vector<IndividualId> kernels_mentioning(const Record& record, const std::string& text) {
  std::vector<IndividualId> ids;
  std::string pattern = "%";
  for (const char c : text)
    pattern += c == '%' || c == '_' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  each_row(
      record.database(),
      "SELECT id FROM individuals WHERE note LIKE ?1 ESCAPE '\\' OR "
      "replace(replace(replace(configuration, '\"', ''), ':', '='), ',', ' ') LIKE ?1 ESCAPE '\\' "
      "ORDER BY id",
      [&](SQLite::Statement& row) { ids.push_back(column<IndividualId>(row, 0)); }, pattern + "%");
  return ids;
}

std::vector<KernelTexts> kernel_texts(const Record& record, const std::vector<IndividualId>& ids,
                                      std::size_t most) {
  std::vector<KernelTexts> texts;
  for (const IndividualId id : ids) {
    KernelTexts& each = texts.emplace_back();
    auto row =
        query(record.database(),
              "SELECT substr(configuration, 1, ?2), substr(note, 1, ?2) FROM individuals WHERE id = ?1", id,
              static_cast<std::int64_t>(most));
    if (row.executeStep()) read_row(row, each.configuration, each.note);
  }
  return texts;
}

double evaluated_at(const Record& record, IndividualId id, Examination of) {
  return first_of<double>(
      record.database(),
      "SELECT at FROM evaluations WHERE individual = ? AND kind = ? ORDER BY number DESC LIMIT 1", id,
      std::string(name_of(of)));
}

double last_step_at(const Record& record) {
  const std::string heartbeat = meta(record.database(), "heartbeat");
  return heartbeat.empty() ? first_of<double>(record.database(),  // an earlier version recorded none
                                              "SELECT at FROM events ORDER BY number DESC LIMIT 1")
                           : number_in(heartbeat, "heartbeat");
}

std::int64_t revision_of(const Record& record) {
  return first_of<std::int64_t>(record.database(), "PRAGMA data_version");
}

}  // namespace cultivar

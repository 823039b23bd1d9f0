// SPDX-License-Identifier: Apache-2.0
#include "engine/store/witness.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "engine/store/rows.hpp"
#include "engine/store/schema.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace {

constexpr std::size_t kBytes = 192;  // always the same, so that one write replaces all of it
// The end of the session follows. The file always has it, so that a full disk has room for it.
constexpr std::size_t kEndBytes = 1024 - kBytes;
constexpr std::string_view kEnded = "ended: ";

std::string padded(std::string text, std::size_t bytes) {
  text.resize(bytes - 1, ' ');
  return text + '\n';
}

}  // namespace

Extent extent_of(SQLite::Database& db) {
  Extent e;
  auto q = query(db,
                 "SELECT (SELECT coalesce(max(seq), 0) FROM decisions), (SELECT coalesce(max(id), 0) FROM "
                 "individuals), coalesce((SELECT value FROM tallies WHERE key = 'evaluations'), 0), "
                 "coalesce((SELECT value FROM tallies WHERE key = 'steps'), 0)");
  if (q.executeStep()) read_row(q, e.decisions, e.individuals, e.evaluations, e.steps);
  if (schema_version(db) >= 2)
    e.exchanges = db.execAndGet("SELECT coalesce(max(number), 0) FROM exchanges").getInt64();
  return e;
}

std::string missing_text(const Extent& has, const Extent& had) {
  std::string text;
  const auto add = [&](std::int64_t now, std::int64_t before, const char* what) {
    if (now < before)
      text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", before - now, what,
                          before - now == 1 ? "" : "s");
  };
  add(has.decisions, had.decisions, "decision");
  add(has.individuals, had.individuals, "individual");
  add(has.evaluations, had.evaluations, "evaluation");
  add(has.exchanges, had.exchanges, "call");
  if (text.empty()) add(has.steps, had.steps, "step");
  return text;
}

std::string lost_steps(SQLite::Database& db, const RunFolder& folder) {
  const auto had = witnessed(folder);  // read first: a step is in the database before it is witnessed
  const std::string missing = had ? missing_text(extent_of(db), *had) : std::string();
  if (missing.empty()) return {};
  return fmt::format(
      "run.db lacks recorded steps ({}): its log run.db-wal was deleted, cut or damaged, or an older run.db "
      "was put in its place. `cultivar resume` restores the newest of its checkpoints, and says what is lost",
      missing);
}

std::optional<Extent> witnessed(const RunFolder& folder) {
  const auto text = read_unlinked_file(folder.witness(), kBytes + kEndBytes);
  Extent e;
  long long steps = 0, decisions = 0, individuals = 0, evaluations = 0, exchanges = 0;
  int end = 0;
  if (!text ||
      std::sscanf(text->c_str(),
                  "steps %lld decisions %lld individuals %lld evaluations %lld exchanges %lld end%n", &steps,
                  &decisions, &individuals, &evaluations, &exchanges, &end) != 5 ||
      end == 0)
    return std::nullopt;
  return Extent{steps, decisions, individuals, evaluations, exchanges};
}

std::optional<std::string> witnessed_end(const RunFolder& folder) {
  std::string text = read_unlinked_file(folder.witness(), kBytes + kEndBytes).value_or("");
  text.erase(text.find_last_not_of(" \n") + 1);
  if (text.size() < kBytes || !text.substr(kBytes).starts_with(kEnded)) return std::nullopt;
  return plain_line(text.substr(kBytes + kEnded.size()), kEndBytes);
}

Witness::Witness(const RunFolder& folder)
    : descriptor_(
          ::open(folder.witness().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644)) {}
Witness::Witness(Witness&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), begun_(other.begun_) {}
Witness& Witness::operator=(Witness&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(begun_, other.begun_);
  return *this;
}
Witness::~Witness() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Witness::write(const Extent& e) {
  if (descriptor_ < 0) return;
  std::string text = fmt::format("steps {} decisions {} individuals {} evaluations {} exchanges {} end",
                                 e.steps, e.decisions, e.individuals, e.evaluations, e.exchanges);
  text = padded(std::move(text), kBytes);
  if (!std::exchange(begun_, true)) text += padded("", kEndBytes);
  (void)!::pwrite(descriptor_, text.data(), text.size(), 0);
}

void Witness::write_end(const std::string& reason) {
  if (descriptor_ < 0) return;
  const std::string text =
      padded(fmt::format("{}{}", kEnded, plain_line(reason, kEndBytes - 2 * kEnded.size())), kEndBytes);
  (void)!::pwrite(descriptor_, text.data(), text.size(), kBytes);
}

}  // namespace cultivar

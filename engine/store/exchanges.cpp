// SPDX-License-Identifier: Apache-2.0
#include "engine/store/exchanges.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Transaction.h>
#include <fmt/format.h>

#include "engine/store/rows.hpp"
#include "engine/store/schema.hpp"
#include "evaluators/system/clock.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

constexpr const char* kUsage = "input, cached, cache_written, output, reasoning, estimated";

Usage usage_of(SQLite::Statement& q, int first) {
  Usage u;
  read_columns(q, first, u.input, u.cached, u.cache_written, u.output, u.reasoning, u.estimated);
  return u;
}

// state, answer, error, message, then the usage, USD, the time and the exchange.
constexpr const char* kEnd =
    "UPDATE exchanges SET state = ?, answer = ?, error = ?, message = ?, input = ?, cached = ?, "
    "cache_written = ?, output = ?, reasoning = ?, estimated = ?, usd = ?, over_at = ? WHERE number = ?";

constexpr const char* kCounted =
    "state, input, cached, cache_written, output, reasoning, estimated, usd, reserved_input, "
    "reserved_output, reserved_usd";
constexpr int kCountedColumns = 11;

Spent counted(SQLite::Statement& q) {
  Spent one;
  one.calls = 1;
  const int state = column<int>(q, 0);
  if (state == 0) {  // its outcome is unknown: counted at its upper bound
    one.failed = 1;
    read_columns(q, 8, one.usage.input, one.usage.output, one.usd);
    one.usage.estimated = true;
    one.uncertain_usd = one.usd;
  } else {
    one.failed = state == 2 ? 1 : 0;
    one.usage = usage_of(q, 1);
    one.usd = column<double>(q, 7);
    one.uncertain_usd = one.usage.estimated ? one.usd : 0.0;
  }
  return one;
}

bool has_exchanges(const Record& record) {
  return schema_version(record.database()) >= 2;
}

}  // namespace

ExchangeStore::ExchangeStore(std::filesystem::path file, std::unique_ptr<SQLite::Database> database)
    : file_(std::move(file)), database_(std::move(database)) {}
ExchangeStore::~ExchangeStore() = default;

Expected<std::unique_ptr<ExchangeStore>> ExchangeStore::open(const RunFolder& folder, const RecordWriter&) {
  try {
    auto db = std::make_unique<SQLite::Database>(folder.database().string(), SQLite::OPEN_READWRITE);
    db->setBusyTimeout(10'000);             // the record writer's transactions are short
    db->exec("PRAGMA synchronous = FULL");  // a paid answer is on disk before it is used
    db->exec("PRAGMA foreign_keys = ON");
    return std::unique_ptr<ExchangeStore>(new ExchangeStore(folder.database(), std::move(db)));
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "open run", folder.database()));
  }
}

template <class Write>
auto ExchangeStore::transaction(Write&& write) -> Expected<decltype(std::declval<Write>()())> {
  try {
    SQLite::Transaction transaction(*database_, SQLite::TransactionBehavior::IMMEDIATE);
    if constexpr (std::is_void_v<decltype(write())>) {
      write();
      transaction.commit();
      return {};
    } else {
      auto result = write();
      transaction.commit();
      return result;
    }
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "record", file_));
  }
}

Expected<std::optional<ArrivedAnswer>> ExchangeStore::find(const std::string& call,
                                                           const std::string& request_hash) {
  try {
    auto q = query(
        *database_,
        "SELECT e.number, e.op, e.model, e.usd, e.answer FROM exchanges e JOIN requests r ON "
        "r.number = e.request WHERE e.call = ? AND r.hash = ? AND e.state = 1 ORDER BY e.number LIMIT 1",
        call, request_hash);
    if (!q.executeStep()) return std::optional<ArrivedAnswer>();
    ArrivedAnswer found;
    read_row(q, found.id, found.op, found.model, found.usd);
    found.answer = answer_from_record(column<json>(q, 4));
    return std::optional(std::move(found));
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "read record", file_));
  } catch (const json::exception& e) {
    return failure("read record", file_.string() + ": the answer to " + call + " is damaged (" +
                                      said_shortly(e) +
                                      "); the run's folder `checkpoints` holds older copies");
  }
}

Expected<ExchangeId> ExchangeStore::sent(const SentRequest& sent) {
  return transaction([&]() -> ExchangeId {
    query(*database_, "INSERT OR IGNORE INTO requests (hash, body) VALUES (?, ?)", sent.request_hash,
          json_text(to_record(sent.request)))
        .exec();
    if (sent.goes_on != 0) {
      query(*database_,
            "UPDATE exchanges SET attempt = ?, reserved_input = ?, reserved_output = ?, reserved_usd = ?, "
            "sent_at = ? WHERE number = ? AND state = 0",
            sent.attempt, sent.reserved.input, sent.reserved.output, sent.reserved_usd, unix_now(),
            sent.goes_on)
          .exec();
      return sent.goes_on;
    }
    query(*database_,
          "INSERT INTO exchanges (call, op, model, attempt, request, reserved_input, reserved_output, "
          "reserved_usd, sent_at) VALUES (?, ?, ?, ?, (SELECT number FROM requests WHERE hash = ?), ?, ?, ?, "
          "?)",
          sent.request.call, sent.op, sent.model, sent.attempt, sent.request_hash, sent.reserved.input,
          sent.reserved.output, sent.reserved_usd, unix_now())
        .exec();
    return database_->getLastInsertRowid();
  });
}

Expected<void> ExchangeStore::ended(ExchangeId id, ExchangeRow::State state, const std::string& answer,
                                    const std::string& error, const std::string& message, const Usage& usage,
                                    double usd) {
  return transaction([&] {
    query(*database_, kEnd, static_cast<int>(state), answer, error, message, usage.input, usage.cached,
          usage.cache_written, usage.output, usage.reasoning, usage.estimated ? 1 : 0, usd, unix_now(), id)
        .exec();
  });
}

Expected<void> ExchangeStore::arrived(ExchangeId id, const ChatAnswer& answer, double usd) {
  return ended(id, ExchangeRow::State::arrived, json_text(to_record(answer)), "", "", answer.usage, usd);
}

Expected<void> ExchangeStore::failed(ExchangeId id, const ChatError& error, double usd) {
  return ended(id, ExchangeRow::State::failed, "", name_of(error.kind), error.message, error.usage, usd);
}

Expected<std::map<std::pair<std::string, std::string>, Spent>> ExchangeStore::spent() {
  try {
    std::map<std::pair<std::string, std::string>, Spent> sums;
    each_row(*database_, fmt::format("SELECT {}, op, model FROM exchanges", kCounted), [&](auto& row) {
      std::pair<std::string, std::string> whose;
      read_columns(row, kCountedColumns, whose.first, whose.second);
      sums[whose] += counted(row);
    });
    return sums;
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "read record", file_));
  }
}

Expected<std::vector<UnendedExchange>> ExchangeStore::unended(const std::string& call,
                                                              const std::string& request_hash,
                                                              const std::string& model) {
  try {
    std::vector<UnendedExchange> found;
    each_row(
        *database_,
        fmt::format("SELECT {}, e.number FROM exchanges e JOIN requests r ON r.number = e.request WHERE "
                    "e.call = ? AND r.hash = ? AND e.model = ? AND e.state = 0 ORDER BY e.number",
                    kCounted),
        [&](auto& row) {
          found.push_back({column<ExchangeId>(row, kCountedColumns), counted(row)});
        },
        call, request_hash, model);
    return found;
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "read record", file_));
  }
}

RecordedSpending spending_of(const Record& record) {
  RecordedSpending sums;
  if (!has_exchanges(record)) return sums;
  each_row(record.database(), fmt::format("SELECT {} FROM exchanges", kCounted), [&](auto& row) {
    const Spent one = counted(row);
    sums.all += one;
    if (column<int>(row, 0) == 0) sums.unended += one;
  });
  return sums;
}

namespace {

template <class... Values>
std::vector<ExchangeRow> exchanges_where(const Record& record, const std::string& condition,
                                         const Values&... values) {
  std::vector<ExchangeRow> rows;
  if (!has_exchanges(record)) return rows;
  each_row(
      record.database(),
      fmt::format("SELECT number, call, op, model, attempt, state, error, message, usd, sent_at, over_at, "
                  "used_by, {} FROM exchanges WHERE {} ORDER BY number",
                  kUsage, condition),
      [&](auto& row) {
        ExchangeRow& e = rows.emplace_back();
        read_row(row, e.id, e.call, e.op, e.model, e.attempt, e.state, e.error, e.message, e.usd, e.sent_at,
                 e.over_at, e.used_by);
        e.usage = usage_of(row, 12);
      },
      values...);
  return rows;
}

}  // namespace

std::vector<ExchangeRow> exchanges_of(const Record& record, const std::string& call) {
  return exchanges_where(record, "?1 = '' OR call = ?1", call);
}

std::vector<ExchangeRow> exchanges_of_question(const Record& record, const std::string& op,
                                               std::int64_t question) {
  const std::string prefix = fmt::format("{}/{}", op, question);  // '0' follows '/'
  return exchanges_where(record, "call > ?1 AND call < ?2", prefix + "/", prefix + "0");
}

ExchangeTexts exchange_texts(const Record& record, ExchangeId id) {
  auto q = query(record.database(),
                 "SELECT r.body, e.answer FROM exchanges e JOIN requests r ON r.number = e.request WHERE "
                 "e.number = ?",
                 id);
  if (!q.executeStep()) return {};
  return {column<json>(q, 0), column<std::string>(q, 1).empty() ? json() : column<json>(q, 1)};
}

std::vector<RecordedExchange> recorded_exchanges(const Record& record) {
  std::vector<RecordedExchange> all;
  if (!has_exchanges(record)) return all;
  each_row(record.database(),
           "SELECT e.call, e.model, r.body, e.answer FROM exchanges e JOIN requests r ON r.number = "
           "e.request WHERE e.state = 1 ORDER BY e.number",
           [&](auto& row) {
             RecordedExchange& one = all.emplace_back();
             read_row(row, one.call, one.model);
             one.request = request_from_record(column<json>(row, 2));
             one.request.call = one.call;
             one.answer = answer_from_record(column<json>(row, 3));
           });
  return all;
}

}  // namespace cultivar

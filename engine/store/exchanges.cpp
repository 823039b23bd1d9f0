#include "engine/store/exchanges.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>
#include <chrono>

#include "engine/store/schema.hpp"
#include "engine/store/trouble.hpp"
#include "evaluators/foreign_json.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string dumped(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

Usage usage_of(SQLite::Statement& q, int first) {
  Usage usage;
  usage.input = q.getColumn(first).getInt64();
  usage.cached = q.getColumn(first + 1).getInt64();
  usage.cache_written = q.getColumn(first + 2).getInt64();
  usage.output = q.getColumn(first + 3).getInt64();
  usage.reasoning = q.getColumn(first + 4).getInt64();
  usage.estimated = q.getColumn(first + 5).getInt() != 0;
  return usage;
}

void bind_end(SQLite::Statement& q, ExchangeId id, const Usage& usage, double usd) {
  q.bind(":input", usage.input);
  q.bind(":cached", usage.cached);
  q.bind(":cache_written", usage.cache_written);
  q.bind(":output", usage.output);
  q.bind(":reasoning", usage.reasoning);
  q.bind(":estimated", usage.estimated ? 1 : 0);
  q.bind(":usd", usd);
  q.bind(":over_at", now());
  q.bind(":number", id);
}

constexpr const char* kEnd =
    "UPDATE exchanges SET state = :state, answer = :answer, error = :error, message = :message, input = "
    ":input, "
    "cached = :cached, cache_written = :cache_written, output = :output, reasoning = :reasoning, "
    "estimated = :estimated, usd = :usd, over_at = :over_at WHERE number = :number";

constexpr const char* kCounted =
    "state, input, cached, cache_written, output, reasoning, estimated, usd, reserved_input, "
    "reserved_output, reserved_usd";
constexpr int kCountedColumns = 11;

Spent counted(SQLite::Statement& q) {
  Spent one;
  one.calls = 1;
  const int state = q.getColumn(0).getInt();
  if (state == 0) {  // nobody knows how it ended: it counts with the most
    one.failed = 1;
    one.usage.input = q.getColumn(8).getInt64();
    one.usage.output = q.getColumn(9).getInt64();
    one.usage.estimated = true;
    one.usd = one.uncertain_usd = q.getColumn(10).getDouble();
  } else {
    one.failed = state == 2 ? 1 : 0;
    one.usage = usage_of(q, 1);
    one.usd = q.getColumn(7).getDouble();
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

Expected<std::unique_ptr<ExchangeStore>> ExchangeStore::open(const RunFolder& folder, const Journal&) {
  try {
    auto db = std::make_unique<SQLite::Database>(folder.database().string(), SQLite::OPEN_READWRITE);
    db->setBusyTimeout(10'000);             // the journal's steps are short
    db->exec("PRAGMA synchronous = FULL");  // an answer that was paid is on the disk before it is used
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
    SQLite::Statement q(
        *database_,
        "SELECT e.number, e.op, e.model, e.answer, e.usd FROM exchanges e JOIN requests r ON "
        "r.number = e.request WHERE e.call = ? AND r.hash = ? AND e.state = 1 ORDER BY e.number LIMIT 1");
    q.bind(1, call);
    q.bind(2, request_hash);
    if (!q.executeStep()) return std::optional<ArrivedAnswer>();
    ArrivedAnswer found;
    found.id = q.getColumn(0).getInt64();
    found.op = q.getColumn(1).getString();
    found.model = q.getColumn(2).getString();
    found.answer = answer_from_record(json::parse(q.getColumn(3).getString()));
    found.usd = q.getColumn(4).getDouble();
    return std::optional(std::move(found));
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "read record", file_));
  } catch (const json::exception& e) {
    return failure("read record", file_.string() + ": the answer to " + call + " is damaged (" +
                                      said_shortly(e) + "); its folder `checkpoints` holds older copies");
  }
}

Expected<ExchangeId> ExchangeStore::sent(const SentRequest& sent) {
  return transaction([&]() -> ExchangeId {
    SQLite::Statement text(*database_, "INSERT OR IGNORE INTO requests (hash, body) VALUES (?, ?)");
    text.bind(1, sent.request_hash);
    text.bind(2, dumped(to_record(sent.request)));
    text.exec();
    if (sent.goes_on != 0) {
      SQLite::Statement again(*database_,
                              "UPDATE exchanges SET attempt = ?, reserved_input = ?, reserved_output = ?, "
                              "reserved_usd = ?, sent_at = ? WHERE number = ? AND state = 0");
      again.bind(1, sent.attempt);
      again.bind(2, sent.reserved.input);
      again.bind(3, sent.reserved.output);
      again.bind(4, sent.reserved_usd);
      again.bind(5, now());
      again.bind(6, sent.goes_on);
      again.exec();
      return sent.goes_on;
    }
    SQLite::Statement q(
        *database_,
        "INSERT INTO exchanges (call, op, model, attempt, request, reserved_input, reserved_output, "
        "reserved_usd, sent_at) VALUES (?, ?, ?, ?, (SELECT number FROM requests WHERE hash = ?), ?, ?, ?, "
        "?)");
    q.bind(1, sent.request.call);
    q.bind(2, sent.op);
    q.bind(3, sent.model);
    q.bind(4, sent.attempt);
    q.bind(5, sent.request_hash);
    q.bind(6, sent.reserved.input);
    q.bind(7, sent.reserved.output);
    q.bind(8, sent.reserved_usd);
    q.bind(9, now());
    q.exec();
    return database_->getLastInsertRowid();
  });
}

Expected<void> ExchangeStore::arrived(ExchangeId id, const ChatAnswer& answer, double usd) {
  return transaction([&] {
    SQLite::Statement q(*database_, kEnd);
    bind_end(q, id, answer.usage, usd);
    q.bind(":state", 1);
    q.bind(":answer", dumped(to_record(answer)));
    q.bind(":error", "");
    q.bind(":message", "");
    q.exec();
  });
}

Expected<void> ExchangeStore::failed(ExchangeId id, const ChatError& error, double usd) {
  return transaction([&] {
    SQLite::Statement q(*database_, kEnd);
    bind_end(q, id, error.usage, usd);
    q.bind(":state", 2);
    q.bind(":answer", "");
    q.bind(":error", name_of(error.kind));
    q.bind(":message", error.message);
    q.exec();
  });
}

Expected<std::map<std::pair<std::string, std::string>, Spent>> ExchangeStore::spent() {
  try {
    std::map<std::pair<std::string, std::string>, Spent> sums;
    SQLite::Statement q(*database_, std::string("SELECT ") + kCounted + ", op, model FROM exchanges");
    while (q.executeStep())
      sums[{q.getColumn(kCountedColumns).getString(), q.getColumn(kCountedColumns + 1).getString()}] +=
          counted(q);
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
    SQLite::Statement q(*database_, std::string("SELECT ") + kCounted +
                                        ", e.number FROM exchanges e JOIN requests r ON r.number = e.request "
                                        "WHERE e.call = ? AND r.hash = ? AND e.model = ? AND e.state = 0 "
                                        "ORDER BY e.number");
    q.bind(1, call);
    q.bind(2, request_hash);
    q.bind(3, model);
    while (q.executeStep()) found.push_back({q.getColumn(kCountedColumns).getInt64(), counted(q)});
    return found;
  } catch (const SQLite::Exception& e) {
    return tl::make_unexpected(trouble(e, "read record", file_));
  }
}

RecordedSpending spending_of(const Record& record) {
  RecordedSpending sums;
  if (!has_exchanges(record)) return sums;
  SQLite::Statement q(record.database(), std::string("SELECT ") + kCounted + " FROM exchanges");
  while (q.executeStep()) {
    const Spent one = counted(q);
    sums.all += one;
    if (q.getColumn(0).getInt() == 0) sums.unended += one;
  }
  return sums;
}

std::vector<ExchangeRow> exchanges_of(const Record& record, const std::string& call) {
  std::vector<ExchangeRow> rows;
  if (!has_exchanges(record)) return rows;
  SQLite::Statement q(
      record.database(),
      "SELECT number, call, op, model, attempt, state, error, message, usd, sent_at, over_at, used_by, "
      "input, cached, cache_written, output, reasoning, estimated FROM exchanges "
      "WHERE ?1 = '' OR call = ?1 ORDER BY number");
  q.bind(1, call);
  while (q.executeStep()) {
    ExchangeRow row;
    row.id = q.getColumn(0).getInt64();
    row.call = q.getColumn(1).getString();
    row.op = q.getColumn(2).getString();
    row.model = q.getColumn(3).getString();
    row.attempt = q.getColumn(4).getInt();
    row.state = static_cast<ExchangeRow::State>(q.getColumn(5).getInt());
    row.error = q.getColumn(6).getString();
    row.message = q.getColumn(7).getString();
    row.usd = q.getColumn(8).getDouble();
    row.sent_at = q.getColumn(9).getDouble();
    row.over_at = q.getColumn(10).getDouble();
    row.used_by = q.getColumn(11).getInt64();
    row.usage = usage_of(q, 12);
    rows.push_back(std::move(row));
  }
  return rows;
}

ExchangeTexts exchange_texts(const Record& record, ExchangeId id) {
  SQLite::Statement q(
      record.database(),
      "SELECT r.body, e.answer FROM exchanges e JOIN requests r ON r.number = e.request WHERE "
      "e.number = ?");
  q.bind(1, id);
  if (!q.executeStep()) return {};
  const std::string answer = q.getColumn(1).getString();
  return {json::parse(q.getColumn(0).getString()), answer.empty() ? json() : json::parse(answer)};
}

std::vector<RecordedExchange> recorded_exchanges(const Record& record) {
  std::vector<RecordedExchange> all;
  if (!has_exchanges(record)) return all;
  SQLite::Statement q(
      record.database(),
      "SELECT e.call, e.model, r.body, e.answer FROM exchanges e JOIN requests r ON r.number = "
      "e.request WHERE e.state = 1 ORDER BY e.number");
  while (q.executeStep()) {
    RecordedExchange one;
    one.call = q.getColumn(0).getString();
    one.model = q.getColumn(1).getString();
    one.request = request_from_record(json::parse(q.getColumn(2).getString()));
    one.request.call = one.call;
    one.answer = answer_from_record(json::parse(q.getColumn(3).getString()));
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// The calls to language models, in the run's database.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/store/record_writer.hpp"
#include "engine/store/run_folder.hpp"
#include "operators/llm/chat_service.hpp"
#include "operators/llm/replay.hpp"

namespace cultivar {

struct ExchangeRow {
  ExchangeId id = 0;
  std::string call, op, model;
  int attempt = 0;
  enum class State { sent, arrived, failed } state = State::sent;
  std::string error, message;
  Usage usage;
  double usd = 0.0, sent_at = 0.0, over_at = 0.0;
  IndividualId used_by = 0;
};
// Writes over its own connection, separate from the record writer's, so that an answer is stored without
// waiting for the search's thread. Not thread-safe: used only by the thread of one ChatService.
class ExchangeStore : public ExchangeLog {
 public:
  // The writer proves that this process holds the run's lock; it must outlive this object.
  static Expected<std::unique_ptr<ExchangeStore>> open(const RunFolder&, const RecordWriter&);
  ~ExchangeStore() override;

  Expected<std::optional<ArrivedAnswer>> find(const std::string& call,
                                              const std::string& request_hash) override;
  Expected<std::vector<UnendedExchange>> unended(const std::string& call, const std::string& request_hash,
                                                 const std::string& model) override;
  Expected<ExchangeId> sent(const SentRequest&) override;
  Expected<void> arrived(ExchangeId, const ChatAnswer&, double usd) override;
  Expected<void> failed(ExchangeId, const ChatError&, double usd) override;
  Expected<std::map<std::pair<std::string, std::string>, Spent>> spent() override;

 private:
  ExchangeStore(std::filesystem::path file, std::unique_ptr<SQLite::Database>);
  Expected<void> ended(ExchangeId, ExchangeRow::State, const std::string& answer, const std::string& error,
                       const std::string& message, const Usage&, double usd);
  template <class Write>
  auto transaction(Write&&) -> Expected<decltype(std::declval<Write>()())>;

  std::filesystem::path file_;
  std::unique_ptr<SQLite::Database> database_;
};

// Reading, from any process: for people and for `replay`.
std::vector<ExchangeRow> exchanges_of(const Record&, const std::string& call = {});  // empty: all calls
std::vector<ExchangeRow> exchanges_of_question(const Record&, const std::string& op, std::int64_t question);
// The initial usage of a resumed search. unended: the part with unknown outcome, counted at its upper bound;
// it includes a running search's calls in flight.
struct RecordedSpending {
  Spent all, unended;
};
RecordedSpending spending_of(const Record&);
struct ExchangeTexts {
  nlohmann::json request,
      answer;  // the formats of request_from_record and answer_from_record; answer: null if there is none
};
ExchangeTexts exchange_texts(const Record&, ExchangeId);
// Every answered exchange with its texts, oldest first: the input of provider `replay`.
std::vector<RecordedExchange> recorded_exchanges(const Record&);

}  // namespace cultivar

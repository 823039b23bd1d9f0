// What was said to language models, in the run's database.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/run_folder.hpp"
#include "engine/store/journal.hpp"
#include "operators/llm/exchange_log.hpp"
#include "operators/llm/replay.hpp"

namespace cultivar {

// Writes over a connection of its own, beside the journal's, so that an answer is on the disk without waiting
// for the steward. Not thread-safe: it belongs to the thread of one ChatService.
class ExchangeStore : public ExchangeLog {
 public:
  // The journal is the proof that this process holds the run; it must outlive the store.
  static Expected<std::unique_ptr<ExchangeStore>> open(const RunFolder&, const Journal&);
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
  template <class Write>
  auto transaction(Write&&) -> Expected<decltype(std::declval<Write>()())>;

  std::filesystem::path file_;
  std::unique_ptr<SQLite::Database> database_;
};

// For people, and for `replay`: reading, from any process.
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
std::vector<ExchangeRow> exchanges_of(const Record&, const std::string& call = {});  // empty: all
// What a search that goes on begins with. unended: the part of it whose end nobody knows, counted with the
// most that it can have cost; a running search's calls in flight are among them.
struct RecordedSpending {
  Spent all, unended;
};
RecordedSpending spending_of(const Record&);
struct ExchangeTexts {
  nlohmann::json request,
      answer;  // as request_from_record and answer_from_record take them; answer: null if none
};
ExchangeTexts exchange_texts(const Record&, ExchangeId);
// Every answered exchange with its texts, oldest first: what provider `replay` takes.
std::vector<RecordedExchange> recorded_exchanges(const Record&);

}  // namespace cultivar

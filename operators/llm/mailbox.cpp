// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/mailbox.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "evaluators/system/clock.hpp"
#include "operators/llm/chat_errors.hpp"
#include "operators/llm/mailbox_files.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using Kind = ChatError::Kind;

namespace {

constexpr std::string_view kWithdrawn =
    "<!-- Withdrawn: the search has moved on, and an answer is no longer read. -->\n";

struct Letter {
  ChatRequest request;
  std::string id;
  std::stop_token stop;
  ChatListener listener;
  Clock::time_point asked = Clock::now();
};

}  // namespace

struct MailboxModel::State {
  MailboxOptions options;
  std::mutex mutex;
  std::condition_variable_any changed;
  std::list<Letter> arriving;  // guarded
  std::list<Letter> open;
  bool explained = false;
  std::jthread thread;  // last member, because it uses all others

  fs::path requests() const { return options.folder / "requests"; }
  fs::path answers() const { return options.folder / "answers"; }

  static void end(Letter& letter, Kind kind, std::string message) {
    letter.listener.done(chat_failure(kind, std::move(message)));
  }

  std::optional<ChatError> post(const Letter& letter) {
    const auto unposted = [](const fs::path& file, std::error_code why) {
      return ChatError{
          .kind = is_of_the_disk(why) ? Kind::unwritable : Kind::unreachable,
          .message = fmt::format("cannot write to the mailbox: {}: {}", file.string(), why.message())};
    };
    std::error_code ec;
    for (const fs::path& folder : {requests() / "closed", answers() / "taken", answers() / "rejected"}) {
      fs::create_directories(folder, ec);
      if (ec) return unposted(folder, ec);
    }
    const fs::path readme = options.folder / "README.md", json = requests() / (letter.id + ".json"),
                   markdown = requests() / (letter.id + ".md");
    if (!explained && !fs::exists(readme, ec))
      if (const auto failed = put_file(readme, mailbox_explanation())) return unposted(readme, failed);
    explained = true;
    // The .md file last: when it exists, the .json file exists too.
    if (const auto failed = put_file(json, mailbox_json(letter.request, letter.id)))
      return unposted(json, failed);
    if (const auto failed = put_file(markdown, mailbox_markdown(letter.request, letter.id))) {
      fs::remove(json, ec);
      return unposted(markdown, failed);
    }
    return std::nullopt;
  }

  void close(const std::string& id) const {
    std::error_code ignored;
    for (const char* extension : {".md", ".json"})
      fs::rename(requests() / (id + extension), requests() / "closed" / (id + extension), ignored);
  }

  bool settled(const fs::path& file) const {
    struct stat facts {};
    if (::lstat(file.c_str(), &facts) != 0) return false;
    const double at =
        static_cast<double>(facts.st_mtim.tv_sec) + 1e-9 * static_cast<double>(facts.st_mtim.tv_nsec);
    const double now = unix_now();
    return now - at >= options.settled_s ||
           at > now + 60;  // a time in the future means a wrong clock, not a recent change
  }

  // Returns a usable answer, if there is one. Moves an invalid one aside, with the reason.
  std::optional<ChatAnswer> answer_to(const Letter& letter) const {
    for (const char* extension : {".json", ".md"}) {
      const bool is_json = extension == std::string_view(".json");
      const fs::path name = letter.id + extension;
      std::error_code ignored;
      // Read before a crash: use it, because somebody already spent time on it.
      if (const fs::path taken = answers() / "taken" / name; fs::is_regular_file(taken, ignored))
        if (const auto text = take_file(taken, options.bounds.answer_bytes))
          if (auto answer = read_mailbox_answer(*text, is_json, letter.request)) return *answer;
      const fs::path file = answers() / name;
      if (!settled(file)) continue;
      std::string wrong;
      if (auto text = take_file(file, options.bounds.answer_bytes); !text) {
        wrong = text.error().message;
      } else if (auto answer = read_mailbox_answer(*text, is_json, letter.request); !answer) {
        wrong = answer.error().message;
      } else {
        fs::rename(file, answers() / "taken" / name, ignored);
        return *answer;
      }
      reject(file, letter.id, wrong);
    }
    return std::nullopt;
  }

  void reject(const fs::path& file, const std::string& id, const std::string& wrong) const {
    const fs::path folder = answers() / "rejected";
    std::string stem = id;
    std::error_code ignored;
    for (int n = 2; fs::exists(folder / (stem + ".why.txt"), ignored); ++n)
      stem = fmt::format("{}-{}", id, n);
    const fs::path why = folder / (stem + ".why.txt");
    // Without a place for the reason (a full disk) the answer stays, and is rejected with it later.
    if (put_file(why, fmt::format("{}\n\nThe request is still open: answer it again in answers/{}.md or "
                                  ".json.\n",
                                  wrong, id)))
      return;
    std::error_code failed;
    fs::rename(file, folder / (stem + file.extension().string()), failed);
    if (failed == std::errc::no_space_on_device)
      fs::remove(why, ignored);
    else if (failed)
      fs::remove_all(file, ignored);  // otherwise it would be rejected again and again
  }

  // Whether the request has ended.
  bool look_after(Letter& letter) {
    if (letter.stop.stop_requested()) {
      // The request file stays, as below: an answer that arrives before the search is resumed is used then.
      end(letter, Kind::cancelled, "cancelled");
      return true;
    }
    if (auto answer = answer_to(letter)) {
      close(letter.id);
      answer->seconds = seconds_since(letter.asked);
      answer->first_byte_s = answer->seconds;
      if (letter.listener.delta) letter.listener.delta({ChatDelta::Kind::text, answer->text});
      letter.listener.done(std::move(*answer));
      return true;
    }
    if (Clock::now() - letter.asked >= duration_of(options.timeouts.total_s)) {
      close(letter.id);
      end(letter, Kind::timeout_total,
          fmt::format("timed out: {} was not answered within {:g} s", letter.id, options.timeouts.total_s));
      return true;
    }
    return false;
  }

  void run(const std::stop_token& closing) {
    while (!closing.stop_requested()) {
      std::list<Letter> fresh;
      {
        std::unique_lock lock(mutex);
        const auto something = [this] { return !arriving.empty(); };
        if (open.empty())
          changed.wait(lock, closing, something);
        else
          changed.wait_for(lock, closing, duration_of(options.look_every_s), something);
        fresh.swap(arriving);
      }
      for (auto it = fresh.begin(); it != fresh.end();) {
        const auto letter = it++;
        if (auto failed = post(*letter))
          letter->listener.done(tl::make_unexpected(*std::move(failed)));
        else
          open.splice(open.end(), fresh, letter);
      }
      for (auto it = open.begin(); it != open.end();) it = look_after(*it) ? open.erase(it) : std::next(it);
    }
    // Request files stay: a resumed search asks them again with the same names.
    const std::lock_guard lock(mutex);
    open.splice(open.end(), arriving);
    for (Letter& letter : open) end(letter, Kind::cancelled, "cancelled");
  }
};

std::string MailboxModel::file_stem(const ChatRequest& request) {
  std::string stem;
  for (const char c : request.call.substr(0, 60)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    stem += plain ? c : '-';
  }
  return (stem.empty() ? "request" : stem) + "-" + hash_of(request).substr(0, 12);
}

MailboxModel::MailboxModel(MailboxOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->thread = std::jthread([state = state_.get()](std::stop_token closing) { state->run(closing); });
}

MailboxModel::~MailboxModel() = default;

bool MailboxModel::has_answer(const ChatRequest& request) const {
  const std::string id = file_stem(request);
  const fs::path answers = state_->answers();
  for (const char* extension : {".json", ".md"})
    for (const fs::path& folder : {answers / "taken", answers})
      if (const auto text = take_file(folder / (id + extension), state_->options.bounds.answer_bytes))
        if (read_mailbox_answer(*text, extension == std::string_view(".json"), request)) return true;
  return false;
}

void MailboxModel::withdraw(const ChatRequest& request) const {
  const std::string id = file_stem(request);
  const fs::path file = state_->requests() / (id + ".md");
  // For who has it open, or lists requests/closed later.
  if (const auto text = take_file(file, state_->options.bounds.request_bytes))
    (void)put_file(file, std::string(kWithdrawn) + *text);
  state_->close(id);
}

void MailboxModel::ask(const ChatRequest& request, std::stop_token stop, ChatListener listener) {
  Letter letter;
  letter.request = request;
  letter.id = file_stem(request);
  letter.stop = std::move(stop);
  letter.listener = std::move(listener);
  {
    const std::lock_guard lock(state_->mutex);
    state_->arriving.push_back(std::move(letter));
  }
  state_->changed.notify_all();
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/mailbox.hpp"

#include <fmt/format.h>

#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <list>
#include <mutex>
#include <thread>

#include "evaluators/system/clock.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/json_text.hpp"
#include "operators/llm/chat_errors.hpp"
#include "operators/llm/tool_text.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using nlohmann::json;

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
    const fs::path readme = options.folder / "README.md", record = requests() / (letter.id + ".json"),
                   markdown = requests() / (letter.id + ".md");
    if (!explained && !fs::exists(readme, ec))
      if (const auto failed = put_file(readme, mailbox_explanation())) return unposted(readme, failed);
    explained = true;
    // The .md file last: when it exists, the .json file exists too.
    if (const auto failed = put_file(record, mailbox_json(letter.request, letter.id)))
      return unposted(record, failed);
    if (const auto failed = put_file(markdown, mailbox_markdown(letter.request, letter.id))) {
      fs::remove(record, ec);
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

namespace {

constexpr const char* kStage = "mailbox";
constexpr std::size_t kLongestModelName = 100;

std::string known_tools(const ChatRequest& request) {
  std::string names;
  for (const ToolSpec& tool : request.tools) names += (names.empty() ? "" : ", ") + tool.name;
  return names.empty() ? "this request has none" : names;
}

}  // namespace

std::string mailbox_explanation() {
  return R"(# A mailbox: you are the language model

A Cultivar search asks questions here and continues with other work until they are answered.

1. Read a file `requests/ID.md`. It holds the complete prompt. `requests/ID.json` holds the same for programs:
   `system`, `messages`, `tools`, as sent.
2. Write the answer to `answers/ID.md`. The complete file is the answer, exactly as a model would write it.
   Answer a request that offers tools (those of the operator `agent`) with one or more calls:

       Your thoughts.

       ```tool
       {"tool": "check", "arguments": {"variant": "12"}}
       ```
       <<<<<<< SEARCH
       complete lines of the source, copied exactly
       =======
       replacement lines
       >>>>>>> REPLACE

   Blocks directly below a call become its argument `edit`; a complete source in a fenced block becomes its argument
   `source`. The next request, with the same ID and the next number, contains the results.
   For programs, and to name the model that answered, write `answers/ID.json` instead:

       {"text": "...", "tool_calls": [{"name": "compile", "arguments": {"source": "..."}}], "model": "who answered"}

3. Write the file elsewhere and rename it into place, or write it in place: it is read when it has not changed for a
   second. It must be a regular file: a symbolic link is rejected, so that no other file of the machine is sent on.

A used answer is moved to `answers/taken/`. A file that cannot be read as an answer is moved to `answers/rejected/`, with
the reason in `ID.why.txt` next to it; the request stays open. An answer with a wrong edit or kernel (a SEARCH that is not
in the source, a kernel that does not compile) counts as used: the next request says what was wrong with it. Finished
requests are moved to `requests/closed/`; so is a request that is withdrawn because the search has moved on, with a first
line that says so. Check that a request is still in `requests/` before you spend long on it. The requests of a stopped search stay and are asked again when it is resumed. A
file whose name matches no request is ignored, because several searches may share this folder.
)";
}

std::string mailbox_markdown(const ChatRequest& request, const std::string& id) {
  std::string text = fmt::format("<!-- Answer in answers/{}.md", id);
  if (!request.tools.empty()) text += " with tool calls as blocks of kind `tool` (see Tools below)";
  text += fmt::format(
      "; at most {} tokens. See README.md.{} -->\n\n", request.max_output_tokens,
      request.messages.size() > 1 ? " The conversation continues: the new messages are at the end." : "");
  return text + plain_prompt(request) + "\n";
}

std::string mailbox_json(const ChatRequest& request, const std::string& id) {
  json record = to_record(request);
  record["id"] = id;
  record["call"] = request.call;
  return json_text(record, 2) + "\n";
}

Expected<ChatAnswer> read_mailbox_answer(const std::string& text, bool is_json, const ChatRequest& request) {
  ChatAnswer answer;
  answer.model = "mailbox";
  answer.usage.estimated = true;
  answer.usage.input = estimated_tokens(bytes_of(request));
  answer.usage.output = estimated_tokens(text.size());
  if (!is_json) {
    if (one_line(text, 64).empty()) return failure(kStage, "The file is empty. Write the answer to it.");
    // Checked as the dialogue would, so that an error is reported while the request is still open.
    if (!request.tools.empty())
      if (const auto calls = tool_calls_in_text(text, request.tools); !calls)
        return failure(kStage, calls.error());
    answer.text = text;
    return answer;
  }
  const json said = foreign_json(text);
  if (said.is_discarded())
    return failure(kStage,
                   fmt::format("The file is not valid JSON: {}. Write an answer as plain text to a file .md",
                               where_json_breaks(text)));
  if (!said.is_object()) return failure(kStage, "The file must hold one JSON object; see README.md.");
  for (const auto& [key, value] : said.items())
    if (key != "text" && key != "tool_calls" && key != "model")
      return failure(
          kStage, fmt::format("There is no key \"{}\"; known: text, tool_calls, model.", one_line(key, 60)));
  for (const char* key : {"text", "model"})
    if (said.contains(key) && !said[key].is_string())
      return failure(kStage, fmt::format("\"{}\" must be a string.", key));
  answer.text = said.value("text", "");
  answer.model = one_line(said.value("model", "mailbox"), kLongestModelName);
  const json calls = said.value("tool_calls", json::array());
  if (!calls.is_array()) return failure(kStage, "\"tool_calls\" must be a list.");
  for (const json& call : calls) {
    if (!call.is_object() || !call.contains("name") || !call["name"].is_string())
      return failure(kStage, "Each of \"tool_calls\" must be {\"name\": ..., \"arguments\": {...}}.");
    const std::string name = call["name"].get<std::string>();
    if (std::ranges::none_of(request.tools, [&](const ToolSpec& tool) { return tool.name == name; }))
      return failure(kStage, fmt::format("There is no tool \"{}\"; the request offers: {}.",
                                         one_line(name, 60), known_tools(request)));
    const json arguments = call.value("arguments", json::object());
    if (!arguments.is_object())
      return failure(kStage, fmt::format("The \"arguments\" of \"{}\" must be an object.", name));
    answer.tool_calls.push_back(
        {fmt::format("call_{}", answer.tool_calls.size() + 1), name, json_text(arguments)});
  }
  if (answer.text.empty() && answer.tool_calls.empty())
    return failure(kStage, "The answer has neither a text nor tool calls.");
  if (!answer.tool_calls.empty()) answer.stop = StopReason::tool_calls;
  return answer;
}

std::error_code put_file(const fs::path& file, const std::string& text) {
  // A leading dot, so that programs that list requests skip it.
  const fs::path temporary = file.parent_path() / ("." + file.filename().string() + ".part");
  // Others may write here too: a pipe or a link with this name is removed, and not written to.
  ::unlink(temporary.c_str());
  std::FILE* out = std::fopen(temporary.c_str(), "wbxe");
  if (!out) return {errno, std::generic_category()};
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size() &&
                       std::fflush(out) == 0 && ::fsync(::fileno(out)) == 0;
  const int why = errno;
  const bool closed = std::fclose(out) == 0;
  if (written && closed && std::rename(temporary.c_str(), file.c_str()) == 0) return {};
  const int failed = written ? errno : why;
  ::unlink(temporary.c_str());  // on a full disk it would take the space that is left
  return {failed, std::generic_category()};
}

bool is_of_the_disk(std::error_code error) {
  constexpr std::array kThese{ENOSPC, EDQUOT, EIO, EROFS, ESTALE};
  return std::ranges::find(kThese, error.value()) != kThese.end();
}

Expected<std::string> take_file(const fs::path& file, std::size_t most) {
  auto text = read_unlinked_file(file, most);
  if (text) return text;
  std::error_code none;
  if (fs::is_symlink(file, none))
    return failure(
        kStage,
        "This is a symbolic link, and links are not followed, because an answer is sent on and a link could "
        "expose any file of this machine. Put a copy of the file here.");
  return failure(kStage, text.error().message);
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "operators/llm/command.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <list>
#include <mutex>
#include <thread>

#include "evaluators/system/files.hpp"
#include "evaluators/system/json_text.hpp"
#include "evaluators/system/process.hpp"
#include "operators/llm/chat_errors.hpp"
#include "operators/llm/claude_output.hpp"
#include "operators/llm/tool_text.hpp"

namespace cultivar {

namespace fs = std::filesystem;
using Kind = ChatError::Kind;

namespace {

constexpr const char* kFolderName = "cultivar-model-";

class WorkFolder {
 public:
  WorkFolder() {
    std::error_code ec;
    std::string name = (fs::temp_directory_path(ec) / (std::string(kFolderName) + "XXXXXX")).string();
    if (!::mkdtemp(name.data())) return;
    path_ = name;
    lock_ = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_ >= 0) ::flock(lock_, LOCK_EX | LOCK_NB);
  }
  ~WorkFolder() {
    std::error_code ec;
    if (!path_.empty()) fs::remove_all(path_, ec);
    if (lock_ >= 0) ::close(lock_);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  int lock_ = -1;  // held while the owner is alive; a folder whose lock is free may be removed
};

// Removes work folders of searches that were killed.
void remove_stale_folders() {
  constexpr auto kFresh = std::chrono::minutes(1);  // longest time between creating a folder and locking it
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path(ec), ec)) {
    if (!entry.path().filename().string().starts_with(kFolderName)) continue;
    const int folder = ::open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder < 0) continue;
    struct stat facts {};
    std::error_code none;
    const bool ours = ::fstat(folder, &facts) == 0 && facts.st_uid == ::geteuid();
    const auto changed = std::chrono::system_clock::from_time_t(facts.st_mtim.tv_sec);
    if (ours && std::chrono::system_clock::now() - changed > kFresh &&
        ::flock(folder, LOCK_EX | LOCK_NB) == 0)
      fs::remove_all(entry.path(), none);
    ::close(folder);
  }
}

bool replace_all(std::string& text, const std::string& what, const std::string& by) {
  bool found = false;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
    found = true;
  }
  return found;
}

// The answer's reservation in bytes: a quarter more than the usual length of its tokens, plus the JSON
// around it.
std::size_t most_bytes(const ChatBounds& bounds, const ChatRequest& request) {
  constexpr std::int64_t bytes_a_token = 5, envelope = 16 * 1024;
  const std::int64_t tokens = std::clamp<std::int64_t>(request.max_output_tokens, 0, 1'000'000'000);
  return std::min(bounds.answer_bytes, static_cast<std::size_t>(tokens * bytes_a_token + envelope));
}

class Run {
 public:
  Run(const CommandModelOptions& options, const ChatRequest& request,
      const std::function<void(const ChatDelta&)>& delta)
      : options_(options),
        prompt_(plain_prompt(request)),
        delta_(delta),
        most_tokens_(request.max_output_tokens),
        most_bytes_(most_bytes(options.bounds, request)) {}

  ChatResult operator()(const std::stop_token& stop) {
    const auto started = Clock::now();
    if (work_.path().empty())
      return chat_failure(Kind::program_failed,
                          std::string("cannot create a work folder: ") + std::strerror(errno));
    if (prompt_.size() > options_.bounds.request_bytes)
      return chat_failure(Kind::too_large, "the request exceeds the size limit");
    const fs::path prompt_file = work_.path() / "prompt.md", answer_file = work_.path() / "answer.md";
    ProcessOptions how;
    how.command = options_.command;
    how.folder = work_.path();
    bool in_file = false;
    for (std::string& word : how.command) {
      in_file = replace_all(word, "{prompt_file}", prompt_file.string()) || in_file;
      replace_all(word, "{answer_file}", answer_file.string());
      replace_all(word, "{folder}", work_.path().string());
    }
    if (in_file) {
      std::ofstream(prompt_file, std::ios::binary) << prompt_;
      unsent_ = {};
    } else {
      unsent_ = prompt_;
    }
    how.pipe_input = !in_file;
    how.guarded = true;  // agents start servers and shells
    auto child = ChildProcess::spawn(how);
    if (!child) return chat_failure(Kind::unreachable, child.error().text());
    const std::stop_callback kill_it(stop, [&child] { child->kill(); });

    auto fault = talk(*child, started, stop);
    if (!fault && !child->wait(std::min(deadline_in(10.0), started + duration_of(options_.timeouts.total_s))))
      fault = chat_failure(Kind::timeout_total, "the program closed its output but did not exit");
    child->kill();
    if (stop.stop_requested()) fault = chat_failure(Kind::cancelled, "cancelled");
    const ClaudeOutput said = options_.answer == CommandModelOptions::Answer::claude_json
                                  ? read_claude_output(output_)
                                  : ClaudeOutput{};
    if (fault) return paid(std::move(*fault), said);
    const ExitStatus status = *child->poll();
    if (!status.success()) {
      const std::string printed = said.text.value_or(output_.size() < 2000 ? output_ : "");
      const std::string words = one_line(without_terminal_codes(child->captured() + " " + printed));
      return paid(chat_failure(Kind::program_failed,
                               fmt::format("{} {}{}{}", options_.command.front(), status.describe(),
                                           words.empty() ? "" : ": ", words)),
                  said);
    }
    ChatResult result = answer(answer_file, said);
    if (!result) return paid(std::move(result), said);
    result->model = options_.model;
    result->text = without_terminal_codes(std::move(result->text));
    result->request_id = said.session;
    result->usage = said.usage && said.usage->total() > 0 ? *said.usage : estimated();
    result->usd = said.usd;
    result->first_byte_s = first_byte_s_;
    result->seconds = seconds_since(started);
    return result;
  }

 private:
  using Fault = std::optional<tl::unexpected<ChatError>>;

  // Writes the prompt and reads the output, whichever is ready, until the output ends.
  Fault talk(ChildProcess& child, Clock::time_point started, const std::stop_token& stop) {
    const ChatTimeouts& limits = options_.timeouts;
    auto last = started;
    if (unsent_.empty()) child.close_input();
    for (;;) {
      if (stop.stop_requested()) return std::nullopt;
      const bool begun = !output_.empty();
      const auto silence =
          begun ? last + duration_of(limits.idle_s) : started + duration_of(limits.first_byte_s);
      const auto end = std::min(silence, started + duration_of(limits.total_s));
      const auto now = Clock::now();
      if (now >= end) {
        if (now >= started + duration_of(limits.total_s))
          return chat_failure(Kind::timeout_total,
                              fmt::format("killed: not finished after {:g} s", limits.total_s));
        if (begun)
          return chat_failure(Kind::timeout_idle, fmt::format("killed: no output for {:g} s", limits.idle_s));
        return chat_failure(Kind::timeout_first_byte,
                            fmt::format("killed: no output within the first {:g} s", limits.first_byte_s));
      }
      pollfd waits[2] = {{child.output(), POLLIN, 0}, {unsent_.empty() ? -1 : child.input(), POLLOUT, 0}};
      const auto wait = std::chrono::ceil<std::chrono::milliseconds>(end - now).count();
      // At most a second: a child of the program may keep its output open after the program exited.
      ::poll(waits, 2, static_cast<int>(std::min<std::int64_t>(wait, 1000)));
      if (waits[1].revents != 0) send(child);
      if (waits[0].revents == 0) {
        if (child.poll()) return std::nullopt;
        continue;
      }
      std::array<char, 65536> buffer;
      const ssize_t got = ::read(child.output(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return std::nullopt;
      last = Clock::now();
      if (!begun) first_byte_s_ = in_seconds(last - started);
      output_.append(buffer.data(), static_cast<std::size_t>(got));
      // If the answer is in a file, stdout is ignored.
      const std::size_t most =
          options_.answer == CommandModelOptions::Answer::file ? options_.bounds.answer_bytes : most_bytes_;
      if (output_.size() > most)
        return chat_failure(Kind::too_large,
                            fmt::format("killed: more than {} bytes of output; {}", most, allowed()));
      if (delta_ && options_.answer == CommandModelOptions::Answer::text)
        delta_({ChatDelta::Kind::text, {buffer.data(), static_cast<std::size_t>(got)}});
    }
  }

  // SIGPIPE is blocked in this thread: a program need not read its prompt.
  void send(ChildProcess& child) {
    const ssize_t sent = ::write(child.input(), unsent_.data(), unsent_.size());
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (sent <= 0)
      unsent_ = {};
    else
      unsent_.remove_prefix(static_cast<std::size_t>(sent));
    if (unsent_.empty()) child.close_input();
  }

  // What a failed call cost: as the program says, otherwise by what it was given and wrote.
  ChatResult paid(ChatResult failed, const ClaudeOutput& said) const {
    ChatError& error = failed.error();
    if (error.usage.total() == 0) error.usage = said.usage ? *said.usage : estimated();
    error.usd = said.usd;
    return failed;
  }

  ChatResult answer(const fs::path& answer_file, const ClaudeOutput& said) {
    ChatAnswer answer;
    if (options_.answer == CommandModelOptions::Answer::claude_json) {
      if (said.failed) return chat_failure(Kind::program_failed, one_line(*said.text));
      if (!said.complete || !said.text)
        return chat_failure(Kind::garbage, "stdout has no result of `claude -p --output-format json`: " +
                                               one_line(output_, 200));
      answer.text = *said.text;
    } else if (options_.answer == CommandModelOptions::Answer::file) {
      auto text = read_file(answer_file, most_bytes_);
      std::error_code none;
      const bool too_large =
          !text && fs::is_regular_file(answer_file, none) && fs::file_size(answer_file, none) > most_bytes_;
      if (!text && !too_large)
        return chat_failure(Kind::garbage, "the program succeeded but wrote no answer to {answer_file}");
      if (too_large) {
        auto fault = chat_failure(Kind::too_large, fmt::format("the answer file has more than {} bytes; {}",
                                                               most_bytes_, allowed()));
        fault.value().usage = estimated();
        fault.value().usage.output = most_tokens_;
        return fault;
      }
      answer.text = std::move(*text);
    } else {
      answer.text = output_;
    }
    return answer;
  }

  Usage estimated() const {
    Usage usage;
    usage.estimated = true;
    usage.input = estimated_tokens(prompt_.size());
    usage.output = std::min(estimated_tokens(output_.size()), std::max<std::int64_t>(0, most_tokens_));
    return usage;
  }

  std::string allowed() const {
    return fmt::format("the limit for an answer is {} tokens (max_output_tokens)", most_tokens_);
  }

  const CommandModelOptions& options_;
  std::string prompt_;
  std::string_view unsent_;
  std::function<void(const ChatDelta&)> delta_;
  std::int64_t most_tokens_;
  std::size_t most_bytes_;
  WorkFolder work_;
  std::string output_;
  double first_byte_s_ = 0.0;
};

}  // namespace

struct CommandModel::State {
  CommandModelOptions options;
  std::mutex mutex;
  std::list<std::jthread> threads;  // guarded
  std::list<std::jthread> over;     // guarded: finished, to be joined
  std::condition_variable ended;
};

CommandModel::CommandModel(CommandModelOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  remove_stale_folders();
}

CommandModel::~CommandModel() {
  std::list<std::jthread> over;
  std::unique_lock lock(state_->mutex);
  for (std::jthread& thread : state_->threads) thread.request_stop();
  // Each thread moves itself from `threads` to `over` when it ends.
  state_->ended.wait(lock, [this] { return state_->threads.empty(); });
  over.splice(over.end(), state_->over);
  lock.unlock();  // the last thread may still hold it briefly
  over.clear();
}

void CommandModel::ask(const ChatRequest& request, std::stop_token stop, ChatListener listener) {
  std::list<std::jthread> over;
  const std::lock_guard lock(state_->mutex);
  over.splice(over.end(), state_->over);
  const auto self = state_->threads.emplace(state_->threads.end());
  *self = std::jthread([state = state_.get(), self, request, stop = std::move(stop),
                        listener = std::move(listener)](std::stop_token closing) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    std::stop_source either;
    ChatResult result = chat_failure(Kind::cancelled, "cancelled");
    {
      const std::stop_callback caller(stop, [&either] { either.request_stop(); });
      const std::stop_callback model(closing, [&either] { either.request_stop(); });
      try {
        result = Run(state->options, request, listener.delta)(either.get_token());
      } catch (const std::exception& e) {
        result =
            chat_failure(Kind::garbage, fmt::format("the answer could not be read: {}", said_shortly(e)));
      }
    }
    listener.done(std::move(result));
    const std::lock_guard guard(state->mutex);
    state->over.splice(state->over.end(), state->threads, self);
    state->ended.notify_all();
  });
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/contenders/library.hpp"

#include <fmt/format.h>

#include <dlfcn.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "evaluators/system/interpreter.hpp"
#include "evaluators/system/plain_text.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/task/task.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {
namespace {

constexpr double kSeconds = 90.0;  // the library's own watchdog ends the process earlier

}  // namespace

namespace fs = std::filesystem;

namespace {

constexpr double kLoadSeconds =
    60.0;  // describe may open large libraries; as promised in the header for results

auto bad(const fs::path& path, std::string why) {
  return failure("load contender", fmt::format("{}: {}", path.string(), std::move(why)));
}

constexpr std::size_t most_text = 4096;

// Text from foreign code, shortened so that it can be sent and shown.
std::string text_of(const char* text) {
  if (text == nullptr) return {};
  const std::size_t size = ::strnlen(text, most_text + 1);
  return plain_text(std::string_view(text, std::min(size, most_text))) + (size > most_text ? " ..." : "");
}

// Calls foreign code; an exception becomes an Error.
template <class Call>
Expected<std::int32_t> guarded(const char* stage, const Call& call) {
  try {
    return call();
  } catch (const std::exception& e) {
    return failure(
        stage, fmt::format("the library threw an exception across the C interface: {}", text_of(e.what())));
  } catch (...) {
    return failure(stage, "the library threw an exception across the C interface");
  }
}

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t step = 1;
  for (std::size_t i = extents.size(); i-- > 0; step *= extents[i]) strides[i] = step;
  return strides;
}

// What prepare is told in addition to the workload: where the task and the cache are, the types of the
// parameters, and for a Python program the interpreter.
Expected<std::vector<std::pair<std::string, std::string>>> texts_for(const ContenderSite& site) {
  std::vector<std::pair<std::string, std::string>> texts = {{"task", site.task.name},
                                                            {"task_folder", site.task.folder.string()},
                                                            {"cache", site.settings.cache.string()}};
  for (const Parameter& parameter : site.task.parameters)
    texts.emplace_back("type of " + parameter.name,
                       parameter.flag ? std::string("flag") : std::string(name_of(parameter.type)));
  if (site.program.empty()) return texts;
  const Expected<Interpreter> interpreter = find_interpreter(site.settings.python, PythonNeeds::library);
  if (!interpreter) return tl::make_unexpected(interpreter.error());
  texts.emplace_back("program", site.program);
  texts.emplace_back("python", interpreter->executable);
  texts.emplace_back("libpython", interpreter->library);
  return texts;
}

// Refers to the strings.
std::vector<cultivar_contender_text> in_c(const std::vector<std::pair<std::string, std::string>>& named) {
  std::vector<cultivar_contender_text> texts;
  for (const auto& [name, text] : named) texts.push_back({name.c_str(), text.c_str()});
  return texts;
}

// As messages call it.
std::string called(const ContenderLibrary& library, const ContenderSite& site) {
  return site.program.empty() ? library.name() : fs::path(site.program).stem().string();
}

}  // namespace

Plan contender_plan(const Task& task, const Workload& workload) {
  Plan plan;
  for (const TensorSpec& tensor : task.tensors) {
    PlannedBuffer buffer;
    buffer.name = tensor.name;
    buffer.bytes = task.bytes_of(tensor, workload);
    buffer.use = tensor.role == Role::input ? PlannedBuffer::Use::input : PlannedBuffer::Use::output;
    buffer.element_bytes = size_of(task.dtype(tensor, workload));
    plan.buffers.push_back(std::move(buffer));
  }
  return plan;
}

Expected<ContenderLibrary> ContenderLibrary::load(const fs::path& path, const Task& task, Target target) {
  std::error_code ignored;
  const fs::path whole =
      fs::absolute(path, ignored);  // dlopen would search the library path for a plain name
  Watchdog watchdog(path.filename().string());
  watchdog.watch("being loaded", kLoadSeconds);
  // Never unloaded: vendors' device libraries leave threads and exit handlers behind.
  void* handle = ::dlopen(whole.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return bad(path, fmt::format("the library does not load: {}", text_of(::dlerror())));
  ContenderLibrary library;
  decltype(&cultivar_contender_describe) describe = nullptr;
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(handle, name));
    if (function == nullptr) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
  };
  find(describe, "cultivar_contender_describe");
  find(library.prepare_, "cultivar_contender_prepare");
  find(library.launch_, "cultivar_contender_launch");
  find(library.release_, "cultivar_contender_release");
  find(library.last_error_, "cultivar_contender_last_error");
  library.results_ =
      reinterpret_cast<decltype(library.results_)>(::dlsym(handle, "cultivar_contender_results"));
  library.warm_up_ =
      reinterpret_cast<decltype(library.warm_up_)>(::dlsym(handle, "cultivar_contender_warm_up"));
  library.share_ = reinterpret_cast<decltype(library.share_)>(::dlsym(handle, "cultivar_contender_share"));
  if (!missing.empty())
    return bad(path,
               fmt::format("the library is not a contender: it does not export {} (see cultivar_contender.h)",
                           missing));
  watchdog.watch("cultivar_contender_describe", kLoadSeconds);
  const cultivar_contender_description* told = nullptr;
  if (const auto called = guarded("load contender",
                                  [&] {
                                    told = describe();
                                    return 0;
                                  });
      !called)
    return bad(path, "cultivar_contender_describe: " + called.error().message);
  if (told == nullptr) return bad(path, "cultivar_contender_describe returned null");
  if (told->abi != CULTIVAR_CONTENDER_ABI)
    return bad(
        path,
        fmt::format("the library was built with version {} of cultivar_contender.h, but this is version {}: "
                    "rebuild it with the header of this Cultivar",
                    told->abi, CULTIVAR_CONTENDER_ABI));
  library.name_ = text_of(told->name);
  library.version_ = text_of(told->version);
  if (library.name_.empty()) return bad(path, "the library's name is empty");
  if (text_of(told->task) != "*" && text_of(told->task) != task.name)
    return bad(path, fmt::format("{} computes the task '{}', but this task is '{}'", library.name_,
                                 text_of(told->task), task.name));
  if (text_of(told->target) != "*" && text_of(told->target) != name_of(target))
    return bad(path, fmt::format("{} is for the target '{}', but this target is '{}'", library.name_,
                                 text_of(told->target), name_of(target)));
  return library;
}

std::string ContenderLibrary::trouble() const {
  if (!version_.empty()) return {};
  const std::string said = text_of(last_error_());
  return said.empty() ? name_ + " does not report its version" : said;
}

void ContenderLibrary::warm_up(const ContenderSite& site) const {
  if (warm_up_ == nullptr) return;
  const auto named = texts_for(site);
  if (!named) return;
  const std::vector<cultivar_contender_text> texts = in_c(*named);
  cultivar_contender_workload asked{};
  asked.name = site.workload.name.c_str();
  asked.dtype = name_of(site.workload.dtype).data();
  asked.text_count = static_cast<std::uint32_t>(texts.size());
  asked.texts = texts.data();
  Watchdog watchdog("the contender " + called(*this, site));
  watchdog.watch("cultivar_contender_warm_up (limit: evaluation.prepare_deadline)", site.settings.prepare_s);
  (void)guarded("warm up", [&] {
    warm_up_(&asked);
    return 0;
  });
}

Expected<std::unique_ptr<PreparedContender>> PreparedContender::prepare(const ContenderLibrary& library,
                                                                        const ContenderSite& site) {
  const Workload& workload = site.workload;
  std::vector<std::vector<std::int64_t>> extents, strides;
  for (const TensorSpec& tensor : site.task.tensors) {
    extents.push_back(site.task.shape(tensor, workload));
    strides.push_back(strides_of(extents.back()));
  }
  std::vector<cultivar_contender_tensor> tensors;
  for (std::size_t i = 0; i < site.task.tensors.size(); ++i) {
    const TensorSpec& spec = site.task.tensors[i];
    tensors.push_back({spec.name.c_str(), spec.role == Role::output ? 1 : 0,
                       static_cast<std::int32_t>(extents[i].size()),
                       name_of(site.task.dtype(spec, workload)).data(), extents[i].data(), strides[i].data(),
                       site.tensors[i]});
  }
  std::vector<cultivar_contender_value> values;
  for (const auto& [name, value] : workload.values) values.push_back({name.c_str(), value});
  const auto named_texts = texts_for(site);
  if (!named_texts) return tl::make_unexpected(named_texts.error());
  const std::vector<cultivar_contender_text> texts = in_c(*named_texts);
  const cultivar_contender_workload asked = {workload.name.c_str(),
                                             name_of(workload.dtype).data(),
                                             values.data(),
                                             tensors.data(),
                                             static_cast<std::uint32_t>(values.size()),
                                             static_cast<std::uint32_t>(tensors.size()),
                                             static_cast<std::uint32_t>(site.threads),
                                             static_cast<std::uint32_t>(texts.size()),
                                             texts.data(),
                                             site.stream};
  std::unique_ptr<PreparedContender> prepared(new PreparedContender(library, called(library, site)));
  prepared->watchdog_.watch("cultivar_contender_prepare (limit: evaluation.prepare_deadline)",
                            site.settings.prepare_s);
  const bool shares = library.share_ != nullptr && site.share;
  const auto answer = guarded("prepare", [&] {
    if (shares)
      library.share_(
          [](void* share, std::int32_t may) {
            (*static_cast<const std::function<void(bool)>*>(share))(may != 0);
          },
          const_cast<std::function<void(bool)>*>(&site.share));
    return library.prepare_(&asked, &prepared->handle_);
  });
  if (shares) {
    site.share(false);  // also after a prepare that left it to others
    (void)guarded("share", [&] {
      library.share_(nullptr, nullptr);
      return 0;
    });
  }
  prepared->watchdog_.done();
  prepared->abandoned_ = !answer || *answer != CULTIVAR_CONTENDER_OK;
  if (!answer) return tl::make_unexpected(answer.error());
  if (*answer == CULTIVAR_CONTENDER_OK) return prepared;
  std::string why = text_of(library.last_error_());
  if (why.empty()) why = fmt::format("no reason given (cultivar_contender_prepare returned {})", *answer);
  return failure(*answer == CULTIVAR_CONTENDER_UNSUPPORTED ? ErrorKind::unsupported
                 : *answer == CULTIVAR_CONTENDER_UNUSABLE  ? ErrorKind::missing
                                                           : ErrorKind::failed,
                 "prepare", why);
}

PreparedContender::PreparedContender(ContenderLibrary library, const std::string& who)
    : library_(std::move(library)), watchdog_("the contender " + who) {}

PreparedContender::~PreparedContender() {
  if (abandoned_) return;
  watchdog_.watch("cultivar_contender_release", kLoadSeconds);
  (void)guarded("release", [&] {
    library_.release_(handle_);
    return 0;
  });
}

Expected<void> PreparedContender::launch(std::span<void* const> tensors, void* stream, double deadline_s) {
  watchdog_.watch("cultivar_contender_launch", deadline_s);
  const auto answer = guarded("launch", [&] { return library_.launch_(handle_, tensors.data(), stream); });
  watchdog_.done();
  return answered("launch", answer);
}

Expected<void> PreparedContender::results(std::span<void* const> tensors) {
  if (library_.results_ == nullptr) return {};
  watchdog_.watch("cultivar_contender_results", kLoadSeconds);
  const auto answer = guarded("results", [&] { return library_.results_(handle_, tensors.data()); });
  watchdog_.done();
  return answered("results", answer);
}

Expected<void> PreparedContender::answered(const char* call, const Expected<std::int32_t>& answer) const {
  if (!answer) return tl::make_unexpected(answer.error());
  if (*answer == CULTIVAR_CONTENDER_OK) return {};
  std::string why = text_of(library_.last_error_());
  if (why.empty()) why = fmt::format("no reason given (cultivar_contender_{} returned {})", call, *answer);
  return failure(call, why);
}

namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(250);
constexpr std::int64_t kSuspendedNs = 2'000'000'000;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Watchdog::Watchdog(std::string who) : who_(std::move(who)), thread_([this] { look(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ending_.notify_one();
  thread_.join();
}

void Watchdog::watch(const char* call, double seconds) {
  call_ = call;
  limit_s_ = seconds;
  due_ns_ = now_ns() + static_cast<std::int64_t>(1e9 * seconds);
}

void Watchdog::look() {
  std::unique_lock lock(mutex_);
  std::int64_t last = now_ns();
  while (!ending_.wait_for(lock, kBetweenLooks, [this] { return end_; })) {
    const std::int64_t now = now_ns(), since = now - last;
    last = now;
    std::int64_t due = due_ns_;
    if (due == 0 || now < due) continue;
    // Do not count time during which the process was stopped or got no CPU time.
    if (since > kSuspendedNs) {
      due_ns_.compare_exchange_strong(due, due + since);
      continue;
    }
    fmt::print(stderr, "{} did not return from {} within {:g} s\n", who_, call_.load(), limit_s_.load());
    std::fflush(stderr);
    ::_exit(exit_overdue);
  }
}

Expected<std::string> try_contender(const std::filesystem::path& programs,
                                    const std::filesystem::path& library,
                                    const std::filesystem::path& task_folder, Target target) {
  constexpr const char* stage = "load contender";
  ProcessOptions options;
  options.command = {(programs / worker_program(target)).string(), "contender", library.string(),
                     task_folder.string()};
  options.pipe_input = options.pipe_output = false;
  auto child = ChildProcess::spawn(options);
  if (!child) return tl::make_unexpected(child.error());
  const bool in_time = child->wait_or_kill(deadline_in(kSeconds));
  std::string said = child->captured();
  said.erase(said.find_last_not_of(" \n") + 1);
  said = plain_text(
      said.substr(said.rfind('\n') + 1));  // output of the vendor's libraries precedes the last line
  if (!in_time)
    return failure(stage, fmt::format("{}: no response within {:g} s", library.string(), kSeconds));
  if (child->poll()->success()) return said;
  return failure(stage,
                 said.empty() ? fmt::format("{}: {}", library.string(), child->poll()->describe()) : said);
}

int contender_trial(const std::filesystem::path& library, const std::filesystem::path& task_folder,
                    Target target) {
  try {
    const auto loaded = ContenderLibrary::load(library, load_task(task_folder), target);
    const std::string trouble = loaded ? loaded->trouble() : loaded.error().message;
    if (trouble.empty()) {
      fmt::print("{}\n", loaded->version());
      return 0;
    }
    fmt::print(stderr, "{}\n", trouble);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
  }
  return 1;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/references/python/python_reference.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>

#include "embedded/reference_python.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/frame.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

PythonFiles reference_python_files() {
  PythonFiles files;
  for (const auto& [name, text] : reference_python::all)
    files.emplace_back("cultivar_reference/" + std::string(name), text);
  return files;
}

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr double kStartSeconds = 300.0;  // PyTorch from a cold disk
constexpr double kMostSeconds = 600.0;   // for one answer

// Memory that the process shares; grows, and then lies elsewhere.
class GrowingMemory {
 public:
  GrowingMemory() : descriptor_(::memfd_create("cultivar-reference", MFD_CLOEXEC)) {
    if (descriptor_ < 0) throw std::runtime_error("cannot create shared memory");
  }
  ~GrowingMemory() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
    ::close(descriptor_);
  }
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;

  int descriptor() const { return descriptor_; }
  std::size_t bytes() const { return bytes_; }
  std::byte* at(std::size_t place) const { return static_cast<std::byte*>(data_) + place; }
  void grow(std::size_t bytes) {
    if (bytes <= bytes_) return;
    bytes = (bytes + bytes / 4 + 0xffff) & ~std::size_t{0xffff};
    if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) throw std::bad_alloc();
    if (data_ != nullptr) ::munmap(data_, bytes_);
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (data_ == MAP_FAILED) {
      data_ = nullptr, bytes_ = 0;
      throw std::bad_alloc();
    }
    bytes_ = bytes;
  }

 private:
  int descriptor_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class PythonReference final : public ReferenceProgram {
 public:
  PythonReference(const Task& task, Interpreter python, fs::path sources)
      : folder_(fs::absolute(task.folder)),
        file_(task.reference),
        python_(std::move(python)),
        sources_(std::move(sources)),
        tolerance_(task.tolerance) {
    if (task.derived) derived_ = task.derived->inputs;
    for (const TensorSpec& tensor : task.tensors)
      if (tensor.role == Role::output) {
        outputs_.push_back(tensor.name);
        dtypes_.push_back(tensor.dtype);
      }
    for (const Dimension& dimension : task.dimensions) whole_.insert(dimension.name);
    for (const Parameter& parameter : task.parameters) {
      if (parameter.flag) flags_.insert(parameter.name);
      if (!is_floating(parameter.type)) whole_.insert(parameter.name);
    }
    for (const Control& control : task.controls) controls_.push_back("control_" + control.name);
  }

  // Starts the process unless it runs.
  void start() {
    const std::lock_guard lock(mutex_);
    ready();
  }

  bool defines(const std::string& function) const override {
    const std::lock_guard lock(mutex_);
    ready();
    // The mutants of the function that task.yaml lists have no function of their own: what they name is
    // looked up when they run.
    return function == "exact" || function == "rounded" || function == "rounded_or_overflow" ||
           std::ranges::find(defined_, function) != defined_.end() ||
           std::ranges::find(controls_, function) != controls_.end();
  }

  bool follows_indices() const override { return true; }

  std::string declaration_of(const std::string& function) const override {
    return fmt::format("def {}(INPUTS..., *, PARAMETERS...)", function);
  }

  void compute(RowFunction function, const RowsAsked& asked, std::span<double> out) const override {
    const std::lock_guard lock(mutex_);
    ready();
    if (asked.rows.empty()) return judge(asked, out);
    // Rows are asked for in increasing order, so those of a group lie together.
    std::size_t first = 0, value = 0;
    while (first < asked.rows.size()) {
      const RowGroup& group = asked.layout.group_of(asked.rows[first]);
      std::size_t last = first;
      while (last < asked.rows.size() && asked.rows[last] < group.first + group.rows &&
             asked.rows[last] >= group.first)
        ++last;
      const std::size_t values = (last - first) * static_cast<std::size_t>(group.elements);
      const std::span<double> into = out.subspan(value, values);
      std::vector<std::int64_t> rows(asked.rows.begin() + static_cast<std::ptrdiff_t>(first),
                                     asked.rows.begin() + static_cast<std::ptrdiff_t>(last));
      for (std::int64_t& row : rows) row -= group.first;
      Question question(*this, asked, group, rows);
      if (!asked.given.empty())
        question.json["given"] = question.place(std::as_bytes(asked.given.subspan(value, values)));
      question.json["do"] = "rows";
      question.json["function"] = function;
      question.answer(into);
      first = last, value += values;
    }
  }

 private:
  // What is asked about some rows of a group, and the memory in which it lies.
  class Question {
   public:
    // `rows`: counted from the group's first. Keeps references to its arguments.
    Question(const PythonReference& reference, const RowsAsked& asked, const RowGroup& group,
             std::span<const std::int64_t> rows)
        : reference_(reference) {
      json = {{"dtype", name_of(asked.workload.dtype)}, {"threads", asked.threads}};
      Json tensors = Json::array();
      for (std::size_t i = 0; i < asked.workload.inputs.size(); ++i) {
        const ReferenceWorkload::Input& input = asked.workload.inputs[i];
        const Dtype dtype = asked.inputs.stored.empty() ? Dtype::f64 : input.dtype;
        std::size_t bytes = size_of(dtype);
        for (const std::int64_t extent : input.shape) bytes *= static_cast<std::size_t>(extent);
        const void* const from = asked.inputs.stored.empty()
                                     ? static_cast<const void*>(asked.inputs.values[i])
                                     : asked.inputs.stored[i];
        tensors.push_back({{"name", input.name},
                           {"dtype", name_of(dtype)},
                           {"axes", input.dimensions},
                           {"shape", input.shape},
                           {"at", place({static_cast<const std::byte*>(from), bytes})}});
      }
      json["tensors"] = std::move(tensors);
      json["rows"] = {{"axes", group.names},
                      {"shape", group.shape},
                      {"at", place(std::as_bytes(rows))},
                      {"count", rows.size()}};
      const bool derived = group.output == (reference.derived_.empty() ? "" : reference.derived_.front());
      const std::vector<std::string>& names = derived ? reference.derived_ : reference.outputs_;
      json["outputs"] = Json::array();
      for (const OutputLayout& output : asked.layout.outputs())
        if (&asked.layout.group(output) == &group)
          json["outputs"].push_back(described(output, std::ranges::find(names, output.name) - names.begin()));
      Json dtypes = Json::array();
      if (derived)
        for (const std::string& name : names)
          dtypes.push_back(
              name_of(std::ranges::find(asked.layout.outputs(), name, &OutputLayout::name)->dtype));
      else
        for (const std::optional<Dtype>& own : reference.dtypes_)
          dtypes.push_back(name_of(own.value_or(asked.workload.dtype)));
      json["dtypes"] = std::move(dtypes);
      Json values = Json::object();
      for (const auto& [name, value] : asked.workload.numbers)
        if (reference.flags_.contains(name))
          values[name] = value != 0.0;
        else if (reference.whole_.contains(name))
          values[name] = static_cast<std::int64_t>(value);
        else
          values[name] = value;
      json["numbers"] = std::move(values);
    }
    static Json described(const OutputLayout& output, std::ptrdiff_t index) {
      return {{"axes", output.dimension_names}, {"shape", output.shape}, {"index", index}};
    }
    // Where these bytes will lie; they must outlive the question.
    std::size_t place(std::span<const std::byte> bytes) {
      copies_.emplace_back(room(bytes.size()), bytes);
      return copies_.back().first;
    }
    void answer(std::span<double> out) {
      json["out"] = room(out.size_bytes());
      GrowingMemory& memory = *reference_.memory_;
      memory.grow(end_);
      json["bytes"] = memory.bytes();
      for (const auto& [at, bytes] : copies_) std::memcpy(memory.at(at), bytes.data(), bytes.size());
      reference_.ask(json, kMostSeconds);
      std::memcpy(out.data(), memory.at(json["out"].get<std::size_t>()), out.size_bytes());
    }

    Json json;

   private:
    std::size_t room(std::size_t bytes) {
      const std::size_t at = end_;
      end_ = (end_ + bytes + 63) & ~std::size_t{63};
      return at;
    }
    const PythonReference& reference_;
    std::vector<std::pair<std::size_t, std::span<const std::byte>>> copies_;
    std::size_t end_ = 0;
  };

  // Of each answer whether it is right: those of an output together.
  void judge(const RowsAsked& asked, std::span<double> out) const {
    for (const OutputLayout& output : asked.layout.outputs()) {
      std::map<std::int64_t, std::vector<std::size_t>> of_rows;  // the answers of each row
      for (std::size_t i = 0; i < asked.answers.size(); ++i)
        if (output.name == asked.answers[i].output) of_rows[asked.answers[i].row].push_back(i);
      if (of_rows.empty()) continue;
      std::vector<std::int64_t> rows, places;
      std::vector<std::size_t> order;
      std::vector<double> given;
      for (const auto& [row, answers] : of_rows) {
        const IndexAnswer& one = asked.answers[answers.front()];
        given.insert(given.end(), one.given, one.given + one.elements);
        for (const std::size_t i : answers) {
          places.insert(places.end(), {static_cast<std::int64_t>(rows.size()), asked.answers[i].element});
          order.push_back(i);
        }
        rows.push_back(row);
      }
      Question question(*this, asked, asked.layout.group(output), rows);
      question.json["outputs"] = Json::array(
          {Question::described(output, std::ranges::find(outputs_, output.name) - outputs_.begin())});
      question.json["given"] = question.place(std::as_bytes(std::span(given)));
      question.json["asked"] = {{"at", question.place(std::as_bytes(std::span(places)))},
                                {"count", order.size()}};
      question.json["tolerance"] = {
          {"factor", tolerance_.factor},
          {"unit", asked.workload.permitted_unit},
          {"floor", tolerance_.floor_eps * accumulation_epsilon(asked.workload.dtype)}};
      question.json["do"] = "right";
      std::vector<double> verdicts(order.size());
      question.answer(verdicts);
      for (std::size_t i = 0; i < order.size(); ++i) out[order[i]] = verdicts[i];
    }
  }

  // A process that runs and has loaded reference.py.
  void ready() const {
    if (child_ && child_->poll() == nullptr) return;
    frames_.reset();
    child_.reset();
    memory_.emplace();
    ProcessOptions options;
    options.descriptors = {memory_->descriptor()};
    options.captured_bytes = 8 << 10;
    auto started = start_python(python_,
                                {.module = "cultivar_reference.host",
                                 .arguments = {folder_.string()},
                                 .sources = sources_,
                                 .readable = {folder_}},
                                std::move(options));
    if (!started) throw std::runtime_error(started.error().message);
    child_.emplace(std::move(*started));
    frames_.emplace(child_->output(), child_->input());
    const Json answer = ask({{"do", "open"}, {"threads", 1}}, kStartSeconds);
    defined_ = answer.value("functions", std::vector<std::string>());
  }

  Json ask(const Json& question, double seconds) const {
    const auto deadline = deadline_in(seconds);
    std::string why;
    if (const auto written = frames_->write(question, deadline); !written) why = written.error().message;
    if (why.empty()) {
      const auto answer = frames_->read(deadline);
      if (answer && answer->is_object()) {
        if (answer->contains("error"))
          throw std::runtime_error(
              fmt::format("{}: {}", file_.string(), plain_text(answer->value("error", ""))));
        return *answer;
      }
      why = !answer && answer.error().kind == FrameTrouble::Kind::timed_out
                ? fmt::format("did not finish within {:g} s", seconds)
                : std::string();
    }
    // Nothing that it still might say counts; the next question starts another process.
    child_->wait_or_kill(deadline_in(0.5));
    const ExitStatus* const ended = child_->poll();
    if (why.empty() && ended != nullptr) why = "ended its process: it " + ended->describe();
    std::string last = plain_text(child_->captured());
    if (last.size() > 600) last = last.substr(last.size() - 600);
    child_.reset();
    throw std::runtime_error(fmt::format("{} {}{}{}", file_.string(), why, last.empty() ? "" : ": ", last));
  }

  fs::path folder_, file_;
  Interpreter python_;
  fs::path sources_;
  Tolerance tolerance_;
  std::vector<std::string> outputs_, controls_, derived_;
  std::vector<std::optional<Dtype>> dtypes_;  // of the outputs; nullopt: the workload's
  std::set<std::string> flags_, whole_;       // names whose numbers are passed as bool or int
  mutable std::mutex mutex_;
  mutable std::optional<GrowingMemory> memory_;
  mutable std::optional<ChildProcess> child_;
  mutable std::optional<FrameStream> frames_;
  mutable std::vector<std::string> defined_;
};

// What R of a workload depends on.
std::string stamp_of(const Task& task, const Interpreter& python) {
  std::string stamp = python.packages;
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(task.folder, ignored))
    if (entry.path().extension() == ".py") files.push_back(entry.path());
  std::ranges::sort(files);
  for (const fs::path& file : files) stamp += "\n" + sha256_hex(read_file(file).value_or(""));
  for (const auto& [name, text] : reference_python_files()) stamp += "\n" + sha256_hex(text);
  return sha256_hex(stamp).substr(0, 32);
}

}  // namespace

Expected<TaskReference> open_python_reference(const Task& task, const fs::path& cache,
                                              const std::string& python, double) {
  auto found = find_interpreter(python, PythonNeeds::torch);
  if (!found) return tl::make_unexpected(found.error());
  const auto sources = place_python_files(reference_python_files(), cache);
  if (!sources) return tl::make_unexpected(sources.error());
  const fs::path kept = fs::absolute(cache) / "oracle" / stamp_of(task, *found);
  std::error_code made;
  fs::create_directories(kept, made);
  if (made) return failure("oracle", fmt::format("cannot create {}: {}", kept.string(), made.message()));
  try {
    auto program = std::make_shared<PythonReference>(task, std::move(*found), *sources);
    program->start();
    const bool chooses = std::ranges::any_of(task.tensors, [](const TensorSpec& tensor) {
      return tensor.role == Role::output && tensor.dtype && !is_floating(*tensor.dtype);
    });
    return TaskReference(program, kept, chooses);
  } catch (const std::runtime_error& error) {
    return failure("oracle", error.what());
  }
}

}  // namespace cultivar

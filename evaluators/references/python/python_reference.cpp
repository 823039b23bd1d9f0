// SPDX-License-Identifier: Apache-2.0
#include "evaluators/references/python/python_reference.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>

#include "evaluators/references/python/python_sandbox.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/frame.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {
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
  PythonReference(const Task& task, TorchPython python, fs::path sources)
      : folder_(fs::absolute(task.folder)),
        file_(task.reference),
        python_(std::move(python)),
        sources_(std::move(sources)) {
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
    return function == "exact" || function == "rounded" ||
           std::ranges::find(defined_, function) != defined_.end() ||
           std::ranges::find(controls_, function) != controls_.end();
  }

  void compute(RowFunction function, const RowsAsked& asked, std::span<double> out) const override {
    const std::lock_guard lock(mutex_);
    ready();
    // Rows are asked for in increasing order, so those of a group lie together.
    std::size_t first = 0, value = 0;
    while (first < asked.rows.size()) {
      const RowGroup& group = asked.layout.group_of(asked.rows[first]);
      std::size_t last = first;
      while (last < asked.rows.size() && asked.rows[last] < group.first + group.rows &&
             asked.rows[last] >= group.first)
        ++last;
      const std::size_t values = (last - first) * static_cast<std::size_t>(group.elements);
      compute_group(function, asked, group, asked.rows.subspan(first, last - first),
                    out.subspan(value, values));
      first = last, value += values;
    }
  }

 private:
  void compute_group(RowFunction function, const RowsAsked& asked, const RowGroup& group,
                     std::span<const std::int64_t> rows, std::span<double> out) const {
    std::size_t place = 0;
    const auto room = [&](std::size_t bytes) {
      const std::size_t at = place;
      place = (place + bytes + 63) & ~std::size_t{63};
      return at;
    };
    Json tensors = Json::array();
    std::vector<std::pair<std::size_t, std::size_t>> copies;  // place, bytes
    for (std::size_t i = 0; i < asked.workload.inputs.size(); ++i) {
      const ReferenceWorkload::Input& input = asked.workload.inputs[i];
      const Dtype dtype = asked.inputs.stored.empty() ? Dtype::f64 : input.dtype;
      std::size_t bytes = size_of(dtype);
      for (const std::int64_t extent : input.shape) bytes *= static_cast<std::size_t>(extent);
      copies.emplace_back(room(bytes), bytes);
      tensors.push_back({{"name", input.name},
                         {"dtype", name_of(dtype)},
                         {"axes", input.dimensions},
                         {"shape", input.shape},
                         {"at", copies.back().first}});
    }
    const std::size_t rows_at = room(rows.size_bytes()), out_at = room(out.size_bytes());
    memory_->grow(place);
    for (std::size_t i = 0; i < copies.size(); ++i)
      std::memcpy(memory_->at(copies[i].first),
                  asked.inputs.stored.empty() ? static_cast<const void*>(asked.inputs.values[i])
                                              : asked.inputs.stored[i],
                  copies[i].second);
    auto* const numbers = reinterpret_cast<std::int64_t*>(memory_->at(rows_at));
    for (std::size_t i = 0; i < rows.size(); ++i) numbers[i] = rows[i] - group.first;

    Json outputs = Json::array();
    for (const OutputLayout& output : asked.layout.outputs())
      if (&asked.layout.group(output) == &group)
        outputs.push_back({{"axes", output.dimension_names},
                           {"shape", output.shape},
                           {"index", std::ranges::find(outputs_, output.name) - outputs_.begin()}});
    Json dtypes = Json::array();
    for (const std::optional<Dtype>& own : dtypes_)
      dtypes.push_back(name_of(own.value_or(asked.workload.dtype)));
    Json values = Json::object();
    for (const auto& [name, value] : asked.workload.numbers)
      if (flags_.contains(name))
        values[name] = value != 0.0;
      else if (whole_.contains(name))
        values[name] = static_cast<std::int64_t>(value);
      else
        values[name] = value;
    ask({{"do", "rows"},
         {"function", function},
         {"dtype", name_of(asked.workload.dtype)},
         {"threads", asked.threads},
         {"numbers", values},
         {"tensors", tensors},
         {"outputs", outputs},
         {"dtypes", dtypes},
         {"rows", {{"axes", group.names}, {"shape", group.shape}, {"at", rows_at}, {"count", rows.size()}}},
         {"out", out_at},
         {"bytes", memory_->bytes()}},
        kMostSeconds);
    std::memcpy(out.data(), memory_->at(out_at), out.size_bytes());
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
  TorchPython python_;
  fs::path sources_;
  std::vector<std::string> outputs_, controls_;
  std::vector<std::optional<Dtype>> dtypes_;  // of the outputs; nullopt: the workload's
  std::set<std::string> flags_, whole_;       // names whose numbers are passed as bool or int
  mutable std::mutex mutex_;
  mutable std::optional<GrowingMemory> memory_;
  mutable std::optional<ChildProcess> child_;
  mutable std::optional<FrameStream> frames_;
  mutable std::vector<std::string> defined_;
};

// What R of a workload depends on.
std::string stamp_of(const Task& task, const TorchPython& python) {
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
  if (task.derived)
    return failure("oracle", fmt::format("{}: derived inputs need a reference in C++ (remove `derived`)",
                                         (task.folder / "task.yaml").string()));
  auto found = find_torch_python(python);
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
    return TaskReference(program, kept, false);
  } catch (const std::runtime_error& error) {
    return failure("oracle", error.what());
  }
}

}  // namespace cultivar

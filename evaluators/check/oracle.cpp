// SPDX-License-Identifier: Apache-2.0
#include "evaluators/check/oracle.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "evaluators/check/oracle_process.hpp"
#include "evaluators/check/reference_header.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/system/sandbox.hpp"
#include "evaluators/system/secret.hpp"
#include "evaluators/task/mixture.hpp"
#include "evaluators/task/perturbation.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {
namespace {

namespace fs = std::filesystem;

template <std::size_t... kTypes>
constexpr auto roundings(std::index_sequence<kTypes...>) {
  return std::array<double (*)(double), sizeof...(kTypes)>{
      [](double value) { return round_to(static_cast<Dtype>(kTypes), value); }...};
}

double (*rounding_of(Dtype dtype))(double) {
  static constexpr auto all = roundings(std::make_index_sequence<static_cast<std::size_t>(dtype_count)>());
  return all[static_cast<std::size_t>(dtype)];
}

// Permanently lowers the priority of this thread, unless it is the process's main thread, which does the
// timing.
void lower_priority() {
  static thread_local bool lowered = false;
  if (std::exchange(lowered, true)) return;
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  if (thread != static_cast<id_t>(::getpid())) ::setpriority(PRIO_PROCESS, thread, 5);
}

// Of this thread's arithmetic, as long as it lives.
class RoundingDirection {
 public:
  explicit RoundingDirection(int direction) : before_(std::fegetround()) { std::fesetround(direction); }
  ~RoundingDirection() { std::fesetround(before_); }
  RoundingDirection(const RoundingDirection&) = delete;
  RoundingDirection& operator=(const RoundingDirection&) = delete;

 private:
  int before_;
};

// The contents of the headers in the folder of a task's own reference, which it may include.
std::string headers_beside(const fs::path& source) {
  std::vector<fs::path> headers;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(source.parent_path(), ignored))
    if (const std::string kind = entry.path().extension().string(); kind == ".h" || kind == ".hpp")
      headers.push_back(entry.path());
  std::ranges::sort(headers);
  std::string all;
  for (const fs::path& header : headers)
    all += header.filename().string() + "\n" + sha256_hex(read_file(header).value_or("")) + "\n";
  return all;
}

bool comes_with_cultivar(std::string_view reference) {
  return kOwnReferences.contains(sha256_hex(reference));
}

ReferenceType type_of(Dtype dtype) {
  return dtype == Dtype::f32    ? ReferenceType::f32
         : dtype == Dtype::f16  ? ReferenceType::f16
         : dtype == Dtype::bf16 ? ReferenceType::bf16
                                : ReferenceType::other;
}

Expected<std::string> write_text(const fs::path& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out)
    return failure("oracle", fmt::format("cannot write {} (check that the disk is not full or read-only)",
                                         path.string()));
  return path.string();
}

// Compiles in a sandbox: reference.cpp may include any file that its compiler can read. Leaves
// folder/reference.so.
Expected<void> run_compiler(const Task& task, std::string_view text, bool own, const fs::path& compiler,
                            const std::vector<std::string>& flags, const fs::path& folder,
                            double deadline_s) {
  const fs::path scratch = folder / fmt::format("build.{}", ::getpid());
  const struct Cleanup {
    const fs::path& path;
    ~Cleanup() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
  } cleanup{scratch};
  std::error_code made;
  fs::create_directories(scratch / "src", made);
  fs::create_directories(scratch / "out", made);
  if (made) return failure("oracle", fmt::format("cannot create {}: {}", scratch.string(), made.message()));
  for (const auto& [name, contents] : {std::pair<const char*, std::string_view>{"reference.cpp", text},
                                       {"cultivar_reference.hpp", kReferenceHeader}})
    if (const auto written = write_text(scratch / "src" / name, contents); !written)
      return tl::make_unexpected(written.error());

  const Sandbox sandbox;
  const bool inside = sandbox.usable();
  // A reference.cpp may include files beside it; one that comes with Cultivar has none.
  const fs::path others = own ? scratch / "src" : fs::absolute(task.folder),
                 tree = fs::canonical(compiler).parent_path().parent_path();
  ProcessOptions options;
  Expected<FileAccessRules> walls = failure("landlock", "not needed");
  if (inside) {
    std::vector<SandboxMount> mounts{
        {scratch / "src", "/src"}, {others, "/task"}, {scratch / "out", "/out", true}};
    if (tree != "/usr") mounts.push_back({tree, tree});
    options.command =
        sandbox.command(mounts, {"--dev", "/dev", "--tmpfs", "/tmp", "--setenv", "PATH", "/usr/bin:/bin",
                                 "--setenv", "LC_ALL", "C.UTF-8", "--chdir", "/src"});
  } else {
    walls = FileAccessRules::make(
        {"/usr", "/bin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache", scratch, others, tree},
        {scratch / "out", "/dev/null"});
    if (walls) options.walls = &*walls;
    options.privileges = sandbox.privileges_outside({compiler, others}, scratch);
    options.folder = scratch / "src";
    options.environment =
        std::vector<std::string>{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8", "TMPDIR=../out"};
  }
  options.command.push_back(compiler.string());
  options.command.insert(options.command.end(), flags.begin(), flags.end());
  for (const std::string& argument :
       {std::string("-iquote"), inside ? "/task" : others.string(), std::string("-o"),
        std::string(inside ? "/out/reference.so" : "../out/reference.so"), std::string("reference.cpp")})
    options.command.push_back(argument);
  options.pipe_input = options.pipe_output = false;
  options.expendable = true;
  options.limits = {{RLIMIT_CORE, 0}, {RLIMIT_AS, std::size_t{4} << 30}, {RLIMIT_FSIZE, most_output_bytes}};
  Expected<ChildProcess> child = ChildProcess::spawn(options);
  if (!child) return tl::make_unexpected(child.error());
  const fs::path source = task.folder / "reference.cpp";
  if (!child->wait_or_kill(deadline_in(deadline_s)))
    return failure("oracle", fmt::format("compiling {} timed out after {:g} s", source.string(), deadline_s));
  if (!child->poll()->success())
    return failure("oracle", fmt::format("{} does not compile:\n{}", source.string(), child->captured()));
  const auto object = read_file(scratch / "out" / "reference.so");
  if (!object) return tl::make_unexpected(object.error());
  return write_atomically(folder / "reference.so", *object);
}

struct CompiledReference {
  fs::path library;
  bool own = false;  // comes with Cultivar
};

Expected<CompiledReference> compile_reference(const Task& task, const fs::path& cache, double deadline_s) {
  const fs::path source = task.folder / "reference.cpp";
  const Expected<std::string> text = read_file(source);
  if (!text) return tl::make_unexpected(text.error());
  CompiledReference reference;
  reference.own = comes_with_cultivar(*text);
  fs::path compiler;
  for (const char* name : {"g++", "c++", "clang++"})
    if (compiler.empty()) compiler = find_program(name);
  if (compiler.empty())
    return failure("oracle", "no C++ compiler in PATH (tried g++, c++, clang++); install g++");
  std::error_code ignored;
  const std::string compiler_stamp =
      fmt::format("{} {}", fs::canonical(compiler, ignored).string(), fs::file_size(compiler, ignored));

  const std::vector<std::string> flags = {"-std=c++20",        "-O3",   "-march=native",
                                          "-ffp-contract=off", "-fPIC", "-shared"};
  const std::string key =
      sha256_hex(fmt::format("sandboxed\n{}\n{}\n{}\n{}\n{}", compiler_stamp, fmt::join(flags, " "),
                             kReferenceHeader, *text, reference.own ? "" : headers_beside(source)));
  const fs::path folder = fs::absolute(cache) / "oracle" / key.substr(0, 32);
  reference.library = folder / "reference.so";
  if (fs::exists(reference.library, ignored)) return reference;

  std::error_code made;
  fs::create_directories(folder, made);
  if (made) return failure("oracle", fmt::format("cannot create {}: {}", folder.string(), made.message()));
  if (auto built = run_compiler(task, *text, reference.own, compiler, flags, folder, deadline_s); !built)
    return tl::make_unexpected(built.error());
  return reference;
}

}  // namespace

struct OracleLibrary::ControlNames {
  std::mutex mutex;
  std::map<std::string, bool> defined;  // by the whole name, as far as anybody asked
};

Expected<OracleLibrary> OracleLibrary::build(const Task& task, const fs::path& cache, double deadline_s) {
  const Expected<CompiledReference> compiled = compile_reference(task, cache, deadline_s);
  if (!compiled) return tl::make_unexpected(compiled.error());
  OracleLibrary library;
  library.file_ = compiled->library;
  library.folder_ = library.file_.parent_path();
  library.controls_ = std::make_shared<ControlNames>();
  const Expected<bool> exact = defines_apart({library.file_, library.exact()});
  if (!exact) return tl::make_unexpected(exact.error());
  const Expected<bool> rounded = defines_apart({library.file_, "reference_row_rounded"});
  if (!rounded) return tl::make_unexpected(rounded.error());
  library.has_rounded_ = *rounded;
  if (!*exact)
    return failure("oracle",
                   fmt::format("{}/reference.cpp does not define extern \"C\" void reference_row(const "
                               "ReferenceArgs&, std::int64_t row, double* out)",
                               task.folder.string()));
  const bool whole_numbers = std::ranges::any_of(task.tensors, [&](const TensorSpec& t) {
    return t.role == Role::output &&
           (t.dtype ? !is_floating(*t.dtype) : !std::ranges::all_of(task.dtypes, is_floating));
  });
  if (whole_numbers) {
    const Expected<bool> ruled = defines_apart({library.file_, "is_right_index"});
    if (!ruled) return tl::make_unexpected(ruled.error());
    library.has_index_rule_ = *ruled;
  }
  if (task.derived) {
    const Expected<bool> derives = defines_apart({library.file_, "derive_row"});
    if (!derives) return tl::make_unexpected(derives.error());
    if (!*derives)
      return failure("oracle",
                     fmt::format("{}/reference.cpp does not define extern \"C\" void derive_row(const "
                                 "ReferenceArgs&, std::int64_t row, double* out), which computes the inputs "
                                 "that `derived` of task.yaml lists",
                                 task.folder.string()));
  }
  if (compiled->own) {
    void* const opened = ::dlopen(library.file_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) return failure("oracle", fmt::format("cannot load the oracle: {}", ::dlerror()));
    library.handle_ = std::shared_ptr<void>(opened, [](void* handle) { ::dlclose(handle); });
  }
  return library;
}

namespace {

fs::path legal_file(const fs::path& folder, const std::string& workload) {
  return folder / fmt::format("legal-{}", sha256_hex(workload).substr(0, 24));
}

}  // namespace

std::vector<LegalError> OracleLibrary::known_legal_errors(const std::string& workload) const {
  std::ifstream in(legal_file(folder_, workload));
  std::vector<LegalError> errors;
  std::size_t count = 0;
  in >> count;
  for (LegalError error; errors.size() < count && in >> error.max >> error.rms;) errors.push_back(error);
  if (errors.size() != count) errors.clear();
  return errors;
}

void OracleLibrary::keep_legal_errors(const std::string& workload,
                                      const std::vector<LegalError>& errors) const {
  std::string text = fmt::format("{}\n", errors.size());
  for (const LegalError& error : errors) text += fmt::format("{:.17g} {:.17g}\n", error.max, error.rms);
  // Written atomically; if writing fails, the next worker computes it again.
  const fs::path file = legal_file(folder_, workload);
  const fs::path partial = fmt::format("{}.{}.partial", file.string(), getpid());
  if (!write_text(partial, text)) return;
  std::error_code ignored;
  fs::rename(partial, file, ignored);
}

OracleLibrary::Function OracleLibrary::here(RowFunction function) const {
  return handle_ ? reinterpret_cast<Function>(::dlsym(handle_.get(), function)) : nullptr;
}

RowFunction OracleLibrary::control(const std::string& name) const {
  const std::lock_guard lock(controls_->mutex);
  const auto [known, added] = controls_->defined.try_emplace("control_" + name, false);
  if (added) {
    const Expected<bool> defined = defines_apart({file_, known->first.c_str()});
    if (!defined) throw std::runtime_error(defined.error().message);
    known->second = *defined;
  }
  return known->second ? known->first.c_str() : nullptr;
}

void decode_all(Dtype dtype, std::span<const std::byte> elements, std::span<double> out) {
  constexpr std::size_t grain = std::size_t{1} << 16;
  const std::size_t width = size_of(dtype);
  const auto part = [&](std::size_t i) {
    const std::size_t first = i * grain, some = std::min(grain, out.size() - first);
    decode(dtype, elements.subspan(first * width, some * width), out.subspan(first, some));
  };
  if (out.size() <= grain) return decode(dtype, elements, out);
  tbb::parallel_for(std::size_t{0}, (out.size() + grain - 1) / grain, part);
}

namespace {

// How many elements of a row lie one after the other in the tensor, again and again.
std::size_t run_of(const OutputLayout& part) {
  const std::size_t count = part.element_offsets.size();
  std::size_t run = 1;
  while (run < count && part.element_offsets[run] == static_cast<std::int64_t>(run)) ++run;
  return run;
}

void derive_inputs(const OracleLibrary& library, const Task& task, const Workload& workload, Inputs& inputs) {
  const RowLayout layout = RowLayout::of_derived(task, workload);
  const auto values =
      Oracle(library, task, workload, tbb::this_task_arena::max_concurrency()).derived(layout, inputs.view());
  const auto row_values = static_cast<std::size_t>(layout.groups().front().elements);
  for (const OutputLayout& part : layout.outputs()) {
    const auto input =
        static_cast<std::size_t>(std::count_if(task.tensors.begin(), task.tensors.begin() + part.tensor,
                                               [](const TensorSpec& t) { return t.role == Role::input; }));
    std::byte* const tensor = inputs.bytes[input].data();
    const std::size_t count = part.element_offsets.size(), run = run_of(part), width = size_of(part.dtype);
    tbb::parallel_for(std::int64_t{0}, layout.rows(), [&](std::int64_t row) {
      std::vector<std::byte> encoded(count * width);
      encode(
          part.dtype,
          std::span(values).subspan(static_cast<std::size_t>(row) * row_values + part.first_element, count),
          encoded);
      const std::int64_t base = layout.base(part, row);
      for (std::size_t e = 0; e < count; e += run)
        std::memcpy(tensor + static_cast<std::size_t>(base + part.element_offsets[e]) * width,
                    encoded.data() + e * width, run * width);
    });
    decode_all(part.dtype, inputs.bytes[input], inputs.decoded[input]);
  }
}

// `unknown`: derived inputs have their place, but no values yet.
void decode_inputs(const Task& task, const Workload& workload, Inputs& inputs, bool unknown) {
  std::size_t next = 0;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    const std::span<const std::byte> bytes = inputs.bytes[next++];
    const Dtype dtype = task.dtype(tensor, workload);
    auto& values = inputs.decoded.emplace_back(bytes.size() / size_of(dtype));
    if (!unknown || !task.is_derived(tensor.name)) decode_all(dtype, bytes, values);
  }
  for (const auto& values : inputs.decoded) inputs.values.push_back(values.data());
  for (const std::vector<std::byte>& bytes : inputs.bytes) inputs.stored.push_back(bytes.data());
}

}  // namespace

namespace {

// Tensors that are hot along the same dimension are so at the same index: products of the two large factors
// are what such a distribution is for.
std::optional<std::uint64_t> shared_place(const Fill& fill, const TensorSpec& tensor, std::uint64_t seed) {
  const int rank = static_cast<int>(tensor.shape.size());
  if (fill.kind != Fill::Kind::hot || rank == 0 || fill.axis == kAllAxes) return std::nullopt;
  const int axis = std::clamp(fill.axis < 0 ? rank + fill.axis : fill.axis, 0, rank - 1);
  return derive_seed(seed, "hot " + tensor.shape[static_cast<std::size_t>(axis)]);
}

}  // namespace

Inputs make_inputs(const OracleLibrary* library, const Task& task, const Workload& workload,
                   std::uint64_t seed, const std::map<std::string, Fill>& fills,
                   std::optional<std::uint64_t> mixture) {
  AlterInputs alter;
  if (mixture)
    alter = [&](std::span<std::vector<std::byte>> bytes) {
      return mix_values(task, workload, *mixture, bytes);
    };
  return make_altered_inputs(library, task, workload, seed, fills, alter);
}

Inputs make_altered_inputs(const OracleLibrary* library, const Task& task, const Workload& workload,
                           std::uint64_t seed, const std::map<std::string, Fill>& fills,
                           const AlterInputs& alter) {
  if (task.derived && library == nullptr)
    throw std::logic_error("the derived inputs of a task were drawn without its oracle");
  Inputs inputs;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    const auto replaced = fills.find(tensor.name);
    std::vector<std::byte>& bytes = inputs.bytes.emplace_back(task.bytes_of(tensor, workload));
    if (task.is_derived(tensor.name)) continue;
    const Fill fill = task.fill(replaced == fills.end() ? tensor.fill : replaced->second, workload);
    fill_tensor(fill, derive_seed(seed, tensor.name), task.shape(tensor, workload),
                task.dtype(tensor, workload), bytes, shared_place(fill, tensor, seed));
  }
  if (alter) inputs.mixture = alter(inputs.bytes);
  decode_inputs(task, workload, inputs, true);
  if (task.derived) derive_inputs(*library, task, workload, inputs);
  return inputs;
}

Inputs similar_inputs(const OracleLibrary& library, const Task& task, const Workload& workload,
                      const Inputs& like, std::uint64_t seed) {
  Inputs inputs;
  inputs.bytes = like.bytes;
  perturb_values(task, workload, seed, inputs.bytes);
  decode_inputs(task, workload, inputs, true);
  if (task.derived) derive_inputs(library, task, workload, inputs);
  return inputs;
}

void decode_inputs(const Task& task, const Workload& workload, Inputs& inputs) {
  decode_inputs(task, workload, inputs, false);
}

Oracle::Oracle(const OracleLibrary& library, const Task& task, const Workload& workload, int threads)
    : library_(library),
      layout_(task, workload),
      round_(rounding_of(workload.dtype)),
      rounds_to_(type_of(workload.dtype)),
      threads_(threads),
      permitted_unit_(0.5 * task.tolerance.factor * epsilon_of(workload.dtype) +
                      task.tolerance.floor_eps * accumulation_epsilon(workload.dtype)) {
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    input_names_.push_back(tensor.name);
    shapes_.push_back(task.shape(tensor, workload));
    types_.push_back(type_of(task.dtype(tensor, workload)));
  }
  for (const auto& [name, value] : task.bindings(workload)) numbers_.emplace_back(name, value);
}

std::vector<double> Oracle::rows(RowFunction function, const InputView& inputs,
                                 std::span<const std::int64_t> rows) const {
  std::vector<double> out(layout_.values_of(rows));
  this->rows(function, inputs, rows, out);
  return out;
}

void Oracle::rows(RowFunction function, const InputView& inputs, std::span<const std::int64_t> rows,
                  std::span<double> out, int rounding) const {
  compute(function, layout_, inputs, rows, out, rounding);
}

std::vector<double, HugePages<double>> Oracle::derived(const RowLayout& derived,
                                                       const InputView& inputs) const {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(derived.rows()));
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<double, HugePages<double>> out(derived.values_of(rows));
  compute("derive_row", derived, inputs, rows, out);
  return out;
}

// What the functions of reference.cpp receive, by group of rows.
struct Oracle::Arguments {
  Arguments(const Oracle& oracle, const RowLayout& layout, const InputView& inputs)
      : tensors(oracle.input_names_.size()), numbers(oracle.numbers_.size()) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto& shape = oracle.shapes_[i];
      tensors[i] = {oracle.input_names_[i].c_str(), inputs.values[i], shape.data(),
                    static_cast<int>(shape.size())};
      if (inputs.stored.empty()) continue;
      tensors[i].stored = inputs.stored[i];
      tensors[i].stored_as = oracle.types_[i];
    }
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = {oracle.numbers_[i].first.c_str(), oracle.numbers_[i].second};
    for (const RowGroup& group : layout.groups())
      args.push_back({tensors.data(), static_cast<int>(tensors.size()), numbers.data(),
                      static_cast<int>(numbers.size()), oracle.round_, group.output.c_str(),
                      oracle.rounds_to_});
  }
  std::vector<ReferenceTensor> tensors;
  std::vector<ReferenceNumber> numbers;
  std::vector<ReferenceArgs> args;
};

void Oracle::compute(RowFunction function, const RowLayout& layout, const InputView& inputs,
                     std::span<const std::int64_t> rows, std::span<double> out, int rounding) const {
  const Arguments of(*this, layout, inputs);
  std::vector<OracleRow> calls;
  calls.reserve(rows.size());
  std::size_t values = 0;
  for (const std::int64_t row : rows) {
    const RowGroup& group = layout.group_of(row);
    calls.push_back(
        {&of.args[static_cast<std::size_t>(&group - layout.groups().data())], row - group.first, values});
    values += static_cast<std::size_t>(group.elements);
  }
  call(function, calls, out, rounding);
}

std::vector<bool> Oracle::right(const InputView& inputs, std::span<const IndexAnswer> answers) const {
  const Arguments of(*this, layout_, inputs);
  std::vector<OracleRow> calls;
  std::vector<IndexAnswer> asked(answers.begin(), answers.end());
  for (std::size_t i = 0; i < answers.size(); ++i) {
    asked[i].unit = permitted_unit_;
    const auto output = std::ranges::find(layout_.outputs(), answers[i].output, &OutputLayout::name);
    calls.push_back({&of.args[output->group], answers[i].row, i, &asked[i]});
  }
  std::vector<double> verdicts(answers.size());
  call(library_.index_rule(), calls, verdicts);
  std::vector<bool> right;
  for (const double verdict : verdicts) right.push_back(verdict == 1.0);
  return right;
}

std::function<std::vector<bool>(std::span<const IndexAnswer>)> Oracle::index_rule(
    const InputView& inputs) const {
  if (library_.index_rule() == nullptr) return {};
  return [this, inputs](std::span<const IndexAnswer> answers) { return right(inputs, answers); };
}

void Oracle::call(RowFunction function, std::span<const OracleRow> calls, std::span<double> out,
                  int rounding) const {
  if (const auto here = library_.here(function)) {
    tbb::task_arena arena(threads_);
    arena.execute([&] {
      tbb::parallel_for(std::size_t{0}, calls.size(), [&](std::size_t i) {
        if (gives_way_) lower_priority();
        const RoundingDirection direction(rounding);
        const OracleRow& each = calls[i];
        if (each.answer == nullptr)
          here(*each.args, each.row, out.data() + each.value);
        else
          out[each.value] =
              reinterpret_cast<IndexRule>(reinterpret_cast<void*>(here))(*each.args, *each.answer) ? 1.0
                                                                                                   : 0.0;
      });
    });
    return;
  }
  const auto done = compute_apart({library_.file(), function, threads_, gives_way_, rounding}, calls, out);
  if (!done) throw std::runtime_error(done.error().message);
}

}  // namespace cultivar

#include "evaluators/check/oracle.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <utility>

#include "evaluators/check/reference_header.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/system/secret.hpp"
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
  static constexpr auto all = roundings(std::make_index_sequence<static_cast<std::size_t>(Dtype::u8) + 1>());
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

Expected<fs::path> compile_reference(const Task& task, const fs::path& cache, double deadline_s) {
  const fs::path source = task.folder / "reference.cpp";
  const Expected<std::string> text = read_file(source);
  if (!text) return tl::make_unexpected(text.error());
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
  const std::string key = sha256_hex(
      fmt::format("{}\n{}\n{}\n{}", compiler_stamp, fmt::join(flags, " "), kReferenceHeader, *text));
  const fs::path folder = cache / "oracle" / key.substr(0, 32);
  const fs::path library = folder / "reference.so";
  if (fs::exists(library, ignored)) return library;

  std::error_code made;
  fs::create_directories(folder, made);
  if (made) return failure("oracle", fmt::format("cannot create {}: {}", folder.string(), made.message()));
  if (const auto header = write_text(folder / "cultivar_reference.hpp", kReferenceHeader); !header)
    return tl::make_unexpected(header.error());
  const fs::path partial = folder / fmt::format("reference.{}.partial", getpid());
  ProcessOptions options;
  options.command = {compiler.string()};
  options.command.insert(options.command.end(), flags.begin(), flags.end());
  for (const std::string& argument :
       {"-I" + folder.string(), std::string("-o"), partial.string(), source.string()})
    options.command.push_back(argument);
  options.pipe_input = options.pipe_output = false;
  Expected<ChildProcess> child = ChildProcess::spawn(options);
  if (!child) return tl::make_unexpected(child.error());
  if (!child->wait_or_kill(deadline_in(deadline_s)))
    return failure("oracle", fmt::format("compiling {} timed out after {:g} s", source.string(), deadline_s));
  if (!child->poll()->success())
    return failure("oracle", fmt::format("{} does not compile:\n{}", source.string(), child->captured()));
  fs::rename(partial, library, made);
  if (made) return failure("oracle", fmt::format("cannot write {}: {}", library.string(), made.message()));
  return library;
}

}  // namespace

Expected<OracleLibrary> OracleLibrary::build(const Task& task, const fs::path& cache, double deadline_s) {
  const Expected<fs::path> path = compile_reference(task, cache, deadline_s);
  if (!path) return tl::make_unexpected(path.error());
  void* const opened = dlopen(fs::absolute(*path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return failure("oracle", fmt::format("cannot load the oracle: {}", dlerror()));
  OracleLibrary library;
  library.folder_ = fs::absolute(*path).parent_path();
  library.handle_ = std::shared_ptr<void>(opened, [](void* handle) { dlclose(handle); });
  library.exact_ = reinterpret_cast<RowFunction>(dlsym(opened, "reference_row"));
  library.rounded_ = reinterpret_cast<RowFunction>(dlsym(opened, "reference_row_rounded"));
  if (library.exact_ == nullptr)
    return failure("oracle",
                   fmt::format("{}/reference.cpp does not define extern \"C\" void reference_row(const "
                               "ReferenceArgs&, std::int64_t row, double* out)",
                               task.folder.string()));
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

RowFunction OracleLibrary::control(const std::string& name) const {
  return reinterpret_cast<RowFunction>(dlsym(handle_.get(), ("control_" + name).c_str()));
}

Inputs make_inputs(const Task& task, const Workload& workload, std::uint64_t seed,
                   const std::map<std::string, Fill>& fills) {
  Inputs inputs;
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    const Dtype dtype = task.dtype(tensor, workload);
    const std::vector<std::int64_t> shape = task.shape(tensor, workload);
    const auto replaced = fills.find(tensor.name);
    std::vector<std::byte>& bytes = inputs.bytes.emplace_back(task.bytes_of(tensor, workload));
    fill_tensor(replaced == fills.end() ? tensor.fill : replaced->second, derive_seed(seed, tensor.name),
                shape, dtype, bytes);
    std::vector<double>& values = inputs.decoded.emplace_back(bytes.size() / size_of(dtype));
    decode(dtype, bytes, values);
  }
  for (const std::vector<double>& values : inputs.decoded) inputs.values.push_back(values.data());
  for (const std::vector<std::byte>& bytes : inputs.bytes) inputs.stored.push_back(bytes.data());
  return inputs;
}

Oracle::Oracle(const OracleLibrary& library, const Task& task, const Workload& workload, int threads)
    : library_(library), round_(rounding_of(workload.dtype)), threads_(threads) {
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    input_names_.push_back(tensor.name);
    shapes_.push_back(task.shape(tensor, workload));
    types_.push_back(type_of(task.dtype(tensor, workload)));
  }
  for (const auto& [name, value] : task.bindings(workload)) numbers_.emplace_back(name, value);
}

std::vector<double> Oracle::rows(RowFunction function, const InputView& inputs,
                                 std::span<const std::int64_t> rows, std::int64_t row_elements) const {
  std::vector<ReferenceTensor> tensors(input_names_.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i] = {input_names_[i].c_str(), inputs.values[i], shapes_[i].data(),
                  static_cast<int>(shapes_[i].size())};
    if (inputs.stored.empty()) continue;
    tensors[i].stored = inputs.stored[i];
    tensors[i].stored_as = types_[i];
  }
  std::vector<ReferenceNumber> numbers(numbers_.size());
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = {numbers_[i].first.c_str(), numbers_[i].second};
  const ReferenceArgs args{tensors.data(), static_cast<int>(tensors.size()), numbers.data(),
                           static_cast<int>(numbers.size()), round_};
  std::vector<double> out(rows.size() * static_cast<std::size_t>(row_elements));
  tbb::task_arena arena(threads_);
  arena.execute([&] {
    tbb::parallel_for(std::size_t{0}, rows.size(), [&](std::size_t i) {
      if (gives_way_) lower_priority();
      function(args, rows[i], out.data() + i * static_cast<std::size_t>(row_elements));
    });
  });
  return out;
}

}  // namespace cultivar

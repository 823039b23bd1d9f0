// SPDX-License-Identifier: Apache-2.0
#include "evaluators/references/cpp/cpp_reference.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "evaluators/references/cpp/reference_process.hpp"
#include "evaluators/system/files.hpp"
#include "evaluators/system/hash.hpp"
#include "evaluators/system/process.hpp"
#include "evaluators/system/sandbox.hpp"

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
  const fs::path source = task.reference;
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
  const fs::path source = task.reference;
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

// What the functions receive, by group of rows.
struct Arguments {
  Arguments(const ReferenceWorkload& workload, const RowLayout& layout, const InputView& inputs)
      : tensors(workload.inputs.size()), numbers(workload.numbers.size()) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const ReferenceWorkload::Input& input = workload.inputs[i];
      tensors[i] = {input.name.c_str(), inputs.values[i], input.shape.data(),
                    static_cast<int>(input.shape.size())};
      if (inputs.stored.empty()) continue;
      tensors[i].stored = inputs.stored[i];
      tensors[i].stored_as = type_of(input.dtype);
    }
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = {workload.numbers[i].first.c_str(), workload.numbers[i].second};
    for (const RowGroup& group : layout.groups())
      args.push_back({tensors.data(), static_cast<int>(tensors.size()), numbers.data(),
                      static_cast<int>(numbers.size()), rounding_of(workload.dtype), group.output.c_str(),
                      type_of(workload.dtype)});
  }
  std::vector<ReferenceTensor> tensors;
  std::vector<ReferenceNumber> numbers;
  std::vector<ReferenceArgs> args;
};

// The function's name in reference.cpp.
std::string symbol_of(std::string_view function) {
  return function == "exact"     ? "reference_row"
         : function == "rounded" ? "reference_row_rounded"
         : function == "derived" ? "derive_row"
                                 : std::string(function);
}

class CppReference final : public ReferenceProgram {
 public:
  explicit CppReference(fs::path library) : library_(std::move(library)) {}

  // Its functions are called in this process from now on.
  Expected<void> load_here() {
    void* const opened = ::dlopen(library_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) return failure("oracle", fmt::format("cannot load the oracle: {}", ::dlerror()));
    handle_ = std::shared_ptr<void>(opened, [](void* handle) { ::dlclose(handle); });
    return {};
  }

  bool is_here() const override { return handle_ != nullptr; }
  bool defines(const std::string& function) const override {
    const Expected<bool> defined = defines_apart({library_, symbol_of(function).c_str()});
    if (!defined) throw std::runtime_error(defined.error().message);
    return *defined;
  }

  std::string declaration_of(const std::string& function) const override {
    return fmt::format("extern \"C\" void {}(const ReferenceArgs& args, std::int64_t row, double* out)",
                       symbol_of(function));
  }

  void compute(RowFunction function, const RowsAsked& asked, std::span<double> out) const override {
    const Arguments of(asked.workload, asked.layout, asked.inputs);
    std::vector<OracleRow> calls;
    calls.reserve(asked.rows.size() + asked.answers.size());
    std::size_t values = 0;
    for (const std::int64_t row : asked.rows) {
      const RowGroup& group = asked.layout.group_of(row);
      calls.push_back({&of.args[static_cast<std::size_t>(&group - asked.layout.groups().data())],
                       row - group.first, values});
      values += static_cast<std::size_t>(group.elements);
    }
    for (const IndexAnswer& answer : asked.answers) {
      const auto output = std::ranges::find(asked.layout.outputs(), answer.output, &OutputLayout::name);
      calls.push_back({&of.args[output->group], answer.row, values++, &answer});
    }
    call(symbol_of(function), asked, calls, out);
  }

 private:
  void call(const std::string& symbol, const RowsAsked& asked, std::span<const OracleRow> calls,
            std::span<double> out) const {
    if (!handle_) {
      const auto done = compute_apart(
          {library_, symbol.c_str(), asked.threads, asked.gives_way, asked.rounding}, calls, out);
      if (!done) throw std::runtime_error(done.error().message);
      return;
    }
    void* const found = ::dlsym(handle_.get(), symbol.c_str());
    if (found == nullptr) throw std::runtime_error(fmt::format("the oracle does not define {}", symbol));
    const auto row = reinterpret_cast<void (*)(const ReferenceArgs&, std::int64_t, double*)>(found);
    const auto rule = reinterpret_cast<IndexRule>(found);
    tbb::task_arena arena(asked.threads);
    arena.execute([&] {
      tbb::parallel_for(std::size_t{0}, calls.size(), [&](std::size_t i) {
        if (asked.gives_way) lower_priority();
        const OracleRow& each = calls[i];
        if (each.answer == nullptr)
          call_in_arithmetic(asked.rounding, [&] { row(*each.args, each.row, out.data() + each.value); });
        else
          out[each.value] = rule(*each.args, *each.answer) ? 1.0 : 0.0;
      });
    });
  }

  fs::path library_;
  std::shared_ptr<void> handle_;  // null if its functions are called elsewhere
};

Expected<void> require_function(const CppReference& program, const Task& task, const char* function,
                                const char* of) {
  if (program.defines(function)) return {};
  return failure("oracle", fmt::format("{} does not define {}{}", task.reference.string(),
                                       program.declaration_of(function), of));
}

}  // namespace

Expected<TaskReference> open_cpp_reference(const Task& task, const fs::path& cache, double deadline_s) {
  const Expected<CompiledReference> compiled = compile_reference(task, cache, deadline_s);
  if (!compiled) return tl::make_unexpected(compiled.error());
  const auto program = std::make_shared<CppReference>(compiled->library);
  try {
    if (auto exact = require_function(*program, task, "exact", ""); !exact)
      return tl::make_unexpected(exact.error());
    if (task.derived)
      if (auto derives = require_function(*program, task, "derived",
                                          ", which computes the inputs that `derived` of task.yaml lists");
          !derives)
        return tl::make_unexpected(derives.error());
    const bool whole_numbers = std::ranges::any_of(task.tensors, [&](const TensorSpec& t) {
      return t.role == Role::output &&
             (t.dtype ? !is_floating(*t.dtype) : !std::ranges::all_of(task.dtypes, is_floating));
    });
    const bool ruled = whole_numbers && program->defines("is_right_index");
    if (compiled->own)
      if (auto loaded = program->load_here(); !loaded) return tl::make_unexpected(loaded.error());
    return TaskReference(program, compiled->library.parent_path(), ruled);
  } catch (const std::runtime_error& error) {
    return failure("oracle", error.what());
  }
}

}  // namespace cultivar

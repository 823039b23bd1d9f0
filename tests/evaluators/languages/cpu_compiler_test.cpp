// SPDX-License-Identifier: Apache-2.0
// also without bubblewrap
#include "evaluators/languages/cpp/compiler.hpp"

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>

#include "evaluators/system/process.hpp"
#include "support/cpu_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cpu_test;
namespace fs = std::filesystem;

namespace {

struct FreshCache {
  fs::path folder = fs::temp_directory_path() / ("cultivar-compiler-test-" + std::to_string(::getpid()));
  FreshCache() { fs::remove_all(folder); }
  ~FreshCache() { fs::remove_all(folder); }
};

Variant from_file(const std::string& name) {
  std::ifstream in(source_folder / "tests/kernels" / name);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  BOOST_REQUIRE(!text.empty());
  return by_hand(std::move(text), {"softmax"});
}

CompileFailure failure_of(const Variant& variant, double deadline_s = 60.0) {
  const auto binary = compiler().compile(variant, {}, deadline_s);
  BOOST_REQUIRE(!binary);
  return binary.error();
}

const std::string scale =
    "extern \"C\" void k(float* y, int n) { for (int i = 0; i < n; ++i) y[i] *= 3.0f; }\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(cpu_compiler)

BOOST_AUTO_TEST_CASE(behind_file_walls_a_process_reads_what_it_may_and_nothing_else) {
  const auto walls =
      FileAccessRules::make({"/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"}, {"/dev/null"});
  if (!walls) {
    BOOST_TEST_MESSAGE("skipped: " << walls.error().message);
    return;
  }
  const auto reads = [&](const char* file) {
    ProcessOptions process;
    process.command = {"/bin/cat", file};
    process.pipe_input = process.pipe_output = false;
    process.walls = &*walls;
    auto child = ChildProcess::spawn(process);
    BOOST_REQUIRE_MESSAGE(child, (child ? "" : child.error().message));
    child->wait_or_kill(deadline_in(10.0));
    return child->poll()->success();
  };
  BOOST_TEST(reads("/usr/bin/env"));
  BOOST_TEST(!reads("/etc/passwd"));
}

BOOST_AUTO_TEST_CASE(a_variant_is_compiled_once_and_then_comes_from_the_cache) {
  const FreshCache cache;
  CpuCompiler fresh({.cache = cache.folder});
  const auto first = compiled(by_hand(scale, {"k"}), fresh), second = compiled(by_hand(scale, {"k"}), fresh);
  BOOST_TEST(fresh.compilations() == 1u);
  BOOST_TEST(first.path == second.path);
  BOOST_TEST(first.machine_code == second.machine_code);
  BOOST_TEST(first.resources.values.at("text_bytes") > 0.0);
  for (const auto& [name, value] : first.resources.values)
    BOOST_TEST(std::ranges::count(target_named("cpu")->reported, name) == 1, name);
  BOOST_TEST((first.resources.values == second.resources.values));

  std::ofstream(first.path, std::ios::app) << "damage";
  compiled(by_hand(scale, {"k"}), fresh);
  BOOST_TEST(fresh.compilations() == 2u);
  std::ofstream(fs::path(first.path).replace_extension(".json")) << "{\"sha256\":";
  compiled(by_hand(scale, {"k"}), fresh);
  BOOST_TEST(fresh.compilations() == 3u);
}

BOOST_AUTO_TEST_CASE(many_threads_may_compile_the_same_variant) {
  const FreshCache cache;
  CpuCompiler fresh({.cache = cache.folder});
  std::vector<std::string> hashes(4);
  std::vector<std::thread> threads;
  for (auto& hash : hashes)
    threads.emplace_back([&] {
      if (auto binary = fresh.compile(by_hand(scale, {"k"}), {}, 60.0)) hash = binary->machine_code;
    });
  for (auto& thread : threads) thread.join();
  for (const auto& hash : hashes) BOOST_TEST(hash == compiled(by_hand(scale, {"k"})).machine_code);
  BOOST_TEST(fs::is_empty(cache.folder / "tmp"));
}

BOOST_AUTO_TEST_CASE(comments_do_not_change_the_machine_code_but_constants_macros_and_calls_do) {
  const auto code = [](const std::string& source, const std::vector<std::string>& macros = {}) {
    const auto binary = compiler().compile(by_hand(source, {"k"}), macros, 60.0);
    BOOST_REQUIRE(binary);
    return binary->machine_code;
  };
  BOOST_TEST(code(scale) == code("// another\n\n" + scale + "/* and more */"));
  std::string other = scale;
  other.replace(other.find("3.0f"), 4, "5.0f");
  BOOST_TEST(code(scale) != code(other));
  const std::string called = "#include <cmath>\nextern \"C\" void k(float* y) { *y = F(*y); }\n";
  BOOST_TEST(code(called, {"F=std::erf"}) != code(called, {"F=std::tgamma"}));
}

BOOST_AUTO_TEST_CASE(errors_name_the_line_of_the_variant_and_no_folder) {
  const auto failure = failure_of(from_file("hostile/does_not_compile.cpp"));
  BOOST_TEST((failure.stage == Stage::compile));
  BOOST_TEST(failure.reason.starts_with("variant.cpp:23:"), failure.reason);
  BOOST_TEST(failure.diagnostics.find(cache_folder.string()) == std::string::npos);
}

BOOST_AUTO_TEST_CASE(code_for_other_instruction_sets_is_refused_by_its_line) {
  const std::string source = "#include <cmath>\n#  if defined(__AVX512F__)\n#endif\n" + scale;
  const auto failure = failure_of(by_hand(source, {"k"}));
  BOOST_TEST(failure.reason.ends_with("no check compiles: line 2: #  if defined(__AVX512F__)"),
             failure.reason);
  BOOST_TEST(
      compiler().compile(by_hand("#if __cplusplus > 201703\n#endif\n" + scale, {"k"}), {}, 60.0).has_value());
}

BOOST_AUTO_TEST_CASE(a_compile_bomb_is_stopped_at_the_deadline) {
  const auto start = std::chrono::steady_clock::now();
  const auto failure = failure_of(from_file("hostile/compile_bomb.cpp"), 2.0);
  BOOST_TEST((std::chrono::steady_clock::now() - start < std::chrono::seconds(20)));
  BOOST_TEST((failure.stage == Stage::compile));
  BOOST_TEST((failure.reason.find("did not finish within 2 s") != std::string::npos ||
              failure.reason.find("limits") != std::string::npos),
             failure.reason);
}

// The parts of this process's compilers, of which the driver says how they ended.
BOOST_AUTO_TEST_CASE(
    a_compiler_whose_part_is_killed_is_a_fault_of_the_host_and_one_that_only_says_so_is_not) {
  const std::function<bool(const std::string&)> is_below_this = [&](const std::string& pid) {
    std::ifstream in("/proc/" + pid + "/stat");
    std::string text;
    std::getline(in, text);
    if (text.rfind(") ") == std::string::npos) return false;
    const std::string parent = std::to_string(std::atoi(text.c_str() + text.rfind(") ") + 4));
    return parent == std::to_string(::getpid()) || (parent != "0" && is_below_this(parent));
  };
  std::jthread killer([&](const std::stop_token& stop) {
    while (!stop.stop_requested())
      for (const auto& entry : fs::directory_iterator("/proc")) {
        std::string name;
        std::getline(std::ifstream(entry.path() / "comm"), name);
        const std::string pid = entry.path().filename();
        if (name == "cc1plus" && is_below_this(pid)) ::kill(std::atoi(pid.c_str()), SIGKILL);
      }
  });
  const auto killed = failure_of(from_file("hostile/compile_bomb.cpp"));
  killer.request_stop();
  killer.join();
  BOOST_REQUIRE_MESSAGE(killed.host_fault.has_value(), killed.reason << killed.diagnostics);
  BOOST_TEST((killed.host_fault == HostFault::killed));
  for (const char* words :
       {"#line 1 \"c++: fatal error: Killed signal terminated program cc1plus\"\n#error x\n",
        "#line 1 \"c++: fatal error: Killed signal terminated program cc1plus\"\n"
        "#include \"none\"\n",
        "#error \"c++: fatal error: Killed signal terminated program cc1plus\"\n"})
    BOOST_TEST(!failure_of(by_hand(words + scale, {"k"})).host_fault.has_value(), words);
}

BOOST_AUTO_TEST_CASE(compilers_see_no_files_of_the_user) {
  if (compiler().info().isolation.find("can read this user's files") != std::string::npos)
    return;  // an old kernel without bubblewrap, and reported
  BOOST_TEST((failure_of(from_file("hostile/reads_a_secret_while_compiling.cpp")).stage == Stage::compile));
  const auto failure = failure_of(by_hand("#include \"/etc/passwd\"\n" + scale, {"k"}));
  const bool hidden = failure.diagnostics.find("No such file") != std::string::npos;
  const bool walled = failure.diagnostics.find("Permission denied") != std::string::npos;
  BOOST_TEST((hidden || walled), failure.diagnostics);
  BOOST_TEST(failure.diagnostics.find("root:") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_flood_of_messages_is_cut) {
  std::string source;
  for (int i = 0; i < 3000; ++i) source += "int a" + std::to_string(i) + " = nonsense_with_a_long_name;\n";
  const auto diagnostics = failure_of(by_hand(source, {"k"})).diagnostics;
  BOOST_TEST(diagnostics.size() < 40000u);
  BOOST_TEST(diagnostics.find("a0") != std::string::npos);  // the first errors are the ones that help
}

BOOST_AUTO_TEST_CASE(the_screen_refuses_what_runs_at_load_time_keeps_state_or_calls_the_system) {
  struct Case {
    Variant variant;
    const char* words;
  };
  const std::vector<Case> cases {
    {from_file("hostile/static_constructor.cpp"), "static constructors"},
        {from_file("hostile/missing_kernel.cpp"), "kernel 'softmax'"},
        {from_file("hostile/uses_fork_of_libc.cpp"), "calls fork"},
        {from_file("hostile/writable_global.cpp"), "writable static"},
        {from_file("cheats/patches_the_clock.cpp"), "calls clock_gettime"},
        {by_hand("static thread_local int n; extern \"C\" void k(int* y) { *y = ++n; }", {"k"}),
         "calls __tls_get_addr"},
        {by_hand("extern \"C\" void k(int* y) { static int n = 3; *y = ++n; }", {"k"}), "writable static"},
        {by_hand("__attribute__((destructor)) void bye() {} " + scale, {"k"}), "destructors"},
        {by_hand("asm(\".section .stash,\\\"aw\\\"\\n.zero 64\\n.text\");" + scale, {"k"}),
         "writable static"},
        {by_hand("asm(\".section .both,\\\"awx\\\"\\n.zero 64\\n.text\");" + scale, {"k"}),
         "writable and executable"},
#if defined(__x86_64__) && !defined(__clang__)
        {from_file("cheats/runs_code_while_it_is_loaded.cpp"), "not those that the loader applies"},
        {from_file("cheats/patches_libc_while_it_is_loaded.cpp"), "writes outside of the object's data"},
        // Relocations, a symbol and entries of the dynamic section, as raw bytes.
        {by_hand("asm(\".section .rela.got,\\\"a\\\"\\n.quad 0x3ff8, 37, 0x1000\\n.text\");" + scale, {"k"}),
         "indirect functions"},
        {by_hand("asm(\".section .rela.got,\\\"a\\\"\\n.quad 0x3ff8, 0x900000006, 0\\n.text\");" + scale,
                 {"k"}),
         "beyond the symbol table"},
        {by_hand("asm(\".section .dynsym,\\\"a\\\"\\n.quad 0x1000a00000000, 0x1000, 8\\n.text\");" + scale,
                 {"k"}),
         "not those that the loader reads"},
        {by_hand("asm(\".section .dynamic,\\\"aw\\\"\\n.quad 0, 0\\n.text\");" + scale, {"k"}),
         "goes on after its end"},
        {by_hand("asm(\".section .dynamic,\\\"aw\\\"\\n.quad 0x1e, 8\\n.text\");" + scale, {"k"}),
         "two entries of one kind"},
        {by_hand("asm(\".section .dynamic,\\\"aw\\\"\\n.quad 0x6ffffef9, 8\\n.text\");" + scale, {"k"}),
         "an entry for the loader that no kernel needs"},
        {by_hand("static void one() {} extern \"C\" void (*pick())() { return one; }\n"
                 "extern \"C\" void late() __attribute__((ifunc(\"pick\")));\n" +
                     scale,
                 {"k"}),
         "indirect functions"},
#endif
        {by_hand("#include <cstdio>\nextern \"C\" void k() { std::puts(\"hello\"); }", {"k"}), "calls puts"},
        {by_hand("extern \"C\" int pthread_create(...); extern \"C\" void k() { pthread_create(); }", {"k"}),
         "calls pthread_create"},
        {by_hand("namespace a { void k() {} }", {"k"}), "kernel 'k'"},
  };
  for (const auto& [variant, words] : cases) {
    const auto failure = failure_of(variant);
    BOOST_TEST((failure.stage == Stage::screen), failure.reason << failure.diagnostics);
    BOOST_TEST(failure.reason.find(words) != std::string::npos, words << ": " << failure.reason);
    BOOST_TEST(!failure.diagnostics.empty());
  }
}

BOOST_AUTO_TEST_CASE(what_kernels_need_passes_the_screen) {
  compiled(by_hand(R"(#include <algorithm>
    #include <cmath>
    #include <cstdlib>
    #include <cstring>
    #include <vector>
    static const float table[] = {1, 2, 3};
    static const char* const names[] = {"a", "b"};
    extern "C" void k(float* y, int n) {
      std::vector<float> copy(y, y + n);
      std::sort(copy.begin(), copy.end());
      float* more = (float*)std::aligned_alloc(64, 4096);
      std::memcpy(more, copy.data(), 16);
      float s, c;
      sincosf(more[0], &s, &c);
      y[0] = std::exp(s) + std::pow(c, 3.5f) + table[n % 3] + (float)names[n % 2][0] + (float)std::erf((double)s);
      std::free(more);
    })",
                   {"k"}));
}

BOOST_AUTO_TEST_CASE(a_call_of_the_compiler_that_somebody_killed_is_repeated_but_not_for_ever) {
  const FreshCache cache;
  const fs::path script = cache.folder / "compiler", calls = cache.folder / "calls";
  const std::string real = find_program("c++").string();
  fs::create_directories(cache.folder);
  const auto kill_calls = [&](int last) {
    std::ofstream(script) << "#!/bin/sh\necho >> '" << calls.string() << "'\n[ $(wc -l < '" << calls.string()
                          << "') -gt " << last << " ] || kill -KILL $$\nexec '" << real << "' \"$@\"\n";
    fs::permissions(script, fs::perms::owner_all);
    fs::remove(calls);
  };
  const auto identity = [&](const fs::path& program) {
    return CpuCompiler({.cache = cache.folder, .program = program.string()}).info().identity;
  };
  kill_calls(1);
  BOOST_TEST(identity(script) == identity(real));
  BOOST_TEST(fs::file_size(calls) == 4u);  // one more than a compiler is asked
  kill_calls(1000);
  BOOST_CHECK_THROW(identity(script), MissingError);
  BOOST_TEST(fs::file_size(calls) == 3u);
}

BOOST_AUTO_TEST_CASE(a_missing_compiler_is_said_at_once) {
  const FreshCache cache;
  BOOST_CHECK_THROW(CpuCompiler({.cache = cache.folder, .program = "no-such-compiler"}), MissingError);
}

// As a task's variant gives them: "softmax" of `R` rows.
BOOST_AUTO_TEST_CASE(arguments_that_do_not_match_the_parameters_are_refused_with_both) {
  const auto with = [](const std::string& source, std::vector<ArgumentSpec> args) {
    Variant variant = by_hand(source, {"k"});
    variant.manifest.launch[0].args = std::move(args);
    variant.manifest.workspace = {{"scratch", Expression::parse("64").value(), false}};
    return variant;
  };
  const std::string body = "{ for (int i = 0; i < n; ++i) y[i] *= s; (void)t; }\n";
  const std::string right = "extern \"C\" void k(float* y, float* t, int n, float s) " + body;
  const std::vector<ArgumentSpec> args{{"y", {}}, {"scratch", {}}, {"R", {}}, {"1.0 / R", Dtype::f32}};
  BOOST_TEST(compiler().compile(with(right, args), {}, 60.0).has_value());

  const CompileFailure few = failure_of(with(right, {args[0], args[1], args[2]}));
  BOOST_TEST(few.reason ==
             "kernel 'k' has 4 parameters (float*, float*, int, float), but the manifest gives 3 arguments");
  BOOST_TEST((few.stage == Stage::compile));
  BOOST_TEST(few.diagnostics.find("one argument per parameter, in order") != std::string::npos);
  const CompileFailure many = failure_of(with(right, {args[0], args[1], args[2], args[3], args[2]}));
  BOOST_TEST(many.reason ==
             "kernel 'k' has 4 parameters (float*, float*, int, float), but the manifest gives 5 arguments");

  BOOST_TEST(failure_of(with("extern \"C\" void k(float* y, int t, int n, float s) " + body, args)).reason ==
             "parameter 2 of kernel 'k' does not take its argument 'scratch', which is a pointer");
  BOOST_TEST(
      failure_of(with("extern \"C\" void k(float* y, float* t, int n, double s) " + body, args)).reason ==
      "parameter 4 of kernel 'k' does not take its argument '1.0 / R', which has the type f32");
  BOOST_TEST(failure_of(with("extern \"C\" void k(float* y, float* t, float n, float s) " + body,
                             {args[0], args[1], {"thread", {}}, args[3]}))
                 .reason ==
             "parameter 3 of kernel 'k' does not take its argument 'thread', which has the type i32");
}

// What the checks cannot name, a message about something else, and macros with common names.
BOOST_AUTO_TEST_CASE(the_check_of_arguments_refuses_nothing_else) {
  Variant variant = by_hand(
      "#define R 4\n#define T 2\n#define type int\n#define value 3\n#define nth 1\n"
      "extern \"C\" void k(float* y, int n) noexcept { y[n] = R * T; }  // \\",
      {"k"});
  variant.manifest.launch[0].args = {{"y", {}}, {"thread", {}}};
  BOOST_TEST(compiler().compile(variant, {}, 60.0).has_value());
  Variant inside = by_hand("namespace some { extern \"C\" void k(float* y) { y[0] = 1.0f; } }\n", {"k"});
  inside.manifest.launch[0].args = {{"y", {}}};
  BOOST_TEST(compiler().compile(inside, {}, 60.0).has_value());
  Variant wrong = by_hand("extern \"C\" void k(float* y) { y[0] = missing; }\n", {"k"});
  wrong.manifest.launch[0].args = {{"y", {}}, {"y", {}}};
  const CompileFailure failure = failure_of(wrong);
  BOOST_TEST(failure.reason.find("was not declared") != std::string::npos, failure.reason);
  BOOST_TEST(failure.diagnostics.find("launch:") == std::string::npos, failure.diagnostics);
}

BOOST_AUTO_TEST_SUITE_END()

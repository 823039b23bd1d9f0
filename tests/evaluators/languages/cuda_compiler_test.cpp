// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "support/contains.hpp"
#include "support/cuda_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cuda_test;
using cultivar::testing::contains;

namespace {

const std::string scale = "extern \"C\" __global__ void k(float* y, int n) { y[threadIdx.x + n] *= 3.0f; }\n";

Variant two_arguments(const std::string& source, const std::string& name = "k") {
  return by_hand(source, {name}, {{"y", std::nullopt}, {"n", std::nullopt}});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_compiler, *needs_nvrtc())

BOOST_AUTO_TEST_CASE(hopper_kernels_compile_to_machine_code_and_say_what_they_need) {
  const Binary wgmma = compiled(kernel("wgmma_tma.cu"));
  BOOST_TEST(wgmma.path.extension() == ".cubin");
  for (const auto* reported : {&wgmma.resources.values, &wgmma.resources.shares})
    for (const auto& [name, value] : *reported)
      BOOST_TEST(std::ranges::count(target_named("cuda")->reported, name) == 1, name);
  BOOST_TEST(wgmma.resources.values.at("registers") == 240);
  BOOST_TEST(wgmma.resources.values.at("spill_bytes") == 0);
  BOOST_TEST(wgmma.resources.values.at("shared_bytes") == 64);
  BOOST_TEST(wgmma.resources.values.at("barriers") == 1);
  BOOST_TEST(wgmma.resources.values.at("text_bytes") > 1000);
  BOOST_TEST(contains(wgmma.log, "Used 240 registers"));
  BOOST_TEST(!contains(wgmma.log, "Compile time"));
  BOOST_TEST(cubin_of(wgmma).architecture == 90);

  const Binary mma = compiled(kernel("mma_sync.cu"));
  BOOST_TEST(mma.resources.values.at("shared_bytes") == 2 * 32 * 72 * 2);
  BOOST_TEST(mma.resources.values.at("registers") > 20);
  BOOST_TEST(compiled(kernel("cluster_sum.cu")).resources.values.at("shared_bytes") == 9 * 4);
  BOOST_TEST(compiled(kernel("two_kernels.cu")).resources.values.at("stack_bytes") >= 28);  // of sin
}

BOOST_AUTO_TEST_CASE(the_example_of_the_readme_compiles_for_every_dtype_it_claims) {
  const std::string readme = text_of(source_folder / "evaluators/README.md");
  const std::size_t begin = readme.find("```cpp\n", readme.find("## A cuda variant")) + 7;
  const Variant variant = variant_of(readme.substr(begin, readme.find("```\n", begin) - begin));
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    const Workload w{"w", dtype, {{"R", 4}, {"C", 100}}};
    const auto binary = compiler().compile(variant, macros(variant, task_named("softmax"), w), 60.0);
    BOOST_TEST(binary.has_value(), (binary ? "" : binary.error().diagnostics));
  }
}

BOOST_AUTO_TEST_CASE(the_toolkits_device_headers_are_found_and_their_tables_pass_the_screen) {
  if (toolkit()->includes.size() < 2) return;  // no cccl in this toolkit
  Variant variant = two_arguments(R"(#include <cooperative_groups.h>
    #include <cuda/barrier>
    #include <cuda/ptx>
    #include <cuda/std/limits>
    #include <cuda_fp8.h>
    #include <mma.h>
    extern "C" __global__ void k(float* y, int n) {
      cooperative_groups::grid_group all = cooperative_groups::this_grid();
      all.sync();
      __shared__ cuda::barrier<cuda::thread_scope_block> arrived;
      if (threadIdx.x == 0) init(&arrived, blockDim.x);
      __syncthreads();
      const auto token = arrived.arrive();
      // Not arrived.wait(), which reads the clock for its back-off.
      while (!cuda::ptx::mbarrier_try_wait(cuda::device::barrier_native_handle(arrived), token)) {
      }
      y[n] = cuda::std::numeric_limits<float>::infinity() + all.size();
    })");
  variant.manifest.launch[0].keys["cooperative"] = {Expression::constant(1)};
  compiled(variant);
}

BOOST_AUTO_TEST_CASE(no_kernel_knows_when_it_was_compiled) {
  compiled(two_arguments(
      "#define JOINED(a, b) a##b\n"
      "static_assert(JOINED(__DA, TE__)[7] == '1' && JOINED(__DA, TE__)[9] == '7', \"the date of now\");\n" +
      scale));
}

BOOST_AUTO_TEST_CASE(a_variant_is_compiled_once_and_then_comes_from_the_cache) {
  const FreshCache cache("cuda-cache");
  CudaCompiler fresh(options(cache.folder));
  const Binary first = compiled(two_arguments(scale), fresh), second = compiled(two_arguments(scale), fresh);
  BOOST_TEST(fresh.compilations() == 1u);
  BOOST_TEST(first.path == second.path);
  BOOST_TEST(first.machine_code == second.machine_code);
  BOOST_TEST((first.resources.values == second.resources.values));
  CudaCompiler another(options(cache.folder));  // another process, another day
  compiled(two_arguments(scale), another);
  BOOST_TEST(another.compilations() == 0u);

  std::ofstream(first.path, std::ios::app) << "damage";
  compiled(two_arguments(scale), fresh);
  BOOST_TEST(fresh.compilations() == 2u);
  BOOST_TEST(fs::is_empty(cache.folder / "tmp"));
}

BOOST_AUTO_TEST_CASE(several_compile_at_once) {
  const FreshCache cache("cuda-threads");
  CudaCompiler fresh(options(cache.folder));
  std::vector<std::string> hashes(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < hashes.size(); ++i)
    threads.emplace_back([&, i] {
      const auto binary = fresh.compile(two_arguments("// " + std::to_string(i) + "\n" + scale), {}, 60.0);
      hashes[i] = binary ? binary->machine_code : binary.error().diagnostics;
    });
  for (std::thread& thread : threads) thread.join();
  BOOST_TEST(fresh.compilations() == 4u);
  for (const std::string& hash : hashes) BOOST_TEST(hash == compiled(two_arguments(scale)).machine_code);
}

BOOST_AUTO_TEST_CASE(comments_lines_and_names_do_not_change_the_machine_code_but_constants_and_macros_do) {
  const auto code = [](const Variant& variant, const std::vector<std::string>& with = {}) {
    const auto binary = compiler().compile(variant, with, 60.0);
    BOOST_REQUIRE_MESSAGE(binary, (binary ? "" : binary.error().diagnostics));
    return binary->machine_code;
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string source = scale;
    return source.replace(source.find(from), from.size(), to);
  };
  const std::string plain = code(two_arguments(scale));
  BOOST_TEST(plain == code(two_arguments("// another\n\n\n" + scale + "/* and more */")));
  BOOST_TEST(plain == code(two_arguments(with("void k", "void quite_another_name"), "quite_another_name")));
  BOOST_TEST(plain != code(two_arguments(with("3.0f", "5.0f"))));
  BOOST_TEST(plain != code(two_arguments(with("void k", "void __launch_bounds__(64) k"))));
  const std::string table =
      "__constant__ float t[2] = {1.0f, LAST};\n"
      "extern \"C\" __global__ void k(float* y, int n) { y[0] = t[n]; }\n";
  BOOST_TEST(code(two_arguments(table), {"LAST=2.0f"}) != code(two_arguments(table), {"LAST=3.0f"}));
  BOOST_TEST(code(two_arguments(table), {"LAST=2.0f"}) ==
             code(two_arguments(table), {"LAST=2.0f", "UNUSED=1"}));
}

BOOST_AUTO_TEST_CASE(kernels_of_a_plan_are_hashed_in_its_order) {
  const std::string both =
      "extern \"C\" __global__ void a(float* y, int n) { y[n] = 1.0f; }\n"
      "extern \"C\" __global__ void b(float* y, int n) { y[n] = 2.0f; }\n";
  const std::vector<ArgumentSpec> args{{"y", std::nullopt}, {"n", std::nullopt}};
  BOOST_TEST(compiled(by_hand(both, {"a", "b"}, args)).machine_code !=
             compiled(by_hand(both, {"b", "a"}, args)).machine_code);
}

BOOST_AUTO_TEST_CASE(errors_name_the_line_of_the_variant_and_no_folder) {
  const auto failure =
      failure_of(two_arguments("\n\nextern \"C\" __global__ void k(float* y, int n) { y[n] = z; }\n"));
  BOOST_TEST((failure.stage == Stage::compile));
  BOOST_TEST(failure.reason.starts_with("variant.cu(3): error:"), failure.reason);
  BOOST_TEST(!contains(failure.diagnostics, cache_folder.string()));
}

BOOST_AUTO_TEST_CASE(a_macro_that_breaks_the_toolkits_headers_is_named_with_the_remedy) {
  const auto reason = [](const std::string& source, const std::string& macro) {
    const auto binary = compiler().compile(two_arguments(source), {"BLOCK=64", macro}, 60.0);
    BOOST_REQUIRE(!binary);
    BOOST_TEST((binary.error().stage == Stage::compile));
    const bool remedy = contains(binary.error().diagnostics, "from `specialize` and pass it as an argument");
    BOOST_TEST(remedy == binary.error().reason.starts_with("the macro "), binary.error().diagnostics);
    return binary.error().reason;
  };
  for (const std::string name : {"T", "a", "x", "v"})
    BOOST_TEST(contains(reason(scale, name + "=64"),
                        "the macro " + name + " collides with a name in NVRTC's headers"),
               name);
  BOOST_TEST(contains(reason("#include <cuda_fp8.h>\n" + scale, "hi=3"), "the macro hi collides"));
  // A macro in a line of the variant's own source is not a collision, nor is another error.
  BOOST_TEST(contains(reason("int OWN = 1;\n" + scale, "OWN=3"), "variant.cu(1): error"));
  BOOST_TEST(contains(reason("int y = OWN\n" + scale, "OWN=3"), "variant.cu("));
}

BOOST_AUTO_TEST_CASE(a_byte_order_mark_before_a_source_is_no_part_of_it) {
  const std::string text = text_of(kernel_folder / "honest_softmax.cu");
  const Variant plain = variant_of(text), marked = variant_of("\xef\xbb\xbf" + text);
  BOOST_TEST(plain.id == marked.id);
  BOOST_TEST(marked.source == plain.source);
  BOOST_TEST(compiled(marked).machine_code == compiled(plain).machine_code);
}

BOOST_AUTO_TEST_CASE(what_ptxas_refuses_comes_with_its_line_and_the_line_of_the_source) {
  const auto failure = failure_of(kernel("refused/bad_instruction.cu"));
  BOOST_TEST((failure.stage == Stage::compile));
  BOOST_TEST(contains(failure.reason, "Not a name of any known instruction: 'madd'"), failure.reason);
  BOOST_TEST(contains(failure.diagnostics, "madd.f32 %f"), failure.diagnostics);
  BOOST_TEST(contains(failure.diagnostics, "// variant.cu(15)"), failure.diagnostics);
}

BOOST_AUTO_TEST_CASE(a_compile_bomb_is_stopped_at_the_deadline) {
  const auto start = std::chrono::steady_clock::now();
  const auto failure = failure_of(kernel("refused/compile_bomb.cu"), 2.0);
  BOOST_TEST((std::chrono::steady_clock::now() - start < std::chrono::seconds(20)));
  BOOST_TEST((failure.stage == Stage::compile));
  BOOST_TEST((contains(failure.reason, "did not finish within 2 s") ||
              contains(failure.reason, "crashed on this source")),
             failure.reason);
}

BOOST_AUTO_TEST_CASE(compilers_see_no_files_of_the_user_whatever_walls_there_are) {
  using Walls = CudaCompilerOptions::Walls;
  for (const Walls walls : {Walls::bubblewrap, Walls::landlock, Walls::none}) {
    const FreshCache cache("cuda-walls");
    CudaCompilerOptions behind = options(cache.folder);
    behind.best_walls = walls;
    CudaCompiler walled(behind);
    const bool by_text = contains(walled.info().isolation, "no Landlock");
    BOOST_TEST(by_text == contains(walled.info().isolation, "can read this user's files"),
               walled.info().isolation);
    const Variant thief = kernel("refused/reads_a_secret_while_compiling.cu");
    const auto binary = walled.compile(thief, macros_for(thief), 60.0);
    BOOST_REQUIRE(!binary);
    BOOST_TEST((binary.error().stage == (by_text ? Stage::screen : Stage::compile)), binary.error().reason);
    BOOST_TEST(contains(binary.error().reason, by_text ? "may not be read here" : "cannot open source file"),
               binary.error().reason);
    BOOST_TEST(!contains(binary.error().diagnostics, "root:"));
    const Variant honest = kernel("mma_sync.cu");
    const auto good = walled.compile(honest, macros_for(honest), 60.0);
    BOOST_TEST(good.has_value(), (good ? "" : good.error().reason + "\n" + good.error().diagnostics));
  }
}

// Line tables name the folder in which NVRTC ran, and exports may be published.
BOOST_AUTO_TEST_CASE(machine_code_is_the_same_file_whatever_walls_there_are) {
  std::vector<std::string> files;
  for (const auto walls : {CudaCompilerOptions::Walls::bubblewrap, CudaCompilerOptions::Walls::none}) {
    const FreshCache cache("cuda-cubin-folder");
    CudaCompilerOptions o = options(cache.folder);
    o.best_walls = walls;
    CudaCompiler fresh(o);
    files.push_back(text_of(compiled(two_arguments(scale), fresh).path));
    BOOST_TEST(!contains(files.back(), cache.folder.string()));
  }
  BOOST_TEST((files[0] == files[1]));
}

BOOST_AUTO_TEST_CASE(a_flood_of_messages_is_cut) {
  std::string source;
  for (int i = 0; i < 3000; ++i) source += "int a" + std::to_string(i) + " = nonsense_with_a_long_name;\n";
  const auto diagnostics = failure_of(two_arguments(source)).diagnostics;
  BOOST_TEST(diagnostics.size() < 40000u);
  BOOST_TEST(contains(diagnostics, "variant.cu(1): error"));  // the first errors are the ones that help
}

BOOST_AUTO_TEST_CASE(other_architectures_compile_and_are_other_compilers) {
  const FreshCache cache("cuda-architecture");
  CudaCompilerOptions old = options(cache.folder);
  old.architecture = "sm_80";
  CudaCompiler ampere(old);
  BOOST_TEST(cubin_of(compiled(two_arguments(scale), ampere)).architecture == 80);
  BOOST_TEST(ampere.info().identity != compiler().info().identity);
  BOOST_TEST(contains(compiler().info().identity, "NVRTC " + toolkit()->version()));
  BOOST_TEST(contains(compiler().info().identity, "sm_90a"));
  const auto failure = ampere.compile(kernel("wgmma_tma.cu"), macros_for(kernel("wgmma_tma.cu")), 60.0);
  BOOST_TEST(!failure.has_value());

  old.architecture = "sm_12345";
  BOOST_CHECK_EXCEPTION(CudaCompiler{old}, MissingError, [](const MissingError& e) {
    return contains(e.what(), "does not support 'sm_12345'");
  });
}

BOOST_AUTO_TEST_SUITE_END()

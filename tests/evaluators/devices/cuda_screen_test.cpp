// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/screen.hpp"

#include "support/contains.hpp"
#include "support/cuda_kernels.hpp"

using namespace cultivar;
using namespace cultivar::cuda_test;
using cultivar::testing::contains;

namespace {

struct Refusal {
  const char* file;
  const char* reason;
  const char* remedy;
};

// A kernel of no arguments besides y and n that must pass or be refused.
Variant small(const std::string& source) {
  return by_hand(source, {"k"}, {{"y", std::nullopt}, {"n", std::nullopt}});
}
const std::string head = "extern \"C\" __global__ void k(float* y, int n) ";

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_screen, *needs_nvrtc())

BOOST_AUTO_TEST_CASE(each_kind_of_forbidden_kernel_is_refused_with_a_reason_and_a_remedy) {
  for (const auto& [file, reason, remedy] : std::vector<Refusal>{
           {"writable_global", "variables that it may write: runs", "workspace"},
           {"static_in_a_function", "variables that it may write: ", "workspace"},
           {"hidden_in_assembly", "variables that it may write: ", "workspace"},
           {"writes_constants", "variables that it may write: state", "workspace"},
           {"casts_const_away", "variables that it may write: table", "workspace"},
           {"writes_without_a_blank", "table (line 17: its address goes into 'st.global.u32')",
            "inline assembly"},
           {"writes_behind_a_comment", "table (line 17: its address goes into 'st.global.u32')", "workspace"},
           {"writes_behind_a_commented_predicate", "table (line 17: its address goes into 'st.global.u32')",
            "ld"},
           {"writes_by_a_bulk_copy", "its address goes into 'cp.async.bulk.global.shared::cta.bulk_group'",
            "cp"},
           {"writes_in_a_function", "table (line 15: its address goes into 'st.global.u32')", "not inlined"},
           {"launders_an_address_by_loads", "that it may write: table (", "masked"},
           {"launders_an_address_by_predicates", "table (", "compared"},
           {"launders_an_address_by_branches", "table (", "compared"},
           {"writes_its_own_code", "takes the address of a function (softmax)", "functions by name"},
           {"calls_what_it_copied", "calls a function by its address (line ", "resolve or inline every call"},
           {"calls_an_address_by_assembly", "calls a function by its address (line ", "functions by name"},
           {"keeps_functions_in_a_table", "takes the address of a function (one(float))",
            "functions by name"},
           {"keeps_functions_in_constants", "takes the address of a function (one(float))",
            "functions by name"},
           {"writes_constants_by_number",
            "variables that it may write: constant memory (line 17: 'cvta.const.u64' of a value that is "
            "not the address of a variable",
            "workspace"},
           {"writes_behind_the_grid_barrier", "than the grid barrier (line 19: 'ld.volatile.u32')",
            "this_grid().sync()"},
           {"reads_constants_by_number",
            "constant memory (line 19: 'ld.const.u32' at an address that is not a variable's", "workspace"},
           {"discards_what_the_cache_holds", "discards cached memory (line 19: 'discard.global.L2')",
            "Remove it"},
           {"reads_memory_as_a_device",
            "accesses memory as a device's registers (line 17: 'ld.mmio.relaxed.sys.global.u32')",
            "ld.relaxed"},
           {"reads_around_its_parameters", "reaches beyond its parameters (line ", "tensor map"},
           {"reads_behind_its_parameters", "reaches beyond its parameters (line 20: 'add.s64')",
            "by its name"},
           {"reads_past_its_last_parameter", "reaches beyond its parameters (line 17: 'ld.param.u32')",
            "by its name"},
           {"reads_parameters_by_number", "reaches beyond its parameters (line 17: 'ld.param.u32')",
            "by its name"},
           {"writes_its_parameters", "reaches beyond its parameters (line ", "stores"},
           {"hands_a_parameter_to_a_function", "reaches beyond its parameters (line ", "not inlined"},
           {"has_the_name_of_a_judges_kernel", "name 'cultivar_stamp' begins with 'cultivar_'",
            "another one"},
           {"reads_the_clock", "reads a clock (%clock64)", "clock64()"},
           {"reads_the_global_timer", "reads a clock (%globaltimer)", "%globaltimer"},
           {"device_malloc", "allocates memory on the device", "workspace"},
           {"prints", "printf", "Remove it"},
           {"child_launch", "launches kernels from the device", "`launch`"},
           {"calls_the_device_runtime", "launches kernels from the device", "`launch`"},
           {"calls_what_is_not_there", "calls elsewhere", "define it"},
           {"spills", "spills registers", "smaller tiles"},
           {"serialised_wgmma", "wgmma is serialized by ptxas (C75", "accumulators"},
           {"ignored_setmaxnreg", "setmaxnreg is ignored by ptxas (C7508)", "__launch_bounds__(threads, 1)"},
           {"missing_kernel", "the source does not define kernel 'softmax' of the manifest",
            "extern \"C\" __global__"},
           {"one_argument_too_few", "has 4 parameters, but the manifest gives 3", "`args`"}}) {
    const CompileFailure failure = failure_of(kernel(std::string("refused/") + file + ".cu"));
    BOOST_TEST((failure.stage == Stage::screen), file << ": " << failure.reason << "\n"
                                                      << failure.diagnostics);
    BOOST_TEST(contains(failure.reason, reason), file << ": " << failure.reason);
    BOOST_TEST(contains(failure.diagnostics, remedy), file << ": " << failure.diagnostics);
  }
}

BOOST_AUTO_TEST_CASE(an_instruction_behind_a_line_directive_does_not_pass) {
  // ptxas may refuse it as well: either way it does not run.
  const CompileFailure failure = failure_of(kernel("refused/hides_behind_a_line_directive.cu"));
  BOOST_TEST((failure.stage == Stage::screen || failure.stage == Stage::compile), failure.reason);
}

BOOST_AUTO_TEST_CASE(what_only_a_card_can_judge_passes) {
  for (const char* file : {"remembers_in_a_mapped_workspace", "searches_memory_by_a_map"})
    compiled(kernel(std::string("cheats/") + file + ".cu"));
  const Task task = load_task(source_folder / "tests/kernels/format/declared_precision");
  const Workload workload{"w", Dtype::f32, {{"M", 64}, {"N", 64}, {"K", 64}, {"tf32", 1}}};
  for (const char* file :
       {"honest_precision", "takes_tf32_unasked", "takes_bf16_for_tf32", "flushes_small_fp8"}) {
    const Variant variant = load_variant(kernel_folder / "precision" / (std::string(file) + ".cu"), task);
    const auto binary = compiler().compile(variant, macros(variant, task, workload), 60.0);
    BOOST_TEST(binary.has_value(), (binary ? "" : binary.error().reason + binary.error().diagnostics));
  }
}

BOOST_AUTO_TEST_CASE(what_honest_kernels_need_passes) {
  for (const char* file : {"wgmma_tma.cu", "mma_sync.cu", "cluster_sum.cu", "two_kernels.cu"})
    compiled(kernel(file));
  // Tables: constexpr, const and static ones, indexed at run time; the slow path of sin has one of its own.
  compiled(small(
      "constexpr float t[5] = {1, 2, 3, 4, 5};\n" + head +
      "{ static const int s[3] = {2, 0, 1}; y[n] = sinf(y[0]) * s[n % 3]; y[1] = cos((double)y[2]); }"));
  compiled(small("__device__ const float t[3] = {1, 2, 3};\n" + head +
                 "{ const float* p = n > 2 ? t : t + 1; for (int i = 0; i < n; ++i) y[i] = p[i % 2]; }"));
  // Atomics and copies whose source is a table.
  compiled(small("__device__ const int t[4] = {1, 2, 3, 4};\n" + head +
                 "{ __shared__ alignas(16) int s[4];\n"
                 "asm volatile(\"cp.async.ca.shared.global [%0], [%1], 16;\" ::\"r\"((unsigned)"
                 "__cvta_generic_to_shared(s)), \"l\"(t) : \"memory\");\n"
                 "atomicAdd(y + n, 1.0f * t[n & 3] * s[0]); }"));
}

BOOST_AUTO_TEST_CASE(parameters_are_read_by_their_names_and_maps_by_the_copies_that_take_them) {
  const std::string map = "struct alignas(64) Map { unsigned long long opaque[16]; };\n";
  const std::string maps = map +
                           "extern \"C\" __global__ void k(float* y, const __grid_constant__ Map a, const "
                           "__grid_constant__ Map b) ";
  const auto two_maps = [&](const std::string& body) {
    Variant variant =
        by_hand(maps + body, {"k"}, {{"y", std::nullopt}, {"a", std::nullopt}, {"b", std::nullopt}});
    for (const char* name : {"a", "b"}) variant.manifest.tensor_maps.emplace_back().name = name;
    return variant;
  };
  const std::string prefetch = "asm volatile(\"prefetch.tensormap [%0];\" :: \"l\"(m) : \"memory\");";
  const std::string copy =
      "__shared__ alignas(128) float s[64]; __shared__ alignas(8) unsigned long long bar;\n"
      "asm volatile(\"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%3, %4}], "
      "[%2];\" :: \"r\"((unsigned)__cvta_generic_to_shared(s)), \"l\"(m), "
      "\"r\"((unsigned)__cvta_generic_to_shared(&bar)), \"r\"(0), \"r\"(0) : \"memory\"); y[0] = s[3];";
  const std::string store =
      "__shared__ alignas(128) float s[64]; asm "
      "volatile(\"cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, "
      "{%2, %3}], [%1];\" :: \"l\"(m), \"r\"((unsigned)__cvta_generic_to_shared(s)), \"r\"(0), \"r\"(0) : "
      "\"memory\");";
  for (const std::string& body :
       {"{ const Map* m = &a; " + prefetch + copy + "}",
        "{ const Map* m = y[0] > 0 ? &a : &b; " + prefetch + copy + "}",
        "{ const Map* m = &b; " + store + "}",
        "{ const Map* m = &a; for (int i = 0; i < (int)y[1]; ++i) { " + prefetch +
            " m = i % 3 ? &a : &b; } }",
        std::string("{ y[0] = a.opaque[3] + b.opaque[15]; y[1] = (reinterpret_cast<const int*>(&a))[5]; }")})
    compiled(two_maps(body));
  // A structure's members, a value that is copied to an array, and a function with parameters of its own.
  compiled(small(map + "__device__ __noinline__ float g(float4 v, int n) { return n > 1 ? v.x : v.w; }\n" +
                 head + "{ y[n] = g(make_float4(1, 2, 3, n), n); }"));
  for (const char* body :
       {"{ y[threadIdx.x] = a.opaque[threadIdx.x]; }", "{ *(const Map**)(y + 2) = &a; }",
        "{ y[0] = (unsigned long long)&a > (unsigned long long)y; }",
        "{ y[0] = (reinterpret_cast<const int*>(&a))[37]; }",
        "{ y[0] = (reinterpret_cast<const int*>(&a))[-1]; }",
        "{ *const_cast<volatile unsigned long long*>(&a.opaque[1]) = 5; }",
        "{ asm volatile(\"{ .reg .b64 t; mov.b64 t, k_param_1; cvta.param.u64 t, t; st.u32 [t], 7; }\"); }",
        "{ unsigned v; asm volatile(\"{ .reg .b64 t; cvta.param.u64 t, %1; ld.u32 %0, [t]; }\" : \"=r\"(v) : "
        "\"l\"(4096ull)); y[0] = v; }",
        "{ unsigned v, w; asm volatile(\"{ .reg .b64 t; mov.b64 t, k_param_1; mov.b64 {%0, %1}, t; }\" : "
        "\"=r\"(v), "
        "\"=r\"(w)); y[v & 3] = w; }",
        "{ unsigned long long v; asm volatile(\"mov.b64 %0, k_param_1+4096;\" : \"=l\"(v)); y[0] = v; }",
        "{ asm volatile(\"{ .reg .b32 t; mov.b32 t, k_param_1; nanosleep.u32 t; }\"); }",
        "{ unsigned v; asm volatile(\"ld.param.u32 %0, [k_param_2+126];\" : \"=r\"(v)); y[0] = v; }",
        "{ unsigned v; asm volatile(\"{ .reg .b64 k_param_9; mov.b64 k_param_9, 4096; ld.param::entry.u32 "
        "%0, "
        "[k_param_9]; }\" : \"=r\"(v)); y[0] = v; }",
        "{ unsigned v; asm volatile(\"{ .reg .b64 q; mov.b64 q, 64; { .param .b32 q; } ld.param.u32 %0, [q]; "
        "}\" : "
        "\"=r\"(v)); y[0] = v; }"}) {
    const auto refused = compiler().compile(two_maps(body), {}, 60.0);
    BOOST_TEST(!refused, body);
    if (refused) continue;
    if (refused.error().stage == Stage::compile && contains(body, "asm volatile")) {
      BOOST_TEST_MESSAGE("ptxas refuses it first: " << body);
      continue;
    }
    BOOST_TEST((refused.error().stage == Stage::screen),
               body << refused.error().reason << refused.error().diagnostics);
    BOOST_TEST(contains(refused.error().reason, "beyond its parameters"), body << refused.error().reason);
  }
}

BOOST_AUTO_TEST_CASE(what_the_gpu_tests_try_on_a_card_gets_there) {
  // tests/gpu judges these on a card: a cheat that a compiler refuses would prove nothing there.
  std::size_t count = 0;
  for (const char* folder : {"cheats", "hostile"})
    for (const auto& entry : fs::directory_iterator(kernel_folder / folder)) {
      const std::string file = std::string(folder) + "/" + entry.path().filename().string();
      if (entry.path().extension() != ".cu" || file == "cheats/remembers_in_a_global.cu" ||
          file == "cheats/launch_fails_beside_a_right_output.cu")
        continue;
      const Variant variant = kernel(file);
      const auto binary = compiler().compile(variant, macros_for(variant), 60.0);
      BOOST_TEST(binary.has_value(),
                 file << ": " << (binary ? "" : binary.error().reason + binary.error().diagnostics));
      ++count;
    }
  for (const char* file :
       {"honest_overlap.cu", "honest_rows.cu", "honest_bulk_stores.cu", "honest_softmax.cu"})
    compiled(kernel(file));
  BOOST_TEST(count == 51U);
  for (const auto& entry : fs::directory_iterator(kernel_folder / "probes")) {
    FreshCache cache("cuda-probe");
    CudaCompilerOptions trusting = options(cache.folder);
    trusting.trusted = true;
    CudaCompiler trusted(trusting);
    compiled(by_hand(text_of(entry.path()) + "\nextern \"C\" __global__ void nothing() {}\n", {"nothing"}),
             trusted);
  }
}

BOOST_AUTO_TEST_CASE(no_clock_passes_wherever_its_name_is_put_together_and_whatever_file_its_line_is_of) {
  const auto refused = [](const std::string& source, const std::string& register_name) {
    const CompileFailure failure = failure_of(small(source));
    BOOST_TEST((failure.stage == Stage::screen), source << failure.reason << failure.diagnostics);
    BOOST_TEST(failure.reason == "the kernel reads a clock (%" + register_name + ")", source);
    BOOST_TEST(contains(failure.diagnostics, "mbarrier.try_wait"));
  };
  const std::string timer =
      head + "{ unsigned long long t;\nasm(\"mov.u64 %0, %global\" \"timer;\" : \"=l\"(t)); y[n] = t; }\n";
  for (const char* named :
       {"#line 1 \"foo.h\"", "# 1 \"foo.h\"", "# line 1 \"foo.h\"", "#/**/line 1 \"foo.h\"",
        "#\tline 1 \"foo.h\"", "#li\\\nne 1 \"foo.h\"", "%:line 1 \"foo.h\"", ""})
    refused(std::string(named) + "\n" + timer, "globaltimer");
  refused(head + "{ unsigned t; asm volatile(\"mov.u32 %0, %%globaltimer_hi;\" : \"=r\"(t)); y[n] = t; }",
          "globaltimer_hi");
  refused(head + "{ unsigned t; asm volatile(\"mov.u32 %0, %%clock_hi;\" : \"=r\"(t)); y[n] = t; }",
          "clock_hi");
  refused(head + "{ unsigned t; asm volatile(\"mov.u32 %0, %%pm3;\" : \"=r\"(t)); y[n] = t; }", "pm3");
  if (toolkit()->includes.size() < 2) return;  // no cccl in this toolkit
  const std::string pasted = "#define PASTED(a, b) a##b\n#define OF(a, b) PASTED(a, b)\n";
  refused("#include <cuda/ptx>\n" + pasted + head + "{ y[n] = cuda::ptx::OF(get_sreg_global,timer)(); }",
          "globaltimer");
  refused("#include <cuda/barrier>\n" + pasted + head +
              "{ y[n] = cuda::std::OF(chr,ono)::OF(system_cl,ock)::now().time_since_epoch().count(); }",
          "globaltimer");
  // A wait with a time limit is a clock.
  refused("#include <cuda/barrier>\n" + head +
              "{ __shared__ cuda::barrier<cuda::thread_scope_block> b; if (threadIdx.x == 0) init(&b, 64);\n"
              "__syncthreads(); y[n] = b.try_wait_for(b.arrive(), cuda::std::chrono::nanoseconds(n)); }",
          "globaltimer");
}

BOOST_AUTO_TEST_CASE(reading_what_differs_between_launches_is_rejected) {
  const auto reads = [](const std::string& type, const std::string& name) {
    return small(head + "{ " + (type == "u64" ? "unsigned long long" : "unsigned") +
                 " t; asm volatile(\"mov." + type + " %0, %%" + name +
                 ";\" : \"=" + (type == "u64" ? "l" : "r") + "\"(t)); y[n] = t; }");
  };
  for (const auto& [type, name] :
       std::vector<std::pair<std::string, std::string>>{{"u64", "gridid"},
                                                        {"u32", "gridid"},
                                                        {"u32", "envreg7"},
                                                        {"u32", "envreg1"},
                                                        {"u64", "current_graph_exec"}}) {
    const CompileFailure failure = failure_of(reads(type, name));
    BOOST_TEST((failure.stage == Stage::screen), failure.reason << failure.diagnostics);
    BOOST_TEST(failure.reason == "the kernel reads a register that differs between launches (%" + name + ")");
    BOOST_TEST(contains(failure.diagnostics, "launch counter"));
  }
  for (const char* name : {"smid", "nsmid", "warpid", "laneid", "dynamic_smem_size"})
    compiled(reads("u32", name));
}

BOOST_AUTO_TEST_CASE(a_cooperative_launch_may_wait_at_the_grids_barrier_and_do_nothing_else_with_it) {
  const auto cooperative = [](const std::string& body) {
    Variant variant = small("#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n" + head +
                            "{ " + body + " }");
    variant.manifest.launch[0].keys["cooperative"] = {Expression::constant(1)};
    return variant;
  };
  for (const char* waits :
       {"auto g = cg::this_grid(); g.sync(); y[n] = g.thread_rank(); g.sync(); y[0] = g.is_valid();",
        "for (int i = 0; i < n; ++i) { y[i] += 1; cg::this_grid().sync(); }",
        "cg::grid_group g = cg::this_grid(); if (n > 3) cg::sync(g); else g.sync();",
        "auto g = cg::this_grid(); auto t = g.barrier_arrive(); y[n] = 1; "
        "g.barrier_wait(static_cast<decltype(t)&&>(t));"})
    compiled(cooperative(waits));
  const std::string address =
      "unsigned h, l, v; asm(\"mov.u32 %0, %%envreg1;\" : \"=r\"(h)); asm(\"mov.u32 %0, %%envreg2;\" : "
      "\"=r\"(l)); unsigned long long a = (unsigned long long)h << 32 | l; ";
  for (const std::string& strays :
       {std::string("unsigned h; asm(\"mov.u32 %0, %%envreg1;\" : \"=r\"(h)); y[n] = h;"),
        address + "asm volatile(\"ld.acquire.gpu.u32 %0, [%1];\" : \"=r\"(v) : \"l\"(a + 4)); y[n] = v;",
        address + "asm volatile(\"ld.acquire.gpu.u32 %0, [%1];\" : \"=r\"(v) : \"l\"(a + 8));",
        address + "asm volatile(\"ld.acquire.gpu.u32 %0, [%1];\" : \"=r\"(v) : \"l\"(a + 4ull * n));",
        address +
            "asm volatile(\"atom.add.release.gpu.u32 %0, [%1], %2;\" : \"=r\"(v) : \"l\"(a), \"r\"(n));",
        address + "((unsigned long long*)y)[n] = a;", address + "if (a > 1ull << 40) y[n] = 1;",
        address + "asm volatile(\"{ .reg .pred p; setp.ne.u64 p, %0, 0; @p st.global.u32 [%0+4], %1; }\" :: "
                  "\"l\"(a), \"r\"(n));",
        std::string("auto g = cg::this_grid(); auto t = g.barrier_arrive(); y[n] = (unsigned&)t; "
                    "g.barrier_wait(static_cast<decltype(t)&&>(t));")}) {
    const CompileFailure failure = failure_of(cooperative(strays));
    BOOST_TEST((failure.stage == Stage::screen), strays << failure.reason << failure.diagnostics);
    BOOST_TEST(contains(failure.reason, "than the grid barrier"), strays << failure.reason);
  }
}

BOOST_AUTO_TEST_CASE(functions_may_be_called_by_their_names) {
  compiled(
      small("__device__ __noinline__ float f(float v) { return v * 3; }\n"
            "__device__ __noinline__ void g(float* y) { *y += 1; }\n" +
            head + "{ y[n] = f(y[0]); g(y); auto h = [](float v) { return v + 1; }; y[1] = h(y[1]); }"));
}

BOOST_AUTO_TEST_CASE(variables_have_the_names_of_the_source) {
  for (const char* name : {"g", "f", "x", "d", "state"}) {
    const CompileFailure failure = failure_of(small("extern \"C\" __device__ int " + std::string(name) +
                                                    ";\n" + head + "{ y[n] = " + name + "++; }"));
    BOOST_TEST(contains(failure.reason, "may write: " + std::string(name) + " ("), failure.reason);
  }
  const CompileFailure failure =
      failure_of(small("namespace kept { __device__ int g; }\n" + head + "{ y[n] = kept::g++; }"));
  BOOST_TEST(contains(failure.reason, "may write: kept::g ("), failure.reason);
}

BOOST_AUTO_TEST_CASE(constants_may_be_read_by_their_generic_addresses) {
  compiled(small("__constant__ float t[4] = {1, 2, 3, 4};\n__device__ const float s[4] = {4, 3, 2, 1};\n" +
                 head + "{ const float* p = n > 2 ? t : s; y[n] = p[n & 3]; }"));
}

BOOST_AUTO_TEST_CASE(a_kernel_whose_assembly_is_missing_does_not_pass) {
  const Variant variant = small(head + "{ y[n] = 1; }");
  Cubin cubin;
  cubin.kernels.push_back({});
  cubin.kernels.back().name = "k";
  cubin.kernels.back().parameters.resize(2);
  cubin.kernels.back().parameters[0].bytes = 8;
  cubin.kernels.back().parameters[1].bytes = 4;
  const ScreenVerdict verdict = screen(cubin, "", "", variant.manifest, {}, false);
  BOOST_TEST(verdict.reason == "the compiler's assembly does not contain kernel 'k'");
}

BOOST_AUTO_TEST_CASE(addresses_that_leave_sight_count_as_written) {
  const auto refused = [](const std::string& source, const std::string& name) {
    const CompileFailure failure = failure_of(small(source));
    BOOST_TEST((failure.stage == Stage::screen), failure.reason << failure.diagnostics);
    BOOST_TEST(contains(failure.reason, "may write: " + name), failure.reason);
  };
  // Through an initialiser, a call, memory, integer arithmetic, an atomic, a bulk copy.
  refused("__device__ int s; __device__ int* p = &s;\n" + head + "{ *p = n; y[0] = *p; }", "s");
  refused("__device__ int s[4];\n__device__ __noinline__ void put(int* p, int n) { p[n] = n; }\n" + head +
              "{ put(s, n); y[0] = s[1]; }",
          "s");
  refused("__device__ int s[4];\n" + head + "{ ((int**)y)[1] = s; y[0] = s[n]; }", "s");
  refused("__device__ int s[4];\n" + head +
              "{ unsigned long long a = (unsigned long long)s ^ 0x5555; a ^= 0x5555; *(int*)(a + 4) = n; "
              "y[0] = s[n]; }",
          "s");
  refused("__device__ unsigned s;\n" + head + "{ y[0] = atomicMax(&s, n); }", "s");
  refused("__device__ int s[64];\n" + head +
              "{ __shared__ alignas(128) int m[64]; m[threadIdx.x] = n;\n"
              "asm volatile(\"cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;\" ::\"l\"(s), "
              "\"r\"((unsigned)__cvta_generic_to_shared(m)) : \"memory\"); y[0] = s[n]; }",
          "s");
}

BOOST_AUTO_TEST_CASE(the_sources_own_warnings_and_errors_are_not_taken_for_the_compilers) {
  for (const char* said : {"(C7508) looks bad", "(C7510)", "wgmma.mma_async instructions are serialized",
                           "ptxas info : Compiling entry function 'k' 99999 bytes spill stores"})
    compiled(small("#warning " + std::string(said) + "\n" + head + "{ y[n] = 1; }"));
  for (const char* said : {"kernel launch from __device__ or __global__ functions",
                           "device-side kernel launch", "Unresolved extern function 'malloc'"}) {
    const CompileFailure failure =
        failure_of(small("#error " + std::string(said) + "\n" + head + "{ y[n] = 1; }"));
    BOOST_TEST((failure.stage == Stage::compile), failure.reason);
    BOOST_TEST(contains(failure.reason, "#error"), failure.reason);
  }
}

BOOST_AUTO_TEST_CASE(the_limit_of_spills_is_the_callers) {
  const FreshCache cache("cuda-spills");
  CudaCompilerOptions lenient = options(cache.folder);
  lenient.limits.spill_bytes = 100000;
  CudaCompiler compiler_that_lets_spill(lenient);
  const Binary binary = compiled(kernel("refused/spills.cu"), compiler_that_lets_spill);
  BOOST_TEST(binary.resources.values.at("spill_bytes") > 512);
  BOOST_TEST(binary.resources.values.at("registers") == 32);
  BOOST_TEST(binary.resources.values.at("stack_bytes") > 100);
}

BOOST_AUTO_TEST_CASE(trusted_contenders_may_keep_statics_but_must_have_their_kernel) {
  const FreshCache cache("cuda-trusted");
  CudaCompilerOptions trusting = options(cache.folder);
  trusting.trusted = true;
  CudaCompiler trusted(trusting);
  compiled(kernel("refused/writable_global.cu"), trusted);
  BOOST_TEST(!trusted.compile(kernel("refused/missing_kernel.cu"), {}, 60.0).has_value());
}

BOOST_AUTO_TEST_CASE(typed_arguments_must_have_the_size_of_their_parameters) {
  const std::string source = "extern \"C\" __global__ void k(float* y, double n) { y[0] = n; }\n";
  Variant variant = by_hand(source, {"k"}, {{"y", std::nullopt}, {"1.5", Dtype::f64}});
  compiled(variant);
  variant.manifest.launch[0].args[1].type = Dtype::f32;
  const CompileFailure failure = failure_of(variant);
  BOOST_TEST(contains(failure.reason, "parameter 2 of kernel 'k' has 8 bytes, but its argument '1.5' has 4"),
             failure.reason);
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-License-Identifier: Apache-2.0
// Kernels in Triton become machine code that needs no Triton, without a GPU; what may not run is refused,
// with the line.
// also without bubblewrap: two_kernels_become_one_module, what_*, a_source_*
// long: 90 s, evaluators/languages/triton, evaluators/devices/cuda/code
// always: the_example*, two_kernels*, what_a_source*, a_python_without*
#include <boost/test/unit_test.hpp>

#include <fmt/format.h>

#include "evaluators/devices/cuda/code/known_devices.hpp"
#include "evaluators/devices/cuda/code/launch_rules.hpp"
#include "evaluators/devices/cuda/code/line_table.hpp"
#include "evaluators/devices/device.hpp"
#include "evaluators/languages/triton/order.hpp"
#include "support/command.hpp"
#include "support/contains.hpp"
#include "support/triton_kernels.hpp"

using namespace cultivar;
using namespace cultivar::triton_test;
using cultivar::testing::contains;

namespace {

struct Shape {
  std::string task, seed;
  std::map<std::string, double> values;
};

// What the card would get: the launches of the plan as the compiler completed them are those of the code.
void require_launchable(const Variant& variant, const Binary& binary, const Shape& shape, Dtype dtype) {
  Workload workload;
  workload.name = "test";
  workload.dtype = dtype;
  workload.values = {shape.values.begin(), shape.values.end()};
  const Facts& facts = known_device("h100")->facts;
  const auto plan = make_plan(variant, task_named(shape.task), workload, facts);
  BOOST_REQUIRE_MESSAGE(plan, (plan ? "" : plan.error().message));
  const auto legal = check_launches(cubin_of(binary), with_choices(*plan, binary.chosen), facts);
  BOOST_TEST(legal.has_value(), (legal ? "" : legal.error().message));
}

Binary compiled(const Variant& variant) {
  const auto binary = compile(variant);
  BOOST_REQUIRE_MESSAGE(binary, (binary ? "" : binary.error().reason + "\n" + binary.error().diagnostics));
  return *binary;
}

// The line of a source in which this text stands.
int line_of_text(const std::string& source, const std::string& text) {
  return 1 + static_cast<int>(std::count(
                 source.begin(), source.begin() + static_cast<std::ptrdiff_t>(source.find(text)), '\n'));
}

constexpr const char* kBody =
    "@triton.jit\ndef rows(x, y, C, BLOCK: tl.constexpr):\n"
    "    row = tl.program_id(0).to(tl.int64)\n    c = tl.arange(0, BLOCK)\n"
    "    value = tl.load(x + row * C + c, mask=c < C, other=-float(\"inf\"))\n"
    "    power = tl.exp(value - tl.max(value, 0))\n    HERE\n"
    "    tl.store(y + row * C + c, power / tl.sum(power, 0), mask=c < C)\n";

std::string with_line(const std::string& line) {
  std::string code = kBody;
  return code.replace(code.find("HERE"), 4, line);
}

struct Refusal {
  std::string code, at, reason, remedy;  // `at`: a text in the line that the reason names
  std::string manifest = "";
};

void require_refused(const Refusal& refusal) {
  const std::string source = softmax_source(refusal.code, refusal.manifest);
  const CompileFailure failure = failure_of(variant_of(source));
  BOOST_TEST_CONTEXT(refusal.code) {
    BOOST_TEST(!failure.host_fault.has_value(), failure.diagnostics);
    BOOST_TEST(contains(failure.reason, refusal.reason), failure.reason << "\n" << failure.diagnostics);
    BOOST_TEST(contains(failure.diagnostics, refusal.remedy), failure.diagnostics);
    if (!refusal.at.empty())
      BOOST_TEST(failure.reason.starts_with(fmt::format("line {}: ", line_of_text(source, refusal.at))),
                 failure.reason);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(triton_compiler, *needs_triton())

BOOST_AUTO_TEST_CASE(each_seed_becomes_machine_code_in_each_dtype_and_passes_the_screen) {
  const std::vector<Shape> shapes = {{"softmax", "triton_rows", {{"R", 64}, {"C", 512}}},
                                     {"softmax", "triton_rows", {{"R", 64}, {"C", 50001}}},
                                     {"rmsnorm", "triton_rows", {{"R", 64}, {"C", 512}, {"eps", 1e-6}}},
                                     {"rmsnorm", "triton_rows", {{"R", 64}, {"C", 50001}, {"eps", 1e-6}}},
                                     {"matmul", "triton_tiles", {{"M", 256}, {"N", 512}, {"K", 256}}},
                                     {"matmul", "triton_tiles", {{"M", 127}, {"N", 65}, {"K", 33}}}};
  for (const Shape& shape : shapes)
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
      const Variant variant = seed(shape.task, shape.seed);
      const auto binary =
          compiler_for(shape.task).compile(variant, macros_for(variant, shape.values, dtype), 300.0);
      BOOST_REQUIRE_MESSAGE(binary,
                            (binary ? "" : binary.error().reason + "\n" + binary.error().diagnostics));
      BOOST_TEST(binary->resources.values.at("registers") > 0.0);
      require_launchable(variant, *binary, shape, dtype);
    }
}

BOOST_AUTO_TEST_CASE(the_compiler_decides_how_much_shared_memory_a_launch_has) {
  const Variant variant = seed("matmul", "triton_tiles");
  const auto binary = compiler_for("matmul").compile(
      variant, macros_for(variant, {{"M", 256}, {"N", 512}, {"K", 256}}), 300.0);
  BOOST_TEST_REQUIRE(binary.has_value());
  const std::int64_t shared = binary->chosen.at("matmul_tiles").at("shared").front();
  BOOST_TEST(shared > (48 << 10));  // more than a launch has without asking
  BOOST_TEST(binary->resources.values.at("shared_bytes") == static_cast<double>(shared));
  BOOST_TEST((binary->resources.shares.at("tensor_share") > 0.0));
}

BOOST_AUTO_TEST_CASE(a_kernel_has_the_parameters_of_its_launch_and_no_others) {
  const Variant variant = seed("softmax", "triton_rows");
  const auto binary =
      compiler_for("softmax").compile(variant, macros_for(variant, {{"R", 8}, {"C", 512}}), 120.0);
  BOOST_TEST_REQUIRE(binary.has_value());
  BOOST_TEST(cubin_of(*binary).kernel("softmax_rows")->parameters.size() == 3U);
}

BOOST_AUTO_TEST_CASE(only_what_the_manifest_claims_of_an_argument_is_told_to_triton) {
  Manifest manifest;
  const auto surely = [&](const std::string& text, const std::vector<std::string>& macros = {}) {
    manifest.requires_ = Expression::parse(text).value();
    return surely_multiple_of_16(manifest, macros, "C");
  };
  BOOST_TEST(surely("C % 16 == 0"));
  BOOST_TEST(surely("R > 3 && C % 64 == 0 && dtype == bf16"));
  for (const char* less : {"C % 8 == 0", "C % 24 == 0", "C % 16 == 8", "R % 16 == 0", "C % 16 == 0 || R > 2",
                           "R > 1 ? C % 16 == 0 : 1", "min(1, R && C % 16 == 0 && R)", "!(C % 16 == 0)",
                           "C % 16 != 0", "CC % 16 == 0"})
    BOOST_TEST(!surely(less), less);
  manifest.requires_.reset();
  manifest.let = {{"aligned", Expression::parse("C % 16 == 0").value()}};
  BOOST_TEST(!surely_multiple_of_16(manifest, {"aligned=1"}, "C"));
  manifest.specialize = {"aligned"};
  BOOST_TEST(surely_multiple_of_16(manifest, {"aligned=1"}, "C"));
  BOOST_TEST(!surely_multiple_of_16(manifest, {"aligned=0"}, "C"));

  // It makes a difference: rows that begin at multiples of 16 elements are read in vectors.
  const Variant variant = seed("softmax", "triton_rows");
  std::vector<double> bytes;
  for (const double columns : {512.0, 513.0}) {
    const auto binary =
        compiler_for("softmax").compile(variant, macros_for(variant, {{"R", 8}, {"C", columns}}), 120.0);
    BOOST_TEST_REQUIRE(binary.has_value());
    bytes.push_back(binary->resources.values.at("text_bytes"));
  }
  BOOST_TEST(bytes.at(0) < bytes.at(1));
}

BOOST_AUTO_TEST_CASE(the_example_of_the_documentation_compiles) {
  const std::string page = read_file(source_folder / "evaluators/README.md").value(), opening = "```python\n";
  const std::size_t from = page.find(opening) + opening.size();
  const Variant variant = variant_of(page.substr(from, page.find("```\n", from) - from));
  require_launchable(variant, compiled(variant), {"softmax", "", {{"R", 64}, {"C", 512}}}, Dtype::f32);
}

BOOST_AUTO_TEST_CASE(two_kernels_become_one_module) {
  const std::string source =
      "\"\"\"--- cultivar\nname: tried\ntask: softmax\ntarget: cuda\nlanguage: triton\n"
      "tunables:\n  HOW: {values: [sum, mean], default: mean}\n"
      "specialize: [dtype]\nworkspace:\n  total: {bytes: \"4 * R\"}\n  ticket: {bytes: 4, zero: "
      "true}\nlaunch:\n"
      "  - kernel: sums\n    grid: [R, 1, 1]\n    args: [x, total, ticket, C]\n"
      "  - kernel: shares\n    grid: [R, 1, 1]\n    num_warps: 8\n    args: [x, total, y, C]\n---\"\"\"\n"
      "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n\nWIDTH = "
      "1024\n\n"
      "@triton.jit\ndef at(x, C, c):\n    return tl.load(x + tl.program_id(0) * C + c, mask=c < C, "
      "other=0.0)\n\n"
      "@triton.jit\ndef sums(x, total, ticket: \"*i32\", C, HOW: tl.constexpr):\n"
      "    value = tl.sum(libdevice.exp(at(x, C, tl.arange(0, WIDTH))), 0)\n"
      "    if HOW == \"mean\":\n        value = value / C\n"
      "    tl.atomic_add(ticket, 1)\n    tl.store(total + tl.program_id(0), value)\n\n"
      "@triton.jit\ndef shares(x, total, y, C):\n    c = tl.arange(0, WIDTH)\n"
      "    tl.store(y + tl.program_id(0) * C + c, libdevice.exp(at(x, C, c)) / tl.load(total + "
      "tl.program_id(0)), "
      "mask=c < C)\n";
  const Variant variant = variant_of(source);
  const Binary binary = compiled(variant);
  const Cubin cubin = cubin_of(binary);
  BOOST_TEST(cubin.kernel("sums")->parameters.size() == 4U);
  BOOST_TEST(cubin.kernel("shares")->parameters.size() == 4U);
  require_launchable(variant, binary, {"softmax", "", {{"R", 64}, {"C", 512}}}, Dtype::f32);
  // A tunable with names is a text in the kernel: each value is another kernel.
  const Variant other = variant_of(source, "softmax", {{"HOW", std::string("sum")}});
  BOOST_TEST(compiled(other).machine_code != binary.machine_code);
}

BOOST_AUTO_TEST_CASE(what_a_source_must_not_have_is_refused_with_its_line_and_a_remedy) {
  const std::string rows = kBody;
  const std::string good = with_line("pass");
  for (const Refusal& refusal : std::vector<Refusal>{
           {"@triton.autotune(configs=[], key=[])\n" + good, "@triton.autotune", "triton.autotune",
            "`tunables`"},
           {"@triton.heuristics({})\n" + good, "@triton.heuristics", "triton.heuristics", "`let`"},
           {good + "import os\n", "import os", "imports os", "Only triton"},
           {good + "from triton.runtime import driver\n", "triton.runtime", "imports triton.runtime",
            "Only triton"},
           {good + "from triton.language import *\n", "import *", "'*' is imported", "names"},
           {good + "print(1)\n", "print(1)", "code outside the kernels", "manifest"},
           {good + "class A:\n    pass\n", "class A", "a class outside", "@triton.jit"},
           {good + "def host():\n    pass\n", "def host", "is not under @triton.jit", "@triton.jit"},
           {good + "@triton.jit(noinline=True)\ndef more(a):\n    return a\n", "@triton.jit(n",
            "has arguments", "alone"},
           {good + "WIDTH = open('/etc/passwd').read()\n", "WIDTH", "is no literal", "`let`"},
           {good + "WIDTH = 9 ** 9 ** 9\n", "WIDTH", "is no literal", "`let`"},
           {good + "WIDTH = 'a' * 9999999999\n", "WIDTH", "is no literal", "`let`"},
           {good + "rows = 3\n", "rows = 3", "defined twice", "another name"},
           {"@triton.jit\ndef more(a=print(1)):\n    return a\n" + good, "a=print", "default value",
            "number"},
           {"@triton.jit\ndef more(a: print(1)):\n    return a\n" + good, "a: print", "annotation",
            "tl.constexpr"},
           {"@triton.jit\ndef more(*a):\n    return a\n" + good, "def more", "any number", "parameter"},
           {with_line("import os"), "import os", "statement import", "not compiled"},
           {with_line("power = (lambda: power)()"), "lambda", "expression lambda", "loop"},
           {with_line("power = [p for p in power]"), "[p for", "expression listcomp", "loop"},
           {with_line("power = power.__class__"), "__class__", "attribute __class__", "documents"},
           {with_line("power = power.handle"), "power.handle", "attribute handle", "documents"},
           {with_line("power = getattr(tl, 'exp')(power)"), "getattr", "calls getattr", "name"},
           {with_line("power = __import__('os')"), "__import__", "uses __import__", "Python"},
           {with_line("print(power)"), "print(power)", "calls print", "remove it"},
           {with_line("tl.device_print('a', power)"), "device_print", "calls device_print", "remove it"},
           {with_line("power = tl.core.os.system('id')"), "tl.core", "not of Triton's language", "documents"},
           {with_line("m = tl\n    power = m.core"), "m = tl", "module tl as a value", "functions"},
           {with_line("power = tl.exp(power, _semantic=1)"), "_semantic", "passes _semantic", "documents"},
           {with_line("power = triton.runtime.driver"), "triton.runtime", "not of Triton's language",
            "documents"},
           {"# rows\ndef (\n", "def (", "not Python", "line"},
           {with_line("power = unknown_thing(power)"), "unknown_thing", "unknown_thing is not defined", ""},
           {with_line("power = tl.no_such(power)"), "no_such", "has no tl.no_such", "version"},
           {with_line("power = power + tl.arange(0, 3)"), "arange(0, 3)", "power of 2", ""},
           {with_line("tl.static_assert(BLOCK < 8)"), "static_assert", "a static_assert does not hold", ""},
           {"@triton.jit\ndef more(a):\n    return more(a) + 1.0\n" + with_line("power = more(power)"),
            "return more", "the function more calls itself", "loop"},
           {"WIDTH = " + std::string(100000, '-') + "1\n" + good, "", "nested too deeply", "line"},
       })
    require_refused(refusal);
}

BOOST_AUTO_TEST_CASE(what_the_manifest_and_the_kernel_disagree_about_is_refused) {
  const auto kernel = [](const std::string& parameters) {
    std::string code = with_line("pass");
    return code.replace(code.find("x, y, C, BLOCK: tl.constexpr"), 28, parameters);
  };
  for (const Refusal& refusal :
       std::vector<Refusal>{{kernel("x, y, BLOCK: tl.constexpr, C: tl.constexpr = 4"), "def rows",
                             "has 2 parameters", "`args`"},
                            {kernel("x, y, C, BLOCK"), "def rows", "annotate it as tl.constexpr", "`args`"},
                            {kernel("x, y, C, BLOCK: tl.constexpr, FAR: tl.constexpr"), "def rows",
                             "'FAR' of kernel 'rows' has no value", "`specialize`"},
                            {kernel("x: \"*bf16\", y, C, BLOCK: tl.constexpr"), "def rows",
                             "is said to be *bf16", "annotation"},
                            {"@triton.jit\ndef others(x):\n    pass\n# rows\n", "",
                             "does not define kernel 'rows'", "others"}})
    require_refused(refusal);
  const auto manifest_of = [](const std::string& from, const std::string& to) {
    std::string source = softmax_source(with_line("pass"));
    return variant_of(source.replace(source.find(from), from.size(), to));
  };
  BOOST_TEST(contains(failure_of(manifest_of("specialize: [dtype]", "specialize: [C]")).diagnostics,
                      "specialize: [dtype]"));
  BOOST_TEST(contains(failure_of(manifest_of("args: [x, y, C]", "num_warps: R\n    args: [x, y, C]")).reason,
                      "depends on R"));
  BOOST_TEST(contains(failure_of(manifest_of("args: [x, y, C]", "num_warps: 3\n    args: [x, y, C]")).reason,
                      "num_warps of kernel 'rows' is 3"));
  std::string block = softmax_source(with_line("pass"));
  block.replace(block.find("args: [x"), 4, "block: [128, 1, 1]\n    args");
  const auto refused = make_variant(block, task_named("softmax"));
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(contains(refused.error().message, "is decided by Triton"), refused.error().message);
  BOOST_TEST(contains(refused.error().message, "num_warps"), refused.error().message);
}

// Triton's way to the instructions of the card is the same PTX that CUDA C++ has, under the same screen.
BOOST_AUTO_TEST_CASE(what_the_screen_of_cuda_refuses_is_refused_in_triton) {
  const auto assembly = [](const std::string& text) {
    return with_line("power += tl.inline_asm_elementwise(\"" + text +
                     "\", \"=r,r\", [c], dtype=tl.int32, is_pure=False, pack=1)");
  };
  for (const Refusal& refusal : std::vector<Refusal>{
           {assembly("mov.u32 $0, %clock;"), "", "reads a clock", "time"},
           {assembly("{ .reg .u64 t; mov.u64 t, %globaltimer; cvt.u32.u64 $0, t; }"), "", "reads a clock",
            "time"},
           {with_line("power += tl.extra.cuda.globaltimer()"), "", "reads a clock", "time"},
           {assembly("{ .reg .u64 t; mov.u64 t, %gridid; cvt.u32.u64 $0, t; }"), "",
            "differs between launches", "same"},
           {assembly("{ .global .u32 kept; ld.global.u32 $0, [kept]; st.global.u32 [kept], $1; }"), "", "",
            ""},
           {assembly("{ .reg .u64 p; ld.param.u64 p, [rows_param_0+32]; cvt.u32.u64 $0, p; }"), "",
            "beyond its parameters", "parameter"},
           {assembly("discard.global.L2 [0], 128; mov.u32 $0, 1;"), "", "", ""},
           {assembly("{ .reg .u64 a; mov.u64 a, rows; cvt.u32.u64 $0, a; }"), "", "", ""},
           {assembly("this is no instruction;"), "", "", ""},
       })
    require_refused(refusal);
  // Tiles that do not fit into registers.
  std::string far = softmax_source(with_line("pass"));
  far.replace(far.find("[512, 1024], default: 1024"), 26, "[65536], default: 65536");
  const CompileFailure spills = failure_of(variant_of(far));
  BOOST_TEST(contains(spills.reason, "spills registers"), spills.reason);
  BOOST_TEST((spills.stage == Stage::screen));
}

BOOST_AUTO_TEST_CASE(what_only_a_launcher_of_triton_could_give_is_refused) {
  require_refused({with_line("d = tl.make_tensor_descriptor(y, [C, C], [C, 1], [16, 16])\n"
                             "    d.store([0, 0], tl.zeros([16, 16], tl.float32))"),
                   "", "scratch memory", "pointers"});
}

BOOST_AUTO_TEST_CASE(a_source_that_compiles_without_end_is_stopped_at_the_deadline) {
  const CompileFailure failure = failure_of(
      variant_of(softmax_source(with_line("for i in tl.static_range(100000000):\n        power += i"))),
      10.0);
  BOOST_TEST(failure.late);
  BOOST_TEST(contains(failure.reason, "did not finish"), failure.reason);
  BOOST_TEST(!failure.host_fault.has_value());
}

BOOST_AUTO_TEST_CASE(a_source_that_takes_all_memory_is_refused) {
  const CompileFailure failure =
      failure_of(variant_of(softmax_source(with_line("big: tl.constexpr = \"x\" * 1000000000000000"))));
  BOOST_TEST(!failure.host_fault.has_value(), failure.diagnostics);
  BOOST_TEST(!failure.reason.empty());
}

BOOST_AUTO_TEST_CASE(a_source_that_asks_for_a_file_gets_none) {
  for (const char* line : {"power = open(\"/etc/passwd\")", "power = eval(\"1\")", "power = exec(\"1\")"})
    require_refused({with_line(line), line, "is not defined", ""});
}

BOOST_AUTO_TEST_CASE(the_cheats_and_hostile_kernels_compile_so_that_a_card_can_judge_them) {
  int count = 0;
  for (const char* folder : {"", "cheats", "hostile"})
    for (const auto& entry : fs::directory_iterator(kernel_folder / folder)) {
      if (entry.path().extension() != ".py") continue;
      ++count;
      const Variant variant = kernel(fs::relative(entry.path(), kernel_folder));
      require_launchable(variant, compiled(variant), {"softmax", "", {{"R", 64}, {"C", 512}}}, Dtype::f32);
    }
  BOOST_TEST(count >= 18);
}

BOOST_AUTO_TEST_CASE(a_check_build_counts_the_blocks_of_the_source) {
  const Variant variant = seed("softmax", "triton_rows");
  const auto macros = macros_for(variant, {{"R", 8}, {"C", 50001}}, Dtype::f32);
  const auto built = compiler_for("softmax").compile_check_build(variant, macros, 120.0);
  BOOST_REQUIRE_MESSAGE(built, (built ? "" : built.error().message));
  const int first = line_of_text(variant.source, "def softmax_rows");
  const int last = static_cast<int>(std::count(variant.source.begin(), variant.source.end(), '\n'));
  BOOST_TEST(built->blocks.size() >= 3U);  // the two loops, and what lies between them
  for (const CodeBlock& block : built->blocks) {
    BOOST_TEST(block.file == "variant.py");
    BOOST_TEST((block.first_line >= first && block.last_line <= last));
  }
  BOOST_TEST(built->chosen.contains("softmax_rows"));
  // The driver translates it as ptxas does.
  const fs::path ptxas = fs::path(python()->triton_at) / "backends/nvidia/bin/ptxas";
  const auto assembled = cultivar::testing::run_command(
      {ptxas.string(), "--gpu-name=sm_90a", built->path.string(), "-o", "/dev/null"});
  BOOST_TEST(assembled.exit == 0, assembled.err);
}

BOOST_AUTO_TEST_CASE(instructions_are_told_by_the_lines_of_the_source) {
  const Variant variant = seed("softmax", "triton_rows");
  const auto binary =
      compiler_for("softmax").compile(variant, macros_for(variant, {{"R", 8}, {"C", 512}}), 120.0);
  BOOST_TEST_REQUIRE(binary.has_value());
  const std::string bytes = read_file(binary->path).value();
  const auto lines = LineTable::read(std::as_bytes(std::span(bytes)));
  BOOST_REQUIRE_MESSAGE(lines, (lines ? "" : lines.error().message));
  const int load = line_of_text(variant.source, "value = tl.load"),
            store = line_of_text(variant.source, "tl.store(y");
  for (const int line : {load, store})
    BOOST_TEST(!lines->offsets_of("softmax_rows", "variant.py", line).empty(), line);
}

BOOST_AUTO_TEST_CASE(a_python_without_triton_is_named_with_the_remedy) {
  TritonCompilerOptions lacking = options();
  lacking.python = "/usr/bin/python3";
  if (find_interpreter(lacking.python, PythonNeeds::triton)) return;  // the system's own has Triton
  try {
    TritonCompiler(lacking, task_named("softmax"));
    BOOST_ERROR("was made");
  } catch (const MissingError& error) {
    BOOST_TEST(contains(error.what(), "pip install triton"), error.what());
  }
}

BOOST_AUTO_TEST_SUITE_END()

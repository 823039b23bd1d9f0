// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/code/ptx_text.hpp"

#include <boost/test/unit_test.hpp>

#include "evaluators/devices/cuda/code/screen.hpp"

using namespace cultivar;

namespace {

const std::string head =
    ".version 8.4\n.target sm_90a\n.address_size 64\n"
    ".global .align 4 .b8 t[8] = {1, 2};\n"
    ".visible .entry k(\n\t.param .u64 k_param_0\n)\n.maxntid 32, 1, 1\n{\n"
    "\t.reg .pred \t%p<2>;\n\t.reg .b64 \t%rd<5>;\n\t.loc\t1 7 3\n";
const std::string tail =
    "\tret;\n}\n\t.file\t1 \"variant.cu\"\n\t.section\t.debug_str\n\t{\n$L_1:\n.b8 1,2\n\t}\n";

// The reported use of the table `t` if this is the body of a kernel; "" if it is only read.
std::string said_of_t(const std::string& body) {
  Cubin cubin;
  cubin.globals.push_back({});
  cubin.globals.back().name = "t";
  const auto writable = writable_variables(cubin, head + body + tail);
  return writable.empty() ? "" : writable.front().why;
}

const std::string address = "\tmov.u64 \t%rd1, t;\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_ptx_text)

BOOST_AUTO_TEST_CASE(statements_come_apart_as_ptxas_reads_them) {
  const auto ptx = read_ptx(head + "$L_0:@!%p1/* why */st.global.v2.u32[%rd1+4],{%r1,%r2};// and\n" + tail);
  BOOST_REQUIRE_MESSAGE(ptx, (ptx ? "" : ptx.error().message));
  BOOST_TEST((ptx->files.at(1) == "variant.cu"));
  const PtxStatement& store = ptx->statements.at(ptx->statements.size() - 2);
  BOOST_TEST(store.predicate == "%p1");
  BOOST_TEST(store.spelled_opcode() == "st.global.v2.u32");
  BOOST_TEST(store.line == 7u);
  BOOST_TEST(store.operands().size() == 2u);
  BOOST_TEST(store.operands()[1].size() == 5u);
  BOOST_TEST(ptx->statements.back().opcode() == "ret");
}

BOOST_AUTO_TEST_CASE(a_table_whose_address_is_only_moved_and_loaded_from_passes) {
  BOOST_TEST(
      said_of_t(address +
                "cvta.to.global.u64 %rd2, %rd1; add.s64 %rd3, %rd2, %rd4; ld.global.nc.u32 %r1, [%rd3+4];"
                "selp.b64 %rd3, %rd1, %rd2, %p1; ld.u32 %r1, [%rd3]; prefetch.global.L2 [%rd3];"
                "cp.async.ca.shared.global [%r1], [%rd3], 16; ld.global.u32 %r2, [t+4];\n") == "");
}

BOOST_AUTO_TEST_CASE(whatever_else_takes_the_address_counts_as_a_write) {
  for (const char* use : {"st.global.u32[%rd1],%r1;",
                          "st.global.u32 [%rd2], %rd1;",
                          "red.global.add.u32[%rd1],%r1;",
                          "{L:st.global.u32 [t], 1;}",
                          "@%p1 st.global.u32 [%rd1], %r1;",
                          "@%p1/**/st.global.u32 [%rd1], %r1;",
                          "cp.async.bulk.global.shared::cta.bulk_group[%rd1],[%r1],16;",
                          "cp.async.bulk.tensor.1d.shared::cluster.global.tile [%r1], [%rd2, {%rd1}], [%r3];",
                          "shr.u64 %rd2, %rd1, 8;",
                          "and.b64 %rd2, %rd1, 255;",
                          "setp.eq.s64 %p1, %rd1, %rd2;",
                          "mov.b64 {%r1, %r2}, %rd1;",
                          "add.cc.u64 %rd2, %rd1, 4;",
                          "add.s64 %rd2, %rd1, %rd1;",
                          "sub.s64 %rd2, %rd3, %rd1;",
                          "mul.lo.s64 %rd2, %rd1, 1;",
                          "cvt.u32.u64 %r1, %rd1;",
                          "ld.global.u32 %r1, [%rd2], %rd1;",
                          "call.uni f, (%rd1);",
                          "shfl.sync.idx.b32 %r1|%p1, %rd1, 0, 31, -1;",
                          "no_such_instruction %rd1;",
                          ".loc 1 8 3 st.global.u32 [%rd1], 1;",
                          ".pragma \"x\"; st.u32 [%rd1], 1;",
                          ".global .u64 p = t;",
                          "// ends\\\n",
                          "#define st ld\n",
                          "/* \r */",
                          "/* no end",
                          ".pragma \"a\\\"b\";"})
    BOOST_TEST(said_of_t(address + use + "\n") != "", use);
}

BOOST_AUTO_TEST_CASE(the_line_of_the_source_is_named) {
  BOOST_TEST(said_of_t(address + "setp.eq.s64 %p1, %rd1, 0;\n") ==
             "line 7: its address goes into 'setp.eq.s64'");
  BOOST_TEST(said_of_t(address + "#\n") == "the PTX cannot be analyzed: it has the sign '#'");
}

BOOST_AUTO_TEST_CASE(a_register_of_another_function_is_another_register) {
  const std::string second = "\tret;\n}\n.visible .entry l()\n{\n st.global.u32 [%rd1], 1;\n";
  BOOST_TEST(said_of_t(address + second) == "");
  BOOST_TEST(said_of_t(address + second + "mov.u64 %rd1, t;\n") != "");
}

BOOST_AUTO_TEST_CASE(debug_data_hides_nothing) {
  BOOST_TEST(said_of_t(address + ".section .debug_x\n{\n.b8 0\n}\nst.global.u32 [%rd1], 1;\n") != "");
  BOOST_TEST(said_of_t(address + ".section .debug_x\n{\n.b8 0; st.global.u32 [%rd1], 1;\n}\n") != "");
}

BOOST_AUTO_TEST_SUITE_END()

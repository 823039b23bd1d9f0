// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "evaluators/task/task.hpp"

using namespace cultivar;
namespace fs = std::filesystem;

namespace {

const fs::path tasks = fs::path(CULTIVAR_SOURCE_DIR) / "configs/tasks";

// A small task, to be broken in one place a time.
const std::string small = R"(name: scale_rows
summary: "y = a x"
dimensions:
  R: {about: "rows"}
  C: {about: "columns", default: R}
parameters:
  a: {type: f32, default: "1 / C", about: "factor"}
  flip: {type: flag, default: 0, about: "other sign"}
dtypes: [f32, bf16]
tensors:
  x: {role: input, shape: [R, C], fill: {kind: normal}}
  y: {role: output, shape: [R, C]}
rows: [R]
let:
  cells: "R * C"
where: ["C % 2 == 0"]
cost: {flops: "cells", bytes: "2 * cells * element_bytes", report: bytes}
controls:
  flips: {about: "the other sign", when: "!flip"}
checks:
  smoke: [{R: 2}]
  sweep: [{R: 4}, {R: 4, C: 6, flip: 1}]
  stress_shapes: [{R: 4}]
  stress:
    ramp: {about: "rising", x: {kind: rising, a: 4, b: 1, axis: 1}}
workload_sets:
  quick: {about: "small", dtype: f32, workloads: [{R: 64}, {R: 64, C: 128, a: 2}]}
  both: {about: "two dtypes", dtype: [f32, bf16], workloads: [{R: 64}]}
)";

class Folder {
 public:
  explicit Folder(const std::string& yaml, bool reference = true)
      : path_(fs::temp_directory_path() / ("cultivar_load_task_" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
    std::ofstream(path_ / "task.yaml") << yaml;
    if (reference) std::ofstream(path_ / "reference.cpp") << "\n";
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void check_error(const std::string& from, const std::string& to, const std::string& expected) {
  std::string yaml = small;
  const std::size_t at = yaml.find(from);
  BOOST_REQUIRE_MESSAGE(at != std::string::npos, from);
  const Folder folder(yaml.replace(at, from.size(), to));
  std::string message = "no error";
  try {
    load_task(folder.path());
  } catch (const InputError& error) {
    message = error.what();
  }
  const std::string full = (folder.path() / "task.yaml").string() + ":" + expected;
  BOOST_TEST(message.find(full) == 0u, message << "  should begin with  " << full);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(load_task)

BOOST_AUTO_TEST_CASE(a_task_is_read_with_defaults_names_and_bindings) {
  const Folder folder(small);
  const Task task = cultivar::load_task(folder.path());
  BOOST_TEST(task.name == "scale_rows");
  BOOST_TEST((task.cost.report == Cost::Report::bytes));
  BOOST_TEST(task.parameters.at(1).flag);
  BOOST_TEST((task.parameters.at(1).type == Dtype::i32));
  const WorkloadSet* quick = task.workloads("quick");
  BOOST_REQUIRE(quick != nullptr);
  BOOST_TEST(quick->workloads.at(0).name == "R64_f32");
  BOOST_TEST(quick->workloads.at(1).name == "R64_C128_a2_f32");
  BOOST_TEST(task.workloads("both")->workloads.at(1).name == "R64_bf16");
  BOOST_TEST(task.workloads("none") == nullptr);
  BOOST_TEST(task.sweep.at(1).name == "R4_C6_flip");
  const Workload& w = task.workloads("both")->workloads.at(1);
  BOOST_TEST(w.values.at("C") == 64);
  BOOST_TEST(w.values.at("a") == 1.0 / 64);
  BOOST_TEST(w.values.at("flip") == 0);
  const Bindings b = task.bindings(w);
  BOOST_TEST(b.at("cells") == 4096);
  BOOST_TEST(b.at("element_bytes") == 2);
  BOOST_TEST(b.at("dtype") == static_cast<double>(Dtype::bf16));
  BOOST_TEST(task.bytes(w) == 4.0 * 4096);
  BOOST_TEST(task.flops(w) == 4096);
  BOOST_TEST(task.row_count(w) == 64);
  BOOST_TEST(task.bytes_of(*task.tensor("x"), w) == 8192u);
  BOOST_TEST(task.tensor("z") == nullptr);
  BOOST_TEST((task.stress.at(0).fills.at("x").kind == Fill::Kind::rising));
  BOOST_TEST(task.stress.at(0).fills.at("x").axis == 1);
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_named_with_file_line_and_nearest_name) {
  check_error("summary:", "sumary:", "2: 'summary' is missing (did you misspell it as 'sumary'?)");
  check_error("controls:", "contrls:", "18: unknown key 'contrls' (did you mean 'controls'?");
  check_error("rows: [R]", "limits: {spills: 3}\nrows: [R]", "13: limits: unknown key 'spills'");
  check_error("rows: [R]", "rows: [Q]", "13: rows[0]: 'Q' is not allowed here");
  check_error("rows: [R]", "rows: [R]\nrows: [C]", "14: the key 'rows' is given twice, first on line 13");
  check_error("rows: [R]", "rows: [R, R]", "13: rows[1]: is listed twice");
  check_error("dtypes: [f32, bf16]", "dtypes: [f32, fp16]",
              "9: dtypes[1]: unknown dtype 'fp16' (did you mean 'f16'?");
  check_error("dtypes: [f32, bf16]", "dtypes: [f32, f32]", "9: dtypes[1]: is listed twice");
  check_error("dtypes: [f32, bf16]", "dtypes: [f32]",
              "28: workload_sets.both.dtype[1]: the task's dtypes do not include bf16");
  check_error("shape: [R, C], fill", "shape: [R, CC], fill",
              "11: tensors.x.shape[1]: 'CC' is not allowed here (did you mean 'C'?");
  check_error("kind: normal}", "kind: normla}",
              "11: tensors.x.fill.kind: 'normla' is not allowed here (did you mean 'normal'?");
  check_error("kind: normal}", "kind: constant, a: 1}",
              "11: tensors.x.fill: the plain fill of a tensor must not be constant");
  check_error("kind: normal}", "kind: normal, axis: 2}", "11: tensors.x.fill.axis: must be between -2 and 1");
  check_error("y: {role: output, shape: [R, C]}", "y: {role: output, shape: [C]}",
              "13: rows[0]: the shape of output y must contain R");
  check_error("y: {role: output,", "y: {role: input,", "11: tensors: no tensor has the role output");
  check_error("y: {role: output,", "R: {role: output,", "12: tensors.R: the name 'R' is used twice");
  check_error("  C: {about", "  min: {about", "5: dimensions.min: the name 'min' is reserved");
  check_error("default: R}", "default: Q}", "5: dimensions.C.default: unknown name 'Q'");
  check_error("default: R}", "default: R / 0}", "5: dimensions.C.default: ");
  check_error("cells: \"R * C\"", "cells: \"R * D\"", "15: let.cells: unknown name 'D'");
  check_error("cells: \"R * C\"", "cells: \"R *\"", "15: let.cells: 'R *': is not an expression");
  check_error("flops: \"cells\"", "flops: \"cell\"",
              "17: cost.flops: unknown name 'cell' (did you mean 'cells'?");
  check_error("report: bytes", "report: both", "17: cost.report: 'both' is not allowed here");
  check_error("when: \"!flip\"", "when: \"!flipp\"",
              "19: controls.flips.when: unknown name 'flipp' (did you mean 'flip'?");
  check_error("smoke: [{R: 2}]", "smoke: [{R: 3}]",
              "21: checks.smoke[0]: violates the task's relation 'C % 2 == 0' with C=3");
  check_error("smoke: [{R: 2}]", "smoke: [{C: 2}]", "21: checks.smoke[0]: 'R' is missing and has no default");
  check_error("smoke: [{R: 2}]", "smoke: [{R: 2, Z: 1}]", "21: checks.smoke[0]: unknown key 'Z'");
  check_error("smoke: [{R: 2}]", "smoke: [{R: 0}]", "21: checks.smoke[0].R: must be at least 1");
  check_error("smoke: [{R: 2}]", "smoke: []", "21: checks.smoke: must list at least one workload");
  check_error("smoke: [{R: 2}]", "smoke: [{R: 2, flip: 2}]",
              "21: checks.smoke[0]: the flag flip must be 0 or 1");
  check_error("smoke: [{R: 2}]", "smoke: [{R: 9000000, C: 9000000}]",
              "21: checks.smoke[0]: the tensor x would have");
  check_error("{R: 64, C: 128, a: 2}", "{R: 64}",
              "27: workload_sets.quick.workloads[1]: the workload R64_f32 is listed twice");
  check_error("x: {kind: rising", "z: {kind: rising", "25: checks.stress.ramp: unknown key 'z'");
  check_error("{R: 64}, {R: 64, C: 128, a: 2}", "{R: 64, dtype: f16}",
              "27: workload_sets.quick.workloads[0].dtype: 'f16' is not allowed here");
  check_error("smoke: [{R: 2}]", "smoke: [{R: 2, dtype: f32}]", "21: checks.smoke[0]: unknown key 'dtype'");
  check_error("default: 0, about: \"other", "optional: true, about: \"other",
              "8: parameters.flip: an optional parameter needs a default");
  check_error("bytes: \"2 * cells * element_bytes\"", "bytes: \"0\"",
              "21: checks.smoke[0]: the cost must be positive");
}

BOOST_AUTO_TEST_CASE(a_folder_without_its_files_is_refused) {
  BOOST_CHECK_THROW(cultivar::load_task("/nonexistent"), InputError);
  const Folder folder(small, false);
  try {
    cultivar::load_task(folder.path());
    BOOST_ERROR("no error");
  } catch (const InputError& error) {
    BOOST_TEST(std::string(error.what()).find("has no reference, the file that defines") !=
               std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(the_shipped_tasks_load) {
  for (const char* name : {"attention_forward", "softmax", "matmul"}) {
    const Task task = cultivar::load_task(tasks / name);
    BOOST_TEST(task.name == name);
    BOOST_TEST(!task.controls.empty());
    BOOST_TEST(!task.stress.empty());
    BOOST_TEST(task.workloads("cpu_quick") != nullptr);
    BOOST_TEST(task.workloads("holdout") != nullptr);
    BOOST_TEST(task.workloads("cpu_holdout") != nullptr);
    std::set<std::string> searched, held;
    for (const WorkloadSet& set : task.workload_sets)
      for (const Workload& w : set.workloads)
        (set.name.find("holdout") == std::string::npos ? searched : held).insert(w.name);
    for (const std::string& w : held) BOOST_TEST(!searched.contains(w), w << " is searched and held out");
  }
}

BOOST_AUTO_TEST_CASE(the_attention_sets_are_those_of_the_papers) {
  const Task task = cultivar::load_task(tasks / "attention_forward");
  for (const char* name : {"avo_mha", "avo_gqa8", "avo_gqa4"}) {
    const WorkloadSet* set = task.workloads(name);
    BOOST_REQUIRE(set != nullptr);
    BOOST_TEST(set->workloads.size() == 8u);
    for (const Workload& w : set->workloads) {
      BOOST_TEST(w.values.at("B") * w.values.at("S_q") == 32768);
      BOOST_TEST(w.values.at("D") == 128);
      BOOST_TEST((w.dtype == Dtype::bf16));
    }
  }
  BOOST_TEST(task.workloads("fa_sweep")->workloads.size() == 36u);
  for (const Workload& w : task.workloads("fa_sweep")->workloads) {
    BOOST_TEST(w.values.at("B") * w.values.at("S_q") == 16384);
    BOOST_TEST(w.values.at("H") * w.values.at("D") == 2048);
  }
}

BOOST_AUTO_TEST_CASE(attention_costs_what_flashattention_counts) {
  const Task task = cultivar::load_task(tasks / "attention_forward");
  const Workload& full = task.workloads("avo_mha")->workloads.at(0);
  const Workload& causal = task.workloads("avo_mha")->workloads.at(4);
  BOOST_TEST(task.flops(full) == 4.0 * 8 * 16 * 128 * 4096 * 4096);
  BOOST_TEST(task.flops(causal) == task.flops(full) / 2);
  BOOST_TEST(task.bytes(full) == 4.0 * 8 * 4096 * 16 * 128 * 2 + 4.0 * 8 * 16 * 4096);
  Workload w = causal;
  w.values["B"] = w.values["H"] = w.values["H_kv"] = w.values["D"] = 1;
  w.values["S_q"] = 100, w.values["S_kv"] = 400;
  BOOST_TEST(task.flops(w) == 4.0 * (100 * 400 - 5000));
  w.values["S_q"] = 400, w.values["S_kv"] = 100;
  BOOST_TEST(task.flops(w) == 4.0 * 5000);
}

BOOST_AUTO_TEST_CASE(a_window_costs_what_its_queries_see) {
  const Task task = cultivar::load_task(tasks / "attention_forward");
  Workload w = task.workloads("window")->workloads.front();
  w.values["B"] = w.values["H"] = w.values["H_kv"] = w.values["D"] = 1;
  for (const auto& [S_q, S_kv] : {std::pair{400, 400}, {200, 400}, {1, 400}, {400, 300}})
    for (const int window : {1, 50, 250, 399, 1000})
      for (const int causal : {0, 1}) {
        double seen = 0;
        for (int i = 0; i < S_q; ++i)
          for (int j = 0; j < S_kv; ++j) {
            const int own = i + S_kv - S_q;
            seen += std::abs(own - j) < window && (!causal || j <= own);
          }
        w.values["S_q"] = S_q, w.values["S_kv"] = S_kv, w.values["window"] = window,
        w.values["causal"] = causal;
        // By FlashAttention's convention a diagonal counts as half; queries before the first key are left
        // out.
        BOOST_TEST(task.flops(w) <= 4.0 * (seen + S_q));
        if (S_q <= S_kv) BOOST_TEST(task.flops(w) >= 4.0 * (seen - 2 * S_q));
      }
}

BOOST_AUTO_TEST_CASE(a_workload_of_a_set_may_have_a_dtype_of_its_own) {
  const Task task = cultivar::load_task(tasks / "attention_forward");
  int half = 0;
  for (const Workload& w : task.workloads("everywhere")->workloads) {
    BOOST_TEST((w.name.ends_with("_f16") == (w.dtype == Dtype::f16)));
    half += w.dtype == Dtype::f16;
  }
  BOOST_TEST(half > 3);
}

namespace {

std::string with(const std::string& from, const std::string& to) {
  std::string yaml = small;
  return yaml.replace(yaml.find(from), from.size(), to);
}
const std::string outputs = "  y: {role: output, shape: [R, C]}\n";

}  // namespace

BOOST_AUTO_TEST_CASE(an_output_may_have_rows_of_its_own_or_be_one_number) {
  const Folder folder(with(outputs, outputs +
                                        "  sums: {role: output, shape: [C], rows: [C], run_to_run: 0.5}\n"
                                        "  total: {role: output, shape: [], rows: [], dtype: f32}\n"));
  const Task task = cultivar::load_task(folder.path());
  BOOST_TEST(!task.tensor("y")->rows.has_value());
  BOOST_TEST((task.tensor("sums")->rows == std::vector<std::string>{"C"}));
  BOOST_TEST(task.tensor("sums")->run_to_run == 0.5);
  BOOST_TEST(task.tensor("total")->rows->empty());
  BOOST_TEST(task.bytes_of(*task.tensor("total"), task.sweep.at(0)) == 4u);
  check_error("y: {role: output, shape: [R, C]}", "y: {role: output, shape: [C]}",
              "13: rows[0]: the shape of output y must contain R");
  check_error(outputs, "  y: {role: output, shape: [R, C], rows: [C]}\n",
              "13: rows: every output has rows of its own");
  check_error(outputs, outputs + "  s: {role: output, shape: []}\n",
              "14: rows[0]: the shape of output s must contain R");
  check_error(outputs, outputs + "  s: {role: output, shape: [C], rows: [R]}\n",
              "13: tensors.s.rows[0]: 'R' is not");
  check_error("x: {role: input,", "x: {role: input, rows: [R],", "11: tensors.x.rows: an input has no rows");
  check_error("x: {role: input,", "x: {role: input, run_to_run: 1,",
              "11: tensors.x.run_to_run: an input does not");
}

BOOST_AUTO_TEST_CASE(an_output_may_have_the_memory_of_an_input_like_it) {
  const Folder folder(with(outputs, "  y: {role: output, shape: [R, C], in_place: x}\n"));
  BOOST_TEST(cultivar::load_task(folder.path()).tensor("y")->in_place == "x");
  check_error(outputs, "  y: {role: output, shape: [R, C], in_place: z}\n",
              "12: tensors.y.in_place: 'z' is not an input");
  check_error(outputs, "  y: {role: output, shape: [R, C], dtype: i32, in_place: x}\n",
              "12: tensors.y.in_place: y must have the shape and the dtype of x");
  check_error("x: {role: input,", "x: {role: input, in_place: y,", "11: tensors.x.in_place: an input is not");
}

BOOST_AUTO_TEST_CASE(extents_may_be_constants_and_inputs_single_numbers) {
  const Folder folder(
      with(outputs, outputs + "  k: {role: input, shape: [C, 3, 3]}\n  s: {role: input, shape: []}\n"));
  const Task task = cultivar::load_task(folder.path());
  const Workload& w = task.sweep.at(0);
  BOOST_TEST((task.shape(*task.tensor("k"), w) ==
              std::vector<std::int64_t>{static_cast<std::int64_t>(w.values.at("C")), 3, 3}));
  BOOST_TEST(task.shape(*task.tensor("s"), w).empty());
  for (const char* wrong : {"0", "03", "3x", "1234567890"})
    check_error(outputs, outputs + "  k: {role: input, shape: [C, " + wrong + "]}\n",
                "13: tensors.k.shape[1]: '" + std::string(wrong) + "' is not an extent");
}

BOOST_AUTO_TEST_CASE(a_whole_output_may_be_one_row) {
  std::string yaml(small);
  yaml.replace(yaml.find("rows: [R]"), 9, "rows: []");
  const Folder folder(yaml);
  const Task task = cultivar::load_task(folder.path());
  BOOST_TEST(task.row_count(task.sweep.at(0)) == 1);
}

BOOST_AUTO_TEST_CASE(two_references_are_refused) {
  const Folder folder(small);
  std::ofstream(folder.path() / "reference.py") << "def compute(x): return x\n";
  BOOST_CHECK_EXCEPTION(cultivar::load_task(folder.path()), InputError, [](const InputError& error) {
    return std::string(error.what()).find("has both reference.") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(an_input_may_be_derived_from_others) {
  const std::string more = outputs + "  t: {role: input, shape: [R, C]}\n  w: {role: input, shape: [C]}\n";
  const auto derived = [&](const std::string& keys) {
    std::string yaml = with(outputs, more);
    const std::string rows = "rows: [R]\n";
    return yaml.replace(yaml.find(rows), rows.size(), rows + "derived: {" + keys + "}\n");
  };
  const Folder folder(derived("inputs: [t], from: [x], rows: [R]"));
  const Task task = cultivar::load_task(folder.path());
  BOOST_TEST((task.is_derived("t") && !task.is_derived("x") && !task.is_derived("w")));
  BOOST_TEST((task.derived->rows == std::vector<std::string>{"R"}));
  const auto error = [&](const std::string& keys, const std::string& expected) {
    const Folder broken(derived(keys));
    std::string said;
    try {
      cultivar::load_task(broken.path());
    } catch (const InputError& e) {
      said = e.what();
    }
    BOOST_TEST(said.find(expected) != std::string::npos, said);
  };
  error("inputs: [y], from: [x], rows: [R]", "16: derived.inputs[0]: 'y' is not allowed here");
  error("inputs: [t], from: [t], rows: [R]", "16: derived.from: t is derived itself");
  error("inputs: [x], from: [t], rows: [R]", "16: derived: the tensor x has a fill");
  error("inputs: [t], from: [x, w], rows: [R]", "16: derived.from: every input is derived or derived from");
  error("inputs: [t, w], from: [x], rows: [R]", "16: derived.rows[0]: 'R' is not allowed here");
  error("inputs: [t], from: [x], rows: []", "16: derived.rows: must list at least one name");
  std::string stressed = derived("inputs: [t], from: [x], rows: [R]");
  stressed.replace(stressed.find("x: {kind: rising"), 1, "t");
  const Folder broken(stressed);
  BOOST_CHECK_THROW(cultivar::load_task(broken.path()), InputError);
}

BOOST_AUTO_TEST_CASE(the_numbers_of_a_fill_may_be_expressions_of_the_workload) {
  const Folder folder(with(outputs,
                           "  index: {role: input, shape: [R], dtype: i32, fill: {kind: integers, a: 0, b: "
                           "\"2 * C\", instead: \"-R\", share: 0.5}}\n" +
                               outputs));
  const Task task = cultivar::load_task(folder.path());
  const TensorSpec& index = *task.tensor("index");
  const Fill fill = task.fill(index.fill, task.sweep.at(1));  // R 4, C 6
  BOOST_TEST(fill.a == 0);
  BOOST_TEST(fill.b == 12);
  BOOST_TEST(fill.instead == -4);
  const auto error = [&](const std::string& text, const std::string& expected) {
    check_error(outputs, "  index: {role: input, shape: [R], dtype: i8, fill: " + text + "}\n" + outputs,
                expected);
  };
  error("{kind: integers, a: 0, b: Q}", "12: tensors.index.fill.b: unknown name 'Q'");
  error("{kind: integers, a: 0}", "12: tensors.index.fill: 'b' is missing");
  error("{kind: integers, a: 0, b: 9, share: 0.5}", "12: tensors.index.fill: 'instead' and 'share'");
  error("{kind: integers, a: 4, b: R}",
        "22: checks.smoke[0]: the fill of index: b = 2 must be greater than a = 4");
  error("{kind: integers, a: 0, b: 1000}",
        "22: checks.smoke[0]: the fill of index: 999 does not fit the dtype i8");
  error("{kind: offsets, a: 5, b: 3}",
        "22: checks.smoke[0]: the fill of index: b = 3 must be at least a * 1 = 5");
}

BOOST_AUTO_TEST_CASE(a_task_that_reports_time_needs_no_cost) {
  const Folder folder(with("cost: {flops: \"cells\", bytes: \"2 * cells * element_bytes\", report: bytes}",
                           "cost: {report: time}"));
  const Task task = cultivar::load_task(folder.path());
  BOOST_TEST((task.cost.report == Cost::Report::time));
  BOOST_TEST(!task.cost.flops.has_value());
  const Workload& w = task.sweep.at(0);  // R 4, C 4
  BOOST_TEST(task.flops(w) == 32);       // the elements of x and y
  BOOST_TEST(task.bytes(w) == 64);       // y
  check_error("flops: \"cells\", ", "", "17: cost: 'flops' is missing");
}

BOOST_AUTO_TEST_SUITE_END()

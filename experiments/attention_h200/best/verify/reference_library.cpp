// The task's oracle as a shared library, for the test in pytorch/: how far a kernel's outputs are from what is right.
#include "check.hpp"

#include "../contender/asked.hpp"

namespace {
std::string error_text;
}

extern "C" {

// The tensors lie in host memory, outputs as the kernel left them. Sets one number for each output: its error over what
// the task allows, above 1 when it is wrong. Compares all rows, or `most_rows` of them; returns how many, -1 when it
// cannot.
std::int64_t cultivar_reference_check(const cultivar_contender_workload* asked, std::int64_t most_rows, double* ratios) {
  try {
    const verify_data::Workload workload = asked_workload(*asked);
    std::vector<const std::byte*> stored;
    for (std::uint32_t t = 0; t < asked->tensor_count; ++t)
      stored.push_back(static_cast<const std::byte*>(asked->tensors[t].data));
    std::mt19937_64 random(std::random_device{}());
    const verify_data::Judged judged = verify_data::judge(workload, stored, most_rows, random);
    for (std::size_t t = 0; t < verify_data::tensors.size(); ++t)
      if (verify_data::tensors[t].output) *ratios++ = judged.errors[t].ratio();
    return judged.rows;
  } catch (const std::exception& error) {
    error_text = error.what();
    return -1;
  }
}

const char* cultivar_reference_last_error() { return error_text.c_str(); }
}

// The task's oracle as a shared library, for the test in pytorch/: computes the error of a kernel's outputs.
#include "check.hpp"

#include "../contender/asked.hpp"

namespace {
std::string error_text;
}

extern "C" {

// The tensors are in host memory, with the outputs of the kernel. Sets one ratio for each output: its error relative to
// the task's bound; above 1 means wrong. Compares all rows, or `most_rows` random ones. Returns the number of compared
// rows, or -1 on an error.
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

// Computes the derived inputs in the memory of their tensors from the other inputs. Returns 0, or -1 on an error.
std::int64_t cultivar_reference_derive(const cultivar_contender_workload* asked) {
  try {
    std::vector<std::byte*> places;
    for (std::uint32_t t = 0; t < asked->tensor_count; ++t)
      places.push_back(static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(asked->tensors[t].data))));
    verify_data::derive_inputs(asked_workload(*asked), places);
    return 0;
  } catch (const std::exception& error) {
    error_text = error.what();
    return -1;
  }
}

const char* cultivar_reference_last_error() { return error_text.c_str(); }
}

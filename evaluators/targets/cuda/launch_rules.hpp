// What a plan and a cubin must agree on before anything is launched, as far as it can be told without a GPU.
#pragma once

#include <filesystem>

#include "evaluators/targets/cuda/cubin.hpp"
#include "evaluators/variant/variant.hpp"

namespace cultivar {

// More than the 8 blocks that every card of its kind can place: the launch must ask for it
// (CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) and a card may still refuse it.
bool cluster_is_portable(const PlannedKernel&);

// Bytes that an argument takes in the kernel's parameter list: 8 for a pointer, 128 for a tensor map.
std::size_t argument_bytes(const PlannedArgument&);

// Arguments fit the kernel's parameters in number and size; block, cluster, registers and shared memory
// (static and dynamic together) are within what the code was compiled for and the card has. How many blocks
// of a cooperative launch are resident at once is known on the card alone. The Error names kernel, number,
// limit and remedy.
Expected<void> check_launch(const CubinKernel&, const PlannedKernel&, const Facts&);
// The same for a whole plan; every kernel must be in the cubin.
Expected<void> check_launches(const Cubin&, const Plan&, const Facts&);

// The same for a cubin in a file, as far as it holds on every card of its architecture; a file that is not
// there, or a plan that depends on the card, is left to the card.
Expected<void> check_launches(const std::filesystem::path& cubin, const Variant&, const Task&,
                              const Workload&, const std::string& architecture);

}  // namespace cultivar

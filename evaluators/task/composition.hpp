// SPDX-License-Identifier: Apache-2.0
// Secret compositions: values of whole tensors that combine distributions, where a mixture (mixture.hpp)
// plants patterns over ordinary ones. Shifts, mirrors and scales of stress cases; calm values and then a late
// outlier; magnitudes over the range of a dtype; ties; rows far below zero.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluators/task/task.hpp"

namespace cultivar {

// How far values may lie from those of the task's fills: every order of magnitude of the dtype, few of them,
// or hardly any.
inline constexpr int kMostStrength = 3;

// What two tensors are together, for whoever asks whether a kernel's mistake with it would show.
struct JointChange {
  enum class Kind {
    none,
    hidden,             // something is very large where the other tensor should make it nothing
    weighty,            // something is very small, and should be something times the other tensor
  } kind = Kind::none;  // told
  // Asked for: the counterpart, in which what is hidden is not large, or what is weighty is 0. Outputs should
  // be as before, or not.
  bool counterpart = false;
};

// Replaces the floating inputs' values, those of tensors whose fill is normal, spread or uniform; values of a
// uniform fill stay in its range. `headroom`: by how many powers of two everything that is large is larger
// still; whoever wants values that a sound computation in f32 can bear asks whether it bears those with some
// headroom, and takes those without. The same seed gives the same composition. `inputs`: the bytes of the
// task's inputs, in order; derived ones are left alone. Returns a description, one line for each change;
// empty if nothing was changed. `kind`: the change that comes first, of kCompositionKinds; none: any.
// `thresholds`: sizes of values at which a kernel may do something else; half of the changes are about as
// large as one of them.
inline constexpr int kCompositionKinds = 20;
// Of these, those that show in a long sum what is left out of each of its elements.
inline constexpr int kLongKinds[] = {16, 17};
// And those of two tensors.
inline constexpr int kJointKinds[] = {18, 19};
// `joint`: see there.
std::string compose_values(const Task&, const Workload&, std::uint64_t seed, int strength, int headroom,
                           std::span<std::vector<std::byte>> inputs, std::optional<int> kind = {},
                           std::span<const double> thresholds = {}, JointChange* joint = nullptr);

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// Which shapes a variant is timed and checked on, and what must be compiled for them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "evaluators/judge/requests.hpp"

namespace cultivar {

// The set that the user names, or the default set of a target. Throws InputError.
const WorkloadSet& choose_workloads(const Task&, const std::string& set, Target);
// Those that the variant claims.
std::vector<Workload> claimed(const Variant&, const Task&, const std::vector<Workload>&);

// The task's shapes for smoke, sweep, stress or edge, in each dtype of the target.
std::vector<Workload> check_shapes(const Task&, Stage, Target);
// The check shapes that the variant claims.
std::vector<Workload> claimed_shapes(const Task&, Stage, const Variant&);
// Those of sweep and edge, near which others are drawn.
std::vector<Workload> small_listed(const Task&, const Variant&);
// The holdout workloads that the variant claims: from the target's own set ("cpu_holdout") if the task has
// one, otherwise from "holdout".
std::vector<Workload> holdout_workloads(const Task&, const Variant&);
// The stress shapes of the workloads' dtypes that the variant claims; errors are measured on the first
// `most_shapes_for_errors` of those that it is compiled for. No workloads: those of every dtype.
std::vector<Workload> shapes_for_errors(const Task&, const Variant&, const std::vector<Workload>&);
inline constexpr std::size_t most_shapes_for_errors = 2;
// All check shapes and the holdout workloads of a target, whether claimed or not.
std::vector<Workload> listed_shapes(const Task&, Target);
// Every check shape and every workload of every set, whatever the target.
void for_each_listed(const Task&, const std::function<void(const Workload&)>&);
// All check shapes and workloads that the variant claims, on which it must be correct before it may become
// the best, in addition to those that are timed.
std::vector<Workload> every_claimed_shape(const Task&, const Variant&);
// Every macro assignment to compile, without duplicates; the one that smoke needs comes first.
std::vector<std::vector<std::string>> macro_assignments(const Task&, const Variant&,
                                                        const std::vector<Workload>&, Breadth);

// Whether a stress case may be used on a shape that no file lists: its whole numbers, such as indices, must
// not lie beyond those of the task's own fills there.
bool applies(const Task&, const StressCase&, const Workload&);

// What the device would reject (a constraint, a plan) among the check shapes and holdout workloads that the
// variant claims. A search compiles and runs some of them only to confirm a kernel, which would be late to
// find it. nullopt: nothing, as far as these facts show.
std::optional<Evaluation> illegal_on_check_shapes(const Task&, const Variant&, const Facts&);

// Whether a variant may run on a shape: its constraints hold there, and it has a plan.
bool is_legal(const Variant&, const Task&, const Workload&, const Facts&);
// Checks that constraints hold and that every expression of the manifest has a launchable value.
tl::expected<Plan, Evaluation> legal_plan(const Variant&, const Task&, const Workload&, const Facts&,
                                          const std::string& where);

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/timing/stretches.hpp"

#include <algorithm>

#include "evaluators/check/oracle.hpp"
#include "evaluators/system/secret.hpp"

namespace cultivar {

void Stretches::renew(std::uint64_t seed) {
  seed_ = seed;
  for (Kept& kept : kept_) {
    kept.fresh = false;
    kept.round = 0;
  }
}

Stretches::Kept& Stretches::find(const TensorSpec& tensor, Dtype dtype) {
  for (Kept& kept : kept_)
    if (kept.tensor == tensor.name && kept.fill == tensor.fill && kept.stretch->dtype == dtype) return kept;
  Kept& kept = kept_.emplace_back();
  kept.tensor = tensor.name;
  kept.fill = tensor.fill;
  kept.stretch = std::make_shared<Stretch>();
  kept.stretch->dtype = dtype;
  return kept;
}

void Stretches::draw(Kept& kept, std::int64_t elements) {
  const Dtype dtype = kept.stretch->dtype;
  elements = std::max(elements, kept.stretch->elements());
  if (kept.stretch.use_count() > 1) {  // the old contents are still being read
    kept.stretch = std::make_shared<Stretch>();
    kept.stretch->dtype = dtype;
  }
  Stretch& stretch = *kept.stretch;
  const std::uint64_t seed = derive_seed(seed_, "stretch of " + kept.tensor, kept.round++);
  stretch.id = derive_seed(seed, name_of(dtype), static_cast<std::uint64_t>(elements)) | 1u;
  stretch.bytes.resize(static_cast<std::size_t>(elements) * size_of(dtype));
  stretch.values.resize(static_cast<std::size_t>(elements));
  const std::vector<std::int64_t> line = {elements};
  fill_tensor(kept.fill, seed, line, dtype, stretch.bytes);
  decode_all(dtype, stretch.bytes, stretch.values);
  kept.fresh = true;
}

std::shared_ptr<const Stretch> Stretches::get(const TensorSpec& tensor, Dtype dtype, std::int64_t elements) {
  Kept& kept = find(tensor, dtype);
  if (!kept.fresh || kept.stretch->elements() < elements) draw(kept, elements);
  return kept.stretch;
}

std::shared_ptr<const Stretch> Stretches::another(const TensorSpec& tensor, Dtype dtype,
                                                  std::int64_t elements) {
  Kept& kept = find(tensor, dtype);
  draw(kept, elements);
  return kept.stretch;
}

}  // namespace cultivar

#include "evaluators/timing/input_pool.hpp"

#include <algorithm>
#include <cstring>

#include "evaluators/check/secret.hpp"

namespace cultivar {
namespace {

// Below this a stretch has too few windows, and drawing anew costs nothing.
constexpr std::int64_t kLeastWindowed = 4096;
// How much longer than its tensor a stretch is at the most: enough places to start.
constexpr std::int64_t kSlack = std::int64_t{1} << 21;

bool independent(Fill::Kind kind) {
  return kind == Fill::Kind::normal || kind == Fill::Kind::uniform || kind == Fill::Kind::spread;
}

}  // namespace

InputPool::InputPool(const Task& task, const Workload& workload, std::uint64_t seed)
    : seed_(seed), stream_(derive_seed(seed, "windows")) {
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    Stretch s;
    s.spec = &tensor;
    s.dtype = task.dtype(tensor, workload);
    s.shape = task.shape(tensor, workload);
    s.elements = 1;
    for (const std::int64_t extent : s.shape) s.elements *= extent;
    if (!s.shape.empty()) s.innermost = s.shape.back();
    s.windowed = s.elements >= kLeastWindowed && independent(tensor.fill.kind);
    if (s.windowed) {
      s.slack = std::min(s.elements, kSlack);
      s.decoded.resize(static_cast<std::size_t>(s.elements + s.slack));
      s.bytes.resize(s.decoded.size() * size_of(s.dtype));
      draw(s, derive_seed(seed, tensor.name));
    } else {
      s.decoded.resize(static_cast<std::size_t>(s.elements));
    }
    bytes_.emplace_back(static_cast<std::size_t>(s.elements) * size_of(s.dtype));
    stretches_.push_back(std::move(s));
  }
  values_.resize(stretches_.size());
  next();
}

void InputPool::draw(Stretch& s, std::uint64_t seed) {
  const std::vector<std::int64_t> line = {s.elements + s.slack};
  fill_tensor(s.spec->fill, seed, line, s.dtype, s.bytes);
  decode(s.dtype, s.bytes, s.decoded);
}

void InputPool::next() {
  ++runs_;
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    Stretch& s = stretches_[i];
    if (!s.windowed) {
      fill_tensor(s.spec->fill, derive_seed(seed_, s.spec->name, runs_), s.shape, s.dtype, bytes_[i]);
      decode(s.dtype, bytes_[i], s.decoded);
      values_[i] = s.decoded.data();
      continue;
    }
    // An offset that is congruent to an earlier one modulo the innermost extent would bring whole rows back.
    // When the residues are spent, a new stretch is drawn.
    std::int64_t offset = 0;
    bool found = false;
    for (int attempt = 0; attempt < 64 && !found; ++attempt) {
      offset = static_cast<std::int64_t>(stream_() % static_cast<std::uint64_t>(s.slack + 1));
      found = s.used.insert(s.innermost > 1 ? offset % s.innermost : offset).second;
    }
    if (!found) {
      draw(s, derive_seed(seed_, s.spec->name, runs_));
      s.used = {s.innermost > 1 ? offset % s.innermost : offset};
    }
    const std::size_t element = size_of(s.dtype);
    std::memcpy(bytes_[i].data(), s.bytes.data() + static_cast<std::size_t>(offset) * element,
                bytes_[i].size());
    values_[i] = s.decoded.data() + offset;
  }
}

}  // namespace cultivar

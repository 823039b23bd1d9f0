#include "evaluators/timing/input_pool.hpp"

#include <algorithm>

#include "evaluators/system/secret.hpp"

namespace cultivar {
namespace {

// A shorter stretch has too few windows; drawing new inputs is cheap at this size.
constexpr std::int64_t kLeastWindowed = 4096;
// The maximum by which a stretch is longer than its tensor: enough starting positions.
constexpr std::int64_t kSlack = std::int64_t{1} << 21;

bool independent(Fill::Kind kind) {
  return kind == Fill::Kind::normal || kind == Fill::Kind::uniform || kind == Fill::Kind::spread;
}

}  // namespace

InputPool::InputPool(const Task& task, const Workload& workload, std::uint64_t seed,
                     std::shared_ptr<Stretches> stretches)
    : seed_(seed),
      stream_(derive_seed(seed, "windows")),
      stretches_(stretches ? std::move(stretches)
                           : std::make_shared<Stretches>(derive_seed(seed, "stretches"))) {
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    Input input;
    input.spec = &tensor;
    input.dtype = task.dtype(tensor, workload);
    input.shape = task.shape(tensor, workload);
    input.elements = 1;
    for (const std::int64_t extent : input.shape) input.elements *= extent;
    if (!input.shape.empty()) input.innermost = input.shape.back();
    input.windowed = input.elements >= kLeastWindowed && independent(tensor.fill.kind);
    if (input.windowed) {
      input.slack = std::min(input.elements, kSlack);
      input.stretch = stretches_->get(tensor, input.dtype, input.elements + input.slack);
    } else {
      input.bytes.resize(static_cast<std::size_t>(input.elements) * size_of(input.dtype));
      input.decoded.resize(static_cast<std::size_t>(input.elements));
    }
    parts_.push_back(std::move(input));
  }
  values_.resize(parts_.size());
  stored_.resize(parts_.size());
  next();
}

// An offset that is congruent to an earlier one modulo the innermost extent would repeat whole rows. When all
// residues are used, a new stretch is drawn.
std::int64_t InputPool::new_offset(Input& input) {
  std::int64_t offset = 0;
  for (int attempt = 0; attempt < 64; ++attempt) {
    offset = static_cast<std::int64_t>(stream_() % static_cast<std::uint64_t>(input.slack + 1));
    if (input.used.insert(input.innermost > 1 ? offset % input.innermost : offset).second) return offset;
  }
  input.stretch.reset();  // so that its memory can be reused
  input.stretch = stretches_->another(*input.spec, input.dtype, input.elements + input.slack);
  input.used = {input.innermost > 1 ? offset % input.innermost : offset};
  return offset;
}

void InputPool::next() {
  ++runs_;
  std::vector<RunInput> inputs;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Input& input = parts_[i];
    if (!input.windowed) {
      fill_tensor(input.spec->fill, derive_seed(seed_, input.spec->name, runs_), input.shape, input.dtype,
                  input.bytes);
      decode(input.dtype, input.bytes, input.decoded);
      values_[i] = input.decoded.data();
      stored_[i] = input.bytes.data();
      inputs.push_back({input.bytes});
      continue;
    }
    const std::int64_t offset = new_offset(input);
    const std::size_t width = size_of(input.dtype);
    const std::span<const std::byte> whole = input.stretch->bytes;
    inputs.push_back({whole.subspan(static_cast<std::size_t>(offset) * width,
                                    static_cast<std::size_t>(input.elements) * width),
                      input.stretch->id, whole});
    values_[i] = input.stretch->values.data() + offset;
    stored_[i] = inputs.back().bytes.data();
  }
  inputs_ = RunInputs(std::move(inputs));
}

}  // namespace cultivar

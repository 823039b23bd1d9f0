// SPDX-License-Identifier: Apache-2.0
#include "evaluators/timing/input_pool.hpp"

#include <algorithm>
#include <stdexcept>

#include "evaluators/system/secret.hpp"

namespace cultivar {
namespace {

// A shorter stretch has too few windows; drawing new inputs is cheap at this size.
constexpr std::int64_t kLeastWindowed = 4096;
// The maximum by which a stretch is longer than its tensor: enough starting positions.
constexpr std::int64_t kSlack = std::int64_t{1} << 21;

// Any window of a stretch is then a possible tensor, of any workload.
bool independent(const Fill& fill) {
  return (fill.kind == Fill::Kind::normal || fill.kind == Fill::Kind::uniform ||
          fill.kind == Fill::Kind::spread) &&
         !fill.a_of && !fill.b_of;
}

}  // namespace

InputSource input_source_of(const Device& device) {
  return device.keeps_stretches() ? InputSource::windows : InputSource::drawn;
}

InputPool::InputPool(const Task& task, const Workload& workload, std::uint64_t seed,
                     std::shared_ptr<Stretches> stretches, std::shared_ptr<const Inputs> kept)
    : seed_(seed),
      stream_(derive_seed(seed, "windows")),
      stretches_(stretches ? std::move(stretches)
                           : std::make_shared<Stretches>(derive_seed(seed, "stretches"))),
      memory_(std::make_shared<InputMemory>()),
      kept_(std::move(kept)) {
  describe_inputs(task, workload);
}

InputPool::InputPool(const Task& task, const Workload& workload, std::uint64_t seed,
                     std::shared_ptr<InputMemory> memory, std::shared_ptr<const Inputs> kept)
    : seed_(seed), memory_(std::move(memory)), kept_(std::move(kept)) {
  describe_inputs(task, workload);
}

void InputPool::describe_inputs(const Task& task, const Workload& workload) {
  if (task.derived && !kept_)
    throw std::logic_error("a pool has no derived inputs for a task that needs them");
  for (const TensorSpec& tensor : task.tensors) {
    if (tensor.role != Role::input) continue;
    Input input;
    input.kept =
        task.derived && (task.is_derived(tensor.name) || std::ranges::count(task.derived->from, tensor.name));
    input.spec = &tensor;
    input.dtype = task.dtype(tensor, workload);
    input.shape = task.shape(tensor, workload);
    input.elements = 1;
    for (const std::int64_t extent : input.shape) input.elements *= extent;
    if (!input.shape.empty()) input.innermost = input.shape.back();
    input.windowed =
        stretches_ && input.elements >= kLeastWindowed && independent(tensor.fill) && !input.kept;
    if (input.kept) {
      // Nothing to prepare.
    } else if (input.windowed) {
      input.slack = std::min(input.elements, kSlack);
      input.stretch = stretches_->get(tensor, input.dtype, input.elements + input.slack);
    } else {
      input.drawn.emplace(task.fill(tensor.fill, workload), derive_seed(seed_, "tables of " + tensor.name));
    }
    parts_.push_back(std::move(input));
  }
  values_.resize(parts_.size());
  stored_.resize(parts_.size());
  next();
}

void InputPool::check_memory() const {
  if (memory_->draws != draw_)
    throw std::logic_error("the inputs of a pool were read after another pool had drawn into its memory");
}

InputView InputPool::view() const {
  check_memory();
  return {values_, stored_};
}

const RunInputs& InputPool::inputs() const {
  check_memory();
  return inputs_;
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
  draw_ = ++memory_->draws;
  if (memory_->tensors.size() < parts_.size()) memory_->tensors.resize(parts_.size());
  std::vector<RunInput> inputs;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Input& input = parts_[i];
    if (input.kept) {
      values_[i] = kept_->values[i];
      stored_[i] = kept_->stored[i];
      inputs.push_back({kept_->bytes[i]});
      continue;
    }
    if (!input.windowed) {
      InputMemory::Tensor& memory = memory_->tensors[i];
      const auto count = static_cast<std::size_t>(input.elements);
      // Never smaller again: the memory is reused by inputs of other sizes.
      if (memory.values.size() < count) memory.values.resize(count);
      if (memory.bytes.size() < count * size_of(input.dtype))
        memory.bytes.resize(count * size_of(input.dtype));
      const std::span<std::byte> bytes(memory.bytes.data(), count * size_of(input.dtype));
      input.drawn->draw(derive_seed(seed_, input.spec->name, runs_), input.shape, input.dtype, bytes,
                        std::span(memory.values).first(count));
      values_[i] = memory.values.data();
      stored_[i] = bytes.data();
      inputs.push_back({bytes});
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

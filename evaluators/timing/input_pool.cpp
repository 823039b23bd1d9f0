// SPDX-License-Identifier: Apache-2.0
#include "evaluators/timing/input_pool.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <stdexcept>

#include "evaluators/system/random.hpp"

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

namespace {

// Two tables of this many floats fit in a second-level cache.
constexpr std::size_t kTable = std::size_t{1} << 15;
// The elements for which places and angle are drawn. A shorter block costs more.
constexpr std::size_t kBlock = 1024;
// fill_tensor costs 5 ns for a normal element, which is little for so few.
constexpr std::size_t kLeast = 8 * kBlock;
// Of a tensor, what one thread draws at a time.
constexpr std::size_t kGrain = 64 * kBlock;

}  // namespace

DrawnValues::DrawnValues(const Fill& fill, std::uint64_t seed) : fill_(fill) {
  Fill standard{fill.kind, 0.0, 1.0, -1};
  if (fill.kind != Fill::Kind::normal && fill.kind != Fill::Kind::uniform) return;
  tables_.resize(2 * kTable);
  const std::array<std::int64_t, 1> line{static_cast<std::int64_t>(tables_.size())};
  fill_tensor(standard, derive_seed(seed, "tables"), line, Dtype::f32,
              std::as_writable_bytes(std::span(tables_)));
}

void DrawnValues::block(std::uint64_t seed, std::uint64_t number, std::span<float> out) const {
  const std::uint64_t places = derive_seed(seed, "places", number),
                      angles = derive_seed(seed, "angle", number);
  const float* const first = tables_.data() + places % (kTable - kBlock);
  const float* const second = tables_.data() + kTable + (places >> 32) % (kTable - kBlock);
  const auto a = static_cast<float>(fill_.a), b = static_cast<float>(fill_.b);
  std::array<float, kBlock> block;
  if (fill_.kind == Fill::Kind::uniform) {
    for (std::size_t i = 0; i < kBlock; ++i) {
      const float sum = first[i] + second[i];
      block[i] = a + (b - a) * (sum >= 1.0f ? sum - 1.0f : sum);
    }
  } else {
    // In every quadrant, but not near an axis, where a value would be almost that of one table.
    const double unit = static_cast<double>(angles >> 11) * 0x1p-53;
    const double angle = std::numbers::pi * (0.125 + 0.25 * unit + 0.5 * static_cast<double>(angles & 3u));
    const float c = b * static_cast<float>(std::cos(angle)), s = b * static_cast<float>(std::sin(angle));
    for (std::size_t i = 0; i < kBlock; ++i) block[i] = a + c * first[i] + s * second[i];
  }
  std::copy_n(block.begin(), out.size(), out.begin());
}

void DrawnValues::draw(std::uint64_t seed, std::span<const std::int64_t> shape, Dtype dtype,
                       std::span<std::byte> out, std::span<double> values) const {
  const std::size_t width = size_of(dtype), count = out.size() / width;
  if (tables_.empty() || count < kLeast) {
    fill_tensor(fill_, seed, shape, dtype, out);
    return decode(dtype, out, values);
  }
  const auto part = [&](std::size_t begin, std::size_t end) {
    std::array<float, kBlock> floats;
    for (std::size_t i = begin; i < end; i += kBlock) {
      const std::size_t some = std::min(kBlock, end - i);
      const std::span<double> exact = values.subspan(i, some);
      const std::span<std::byte> stored = out.subspan(i * width, some * width);
      block(seed, i / kBlock, std::span(floats).first(some));
      std::copy_n(floats.begin(), some, exact.begin());
      if (dtype == Dtype::f32) {
        std::memcpy(stored.data(), floats.data(), stored.size());
      } else {
        encode(dtype, exact, stored);
        decode(dtype, stored, exact);
      }
    }
  };
  if (count <= 2 * kGrain) return part(0, count);
  tbb::parallel_for(std::size_t{0}, (count + kGrain - 1) / kGrain,
                    [&](std::size_t i) { part(i * kGrain, std::min(count, (i + 1) * kGrain)); });
}

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

// Computes the error of outputs against the task's fp64 oracle, relative to the task's error bound.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <thread>

#include "../attention_forward.hpp"

#include "data.hpp"

extern "C" void reference_row(const ReferenceArgs&, std::int64_t row, double* out);
// Null if the task allows no rounding.
extern "C" void reference_row_rounded(const ReferenceArgs&, std::int64_t row, double* out) __attribute__((weak));
// Null if the task has no derived inputs.
extern "C" void derive_row(const ReferenceArgs&, std::int64_t row, double* out) __attribute__((weak));

namespace verify_data {

struct Errors {
  double max_error = 0, sum_error = 0, max_legal = 0, sum_legal = 0, sum_square = 0;
  std::int64_t count = 0, broken = 0;
  std::int64_t open = 0, lost = 0, spilled = 0;  // not finite: by the oracle, there only, in the output only

  void add(double got, double want, double legal) {
    ++count;
    if (!std::isfinite(want) || !std::isfinite(got)) {
      const bool same = std::isnan(want) ? std::isnan(got) : got == want;
      broken += !same;
      open += !std::isfinite(want);
      lost += std::isfinite(got);
      spilled += std::isfinite(want);
      return;
    }
    const double error = std::abs(got - want), allowed = std::isfinite(legal) ? std::abs(legal - want) : 0.0;
    max_error = std::max(max_error, error);
    max_legal = std::max(max_legal, allowed);
    sum_error += error * error;
    sum_legal += allowed * allowed;
    sum_square += want * want;
  }
  void add(const Errors& other) {
    max_error = std::max(max_error, other.max_error);
    max_legal = std::max(max_legal, other.max_legal);
    sum_error += other.sum_error;
    sum_legal += other.sum_legal;
    sum_square += other.sum_square;
    count += other.count;
    broken += other.broken;
    open += other.open;
    lost += other.lost;
    spilled += other.spilled;
  }
  double floor() const { return floor_eps * epsilon * std::sqrt(sum_square / double(std::max<std::int64_t>(count, 1))); }
  double ratio() const {  // > 1: outside the bound
    if (broken) return std::numeric_limits<double>::infinity();
    const double n = double(std::max<std::int64_t>(count, 1)), tiny = 1e-300;
    return std::max(max_error / (factor * max_legal + floor() + tiny),
                    std::sqrt(sum_error / n) / (factor * std::sqrt(sum_legal / n) + floor() + tiny));
  }
};

// work(thread, item) for all items, on all cores.
inline void in_parallel(std::int64_t items, const std::function<void(int, std::int64_t)>& work, int threads) {
  std::atomic<std::int64_t> next{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (std::int64_t i = next++; i < items; i = next++) work(t, i);
    });
  for (auto& thread : all) thread.join();
}

inline std::vector<std::int64_t> shape_of(const Tensor& tensor, const Workload& workload) {
  std::vector<std::int64_t> shape;
  for (const char* name : tensor.shape) shape.push_back(std::int64_t(workload.number(name)));
  return shape;
}

inline std::size_t elements_of(const Tensor& tensor, const Workload& workload) {
  std::size_t elements = 1;
  for (auto extent : shape_of(tensor, workload)) elements *= std::size_t(extent);
  return elements;
}

// Calls work(first element, count) for pieces of a tensor, on all cores.
inline void in_pieces(std::size_t elements, const std::function<void(std::size_t, std::size_t)>& work, int threads) {
  constexpr std::size_t piece = 1 << 18;
  in_parallel(
      std::int64_t((elements + piece - 1) / piece),
      [&](int, std::int64_t p) {
        const std::size_t first = std::size_t(p) * piece;
        work(first, std::min(piece, elements - first));
      },
      threads);
}

// Compares one row of every output with the oracle's. The workload and the tensors must outlive it.
class RowCheck {
 public:
  RowCheck(const Workload& workload, const std::vector<const std::byte*>& stored, int threads)
      : stored_(stored) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      shapes_.push_back(shape_of(tensors[t], workload));
      auto& values = exact_.emplace_back();
      if (tensors[t].output) continue;
      values.resize(elements_of(tensors[t], workload));
      const std::size_t size = cultivar::size_of(tensors[t].dtype);
      in_pieces(
          values.size(),
          [&](std::size_t first, std::size_t count) {
            cultivar::decode(tensors[t].dtype, {stored[t] + first * size, count * size},
                             {values.data() + first, count});
          },
          threads);
    }
    for (std::size_t t = 0; t < tensors.size(); ++t)
      if (!tensors[t].output)
        inputs_.push_back({tensors[t].name, exact_[t].data(), shapes_[t].data(), int(shapes_[t].size())});
    for (std::size_t t = 0; t < tensors.size(); ++t)
      if (tensors[t].output) add_output(t, workload);
  }
  RowCheck(const RowCheck&) = delete;

  std::int64_t rows() const { return rows_; }

  // Computes the derived inputs, whose memory is `places[tensor]`, from the others.
  void derive(const Workload& workload, const std::vector<std::byte*>& places, int threads) const {
    Group group;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (!tensors[t].derived) continue;
      group.outputs.push_back(t);
      group.elements += std::int64_t(elements_of(tensors[t], workload));
    }
    if (group.outputs.empty()) return;
    std::int64_t rows = 1;
    for (const char* name : tensors[group.outputs.front()].rows) {
      group.extents.push_back(std::int64_t(workload.number(name)));
      rows *= group.extents.back();
    }
    const ReferenceArgs args{inputs_.data(), int(inputs_.size()), workload.numbers.data(), int(workload.numbers.size()),
                             round_to_dtype, tensors[group.outputs.front()].name};
    in_parallel(
        rows,
        [&](int, std::int64_t row) {
          std::vector<double> values(std::size_t(group.elements / rows));
          derive_row(args, row, values.data());
          place(group, row, [&](std::size_t t, std::size_t at, std::size_t value) {
            const std::size_t size = cultivar::size_of(tensors[t].dtype);
            cultivar::encode(tensors[t].dtype, {&values[value], 1}, {places[t] + at * size, size});
          });
        },
        threads);
  }

  void compare(std::int64_t row, std::vector<Errors>& errors) const {
    const Group* group = &groups_.front();
    for (const Group& each : groups_)
      if (row >= each.first) group = &each;
    row -= group->first;
    std::vector<double> want(static_cast<std::size_t>(group->elements));
    reference_row(group->reference, row, want.data());
    std::vector<double> legal = want;
    if (reference_row_rounded != nullptr) reference_row_rounded(group->reference, row, legal.data());
    place(*group, row, [&](std::size_t t, std::size_t at, std::size_t value) {
      errors[t].add(element(t, at), want[value], legal[value]);
    });
  }

 private:
  // Outputs with the same row dimensions; the rows of all groups follow each other.
  struct Group {
    std::vector<std::size_t> outputs;
    std::vector<std::int64_t> extents;
    std::int64_t first = 0, elements = 0;
    ReferenceArgs reference{};
  };

  // use(tensor, element, index of its value) for the elements of a row: tensors in order, free dimensions outermost first.
  template <class Use>
  void place(const Group& group, std::int64_t row, const Use& use) const {
    std::vector<std::int64_t> index(group.extents.size());
    for (std::int64_t rest = row, d = std::int64_t(index.size()) - 1; d >= 0; --d) {
      index[std::size_t(d)] = rest % group.extents[std::size_t(d)];
      rest /= group.extents[std::size_t(d)];
    }
    std::size_t at = 0;
    for (const std::size_t t : group.outputs) {
      const auto& shape = shapes_[t];
      std::vector<std::int64_t> place(shape.size(), 0);
      std::vector<std::size_t> free_dimensions;
      std::int64_t free_elements = 1;
      for (std::size_t d = 0; d < place.size(); ++d) {
        bool fixed = false;
        for (std::size_t r = 0; r < tensors[t].rows.size(); ++r)
          if (std::strcmp(tensors[t].shape[d], tensors[t].rows[r]) == 0) place[d] = index[r], fixed = true;
        if (!fixed) free_dimensions.push_back(d), free_elements *= shape[d];
      }
      for (std::int64_t e = 0; e < free_elements; ++e, ++at) {
        std::int64_t rest = e;
        for (std::size_t f = free_dimensions.size(); f-- > 0;) {
          place[free_dimensions[f]] = rest % shape[free_dimensions[f]];
          rest /= shape[free_dimensions[f]];
        }
        std::int64_t offset = 0;
        for (std::size_t d = 0; d < place.size(); ++d) offset = offset * shape[d] + place[d];
        use(t, std::size_t(offset), at);
      }
    }
  }

  static bool same(const std::vector<const char*>& a, const std::vector<const char*>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const char* x, const char* y) { return std::strcmp(x, y) == 0; });
  }

  void add_output(std::size_t t, const Workload& workload) {
    const Tensor& tensor = tensors[t];
    Group* group = nullptr;
    for (Group& each : groups_)
      if (same(tensors[each.outputs.front()].rows, tensor.rows)) group = &each;
    if (group == nullptr) {
      group = &groups_.emplace_back();
      group->first = rows_;
      std::int64_t rows = 1;
      for (const char* name : tensor.rows) {
        group->extents.push_back(std::int64_t(workload.number(name)));
        rows *= group->extents.back();
      }
      rows_ += rows;
      group->reference = {inputs_.data(), int(inputs_.size()), workload.numbers.data(), int(workload.numbers.size()),
                          round_to_dtype, tensor.name};
    }
    group->outputs.push_back(t);
    std::int64_t elements = 1;
    for (const char* name : tensor.shape)
      if (std::none_of(tensor.rows.begin(), tensor.rows.end(),
                       [&](const char* row) { return std::strcmp(row, name) == 0; }))
        elements *= std::int64_t(workload.number(name));
    group->elements += elements;
  }

  double element(std::size_t tensor, std::size_t at) const {
    const std::size_t size = cultivar::size_of(tensors[tensor].dtype);
    double value = 0;
    cultivar::decode(tensors[tensor].dtype, {stored_[tensor] + at * size, size}, {&value, 1});
    return value;
  }

  const std::vector<const std::byte*>& stored_;
  std::vector<std::vector<double>> exact_;  // of inputs
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<ReferenceTensor> inputs_;
  std::vector<Group> groups_;
  std::int64_t rows_ = 0;
};

// Computes the derived inputs among the tensors of a workload from the others.
inline void derive_inputs(const Workload& workload, const std::vector<std::byte*>& places) {
  if (std::none_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) { return tensor.derived; })) return;
  const int threads = std::max(1, int(std::thread::hardware_concurrency()));
  const std::vector<const std::byte*> stored(places.begin(), places.end());
  RowCheck(workload, stored, threads).derive(workload, places, threads);
}

struct Judged {
  std::int64_t rows = 0;
  std::vector<Errors> errors;  // one for each tensor; unused for inputs
};
// Checks all rows, or `most_rows` random ones.
inline Judged judge(const Workload& workload, const std::vector<const std::byte*>& stored, std::int64_t most_rows,
                    std::mt19937_64& random) {
  const int threads = std::max(1, int(std::thread::hardware_concurrency()));
  const RowCheck check(workload, stored, threads);
  Judged judged{std::min(check.rows(), most_rows), std::vector<Errors>(tensors.size())};
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < judged.rows; ++i)
    rows.push_back(judged.rows == check.rows() ? i : std::int64_t(random() % std::uint64_t(check.rows())));
  std::vector<std::vector<Errors>> found(std::size_t(threads), judged.errors);
  in_parallel(
      judged.rows,
      [&](int thread, std::int64_t i) { check.compare(rows[std::size_t(i)], found[std::size_t(thread)]); }, threads);
  for (std::size_t t = 0; t < tensors.size(); ++t)
    for (const auto& each : found) judged.errors[t].add(each[t]);
  return judged;
}

}  // namespace verify_data

// How an input tensor gets its values: a distribution and a secret seed. Deterministic for a seed, whatever
// the number of threads (counter-based), so that the host can re-make any input from (fill, seed, tensor).
#pragma once

#include <cstdint>
#include <span>

#include "evaluators/task/dtype.hpp"

namespace cultivar {

struct Fill {
  enum class Kind {
    normal,     // mean a, standard deviation b
    uniform,    // in [a, b)
    constant,   // every element a (stress only: never the plain fill of a task)
    spread,     // random sign * a * exp(uniform(-b, b)): extreme range
    rising,     // b * normal + a * (index along `axis`) / extent: a running maximum that rises every tile
    one_hot,    // b at one random place along `axis` for each other index, else a: a needle
    same_rows,  // one random row (normal a, b) repeated along `axis`
  };
  Kind kind = Kind::normal;
  double a = 0.0, b = 1.0;
  int axis = -1;  // counts from the end when negative
  friend bool operator==(const Fill&, const Fill&) = default;
};

// `out` gets shape-product elements of `dtype`, rounded to nearest even.
void fill_tensor(const Fill&, std::uint64_t seed, std::span<const std::int64_t> shape, Dtype,
                 std::span<std::byte> out);

}  // namespace cultivar

// Checks the exported kernel on this machine against the task's fp64 oracle, then times it.
//   verify            every workload of the search: rows checked, median of 30 timed runs
//   verify --quick    the same with fewer rows and runs
//   verify --strict   fails also if NaN or infinity in an input does not reach exactly the outputs that it should
#include <cstdio>
#include <exception>

#include "bench.hpp"
#include "check.hpp"

namespace {

using namespace verify_data;

// Along an axis, n + 1 whole numbers from 0 to b in steps of at least a.
std::vector<double> running_sums(std::int64_t n, const Fill& fill, std::mt19937_64& random) {
  const double room = fill.b - fill.a * double(n);
  std::vector<double> at(std::size_t(n) + 1);
  std::uniform_int_distribution<std::int64_t> place(0, std::int64_t(room));
  for (double& each : at) each = double(place(random));
  at.front() = 0;
  if (n > 0) at.back() = room;
  std::sort(at.begin(), at.end());
  for (std::size_t i = 0; i < at.size(); ++i) at[i] += fill.a * double(i);
  return at;
}

// The values of an index tensor.
std::vector<double> whole_numbers(const Fill& fill, const std::vector<std::int64_t>& shape, std::mt19937_64& random) {
  std::int64_t extent = 1, stride = 1, elements = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    elements *= shape[d];
    if (int(d) == fill.axis) extent = shape[d];
    if (int(d) > fill.axis) stride *= shape[d];
  }
  if (fill.axis < 0) extent = elements, stride = 1;
  std::vector<double> values(static_cast<std::size_t>(elements));
  std::uniform_int_distribution<std::int64_t> integer(std::int64_t(fill.a), std::max(std::int64_t(fill.a), std::int64_t(fill.b) - 1));
  std::bernoulli_distribution rare(fill.share);
  for (std::int64_t line = 0; line < elements / extent; ++line) {
    std::vector<double> one(static_cast<std::size_t>(extent));
    if (fill.kind == Kind::integers) {
      for (double& value : one) value = rare(random) ? fill.instead : double(integer(random));
    } else if (fill.kind == Kind::permutation) {
      for (std::size_t i = 0; i < one.size(); ++i) one[i] = fill.a + double(i);
      std::shuffle(one.begin(), one.end(), random);
    } else if (fill.kind == Kind::offsets) {
      one = running_sums(extent - 1, fill, random);
    } else {
      const std::vector<double> ends = running_sums(extent, fill, random);
      for (std::size_t i = 0; i < one.size(); ++i) one[i] = ends[i + 1] - ends[i];
    }
    for (std::int64_t i = 0; i < extent; ++i)
      values[static_cast<std::size_t>(line / stride * stride * extent + line % stride + i * stride)] =
          one[static_cast<std::size_t>(i)];
  }
  return values;
}

// The tensors of one workload, with random inputs.
std::vector<std::vector<std::byte>> random_tensors(const Workload& workload, std::mt19937_64& random) {
  const int threads = std::max(1, int(std::thread::hardware_concurrency()));
  std::vector<std::vector<std::byte>> buffers;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const Tensor& tensor = tensors[t];
    const Fill& fill = workload.fills[t];
    const std::size_t elements = elements_of(tensor, workload), size = cultivar::size_of(tensor.dtype);
    auto& bytes = buffers.emplace_back(elements * size, std::byte{0x7b});  // so that an element that is not written is wrong
    if (tensor.output || tensor.derived) continue;
    const std::uint64_t seed = random();
    if (fill.kind > Kind::uniform) {
      cultivar::encode(tensor.dtype, whole_numbers(fill, shape_of(tensor, workload), random), bytes);
      continue;
    }
    in_pieces(
        elements,
        [&](std::size_t first, std::size_t count) {
          std::mt19937_64 own(seed + first);
          std::normal_distribution<double> normal(fill.a, fill.b);
          std::uniform_real_distribution<double> uniform(fill.a, fill.b);
          std::vector<double> values(count);
          for (double& value : values) value = fill.kind == Kind::uniform ? uniform(own) : normal(own);
          cultivar::encode(tensor.dtype, values, {bytes.data() + first * size, count * size});
        },
        threads);
  }
  std::vector<std::byte*> places;
  for (auto& buffer : buffers) places.push_back(buffer.data());
  derive_inputs(workload, places);
  return buffers;
}

// Whether a NaN or an infinity in an input reaches exactly the outputs that are not finite by the task's formula: with one in
// every twentieth line of each input in turn, on the cheapest workload. Inputs that are computed from others are left alone.
bool spreads_as_it_should(Bench& bench, std::mt19937_64& random) {
  const Workload* workload = &workloads.front();
  for (const Workload& other : workloads)
    if (other.cost < workload->cost) workload = &other;
  const double infinity = std::numeric_limits<double>::infinity();
  bool exactly = true;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const Tensor& tensor = tensors[t];
    if (tensor.output || tensor.derived || !cultivar::is_floating(tensor.dtype)) continue;
    for (const double planted : {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity}) {
      auto buffers = random_tensors(*workload, random);
      const std::size_t line = tensor.shape.empty() ? 1 : std::size_t(shape_of(tensor, *workload).back());
      const std::size_t size = cultivar::size_of(tensor.dtype), elements = elements_of(tensor, *workload);
      for (std::size_t first = random() % 20 * line % elements; first < elements; first += 20 * line)
        cultivar::encode(tensor.dtype, {&planted, 1}, {buffers[t].data() + (first + random() % line) * size, size});
      bench.load(*workload, buffers);
      bench.run();
      bench.fetch(buffers);
      std::vector<const std::byte*> stored;
      for (const auto& buffer : buffers) stored.push_back(buffer.data());
      Errors all;
      for (const Errors& errors : judge(*workload, stored, 256, random).errors) all.add(errors);
      std::printf("%g in %s: %lld of %lld outputs that should not be finite are finite, and %lld others are not\n", planted,
                  tensor.name, (long long)(all.lost), (long long)(all.open), (long long)(all.spilled));
      exactly &= all.lost == 0 && all.spilled == 0;
    }
  }
  return exactly;
}

bool verify(bool quick, bool strict) {
  const int runs = quick ? 9 : 30;
  const std::int64_t most_rows = quick ? 128 : 2048;
  Bench bench;
  std::printf("attention_even_sections %s\n%-40s %8s %10s %12s %12s %24s %10s\n", bench.words().c_str(), "workload", "rows",
              "max error", "error/bound", "median us", "95 % interval", "TFLOPS");
  std::mt19937_64 random(std::random_device{}());
  bool good = true;
  for (const auto& workload : workloads) {
    auto buffers = random_tensors(workload, random);
    bench.load(workload, buffers);
    bench.run();
    bench.fetch(buffers);
    std::vector<const std::byte*> stored;
    for (const auto& buffer : buffers) stored.push_back(buffer.data());
    const Judged judged = judge(workload, stored, most_rows, random);
    double worst = 0, largest = 0;
    for (const Errors& errors : judged.errors) {
      worst = std::max(worst, errors.ratio());
      largest = std::max(largest, errors.max_error);
    }

    std::vector<double> times;
    for (int run = 0; run < runs + 10; ++run) {
      const double us = bench.timed_us();
      if (run >= 10) times.push_back(us);  // the first 10 runs are warm-up
    }
    std::sort(times.begin(), times.end());
    // Distribution-free interval of the median: the order statistics 0.98 sqrt(n) places from the middle.
    const double middle = double(times.size()) / 2, reach = 0.98 * std::sqrt(double(times.size()));
    const auto at = [&](double place) {
      return times[std::size_t(std::clamp(place, 0.0, double(times.size() - 1)))];
    };
    const double median = times[times.size() / 2];
    std::printf("%-40s %8lld %10.3g %12.3f %12.1f %11.1f -%11.1f %10.2f %s\n", workload.name, (long long)(judged.rows),
                largest, worst, median, at(middle - reach), at(middle + reach), workload.cost / median * 1e-6,
                worst <= 1.0 ? bench.kernel() : "WRONG");
    std::fflush(stdout);
    good &= worst <= 1.0;
  }
  const bool spreads = spreads_as_it_should(bench, random);
  std::printf("%s\n", !good              ? "FAILED: wrong results above"
                      : strict && !spreads ? "FAILED: NaN or infinity does not spread as by the task's formula"
                                           : "verified: every checked row is within the task's bound");
  return good && (spreads || !strict);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bool quick = false, strict = false;
    for (int a = 1; a < argc; ++a) {
      quick |= std::strcmp(argv[a], "--quick") == 0;
      strict |= std::strcmp(argv[a], "--strict") == 0;
      if (argv[a] != std::string("--quick") && argv[a] != std::string("--strict")) {
        std::fprintf(stderr,
                     "usage: verify [--quick] [--strict]   checks and times every shape; --quick: fewer rows and runs;\n"
                     "--strict: fails also if NaN or infinity does not spread as by the task's formula\n");
        return 2;
      }
    }
    return verify(quick, strict) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "verify: %s\n", error.what());
    return 3;
  }
}

// Checks the exported kernel on this machine against the task's fp64 oracle, then times it.
//   verify            every workload it was tuned for: rows checked, median of 30 timed runs
//   verify --quick    the same with fewer rows and runs
#include <cstdio>
#include <exception>

#include "bench.hpp"
#include "check.hpp"

namespace {

using namespace verify_data;

// One workload's tensors, inputs at random.
std::vector<std::vector<std::byte>> random_tensors(const Workload& workload, std::mt19937_64& random) {
  const int threads = std::max(1, int(std::thread::hardware_concurrency()));
  std::vector<std::vector<std::byte>> buffers;
  for (const auto& tensor : tensors) {
    const std::size_t elements = elements_of(tensor, workload), size = cultivar::size_of(tensor.dtype);
    auto& bytes = buffers.emplace_back(elements * size, std::byte{0x7b});  // what is not written is wrong
    if (tensor.output) continue;
    const std::uint64_t seed = random();
    in_pieces(
        elements,
        [&](std::size_t first, std::size_t count) {
          std::mt19937_64 own(seed + first);
          std::normal_distribution<double> normal(tensor.a, tensor.b);
          std::uniform_real_distribution<double> uniform(tensor.a, tensor.b);
          std::vector<double> values(count);
          for (double& value : values) value = tensor.uniform ? uniform(own) : normal(own);
          cultivar::encode(tensor.dtype, values, {bytes.data() + first * size, count * size});
        },
        threads);
  }
  return buffers;
}

bool verify(bool quick) {
  const int runs = quick ? 9 : 30;
  const std::int64_t most_rows = quick ? 128 : 2048;
  Bench bench;
  std::printf("attention_one_pass %s\n%-40s %8s %10s %12s %12s %24s %10s\n", bench.words().c_str(), "workload", "rows",
              "max error", "error/bound", "median us", "its 95 % interval", "TFLOPS");
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
      if (run >= 10) times.push_back(us);  // the first are for warming up
    }
    std::sort(times.begin(), times.end());
    // Of the median, whatever the distribution: the order statistics 0.98 sqrt(n) places from the middle.
    const double middle = double(times.size()) / 2, reach = 0.98 * std::sqrt(double(times.size()));
    const auto at = [&](double place) {
      return times[std::size_t(std::clamp(place, 0.0, double(times.size() - 1)))];
    };
    const double median = times[times.size() / 2];
    std::printf("%-40s %8lld %10.3g %12.3f %12.1f %11.1f -%11.1f %10.2f %s\n", workload.name, (long long)(judged.rows),
                largest, worst, median, at(middle - reach), at(middle + reach), workload.cost / median * 1e-6,
                worst <= 1.0 ? "" : "WRONG");
    std::fflush(stdout);
    good &= worst <= 1.0;
  }
  std::printf("%s\n", good ? "verified: every checked row is within the task's bound" : "FAILED: wrong results above");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool quick = argc == 2 && std::strcmp(argv[1], "--quick") == 0;
    if (argc > 1 && !quick) {
      std::fprintf(stderr, "usage: verify [--quick]   checks every shape, and times it; --quick: fewer runs\n");
      return 2;
    }
    return verify(quick) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "verify: %s\n", error.what());
    return 3;
  }
}

#include "evaluators/targets/cuda/launch_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <span>

#include "evaluators/targets/cuda/known_devices.hpp"
#include "evaluators/targets/cuda/tensor_map.hpp"

namespace cultivar {
namespace {

using Three = std::array<std::uint32_t, 3>;

std::uint64_t product(const Three& v) {
  return std::uint64_t{v[0]} * v[1] * v[2];
}
std::string in_words(const Three& v) {
  return fmt::format("[{}, {}, {}]", v[0], v[1], v[2]);
}

double fact(const Facts& facts, const char* name, double otherwise) {
  const auto found = facts.find(name);
  return found == facts.end() ? otherwise : found->second;
}

class Checker {
 public:
  Checker(const CubinKernel& code, const PlannedKernel& plan, const Facts& facts)
      : code_(code), plan_(plan), facts_(facts) {}

  Expected<void> check() {
    check_arguments();
    check_geometry();
    check_resources();
    if (error_.empty()) return {};
    return failure("launch", error_);
  }

 private:
  void fail(const std::string& what) {
    if (error_.empty()) error_ = fmt::format("kernel '{}': {}", plan_.kernel, what);
  }

  void check_arguments() {
    if (code_.parameters.size() != plan_.args.size())
      return fail(fmt::format("it takes {} parameters, but the manifest gives it {} arguments",
                              code_.parameters.size(), plan_.args.size()));
    for (std::size_t i = 0; i < plan_.args.size(); ++i)
      if (const std::size_t bytes = argument_bytes(plan_.args[i]); bytes != code_.parameters[i].bytes)
        fail(fmt::format(
            "parameter {} has {} bytes, but its argument has {} (dimensions are int; {{value: ..., type: "
            "...}} gives another type)",
            i + 1, code_.parameters[i].bytes, bytes));
  }

  void check_geometry() {
    const std::uint64_t threads = product(plan_.block), blocks = product(plan_.cluster);
    constexpr Three block_limit{1024, 1024, 64}, grid_limit{2147483647, 65535, 65535};
    for (std::size_t i = 0; i < 3; ++i) {
      if (plan_.block[i] < 1 || plan_.block[i] > block_limit[i])
        fail(fmt::format("block[{}] is {}; it must be 1 to {}", i, plan_.block[i], block_limit[i]));
      if (plan_.grid[i] < 1 || plan_.grid[i] > grid_limit[i])
        fail(fmt::format("grid[{}] is {}; it must be 1 to {}", i, plan_.grid[i], grid_limit[i]));
      if (plan_.cluster[i] < 1 || plan_.grid[i] % std::max(1u, plan_.cluster[i]) != 0)
        fail(fmt::format("grid[{}] is {}, which is not a multiple of the cluster's {} (round_up it)", i,
                         plan_.grid[i], plan_.cluster[i]));
    }
    if (threads > 1024) fail(fmt::format("a block of {} threads; the limit is 1024", threads));
    if (blocks > 16) fail(fmt::format("a cluster of {} blocks; the limit is 16 (8 is portable)", blocks));
    if (blocks > 1 && fact(facts_, "compute_capability", 90) < 90)
      fail("clusters need compute capability 9.0");
    if (code_.threads_at_most && threads > product(*code_.threads_at_most))
      fail(fmt::format("a block of {} threads, but __launch_bounds__ promises {} at most", threads,
                       product(*code_.threads_at_most)));
    if (code_.threads_exactly && *code_.threads_exactly != plan_.block)
      fail(fmt::format("block is {}, but the code was compiled for exactly {}", in_words(plan_.block),
                       in_words(*code_.threads_exactly)));
    if (code_.cluster_exactly && *code_.cluster_exactly != plan_.cluster)
      fail(fmt::format("cluster is {}, but __cluster_dims__ says {} (give the manifest the same)",
                       in_words(plan_.cluster), in_words(*code_.cluster_exactly)));
  }

  void check_resources() {
    const double most = fact(facts_, "smem_max", 232448);
    const std::uint64_t shared = plan_.shared_bytes + code_.shared_bytes;
    if (static_cast<double>(shared) > most)
      fail(fmt::format("{} bytes of shared memory ({} dynamic, {} static); a block may have {:.0f}", shared,
                       plan_.shared_bytes, code_.shared_bytes, most));
    // The driver sets it aside for every thread that can be resident, before the first launch.
    const double stack = code_.stack_bytes * fact(facts_, "threads_max", 2048) * fact(facts_, "num_sms", 132);
    constexpr double most_stack = 40e9;  // half of the smallest card's memory
    if (stack > most_stack)
      fail(fmt::format(
          "a stack of {} bytes a thread, which for all that can be resident is more than a card's memory "
          "(keep arrays in shared memory, or make them smaller)",
          code_.stack_bytes));
    // Registers are handed out to warps, in units of 256: 8 for each thread.
    const std::uint64_t warps = (product(plan_.block) + 31) / 32,
                        registers = warps * 32 * ((code_.registers + 7) / 8 * 8);
    const double file = fact(facts_, "registers_max", 65536);
    if (static_cast<double>(registers) > file)
      fail(
          fmt::format("{} registers for each of {} threads are {}; a multiprocessor has {:.0f} (say "
                      "__launch_bounds__({}))",
                      code_.registers, warps * 32, registers, file, product(plan_.block)));
  }

  const CubinKernel& code_;
  const PlannedKernel& plan_;
  const Facts& facts_;
  std::string error_;  // the first
};

}  // namespace

bool cluster_is_portable(const PlannedKernel& kernel) {
  return product(kernel.cluster) <= 8;
}

std::size_t argument_bytes(const PlannedArgument& argument) {
  switch (argument.kind) {
    case PlannedArgument::Kind::buffer:
      return 8;
    case PlannedArgument::Kind::tensor_map:
      return tensor_map_bytes;
    case PlannedArgument::Kind::scalar:
      return size_of(argument.type);
    case PlannedArgument::Kind::thread:
    case PlannedArgument::Kind::threads:
      break;  // of the cpu target alone
  }
  return size_of(Dtype::i32);
}

Expected<void> check_launch(const CubinKernel& code, const PlannedKernel& plan, const Facts& facts) {
  return Checker(code, plan, facts).check();
}

Expected<void> check_launches(const Cubin& cubin, const Plan& plan, const Facts& facts) {
  for (const PlannedKernel& kernel : plan.kernels) {
    const CubinKernel* const code = cubin.kernel(kernel.kernel);
    if (code == nullptr)
      return failure("launch", fmt::format("kernel '{}' is not in the machine code", kernel.kernel));
    if (auto done = check_launch(*code, kernel, facts); !done) return done;
  }
  return {};
}

Expected<void> check_launches(const std::filesystem::path& file, const Variant& variant, const Task& task,
                              const Workload& workload, const std::string& architecture) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  const auto cubin = read_cubin(std::as_bytes(std::span(bytes)));
  if (!cubin) return {};
  Expected<void> first;
  for (const KnownDevice& card : known_devices()) {
    if (card.architecture != architecture) continue;
    // Cards of one architecture differ in how many multiprocessors they have: an H100 for PCI has 114.
    for (const double multiprocessors : {card.facts.at("num_sms"), 114.0}) {
      Facts facts = card.facts;
      facts["num_sms"] = multiprocessors;
      const auto plan = make_plan(variant, task, workload, facts);
      if (!plan) return {};
      auto legal = check_launches(*cubin, *plan, facts);
      if (legal || (!first && first.error().message != legal.error().message)) return {};
      first = std::move(legal);
    }
  }
  return first;
}

}  // namespace cultivar

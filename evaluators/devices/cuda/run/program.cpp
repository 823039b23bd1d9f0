// SPDX-License-Identifier: Apache-2.0
#include "evaluators/devices/cuda/run/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "evaluators/devices/cuda/code/cubin.hpp"
#include "evaluators/devices/cuda/code/launch_rules.hpp"
#include "evaluators/devices/cuda/code/tensor_map.hpp"
#include "evaluators/system/files.hpp"

namespace cultivar::cuda {

namespace {

std::optional<Fault> refused(std::string detail) {
  return Fault{Fault::Kind::launch_failed, std::move(detail)};
}

}  // namespace

tl::expected<std::unique_ptr<Program>, Fault> Program::load(Gpu& gpu, const std::filesystem::path& cubin,
                                                            const Plan& plan) {
  const auto code = read_file(cubin);
  if (!code) return tl::make_unexpected(Fault{Fault::Kind::load_failed, code.error().message});
  // A check build is PTX, which the driver translates now. Its ordinary build was looked at like this.
  const bool translated = cubin.extension() == ".ptx";
  // The driver would reject these with an error code only; reject them here with a message.
  const auto cubin_read = translated ? Expected<Cubin>() : read_cubin(std::as_bytes(std::span(*code)), {});
  if (!cubin_read) return tl::make_unexpected(Fault{Fault::Kind::load_failed, cubin_read.error().message});
  const int card = gpu.capability();
  if (!translated && (cubin_read->architecture / 10 != card / 10 || cubin_read->architecture > card))
    return tl::make_unexpected(Fault{Fault::Kind::load_failed,
                                     fmt::format("the kernel was compiled for sm_{}, but this card is sm_{}",
                                                 cubin_read->architecture, card)});
  if (!translated)
    if (const auto legal = check_launches(*cubin_read, plan, gpu.facts()); !legal)
      return tl::make_unexpected(Fault{Fault::Kind::launch_failed, legal.error().message});
  std::unique_ptr<Program> program(new Program(gpu, plan));
  const Driver& driver = gpu.driver();
  if (const Result loaded = driver.ModuleLoadData(&program->module_, code->data());
      loaded != result::success) {
    program->module_ = nullptr;
    Fault fault = gpu.fault_of(loaded, "loading the machine code");
    if (fault.kind == Fault::Kind::launch_failed) fault.kind = Fault::Kind::load_failed;
    return tl::make_unexpected(std::move(fault));
  }
  program->maps_.resize(plan.tensor_maps.size());
  program->kernels_.resize(plan.kernels.size());
  for (std::size_t i = 0; i < plan.kernels.size(); ++i)
    if (auto fault = program->prepare(plan.kernels[i], program->kernels_[i], i == 0))
      return tl::make_unexpected(std::move(*fault));
  for (const PlannedKernel& planned : plan.kernels)
    if (const CubinKernel* const read = cubin_read->kernel(planned.kernel))
      program->local_bytes_ = std::max(program->local_bytes_, read->stack_bytes);
  for (const Kernel& kernel : program->kernels_) {
    int local = 0;
    if (driver.FuncGetAttribute(&local, function_attribute::local_bytes, kernel.function) == result::success)
      program->local_bytes_ = std::max(program->local_bytes_, static_cast<std::uint32_t>(local));
  }
  if (program->local_bytes_ > 0) gpu.prepare_local_scrub(program->local_bytes_);
  return program;
}

Program::~Program() {
  if (module_ != nullptr && !gpu_.lost()) gpu_.driver().ModuleUnload(module_);
}

std::optional<Fault> Program::prepare(const PlannedKernel& planned, Kernel& kernel, bool first) {
  const Driver& driver = gpu_.driver();
  const Geometry g(planned.launch);
  if (driver.ModuleGetFunction(&kernel.function, module_, planned.kernel.c_str()) != result::success)
    return Fault{Fault::Kind::load_failed,
                 fmt::format("kernel '{}' is not in the machine code", planned.kernel)};
  if (driver.FuncLoad != nullptr)
    if (const Result loaded = driver.FuncLoad(kernel.function); loaded != result::success)
      return gpu_.fault_of(loaded, fmt::format("loading kernel '{}'", planned.kernel));
  const auto set = [&](int attribute, int value, const char* what) -> std::optional<Fault> {
    const Result done = driver.FuncSetAttribute(kernel.function, attribute, value);
    if (done == result::success) return std::nullopt;
    return refused(fmt::format("kernel '{}': {} {}: {}", planned.kernel, what, value, driver.words(done)));
  };
  if (g.shared_bytes > 0)
    if (auto fault = set(function_attribute::max_dynamic_shared, static_cast<int>(g.shared_bytes),
                         "dynamic shared memory of"))
      return fault;
  LaunchConfig& config = kernel.config;
  std::copy(g.grid.begin(), g.grid.end(), config.grid);
  std::copy(g.block.begin(), g.block.end(), config.block);
  config.shared_bytes = static_cast<unsigned>(g.shared_bytes);
  config.stream = gpu_.stream();
  if (g.cluster[0] * g.cluster[1] * g.cluster[2] > 1) {
    LaunchAttribute& attribute = kernel.attributes.emplace_back();
    attribute.id = launch_attribute::cluster_dimension;
    std::copy(g.cluster.begin(), g.cluster.end(), attribute.value.dimensions);
    if (!cluster_is_portable(planned))
      if (auto fault = set(function_attribute::nonportable_cluster, 1, "clusters of more than 8 blocks:"))
        return fault;
  }
  if (g.cooperative) {
    if (auto fault = check_residence(planned, kernel.function)) return fault;
    LaunchAttribute& attribute = kernel.attributes.emplace_back();
    attribute.id = launch_attribute::cooperative;
    attribute.value.number = 1;
  }
  // The first kernel has no preceding kernel of the plan to overlap with.
  if (g.programmatic_dependent && !first) {
    LaunchAttribute& attribute = kernel.attributes.emplace_back();
    attribute.id = launch_attribute::programmatic_serialization;
    attribute.value.number = 1;
  }
  config.attributes = kernel.attributes.data();
  config.attribute_count = static_cast<unsigned>(kernel.attributes.size());

  for (const PlannedArgument& argument : planned.args) {
    std::vector<std::byte>& bytes = kernel.storage.emplace_back();
    if (argument.kind == PlannedArgument::Kind::buffer) {
      bytes.resize(sizeof(Address));
    } else if (argument.kind == PlannedArgument::Kind::scalar) {
      bytes.resize(size_of(argument.type));
      encode(argument.type, {&argument.value, 1}, bytes);
    } else if (argument.kind != PlannedArgument::Kind::tensor_map) {
      return refused(
          fmt::format("kernel '{}': `thread` and `threads` are only for the cpu target", planned.kernel));
    }
  }
  for (std::size_t i = 0; i < planned.args.size(); ++i)
    kernel.parameters.push_back(
        planned.args[i].kind == PlannedArgument::Kind::tensor_map
            ? static_cast<void*>(&maps_.at(static_cast<std::size_t>(planned.args[i].index)))
            : static_cast<void*>(kernel.storage[i].data()));
  kernel.parameters.push_back(nullptr);
  return std::nullopt;
}

// The one launch rule that needs the card; see launch_rules.hpp.
std::optional<Fault> Program::check_residence(const PlannedKernel& planned, Function function) const {
  const Geometry g(planned.launch);
  const int threads = static_cast<int>(g.block[0] * g.block[1] * g.block[2]);
  int each = 0;
  if (gpu_.driver().OccupancyMaxActiveBlocksPerMultiprocessor(&each, function, threads, g.shared_bytes) !=
      result::success)
    return std::nullopt;  // the launch itself will report it
  const double resident = each * gpu_.facts().at("num_sms");
  const double blocks = 1.0 * g.grid[0] * g.grid[1] * g.grid[2];
  if (blocks <= resident) return std::nullopt;
  return refused(fmt::format(
      "kernel '{}': the cooperative grid has {:.0f} blocks, but this card holds only {:.0f} at once, "
      "{} on each multiprocessor (make the grid at most {} * num_sms)",
      planned.kernel, blocks, resident, each, each));
}

std::optional<Fault> Program::place(std::span<const Address> buffers) {
  buffers_.assign(buffers.begin(), buffers.end());
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    const std::vector<PlannedArgument>& args = plan_.kernels[k].args;
    for (std::size_t i = 0; i < args.size(); ++i)
      if (args[i].kind == PlannedArgument::Kind::buffer)
        std::memcpy(kernels_[k].storage[i].data(), &buffers_.at(static_cast<std::size_t>(args[i].index)),
                    sizeof(Address));
  }
  for (std::size_t m = 0; m < maps_.size(); ++m) {
    const PlannedTensorMap& planned = plan_.tensor_maps[m];
    const auto arguments = tensor_map_arguments(planned);
    if (!arguments) return refused(arguments.error().message);
    const Address address = buffers_.at(static_cast<std::size_t>(planned.buffer));
    if (const auto fits = check_address(planned, address); !fits) return refused(fits.error().message);
    const Result encoded = gpu_.driver().TensorMapEncodeTiled(
        &maps_[m], static_cast<int>(arguments->data_type), arguments->rank, reinterpret_cast<void*>(address),
        arguments->sizes.data(), arguments->stride_bytes.data(), arguments->box.data(),
        arguments->element_strides.data(), static_cast<int>(arguments->interleave),
        static_cast<int>(arguments->swizzle), static_cast<int>(arguments->l2_promotion),
        static_cast<int>(arguments->out_of_bounds));
    if (encoded != result::success)
      return refused(
          fmt::format("the driver rejects tensor map '{}': {}", planned.name, gpu_.driver().words(encoded)));
  }
  return std::nullopt;
}

std::optional<Fault> Program::launch(double) {
  const Driver& driver = gpu_.driver();
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i) {
    const PlannedBuffer& buffer = plan_.buffers[i];
    if (buffer.use != PlannedBuffer::Use::workspace || !buffer.zero || buffer.bytes == 0) continue;
    if (const Result zeroed = driver.MemsetD8Async(buffers_[i], 0, buffer.bytes, gpu_.stream());
        zeroed != result::success)
      return gpu_.fault_of(zeroed, fmt::format("zeroing '{}'", buffer.name));
  }
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    Kernel& kernel = kernels_[k];
    const Result launched =
        driver.LaunchKernelEx(&kernel.config, kernel.function, kernel.parameters.data(), nullptr);
    if (launched == result::success) continue;
    const PlannedKernel& planned = plan_.kernels[k];
    const Geometry g(planned.launch);
    return gpu_.fault_of(
        launched,
        fmt::format("launching kernel '{}' (grid {}x{}x{}, block {}x{}x{}, cluster {}x{}x{}, {} bytes of "
                    "dynamic shared memory{})",
                    planned.kernel, g.grid[0], g.grid[1], g.grid[2], g.block[0], g.block[1], g.block[2],
                    g.cluster[0], g.cluster[1], g.cluster[2], g.shared_bytes,
                    g.cooperative ? ", cooperative" : ""));
  }
  return std::nullopt;
}

namespace {

constexpr double kSettleSeconds = 20.0;  // for work that prepare left on the device

}  // namespace

tl::expected<std::unique_ptr<Contender>, Fault> Contender::open(Gpu& gpu, const ContenderLibrary& library,
                                                                const std::string& program,
                                                                const ContenderSettings& settings,
                                                                const Task& task, const Workload& workload,
                                                                std::span<const Address> tensors,
                                                                std::function<void(bool others)> share) {
  std::unique_ptr<Contender> contender(new Contender(gpu));
  contender->place(tensors);
  auto prepared = PreparedContender::prepare(
      library, {task, workload, contender->tensors_, 0, gpu.stream(), program, settings, std::move(share)});
  // prepare may have used its own streams. A fault there belongs to this contender, not to the next one that
  // runs.
  if (const Result left = gpu.driver().CtxSynchronize(); left != result::success)
    return tl::make_unexpected(gpu.fault_of(left, library.name() + ": prepare"));
  if (auto unfinished = gpu.wait(deadline_in(kSettleSeconds), library.name() + ": prepare"))
    return tl::make_unexpected(std::move(*unfinished));
  if (!prepared)
    return tl::make_unexpected(
        Fault{prepared.error().kind == ErrorKind::unsupported ? Fault::Kind::unsupported
              : prepared.error().kind == ErrorKind::missing   ? Fault::Kind::load_failed
                                                              : Fault::Kind::contender_failed,
              prepared.error().message});
  contender->prepared_ = std::move(*prepared);
  return contender;
}

Contender::~Contender() {
  if (prepared_ && gpu_.lost()) prepared_->abandon();
}

std::optional<Fault> Contender::place(std::span<const Address> tensors) {
  tensors_.clear();
  for (const Address address : tensors) tensors_.push_back(reinterpret_cast<void*>(address));
  return std::nullopt;
}

std::optional<Fault> Contender::launch(double deadline_s) {
  const Expected<void> queued = prepared_->launch(tensors_, gpu_.stream(), deadline_s);
  if (queued) return std::nullopt;
  return Fault{Fault::Kind::contender_failed, queued.error().message};
}

std::optional<Fault> Contender::results() {
  const Expected<void> completed = prepared_->results(tensors_);
  if (completed) return std::nullopt;
  return Fault{Fault::Kind::contender_failed, completed.error().message};
}

}  // namespace cultivar::cuda

// SPDX-License-Identifier: Apache-2.0
// The process in which kernels run: it maps the tensors that it shares with its worker, makes OpenCL's
// buffers of them, and runs the plan when it is asked to. On a processor, kernels compute in this address
// space, so no verdict relies on it.
#include <fmt/format.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "evaluators/devices/opencl/calls/open_cl.hpp"
#include "evaluators/devices/opencl/code/cell_layout.hpp"

namespace cultivar::opencl {
namespace {

using nlohmann::json;

// Gives up, for all threads of this process and for ever, everything but memory, waiting, and the socket to
// the worker; called once the kernels are compiled and loaded. Another system call ends the process with
// SIGSYS. False: this system has no such filters.
bool lock_cell() {
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_KILL_PROCESS);
  if (context == nullptr) return false;
  bool good = seccomp_attr_set(context, SCMP_FLTATR_CTL_TSYNC, 1) == 0;
  for (const int number :
       {SCMP_SYS(futex), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn),
        SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction), SCMP_SYS(restart_syscall), SCMP_SYS(sched_yield),
        SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(brk), SCMP_SYS(madvise), SCMP_SYS(clock_gettime),
        SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep), SCMP_SYS(sched_getaffinity), SCMP_SYS(getpid),
        SCMP_SYS(gettid)})
    good = good && (number < 0 || seccomp_rule_add(context, SCMP_ACT_ALLOW, number, 0) == 0);
  // Memory, never executable.
  good =
      good &&
      seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
                       SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS)) == 0 &&
      seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                       SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0;
  for (const int number : {SCMP_SYS(sendto), SCMP_SYS(recvfrom)})
    good = good && seccomp_rule_add(context, SCMP_ACT_ALLOW, number, 1,
                                    SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(socket_descriptor))) == 0;
  good = good && seccomp_load(context) == 0;
  seccomp_release(context);
  return good;
}

// A region of the memory shared with the worker: the data of one buffer with guards around it.
struct Mapped {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  bool input = false;
};

// The tensors of a plan in memory of a device's own: copied there before a run and back after it, with the
// guards around them, so that a write beyond a tensor arrives in the guards that the worker looks at.
class DeviceCopies {
 public:
  DeviceCopies(const Opened&, std::vector<Mapped>);
  void begin();  // the next run's buffers follow; those of the last run are released
  // A buffer with the region's contents; the result is the part of it that holds `data`. Also evicts what the
  // device's caches hold, once for each run.
  cl_mem place(std::size_t region, const std::byte* data, std::size_t bytes);
  // Copies back what kernels may write. Where in its region the first input differs whose copy has changed.
  std::optional<std::uint64_t> fetch();

 private:
  void flush_caches();
  const Opened opened_;
  std::vector<Mapped> regions_;
  std::vector<cl_mem> whole_;
  std::vector<std::size_t> paddings_;
  std::size_t alignment_ = 1;  // of the beginning of a part, in bytes
  cl_mem evictor_ = nullptr;
  std::size_t evictor_bytes_ = 0;
};

DeviceCopies::DeviceCopies(const Opened& opened, std::vector<Mapped> regions)
    : opened_(opened),
      regions_(std::move(regions)),
      whole_(regions_.size(), nullptr),
      paddings_(regions_.size(), 0),
      alignment_(
          std::max<std::size_t>(1, number_of<cl_uint>(opened.device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8)),
      evictor_bytes_(std::max<std::size_t>(std::size_t{32} << 20,
                                           2 * static_cast<std::size_t>(number_of<cl_ulong>(
                                                   opened.device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE)))) {
  cl_int code = 0;
  evictor_ = clCreateBuffer(opened_.context, CL_MEM_READ_WRITE, evictor_bytes_, nullptr, &code);
  check(code, "clCreateBuffer");
}

void DeviceCopies::begin() {
  for (cl_mem& memory : whole_)
    if (memory != nullptr) check(clReleaseMemObject(std::exchange(memory, nullptr)), "clReleaseMemObject");
}

cl_mem DeviceCopies::place(std::size_t region, const std::byte* data, std::size_t bytes) {
  const Mapped& mapped = regions_.at(region);
  const auto offset = static_cast<std::size_t>(data - mapped.begin);
  paddings_[region] = (alignment_ - offset % alignment_) % alignment_;
  cl_int code = 0;
  whole_[region] =
      clCreateBuffer(opened_.context, CL_MEM_READ_WRITE, mapped.bytes + alignment_, nullptr, &code);
  check(code, "clCreateBuffer");
  check(clEnqueueWriteBuffer(opened_.queue, whole_[region], CL_TRUE, paddings_[region], mapped.bytes,
                             mapped.begin, 0, nullptr, nullptr),
        "clEnqueueWriteBuffer");
  const cl_buffer_region part{paddings_[region] + offset, std::max<std::size_t>(bytes, 1)};
  const cl_mem memory =
      clCreateSubBuffer(whole_[region], CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &part, &code);
  check(code, "clCreateSubBuffer");
  if (region + 1 == regions_.size()) flush_caches();
  return memory;
}

void DeviceCopies::flush_caches() {
  const cl_uint nothing = 0;
  check(clEnqueueFillBuffer(opened_.queue, evictor_, &nothing, sizeof nothing, 0, evictor_bytes_, 0, nullptr,
                            nullptr),
        "clEnqueueFillBuffer");
}

std::optional<std::uint64_t> DeviceCopies::fetch() {
  std::vector<std::byte> copy;
  std::optional<std::uint64_t> changed;
  for (std::size_t i = 0; i < regions_.size(); ++i) {
    const Mapped& mapped = regions_[i];
    if (mapped.input) copy.resize(mapped.bytes);
    check(clEnqueueReadBuffer(opened_.queue, whole_[i], CL_TRUE, paddings_[i], mapped.bytes,
                              mapped.input ? copy.data() : mapped.begin, 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
    if (!mapped.input || changed) continue;
    const auto found = std::mismatch(copy.begin(), copy.end(), mapped.begin);
    if (found.first != copy.end()) changed = reinterpret_cast<std::uint64_t>(found.second);
  }
  return changed;
}

constexpr std::size_t kGuardBytes = std::size_t{1} << 20;  // of unmapped addresses on each side of a buffer

bool send(const Reply& reply) {
  return ::send(socket_descriptor, &reply, sizeof reply, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof reply);
}

Reply with_text(Reply::Kind kind, std::uint32_t number, const std::string& text) {
  Reply reply{kind, number, 0.0, 0, {}};
  std::strncpy(reply.text, text.c_str(), sizeof reply.text - 1);
  return reply;
}

// Tells the worker the address, for its diagnostics; then the instruction faults again and ends the process.
void on_signal(int number, siginfo_t* info, void*) {
  Reply reply{Reply::Kind::signal,
              static_cast<std::uint32_t>(number),
              0.0,
              reinterpret_cast<std::uint64_t>(info->si_addr),
              {}};
  (void)::send(socket_descriptor, &reply, sizeof reply, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void handle_signals() {
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::sigaction(number, &action, nullptr);
}

void map_region(const json& region) {
  const auto address = region.at("address").get<std::uint64_t>();
  const auto bytes = region.at("bytes").get<std::uint64_t>();
  const bool input = region.at("input").get<bool>();
  char* const start = reinterpret_cast<char*>(address);
  void* const reserved = ::mmap(start - kGuardBytes, bytes + 2 * kGuardBytes, PROT_NONE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (reserved != start - kGuardBytes) throw std::runtime_error("the address of a buffer is already in use");
  void* const mapped =
      ::mmap(start, bytes, input ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
             input ? input_descriptor : arena_descriptor, region.at("offset").get<off_t>());
  if (mapped != start)
    throw std::runtime_error(fmt::format("a buffer cannot be mapped: {}", std::strerror(errno)));
}

// The device ended a kernel that it had accepted.
struct KernelFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Cell {
 public:
  explicit Cell(const json& job) : opened_(open_first()) {
    for (const json& each : job.at("buffers"))
      buffers_.push_back({each.at("bytes").get<std::size_t>(), each.at("input").get<bool>(),
                          each.at("zero").get<bool>(), nullptr});
    counters_ = job.at("counters").get<std::size_t>();
    if (counters_ > 0) map_counters();
    load(job);
    if (job.at("copies").get<bool>() || !is_processor(opened_.device)) {
      std::vector<Mapped> mapped;
      for (const json& region : job.at("regions"))
        mapped.push_back({reinterpret_cast<std::byte*>(region.at("address").get<std::uint64_t>()),
                          region.at("bytes").get<std::size_t>(), region.at("input").get<bool>()});
      copies_.emplace(opened_, std::move(mapped));
    }
  }

  Reply answer(const Request& request) {
    Reply reply{Reply::Kind::done, request.number, 0.0, 0, {}};
    if (request.kind == Request::Kind::lock && !copies_ && !lock_cell())
      throw std::runtime_error("this system has no filters of system calls (seccomp)");
    if (request.kind == Request::Kind::prepare) prepare(request);
    if (request.kind == Request::Kind::run) {
      if (counters_ > 0) std::memset(place_of_counters(), 0, counters_);
      reply.seconds = run();
      if (copies_)
        if (const std::optional<std::uint64_t> changed = copies_->fetch()) {
          reply.kind = Reply::Kind::changed;
          reply.address = *changed;
        }
      // The last buffer is theirs; no kernel has it.
      if (counters_ > 0) std::memcpy(last_buffer_, place_of_counters(), counters_);
    }
    return reply;
  }

 private:
  struct Buffer {
    std::size_t bytes;
    bool input, zero;
    cl_mem memory;
  };

  static void* place_of_counters() { return reinterpret_cast<void*>(counters_address); }
  void map_counters() const {
    if (counters_ > most_counters || buffers_.empty() || buffers_.back().bytes != counters_)
      throw std::runtime_error("the counters of the check build have another size");
    if (::mmap(place_of_counters(), counters_, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != place_of_counters())
      throw std::runtime_error("the address of the check build's counters is already in use");
  }
  void load(const json& job) {
    const std::string binary = contents_of(job.at("binary").get<std::string>());
    const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
    const std::size_t length = binary.size();
    cl_int code = 0, status = 0;
    const cl_program program =
        clCreateProgramWithBinary(opened_.context, 1, &opened_.device, &length, &bytes, &status, &code);
    check(code, "clCreateProgramWithBinary");
    check(clBuildProgram(program, 1, &opened_.device, "", nullptr, nullptr), "clBuildProgram of the binary");
    launches_ = read_launches(program, job.at("launches"));
  }

  void prepare(const Request& request) {
    for (Buffer& buffer : buffers_)
      if (buffer.memory != nullptr)
        check(clReleaseMemObject(std::exchange(buffer.memory, nullptr)), "clReleaseMemObject");
    if (copies_) copies_->begin();
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      auto* const data = reinterpret_cast<std::byte*>(request.addresses[i]);
      if (copies_) {
        buffers_[i].memory = copies_->place(i, data, buffers_[i].bytes);
        continue;
      }
      cl_int code = 0;
      // The tensor itself: a device that is the processor computes in this memory.
      buffers_[i].memory = clCreateBuffer(
          opened_.context,
          static_cast<cl_mem_flags>(CL_MEM_USE_HOST_PTR |
                                    (buffers_[i].input ? CL_MEM_READ_ONLY : CL_MEM_READ_WRITE)),
          std::max<std::size_t>(buffers_[i].bytes, 1), data, &code);
      check(code, "clCreateBuffer");
    }
    if (!buffers_.empty()) last_buffer_ = reinterpret_cast<void*>(request.addresses[buffers_.size() - 1]);
    std::vector<cl_mem> memories;
    for (const Buffer& buffer : buffers_) memories.push_back(buffer.memory);
    set_arguments(launches_, memories);
    check(clFinish(opened_.queue), "clFinish");
  }

  // Seconds from the start of the first command to the end of the last one, by the device's clock.
  double run() {
    std::vector<cl_event> events;
    const auto next = [&events] { return &events.emplace_back(nullptr); };
    events.reserve(buffers_.size() + launches_.size());
    for (const Buffer& buffer : buffers_)
      if (const cl_uint zero = 0; buffer.zero && buffer.bytes > 0)
        check(clEnqueueFillBuffer(opened_.queue, buffer.memory, &zero, buffer.bytes % 4 == 0 ? 4 : 1, 0,
                                  buffer.bytes, 0, nullptr, next()),
              "clEnqueueFillBuffer");
    for (const Launch& launch : launches_)
      check(clEnqueueNDRangeKernel(opened_.queue, launch.kernel, 3, nullptr, launch.global, launch.local, 0,
                                   nullptr, next()),
            "clEnqueueNDRangeKernel");
    if (const cl_int code = clFinish(opened_.queue); code != CL_SUCCESS)
      throw KernelFailed(name_of_error(code));
    cl_ulong first = ~cl_ulong{0}, last = 0;
    for (const cl_event event : events) {
      cl_int status = 0;
      cl_ulong begin = 0, end = 0;
      check(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr),
            "clGetEventInfo");
      if (status < 0) throw KernelFailed(name_of_error(status));
      check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof begin, &begin, nullptr),
            "clGetEventProfilingInfo");
      check(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr),
            "clGetEventProfilingInfo");
      first = std::min(first, begin), last = std::max(last, end);
      clReleaseEvent(event);
    }
    return events.empty() || last < first ? 0.0 : 1e-9 * static_cast<double>(last - first);
  }

  Opened opened_;
  std::vector<Buffer> buffers_;
  std::size_t counters_ = 0;  // bytes; 0: this is no check build
  void* last_buffer_ = nullptr;
  std::vector<Launch> launches_;
  std::optional<DeviceCopies> copies_;
};

}  // namespace

// run JOB: returns when the worker is gone.
int serve_cell(int argc, char** argv) {
  if (argc != 1) return 2;
  std::optional<Cell> cell;
  try {
    const json job = json::parse(argv[0]);
    for (const json& region : job.at("regions")) map_region(region);
    cell.emplace(job);
  } catch (const std::exception& error) {
    send(with_text(Reply::Kind::unusable, 0, error.what()));
    return 4;
  }
  handle_signals();
  if (!send({})) return 0;
  Request request;
  while (::recv(socket_descriptor, &request, sizeof request, 0) == static_cast<ssize_t>(sizeof request)) {
    Reply reply;
    try {
      reply = cell->answer(request);
    } catch (const KernelFailed& error) {
      reply = with_text(Reply::Kind::failed, request.number, error.what());
    } catch (const std::exception& error) {
      reply = with_text(Reply::Kind::refused, request.number, error.what());
    }
    if (!send(reply)) break;
  }
  ::_exit(0);  // an orderly end would wait for the driver
}

}  // namespace cultivar::opencl

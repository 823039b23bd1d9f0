// Runs and times the kernel for verify.cpp, on the first GPU.
#pragma once

#include "../attention_forward.hpp"

#include "data.hpp"

class Bench {
 public:
  Bench() {
    using namespace cultivar_export::driver;
    find(name_, "cuDeviceGetName");
    find(attribute_, "cuDeviceGetAttribute");
    find(upload_, "cuMemcpyHtoD_v2");
    find(download_, "cuMemcpyDtoH_v2");
    find(synchronise_, "cuCtxSynchronize");
    find(make_event_, "cuEventCreate");
    find(record_, "cuEventRecord");
    find(elapsed_, "cuEventElapsedTime");
    must(make_event_(&begin_, 0), "making an event");
    must(make_event_(&end_, 0), "making an event");
    int l2 = 0;
    must(attribute_(&l2, 38, 0), "asking for the cache's size");
    flush_bytes_ = 2 * std::size_t(l2);
    must(api().MemAlloc(&flush_, flush_bytes_), "memory to flush the cache with");
  }
  ~Bench() {
    free_all();
    if (flush_) cultivar_export::driver::api().MemFree(flush_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  std::string words() const {
    char text[256] = {};
    name_(text, 255, 0);
    return std::string("on ") + text + ", L2 flushed before each timed run";
  }

  void load(const verify_data::Workload& workload, std::vector<std::vector<std::byte>>& buffers) {
    using namespace cultivar_export::driver;
    free_all();
    std::vector<void*> places;
    for (const auto& buffer : buffers) {
      unsigned long long place = 0;
      must(api().MemAlloc(&place, std::max<std::size_t>(buffer.size(), 1)), "memory for a tensor");
      places_.push_back(place);
      places.push_back(reinterpret_cast<void*>(place));
      must(upload_(place, buffer.data(), buffer.size()), "copying to the GPU");
    }
    arguments_ = verify_data::bind(workload, places);
  }
  void run() {
    kernel_(arguments_);
    cultivar_export::driver::must(synchronise_(), "running the kernel");
  }
  void fetch(std::vector<std::vector<std::byte>>& buffers) {
    for (std::size_t t = 0; t < buffers.size(); ++t)
      if (verify_data::tensors[t].output)
        cultivar_export::driver::must(download_(buffers[t].data(), places_[t], buffers[t].size()),
                                      "copying from the GPU");
  }
  // Which of several kernels the loaded workload goes to.
  const char* kernel() const { return ""; }
  // Measured between two events. The GPU is still flushing the cache while the host prepares the launch, so it never
  // waits for the host.
  double timed_us() {
    using namespace cultivar_export::driver;
    must(api().MemsetD8Async(flush_, 0, flush_bytes_, nullptr), "flushing the cache");
    must(record_(begin_, nullptr), "recording an event");
    kernel_(arguments_);
    must(record_(end_, nullptr), "recording an event");
    must(synchronise_(), "running the kernel");
    float ms = 0;
    must(elapsed_(&ms, begin_, end_), "reading the time");
    return double(ms) * 1e3;
  }

 private:
  void free_all() {
    for (auto place : places_) cultivar_export::driver::api().MemFree(place);
    places_.clear();
  }

  cultivar_export::AttentionForward kernel_;
  cultivar_export::AttentionForwardArguments arguments_;
  std::vector<unsigned long long> places_;
  unsigned long long flush_ = 0;
  std::size_t flush_bytes_ = 0;
  void *begin_ = nullptr, *end_ = nullptr;
  int (*name_)(char*, int, int) = nullptr;
  int (*attribute_)(int*, int, int) = nullptr;
  int (*upload_)(unsigned long long, const void*, std::size_t) = nullptr;
  int (*download_)(void*, unsigned long long, std::size_t) = nullptr;
  int (*synchronise_)() = nullptr;
  int (*make_event_)(void**, unsigned) = nullptr;
  int (*record_)(void*, CUstream_st*) = nullptr;
  int (*elapsed_)(float*, void*, void*) = nullptr;
};

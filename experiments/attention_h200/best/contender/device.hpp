// The device of a handle in contender.cpp: the GPU of the CUDA context that is current during prepare.
#pragma once

#include <map>
#include <memory>

#include "../attention_forward.hpp"

using Arguments = cultivar_export::AttentionForwardArguments;

class Device {
 public:
  explicit Device(std::uint32_t) : kernel_(shared()), context_(current()) {}

  std::size_t prepare(const Arguments& arguments) { return kernel_->prepare(arguments); }
  void launch(const Arguments& arguments, void* workspace, void* stream) {
    // A thread that has not used CUDA has no current context.
    if (context_ && !current())
      cultivar_export::driver::must(cultivar_export::driver::api().CtxSetCurrent(context_), "entering the CUDA context");
    (*kernel_)(arguments, static_cast<CUstream_st*>(stream), workspace);
  }
  void finish() {
    int (*synchronise)() = nullptr;
    cultivar_export::driver::find(synchronise, "cuCtxSynchronize");
    cultivar_export::driver::must(synchronise(), "running the kernel");
  }

 private:
  static void* current() {
    static const int started = cultivar_export::driver::api().Init(0);
    cultivar_export::driver::must(started, "starting the CUDA driver");
    void* context = nullptr;
    cultivar_export::driver::must(cultivar_export::driver::api().CtxGetCurrent(&context), "asking for the CUDA context");
    return context;
  }
  // One kernel for each context, shared by all handles that use it: its machine code is loaded once.
  static std::shared_ptr<cultivar_export::AttentionForward> shared() {
    static std::map<void*, std::weak_ptr<cultivar_export::AttentionForward>> all;
    auto kernel = all[current()].lock();
    if (!kernel) {
      kernel = std::make_shared<cultivar_export::AttentionForward>();  // opens the first GPU if no context is current
      all[current()] = kernel;
    }
    return kernel;
  }

  std::shared_ptr<cultivar_export::AttentionForward> kernel_;
  void* context_;
};

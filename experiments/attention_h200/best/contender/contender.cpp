// The kernel with Cultivar's C interface for contenders (cultivar_contender.h), used by `cultivar evaluate --contender`
// and by pytorch/. One call at a time.
#include "asked.hpp"
#include "device.hpp"

namespace {

std::string error_text;

struct Prepared {
  Device device;
  Arguments arguments;
  std::size_t workspace_bytes = 0;
};

template <class Work>
std::int32_t answer(std::int32_t refused, const Work& work) {
  try {
    error_text.clear();
    work();
    return CULTIVAR_CONTENDER_OK;
  } catch (const std::invalid_argument& error) {
    error_text = error.what();
    return refused;
  } catch (const std::exception& error) {
    error_text = error.what();
  } catch (...) {
    error_text = "it threw an exception that is not a std::exception";
  }
  return CULTIVAR_CONTENDER_FAILED;
}

std::int32_t launch(void* handle, void* const* data, void* workspace, void* stream) {
  return answer(CULTIVAR_CONTENDER_FAILED, [&] {
    Prepared& prepared = *static_cast<Prepared*>(handle);
    verify_data::place(prepared.arguments, data);
    prepared.device.launch(prepared.arguments, workspace, stream);
  });
}

}  // namespace

extern "C" {

const cultivar_contender_description* cultivar_contender_describe() {
  static const cultivar_contender_description told{CULTIVAR_CONTENDER_ABI, "attention_everywhere_f6efb97d", "attention_even_sections f6efb97d2075, #1 of attention-everywhere", "attention_forward",
                                                   "cuda"};
  return &told;
}

// Runs the kernel once, unless a tensor's data is null.
std::int32_t cultivar_contender_prepare(const cultivar_contender_workload* asked, void** handle) {
  return answer(CULTIVAR_CONTENDER_UNSUPPORTED, [&] {
    const verify_data::Workload workload = asked_workload(*asked);
    std::vector<void*> places;
    for (std::uint32_t t = 0; t < asked->tensor_count; ++t) places.push_back(asked->tensors[t].data);
    auto prepared = std::make_unique<Prepared>(Prepared{Device(asked->threads), verify_data::bind(workload, places)});
    prepared->workspace_bytes = prepared->device.prepare(prepared->arguments);
    // The first launch allocates and loads; do that here, so that it is not part of a timed launch.
    if (std::find(places.begin(), places.end(), nullptr) == places.end()) {
      prepared->device.launch(prepared->arguments, nullptr, nullptr);
      prepared->device.finish();
    }
    *handle = prepared.release();
  });
}

std::int32_t cultivar_contender_launch(void* handle, void* const* data, void* stream) {
  return launch(handle, data, nullptr, stream);
}

void cultivar_contender_release(void* handle) { delete static_cast<Prepared*>(handle); }

const char* cultivar_contender_last_error() { return error_text.c_str(); }

// Additions to Cultivar's interface for callers whose launches overlap: the size of the workspace, and a launch with a
// workspace of the caller (null: the handle's own).
std::uint64_t cultivar_export_workspace_bytes(void* handle) { return static_cast<Prepared*>(handle)->workspace_bytes; }

std::int32_t cultivar_export_launch(void* handle, void* const* data, void* workspace, void* stream) {
  return launch(handle, data, workspace, stream);
}
}

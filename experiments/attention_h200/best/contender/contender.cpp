// The kernel behind Cultivar's C interface for contenders (cultivar_contender.h): what `cultivar evaluate --contender`
// times beside others, and what pytorch/ loads. No two calls at once.
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
    error_text = "it threw something that is no error";
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
  static const cultivar_contender_description told{CULTIVAR_CONTENDER_ABI, "attention_h200_5d9f33a3", "attention_one_pass 5d9f33a3ba30, #511 of attention-h200", "attention_forward",
                                                   "cuda"};
  return &told;
}

// Without memory (a tensor whose data is null) nothing is computed here.
std::int32_t cultivar_contender_prepare(const cultivar_contender_workload* asked, void** handle) {
  return answer(CULTIVAR_CONTENDER_UNSUPPORTED, [&] {
    const verify_data::Workload workload = asked_workload(*asked);
    std::vector<void*> places;
    for (std::uint32_t t = 0; t < asked->tensor_count; ++t) places.push_back(asked->tensors[t].data);
    auto prepared = std::make_unique<Prepared>(Prepared{Device(asked->threads), verify_data::bind(workload, places)});
    prepared->workspace_bytes = prepared->device.prepare(prepared->arguments);
    // What the first launch alone allocates or loads must not fall into a timed one.
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

// Beyond Cultivar's interface, for callers whose launches overlap: how much device memory one needs, and a launch that
// works in memory of the caller's (null: the handle's own).
std::uint64_t cultivar_export_workspace_bytes(void* handle) { return static_cast<Prepared*>(handle)->workspace_bytes; }

std::int32_t cultivar_export_launch(void* handle, void* const* data, void* workspace, void* stream) {
  return launch(handle, data, workspace, stream);
}
}

// attention_forward by cuDNN's fused graph, built with NVIDIA's header-only cudnn-frontend: heads share keys
// as the task says, causal masks are aligned bottom-right, and the log-sum-exp is an output. The plan is the
// first supported one from cuDNN's heuristics, as in cuDNN's samples.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>

#include <memory>
#include <unordered_map>

#include "evaluators/contenders/libraries/answers.hpp"
#include "evaluators/contenders/libraries/vendor.hpp"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // where cudnn-frontend finds cuDNN
}

namespace {

namespace fe = cudnn_frontend;
using namespace cultivar;
using contender::integer;
using contender::place;

enum Tensor : std::int64_t { kQ = 1, kK, kV, kO, kLse };

// One handle for the life of the process, created by the first prepare.
cudnnHandle_t handle() {
  static const cudnnHandle_t made = [] {
    const std::string runtime = std::to_string(CUDART_VERSION / 1000);
    // cudnn-frontend opens this library by name only; loading it here makes that succeed.
    vendor::open("libcudart.so." + runtime, "install CUDA's runtime, version " + runtime);
    fe::cudnn_dlhandle = vendor::open("libcudnn.so." + std::to_string(CUDNN_MAJOR),
                                      "install cuDNN " + std::to_string(CUDNN_MAJOR));
    cudnnHandle_t created = nullptr;
    if (const auto status = fe::detail::create_handle(&created); status != CUDNN_STATUS_SUCCESS)
      throw std::runtime_error(std::string("cudnnCreate: ") + fe::detail::get_error_string(status));
    return created;
  }();
  return made;
}

void must(fe::error_t error, const char* what) {
  if (error.is_good()) return;
  const std::string words = std::string(what) + ": " + error.get_message();
  if (error.get_code() == fe::error_code_t::GRAPH_NOT_SUPPORTED ||
      error.get_code() == fe::error_code_t::HEURISTIC_QUERY_FAILED)
    throw contender::Unsupported(words);
  throw std::runtime_error(words);
}

class Attention {
 public:
  explicit Attention(const cultivar_contender_workload& w)
      : places_{place(w, "q"), place(w, "k"), place(w, "v"), place(w, "o"), place(w, "lse")} {
    const std::string dtype = w.dtype;
    if (dtype != "bf16" && dtype != "f16")
      throw contender::Unsupported("cudnn's fused attention supports bf16 and f16, but this is " + dtype);
    const std::int64_t b = integer(w, "B"), h = integer(w, "H"), h_kv = integer(w, "H_kv"),
                       s_q = integer(w, "S_q"), s_kv = integer(w, "S_kv"), d = integer(w, "D");
    const bool causal = integer(w, "causal") != 0;
    if (!contender::is_off(w, "window") || !contender::is_off(w, "softcap"))
      throw contender::Unsupported("this contender has no window and no softcap");
    if (causal && s_q > s_kv)
      throw contender::Unsupported("cudnn defines no output for causal rows that see no key (S_q > S_kv)");

    graph_.set_io_data_type(dtype == "bf16" ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    // Describes the task's [B, S, heads, D] as cuDNN's [B, heads, S, D].
    const auto input = [&](const char* name, Tensor uid, std::int64_t heads, std::int64_t s) {
      return graph_.tensor(fe::graph::Tensor_attributes()
                               .set_name(name)
                               .set_uid(uid)
                               .set_dim({b, heads, s, d})
                               .set_stride({s * heads * d, d, heads * d, 1}));
    };
    const auto q = input("q", kQ, h, s_q), k = input("k", kK, h_kv, s_kv), v = input("v", kV, h_kv, s_kv);
    auto options = fe::graph::SDPA_attributes().set_name("attention_forward").set_generate_stats(true);
    options.set_attn_scale(static_cast<float>(contender::number(w, "scale")));
    if (causal && s_q == s_kv) options.set_causal_mask(true);
    if (causal && s_q != s_kv) options.set_causal_mask_bottom_right(true);
    const auto [o, lse] = graph_.sdpa(q, k, v, options);
    o->set_output(true).set_uid(kO).set_dim({b, h, s_q, d}).set_stride({s_q * h * d, d, h * d, 1});
    lse->set_output(true)
        .set_uid(kLse)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim({b, h, s_q, 1})
        .set_stride({h * s_q, s_q, 1, 1});

    must(graph_.validate(), "the graph");
    must(graph_.build_operation_graph(handle()), "the operation graph");
    must(graph_.create_execution_plans({fe::HeurMode_t::A}), "requesting a plan");
    if (auto supported = graph_.check_support(); supported.is_bad())
      throw contender::Unsupported("cudnn has no plan for this: " + supported.get_message());
    must(graph_.build_plans(), "building the plan");
    std::int64_t bytes = 0;
    must(graph_.get_workspace_size(bytes), "requesting the workspace size");
    workspace_.allocate(static_cast<std::size_t>(bytes));
  }

  void launch(void* const* data, void* stream) {
    if (const auto status = fe::detail::set_stream(handle(), static_cast<cudaStream_t>(stream));
        status != CUDNN_STATUS_SUCCESS)
      throw std::runtime_error(std::string("cudnnSetStream: ") + fe::detail::get_error_string(status));
    for (std::int64_t uid = kQ; uid <= kLse; ++uid) pack_[uid] = data[places_[uid - kQ]];
    must(graph_.execute(handle(), pack_, workspace_.data()), "executing the plan");
  }

 private:
  std::size_t places_[5];
  fe::graph::Graph graph_;
  std::unordered_map<std::int64_t, void*> pack_;
  vendor::Workspace workspace_;
};

}  // namespace

extern "C" const cultivar_contender_description* cultivar_contender_describe() {
  static std::string version;
  static cultivar_contender_description told{CULTIVAR_CONTENDER_ABI, "cudnn", "", "attention_forward",
                                             "cuda"};
  contender::answer([&] {
    handle();
    const std::size_t number = fe::detail::get_backend_version();
    version = "cuDNN " + std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
              std::to_string(number % 100);
  });
  told.version = version.c_str();
  return &told;
}

CULTIVAR_CONTENDER_CALLS(Attention)

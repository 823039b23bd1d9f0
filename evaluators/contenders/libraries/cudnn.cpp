// SPDX-License-Identifier: Apache-2.0
// attention_forward and rmsnorm_backward by cuDNN's graphs, built with NVIDIA's header-only cudnn-frontend:
// heads share keys as the task says, causal masks are aligned bottom-right, and the log-sum-exp is an output.
// The plan is the first supported one from cuDNN's heuristics, as in cuDNN's samples.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>

#include <memory>
#include <unordered_map>
#include <vector>

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

// A graph, its plan, and where its tensors lie in launch's `data`.
class Planned {
 public:
  virtual ~Planned() = default;

  void launch(void* const* data, void* stream) {
    if (const auto status = fe::detail::set_stream(handle(), static_cast<cudaStream_t>(stream));
        status != CUDNN_STATUS_SUCCESS)
      throw std::runtime_error(std::string("cudnnSetStream: ") + fe::detail::get_error_string(status));
    for (std::size_t i = 0; i < places_.size(); ++i)
      pack_[static_cast<std::int64_t>(i) + 1] = data[places_[i]];
    must(graph_.execute(handle(), pack_, workspace_.data()), "executing the plan");
  }

 protected:
  using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
  using Extents = std::vector<std::int64_t>;

  explicit Planned(const cultivar_contender_workload& w) : workload_(w) {
    const std::string dtype = w.dtype;
    if (dtype != "bf16" && dtype != "f16")
      throw contender::Unsupported("this contender supports bf16 and f16, but this is " + dtype);
    graph_.set_io_data_type(dtype == "bf16" ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  Tensor input(const char* name, const Extents& extents, const Extents& strides) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(name)
                             .set_uid(number_of(name))
                             .set_dim(extents)
                             .set_stride(strides));
  }
  fe::graph::Tensor_attributes& output(const Tensor& tensor, const char* name, const Extents& extents,
                                       const Extents& strides) {
    return tensor->set_output(true).set_uid(number_of(name)).set_dim(extents).set_stride(strides);
  }

  void plan(const std::vector<fe::HeurMode_t>& heuristics) {
    must(graph_.validate(), "the graph");
    must(graph_.build_operation_graph(handle()), "the operation graph");
    must(graph_.create_execution_plans(heuristics), "requesting a plan");
    if (auto supported = graph_.check_support(); supported.is_bad())
      throw contender::Unsupported("cudnn has no plan for this: " + supported.get_message());
    must(graph_.build_plans(), "building the plan");
    std::int64_t bytes = 0;
    must(graph_.get_workspace_size(bytes), "requesting the workspace size");
    workspace_.allocate(static_cast<std::size_t>(bytes));
  }

  fe::graph::Graph graph_;

 private:
  std::int64_t number_of(const char* name) {
    places_.push_back(place(workload_, name));
    return static_cast<std::int64_t>(places_.size());
  }

  const cultivar_contender_workload& workload_;  // valid while it is prepared
  std::vector<std::size_t> places_;
  std::unordered_map<std::int64_t, void*> pack_;
  vendor::Workspace workspace_;
};

class AttentionForward : public Planned {
 public:
  explicit AttentionForward(const cultivar_contender_workload& w) : Planned(w) {
    const std::int64_t b = integer(w, "B"), h = integer(w, "H"), h_kv = integer(w, "H_kv"),
                       s_q = integer(w, "S_q"), s_kv = integer(w, "S_kv"), d = integer(w, "D");
    const bool causal = integer(w, "causal") != 0;
    if (!contender::is_off(w, "window") || !contender::is_off(w, "softcap"))
      throw contender::Unsupported("this contender has no window and no softcap");
    if (causal && s_q > s_kv)
      throw contender::Unsupported("cudnn defines no output for causal rows that see no key (S_q > S_kv)");

    // Describes the task's [B, S, heads, D] as cuDNN's [B, heads, S, D].
    const auto extents = [&](std::int64_t heads, std::int64_t s) { return Extents{b, heads, s, d}; };
    const auto strides = [&](std::int64_t heads, std::int64_t s) {
      return Extents{s * heads * d, d, heads * d, 1};
    };
    const auto q = input("q", extents(h, s_q), strides(h, s_q));
    const auto k = input("k", extents(h_kv, s_kv), strides(h_kv, s_kv));
    const auto v = input("v", extents(h_kv, s_kv), strides(h_kv, s_kv));
    auto options = fe::graph::SDPA_attributes().set_name("attention_forward").set_generate_stats(true);
    options.set_attn_scale(static_cast<float>(contender::number(w, "scale")));
    if (causal && s_q == s_kv) options.set_causal_mask(true);
    if (causal && s_q != s_kv) options.set_causal_mask_bottom_right(true);
    const auto [o, lse] = graph_.sdpa(q, k, v, options);
    output(o, "o", extents(h, s_q), strides(h, s_q));
    output(lse, "lse", {b, h, s_q, 1}, {h * s_q, s_q, 1, 1}).set_data_type(fe::DataType_t::FLOAT);
    plan({fe::HeurMode_t::A});
  }
};

class RmsnormBackward : public Planned {
 public:
  explicit RmsnormBackward(const cultivar_contender_workload& w) : Planned(w) {
    const std::int64_t r = integer(w, "R"), c = integer(w, "C");
    const Extents rows{r, c, 1, 1}, row{1, c, 1, 1}, strides{c, 1, c, c};
    const auto dy = input("dy", rows, strides), x = input("x", rows, strides),
               scale = input("w", row, strides);
    const auto rstd = input("rstd", {r, 1, 1, 1}, {1, 1, 1, 1});
    rstd->set_data_type(fe::DataType_t::FLOAT);
    const auto [dx, dw, bias] = graph_.rmsnorm_backward(
        dy, x, scale, rstd,
        fe::graph::Rmsnorm_backward_attributes().set_name("rmsnorm_backward").has_dbias(false));
    output(dx, "dx", rows, strides);
    output(dw, "dw", row, strides);
    plan({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  }
};

class Work {
 public:
  explicit Work(const cultivar_contender_workload& w) {
    const std::string task = contender::text(w, "task");
    if (task == "attention_forward")
      planned_ = std::make_unique<AttentionForward>(w);
    else if (task == "rmsnorm_backward")
      planned_ = std::make_unique<RmsnormBackward>(w);
    else
      throw contender::Unusable("cudnn computes attention_forward and rmsnorm_backward here, not " + task);
  }
  void launch(void* const* data, void* stream) { planned_->launch(data, stream); }

 private:
  std::unique_ptr<Planned> planned_;
};

}  // namespace

extern "C" const cultivar_contender_description* cultivar_contender_describe() {
  static std::string version;
  static cultivar_contender_description told{CULTIVAR_CONTENDER_ABI, "cudnn", "", "*", "cuda"};
  contender::answer([&] {
    handle();
    const std::size_t number = fe::detail::get_backend_version();
    version = "cuDNN " + std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "." +
              std::to_string(number % 100);
  });
  told.version = version.c_str();
  return &told;
}

CULTIVAR_CONTENDER_CALLS(Work)

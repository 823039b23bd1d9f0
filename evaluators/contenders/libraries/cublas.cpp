// matmul by cuBLASLt: row-major C = A B as the column-major product C' = B' A', sums in f32. prepare times
// each algorithm that cuBLASLt's heuristics offer and keeps the fastest, as a careful user would.
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>

#include "evaluators/contenders/libraries/answers.hpp"
#include "evaluators/contenders/libraries/vendor.hpp"

namespace {

using namespace cultivar;
using contender::integer;
using contender::place;

constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;
constexpr int kMostAlgorithms = 8, kTrials = 5;

struct Library {
  decltype(&cublasLtGetVersion) GetVersion = nullptr;
  decltype(&cublasLtCreate) Create = nullptr;
  decltype(&cublasLtMatmul) Matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) MatmulDescCreate = nullptr;
  decltype(&cublasLtMatmulDescDestroy) MatmulDescDestroy = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) PreferenceCreate = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) PreferenceDestroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) PreferenceSetAttribute = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) AlgoGetHeuristic = nullptr;
  decltype(&cublasLtGetStatusString) GetStatusString = nullptr;
  cublasLtHandle_t handle = nullptr;  // created by the first prepare, kept until the process ends

  void must(cublasStatus_t status, const char* what) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    const std::string words = std::string(what) + ": " + GetStatusString(status);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) throw contender::Unsupported(words);
    throw std::runtime_error(words);
  }
};

const Library& library() {
  static const Library loaded = [] {
    const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
    void* const file = vendor::open(name, "install cuBLAS of CUDA " + std::to_string(CUBLAS_VER_MAJOR));
    Library l;
    vendor::find(file, l.GetVersion, "cublasLtGetVersion");
    vendor::find(file, l.Create, "cublasLtCreate");
    vendor::find(file, l.Matmul, "cublasLtMatmul");
    vendor::find(file, l.MatmulDescCreate, "cublasLtMatmulDescCreate");
    vendor::find(file, l.MatmulDescDestroy, "cublasLtMatmulDescDestroy");
    vendor::find(file, l.MatrixLayoutCreate, "cublasLtMatrixLayoutCreate");
    vendor::find(file, l.MatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy");
    vendor::find(file, l.PreferenceCreate, "cublasLtMatmulPreferenceCreate");
    vendor::find(file, l.PreferenceDestroy, "cublasLtMatmulPreferenceDestroy");
    vendor::find(file, l.PreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute");
    vendor::find(file, l.AlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic");
    vendor::find(file, l.GetStatusString, "cublasLtGetStatusString");
    l.must(l.Create(&l.handle), "cublasLtCreate");
    return l;
  }();
  return loaded;
}

cudaDataType_t type_of(const std::string& dtype) {
  if (dtype == "bf16") return CUDA_R_16BF;
  if (dtype == "f16") return CUDA_R_16F;
  if (dtype == "f32") return CUDA_R_32F;
  throw contender::Unsupported("cublas supports bf16, f16 and f32, but this is " + dtype);
}

class Product {
 public:
  explicit Product(const cultivar_contender_workload& w)
      : a_(place(w, "a")), b_(place(w, "b")), c_(place(w, "c")) {
    const auto m = static_cast<std::uint64_t>(integer(w, "M")),
               n = static_cast<std::uint64_t>(integer(w, "N")),
               k = static_cast<std::uint64_t>(integer(w, "K"));
    const cudaDataType_t type = type_of(w.dtype);
    const Library& lt = library();
    lt.must(lt.MatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing the product");
    const auto layout = [&](cublasLtMatrixLayout_t& made, std::uint64_t rows, std::uint64_t columns) {
      lt.must(lt.MatrixLayoutCreate(&made, type, rows, columns, static_cast<std::int64_t>(rows)),
              "describing a matrix");
    };
    layout(b_layout_, n, k);
    layout(a_layout_, k, m);
    layout(c_layout_, n, m);
    workspace_.allocate(kWorkspaceBytes);
    choose(w);
  }
  ~Product() {
    const Library& lt = library();
    if (product_ != nullptr) lt.MatmulDescDestroy(product_);
    for (const cublasLtMatrixLayout_t each : {a_layout_, b_layout_, c_layout_})
      if (each != nullptr) lt.MatrixLayoutDestroy(each);
  }
  Product(const Product&) = delete;

  void launch(void* const* data, void* stream) const { launch(algorithm_, data, stream); }

 private:
  void launch(const cublasLtMatmulAlgo_t& algorithm, void* const* data, void* stream) const {
    const float one = 1.0f, zero = 0.0f;
    const Library& lt = library();
    lt.must(lt.Matmul(lt.handle, product_, &one, data[b_], b_layout_, data[a_], a_layout_, &zero, data[c_],
                      c_layout_, data[c_], c_layout_, &algorithm, workspace_.data(), kWorkspaceBytes,
                      static_cast<cudaStream_t>(stream)),
            "cublasLtMatmul");
  }

  void choose(const cultivar_contender_workload& w) {
    const Library& lt = library();
    cublasLtMatmulPreference_t wishes = nullptr;
    lt.must(lt.PreferenceCreate(&wishes), "requesting an algorithm");
    // Partial sums may be combined only in f32.
    const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    lt.PreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                              sizeof kWorkspaceBytes);
    lt.PreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    std::array<cublasLtMatmulHeuristicResult_t, kMostAlgorithms> found{};
    int count = 0;
    const cublasStatus_t asked =
        lt.AlgoGetHeuristic(lt.handle, product_, b_layout_, a_layout_, c_layout_, c_layout_, wishes,
                            kMostAlgorithms, found.data(), &count);
    lt.PreferenceDestroy(wishes);
    lt.must(asked, "requesting an algorithm");
    if (count == 0) throw contender::Unsupported("cublas has no algorithm for this product");

    std::vector<void*> data;
    for (std::uint32_t i = 0; i < w.tensor_count; ++i) data.push_back(w.tensors[i].data);
    float best = std::numeric_limits<float>::max();
    for (int i = 0; i < count; ++i)
      if (const float ms = milliseconds(found[static_cast<std::size_t>(i)].algo, data.data()); ms < best) {
        best = ms;
        algorithm_ = found[static_cast<std::size_t>(i)].algo;
      }
  }

  // The fastest of several trials.
  float milliseconds(const cublasLtMatmulAlgo_t& algorithm, void* const* data) const {
    const vendor::Driver& driver = vendor::Driver::instance();
    void *begin = nullptr, *end = nullptr;
    driver.EventCreate(&begin, 0);
    driver.EventCreate(&end, 0);
    float best = std::numeric_limits<float>::max();
    for (int trial = 0; trial <= kTrials; ++trial) {
      float ms = 0.0f;
      driver.EventRecord(begin, nullptr);
      launch(algorithm, data, nullptr);
      driver.EventRecord(end, nullptr);
      if (driver.EventSynchronize(end) != 0 || driver.EventElapsedTime(&ms, begin, end) != 0)
        throw std::runtime_error("an algorithm of cuBLAS failed on the GPU");
      if (trial > 0) best = std::min(best, ms);
    }
    driver.EventDestroy(begin);
    driver.EventDestroy(end);
    return best;
  }

  std::size_t a_, b_, c_;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t a_layout_ = nullptr, b_layout_ = nullptr, c_layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  vendor::Workspace workspace_;
};

}  // namespace

extern "C" const cultivar_contender_description* cultivar_contender_describe() {
  static std::string version;
  static cultivar_contender_description told{CULTIVAR_CONTENDER_ABI, "cublas", "", "matmul", "cuda"};
  contender::answer([&] { version = "cuBLASLt " + std::to_string(library().GetVersion()); });
  told.version = version.c_str();
  return &told;
}

CULTIVAR_CONTENDER_CALLS(Product)

// SPDX-License-Identifier: Apache-2.0
// matmul and linear by cuBLASLt, sums in f32: row-major C = A B as the column-major product C' = B' A', and
// y = x w' as y' = w x', with bias and gelu as epilogue. prepare searches all algorithms for the fastest, as
// a careful user would, once for each shape: the answer is kept in the process and in the cache.
#include <cublasLt.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "evaluators/contenders/libraries/answers.hpp"
#include "evaluators/contenders/libraries/cublas_search.hpp"
#include "evaluators/contenders/libraries/vendor.hpp"

namespace {

using namespace cultivar;
using contender::integer;
using contender::place;

constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;
constexpr std::size_t kFlushBytes = std::size_t{128} << 20;  // more than the second-level cache
constexpr int kMostOffers = 32, kMostFamilies = 128;

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
  decltype(&cublasLtMatmulDescSetAttribute) DescSetAttribute = nullptr;
  decltype(&cublasLtMatmulAlgoGetIds) AlgoGetIds = nullptr;
  decltype(&cublasLtMatmulAlgoInit) AlgoInit = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) AlgoCheck = nullptr;
  decltype(&cublasLtMatmulAlgoCapGetAttribute) AlgoCapGetAttribute = nullptr;
  decltype(&cublasLtMatmulAlgoConfigSetAttribute) AlgoConfigSetAttribute = nullptr;
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
    vendor::find(file, l.DescSetAttribute, "cublasLtMatmulDescSetAttribute");
    vendor::find(file, l.AlgoGetIds, "cublasLtMatmulAlgoGetIds");
    vendor::find(file, l.AlgoInit, "cublasLtMatmulAlgoInit");
    vendor::find(file, l.AlgoCheck, "cublasLtMatmulAlgoCheck");
    vendor::find(file, l.AlgoCapGetAttribute, "cublasLtMatmulAlgoCapGetAttribute");
    vendor::find(file, l.AlgoConfigSetAttribute, "cublasLtMatmulAlgoConfigSetAttribute");
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

// Algorithms found for earlier shapes. An algorithm may be kept for the same version of cuBLASLt and the same
// GPU.
class KnownAlgorithms {
 public:
  std::optional<cublasLtMatmulAlgo_t> find(const std::string& key, const std::string& cache) {
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    std::ifstream file(file_of(key, cache));
    cublasLtMatmulAlgo_t algorithm{};
    for (std::uint64_t& word : algorithm.data)
      if (!(file >> std::hex >> word)) return std::nullopt;
    known_.emplace(key, algorithm);
    return algorithm;
  }
  void keep(const std::string& key, const std::string& cache, const cublasLtMatmulAlgo_t& algorithm) {
    known_[key] = algorithm;
    if (cache.empty()) return;
    // If it cannot be written, the next process searches again.
    std::error_code ignored;
    const std::filesystem::path file = file_of(key, cache);
    std::filesystem::create_directories(file.parent_path(), ignored);
    const std::filesystem::path fresh = file.string() + "." + std::to_string(::getpid());
    std::ofstream out(fresh);
    for (const std::uint64_t word : algorithm.data) out << std::hex << word << "\n";
    out.close();
    if (out) std::filesystem::rename(fresh, file, ignored);
  }

 private:
  static std::filesystem::path file_of(const std::string& key, const std::string& cache) {
    return std::filesystem::path(cache) / "cublaslt" / (key + ".algorithm");
  }
  std::map<std::string, cublasLtMatmulAlgo_t> known_;
};

KnownAlgorithms& known_algorithms() {
  static KnownAlgorithms known;
  return known;
}

// The column-major product that computes a task: result (rows x columns) = op(first) second.
class Product {
 public:
  explicit Product(const cultivar_contender_workload& w) {
    const std::string task = contender::text(w, "task");
    const bool linear = task == "linear";
    if (!linear && task != "matmul")
      throw contender::Unusable("cublas computes matmul and linear, not " + task);
    const auto m = static_cast<std::uint64_t>(integer(w, "M")),
               n = static_cast<std::uint64_t>(integer(w, "N")),
               k = static_cast<std::uint64_t>(integer(w, "K"));
    first_ = place(w, linear ? "w" : "b");
    second_ = place(w, linear ? "x" : "a");
    result_ = place(w, linear ? "y" : "c");
    type_ = type_of(w.dtype);
    const Library& lt = library();
    lt.must(lt.MatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing the product");
    const auto layout = [&](cublasLtMatrixLayout_t& made, std::uint64_t rows, std::uint64_t columns) {
      lt.must(lt.MatrixLayoutCreate(&made, type_, rows, columns, static_cast<std::int64_t>(rows)),
              "describing a matrix");
    };
    layout(first_layout_, linear ? k : n, linear ? n : k);
    layout(second_layout_, k, m);
    layout(result_layout_, n, m);
    std::string key =
        task + "-" + w.dtype + "-" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
    if (linear) {
      set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
      key += add_epilogue(w);
    }
    workspace_.allocate(kWorkspaceBytes);
    choose(w, key);
  }
  ~Product() {
    const Library& lt = library();
    if (product_ != nullptr) lt.MatmulDescDestroy(product_);
    for (const cublasLtMatrixLayout_t each : {first_layout_, second_layout_, result_layout_})
      if (each != nullptr) lt.MatrixLayoutDestroy(each);
  }
  Product(const Product&) = delete;

  void launch(void* const* data, void* stream) const {
    const Library& lt = library();
    lt.must(run(algorithm_, data, stream), "cublasLtMatmul");
  }

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
    const Library& lt = library();
    lt.must(lt.DescSetAttribute(product_, attribute, &value, sizeof value), "describing the product");
  }

  static bool flag(const cultivar_contender_workload& w, std::initializer_list<const char*> names,
                   bool otherwise) {
    for (const char* name : names)
      for (std::uint32_t i = 0; i < w.value_count; ++i)
        if (std::strcmp(w.values[i].name, name) == 0) return w.values[i].value != 0.0;
    return otherwise;
  }

  // Returns its part of the key.
  std::string add_epilogue(const cultivar_contender_workload& w) {
    for (std::uint32_t i = 0; i < w.tensor_count; ++i)
      if (std::strcmp(w.tensors[i].name, "bias") == 0 || std::strcmp(w.tensors[i].name, "b") == 0) bias_ = i;
    if (bias_ && !flag(w, {"has_bias", "with_bias", "add_bias", "bias"}, true)) bias_.reset();
    const bool gelu = flag(w, {"gelu"}, false);
    const cublasLtEpilogue_t epilogue = bias_ && gelu ? CUBLASLT_EPILOGUE_GELU_BIAS
                                        : gelu        ? CUBLASLT_EPILOGUE_GELU
                                        : bias_       ? CUBLASLT_EPILOGUE_BIAS
                                                      : CUBLASLT_EPILOGUE_DEFAULT;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (bias_) {
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(w.tensors[*bias_].dtype));
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, w.tensors[*bias_].data);
    }
    return std::string(bias_ ? "-bias" : "") + (gelu ? "-gelu" : "");
  }

  cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm, void* const* data, void* stream) const {
    const float one = 1.0f, zero = 0.0f;
    const Library& lt = library();
    if (bias_) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, data[*bias_]);
    return lt.Matmul(lt.handle, product_, &one, data[first_], first_layout_, data[second_], second_layout_,
                     &zero, data[result_], result_layout_, data[result_], result_layout_, &algorithm,
                     workspace_.data(), kWorkspaceBytes, static_cast<cudaStream_t>(stream));
  }

  bool can_run(const cublasLtMatmulAlgo_t& algorithm) const {
    const Library& lt = library();
    cublasLtMatmulHeuristicResult_t told{};
    return lt.AlgoCheck(lt.handle, product_, first_layout_, second_layout_, result_layout_, result_layout_,
                        &algorithm, &told) == CUBLAS_STATUS_SUCCESS &&
           told.workspaceSize <= kWorkspaceBytes;
  }

  void choose(const cultivar_contender_workload& w, const std::string& shape) {
    const Library& lt = library();
    const std::string cache = contender::text(w, "cache");
    const std::string key = std::to_string(lt.GetVersion()) + "-" + vendor::gpu_name() + "-" + shape;
    if (const auto known = known_algorithms().find(key, cache); known && can_run(*known)) {
      algorithm_ = *known;
      return;
    }
    std::vector<void*> data;
    for (std::uint32_t i = 0; i < w.tensor_count; ++i) data.push_back(w.tensors[i].data);
    vendor::Workspace flush;
    flush.allocate(kFlushBytes);
    contender::SearchCalls calls;
    calls.CapGetAttribute = lt.AlgoCapGetAttribute;
    calls.ConfigSetAttribute = lt.AlgoConfigSetAttribute;
    calls.offers = offers();
    calls.families = families();
    calls.can_run = [&](const cublasLtMatmulAlgo_t& a) { return can_run(a); };
    // The flush also keeps the GPU busy until the product is queued.
    calls.time_one = [&](const cublasLtMatmulAlgo_t& a) {
      return seconds(a, data.data(), w.stream, flush.data());
    };
    calls.screen = [&](const cublasLtMatmulAlgo_t& a) {  // the first run loads the kernel
      double least = calls.time_one(a);
      for (int i = 0; i < 2 && least < std::numeric_limits<double>::infinity(); ++i)
        least = std::min(least, calls.time_one(a));
      return least;
    };
    contender::AlgorithmSearch search(calls, {});
    if (!search.run(algorithm_)) throw contender::Unsupported("cublas has no algorithm for this product");
    known_algorithms().keep(key, cache, algorithm_);
  }

  std::vector<cublasLtMatmulAlgo_t> offers() const {
    const Library& lt = library();
    cublasLtMatmulPreference_t wishes = nullptr;
    lt.must(lt.PreferenceCreate(&wishes), "requesting an algorithm");
    // Partial sums may be combined only in f32.
    const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    lt.PreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                              sizeof kWorkspaceBytes);
    lt.PreferenceSetAttribute(wishes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    std::array<cublasLtMatmulHeuristicResult_t, kMostOffers> found{};
    int count = 0;
    const cublasStatus_t asked =
        lt.AlgoGetHeuristic(lt.handle, product_, first_layout_, second_layout_, result_layout_,
                            result_layout_, wishes, kMostOffers, found.data(), &count);
    lt.PreferenceDestroy(wishes);
    lt.must(asked, "requesting an algorithm");
    std::vector<cublasLtMatmulAlgo_t> all;
    for (int i = 0; i < count; ++i) all.push_back(found[static_cast<std::size_t>(i)].algo);
    return all;
  }

  std::vector<cublasLtMatmulAlgo_t> families() const {
    const Library& lt = library();
    std::array<int, kMostFamilies> ids{};
    int count = 0;
    if (lt.AlgoGetIds(lt.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, type_, type_, type_, type_, kMostFamilies,
                      ids.data(), &count) != CUBLAS_STATUS_SUCCESS)
      return {};
    std::vector<cublasLtMatmulAlgo_t> all;
    for (int i = 0; i < count; ++i) {
      cublasLtMatmulAlgo_t algorithm{};
      if (lt.AlgoInit(lt.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, type_, type_, type_, type_,
                      ids[static_cast<std::size_t>(i)], &algorithm) == CUBLAS_STATUS_SUCCESS)
        all.push_back(algorithm);
    }
    return all;
  }

  // Of one run with a cold cache; infinite if it is refused. `flush`: memory of kFlushBytes to write first.
  double seconds(const cublasLtMatmulAlgo_t& algorithm, void* const* data, void* stream, void* flush) const {
    const vendor::Driver& driver = vendor::Driver::instance();
    static void *begin = nullptr, *end = nullptr;
    if (begin == nullptr) {
      driver.EventCreate(&begin, 0);
      driver.EventCreate(&end, 0);
    }
    driver.MemsetAsync(reinterpret_cast<unsigned long long>(flush), 1, kFlushBytes, stream);
    float ms = 0.0f;
    driver.EventRecord(begin, stream);
    if (run(algorithm, data, stream) != CUBLAS_STATUS_SUCCESS) return std::numeric_limits<double>::infinity();
    driver.EventRecord(end, stream);
    if (driver.EventSynchronize(end) != 0 || driver.EventElapsedTime(&ms, begin, end) != 0)
      throw std::runtime_error("an algorithm of cuBLAS failed on the GPU");
    return 1e-3 * static_cast<double>(ms);
  }

  std::size_t first_ = 0, second_ = 0, result_ = 0;
  std::optional<std::size_t> bias_;
  cudaDataType_t type_ = CUDA_R_32F;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t first_layout_ = nullptr, second_layout_ = nullptr, result_layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  vendor::Workspace workspace_;
};

}  // namespace

extern "C" const cultivar_contender_description* cultivar_contender_describe() {
  static std::string version;
  static cultivar_contender_description told{CULTIVAR_CONTENDER_ABI, "cublas", "", "*", "cuda"};
  contender::answer([&] { version = "cuBLASLt " + std::to_string(library().GetVersion()); });
  told.version = version.c_str();
  return &told;
}

CULTIVAR_CONTENDER_CALLS(Product)

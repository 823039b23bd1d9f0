// SPDX-License-Identifier: Apache-2.0
// The fastest of all algorithms of cuBLASLt for one product, as far as a bounded search finds it: the offers
// of its heuristics, random configurations of every algorithm, and neighbors of the fastest ones.
#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <vector>

namespace cultivar::contender {

// Its calls for the product at hand.
struct SearchCalls {
  decltype(&cublasLtMatmulAlgoCapGetAttribute) CapGetAttribute = nullptr;
  decltype(&cublasLtMatmulAlgoConfigSetAttribute) ConfigSetAttribute = nullptr;
  std::vector<cublasLtMatmulAlgo_t> families;                   // each algorithm as initialized
  std::vector<cublasLtMatmulAlgo_t> offers;                     // of the heuristics, the best first
  std::function<bool(const cublasLtMatmulAlgo_t&)> can_run;     // within the workspace
  std::function<double(const cublasLtMatmulAlgo_t&)> screen;    // seconds, roughly; infinite if it fails
  std::function<double(const cublasLtMatmulAlgo_t&)> time_one;  // one run with a cold cache
};

struct SearchLimits {
  double seconds = 10.0;
  int random = 200, most_checks = 20'000, rounds = 3, parents = 4, mutants = 24, finalists = 6, trials = 15;
};

class AlgorithmSearch {
 public:
  AlgorithmSearch(const SearchCalls& calls, const SearchLimits& limits) : calls_(calls), limits_(limits) {}

  // Throws nothing; false: no algorithm runs.
  bool run(cublasLtMatmulAlgo_t& best) {
    for (const cublasLtMatmulAlgo_t& offer : calls_.offers) consider(offer);
    const std::size_t offered = found_.size();
    for (int checks = 0; checks < limits_.most_checks && !calls_.families.empty() &&
                         found_.size() < offered + static_cast<std::size_t>(limits_.random) && time_left(0.5);
         ++checks) {
      cublasLtMatmulAlgo_t algorithm = calls_.families[random_() % calls_.families.size()];
      for (const cublasLtMatmulAlgoConfigAttributes_t attribute : kAttributes) draw(algorithm, attribute);
      consider(algorithm);
    }
    for (int round = 0; round < limits_.rounds && !found_.empty(); ++round) {
      sort();
      const std::size_t parents = std::min(found_.size(), static_cast<std::size_t>(limits_.parents));
      for (std::size_t p = 0; p < parents; ++p)
        for (int m = 0; m < limits_.mutants && time_left(0.85); ++m) {
          cublasLtMatmulAlgo_t mutant = found_[p].algorithm;
          draw(mutant, kAttributes[random_() % std::size(kAttributes)]);
          consider(mutant);
        }
    }
    if (found_.empty()) return false;
    sort();
    best = final_of();
    return true;
  }
  std::size_t tried() const { return found_.size(); }

 private:
  struct Found {
    cublasLtMatmulAlgo_t algorithm;
    double seconds;
  };
  static constexpr cublasLtMatmulAlgoConfigAttributes_t kAttributes[] = {
      CUBLASLT_ALGO_CONFIG_TILE_ID,       CUBLASLT_ALGO_CONFIG_STAGES_ID,
      CUBLASLT_ALGO_CONFIG_SPLITK_NUM,    CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING,
      CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID};

  bool time_left(double share) const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() <
           share * limits_.seconds;
  }
  void sort() {
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Found& a, const Found& b) { return a.seconds < b.seconds; });
  }

  void consider(const cublasLtMatmulAlgo_t& algorithm) {
    std::vector<std::uint64_t> bits(std::begin(algorithm.data), std::end(algorithm.data));
    if (!seen_.insert(std::move(bits)).second || !calls_.can_run(algorithm)) return;
    const double seconds = calls_.screen(algorithm);
    if (seconds < std::numeric_limits<double>::infinity()) found_.push_back({algorithm, seconds});
  }

  // One of the values that the algorithm names for an attribute; splitting sums and clusters have none named.
  void draw(cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
    const auto set = [&](const auto& value) {
      (void)calls_.ConfigSetAttribute(&algorithm, attribute, &value, sizeof value);
    };
    switch (attribute) {
      case CUBLASLT_ALGO_CONFIG_TILE_ID:
        if (const auto ids = list(algorithm, CUBLASLT_ALGO_CAP_TILE_IDS); !ids.empty())
          set(ids[random_() % ids.size()]);
        break;
      case CUBLASLT_ALGO_CONFIG_STAGES_ID:
        if (const auto ids = list(algorithm, CUBLASLT_ALGO_CAP_STAGES_IDS); !ids.empty())
          set(ids[random_() % ids.size()]);
        break;
      case CUBLASLT_ALGO_CONFIG_SPLITK_NUM: {
        constexpr std::int32_t kParts[] = {1, 1, 1, 2, 3, 4, 5, 6, 8, 12, 16, 32};
        const std::int32_t parts = number(algorithm, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT) != 0
                                       ? kParts[random_() % std::size(kParts)]
                                       : 1;
        set(parts);
        const std::uint32_t scheme =  // partial sums may be combined only in f32
            parts > 1 ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_NONE;
        (void)calls_.ConfigSetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme,
                                        sizeof scheme);
        break;
      }
      case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING:
        set(number(algorithm, CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT) != 0
                ? static_cast<std::uint32_t>(random_() % 2)
                : std::uint32_t{0});
        break;
      case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION:
        set(static_cast<std::uint32_t>(random_() %
                                       (number(algorithm, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX) + 1U)));
        break;
      case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
        set(random_() % 3 == 0 ? std::uint16_t{CUBLASLT_CLUSTER_SHAPE_AUTO}
                               : static_cast<std::uint16_t>(CUBLASLT_CLUSTER_SHAPE_1x1x1 + random_() % 12));
        break;
      default:
        break;
    }
  }

  std::uint32_t number(const cublasLtMatmulAlgo_t& algorithm,
                       cublasLtMatmulAlgoCapAttributes_t attribute) const {
    std::int32_t value = 0;
    std::size_t written = 0;
    if (calls_.CapGetAttribute(&algorithm, attribute, &value, sizeof value, &written) !=
        CUBLAS_STATUS_SUCCESS)
      return 0;
    return static_cast<std::uint32_t>(std::max(value, 0));
  }
  std::vector<std::uint32_t> list(const cublasLtMatmulAlgo_t& algorithm,
                                  cublasLtMatmulAlgoCapAttributes_t attribute) const {
    std::size_t bytes = 0, written = 0;
    if (calls_.CapGetAttribute(&algorithm, attribute, nullptr, 0, &bytes) != CUBLAS_STATUS_SUCCESS) return {};
    std::vector<std::uint32_t> all(bytes / sizeof(std::uint32_t));
    if (all.empty() ||
        calls_.CapGetAttribute(&algorithm, attribute, all.data(), bytes, &written) != CUBLAS_STATUS_SUCCESS)
      return {};
    return all;
  }

  // The least median of the finalists, whose runs take turns.
  cublasLtMatmulAlgo_t final_of() const {
    const std::size_t count = std::min(found_.size(), static_cast<std::size_t>(limits_.finalists));
    std::vector<std::vector<double>> times(count);
    for (int trial = 0; trial < limits_.trials; ++trial)
      for (std::size_t i = 0; i < count; ++i) times[i].push_back(calls_.time_one(found_[i].algorithm));
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < count; ++i) {
      std::nth_element(times[i].begin(), times[i].begin() + limits_.trials / 2, times[i].end());
      const double median = times[i][static_cast<std::size_t>(limits_.trials / 2)];
      if (median < least) least = median, best = i;
    }
    return found_[best].algorithm;
  }

  const SearchCalls& calls_;
  SearchLimits limits_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mt19937_64 random_{1};
  std::set<std::vector<std::uint64_t>> seen_;
  std::vector<Found> found_;
};

}  // namespace cultivar::contender

// SPDX-License-Identifier: Apache-2.0
// manifest.json of a bundle: what programs ask of it before they load it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/export/bundled_kernel.hpp"
#include "engine/export/portfolio.hpp"
#include "engine/search/search.hpp"

namespace cultivar {

// What the kernels accept and what is built in; how fast they were on which shapes beside which contenders,
// with 95 % intervals of the times; their errors relative to what is permitted; the device, compiler and
// versions; the licenses; and the SHA-256 of each file (by its path in the bundle). Of a portfolio also the
// rules of its table, from what they were learnt, and their figures on drawn and on listed shapes.
nlohmann::json bundle_manifest(const Task&, const std::vector<BundledKernel>&, const RunFacts&,
                               const std::string& identity, const std::map<std::string, std::string>& files,
                               const KernelPortfolio* portfolio, const DispatchTable&);

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "engine/dashboard/page.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "embedded/dashboard.hpp"
#include "engine/store/summary.hpp"
#include "engine/views/islands_view.hpp"
#include "engine/views/kernel_table.hpp"
#include "engine/views/run_views.hpp"
#include "evaluators/system/json_text.hpp"

namespace cultivar {

using nlohmann::json;

namespace {

// For a Content-Security-Policy: what the browser may run although it stands in the page.
std::string hash_of(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("SHA-256 failed");
  std::array<unsigned char, 2 * EVP_MAX_MD_SIZE> base64{};
  const int length = EVP_EncodeBlock(base64.data(), digest.data(), static_cast<int>(size));
  return "'sha256-" + std::string(base64.begin(), base64.begin() + length) + "'";
}

std::string replaced(std::string text, std::string_view what, const std::string& with) {
  const std::size_t at = text.find(what);
  if (at == std::string::npos) throw std::logic_error("the page has no " + std::string(what));
  return text.replace(at, what.size(), with);
}

// JSON in a page: no text in it ends its element.
std::string in_html(const json& value) {
  const std::string text = json_text(value);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) c == '<' ? safe += "\\u003c" : safe += c;
  return safe;
}

// Which individuals a page without a server shows in full, the most interesting ones first.
std::vector<IndividualId> chosen(const RunIndex& index) {
  constexpr std::size_t kFastest = 40, kRejected = 40;
  std::vector<IndividualId> ids;
  std::set<IndividualId> seen;
  const auto add = [&](IndividualId id) {
    if (seen.insert(id).second) ids.push_back(id);
  };
  for (auto at = index.promotions().rbegin(); at != index.promotions().rend(); ++at) add(at->id);
  if (!index.promotions().empty())
    for (const IndividualId id : index.line_to(index.promotions().back().id)) add(id);
  std::vector<const KernelFacts*> kernels;
  for (const KernelFacts& k : index.kernels()) kernels.push_back(&k);
  const auto fastest = kernels.begin() + static_cast<std::ptrdiff_t>(std::min(kFastest, kernels.size()));
  std::ranges::partial_sort(kernels, fastest, std::greater<>(),
                            [](const KernelFacts* k) { return k->fitness; });
  for (auto at = kernels.begin(); at != fastest; ++at) add((*at)->id);
  std::set<std::uint32_t> reasons;  // one for each reason
  for (auto k = index.kernels().rbegin(); k != index.kernels().rend() && reasons.size() < kRejected; ++k)
    if (k->state == IndividualState::rejected && reasons.insert(k->reason).second) add(k->id);
  return ids;
}

}  // namespace

std::string page_html() {
  return std::string(dashboard::page_html);
}
std::string page_style() {
  return std::string(dashboard::style_css);
}
std::string page_script() {
  std::string script = "'use strict';\n";
  for (const std::string_view part : {dashboard::base_js, dashboard::source_js, dashboard::charts_js,
                                      dashboard::views_js, dashboard::variant_js, dashboard::app_js})
    script += part;
  return script;
}

std::string page_of_run(const Record& record, const RunIndex& index) {
  constexpr std::size_t kMostBytes = 12 << 20, kEvents = 500;
  json data{{"run", summary_of(record).run},
            {"state", state_view(record, index)},
            {"series?by=time", series_view(index, false)},
            {"series?by=count", series_view(index, true)},
            {"path", path_view(record, index, 0)},
            {"islands", IslandsView().of(record, index)},
            {"failures", failures_view(index)},
            {"operators", operators_view(record, index)},
            {"devices", devices_view(record, index)},
            {"budgets", budgets_view(record, index)},
            {"interventions", interventions_view(record)},
            {"events", events_view(record, 0, kEvents)},
            {"compact", compact_table(record, index)}};
  std::string variants;
  for (const IndividualId id : chosen(index)) {
    const std::string one = in_html(variant_view(record, index, id));
    if (variants.size() + one.size() > kMostBytes) continue;
    variants += (variants.empty() ? "\"" : ",\"") + std::to_string(id) + "\":" + one;
  }
  const std::string style = page_style(), script = page_script();
  std::string page = page_html();
  page = replaced(std::move(page), "<!-- policy -->",
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
                  "base-uri 'none'; form-action 'none'; script-src " +
                      hash_of(script) + "; style-src " + hash_of(style) +
                      "\">\n<meta name=\"generator\" content=\"" + kPageMark + "\">");
  page = replaced(std::move(page), "<link rel=\"stylesheet\" href=\"style.css\">",
                  "<style>" + style + "</style>");
  page = replaced(std::move(page), "<script src=\"app.js\" defer></script>", "");
  return replaced(std::move(page), "</body>",
                  "<script type=\"application/json\" id=\"data\">" + in_html(data) + "</script>\n" +
                      "<script type=\"application/json\" id=\"variants\">{" + variants +
                      "}</script>\n<script>" + script + "</script>\n</body>");
}

}  // namespace cultivar

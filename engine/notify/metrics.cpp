// SPDX-License-Identifier: Apache-2.0
#include "engine/notify/metrics.hpp"

#include <fmt/format.h>
#include <cmath>
#include <utility>

#include "evaluators/system/files.hpp"
#include "evaluators/system/plain_text.hpp"

namespace cultivar {

namespace {

std::string label_text(const std::string& value) {
  std::string text;
  for (const char c : utf8_text(value)) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n')
      text += "\\n";
    else
      text += c;
  }
  return text;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

std::string prometheus_text(const std::vector<Metric>& metrics) {
  std::string text;
  const std::string* last = nullptr;
  for (const Metric& metric : metrics) {
    if (!last || *last != metric.name)
      text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", metric.name, metric.help,
                          metric.kind == Metric::Kind::counter ? "counter" : "gauge");
    last = &metric.name;
    std::string labels;
    for (const auto& [name, value] : metric.labels)
      labels += fmt::format("{}{}=\"{}\"", labels.empty() ? "" : ",", name, label_text(value));
    text += metric.name + (labels.empty() ? "" : "{" + labels + "}") + " " + number_text(metric.value) + "\n";
  }
  return text;
}

MetricsFile::MetricsFile(std::filesystem::path file)
    : file_(std::move(file)), thread_([this](const std::stop_token& stop) { write_all(stop); }) {}

MetricsFile::~MetricsFile() = default;

void MetricsFile::put(std::string text) {
  const std::lock_guard lock(mutex_);
  text_ = std::move(text);
  due_ = true;
  changed_.notify_all();
}

std::string MetricsFile::trouble() {
  const std::lock_guard lock(mutex_);
  return trouble_.empty() || std::exchange(told_, true) ? std::string() : trouble_;
}

void MetricsFile::write_all(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, stop, [this] { return due_; });
    if (!due_) return;
    due_ = false;
    const std::string text = text_;
    lock.unlock();
    const auto written = write_atomically(file_, text);
    lock.lock();
    trouble_ = written ? "" : "the metrics file cannot be written: " + written.error().message;
    if (written) told_ = false;
  }
}

}  // namespace cultivar

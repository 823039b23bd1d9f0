// SPDX-License-Identifier: Apache-2.0
// Numbers in the text format of Prometheus, as a file for a collector (node_exporter's textfile collector).
#pragma once

#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace cultivar {

struct Metric {
  std::string name, help;
  enum class Kind { gauge, counter } kind = Kind::gauge;
  std::map<std::string, std::string> labels;
  double value = 0.0;
};

// Metrics with equal names must follow each other.
std::string prometheus_text(const std::vector<Metric>&);

// Writes the newest text, whole or not at all, from its own thread. Thread-safe.
class MetricsFile {
 public:
  explicit MetricsFile(std::filesystem::path);
  ~MetricsFile();              // writes the last text
  void put(std::string text);  // returns at once
  std::string trouble();       // why the last write failed, told once; empty if it did not

 private:
  void write_all(const std::stop_token&);
  const std::filesystem::path file_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string text_, trouble_;
  bool due_ = false, told_ = false;
  std::jthread thread_;
};

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// Shared by the contenders of this folder: lookup of a workload's names, and conversion of exceptions to the
// ABI's return values.
#pragma once

#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include "evaluators/contenders/cultivar_contender.h"

namespace cultivar::contender {

class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// On no workload: what the contender needs is missing.
class Unusable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline double number(const cultivar_contender_workload& w, const char* name) {
  for (std::uint32_t i = 0; i < w.value_count; ++i)
    if (std::strcmp(w.values[i].name, name) == 0) return w.values[i].value;
  throw std::runtime_error(std::string("the task has no ") + name);
}
// A parameter that tasks of earlier versions do not have, or that is off.
inline bool is_off(const cultivar_contender_workload& w, const char* name) {
  for (std::uint32_t i = 0; i < w.value_count; ++i)
    if (std::strcmp(w.values[i].name, name) == 0) return w.values[i].value == 0.0;
  return true;
}
inline std::int64_t integer(const cultivar_contender_workload& w, const char* name) {
  return static_cast<std::int64_t>(number(w, name));
}

// Empty if there is no such text.
inline const char* text(const cultivar_contender_workload& w, const char* name) {
  for (std::uint32_t i = 0; i < w.text_count; ++i)
    if (std::strcmp(w.texts[i].name, name) == 0) return w.texts[i].text;
  return "";
}

// The index of a tensor in launch's `data`.
inline std::size_t place(const cultivar_contender_workload& w, const char* name) {
  for (std::uint32_t i = 0; i < w.tensor_count; ++i)
    if (std::strcmp(w.tensors[i].name, name) == 0) return i;
  throw std::runtime_error(std::string("the task has no tensor ") + name);
}

inline std::string& last_error() {
  static std::string text;
  return text;
}

template <class Work>
std::int32_t answer(const Work& work) {
  try {
    work();
    return CULTIVAR_CONTENDER_OK;
  } catch (const Unsupported& e) {
    last_error() = e.what();
    return CULTIVAR_CONTENDER_UNSUPPORTED;
  } catch (const Unusable& e) {
    last_error() = e.what();
    return CULTIVAR_CONTENDER_UNUSABLE;
  } catch (const std::exception& e) {
    last_error() = e.what();
    return CULTIVAR_CONTENDER_FAILED;
  }
}

}  // namespace cultivar::contender

// Defines all functions of the ABI except cultivar_contender_describe, for a class that is constructed from a
// workload and has launch(data, stream).
#define CULTIVAR_CONTENDER_CALLS(Prepared)                                                                  \
  extern "C" std::int32_t cultivar_contender_prepare(const cultivar_contender_workload* workload,           \
                                                     void** handle) {                                       \
    return cultivar::contender::answer([&] { *handle = std::make_unique<Prepared>(*workload).release(); }); \
  }                                                                                                         \
  extern "C" std::int32_t cultivar_contender_launch(void* handle, void* const* data, void* stream) {        \
    return cultivar::contender::answer([&] { static_cast<Prepared*>(handle)->launch(data, stream); });      \
  }                                                                                                         \
  extern "C" void cultivar_contender_release(void* handle) {                                                \
    delete static_cast<Prepared*>(handle);                                                                  \
  }                                                                                                         \
  extern "C" const char* cultivar_contender_last_error() {                                                  \
    return cultivar::contender::last_error().c_str();                                                       \
  }

// Elements, fills and patterns of prove.cpp, and the launch of a cpu kernel.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

inline std::size_t bytes_of(const std::string& dtype) {
  return dtype == "f64" || dtype == "i64" ? 8 : dtype == "f32" || dtype == "i32" ? 4 : 2;
}
inline double epsilon_of(const std::string& dtype) {
  return dtype == "bf16" ? 0x1p-7 : dtype == "f16" ? 0x1p-10 : dtype == "f64" ? 0x1p-52 : 0x1p-23;
}
inline double largest_of(const std::string& dtype) {
  return dtype == "bf16" ? 0x1.fep127 : dtype == "f16" ? 65504.0 : dtype == "f32" ? 0x1.fffffep127 : 1e300;
}
inline std::uint16_t bf16_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
inline double element(const void* stored, const std::string& dtype, std::int64_t i) {
  if (dtype == "f32") return static_cast<const float*>(stored)[i];
  if (dtype == "f64") return static_cast<const double*>(stored)[i];
  if (dtype == "i64") return static_cast<double>(static_cast<const std::int64_t*>(stored)[i]);
  if (dtype == "i32") return static_cast<const std::int32_t*>(stored)[i];
  if (dtype == "f16") return static_cast<double>(static_cast<const _Float16*>(stored)[i]);
  const std::uint32_t bits = static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(stored)[i]) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
// Stores a value and gives it as it is then.
inline double store_element(void* stored, const std::string& dtype, std::int64_t i, double value) {
  if (dtype == "f32") static_cast<float*>(stored)[i] = static_cast<float>(value);
  else if (dtype == "f64") static_cast<double*>(stored)[i] = value;
  else if (dtype == "i64") static_cast<std::int64_t*>(stored)[i] = static_cast<std::int64_t>(value);
  else if (dtype == "i32") static_cast<std::int32_t*>(stored)[i] = static_cast<std::int32_t>(value);
  else if (dtype == "f16") static_cast<_Float16*>(stored)[i] = static_cast<_Float16>(value);
  else static_cast<std::uint16_t*>(stored)[i] = bf16_bits(static_cast<float>(value));
  return element(stored, dtype, i);
}
inline double rounded_to(const std::string& dtype, double value) {
  alignas(8) unsigned char one[8];
  return store_element(one, dtype, 0, value);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::uint64_t next() {  // splitmix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double normal() {
    return std::sqrt(-2.0 * std::log(uniform() + 1e-300)) * std::cos(6.283185307179586 * uniform());
  }

 private:
  std::uint64_t state_;
};

struct Axis {
  std::int64_t extent = 1, stride = 1;
  std::int64_t index(std::int64_t i) const { return i / stride % extent; }
};
inline Axis axis_of(const std::vector<std::int64_t>& shape, int axis) {
  if (shape.empty()) return {};
  if (axis < 0) axis += static_cast<int>(shape.size());
  Axis a{shape[static_cast<std::size_t>(axis)], 1};
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < shape.size(); ++i) a.stride *= shape[i];
  return a;
}

// fill NAME KIND A B AXIS [INSTEAD SHARE]
inline void fill(std::vector<double>& values, const std::vector<std::int64_t>& shape, const std::vector<std::string>& f,
                 Random& random) {
  const std::string& kind = f[2];
  const double a = std::stod(f[3]), b = std::stod(f[4]);
  const Axis axis = axis_of(shape, std::stoi(f[5]));
  const auto n = static_cast<std::int64_t>(values.size());
  const auto draw = [&](std::int64_t below) {
    return static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(below));
  };
  if (kind == "permutation") {
    for (std::int64_t i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = a + static_cast<double>(i);
    for (std::int64_t i = n - 1; i > 0; --i)
      std::swap(values[static_cast<std::size_t>(i)], values[static_cast<std::size_t>(draw(i + 1))]);
    return;
  }
  const std::int64_t lines = n / axis.extent;
  std::vector<std::int64_t> hot(static_cast<std::size_t>(kind == "one_hot" ? lines : 1));
  for (auto& h : hot) h = draw(axis.extent);
  std::vector<double> row;
  if (kind == "same_rows")
    for (std::int64_t i = 0; i < lines; ++i) row.push_back(a + b * random.normal());
  std::vector<char> large;
  if (kind == "outliers")
    for (std::int64_t i = 0; i < lines; ++i) large.push_back(random.uniform() < 0.01);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t index = axis.index(i), line = i / (axis.stride * axis.extent) * axis.stride + i % axis.stride;
    double v = a;
    if (kind == "normal") v = a + b * random.normal();
    else if (kind == "uniform") v = a + (b - a) * random.uniform();
    else if (kind == "spread") v = (random.uniform() < 0.5 ? -a : a) * std::exp(b * (2 * random.uniform() - 1));
    else if (kind == "rising") v = b * random.normal() + a * static_cast<double>(index) / static_cast<double>(axis.extent);
    else if (kind == "outliers") v = a * random.normal() * (large[static_cast<std::size_t>(line)] ? b : 1);
    else if (kind == "hot") v = a * random.normal() * (index == hot[0] ? b : 1);
    else if (kind == "one_hot") v = index == hot[static_cast<std::size_t>(line)] ? b : a;
    else if (kind == "same_rows") v = row[static_cast<std::size_t>(line)];
    else if (kind == "integers") {
      v = std::floor(a + (b - a) * random.uniform());
      if (f.size() > 7 && random.uniform() < std::stod(f[7])) v = std::stod(f[6]);
    }
    values[static_cast<std::size_t>(i)] = v;
  }
}

// pattern KIND NAME VALUE [AXIS FROM TO]: multiply, add, set or clip below, of what has an index from FROM to TO - 1 on AXIS.
inline void apply_pattern(std::vector<double>& values, const std::vector<std::int64_t>& shape,
                          const std::vector<std::string>& p) {
  const double v = std::stod(p[3]);
  const bool part = p.size() > 4;
  const Axis axis = axis_of(shape, part ? std::stoi(p[4]) : 0);
  std::int64_t from = part ? std::stoll(p[5]) : 0, to = part ? std::stoll(p[6]) : axis.extent;
  if (from < 0) from += axis.extent;
  if (to <= 0) to += axis.extent;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t index = axis.index(static_cast<std::int64_t>(i));
    if (index < from || index >= to) continue;
    if (p[1] == "multiply") values[i] *= v;
    else if (p[1] == "add") values[i] += v;
    else if (p[1] == "set") values[i] = v;
    else if (p[1] == "absolute") values[i] = v * std::fabs(values[i]);
  }
}

struct Launch {
  std::string function;
  int threads = 1;
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, cluster[3] = {1, 1, 1}, shared = 0;
  bool cooperative = false;
  std::vector<std::pair<std::string, std::string>> args;  // kind, value
  // launch FUNCTION THREADS gx gy gz bx by bz cx cy cz SHARED COOPERATIVE kind=value...
  explicit Launch(const std::vector<std::string>& w) : function(w[1]), threads(std::stoi(w[2])) {
    const auto number = [&](std::size_t i) { return static_cast<unsigned>(std::stoul(w[i])); };
    for (std::size_t i = 0; i < 3; ++i) grid[i] = number(3 + i), block[i] = number(6 + i), cluster[i] = number(9 + i);
    shared = number(12);
    cooperative = w[13] == "1";
    for (std::size_t i = 14; i < w.size(); ++i) {
      const auto equal = w[i].find('=');
      args.emplace_back(w[i].substr(0, equal), w[i].substr(equal + 1));
    }
  }
};

// Integers and pointers lie in their own registers, then on the stack, and floats in theirs (System V, x86-64): a call with more
// of both than a kernel has is a call of it.
using Any = void (*)(std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                     std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                     std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                     std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                     std::int64_t, std::int64_t, float, float, float, float, float, float);

inline int run_on_host(const std::string& path, const std::vector<Launch>& launches,
                       const std::map<std::string, void*>& pointers, const std::string& order) {
  void* const library = dlopen(path.c_str(), RTLD_NOW);
  if (!library) return 10;
  for (const Launch& launch : launches) {
    const auto function = reinterpret_cast<Any>(dlsym(library, launch.function.c_str()));
    if (!function) return 11;
    const auto call = [&](int thread) {
      std::int64_t whole[30] = {};
      float real[6] = {};
      int n = 0, m = 0;
      for (const auto& [kind, value] : launch.args) {
        if (kind == "tensor") whole[n++] = reinterpret_cast<std::int64_t>(pointers.at(value));
        else if (kind == "f32") real[m++] = std::stof(value);
        else if (kind == "thread") whole[n++] = thread;
        else if (kind == "threads") whole[n++] = launch.threads;
        else whole[n++] = std::stoll(value);
      }
      const auto* const w = whole;
      function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15], w[16],
               w[17], w[18], w[19], w[20], w[21], w[22], w[23], w[24], w[25], w[26], w[27], w[28], w[29], real[0], real[1],
               real[2], real[3], real[4], real[5]);
    };
    if (order == "together") {
      std::vector<std::thread> threads;
      std::atomic<int> waiting{launch.threads};
      for (int t = 0; t < launch.threads; ++t)
        threads.emplace_back([&call, &waiting, t] {
          for (--waiting; waiting > 0;) std::this_thread::yield();
          call(t);
        });
      for (auto& t : threads) t.join();
    } else if (order == "forward") {
      for (int t = 0; t < launch.threads; ++t) call(t);
    } else {
      for (int t = launch.threads; t-- > 0;) call(t);
    }
  }
  return 0;
}

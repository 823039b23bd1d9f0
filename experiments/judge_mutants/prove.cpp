// Runs a kernel and a mutant of it once on the same inputs and compares both with a task's oracle. This is a program of its
// own: it shares no code with the judge except the header that every reference.cpp includes.
//
//   prove PLAN
//
// PLAN is a text that proof.py writes: sizes, fills, launches. The answer is one line of JSON.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <thread>
#include <vector>

#include "cultivar_reference.hpp"
#include "prove_values.hpp"

#ifdef WITH_CUDA
#include "prove_cuda.hpp"
#endif

namespace {

using RowFunction = void (*)(const ReferenceArgs&, std::int64_t, double*);

struct Tensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::vector<int> row_axis;  // outputs: for each dimension the index among the group's rows, or -1
  int group = -1;             // outputs
  std::vector<double> values;
  void* stored = nullptr;  // what the kernel gets, 4 KiB longer than it must be
  std::int64_t count() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * bytes_of(dtype); }
};
struct Group {
  std::vector<std::int64_t> extents;
  std::int64_t sample = 0;
  std::int64_t rows() const {
    return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
  }
};
struct Workspace {
  std::string name;
  std::size_t bytes = 0;
  bool zero = false;
  void* stored = nullptr;
};

constexpr std::size_t kGuard = 4096;

void* shared_memory(std::size_t bytes) {
  void* const p = mmap(nullptr, bytes + kGuard, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    std::printf("{\"error\": \"no memory\"}\n");
    std::exit(3);
  }
  return p;
}

struct Plan {
  std::string dtype = "f32", reference, order = "together";
  std::map<std::string, double> numbers;
  std::vector<Tensor> inputs, outputs;
  std::vector<Group> groups;
  std::vector<Workspace> workspaces;
  std::vector<std::string> derived;
  std::vector<std::int64_t> derived_extents;
  std::vector<std::vector<int>> derived_axes;
  std::vector<std::vector<std::string>> fills, patterns;
  std::vector<Launch> launches;
  std::string kernels[2];
  double factor = 2, floor_eps = 64;
  std::int64_t block_rows = 64;
  std::uint64_t seed = 1;
};

Plan read_plan(const char* path) {
  Plan plan;
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::vector<std::string> w;
    for (std::string word; words >> word;) w.push_back(word);
    if (w.empty()) continue;
    const std::string& key = w[0];
    const auto whole = [&](std::size_t i) { return std::stoll(w[i]); };
    if (key == "dtype") plan.dtype = w[1];
    else if (key == "reference") plan.reference = w[1];
    else if (key == "kernel") plan.kernels[plan.kernels[0].empty() ? 0 : 1] = w[1];
    else if (key == "number") plan.numbers[w[1]] = std::stod(w[2]);
    else if (key == "tolerance") plan.factor = std::stod(w[1]), plan.floor_eps = std::stod(w[2]), plan.block_rows = whole(3);
    else if (key == "seed") plan.seed = static_cast<std::uint64_t>(whole(1));
    else if (key == "order") plan.order = w[1];
    else if (key == "input" || key == "output") {
      Tensor t{w[1], w[2], {}, {}, -1, {}, nullptr};
      std::size_t at = 3;
      if (key == "output") t.group = static_cast<int>(whole(at++));
      for (; at < w.size(); ++at) {
        const auto colon = w[at].find(':');
        t.shape.push_back(std::stoll(w[at]));
        t.row_axis.push_back(colon == std::string::npos ? -1 : std::stoi(w[at].substr(colon + 1)));
      }
      (key == "input" ? plan.inputs : plan.outputs).push_back(t);
    } else if (key == "group") {
      Group g;
      g.sample = whole(1);
      for (std::size_t i = 2; i < w.size(); ++i) g.extents.push_back(whole(i));
      plan.groups.push_back(g);
    } else if (key == "workspace") plan.workspaces.push_back({w[1], static_cast<std::size_t>(whole(2)), w[3] == "1", nullptr});
    else if (key == "derived") {
      plan.derived.push_back(w[1]);
      std::vector<int> axes;
      for (std::size_t i = 2; i < w.size(); ++i) axes.push_back(std::stoi(w[i]));
      plan.derived_axes.push_back(axes);
    } else if (key == "derived_rows") {
      for (std::size_t i = 1; i < w.size(); ++i) plan.derived_extents.push_back(whole(i));
    } else if (key == "fill") plan.fills.push_back(w);
    else if (key == "pattern") plan.patterns.push_back(w);
    else if (key == "launch") plan.launches.push_back(Launch(w));
    else {
      std::printf("{\"error\": \"unknown line %s\"}\n", key.c_str());
      std::exit(3);
    }
  }
  return plan;
}

// Element offsets of a row in a tensor: the dimensions that are not rows, outermost first.
template <class Each>
void for_row(const std::vector<std::int64_t>& shape, const std::vector<int>& row_axis,
             const std::vector<std::int64_t>& extents, std::int64_t row, const Each& each) {
  std::vector<std::int64_t> place(extents.size());
  for (std::size_t i = extents.size(); i-- > 0;) place[i] = row % extents[i], row /= extents[i];
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1, base = 0, count = 1;
  for (std::size_t i = shape.size(); i-- > 0;) strides[i] = stride, stride *= shape[i];
  std::vector<std::size_t> free;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (row_axis[i] >= 0) base += place[static_cast<std::size_t>(row_axis[i])] * strides[i];
    else free.push_back(i), count *= shape[i];
  }
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t rest = n, at = base;
    for (std::size_t i = free.size(); i-- > 0;) at += rest % shape[free[i]] * strides[free[i]], rest /= shape[free[i]];
    each(at);
  }
}

struct Expected {  // of one output
  std::vector<std::int64_t> places;
  std::vector<double> exact, rounded;
  std::vector<std::size_t> block_ends;
};

struct Verdict {
  double worst = 0;  // error / permitted
  std::string what;
};

// The rule of evaluators/check/README.md, "What is permitted", written anew. Each block's R is the worst of all
// blocks, relative to the block's largest value, so that a small R by chance condemns nothing.
Verdict compare(const Plan& plan, const Tensor& t, const Expected& e) {
  Verdict v;
  const double eps = std::ldexp(1.0, -23), last_place = 0.5 * epsilon_of(t.dtype), most = largest_of(t.dtype);
  double relative = last_place, relative_rms = last_place;
  std::vector<double> largest, rms_of;
  for (std::size_t b = 0, from = 0; b < e.block_ends.size(); from = e.block_ends[b++]) {
    double top = 0, error = 0, squares = 0, of_values = 0;
    for (std::size_t i = from; i < e.block_ends[b]; ++i)
      if (std::isfinite(e.exact[i]) && std::isfinite(e.rounded[i])) {
        top = std::max(top, std::fabs(e.exact[i]));
        error = std::max(error, std::fabs(e.exact[i] - e.rounded[i]));
        squares += (e.exact[i] - e.rounded[i]) * (e.exact[i] - e.rounded[i]);
        of_values += e.exact[i] * e.exact[i];
      }
    const double n = static_cast<double>(e.block_ends[b] - from);
    largest.push_back(top), rms_of.push_back(std::sqrt(of_values / n));
    if (top > 0) relative = std::max(relative, error / top), relative_rms = std::max(relative_rms, std::sqrt(squares / n) / top);
  }
  for (std::size_t b = 0, from = 0; b < e.block_ends.size(); from = e.block_ends[b++]) {
    const double tiny = std::ldexp(1.0, -100), floor = std::max(plan.floor_eps * eps * largest[b], tiny);
    const double permitted = plan.factor * relative * largest[b] + floor;
    const double permitted_rms = plan.factor * relative_rms * largest[b] + floor;
    double squares = 0;
    for (std::size_t i = from; i < e.block_ends[b]; ++i) {
      const double got = element(t.stored, t.dtype, e.places[i]), exact = e.exact[i];
      double ratio = 0;
      if (!std::isfinite(exact) || std::fabs(exact) > most) {
        const double overflown = std::isnan(exact) ? exact : std::copysign(HUGE_VAL, exact);
        if (!(std::isnan(got) && std::isnan(exact)) && got != overflown && std::fabs(got) < 0.99 * most) ratio = 1e9;
      } else if (!std::isfinite(got)) ratio = std::fabs(exact) > 0.99 * most ? 0 : 1e9;
      else ratio = std::fabs(got - exact) / permitted, squares += (got - exact) * (got - exact);
      if (ratio > v.worst) {
        char text[200];
        std::snprintf(text, sizeof text, "%s[%lld] is %.9g, right is %.9g", t.name.c_str(),
                      static_cast<long long>(e.places[i]), got, exact);
        v.worst = ratio, v.what = text;
      }
    }
    const double rms = std::sqrt(squares / static_cast<double>(e.block_ends[b] - from)) / permitted_rms;
    if (rms > v.worst) v.worst = rms, v.what = t.name + ": root mean square";
  }
  return v;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' || c == '\\' ? '\'' : c;
  return result + "\"";
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) return 2;
  Plan plan = read_plan(words[1]);
  void* const library = dlopen(plan.reference.c_str(), RTLD_NOW);
  if (!library) return std::printf("{\"error\": %s}\n", quoted(dlerror()).c_str()), 3;
  const auto exact = reinterpret_cast<RowFunction>(dlsym(library, "reference_row"));
  const auto rounded = reinterpret_cast<RowFunction>(dlsym(library, "reference_row_rounded"));
  const auto derive = reinterpret_cast<RowFunction>(dlsym(library, "derive_row"));

  Random random(plan.seed);
  for (Tensor& t : plan.inputs) {
    t.stored = shared_memory(t.bytes());
    t.values.resize(static_cast<std::size_t>(t.count()));
  }
  const auto find = [&](const std::string& name) -> Tensor& {
    for (Tensor& t : plan.inputs)
      if (t.name == name) return t;
    std::printf("{\"error\": \"no input %s\"}\n", name.c_str());
    std::exit(3);
  };
  for (const auto& f : plan.fills) {
    Tensor& t = find(f[1]);
    fill(t.values, t.shape, f, random);
  }
  for (const auto& p : plan.patterns) {
    Tensor& t = find(p[2]);
    apply_pattern(t.values, t.shape, p);
  }
  const auto store = [](Tensor& t) {
    for (std::int64_t i = 0; i < t.count(); ++i)
      t.values[static_cast<std::size_t>(i)] = store_element(t.stored, t.dtype, i, t.values[static_cast<std::size_t>(i)]);
  };
  for (Tensor& t : plan.inputs)
    if (std::find(plan.derived.begin(), plan.derived.end(), t.name) == plan.derived.end()) store(t);

  static std::string rounding = plan.dtype;
  std::vector<ReferenceTensor> tensors;
  for (Tensor& t : plan.inputs)
    tensors.push_back({t.name.c_str(), t.values.data(), t.shape.data(), static_cast<int>(t.shape.size()), nullptr,
                       ReferenceType::other});
  std::vector<ReferenceNumber> numbers;
  for (const auto& [name, value] : plan.numbers) numbers.push_back({name.c_str(), value});
  const auto args_of = [&](const char* output) {
    ReferenceArgs args{tensors.data(), static_cast<int>(tensors.size()), numbers.data(), static_cast<int>(numbers.size()),
                       [](double v) { return rounded_to(rounding, v); }};
    args.output = output;
    args.rounds_to = plan.dtype == "f32"    ? ReferenceType::f32
                     : plan.dtype == "f16"  ? ReferenceType::f16
                     : plan.dtype == "bf16" ? ReferenceType::bf16
                                            : ReferenceType::other;
    return args;
  };
  if (!plan.derived.empty()) {
    Group g{plan.derived_extents, 0};
    std::vector<double> out(1 << 24);
    for (std::int64_t row = 0; row < g.rows(); ++row) {
      derive(args_of(plan.derived[0].c_str()), row, out.data());
      std::size_t at = 0;
      for (std::size_t n = 0; n < plan.derived.size(); ++n) {
        Tensor& t = find(plan.derived[n]);
        for_row(t.shape, plan.derived_axes[n], g.extents, row,
                [&](std::int64_t place) { t.values[static_cast<std::size_t>(place)] = out[at++]; });
      }
    }
    for (const std::string& name : plan.derived) store(find(name));
  }

  // What is expected, of all rows or of a sample that holds the first and the last ones.
  std::vector<Expected> expected(plan.outputs.size());
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    std::vector<std::size_t> members;
    std::int64_t elements = 0;
    for (std::size_t n = 0; n < plan.outputs.size(); ++n)
      if (plan.outputs[n].group == static_cast<int>(g)) {
        members.push_back(n);
        elements += plan.outputs[n].count() / plan.groups[g].rows();
      }
    const std::int64_t all = plan.groups[g].rows(), sample = plan.groups[g].sample;
    std::vector<std::int64_t> rows;
    if (sample == 0 || sample >= all) {
      for (std::int64_t r = 0; r < all; ++r) rows.push_back(r);
    } else {
      for (std::int64_t r = 0; r < sample / 3; ++r) rows.push_back(r), rows.push_back(all - 1 - r);
      while (static_cast<std::int64_t>(rows.size()) < sample)
        rows.push_back(static_cast<std::int64_t>(random.next() % static_cast<std::uint64_t>(all)));
      std::sort(rows.begin(), rows.end());
    }
    std::vector<double> precise(static_cast<std::size_t>(elements + 16)), coarse(static_cast<std::size_t>(elements + 16));
    const ReferenceArgs args = args_of(plan.outputs[members[0]].name.c_str());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      exact(args, rows[r], precise.data());
      (rounded ? rounded : exact)(args, rows[r], coarse.data());
      std::size_t at = 0;
      for (const std::size_t n : members)
        for_row(plan.outputs[n].shape, plan.outputs[n].row_axis, plan.groups[g].extents, rows[r], [&](std::int64_t place) {
          expected[n].places.push_back(place);
          expected[n].exact.push_back(precise[at]);
          expected[n].rounded.push_back(coarse[at++]);
        });
      const bool ends = r + 1 == rows.size() || rows[r + 1] / plan.block_rows != rows[r] / plan.block_rows;
      for (const std::size_t n : members)
        if (ends) expected[n].block_ends.push_back(expected[n].places.size());
    }
  }

  for (Tensor& t : plan.outputs) t.stored = shared_memory(t.bytes());
  for (Workspace& w : plan.workspaces) w.stored = shared_memory(w.bytes);
  std::map<std::string, void*> pointers;
  for (const Tensor& t : plan.inputs) pointers[t.name] = t.stored;
  for (const Tensor& t : plan.outputs) pointers[t.name] = t.stored;
  for (const Workspace& w : plan.workspaces) pointers[w.name] = w.stored;
  std::map<std::string, std::size_t> sizes;
  for (const Tensor& t : plan.inputs) sizes[t.name] = t.bytes();
  for (const Tensor& t : plan.outputs) sizes[t.name] = t.bytes();
  for (const Workspace& w : plan.workspaces) sizes[w.name] = w.bytes;

  std::string answer = "{";
  for (int which = 0; which < 2; ++which) {
    if (plan.kernels[which].empty()) break;
    for (const Tensor& t : plan.outputs) std::memset(t.stored, 0xff, t.bytes() + kGuard);
    for (const Workspace& w : plan.workspaces) {
      std::memset(w.stored, 0xff, w.bytes + kGuard);
      if (w.zero) std::memset(w.stored, 0, w.bytes);
    }
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
#ifdef WITH_CUDA
      _exit(run_on_device(plan.kernels[which], plan.launches, pointers, sizes));
#else
      _exit(run_on_host(plan.kernels[which], plan.launches, pointers, plan.order));
#endif
    }
    int status = 0;
    waitpid(child, &status, 0);
    Verdict worst;
    const bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!fine) {
      worst.worst = 1e9;
      worst.what = WIFSIGNALED(status) ? "died of signal " + std::to_string(WTERMSIG(status))
                                       : "could not run: code " + std::to_string(WEXITSTATUS(status));
    } else {
      for (std::size_t n = 0; n < plan.outputs.size(); ++n) {
        const Verdict v = compare(plan, plan.outputs[n], expected[n]);
        if (v.worst > worst.worst) worst = v;
      }
    }
    char text[400];
    std::snprintf(text, sizeof text, "%s\"%s\": {\"ran\": %s, \"of_permitted\": %.6g, \"what\": %s}", which ? ", " : "",
                  which ? "mutant" : "original", fine ? "true" : "false", worst.worst, quoted(worst.what).c_str());
    answer += text;
  }
  std::printf("%s}\n", answer.c_str());
}

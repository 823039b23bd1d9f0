// SPDX-License-Identifier: Apache-2.0
// Hosts Python in the worker: opens libpython at run time (building needs neither its headers nor itself),
// and passes the tensors to python_host.py as DLPack views of their addresses.
#include <dlfcn.h>

#include <array>
#include <cwchar>
#include <embedded/python_host.hpp>
#include <vector>

#include "evaluators/contenders/libraries/answers.hpp"
#include "evaluators/contenders/libraries/vendor.hpp"

namespace {

using namespace cultivar;

// DLPack (dmlc/dlpack, version 0): what PyTorch's from_dlpack takes.
struct DlTensor {
  void* data;
  std::int32_t device_type, device_id;  // 1: cpu, 2: cuda
  std::int32_t dimensions;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DlManagedTensor {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManagedTensor*);
};

struct Object;  // PyObject

// The functions of libpython in use; all but those that start it are of the stable ABI.
struct Python {
  void (*InitializeEx)(int) = nullptr;
  void* (*SaveThread)() = nullptr;
  int (*Ensure)() = nullptr;
  void (*Release)(int) = nullptr;
  Object* (*ImportAddModule)(const char*) = nullptr;  // borrowed
  Object* (*ModuleGetDict)(Object*) = nullptr;        // borrowed
  Object* (*CompileString)(const char*, const char*, int) = nullptr;
  Object* (*EvalCode)(Object*, Object*, Object*) = nullptr;
  Object* (*DictGetItemString)(Object*, const char*) = nullptr;  // borrowed
  int (*DictSetItemString)(Object*, const char*, Object*) = nullptr;
  Object* (*DictNew)() = nullptr;
  Object* (*ListNew)(std::ptrdiff_t) = nullptr;
  int (*ListAppend)(Object*, Object*) = nullptr;
  Object* (*BuildValue)(const char*, ...) = nullptr;
  Object* (*CallFunction)(Object*, const char*, ...) = nullptr;
  int (*ParseTuple)(Object*, const char*, ...) = nullptr;
  const char* (*AsUtf8)(Object*, std::ptrdiff_t*) = nullptr;
  Object* (*CapsuleNew)(void*, const char*, void (*)(Object*)) = nullptr;
  int (*CapsuleIsValid)(Object*, const char*) = nullptr;
  void* (*CapsuleGetPointer)(Object*, const char*) = nullptr;
  void (*IncRef)(Object*) = nullptr;
  void (*DecRef)(Object*) = nullptr;
  void (*ErrPrint)() = nullptr;
  Object* host = nullptr;  // the names of python_host.py

  Object* function(const char* name) const { return DictGetItemString(host, name); }
};

struct Sharing {
  void (*others)(void* state, std::int32_t may) = nullptr;
  void* state = nullptr;
};
Sharing sharing;  // during prepare

const Python* started = nullptr;  // one in a process, never ended: PyTorch does not support a second start

// How the interpreter finds its packages, virtual environments included: as the program of this path would.
void set_program(void* library, Python& python, const std::string& program) {
  if (auto* const set = reinterpret_cast<void (*)(const wchar_t*)>(::dlsym(library, "Py_SetProgramName"))) {
    wchar_t* (*decode)(const char*, std::size_t*) = nullptr;
    vendor::find(library, decode, "Py_DecodeLocale");
    set(decode(program.c_str(), nullptr));  // kept by Python
    python.InitializeEx(0);                 // no signal handlers
    return;
  }
  void* (*create)() = nullptr;  // Python 3.15 and later: PEP 741
  int (*set_string)(void*, const char*, const char*) = nullptr;
  int (*set_number)(void*, const char*, std::int64_t) = nullptr;
  int (*initialize)(void*) = nullptr;
  void (*free_it)(void*) = nullptr;
  vendor::find(library, create, "PyInitConfig_Create");
  vendor::find(library, set_string, "PyInitConfig_SetStr");
  vendor::find(library, set_number, "PyInitConfig_SetInt");
  vendor::find(library, initialize, "Py_InitializeFromInitConfig");
  vendor::find(library, free_it, "PyInitConfig_Free");
  void* const configuration = create();
  const bool good =
      configuration != nullptr && set_string(configuration, "program_name", program.c_str()) == 0 &&
      set_number(configuration, "install_signal_handlers", 0) == 0 && initialize(configuration) == 0;
  free_it(configuration);
  if (!good) throw std::runtime_error("Python cannot be started as " + program);
}

const Python& python_of(const std::string& libpython, const std::string& program) {
  if (started != nullptr) return *started;
  // Global: Python's extension modules take its symbols from the process.
  void* const library = ::dlopen(libpython.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw contender::Unusable(libpython + " does not load: " + ::dlerror());
  static Python p;
  vendor::find(library, p.InitializeEx, "Py_InitializeEx");
  vendor::find(library, p.SaveThread, "PyEval_SaveThread");
  vendor::find(library, p.Ensure, "PyGILState_Ensure");
  vendor::find(library, p.Release, "PyGILState_Release");
  vendor::find(library, p.ImportAddModule, "PyImport_AddModule");
  vendor::find(library, p.ModuleGetDict, "PyModule_GetDict");
  vendor::find(library, p.CompileString, "Py_CompileString");
  vendor::find(library, p.EvalCode, "PyEval_EvalCode");
  vendor::find(library, p.DictGetItemString, "PyDict_GetItemString");
  vendor::find(library, p.DictSetItemString, "PyDict_SetItemString");
  vendor::find(library, p.DictNew, "PyDict_New");
  vendor::find(library, p.ListNew, "PyList_New");
  vendor::find(library, p.ListAppend, "PyList_Append");
  vendor::find(library, p.BuildValue, "Py_BuildValue");
  vendor::find(library, p.CallFunction, "PyObject_CallFunction");
  vendor::find(library, p.ParseTuple, "PyArg_ParseTuple");
  vendor::find(library, p.AsUtf8, "PyUnicode_AsUTF8AndSize");
  vendor::find(library, p.CapsuleNew, "PyCapsule_New");
  vendor::find(library, p.CapsuleIsValid, "PyCapsule_IsValid");
  vendor::find(library, p.CapsuleGetPointer, "PyCapsule_GetPointer");
  vendor::find(library, p.IncRef, "Py_IncRef");
  vendor::find(library, p.DecRef, "Py_DecRef");
  vendor::find(library, p.ErrPrint, "PyErr_Print");
  set_program(library, p, program);
  Object* const names = p.ModuleGetDict(p.ImportAddModule("cultivar_contender_host"));
  constexpr int kFileInput = 257;  // Py_file_input
  Object* const code = p.CompileString(python_host::python_host_py.data(), "python_host.py", kFileInput);
  Object* const ran = code == nullptr ? nullptr : p.EvalCode(code, names, names);
  if (ran == nullptr) {
    p.ErrPrint();
    p.SaveThread();
    throw std::runtime_error("Cultivar's python_host.py failed in " + program + " (its message is above)");
  }
  p.DecRef(code);
  p.DecRef(ran);
  p.host = names;
  p.SaveThread();  // from now on each call takes the interpreter's lock
  started = &p;
  return p;
}

// Holds the interpreter's lock.
class Lock {
 public:
  explicit Lock(const Python& python) : python_(python), state_(python.Ensure()) {}
  ~Lock() { python_.Release(state_); }
  Lock(const Lock&) = delete;

 private:
  const Python& python_;
  int state_;
};

class Reference {
 public:
  Reference(const Python& python, Object* object) : python_(&python), object_(object) {}
  Reference(Reference&& other) noexcept
      : python_(other.python_), object_(std::exchange(other.object_, nullptr)) {}
  ~Reference() {
    if (object_ != nullptr) python_->DecRef(object_);
  }
  Object* get() const { return object_; }
  Object* release() { return std::exchange(object_, nullptr); }

 private:
  const Python* python_;
  Object* object_;
};

// Takes the value of a pair (code, value) of python_host.py.
Reference taken(const Python& python, Object* pair) {
  const Reference owned(python, pair);
  int code = 0;
  Object* value = nullptr;
  if (pair == nullptr || python.ParseTuple(pair, "iO", &code, &value) == 0) {
    python.ErrPrint();
    throw std::runtime_error("Cultivar's python_host.py failed (its message is above)");
  }
  if (code == CULTIVAR_CONTENDER_OK) {
    python.IncRef(value);
    return {python, value};
  }
  const char* const words = python.AsUtf8(value, nullptr);
  const std::string why = words == nullptr ? "no reason given" : words;
  if (code == CULTIVAR_CONTENDER_UNSUPPORTED) throw contender::Unsupported(why);
  if (code == CULTIVAR_CONTENDER_UNUSABLE) throw contender::Unusable(why);
  throw std::runtime_error(why);
}

const char* text(const cultivar_contender_workload& w, const char* name) {
  for (std::uint32_t i = 0; i < w.text_count; ++i)
    if (std::strcmp(w.texts[i].name, name) == 0) return w.texts[i].text;
  throw contender::Unusable(std::string("this library hosts Python programs; name one by --contender torch, "
                                        "torch_compile or FILE.py (there is no ") +
                            name + ")");
}

// Of names and texts; with the interpreter's lock.
Reference texts_of(const Python& python, const cultivar_contender_workload& w) {
  Reference texts(python, python.DictNew());
  for (std::uint32_t i = 0; i < w.text_count; ++i) {
    const Reference word(python, python.BuildValue("s", w.texts[i].text));
    python.DictSetItemString(texts.get(), w.texts[i].name, word.get());
  }
  return texts;
}

// The code and bits of a type for DLPack; types that it lacks are integers of the same size.
std::pair<std::uint8_t, std::uint8_t> dlpack_type(const std::string& dtype) {
  const auto digits = dtype.find_first_of("0123456789");
  if (dtype.starts_with("e")) return {std::uint8_t{1}, std::uint8_t{8}};  // e4m3, e5m2
  const auto bits =
      static_cast<std::uint8_t>(digits == std::string::npos ? 0 : std::stoi(dtype.substr(digits)));
  if (dtype.starts_with("bf")) return {std::uint8_t{4}, bits};
  if (dtype.starts_with("f")) return {std::uint8_t{2}, bits};
  if (dtype == "u8") return {std::uint8_t{1}, bits};
  return {std::uint8_t{0}, bits};
}

class Hosted {
 public:
  explicit Hosted(const cultivar_contender_workload& w)
      : python_(python_of(text(w, "libpython"), text(w, "python"))) {
    const Lock lock(python_);
    if (w.stream != nullptr) ordinal_ = vendor::gpu_ordinal();
    device_type_ = w.stream != nullptr ? 2 : 1;
    std::vector<void*> data;
    Reference tensors = list();
    for (std::uint32_t i = 0; i < w.tensor_count; ++i) {
      const cultivar_contender_tensor& t = w.tensors[i];
      const auto [code, bits] = dlpack_type(t.dtype);
      shapes_.push_back({{t.extents, t.extents + t.rank}, {t.strides, t.strides + t.rank}, code, bits});
      data.push_back(t.data);
      append(tensors, python_.BuildValue("(sisi)", t.name, t.is_output, t.dtype, t.rank));
    }
    Reference values = list();
    for (std::uint32_t i = 0; i < w.value_count; ++i)
      append(values, python_.BuildValue("(sd)", w.values[i].name, w.values[i].value));
    const Reference texts = texts_of(python_, w);
    const Reference facts(python_,
                          python_.BuildValue("{s:s,s:s,s:i,s:i}", "name", w.name, "dtype", w.dtype, "threads",
                                             static_cast<int>(w.threads), "ordinal", ordinal_));
    const Reference capsules = views(data.data());
    prepared_ =
        taken(python_, python_.CallFunction(
                           python_.function("prepare"), "OOOOOKKK", facts.get(), values.get(), tensors.get(),
                           texts.get(), capsules.get(), number_of(w.stream),
                           number_of(reinterpret_cast<void*>(sharing.others)), number_of(sharing.state)))
            .release();
    note_version(python_);
  }
  ~Hosted() {
    const Lock lock(python_);
    const Reference told(python_, python_.CallFunction(python_.function("release"), "O", prepared_));
    python_.DecRef(prepared_);
  }
  Hosted(const Hosted&) = delete;

  void launch(void* const* data, void*) { call("launch", data); }
  void results(void* const* data) { call("results", data); }

  static void note_version(const Python& python) {  // with the interpreter's lock
    const Reference version(python, python.CallFunction(python.function("version"), nullptr));
    if (const char* const words = python.AsUtf8(version.get(), nullptr)) version_() = words;
  }
  static std::string& version_() {
    static std::string version = "Python is not started yet";
    return version;
  }

 private:
  struct Shape {
    std::vector<std::int64_t> extents, strides;
    std::uint8_t code, bits;
  };

  void call(const char* what, void* const* data) {
    const Lock lock(python_);
    const Reference capsules = views(data);
    (void)taken(python_, python_.CallFunction(python_.function(what), "OO", prepared_, capsules.get()));
  }

  static unsigned long long number_of(const void* address) {
    return static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(address));
  }

  Reference list() const { return {python_, python_.ListNew(0)}; }
  void append(const Reference& to, Object* item) const {
    const Reference owned(python_, item);
    if (item == nullptr || python_.ListAppend(to.get(), item) != 0)
      throw std::runtime_error("Python is out of memory");
  }

  Reference views(void* const* data) {
    Reference all = list();
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      Shape& shape = shapes_[i];
      auto* const managed = new DlManagedTensor{
          {data[i], device_type_, ordinal_, static_cast<std::int32_t>(shape.extents.size()), shape.code,
           shape.bits, 1, shape.extents.data(), shape.strides.data(), 0},
          nullptr,
          [](DlManagedTensor* done) { delete done; }};
      append(all, python_.CapsuleNew(managed, "dltensor", [](Object* capsule) {  // only if nobody took it
        if (started->CapsuleIsValid(capsule, "dltensor") == 0) return;
        auto* const left = static_cast<DlManagedTensor*>(started->CapsuleGetPointer(capsule, "dltensor"));
        left->deleter(left);
      }));
    }
    return all;
  }

  const Python& python_;
  int ordinal_ = 0;
  std::int32_t device_type_ = 1;
  std::vector<Shape> shapes_;  // referred to by the views, which end before
  Object* prepared_ = nullptr;
};

}  // namespace

extern "C" const cultivar_contender_description* cultivar_contender_describe() {
  static cultivar_contender_description told{CULTIVAR_CONTENDER_ABI, "python", "", "*", "*"};
  told.version = Hosted::version_().c_str();
  return &told;
}

extern "C" void cultivar_contender_warm_up(const cultivar_contender_workload* workload) {
  (void)contender::answer([&] {
    const Python& python = python_of(text(*workload, "libpython"), text(*workload, "python"));
    const Lock lock(python);
    const Reference texts = texts_of(python, *workload);
    (void)taken(python, python.CallFunction(python.function("warm_up"), "O", texts.get()));
    Hosted::note_version(python);
  });
}

extern "C" void cultivar_contender_share(void (*others)(void* state, std::int32_t may), void* state) {
  sharing = {others, state};
}

extern "C" std::int32_t cultivar_contender_results(void* handle, void* const* data) {
  return contender::answer([&] { static_cast<Hosted*>(handle)->results(data); });
}

CULTIVAR_CONTENDER_CALLS(Hosted)

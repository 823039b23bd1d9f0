// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/cuda_cpp/nvrtc.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace cultivar {

// The part of nvrtc.h in use, unchanged since CUDA 11.1. Declared here so that Cultivar builds without a
// toolkit.
struct Nvrtc::Entries {
  using Program = struct OpaqueProgram*;
  using Status = int;  // nvrtcResult; 0 is success

  void* library = nullptr;
  Status (*version)(int* major, int* minor) = nullptr;
  Status (*num_architectures)(int* count) = nullptr;
  Status (*architectures)(int* list) = nullptr;
  const char* (*error_string)(Status) = nullptr;
  Status (*create)(Program*, const char* source, const char* name, int headers, const char* const* sources,
                   const char* const* names) = nullptr;
  Status (*destroy)(Program*) = nullptr;
  Status (*compile)(Program, int count, const char* const* options) = nullptr;
  Status (*log_size)(Program, std::size_t*) = nullptr;
  Status (*log)(Program, char*) = nullptr;
  Status (*cubin_size)(Program, std::size_t*) = nullptr;
  Status (*cubin)(Program, char*) = nullptr;
  Status (*ptx_size)(Program, std::size_t*) = nullptr;
  Status (*ptx)(Program, char*) = nullptr;
};

namespace {

template <class Program, class Size, class Get>
std::string fetched(Program program, Size size, Get get) {
  std::size_t bytes = 0;
  if (size(program, &bytes) != 0 || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (get(program, text.data()) != 0) return {};
  return text;
}

void drop_final_zeros(std::string& text) {
  while (!text.empty() && text.back() == '\0') text.pop_back();
}

}  // namespace

Expected<Nvrtc> Nvrtc::load(const std::filesystem::path& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return failure("load NVRTC", ::dlerror());
  auto entries = std::make_unique<Entries>();
  entries->library = handle;
  std::string lacking;
  const auto look_up = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
    if (function == nullptr) lacking = name;
  };
  look_up(entries->version, "nvrtcVersion");
  look_up(entries->num_architectures, "nvrtcGetNumSupportedArchs");
  look_up(entries->architectures, "nvrtcGetSupportedArchs");
  look_up(entries->error_string, "nvrtcGetErrorString");
  look_up(entries->create, "nvrtcCreateProgram");
  look_up(entries->destroy, "nvrtcDestroyProgram");
  look_up(entries->compile, "nvrtcCompileProgram");
  look_up(entries->log_size, "nvrtcGetProgramLogSize");
  look_up(entries->log, "nvrtcGetProgramLog");
  look_up(entries->cubin_size, "nvrtcGetCUBINSize");
  look_up(entries->cubin, "nvrtcGetCUBIN");
  look_up(entries->ptx_size, "nvrtcGetPTXSize");
  look_up(entries->ptx, "nvrtcGetPTX");
  if (!lacking.empty())
    return failure("load NVRTC",
                   fmt::format("{} has no {}; CUDA 11.2 or later is required", library.string(), lacking));
  // NVRTC opens this library by name when it compiles and searches only the system loader's paths. Opening it
  // here, from NVRTC's own folder, makes it available.
  int major = 0, minor = 0;
  entries->version(&major, &minor);
  const std::string builtins = fmt::format("libnvrtc-builtins.so.{}.{}", major, minor);
  if (::dlopen((library.parent_path() / builtins).c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr &&
      ::dlopen(builtins.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr)
    return failure("load NVRTC", fmt::format("{} needs {} in the same folder: {}", library.string(), builtins,
                                             ::dlerror()));
  return Nvrtc(std::move(entries));
}

Nvrtc::Nvrtc(std::unique_ptr<Entries> entries) : entries_(std::move(entries)) {}
Nvrtc::Nvrtc(Nvrtc&&) noexcept = default;
Nvrtc& Nvrtc::operator=(Nvrtc&&) noexcept = default;
Nvrtc::~Nvrtc() = default;

int Nvrtc::major() const {
  int major = 0, minor = 0;
  entries_->version(&major, &minor);
  return major;
}

int Nvrtc::minor() const {
  int major = 0, minor = 0;
  entries_->version(&major, &minor);
  return minor;
}

std::vector<int> Nvrtc::architectures() const {
  int count = 0;
  if (entries_->num_architectures(&count) != 0 || count <= 0) return {};
  std::vector<int> list(static_cast<std::size_t>(count));
  if (entries_->architectures(list.data()) != 0) return {};
  return list;
}

Nvrtc::Result Nvrtc::compile(const std::string& source, const std::string& name,
                             const std::vector<Header>& headers,
                             const std::vector<std::string>& options) const {
  Result result;
  Entries::Program program = nullptr;
  std::vector<const char*> texts, names;
  for (const Header& header : headers) {
    texts.push_back(header.text.c_str());
    names.push_back(header.name.c_str());
  }
  if (const auto status = entries_->create(&program, source.c_str(), name.c_str(),
                                           static_cast<int>(headers.size()), texts.data(), names.data());
      status != 0) {
    result.log = fmt::format("nvrtcCreateProgram: {}\n", entries_->error_string(status));
    return result;
  }
  std::vector<const char*> words;
  for (const std::string& option : options) words.push_back(option.c_str());
  const auto status = entries_->compile(program, static_cast<int>(words.size()), words.data());
  result.log = fetched(program, entries_->log_size, entries_->log);
  drop_final_zeros(result.log);
  result.ptx = fetched(program, entries_->ptx_size, entries_->ptx);
  drop_final_zeros(result.ptx);
  if (status == 0) result.cubin = fetched(program, entries_->cubin_size, entries_->cubin);
  result.compiled = status == 0 && !result.cubin.empty();
  if (!result.compiled && result.log.empty())
    result.log = fmt::format("NVRTC: {}\n", entries_->error_string(status));
  entries_->destroy(&program);
  return result;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/triton/order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "evaluators/system/plain_text.hpp"
#include "evaluators/task/task.hpp"

namespace cultivar {
namespace {

using nlohmann::json;

struct Unclear {
  std::string reason, remedy;
};

// "128" of the macros {"BLOCK=128", ...}; nullopt: there is no such macro.
std::optional<std::string_view> value_of(const std::vector<std::string>& macros, std::string_view name) {
  for (const std::string& macro : macros)
    if (macro.size() > name.size() && macro[name.size()] == '=' && macro.starts_with(name))
      return std::string_view(macro).substr(name.size() + 1);
  return std::nullopt;
}

std::optional<double> number_of(std::string_view text) {
  const std::string owned(text);
  char* end = nullptr;
  const double value = std::strtod(owned.c_str(), &end);
  if (owned.empty() || *end != '\0') return std::nullopt;
  return value;
}

// Numbers for expressions: a macro that names another one stands for its value.
Bindings numbers_of(const std::vector<std::string>& macros) {
  Bindings numbers;
  for (const std::string& macro : macros) {
    const std::size_t sign = macro.find('=');
    const std::string_view text = std::string_view(macro).substr(sign + 1);
    auto number = number_of(text);
    if (!number)
      if (const auto other = value_of(macros, text)) number = number_of(*other);
    if (number) numbers[macro.substr(0, sign)] = *number;
  }
  return numbers;
}

json constant_of(const Manifest& manifest, std::string_view name, std::string_view text) {
  if (name == "DTYPE") return {{"dtype", text}};
  const auto tunable = std::ranges::find(manifest.tunables, name, &Tunable::name);
  if (tunable != manifest.tunables.end() && tunable->categorical())
    return {{"name", text.substr(name.size() + 1)}};  // DEAL=DEAL_rows
  std::int64_t whole = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return {{"number", whole}};
  return {{"number", number_of(text).value_or(0.0)}};
}

class Orderer {
 public:
  Orderer(const Variant& variant, const Task& task, const std::vector<std::string>& macros)
      : manifest_(variant.manifest), task_(task), macros_(macros), numbers_(numbers_of(macros)) {}

  json order() const {
    json constants = json::object(), kernels = json::array(), pointers = json::array();
    for (const std::string& macro : macros_) {
      const std::size_t sign = macro.find('=');
      const std::string name = macro.substr(0, sign);
      constants[name] = constant_of(manifest_, name, std::string_view(macro).substr(sign + 1));
    }
    for (const std::string_view type : triton_types()) pointers.push_back(fmt::format("*{}", type));
    std::set<std::string> named;
    for (const KernelLaunch& launch : manifest_.launch)
      if (json kernel = kernel_of(launch); named.insert(launch.kernel).second)
        kernels.push_back(std::move(kernel));
      else if (const auto same = std::ranges::find(kernels, json(launch.kernel),
                                                   [](const json& k) { return k.at("name"); });
               *same != kernel)
        throw Unclear{fmt::format("kernel '{}' is launched twice in different ways", launch.kernel),
                      "A kernel is compiled for one number of warps and stages, and for one list of argument "
                      "types: define it twice, under two names."};
    return {{"constants", constants}, {"kernels", kernels}, {"pointers", pointers}};
  }

 private:
  json kernel_of(const KernelLaunch& launch) const {
    json kernel = {{"name", launch.kernel},
                   {"num_warps", number(launch, "num_warps", 4)},
                   {"num_stages", number(launch, "num_stages", 3)},
                   {"arguments", json::array()}};
    if (const std::int64_t most = number(launch, "maxnreg", 0); most > 0) kernel["maxnreg"] = most;
    if (const std::int64_t warps = kernel["num_warps"]; (warps & (warps - 1)) != 0)
      throw Unclear{fmt::format("num_warps of kernel '{}' is {}", launch.kernel, warps),
                    "Triton's blocks have 1, 2, 4, 8, 16 or 32 warps."};
    for (const ArgumentSpec& argument : launch.args) kernel["arguments"].push_back(argument_of(argument));
    return kernel;
  }

  std::int64_t number(const KernelLaunch& launch, std::string_view key, std::int64_t usual) const {
    const std::vector<Expression>& values = launch.values(key);
    if (values.empty()) return usual;
    for (const std::string& name : values.front().names())
      if (!numbers_.contains(name))
        throw Unclear{fmt::format("{} of kernel '{}' depends on {}, for which it is not compiled", key,
                                  launch.kernel, name),
                      "It may use tunables, and what `specialize` lists: a dimension, or a let."};
    const auto value = values.front().evaluate_integer(numbers_, 1);
    if (!value)
      throw Unclear{fmt::format("{} of kernel '{}': {}", key, launch.kernel, value.error().message),
                    "Correct it."};
    return *value;
  }

  json argument_of(const ArgumentSpec& argument) const {
    json told = {{"text", argument.text}};
    if (const TensorSpec* const tensor = task_.tensor(argument.text)) {
      told["type"] =
          fmt::format("*{}", tensor->dtype ? triton_types().at(static_cast<std::size_t>(*tensor->dtype))
                                           : own_dtype(argument.text));
      told["multiple_of_16"] = true;  // kTensorAlignment
    } else if (std::ranges::find(manifest_.workspace, argument.text, &WorkspaceSpec::name) !=
               manifest_.workspace.end()) {
      told["type"] = "*";
      told["multiple_of_16"] = true;
    } else if (std::ranges::find(manifest_.tensor_maps, argument.text, &TensorMapSpec::name) !=
               manifest_.tensor_maps.end()) {
      throw Unclear{fmt::format("'{}' is a tensor map, which a kernel in Triton cannot take", argument.text),
                    "Pass the tensor, and use pointers or tl.make_block_ptr."};
    } else {
      const auto parameter = std::ranges::find(task_.parameters, argument.text, &Parameter::name);
      const Dtype type = argument.type                         ? *argument.type
                         : parameter != task_.parameters.end() ? parameter->type
                                                               : Dtype::i32;
      told["type"] = triton_types().at(static_cast<std::size_t>(type));
      if (!is_floating(type) && surely_multiple_of_16(manifest_, macros_, argument.text))
        told["multiple_of_16"] = true;
    }
    return told;
  }

  std::string_view own_dtype(const std::string& tensor) const {
    if (const auto named = value_of(macros_, "DTYPE")) return *named;
    if (task_.dtypes.size() == 1) return triton_types().at(static_cast<std::size_t>(task_.dtypes.front()));
    throw Unclear{
        fmt::format("the type of '{}' is the workload's dtype, for which it is not compiled", tensor),
        "Triton compiles for the types of pointers: write `specialize: [dtype]` in the manifest."};
  }

  const Manifest& manifest_;
  const Task& task_;
  const std::vector<std::string>& macros_;
  Bindings numbers_;
};

// Whether a conjunction has the term `name % N == 0` with a multiple of 16; false for anything that is more
// than a conjunction.
bool has_term(std::string_view text, std::string_view name) {
  std::string plain;
  for (const char c : text)
    if (std::isspace(static_cast<unsigned char>(c)) == 0) plain += c;
  if (plain.find("||") != plain.npos || plain.find_first_of("?()") != plain.npos) return false;
  const std::string start = fmt::format("{}%", name);
  for (std::size_t at = 0; at <= plain.size();) {
    const std::size_t end = std::min(plain.find("&&", at), plain.size());
    const std::string_view term = std::string_view(plain).substr(at, end - at);
    std::int64_t divisor = 0;
    if (term.starts_with(start)) {
      const auto read = std::from_chars(term.data() + start.size(), term.data() + term.size(), divisor);
      if (read.ec == std::errc() && std::string_view(read.ptr, term.data() + term.size()) == "==0" &&
          divisor > 0 && divisor % 16 == 0)
        return true;
    }
    at = end + 2;
  }
  return false;
}

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}

std::string_view trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(" \t\n");
  if (from == text.npos) return {};
  return text.substr(from, text.find_last_not_of(" \t\n") - from + 1);
}

std::size_t uses_of(std::string_view text, std::string_view name) {
  std::size_t count = 0;
  for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + name.size())) {
    const std::size_t end = at + name.size();
    count += (at == 0 || !in_name(text[at - 1])) && (end == text.size() || !in_name(text[end])) ? 1 : 0;
  }
  return count;
}

// The parameters of the kernel's head, and where their list lies in the text; empty: there is no such head.
struct Head {
  std::size_t begin = 0, end = 0;
  std::vector<std::string_view> parameters;
};
Head head_of(std::string_view ptx, const std::string& kernel) {
  const std::string opening = fmt::format(".entry {}(", kernel);
  const std::size_t at = ptx.find(opening);
  if (at == ptx.npos) return {};
  Head head{at + opening.size(), ptx.find(')', at), {}};
  if (head.end == ptx.npos) return {};
  const std::string_view list = ptx.substr(head.begin, head.end - head.begin);
  for (std::size_t from = 0; from < list.size();) {
    const std::size_t comma = std::min(list.find(',', from), list.size());
    if (const auto one = trimmed(list.substr(from, comma - from)); !one.empty())
      head.parameters.push_back(one);
    from = comma + 1;
  }
  return head;
}

Expected<std::string> without_hidden_parameters(const TritonKernelText& text) {
  const Head head = head_of(text.ptx, text.kernel);
  if (head.parameters.size() <= text.arguments) return text.ptx;  // the screen counts them
  std::string kept;
  for (std::size_t i = 0; i < head.parameters.size(); ++i) {
    const std::string_view parameter = head.parameters[i];
    if (i < text.arguments) {
      kept += fmt::format("{}\n\t{}", i == 0 ? "" : ",", parameter);
      continue;
    }
    const std::string_view name = parameter.substr(parameter.find_last_of(" \t") + 1);
    if (uses_of(text.ptx, name) != 1)
      return failure(
          "Triton",
          fmt::format("kernel '{}' uses scratch memory of the launcher, which there is not", text.kernel));
  }
  return text.ptx.substr(0, head.begin) + kept + "\n" + text.ptx.substr(head.end);
}

// `.file N "/folder/name.py"` without the folder.
std::string without_folder(std::string_view line) {
  const std::size_t quote = line.find('"'), slash = line.rfind('/');
  if (quote == line.npos || slash == line.npos || slash < quote) return std::string(line);
  return std::string(line.substr(0, quote + 1)) + std::string(line.substr(slash + 1));
}

// "\t.loc\t1 14 3, ..." with `more` added to the number of the file.
std::string with_file(std::string_view line, std::string_view directive, unsigned more) {
  const std::size_t digits = line.find_first_of("0123456789", line.find(directive) + directive.size());
  unsigned number = 0;
  if (digits == line.npos) return std::string(line);
  const auto read = std::from_chars(line.data() + digits, line.data() + line.size(), number);
  return std::string(line.substr(0, digits)) + std::to_string(number + more) +
         std::string(read.ptr, line.data() + line.size());
}

// Lines of a module that come behind another one: its head and its debug sections would stand there twice.
class Joiner {
 public:
  void add(std::string_view ptx) {
    const bool first = text_.empty();
    unsigned files = 0;
    int section = 0;  // braces that are open
    bool in_section = false;
    for (const std::string_view line : lines_of(ptx)) {
      const std::string_view code = trimmed(line.substr(0, line.find("//")));
      if (code.starts_with(".section")) in_section = true;
      if (in_section) {
        section += static_cast<int>(std::ranges::count(code, '{') - std::ranges::count(code, '}'));
        if (section == 0 && code.find('}') != code.npos) in_section = false;
        continue;
      }
      const bool of_head =
          code.starts_with(".version") || code.starts_with(".target") || code.starts_with(".address_size");
      if (of_head && !first) continue;
      // What each module declares or defines in the same words, such as the strings of libdevice.
      if ((code.starts_with(".extern .shared") || code.starts_with(".global")) &&
          !declared_.insert(std::string(code)).second)
        continue;
      if (code.starts_with(".file")) {
        ++files;
        text_ += with_file(line, ".file", files_) + "\n";
      } else if (code.starts_with(".loc")) {
        text_ += with_file(line.substr(0, line.find(',')), ".loc", files_) + "\n";
      } else {
        text_ += std::string(line) + "\n";
      }
    }
    files_ += files;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::set<std::string> declared_;
  unsigned files_ = 0;
};

}  // namespace

std::array<std::string_view, dtype_count> triton_types() {
  return {"fp64", "fp32", "fp16", "bf16", "i64", "i32",     "i16",
          "i8",   "u64",  "u32",  "u16",  "u8",  "fp8e4nv", "fp8e5"};
}

bool surely_multiple_of_16(const Manifest& manifest, const std::vector<std::string>& macros,
                           std::string_view name) {
  if (manifest.requires_ && has_term(manifest.requires_->text(), name)) return true;
  for (const auto& [let, expression] : manifest.let)
    if (const auto value = value_of(macros, let);
        std::ranges::find(manifest.specialize, let) != manifest.specialize.end() && value &&
        number_of(*value).value_or(0.0) != 0.0 && has_term(expression.text(), name))
      return true;
  return false;
}

tl::expected<std::string, CompileFailure> triton_order(const Variant& variant, const Task& task,
                                                       const std::vector<std::string>& macros,
                                                       int architecture) {
  try {
    json order = Orderer(variant, task, macros).order();
    order["architecture"] = architecture;
    return order.dump();
  } catch (const Unclear& unclear) {
    return tl::make_unexpected(CompileFailure{Stage::compile, unclear.reason, unclear.remedy});
  }
}

Expected<std::string> one_module(const std::vector<TritonKernelText>& kernels) {
  Joiner joined;
  std::string single;
  for (const TritonKernelText& each : kernels) {
    auto text = without_hidden_parameters(each);
    if (!text) return text;
    std::string plain;
    for (const std::string_view line : lines_of(*text))
      plain += (trimmed(line).starts_with(".file") ? without_folder(line) : std::string(line)) + "\n";
    if (kernels.size() == 1) return plain;
    joined.add(plain);
  }
  return joined.take();
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/cpp/argument_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "evaluators/system/plain_text.hpp"

namespace cultivar {
namespace {

constexpr std::string_view kFile = "launch:", kMark = "cultivar: ";

// Every name begins with cultivar_, because the source's macros apply here too.
constexpr std::string_view kTemplates = R"(
template <class cultivar_t> struct cultivar_traits {
  static constexpr bool pointer = false, floating = false, scalar = !__is_class(cultivar_t) && !__is_union(cultivar_t);
};
template <class cultivar_t> struct cultivar_traits<cultivar_t*> {
  static constexpr bool pointer = true, floating = false, scalar = false;
};
template <> struct cultivar_traits<float> {
  static constexpr bool pointer = false, floating = true, scalar = true;
};
template <> struct cultivar_traits<double> {
  static constexpr bool pointer = false, floating = true, scalar = true;
};
struct cultivar_none {};
template <int cultivar_i, class... cultivar_t> struct cultivar_nth { using type = cultivar_none; };
template <class cultivar_first, class... cultivar_rest> struct cultivar_nth<0, cultivar_first, cultivar_rest...> {
  using type = cultivar_first;
};
template <int cultivar_i, class cultivar_first, class... cultivar_rest>
struct cultivar_nth<cultivar_i, cultivar_first, cultivar_rest...> {
  using type = typename cultivar_nth<cultivar_i - 1, cultivar_rest...>::type;
};
template <class... cultivar_t> struct cultivar_list {
  static constexpr int size = sizeof...(cultivar_t);
  template <int cultivar_i> using nth = typename cultivar_nth<cultivar_i, cultivar_t...>::type;
};
template <class cultivar_r, class... cultivar_t>
cultivar_list<cultivar_t...> cultivar_parameters(cultivar_r (*)(cultivar_t...));
template <class cultivar_l, int cultivar_i> constexpr bool cultivar_is_pointer() {
  return cultivar_traits<typename cultivar_l::template nth<cultivar_i>>::pointer;
}
template <class cultivar_l, int cultivar_i, bool cultivar_floating, int cultivar_bytes>
constexpr bool cultivar_is_scalar() {
  using cultivar_p = typename cultivar_l::template nth<cultivar_i>;
  if (!cultivar_traits<cultivar_p>::scalar || cultivar_traits<cultivar_p>::floating != cultivar_floating) return false;
  return cultivar_floating ? sizeof(cultivar_p) == cultivar_bytes
                           : sizeof(cultivar_p) >= cultivar_bytes || __is_same(cultivar_p, bool);
}
)";

bool is_name(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
}

// The type of an argument as far as the manifest alone says it; nullopt: a tensor, a dimension or a
// parameter.
std::optional<Dtype> type_of(const ArgumentSpec& argument) {
  if (argument.type) return argument.type;
  if (argument.text == "thread" || argument.text == "threads") return Dtype::i32;
  return is_name(argument.text) ? std::nullopt : std::optional(Dtype::i32);
}

std::string check(int number, int of, const std::string& condition, const std::string& words) {
  std::string quoted;
  for (const char c : words) quoted += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  // Where the count is wrong, only that is said.
  return fmt::format("static_assert(cultivar_list_{0}::size != {1} || ({2}), \"{3}{4}\");\n", number, of,
                     condition, kMark, quoted);
}

}  // namespace

std::string argument_checks(const Manifest& manifest) {
  // Two line ends: the source may end with a comment that continues on the next line.
  std::string text = "\n\n#line 1 \"launch\"" + std::string(kTemplates);
  for (int number = 0; number < static_cast<int>(manifest.launch.size()); ++number) {
    const KernelLaunch& launch = manifest.launch[static_cast<std::size_t>(number)];
    const auto count = static_cast<int>(launch.args.size());
    if (count == 0) continue;  // a kernel that is given nothing can write nothing: no manifest has one
    text += fmt::format("using cultivar_list_{0} = decltype(cultivar_parameters(&{1}));\n", number,
                        launch.kernel);
    text += fmt::format(
        "template <class cultivar_l, int cultivar_n> struct cultivar_count_{0} {{\n  "
        "static_assert(cultivar_l::size == "
        "cultivar_n, \"{1}count {0}\");\n}};\ntemplate struct cultivar_count_{0}<cultivar_list_{0}, {2}>;\n",
        number, kMark, count);
    for (int i = 0; i < count; ++i) {
      const ArgumentSpec& argument = launch.args[static_cast<std::size_t>(i)];
      const std::string which = fmt::format("parameter {} of kernel '{}' does not take its argument '{}'",
                                            i + 1, launch.kernel, argument.text);
      if (std::ranges::find(manifest.workspace, argument.text, &WorkspaceSpec::name) !=
          manifest.workspace.end()) {
        text += check(number, count, fmt::format("cultivar_is_pointer<cultivar_list_{}, {}>()", number, i),
                      which + ", which is a pointer");
      } else if (const auto type = type_of(argument)) {
        const bool in_bits = is_floating(*type) && size_of(*type) < 4;  // travel as unsigned integers
        text += check(number, count,
                      fmt::format("cultivar_is_scalar<cultivar_list_{}, {}, {}, {}>()", number, i,
                                  is_floating(*type) && !in_bits, size_of(*type)),
                      fmt::format("{}, which has the type {}", which, name_of(*type)));
      }
    }
  }
  return text;
}

bool speaks_of_argument_checks(std::string_view log) {
  return std::ranges::any_of(lines_of(log), [](std::string_view line) { return line.starts_with(kFile); });
}

std::optional<CompileFailure> mismatched_arguments(const Manifest& manifest, std::string_view log) {
  std::string reason, all, types;
  for (const std::string_view line : lines_of(log)) {
    if (const auto at = line.find("(*)("); at != line.npos && line.find("cultivar_count_") != line.npos)
      types = line.substr(at + 3, line.rfind(')') + 1 - at - 3);
    if (const auto list = line.find("cultivar_list<");
        list != line.npos && line.find("cultivar_count_") != line.npos) {
      const auto first = list + std::string_view("cultivar_list<").size();
      const auto last = line.rfind(">, ");
      if (last != line.npos && last > first) types = line.substr(first, last - first);
    }
    if (line.find("error:") == line.npos) continue;
    const auto mark = line.find(kMark);
    if (!line.starts_with(kFile) || mark == line.npos) return std::nullopt;
    std::string words(line.substr(mark + kMark.size()));
    while (!words.empty() && (words.back() == '"' || words.back() == '\n')) words.pop_back();
    if (words.starts_with("count ")) {
      const auto number = static_cast<std::size_t>(std::atoi(words.c_str() + 6));
      if (number >= manifest.launch.size()) return std::nullopt;
      const auto& launch = manifest.launch[number];
      std::size_t parameters = types.empty() ? 0 : 1, depth = 0;
      for (const char c : types) {
        depth += c == '<' || c == '(' ? 1 : 0, depth -= depth > 0 && (c == '>' || c == ')') ? 1 : 0;
        if (c == ',' && depth == 0) ++parameters;
      }
      words = fmt::format("kernel '{}' has {} parameters ({}), but the manifest gives {} arguments",
                          launch.kernel, parameters, types.empty() ? "none" : types, launch.args.size());
    }
    if (reason.empty()) reason = words;
    all += words + "\n";
  }
  if (reason.empty()) return std::nullopt;
  return CompileFailure{
      .stage = Stage::compile,
      .reason = reason,
      .diagnostics =
          all +
          "`args` lists one argument per parameter, in order: tensors and workspaces are pointers, "
          "dimensions, `thread` and `threads` are int, and {value: ..., type: ...} gives another "
          "type. (A macro replaces a parameter of the same name.)\n"};
}

}  // namespace cultivar

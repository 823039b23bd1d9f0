// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/c_family.hpp"

#include <fmt/format.h>

namespace cultivar {
namespace {

bool is_keyword(std::string_view name) {
  constexpr std::string_view keywords =
      " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t "
      "char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr "
      "constinit continue decltype default delete do double dynamic_cast else enum explicit export extern "
      "false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr "
      "operator or or_eq private protected public register reinterpret_cast requires return short signed "
      "sizeof static static_assert static_cast struct switch template this thread_local throw true try "
      "typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq ";
  return keywords.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

std::string literal(Dtype type, double value) {
  if (!is_floating(type)) return fmt::format("{}", static_cast<std::int64_t>(value));
  const bool f64 = type == Dtype::f64;
  std::string text =
      f64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(round_to(type, value)));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return f64 ? text : text + "f";
}

}  // namespace

LanguageTraits c_family() {
  LanguageTraits row;
  row.types = {"double",         "float",          "_Float16",
               "unsigned short", "long long",      "int",
               "short",          "signed char",    "unsigned long long",
               "unsigned",       "unsigned short", "unsigned char",
               "unsigned char",  "unsigned char"};
  row.literal = literal;
  row.reserves = is_keyword;
  return row;
}

}  // namespace cultivar

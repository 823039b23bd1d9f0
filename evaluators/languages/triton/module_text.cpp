// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/triton/module_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "evaluators/system/lines.hpp"

namespace cultivar {
namespace {

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

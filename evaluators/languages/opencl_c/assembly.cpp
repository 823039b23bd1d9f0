// SPDX-License-Identifier: Apache-2.0
#include "evaluators/languages/opencl_c/assembly.hpp"

#include <fmt/format.h>

#include <cctype>

#include "evaluators/system/lines.hpp"

namespace cultivar {
namespace {

// The characters of a source as a compiler sees them, with their lines.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) { join(); }

  char now(std::size_t ahead = 0) const {  // 0: the end
    Reader later(*this);
    while (ahead-- > 0) later.next();
    return later.at_ < text_.size() ? text_[later.at_] : '\0';
  }
  bool ended() const { return at_ >= text_.size(); }
  int line() const { return line_; }
  void next() {
    if (ended()) return;
    line_ += text_[at_++] == '\n';
    join();
  }

 private:
  // Leaves out a backslash (or its trigraph) with the end of its line; Clang allows blanks between them.
  void join() {
    for (;;) {
      std::size_t end = at_;
      if (text_.substr(end).starts_with("\\"))
        end += 1;
      else if (text_.substr(end).starts_with("?\?/"))
        end += 3;
      else
        return;
      while (end < text_.size() && text_[end] != '\n' &&
             std::isspace(static_cast<unsigned char>(text_[end])) != 0)
        ++end;
      if (end >= text_.size() || text_[end] != '\n') return;
      at_ = end + 1;
      ++line_;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

bool in_a_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

void pass_literal(Reader& reader) {
  const char quote = reader.now();
  reader.next();
  while (!reader.ended() && reader.now() != '\n' && reader.now() != quote) {
    if (reader.now() == '\\') reader.next();
    reader.next();
  }
  if (reader.now() == quote) reader.next();
}

void pass_comment(Reader& reader) {
  const bool line = reader.now(1) == '/';
  reader.next(), reader.next();
  if (line)
    while (!reader.ended() && reader.now() != '\n') reader.next();
  else
    while (!reader.ended()) {
      const bool over = reader.now() == '*' && reader.now(1) == '/';
      reader.next();
      if (over) return reader.next();
    }
}

}  // namespace

std::string assembly_in_source(std::string_view file, std::string_view text) {
  for (Reader reader(text); !reader.ended();) {
    const char c = reader.now();
    if (c == '"' || c == '\'') {
      pass_literal(reader);
    } else if (c == '/' && (reader.now(1) == '/' || reader.now(1) == '*')) {
      pass_comment(reader);
    } else if (in_a_word(c)) {
      const int line = reader.line();
      std::string word;
      for (; in_a_word(reader.now()); reader.next()) word += reader.now();
      if (word == "asm" || word == "__asm" || word == "__asm__")
        return fmt::format("{}:{} has inline assembly ({})", file, line, word);
    } else {
      reader.next();
    }
  }
  return {};
}

bool has_assembly(std::string_view ir) {
  for (std::string_view line : lines_of(ir)) {
    if (line.starts_with("module asm")) return true;
    if (!line.starts_with(' ') && !line.starts_with('\t')) continue;  // no instruction: a constant, metadata
    const std::string_view before = line.substr(0, line.find('"'));
    if (before.find(" asm ") != before.npos) return true;
  }
  return false;
}

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
// What a kernel's text is, as one row of facts for each language: everything that others need to know of it
// without its folder below evaluators/languages. The programs' list of rows is evaluators/table.cpp.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evaluators/target/traits.hpp"

namespace cultivar {

class Compiler;        // languages/compiler.hpp
struct CompilerOrder;  // the same

struct CommentSyntax {
  std::string line = "//", opening = "/*", closing = "*/";

  std::string manifest_opening() const { return opening + "--- cultivar"; }
  std::string manifest_closing() const { return "---" + closing; }
  friend bool operator==(const CommentSyntax&, const CommentSyntax&) = default;
};

// By the names of launch keys; a flag that is true holds 1, one that is false is absent.
using LaunchExpressions = std::map<std::string, std::vector<Expression>, std::less<>>;

using NamedText = std::pair<std::string_view, std::string_view>;  // a file's name, and what it holds

struct LanguageTraits {
  std::string name;                  // in manifests: "cuda_cpp"
  std::string title;                 // in sentences: "CUDA C++"
  std::vector<std::string> targets;  // what it is compiled for, by name
  std::string extension;             // of its sources: ".cu"
  // Files that are no sources have that extension as well: a source is told by its manifest.
  bool shares_extension = false;
  std::string fence;     // of its sources, in Markdown
  std::string compiler;  // in words: "NVRTC"
  CommentSyntax comments = {};
  bool headers = true;  // a source may have parts in other files that it includes
  // What a launch says besides the keys of its target; and which of those a manifest must not give, because
  // `derive` computes them or the compiler decides (Binary::chosen).
  std::vector<LaunchKey> launch_keys = {};
  std::vector<std::string> derived_keys = {};
  void (*derive)(LaunchExpressions&) = nullptr;
  std::string definition = "extern \"C\"";               // how a source defines a kernel
  std::array<std::string_view, dtype_count> types = {};  // what the macro DTYPE says of each dtype
  std::string (*literal)(Dtype, double) = nullptr;       // a number as a macro's value, of exactly that type
  bool (*reserves)(std::string_view name) = nullptr;     // a word that cannot be the name of a macro
  // Template of a new seed: the manifest, and a kernel with the right parameters that its author completes
  // (engine/scaffold/task_folder.hpp).
  std::string_view frame = {};
  std::span<const NamedText> task_seeds = {};  // templates of the seeds of a new task
  NamedText format = {};  // how a kernel is written, for models: a prompt; empty: the brief format does
  std::unique_ptr<Compiler> (*open)(const CompilerOrder&) = nullptr;  // may throw MissingError
  // Of a language that a Python interpreter of the user's compiles: which compiler it has ("Triton 3.6.0").
  // Null: none is needed.
  Expected<std::string> (*compiler_of)(const std::string& python) = nullptr;
};

// A row. Never null, lives as long as the program, compares by identity.
using Language = const LanguageTraits*;

std::span<const Language> languages();  // all that this program knows
inline const std::string& name_of(Language language) {
  return language->name;
}
Language find_language(std::string_view name);  // nullptr: there is none of that name
bool compiles_for(Language, Target);
Language usual_language(Target);                               // the first of the table that compiles for it
Language language_by_extension(const std::filesystem::path&);  // nullptr: this is no source
// By its extension, and by its text if the extension does not tell.
Language language_of_file(const std::filesystem::path&);  // nullptr: this is no source
bool is_source_for(Target, const std::filesystem::path&);
// Where the first manifest of any language begins in a text; npos: there is none.
std::size_t find_manifest_opening(std::string_view text);
// Of the language whose manifest comes first in a text; of the first language if there is none.
const CommentSyntax& comments_in(std::string_view text);

}  // namespace cultivar

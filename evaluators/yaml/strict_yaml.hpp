// SPDX-License-Identifier: Apache-2.0
// A strict YAML reader: unknown and duplicate keys, wrong types, anchors, tags and second documents are
// errors, and every error says "file:line: what is wrong (remedy)".
//
//   YamlMap map = read_yaml(path).map();
//   config.name = map.require("name").string();
//   if (auto seed = map.optional("seed")) config.seed = seed->integer(0);
//   map.finish();  // any key that was not asked for is an error; the message names the nearest asked-for key
//
// Values are immutable and may be read from many threads; a YamlMap belongs to one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evaluators/system/error.hpp"

namespace cultivar {

// An InputError with separate parts, for code that converts it into a value (manifests).
class YamlError : public InputError {
 public:
  YamlError(std::string origin, int line, std::string message);
  const std::string& origin() const { return origin_; }
  int line() const { return line_; }  // 1-based; 0 for the whole text
  const std::string& message() const { return message_; }

 private:
  std::string origin_, message_;
  int line_;
};

inline constexpr std::size_t most_yaml_bytes = 1 << 20;  // of a text
inline constexpr std::size_t longest_yaml_prose = 1000;
inline constexpr std::size_t longest_yaml_name = 128;  // in bytes, of a key and of an identifier

class YamlMap;
struct YamlData;  // one node of the tree, immutable

class YamlNode {
 public:
  enum class Kind { null, scalar, sequence, map };

  explicit YamlNode(std::shared_ptr<const YamlData> data, std::string path = {});

  Kind kind() const;
  bool is_null() const { return kind() == Kind::null; }
  bool is_scalar() const { return kind() == Kind::scalar; }
  bool is_sequence() const { return kind() == Kind::sequence; }
  bool is_map() const { return kind() == Kind::map; }
  bool is_quoted() const;                            // a scalar in quotes (or a block scalar)
  int line() const;                                  // 1-based line of the file
  const std::string& origin() const;                 // the file name as given
  const std::string& path() const { return path_; }  // "launch[0].grid"; empty for the whole document

  // Typed getters. Each throws YamlError if the value has another type or is out of range.
  std::string string() const;      // any scalar's text; never empty
  std::string prose() const;       // words about something: at most longest_yaml_prose bytes
  std::string identifier() const;  // [A-Za-z_][A-Za-z0-9_]*, at most longest_yaml_name
  std::int64_t integer(std::int64_t minimum = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t maximum = std::numeric_limits<std::int64_t>::max()) const;
  double number(double minimum = -std::numeric_limits<double>::infinity(),
                double maximum = std::numeric_limits<double>::infinity()) const;  // finite
  bool boolean() const;                                                           // true or false
  std::string one_of(const std::vector<std::string>& allowed) const;
  std::vector<YamlNode> items() const;       // a sequence
  std::vector<std::string> strings() const;  // a sequence of scalars
  YamlMap map() const;

  // Throws YamlError at this node: "file:line: path: message".
  [[noreturn]] void fail(const std::string& message) const;

  // A copy of the tree in which the value at `dotted` ("budget.wall", "models.0.name") is `value`; missing
  // maps on the path are created.
  YamlNode with(std::string_view dotted, const YamlNode& value) const;
  // The tree as block YAML text, for the record.
  std::string text() const;

 private:
  friend class YamlMap;
  std::shared_ptr<const YamlData> data_;
  std::string path_;
};

enum class Nulls { refused, allowed };  // keys without a value

class YamlMap {
 public:
  explicit YamlMap(YamlNode node);  // throws unless it is a map

  // In both, a key without a value ("seed:") is an error.
  YamlNode require(std::string_view key);
  std::optional<YamlNode> optional(std::string_view key);
  // All entries in file order, for maps whose keys the user chooses; counts as asking for all keys.
  std::vector<std::pair<std::string, YamlNode>> entries(Nulls = Nulls::refused);
  bool has(std::string_view key) const;     // does not count as asking
  int line_of(std::string_view key) const;  // of the key itself; 0 if there is none

  // Throws for the first key that was never asked for.
  void finish() const;
  const YamlNode& node() const { return node_; }

 private:
  YamlNode node_;
  std::vector<std::string> asked_;
  bool all_ = false;
};

// `first_line` is the line of the file on which the text begins (for YAML inside a source file).
YamlNode parse_yaml(std::string_view text, std::string origin, int first_line = 1);
// An unreadable file is an InputError.
YamlNode read_yaml(const std::filesystem::path& file);

}  // namespace cultivar

// SPDX-License-Identifier: Apache-2.0
#include "evaluators/yaml/strict_yaml.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "evaluators/system/files.hpp"
#include "evaluators/yaml/nearest_name.hpp"

namespace cultivar {

struct YamlData {
  struct Entry {
    std::string key;
    int line = 0;  // line of the key
    std::shared_ptr<const YamlData> value;
  };
  YamlNode::Kind kind = YamlNode::Kind::null;
  int line = 0;
  bool quoted = false;
  std::string text;
  std::vector<std::shared_ptr<const YamlData>> items;
  std::vector<Entry> entries;
  std::shared_ptr<const std::string> origin;
};

namespace {

std::string located(const std::string& origin, int line, const std::string& message) {
  return line > 0 ? fmt::format("{}:{}: {}", origin, line, message) : fmt::format("{}: {}", origin, message);
}

std::string quoted_text(const std::string& text) {
  return text.size() > 60 ? fmt::format("'{}...'", text.substr(0, 57)) : fmt::format("'{}'", text);
}

std::string described(const YamlData& data) {
  switch (data.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::scalar:
      return quoted_text(data.text);
    case YamlNode::Kind::sequence:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
  }
  return "";
}

void emit(YAML::Emitter& out, const YamlData& data) {
  switch (data.kind) {
    case YamlNode::Kind::null:
      out << YAML::Null;
      break;
    case YamlNode::Kind::scalar:
      if (data.quoted) out << YAML::DoubleQuoted;
      out << data.text;
      break;
    case YamlNode::Kind::sequence:
      out << YAML::BeginSeq;
      for (const auto& item : data.items) emit(out, *item);
      out << YAML::EndSeq;
      break;
    case YamlNode::Kind::map:
      out << YAML::BeginMap;
      for (const auto& entry : data.entries) {
        out << YAML::Key << entry.key << YAML::Value;
        emit(out, *entry.value);
      }
      out << YAML::EndMap;
      break;
  }
}

std::shared_ptr<const YamlData> replaced(const YamlData& data, std::string_view dotted, const YamlNode& at,
                                         const std::shared_ptr<const YamlData>& value) {
  const std::size_t dot = dotted.find('.');
  const std::string key(dotted.substr(0, dot));
  if (key.empty()) at.fail(fmt::format("'{}' is not a path (write it as budget.wall)", dotted));
  const auto below = [&](const std::shared_ptr<const YamlData>& child) {
    if (dot == std::string_view::npos) return value;
    if (child) return replaced(*child, dotted.substr(dot + 1), at, value);
    YamlData empty;
    empty.kind = YamlNode::Kind::map;
    empty.origin = value->origin;
    empty.line = value->line;
    return replaced(empty, dotted.substr(dot + 1), at, value);
  };
  auto copy = std::make_shared<YamlData>(data);
  if (data.kind == YamlNode::Kind::sequence) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
    if (error != std::errc() || end != key.data() + key.size() || index >= data.items.size())
      at.fail(fmt::format("'{}' is not an index of a list of {}", key, data.items.size()));
    copy->items[index] = below(data.items[index]);
    return copy;
  }
  if (data.kind != YamlNode::Kind::map && data.kind != YamlNode::Kind::null)
    at.fail(fmt::format("'{}' would be inside {}, which is not a map", key, described(data)));
  copy->kind = YamlNode::Kind::map;
  for (auto& entry : copy->entries)
    if (entry.key == key) {
      entry.value = below(entry.value);
      return copy;
    }
  copy->entries.push_back({key, value->line, below(nullptr)});
  return copy;
}

// Builds a tree from yaml-cpp's events. Not from YAML::Node, because a Node hides duplicate keys, loses the
// lines of keys, and expands aliases (a text of a hundred bytes could grow without bound).
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string origin, int first_line)
      : origin_(std::make_shared<const std::string>(std::move(origin))), first_line_(first_line) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(begun_, true))
      throw YamlError(
          *origin_, line(mark),
          "more than one document: another begins here (put each into a file of its own, or remove "
          "the ---; without one, check that the lines above belong to the keys below them)");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse(mark, "", anchor);
    add(mark, YamlNode::Kind::null);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw YamlError(*origin_, line(mark), "aliases (*name) are not supported (write the value out)");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse(mark, tag, anchor);
    if (open_.empty() || open_.back().data->kind != YamlNode::Kind::map || open_.back().has_key) {
      auto& data = add(mark, YamlNode::Kind::scalar);
      data.text = value;
      data.quoted = tag == "!";
      return;
    }
    Open& map = open_.back();
    if (value.size() > longest_yaml_name)
      throw YamlError(*origin_, line(mark),
                      fmt::format("a key is longer than {} bytes (shorten it)", longest_yaml_name));
    if (const auto [first, fresh] = map.lines.try_emplace(value, line(mark)); !fresh)
      throw YamlError(
          *origin_, line(mark),
          fmt::format("the key '{}' is given twice, first on line {} (remove one)", value, first->second));
    map.key = value;
    map.key_line = line(mark);
    map.has_key = true;
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse(mark, tag, anchor);
    begin(mark, YamlNode::Kind::sequence);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse(mark, tag, anchor);
    begin(mark, YamlNode::Kind::map);
  }
  void OnMapEnd() override { open_.pop_back(); }

  int line(const YAML::Mark& mark) const { return mark.is_null() ? first_line_ : mark.line + first_line_; }
  std::shared_ptr<const YamlData> root() {
    if (!root_) {
      root_ = std::make_shared<YamlData>();
      root_->origin = origin_;
      root_->line = first_line_;
    }
    return root_;
  }
  const std::string& origin() const { return *origin_; }

 private:
  struct Open {
    std::shared_ptr<YamlData> data;
    std::string key;
    int key_line = 0;
    bool has_key = false;
    std::unordered_map<std::string, int> lines = {};  // of the map's keys
  };

  void refuse(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor)
      throw YamlError(*origin_, line(mark),
                      "anchors (&name) are not supported (quote the value if it begins with &)");
    if (!tag.empty() && tag != "?" && tag != "!")
      throw YamlError(*origin_, line(mark), fmt::format("the tag '{}' is not supported (remove it)", tag));
  }

  YamlData& add(const YAML::Mark& mark, YamlNode::Kind kind) {
    auto data = std::make_shared<YamlData>();
    data->kind = kind;
    data->line = line(mark);
    data->origin = origin_;
    last_ = data;
    if (open_.empty()) {
      root_ = data;
    } else if (Open& parent = open_.back(); parent.data->kind == YamlNode::Kind::sequence) {
      parent.data->items.push_back(data);
    } else if (parent.has_key) {
      data->line = kind == YamlNode::Kind::null ? parent.key_line : data->line;
      parent.data->entries.push_back({std::move(parent.key), parent.key_line, data});
      parent.has_key = false;
    } else {
      throw YamlError(*origin_, line(mark),
                      "a key must be a plain name, not a list or a map (check for an unclosed bracket)");
    }
    return *data;
  }

  void begin(const YAML::Mark& mark, YamlNode::Kind kind) {
    add(mark, kind);
    if (open_.size() > 64)
      throw YamlError(*origin_, line(mark), "is nested more than 64 levels deep (flatten it)");
    open_.push_back({last_, {}, 0, false, {}});
  }

  std::shared_ptr<const std::string> origin_;
  int first_line_;
  bool begun_ = false;  // a document
  std::shared_ptr<YamlData> root_, last_;
  std::vector<Open> open_;
};

}  // namespace

YamlError::YamlError(std::string origin, int line, std::string message)
    : InputError(located(origin, line, message)),
      origin_(std::move(origin)),
      message_(std::move(message)),
      line_(line) {}

YamlNode::YamlNode(std::shared_ptr<const YamlData> data, std::string path)
    : data_(std::move(data)), path_(std::move(path)) {}

YamlNode::Kind YamlNode::kind() const {
  return data_->kind;
}
bool YamlNode::is_quoted() const {
  return data_->quoted;
}
int YamlNode::line() const {
  return data_->line;
}
const std::string& YamlNode::origin() const {
  return *data_->origin;
}

void YamlNode::fail(const std::string& message) const {
  throw YamlError(origin(), line(), path_.empty() ? message : path_ + ": " + message);
}

std::string YamlNode::string() const {
  if (!is_scalar()) fail(fmt::format("must be text, not {}", described(*data_)));
  if (data_->text.empty()) fail("must not be empty");
  return data_->text;
}

std::string YamlNode::prose() const {
  if (is_scalar() && data_->text.size() > longest_yaml_prose)
    fail(fmt::format("has {} bytes, but at most {} are allowed", data_->text.size(), longest_yaml_prose));
  return string();
}

std::string YamlNode::identifier() const {
  const std::string text = string();
  if (text.size() > longest_yaml_name)
    fail(fmt::format("is a name of {} bytes, but at most {} are allowed", text.size(), longest_yaml_name));
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; };
  const auto inner = [&](char c) { return letter(c) || std::isdigit(static_cast<unsigned char>(c)); };
  if (!letter(text.front()) || !std::all_of(text.begin(), text.end(), inner))
    fail(fmt::format("must be a name (letters, digits and _, no digit first), not {}", quoted_text(text)));
  return text;
}

std::int64_t YamlNode::integer(std::int64_t minimum, std::int64_t maximum) const {
  std::int64_t value = 0;
  const std::string& text = data_->text;
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(begin, last, value);
  if (is_scalar() && error == std::errc::result_out_of_range && end == last)
    fail(fmt::format("is too large a number: {}", described(*data_)));
  if (!is_scalar() || error != std::errc() || end != last || begin == last)
    fail(fmt::format("must be a whole number, not {}", described(*data_)));
  const char* const digits = begin + (*begin == '-' ? 1 : 0);
  if (*digits == '0' && digits + 1 != last)
    fail(fmt::format("has leading zeros, which could mean octal (write {})", value));
  if (value < minimum || value > maximum) {
    if (maximum == std::numeric_limits<std::int64_t>::max())
      fail(fmt::format("must be at least {}, not {}", minimum, value));
    fail(fmt::format("must be between {} and {}, not {}", minimum, maximum, value));
  }
  return value;
}

double YamlNode::number(double minimum, double maximum) const {
  double value = 0;
  const std::string& text = data_->text;
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(begin, last, value);
  if (!is_scalar() || error != std::errc() || end != last || begin == last || !std::isfinite(value))
    fail(fmt::format("must be a number, not {}", described(*data_)));
  if (value < minimum || value > maximum) {
    if (std::isinf(maximum)) fail(fmt::format("must be at least {}, not {}", minimum, value));
    fail(fmt::format("must be between {} and {}, not {}", minimum, maximum, value));
  }
  return value;
}

bool YamlNode::boolean() const {
  if (is_scalar() && !is_quoted()) {
    if (data_->text == "true") return true;
    if (data_->text == "false") return false;
  }
  fail(fmt::format("must be true or false, not {}", described(*data_)));
}

std::string YamlNode::one_of(const std::vector<std::string>& allowed) const {
  const std::string text = string();
  if (std::find(allowed.begin(), allowed.end(), text) == allowed.end())
    fail(fmt::format("{} is not allowed here{}", quoted_text(text), did_you_mean(text, allowed)));
  return text;
}

std::vector<YamlNode> YamlNode::items() const {
  if (!is_sequence()) fail(fmt::format("must be a list, not {}", described(*data_)));
  std::vector<YamlNode> result;
  result.reserve(data_->items.size());
  for (std::size_t i = 0; i < data_->items.size(); ++i)
    result.emplace_back(data_->items[i], fmt::format("{}[{}]", path_, i));
  return result;
}

std::vector<std::string> YamlNode::strings() const {
  std::vector<std::string> result;
  for (const YamlNode& item : items()) result.push_back(item.string());
  return result;
}

YamlMap YamlNode::map() const {
  return YamlMap(*this);
}

YamlNode YamlNode::with(std::string_view dotted, const YamlNode& value) const {
  return YamlNode(replaced(*data_, dotted, value, value.data_), path_);
}

std::string YamlNode::text() const {
  YAML::Emitter out;
  emit(out, *data_);
  return std::string(out.c_str()) + "\n";
}

YamlMap::YamlMap(YamlNode node) : node_(std::move(node)) {
  if (!node_.is_map()) node_.fail(fmt::format("must be a map (key: value), not {}", described(*node_.data_)));
}

bool YamlMap::has(std::string_view key) const {
  const auto& entries = node_.data_->entries;
  return std::any_of(entries.begin(), entries.end(), [&](const auto& e) { return e.key == key; });
}

int YamlMap::line_of(std::string_view key) const {
  const auto& entries = node_.data_->entries;
  const auto found = std::ranges::find(entries, key, &YamlData::Entry::key);
  return found == entries.end() ? 0 : found->line;
}

std::optional<YamlNode> YamlMap::optional(std::string_view key) {
  asked_.emplace_back(key);
  for (const auto& entry : node_.data_->entries)
    if (entry.key == key) {
      const std::string& path = node_.path();
      YamlNode value(entry.value, path.empty() ? entry.key : path + "." + entry.key);
      if (value.is_null()) value.fail("has no value (give one or remove the key)");
      return value;
    }
  return std::nullopt;
}

YamlNode YamlMap::require(std::string_view key) {
  if (auto value = optional(key)) return *value;
  // The most likely reason is a misspelled key: name it here, where its line is known.
  for (const auto& entry : node_.data_->entries)
    if (nearest_name(entry.key, {std::string(key)}) == key &&
        std::find(asked_.begin(), asked_.end(), entry.key) == asked_.end())
      throw YamlError(node_.origin(), entry.line,
                      fmt::format("{}{}'{}' is missing (did you misspell it as '{}'?)", node_.path(),
                                  node_.path().empty() ? "" : ": ", key, entry.key));
  node_.fail(fmt::format("'{}' is missing (add it)", key));
}

std::vector<std::pair<std::string, YamlNode>> YamlMap::entries(Nulls nulls) {
  all_ = true;
  std::vector<std::pair<std::string, YamlNode>> result;
  for (const auto& entry : node_.data_->entries) {
    const std::string& path = node_.path();
    YamlNode value(entry.value, path.empty() ? entry.key : path + "." + entry.key);
    if (value.is_null() && nulls == Nulls::refused) value.fail("has no value (give one or remove the key)");
    result.emplace_back(entry.key, std::move(value));
  }
  return result;
}

void YamlMap::finish() const {
  if (all_) return;
  for (const auto& entry : node_.data_->entries) {
    if (std::find(asked_.begin(), asked_.end(), entry.key) != asked_.end()) continue;
    const std::string where = node_.path().empty() ? "" : node_.path() + ": ";
    // Report the line of the value, because with() may have copied the key from another map.
    throw YamlError(*entry.value->origin, entry.line,
                    fmt::format("{}unknown key '{}'{}", where, entry.key, did_you_mean(entry.key, asked_)));
  }
}

YamlNode read_yaml(const std::filesystem::path& file) {
  const auto text = read_file(file, most_yaml_bytes);
  if (!text) {
    std::error_code ignored;
    const bool may_be_missing = std::filesystem::file_size(file, ignored) <= most_yaml_bytes || ignored;
    throw InputError(text.error().message + (may_be_missing
                                                 ? " (check that it exists and that you have read permission)"
                                                 : " of a YAML file (is it another file?)"));
  }
  return parse_yaml(*text, file.string());
}

YamlNode parse_yaml(std::string_view text, std::string origin, int first_line) {
  TreeBuilder builder(std::move(origin), first_line);
  if (text.size() > most_yaml_bytes)
    throw YamlError(builder.origin(), 0,
                    fmt::format("is longer than {} bytes (shorten it)", most_yaml_bytes));
  // yaml-cpp accepts a quote that is still open after the last line break, so remove that line break.
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  std::istringstream in{std::string(text.substr(0, last == std::string_view::npos ? 0 : last + 1))};
  try {
    YAML::Parser parser(in);
    parser.HandleNextDocument(builder);
    parser.HandleNextDocument(builder);  // refused if there is one
    return YamlNode(builder.root());
  } catch (const YAML::Exception& error) {
    std::string remedy = "check quotes, brackets and indentation";
    if (text.find('\t') != std::string_view::npos) remedy += "; indent with blanks, not tabs";
    throw YamlError(builder.origin(), builder.line(error.mark),
                    fmt::format("is not valid YAML: {} ({})", error.msg, remedy));
  }
}

}  // namespace cultivar

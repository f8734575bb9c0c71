#include "retile/base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "retile/base/error.h"

namespace retile {
namespace {

constexpr std::size_t deepest_nesting = 64;

// Tells how many bytes nlohmann's lexer has taken: its events carry no places of their own.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* position, const char* begin, std::size_t* taken)
      : position_(position), begin_(begin), taken_(taken) {}
  reference operator*() const { return *position_; }
  CountingIterator& operator++() {
    ++position_;
    *taken_ = static_cast<std::size_t>(position_ - begin_);
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return position_ == other.position_; }
  bool operator!=(const CountingIterator& other) const { return position_ != other.position_; }

 private:
  const char* position_;
  const char* begin_;
  std::size_t* taken_;
};

// Builds the tree from nlohmann's events. When an event arrives, `taken` is the end of its token,
// or one further for numbers and literals, which end at the character after them.
class TreeBuilder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  TreeBuilder(const SourceText& source, const std::size_t& taken) : source_(source), taken_(taken) {}

  bool null() { return add(nullptr, word_range()); }
  bool boolean(bool value) { return add(value, word_range()); }
  bool number_integer(number_integer_t value) { return add(std::int64_t{value}, word_range()); }
  bool number_unsigned(number_unsigned_t value) {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) {
      return add(static_cast<double>(value), word_range());
    }
    return add(static_cast<std::int64_t>(value), word_range());
  }
  bool number_float(number_float_t value, const string_t&) { return add(value, word_range()); }
  bool string(string_t& value) { return add(std::move(value), string_range()); }
  bool binary(binary_t&) { return false; }

  bool start_object(std::size_t) { return open(JsonObject{}); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(JsonArray{}); }
  bool end_array() { return close(); }

  bool key(string_t& name) {
    const SourceRange range = string_range();
    if (!seen_keys_.back().insert(name).second) {
      throw InputError(diagnose(source_, range, fmt::format("the key \"{}\" stands here twice", name)));
    }
    keys_.push_back({std::move(name), range, JsonValue(nullptr, range)});
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
    const std::string reason = reason_of(error);
    // A fault inside a token is found at its character, a token out of place at its end.
    const bool inside_token = reason.find(" - invalid") != std::string::npos;
    const SourceRange character{std::max<std::size_t>(position, 1) - 1, position};
    throw InputError(diagnose(source_, inside_token ? character : token_range(position), "malformed JSON: " + reason));
  }

  JsonValue result() {
    ensure(root_.has_value(), "a JSON text that parses has a value");
    return std::move(*root_);
  }

 private:
  // "[json.exception.parse_error.101] parse error at line 1, column 5: reason; last read: 'tru'", or
  // "[json.exception.out_of_range.406] reason".
  static std::string reason_of(const nlohmann::detail::exception& error) {
    const std::string what = error.what();
    const bool placed = what.find("] parse error at ") != std::string::npos;
    const std::size_t begin = what.find(placed ? ": " : "] ") + 2;
    return what.substr(begin, what.find("; last read") - begin);
  }

  // A character of a number or a literal.
  static bool is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' || c == 'E';
  }

  SourceRange word_range() const {
    std::size_t end = std::min(taken_, source_.text.size());
    while (end > 0 && !is_word(source_.text[end - 1])) --end;
    return word_range(end);
  }
  SourceRange word_range(std::size_t end) const {
    std::size_t begin = end;
    while (begin > 0 && is_word(source_.text[begin - 1])) --begin;
    return {begin, end};
  }

  // Backwards from the closing quote to the opening one: a quote behind an even number of backslashes.
  SourceRange string_range() const { return string_range(taken_); }
  SourceRange string_range(std::size_t end) const {
    std::size_t begin = end - 1;
    while (begin > 0) {
      --begin;
      if (source_.text[begin] != '"') continue;
      std::size_t slashes = 0;
      while (slashes < begin && source_.text[begin - 1 - slashes] == '\\') ++slashes;
      if (slashes % 2 == 0) break;
    }
    return {begin, end};
  }

  // The whole token that ends there; nothing lies beyond the end of the text.
  SourceRange token_range(std::size_t end) const {
    if (end == 0 || end > source_.text.size()) return {source_.text.size(), source_.text.size()};
    const char last = source_.text[end - 1];
    if (last == '"') return string_range(end);
    return is_word(last) ? word_range(end) : SourceRange{end - 1, end};
  }

  bool add(JsonValue::Data data, SourceRange range) {
    attach(JsonValue(std::move(data), range));
    return true;
  }

  bool open(JsonValue::Data container) {
    const std::size_t begin = taken_ - 1;
    if (open_.size() == deepest_nesting) {
      throw InputError(
          diagnose(source_, {begin, taken_}, fmt::format("JSON nested deeper than {} levels", deepest_nesting)));
    }
    open_.emplace_back(std::move(container), SourceRange{begin, taken_});
    seen_keys_.emplace_back();
    return true;
  }

  bool close() {
    JsonValue value = std::move(open_.back());
    open_.pop_back();
    seen_keys_.pop_back();
    value.extend_to(taken_);
    attach(std::move(value));
    return true;
  }

  void attach(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* array = open_.back().as<JsonArray>()) {
      array->push_back(std::move(value));
    } else {
      JsonMember member = std::move(keys_.back());
      keys_.pop_back();
      member.value = std::move(value);
      open_.back().as<JsonObject>()->push_back(std::move(member));
    }
  }

  const SourceText& source_;
  const std::size_t& taken_;
  std::vector<JsonValue> open_;                   // containers around the current place, outermost first
  std::vector<std::set<std::string>> seen_keys_;  // of each open container
  std::vector<JsonMember> keys_;                  // keys that wait for their values
  std::optional<JsonValue> root_;
};

const char* kind_name(const JsonValue& value) {
  static constexpr const char* names[] = {"null",     "a truth value", "an integer", "a number",
                                          "a string", "an array",      "an object"};
  if (value.as<bool>() != nullptr) return names[1];
  if (value.as<std::int64_t>() != nullptr) return names[2];
  if (value.as<double>() != nullptr) return names[3];
  if (value.as<std::string>() != nullptr) return names[4];
  if (value.as<JsonArray>() != nullptr) return names[5];
  if (value.as<JsonObject>() != nullptr) return names[6];
  return names[0];
}

}  // namespace

JsonValue::JsonValue(Data data, SourceRange range) : data_(std::move(data)), range_(range) {}
JsonValue::JsonValue(JsonValue&&) noexcept = default;
JsonValue& JsonValue::operator=(JsonValue&&) noexcept = default;
JsonValue::~JsonValue() = default;

JsonValue parse_json(const SourceText& source) {
  // nlohmann's lexer takes a zero byte for the end of the text, and would not see what follows.
  if (const std::size_t zero = source.text.find('\0'); zero != std::string::npos) {
    throw InputError(diagnose(source, {zero, zero + 1}, "malformed JSON: zero byte"));
  }
  std::size_t taken = 0;
  TreeBuilder builder(source, taken);
  const char* begin = source.text.data();
  const char* end = begin + source.text.size();
  nlohmann::json::sax_parse(CountingIterator(begin, begin, &taken), CountingIterator(end, begin, &taken), &builder);
  return builder.result();
}

void JsonReader::fail(const Fault& fault) const { throw InputError(diagnose(*source_, value_->range(), fault)); }

std::int64_t JsonReader::integer() const {
  if (const auto* value = value_->as<std::int64_t>()) return *value;
  if (value_->as<double>() != nullptr) fail_as_integer();
  fail(fmt::format("{} must be an integer, not {}", name_, kind_name(*value_)));
}

void JsonReader::fail_as_integer() const {
  const SourceRange range = value_->range();
  const std::string text = source_->text.substr(range.begin, range.end - range.begin);
  if (text.find_first_of(".eE") == std::string::npos) fail(fmt::format("{} does not fit in 63 bits", name_));
  fail(fmt::format("{} must be an integer, not {}", name_, text), "write it without a fraction or an exponent");
}

std::int64_t JsonReader::size() const {
  const std::int64_t value = integer();
  if (value == 0) fail(fmt::format("{} is 0", name_), "sizes start at 1");
  if (value < 0) fail(fmt::format("{} is negative", name_), "sizes start at 1");
  return value;
}

std::int64_t JsonReader::count() const {
  const std::int64_t value = integer();
  if (value < 0) fail(fmt::format("{} is negative", name_));
  return value;
}

double JsonReader::number() const {
  if (const auto* value = value_->as<std::int64_t>()) return static_cast<double>(*value);
  if (const auto* value = value_->as<double>()) return *value;
  fail(fmt::format("{} must be a number, not {}", name_, kind_name(*value_)));
}

bool JsonReader::boolean() const {
  if (const bool* value = value_->as<bool>()) return *value;
  fail(fmt::format("{} must be true or false, not {}", name_, kind_name(*value_)));
}

const std::string& JsonReader::string() const {
  if (const auto* value = value_->as<std::string>()) return *value;
  fail(fmt::format("{} must be a string, not {}", name_, kind_name(*value_)));
}

std::vector<JsonReader> JsonReader::elements() const {
  const auto* array = value_->as<JsonArray>();
  if (array == nullptr) fail(fmt::format("{} must be an array, not {}", name_, kind_name(*value_)));
  std::vector<JsonReader> readers;
  readers.reserve(array->size());
  for (std::size_t i = 0; i < array->size(); ++i) {
    readers.emplace_back(*source_, (*array)[i], fmt::format("{}[{}]", name_, i));
  }
  return readers;
}

std::vector<std::int64_t> JsonReader::integers() const {
  std::vector<std::int64_t> values;
  for (const JsonReader& element : elements()) values.push_back(element.integer());
  return values;
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::members() const {
  const auto* object = value_->as<JsonObject>();
  if (object == nullptr) fail(fmt::format("{} must be an object, not {}", name_, kind_name(*value_)));
  std::vector<std::pair<std::string, JsonReader>> readers;
  for (const JsonMember& member : *object) {
    readers.emplace_back(member.key, JsonReader(*source_, member.value, fmt::format("\"{}\"", member.key)));
  }
  return readers;
}

const JsonMember* JsonReader::find(std::string_view key) const {
  const auto* object = value_->as<JsonObject>();
  if (object == nullptr) fail(fmt::format("{} must be an object, not {}", name_, kind_name(*value_)));
  const auto found =
      std::find_if(object->begin(), object->end(), [&](const JsonMember& member) { return member.key == key; });
  return found == object->end() ? nullptr : &*found;
}

void JsonReader::require_format() const {
  if (!has("format")) return;
  const JsonReader format = member("format");
  if (format.integer() == json_format) return;
  format.fail(fmt::format("format {} is not known here", format.integer()),
              fmt::format("this retile reads and writes format {}", json_format));
}

JsonReader JsonReader::member(std::string_view key) const {
  const JsonMember* found = find(key);
  if (found == nullptr) fail(fmt::format("{} has no \"{}\"", name_, key));
  return {*source_, found->value, fmt::format("\"{}\"", key)};
}

bool JsonReader::has(std::string_view key) const { return find(key) != nullptr; }

SourceRange JsonReader::place_in_string(SourceRange range) const {
  const SourceRange whole = value_->range();
  const bool escaped = string().size() + 2 != whole.end - whole.begin;
  if (escaped) return whole;
  return {whole.begin + 1 + range.begin, whole.begin + 1 + range.end};
}

}  // namespace retile

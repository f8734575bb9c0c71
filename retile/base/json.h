// JSON values that know where they stand in their text, so that a wrong value gets a caret.
// nlohmann-json does the reading; keys keep their order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "retile/base/diagnostic.h"

namespace retile {

class JsonValue;
using JsonArray = std::vector<JsonValue>;

struct JsonMember;
using JsonObject = std::vector<JsonMember>;

class JsonValue {
 public:
  // A number that is no 64-bit integer is a double, beyond 2^63 - 1 too.
  using Data = std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, JsonArray, JsonObject>;

  // Defined where JsonMember is complete.
  JsonValue(Data data, SourceRange range);
  JsonValue(const JsonValue&) = delete;
  JsonValue& operator=(const JsonValue&) = delete;
  JsonValue(JsonValue&&) noexcept;
  JsonValue& operator=(JsonValue&&) noexcept;
  ~JsonValue();

  template <typename T>
  const T* as() const {
    return std::get_if<T>(&data_);
  }
  template <typename T>
  T* as() {
    return std::get_if<T>(&data_);
  }
  SourceRange range() const { return range_; }
  void extend_to(std::size_t end) { range_.end = end; }

 private:
  Data data_;
  SourceRange range_;
};

struct JsonMember {
  std::string key;
  SourceRange key_range;
  JsonValue value;
};

// Reads one JSON value that fills the whole text. Throws InputError with the place of the mistake;
// a repeated key and nesting deeper than 64 are mistakes too.
JsonValue parse_json(const SourceText& source);

// The version of all formats (docs/formats.md), written into each line as "format".
constexpr std::int64_t json_format = 1;

// Typed access to a value, with diagnostics that name it. Cheap to copy.
class JsonReader {
 public:
  JsonReader(const SourceText& source, const JsonValue& value, std::string name)
      : source_(&source), value_(&value), name_(std::move(name)) {}

  const JsonValue& value() const { return *value_; }
  const std::string& name() const { return name_; }
  const SourceText& source() const { return *source_; }

  // Each throws InputError where the value is of another kind.
  std::int64_t integer() const;  // any 64-bit integer
  std::int64_t size() const;     // from 1
  std::int64_t count() const;    // from 0
  double number() const;         // finite
  bool boolean() const;
  const std::string& string() const;
  std::vector<JsonReader> elements() const;
  std::vector<std::int64_t> integers() const;
  // The members in order, named by their keys.
  std::vector<std::pair<std::string, JsonReader>> members() const;

  // Throws InputError where the object says that it is of another format.
  void require_format() const;

  JsonReader member(std::string_view key) const;
  bool has(std::string_view key) const;

  // Parses the text of a string value: parse(SourceText) → value. A fault in it is reported at its
  // place in the JSON: inside the string where it has no escapes, at all of the string otherwise.
  template <typename Parse>
  auto parse_text(Parse parse) const {
    const SourceText text{name_, string()};
    try {
      return parse(text);
    } catch (const InputError& error) {
      throw InputError(diagnose(*source_, place_in_string(error.diagnostic().range), error.diagnostic()));
    }
  }

  [[noreturn]] void fail(const Fault& fault) const;
  [[noreturn]] void fail(std::string message, std::string hint = {}) const {
    fail(Fault{std::move(message), std::move(hint)});
  }

 private:
  [[noreturn]] void fail_as_integer() const;
  const JsonMember* find(std::string_view key) const;
  SourceRange place_in_string(SourceRange range) const;

  const SourceText* source_;
  const JsonValue* value_;
  std::string name_;
};

}  // namespace retile

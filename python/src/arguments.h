// Arguments of functions that Python calls. Their errors say what is expected, in place of nanobind's list of
// signatures.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bindings.h"

namespace retile::python {

// Throws TypeError: `what` must be `wanted`, and is `given`.
[[noreturn]] inline void refuse(const std::string& what, const char* wanted, nanobind::handle given) {
  const nanobind::str shown(nanobind::module_::import_("reprlib").attr("repr")(given));
  throw nanobind::type_error((what + " must be " + wanted + ", not " + shown.c_str()).c_str());
}

using MeshOrText = std::optional<std::variant<std::string, Mesh>>;

// The mesh: retile's own with these devices, or one from a text in any notation.
std::optional<interchange::PlacedMesh> placed_mesh(const MeshOrText& mesh, const std::vector<Device>& devices);

template <typename Value>
inline constexpr const char* taken = nullptr;
template <>
inline constexpr const char* taken<bool> = "True or False";
template <>
inline constexpr const char* taken<std::int64_t> = "an integer";
template <>
inline constexpr const char* taken<std::optional<std::int64_t>> = "an integer or None";
template <>
inline constexpr const char* taken<std::string> = "a string";
template <>
inline constexpr const char* taken<std::optional<std::string>> = "a string or None";
template <>
inline constexpr const char* taken<Shape> = "a sequence of integers";
template <>
inline constexpr const char* taken<std::vector<std::string>> = "a sequence of names of axes";
template <>
inline constexpr const char* taken<std::vector<std::vector<std::string>>> =
    "a sequence of names of axes for each dimension";
template <>
inline constexpr const char* taken<nanobind::dict> = "a dict of names and sizes";
template <>
inline constexpr const char* taken<Mesh> = "a retile.Mesh";
template <>
inline constexpr const char* taken<MeshOrText> = "a retile.Mesh, a mesh's text or None";
template <>
inline constexpr const char* taken<PythonLayout> = "a retile.Layout";
template <>
inline constexpr const char* taken<std::optional<PythonMachine>> = "a retile.Machine or None";

template <std::size_t size>
struct ArgumentName {
  char text[size];

  // NOLINTNEXTLINE(*-explicit-*): a text as a template's argument
  constexpr ArgumentName(const char (&given)[size]) { std::copy_n(given, size, text); }
};

// A parameter of a function that Python calls. The value lives as long as the call.
template <ArgumentName name, typename Value>
class Argument {
 public:
  explicit Argument(const Value& value) : value_(value) {}

  const Value& operator*() const { return value_; }
  const Value* operator->() const { return &value_; }

 private:
  const Value& value_;
};

// An argument's name for nanobind. None is let through, so that it is refused in our words; the function's nb::sig
// states the types.
inline auto operator""_argument(const char* name, std::size_t /*size*/) { return nanobind::arg(name).none(); }

}  // namespace retile::python

namespace nanobind::detail {

template <retile::python::ArgumentName name, typename Given>
struct type_caster<retile::python::Argument<name, Given>> : make_caster<Given> {
  using Base = make_caster<Given>;
  using Argument = retile::python::Argument<name, Given>;
  template <typename>
  using Cast = Argument;

  bool from_python(handle given, std::uint32_t flags, cleanup_list* cleanup) {
    static_assert(retile::python::taken<Given> != nullptr, "say what such an argument takes");
    const bool is_null = is_base_caster_v<Base> && given.is_none();  // nanobind would take None for a null pointer
    if (!is_null && Base::from_python(given, flags, cleanup)) return true;
    retile::python::refuse(name.text, retile::python::taken<Given>, given);
  }

  explicit operator Argument() { return Argument(static_cast<Given&>(static_cast<Base&>(*this))); }
};

}  // namespace nanobind::detail

// The contents of the handles of retile/c.h, and how failures become statuses.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "retile/c.h"
#include "retile/retile.h"

struct retile_mesh {
  retile::Mesh value;
};

struct retile_layout {
  retile::Layout value;
};

struct retile_plan {
  retile::Plan value;
  retile::ElementType element;
};

struct retile_engine {
  std::shared_ptr<retile::Engine> value;  // of ranks: kept by their communicator
  std::map<void*, retile::Buffer> allocated = {};
};

namespace retile::c {

// Arrays of Fortran that a run was made with: their addresses, shapes and strides.
struct BoundArrays {
  std::vector<const void*> sources;
  std::vector<void*> targets;
  std::vector<std::vector<std::int64_t>> shapes;  // extents, then bytes between elements: of each source and target
};

}  // namespace retile::c

struct retile_transfer {
  std::vector<retile::transfer::TransferArray> arrays = {};
  retile::c::BoundArrays bound = {};
};

struct retile_run {
  std::variant<retile::ByteRedistribution, retile::transfer::Transfer> value;
  std::vector<std::string> names;  // of the arrays of a transfer
  retile::c::BoundArrays bound = {};
};

namespace retile::c {

// The element type of this name. Throws InputError.
ElementType element_of(const char* name);

// The layout. Throws InputError where it has no such device.
const Layout& require_device(const retile_layout* layout, Device device);

// The strides of a tile, in bytes: of a sum, those of the one part that the device holds.
Strides tile_strides(const Layout& layout, Strides strides);

// Keeps the message for retile_error_message() and gives the status back.
retile_status fail(retile_status status, std::string message) noexcept;

// Calls `work`, and turns what it throws into a status.
template <typename Work>
retile_status guarded(const Work& work) noexcept {
  try {
    work();
    return RETILE_OK;
  } catch (const InputError& error) {
    return fail(RETILE_INPUT_ERROR, to_string(error.diagnostic()));
  } catch (const RuntimeError& error) {
    return fail(RETILE_RUN_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return fail(RETILE_RUN_ERROR, "there is not enough memory");
  } catch (const std::exception& error) {
    return fail(RETILE_INTERNAL_ERROR, error.what());
  } catch (...) {
    return fail(RETILE_INTERNAL_ERROR, "an unknown failure");
  }
}

// The argument. Throws InputError where it is null.
template <typename T>
T& require(T* argument, const char* name) {
  if (argument == nullptr) throw InputError(std::string("the argument ") + name + " is NULL", "");
  return *argument;
}

// A list of `count` values, which may be null where there are none. Throws InputError.
template <typename T>
std::span<const T> list_of(const T* values, std::int64_t count, const char* name) {
  if (count < 0) throw InputError(std::string("there are fewer than no ") + name, "");
  if (count > 0) require(values, name);
  return {values, static_cast<std::size_t>(count)};
}

// Makes a handle of what `make` gives; leaves `handle` alone where that throws.
template <typename Handle, typename Make>
retile_status create(Handle** handle, const Make& make) noexcept {
  return guarded([&] {
    Handle*& made = require(handle, "that the result is written to");
    made = new Handle{make()};
  });
}

}  // namespace retile::c

// Files of safetensors: tensors by name, one after the other behind a header of JSON.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "retile/types/box.h"
#include "retile/types/element_type.h"

namespace retile::files {

// Names of types in the format and here; nothing where the other one has none.
std::optional<std::string> safetensors_type(ElementType type);
std::optional<ElementType> element_type_of(const std::string& name);

struct Tensor {
  std::string type;  // as the format names it, such as "BF16"
  std::int64_t element_bytes = 1;
  Shape shape;
  std::size_t file = 0;     // of the model's
  std::int64_t offset = 0;  // of its bytes in the file

  std::int64_t bytes() const;
};

// The tensors of one file, or of several with an index.
struct Model {
  std::vector<std::string> files;
  std::map<std::string, Tensor> tensors;
  std::string metadata;  // "__metadata__" of the first file, as JSON; empty where there is none
};

// A .safetensors file, an index of several (.json), or a folder with either. Throws InputError.
Model open_model(const std::string& path);
// The files of ranks that `retile reshard` writes into a folder, in their order. Throws InputError where there are
// none.
std::vector<Model> open_ranks(const std::string& folder);
std::string rank_file(std::int64_t rank);

// The first bytes of a file with these tensors, whose offsets become those in the file, in the order of their names.
std::string safetensors_header(std::map<std::string, Tensor>& tensors, const std::string& metadata);

}  // namespace retile::files

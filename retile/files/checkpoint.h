// Checkpoints of safetensors: the tensors of a model by name, and which boxes of them lie where in its files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/files/reads.h"
#include "retile/memory/tile_layout.h"
#include "retile/types/element_type.h"
#include "retile/types/placement.h"

namespace retile::files {

// A box of a tensor in a file: `layout` says where it lies, in bytes from the file's beginning.
struct StoredBox {
  std::size_t file = 0;
  TileLayout layout;
};

// Boxes are different ones, and together all of the tensor; none where it has no elements. Of equal boxes in several
// files, one is listed.
struct StoredTensor {
  std::string name;
  std::string type;  // as the format names it, such as "BF16"
  std::int64_t element_bytes = 1;
  Shape shape;
  std::vector<StoredBox> boxes;

  // The type as retile names it; nothing where it has no name for it.
  std::optional<ElementType> element_type() const;
};

struct Checkpoint {
  std::vector<std::string> files;
  std::vector<StoredTensor> tensors;  // in the order of their names
  std::string metadata;               // of the first file, as JSON; empty where there is none

  // Null where there is none.
  const StoredTensor* find(const std::string& name) const;
};

// A whole model: a .safetensors file, an index of several (.json), or a folder with either. Reads headers alone. Both
// throw InputError.
Checkpoint open_checkpoint(const std::string& path);
// A folder with a file for each rank, as `retile reshard` writes them: `layouts` are lines of JSON that say how ranks
// hold the tensors (docs/checkpoints.md).
Checkpoint open_checkpoint(const std::string& folder, const std::vector<SourceText>& layouts);
// As above, with the lines of a file.
Checkpoint open_checkpoint(const std::string& folder, const std::string& layouts);

// Reads tensors of a checkpoint, whose files are open as long as it lives. May be used by several threads.
class CheckpointReader {
 public:
  // The checkpoint outlives it. With Reads::once, bytes are read in about their order, and leave the page cache unless
  // their file was there before. Throws RuntimeError where a file cannot be opened.
  explicit CheckpointReader(const Checkpoint& checkpoint, Reads reads = Reads::again);
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;
  CheckpointReader(CheckpointReader&&) = delete;
  CheckpointReader& operator=(CheckpointReader&&) = delete;
  ~CheckpointReader();

  // Fills the parts of a tile with their elements, byte ranges read once. Throws RuntimeError where a part reaches
  // beyond the tensor, or a file has become shorter.
  void read(const StoredTensor& tensor, const std::vector<Part>& parts, std::byte* tile) const;
  // Drops from the page cache what was read once and had not been there before.
  void drop() const;

 private:
  struct OpenFile;
  std::vector<OpenFile> files_;
};

}  // namespace retile::files

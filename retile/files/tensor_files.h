// Tensors in files of safetensors that many processes read and write together, each the boxes that it holds.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "retile/base/new_file.h"
#include "retile/engines/processes.h"
#include "retile/files/checkpoint.h"
#include "retile/files/file.h"
#include "retile/types/element_type.h"
#include "retile/types/placement.h"

namespace retile::files {

// A tensor, and the files that it is read from and written to; empty where there is none.
struct FiledTensor {
  std::string name;
  Shape shape;
  ElementType type = ElementType::f32;
  std::string source;  // a whole model, as open_checkpoint() takes it
  std::string target;  // a file, which gets all tensors that name it
};

// Functions but the constructor and finish() may be called by several threads, and throw RuntimeError.
class TensorFiles {
 public:
  // Collective. Throws InputError where a source lacks a tensor or a target exists, RuntimeError where it cannot be
  // written.
  TensorFiles(std::vector<FiledTensor> tensors, const Processes& processes);

  bool has_source(std::size_t tensor) const { return !tensors_[tensor].source.empty(); }
  bool has_target(std::size_t tensor) const { return !tensors_[tensor].target.empty(); }
  // Parts of the tensor, from its source into a tile and from a tile to its target.
  void read(std::size_t tensor, const std::vector<Part>& parts, std::byte* tile) const;
  void write(std::size_t tensor, const std::vector<Part>& parts, const std::byte* tile) const;
  // Gives targets their names, when all processes have written to them. Collective.
  void finish();

 private:
  struct Source {
    explicit Source(const std::string& path) : checkpoint(open_checkpoint(path)), reader(checkpoint) {}
    Checkpoint checkpoint;
    CheckpointReader reader;
  };
  struct Place {
    const File* file = nullptr;
    std::int64_t offset = 0;
  };

  void open_sources();
  void create_targets();

  std::vector<FiledTensor> tensors_;
  const Processes& processes_;
  std::map<std::string, std::unique_ptr<const Source>> sources_;  // by path
  std::map<std::string, std::unique_ptr<const File>> files_;      // of targets, by path
  std::vector<const StoredTensor*> stored_;                       // in its source, by tensor
  std::vector<Place> targets_;                                    // by tensor
  std::vector<std::unique_ptr<NewFile>> unfinished_;              // of the speaker
};

}  // namespace retile::files

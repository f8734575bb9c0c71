#include "retile/files/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "retile/base/error.h"
#include "retile/base/json_values.h"
#include "retile/copies/copy.h"
#include "retile/files/file.h"
#include "retile/files/runs.h"
#include "retile/files/safetensors.h"
#include "retile/files/tensor_layouts.h"
#include "retile/plan/text.h"

namespace retile::files {
namespace {

StoredTensor whole_tensor(const std::string& name, const Tensor& tensor) {
  StoredTensor stored{name, tensor.type, tensor.element_bytes, tensor.shape, {}};
  if (tensor.bytes() > 0)
    stored.boxes.push_back({tensor.file, {box_at(Shape(tensor.shape.size()), tensor.shape), {}, tensor.offset}});
  return stored;
}

// The tensor of one name in files of ranks. Ghost zones lie in the files, and are not read: they may be out of date.
class RankTensor {
 public:
  RankTensor(const std::string& name, const Tensor& first, const Layout& layout)
      : tiles_(layout.placement()),
        insides_(layout.inside(layout.device_count())),
        stored_{name, first.type, first.element_bytes, layout.global_shape(), {}} {}

  std::int64_t rank_count() const { return tiles_.device_count(); }

  // What a rank has of it; `tensor` is null where its file has none.
  void add(Device rank, const std::string& path, const Tensor* tensor) {
    const std::vector<Part> tile = tiles_.parts(rank);
    if (tile.empty()) return;
    const Shape shape = tile_shape(stored_.name, tile, stored_.shape.size(), tiles_.size(rank));
    if (tensor == nullptr || tensor->shape != shape || tensor->type != stored_.type) {
      throw InputError(
          fmt::format("'{}' lacks '{}' as {} ({})", path, stored_.name, stored_.type, fmt::join(shape, ", ")), {});
    }
    for (const Part& part : insides_.parts(rank)) {
      if (!seen_.emplace(part.box.lo, part.box.hi).second) continue;
      TileLayout layout = layout_of(part, stored_.element_bytes);
      layout.offset += tensor->offset;
      stored_.boxes.push_back({static_cast<std::size_t>(rank), std::move(layout)});
    }
  }

  StoredTensor take() { return std::move(stored_); }

 private:
  const Placement tiles_;
  const Placement insides_;
  StoredTensor stored_;
  std::set<std::pair<Shape, Shape>> seen_;  // boxes
};

Checkpoint open_ranks_checkpoint(const std::string& folder, const TensorLayouts& layouts) {
  const std::vector<Model> ranks = open_ranks(folder);
  Checkpoint checkpoint;
  checkpoint.metadata = ranks.front().metadata;
  std::map<std::string, const Tensor*> firsts;  // by name
  for (const Model& rank : ranks) {
    checkpoint.files.push_back(rank.files.front());
    for (const auto& [name, tensor] : rank.tensors) firsts.emplace(name, &tensor);
  }
  for (const auto& [name, first] : firsts) {
    RankTensor tensor(name, *first, layouts.layout_of(layouts.find_line(name), name, nullptr));
    if (tensor.rank_count() > static_cast<std::int64_t>(ranks.size())) {
      throw InputError(fmt::format("the layout of '{}' has {}, and '{}' has files of {}", name,
                                   count_of(tensor.rank_count(), "rank"), folder, ranks.size()),
                       {});
    }
    for (std::int64_t rank = 0; rank < tensor.rank_count(); ++rank) {
      const auto& [files, tensors, metadata] = ranks[static_cast<std::size_t>(rank)];
      const auto found = tensors.find(name);
      tensor.add(static_cast<Device>(rank), files.front(), found == tensors.end() ? nullptr : &found->second);
    }
    checkpoint.tensors.push_back(tensor.take());
  }
  return checkpoint;
}

}  // namespace

std::optional<ElementType> StoredTensor::element_type() const { return element_type_of(type); }

const StoredTensor* Checkpoint::find(const std::string& name) const {
  const auto is_before = [](const StoredTensor& tensor, const std::string& other) { return tensor.name < other; };
  const auto found = std::lower_bound(tensors.begin(), tensors.end(), name, is_before);
  return found == tensors.end() || found->name != name ? nullptr : &*found;
}

Checkpoint open_checkpoint(const std::string& path) {
  return with_named_errors("read", [&] {
    Model model = open_model(path);
    Checkpoint checkpoint{std::move(model.files), {}, std::move(model.metadata)};
    for (const auto& [name, tensor] : model.tensors) checkpoint.tensors.push_back(whole_tensor(name, tensor));
    return checkpoint;
  });
}

Checkpoint open_checkpoint(const std::string& folder, const std::vector<SourceText>& layouts) {
  return with_named_errors("read", [&] { return open_ranks_checkpoint(folder, TensorLayouts(layouts)); });
}

Checkpoint open_checkpoint(const std::string& folder, const std::string& layouts) {
  return open_checkpoint(folder, split_objects({layouts, read_text(layouts)}, "layouts"));
}

struct CheckpointReader::OpenFile {
  File file;
  Reads reads;
};

CheckpointReader::CheckpointReader(const Checkpoint& checkpoint, Reads reads) {
  for (const std::string& path : checkpoint.files) {
    File file(path, File::Mode::read);
    const bool is_kept = reads == Reads::again || file.is_cached();
    files_.push_back({std::move(file), is_kept ? Reads::again : Reads::once});
  }
}

CheckpointReader::~CheckpointReader() = default;

void CheckpointReader::read(const StoredTensor& tensor, const std::vector<Part>& parts, std::byte* tile) const {
  const Box whole = box_at(Shape(tensor.shape.size()), tensor.shape);
  Buffer window;
  for (const Part& part : parts) {
    if (!contains(whole, part.box))
      throw RuntimeError(fmt::format("'{}' has ghost zones beyond its ends, which no file has", tensor.name));
    const TileLayout to = layout_of(part, tensor.element_bytes);
    for (const StoredBox& stored : tensor.boxes) {
      const auto shared = intersect(stored.layout.box, part.box);
      if (!shared) continue;
      const auto& [file, reads] = files_[stored.file];
      read_runs(file, BoxCopy(stored.layout, to, *shared, tensor.element_bytes), tile, window, reads);
    }
  }
}

void CheckpointReader::drop() const {
  for (const auto& [file, reads] : files_) {
    if (reads == Reads::once) file.drop();
  }
}

}  // namespace retile::files

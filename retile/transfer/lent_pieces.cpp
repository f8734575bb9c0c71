#include "retile/transfer/lent_pieces.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <utility>

#include "retile/base/error.h"
#include "retile/copies/host_read.h"

namespace retile::transfer {
namespace {

std::uint64_t next_version() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

// NOLINTNEXTLINE(*-reinterpret-cast): addresses go to other processes as numbers
std::int64_t number_of(const void* address) { return reinterpret_cast<std::intptr_t>(address); }
// NOLINTNEXTLINE(*-reinterpret-cast, performance-no-int-to-ptr): likewise
const std::byte* address_of(std::int64_t number) { return reinterpret_cast<const std::byte*>(number); }

}  // namespace

std::int64_t PieceForm::part_count() const {
  std::int64_t bytes = element_size;  // of a part, with the gaps that are read along
  std::size_t outer = extent.size();
  for (; outer > 0; --outer) {
    const std::int64_t length = extent[outer - 1];
    const std::int64_t stride = strides[outer - 1];
    if (length > 1 && !is_read_along(stride - bytes, bytes)) break;
    bytes += length > 1 ? (length - 1) * stride : 0;
  }
  std::int64_t parts = 1;
  for (std::size_t i = 0; i < outer; ++i) parts *= extent[i];
  return parts;
}

BoxCopy PieceForm::copy_from(const Strides& from) const {
  const Box box = box_at(Shape(extent.size()), extent);
  return {TileLayout(box, from), TileLayout(box, strides), box, element_size};
}

LentTable::LentTable() : version_(next_version()) {}

void LentTable::add(const std::byte* first, const Strides& strides) {
  words_.push_back(number_of(first));
  words_.insert(words_.end(), strides.begin(), strides.end());
}

void LentTable::describe(ReadOffer& offer) const {
  offer.table = number_of(words_.data());
  offer.words = static_cast<std::int64_t>(words_.size());
  offer.version = version_;
  offer.process = getpid();
}

bool LentPieces::is_own_process() const { return process_ == getpid(); }

void LentPieces::accept(const ReadOffer& offer) {
  if (offer.process != process_) {
    throw RuntimeError(fmt::format("it is process {}, and was process {}", offer.process, process_));
  }
  if (offer.version == version_) return;
  version_ = 0;
  std::size_t due = 0;
  for (const PieceForm* form : forms_) due += 1 + form->strides.size();
  if (offer.words != static_cast<std::int64_t>(due)) throw RuntimeError("its table has another length");
  std::vector<std::int64_t> words(due);
  const auto bytes = static_cast<std::int64_t>(due * sizeof(std::int64_t));
  // NOLINTNEXTLINE(*-reinterpret-cast): its bytes
  auto* const memory = reinterpret_cast<std::byte*>(words.data());
  if (is_own_process()) {
    std::memcpy(memory, address_of(offer.table), static_cast<std::size_t>(bytes));
  } else if (!read_memory(process_, address_of(offer.table), memory, bytes, bytes)) {
    throw RuntimeError("process_vm_readv: its table could not be read");
  }
  pieces_.clear();
  copies_.clear();
  std::map<std::pair<const PieceForm*, Strides>, std::size_t> known;
  for (auto word = words.cbegin(); const PieceForm* form : forms_) {
    const std::byte* first = address_of(*word++);
    Strides strides(word, word + static_cast<std::ptrdiff_t>(form->strides.size()));
    word += static_cast<std::ptrdiff_t>(strides.size());
    const auto [found, is_new] = known.try_emplace({form, strides}, copies_.size());
    if (is_new) copies_.push_back(form->copy_from(strides));
    pieces_.push_back({first, found->second});
  }
  version_ = offer.version;
}

void LentPieces::read(std::size_t piece, ByteRange range, std::byte* target, Stores stores) const {
  const auto& [first, copy] = pieces_[piece];
  if (is_own_process()) return copies_[copy].run(first, target, range, stores);
  read_box(copies_[copy], process_, first, target, range);
}

}  // namespace retile::transfer

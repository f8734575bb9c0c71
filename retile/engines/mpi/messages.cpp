#include "retile/engines/mpi/messages.h"

#include <algorithm>
#include <iterator>

#include "retile/base/error.h"
#include "retile/engines/mpi/host_read.h"

namespace retile::mpi {
namespace {

constexpr int message_tag = 0;

// Whether each side has the box in one run, so that no staging is needed there.
struct Contiguity {
  bool sent = false;
  bool received = false;
};

TilePart part_of(const Placement& placement, Device device, const Parcel& parcel, const LetterContext& context) {
  return {placement.box(device), context.ranks.slot_of(device), parcel.box, context.element_size};
}

std::vector<TilePart> target_parts(const Parcel& parcel, const LetterContext& context) {
  std::vector<TilePart> parts;
  for (const Device device : parcel.to) parts.push_back(part_of(context.stage.after(), device, parcel, context));
  return parts;
}

Letter make_letter(int peer, std::vector<TilePart> parts, const Contiguity& contiguity, bool is_staged,
                   const LetterContext& context) {
  const std::int64_t bytes = parts.front().packing.bytes();
  const bool needs_no_staging = contiguity.sent && contiguity.received;
  const std::int64_t piece =
      needs_no_staging ? most_message_bytes : context.staging_bytes / static_cast<std::int64_t>(2 * window);
  return {peer, std::move(parts), bytes, std::min(bytes, piece), is_staged};
}

std::int64_t longest_staged_piece(const std::vector<Letter>& letters) {
  std::int64_t longest = 0;
  for (const Letter& letter : letters) longest = std::max(longest, letter.is_staged ? letter.piece_bytes : 0);
  return longest;
}

}  // namespace

TilePart::TilePart(const Box& tile, std::size_t tile_slot, const Box& box, std::int64_t element_size)
    : slot(tile_slot), packing(tile, box, element_size), offset(place_in_tile(tile, box, element_size, 0)) {}

ByteRange piece_at(std::int64_t begin, std::int64_t piece_bytes, std::int64_t bytes) {
  return {begin, bytes - begin <= piece_bytes ? bytes : begin + piece_bytes};
}

Letter letter_to_send(const Parcel& parcel, const LetterContext& context) {
  const TilePart source = part_of(context.stage.before(), parcel.from, parcel, context);
  const std::vector<TilePart> targets = target_parts(parcel, context);
  const Contiguity contiguity{source.is_contiguous(), targets.size() == 1 && targets.front().is_contiguous()};
  return make_letter(context.ranks.rank_of(parcel.to.front()), {source}, contiguity, !contiguity.sent, context);
}

Letter letter_to_receive(const Parcel& parcel, const LetterContext& context) {
  const TilePart source = part_of(context.stage.before(), parcel.from, parcel, context);
  std::vector<TilePart> targets = target_parts(parcel, context);
  const Contiguity contiguity{source.is_contiguous(), targets.size() == 1 && targets.front().is_contiguous()};
  return make_letter(context.ranks.rank_of(parcel.from), std::move(targets), contiguity, !contiguity.received, context);
}

std::int64_t Messages::staged_piece_bytes() const {
  return std::max(longest_staged_piece(sent), longest_staged_piece(received));
}

// --- Lanes.

bool MessageRun::Lane::is_done() const {
  return letter == letters->size() &&
         std::all_of(std::begin(places), std::end(places), [](const Place& place) { return place.letter == nullptr; });
}

bool MessageRun::Lane::can_start() const {
  return letter < letters->size() && places[started % window].letter == nullptr;
}

std::size_t MessageRun::Lane::start() {
  const Letter& next = (*letters)[letter];
  const std::size_t place = started++ % window;
  places[place] = {&next, piece_at(begin, next.piece_bytes, next.bytes)};
  begin = places[place].range.end;
  if (begin == next.bytes) {
    ++letter;
    begin = 0;
  }
  return place;
}

// --- Runs.

MessageRun::MessageRun(const Communicator& communicator, const Messages& messages,
                       std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                       std::span<std::byte> staging)
    : communicator_(communicator),
      sources_(sources),
      targets_(targets),
      staging_(staging),
      staged_piece_bytes_(static_cast<std::size_t>(messages.staged_piece_bytes())),
      sending_{.letters = &messages.sent},
      receiving_{.letters = &messages.received} {
  ensure(static_cast<std::int64_t>(staging.size()) >= messages.staging_needed(), "messages have the staging they need");
  std::fill(std::begin(requests_), std::end(requests_), MPI_REQUEST_NULL);
}

// Left early, by an exception: the memory that messages use is about to go.
MessageRun::~MessageRun() {
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

bool MessageRun::is_done() const { return sending_.is_done() && receiving_.is_done(); }

bool MessageRun::advance() {
  bool has_worked = false;
  // Receives first, so that what others send has its place when it comes.
  for (; receiving_.can_start(); has_worked = true) receive(receiving_.start());
  for (; sending_.can_start(); has_worked = true) send(sending_.start());
  int indices[2 * window];
  int count = 0;
  check(MPI_Testsome(2 * window, requests_, &count, indices, MPI_STATUSES_IGNORE), "MPI_Testsome");
  if (count == MPI_UNDEFINED) return has_worked;
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::size_t>(indices[i]);
    if (index >= window) take_in(index - window);
    (index < window ? sending_.places[index] : receiving_.places[index - window]).letter = nullptr;
  }
  return has_worked || count > 0;
}

std::byte* MessageRun::staged(std::size_t place) const { return staging_.data() + place * staged_piece_bytes_; }

void MessageRun::send(std::size_t place) {
  const auto& [letter, range] = sending_.places[place];
  const TilePart& part = letter->parts.front();
  const std::byte* tile = sources_[part.slot];
  const std::byte* piece = tile + part.offset + range.begin;
  if (letter->is_staged) {
    part.packing.pack(tile, range, staged(place));
    piece = staged(place);
  }
  check(MPI_Isend(piece, static_cast<int>(range.size()), MPI_BYTE, letter->peer, message_tag, communicator_.get(),
                  &requests_[place]),
        "MPI_Isend");
}

void MessageRun::receive(std::size_t place) {
  const auto& [letter, range] = receiving_.places[place];
  const TilePart& part = letter->parts.front();
  std::byte* piece = letter->is_staged ? staged(window + place) : targets_[part.slot] + part.offset + range.begin;
  check(MPI_Irecv(piece, static_cast<int>(range.size()), MPI_BYTE, letter->peer, message_tag, communicator_.get(),
                  &requests_[window + place]),
        "MPI_Irecv");
}

void MessageRun::take_in(std::size_t place) {
  const auto& [letter, range] = receiving_.places[place];
  if (!letter->is_staged) return;
  for (const TilePart& part : letter->parts) {
    part.packing.unpack(staged(window + place), range, targets_[part.slot]);
  }
}

}  // namespace retile::mpi

#include "retile/engines/mpi/messages.h"

#include <algorithm>
#include <iterator>

#include "retile/base/error.h"

namespace retile::mpi {
namespace {

// Idle::pause() looks for tag 1, which nobody sends with.
constexpr int piece_tag = 0;
constexpr int offer_tag = 2;
constexpr int taken_tag = 3;  // and the sender's place

// The bytes of a parcel are in the order that they have in their source.
TilePart source_part(const Parcel& parcel, const LetterContext& context) {
  const TileLayout tile = context.stage.tile_before(parcel.from, parcel.box);
  return {context.ranks.slot_of(parcel.from), {tile, parcel.box, context.element_size, order_of(tile)}};
}

std::vector<TilePart> target_parts(const Parcel& parcel, const LetterContext& context) {
  const DimensionOrder order = order_of(context.stage.tile_before(parcel.from, parcel.box));
  std::vector<TilePart> parts;
  for (const Device device : parcel.to) {
    parts.push_back({context.ranks.slot_of(device),
                     {context.stage.tile_after(device, parcel.box), parcel.box, context.element_size, order}});
  }
  return parts;
}

// How a parcel travels, found alike by both its ranks.
struct Travel {
  bool is_contiguous_sent;
  bool is_contiguous_received;
  std::optional<int> member;  // the other rank within this host, where staging is seen
  std::int64_t piece_bytes;
};

Travel travel_of(const TilePart& source, const std::vector<TilePart>& targets, int peer, StagingSight sight,
                 const LetterContext& context) {
  Travel travel{source.packing.is_contiguous(), targets.size() == 1 && targets.front().packing.is_contiguous(), {}, 0};
  if (sight == StagingSight::shared) travel.member = context.host.member(peer);
  const bool is_whole = travel.is_contiguous_sent && travel.is_contiguous_received && !travel.member;
  const std::int64_t staged =
      std::min(context.staging_bytes / static_cast<std::int64_t>(2 * window), most_staged_bytes);
  travel.piece_bytes = std::min(source.packing.bytes(), is_whole ? most_message_bytes : staged);
  return travel;
}

std::int64_t longest_staged_piece(const std::vector<Letter>& letters) {
  std::int64_t longest = 0;
  for (const Letter& letter : letters) longest = std::max(longest, letter.is_staged ? letter.piece_bytes : 0);
  return longest;
}

}  // namespace

ByteRange piece_at(std::int64_t begin, std::int64_t piece_bytes, std::int64_t bytes) {
  return {begin, bytes - begin <= piece_bytes ? bytes : begin + piece_bytes};
}

Letter letter_to_send(const Parcel& parcel, StagingSight sight, const LetterContext& context) {
  const int peer = context.ranks.rank_of(parcel.to.front());
  const TilePart source = source_part(parcel, context);
  const Travel travel = travel_of(source, target_parts(parcel, context), peer, sight, context);
  const bool is_staged = travel.member.has_value() || !travel.is_contiguous_sent;
  return {peer, {source}, source.packing.bytes(), travel.piece_bytes, is_staged, travel.member};
}

Letter letter_to_receive(const Parcel& parcel, StagingSight sight, const LetterContext& context) {
  const int peer = context.ranks.rank_of(parcel.from);
  const TilePart source = source_part(parcel, context);
  std::vector<TilePart> targets = target_parts(parcel, context);
  const Travel travel = travel_of(source, targets, peer, sight, context);
  const bool is_staged = !travel.member.has_value() && !travel.is_contiguous_received;
  return {peer, std::move(targets), source.packing.bytes(), travel.piece_bytes, is_staged, travel.member};
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

MessageRun::MessageRun(const Communicator& communicator, const Host& host, const Messages& messages,
                       std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                       std::span<std::byte> staging)
    : communicator_(communicator),
      host_(host),
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
  int indices[3 * window];
  int count = 0;
  check(MPI_Testsome(3 * window, requests_, &count, indices, MPI_STATUSES_IGNORE), "MPI_Testsome");
  if (count == MPI_UNDEFINED) return has_worked;
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::size_t>(indices[i]);
    if (index < window) sending_.places[index].letter = nullptr;
    if (index < window || index >= 2 * window) continue;
    take_in(index - window);
    receiving_.places[index - window].letter = nullptr;
  }
  return has_worked || count > 0;
}

std::byte* MessageRun::staged(std::size_t place) const { return staging_.data() + place * staged_piece_bytes_; }

void MessageRun::send(std::size_t place) {
  const auto& [letter, range] = sending_.places[place];
  const TilePart& part = letter->parts.front();
  const std::byte* tile = sources_[part.slot];
  if (letter->is_staged) part.packing.pack(tile, range, staged(place));
  if (letter->member) return send_offer(place);
  const std::byte* piece = letter->is_staged ? staged(place) : tile + part.packing.offset() + range.begin;
  check(MPI_Isend(piece, static_cast<int>(range.size()), MPI_BYTE, letter->peer, piece_tag, communicator_.get(),
                  &requests_[place]),
        "MPI_Isend");
}

// The answer is awaited before the offer is made, so that whoever answers need not wait.
void MessageRun::send_offer(std::size_t place) {
  const int peer = sending_.places[place].letter->peer;
  check(MPI_Irecv(nullptr, 0, MPI_BYTE, peer, taken_tag + static_cast<int>(place), communicator_.get(),
                  &requests_[place]),
        "MPI_Irecv");
  offers_[place] = {host_.shared_offset(staged(place)), place};
  check(MPI_Isend(&offers_[place], sizeof(Offer), MPI_BYTE, peer, offer_tag, communicator_.get(),
                  &requests_[2 * window + place]),
        "MPI_Isend");
}

void MessageRun::receive(std::size_t place) {
  const auto& [letter, range] = receiving_.places[place];
  const TilePart& part = letter->parts.front();
  void* room = targets_[part.slot] + part.packing.offset() + range.begin;
  auto bytes = static_cast<int>(range.size());
  if (letter->is_staged) room = staged(window + place);
  if (letter->member) {
    room = &offers_[window + place];
    bytes = sizeof(Offer);
  }
  check(MPI_Irecv(room, bytes, MPI_BYTE, letter->peer, letter->member ? offer_tag : piece_tag, communicator_.get(),
                  &requests_[window + place]),
        "MPI_Irecv");
}

void MessageRun::take_in(std::size_t place) {
  const auto& [letter, range] = receiving_.places[place];
  if (letter->member) {
    const auto& [offset, sender_place] = offers_[window + place];
    unpack(*letter, range, host_.shared_memory(*letter->member, offset));
    check(MPI_Send(nullptr, 0, MPI_BYTE, letter->peer, taken_tag + static_cast<int>(sender_place), communicator_.get()),
          "MPI_Send");
  } else if (letter->is_staged) {
    unpack(*letter, range, staged(window + place));
  }
}

void MessageRun::unpack(const Letter& letter, ByteRange range, const std::byte* piece) const {
  for (const TilePart& part : letter.parts) part.packing.unpack(piece, range, targets_[part.slot]);
}

}  // namespace retile::mpi

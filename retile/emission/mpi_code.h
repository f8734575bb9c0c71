// The parts of emitted MPI code that are the same for all plans. A '@' stands for a text that depends on the plan.
#pragma once

namespace retile::emission {

struct MpiCode {
  // --- Tiles.

  static constexpr const char* boxes = R"(
// Elements from `lo` up to but not including `hi`.
struct Box {
  int lo[dimensions];
  int hi[dimensions];
};

long long size(const Box& box) {
  long long elements = 1;
  for (int i = 0; i < dimensions; ++i) elements *= box.hi[i] - box.lo[i];
  return elements;
}

// The box that two boxes share. False where they share no element.
bool intersect(const Box& a, const Box& b, Box& shared) {
  for (int i = 0; i < dimensions; ++i) {
    shared.lo[i] = std::max(a.lo[i], b.lo[i]);
    shared.hi[i] = std::min(a.hi[i], b.hi[i]);
    if (shared.lo[i] >= shared.hi[i]) return false;
  }
  return true;
}

// A box that a rank holds, and where it lies in the rank's memory: the offset of its first element, and the distance
// between neighbouring elements in each dimension.
struct Tile {
  Box box;
  MPI_Aint offset;
  MPI_Aint strides[dimensions];
};

// The tiles that a rank holds.
using Tiles = std::vector<Tile> (*)(int rank);

// The number of elements of a rank's memory up to the end of its tiles.
MPI_Aint reach(const std::vector<Tile>& tiles) {
  MPI_Aint end = 0;
  for (const Tile& tile : tiles) {
    if (size(tile.box) == 0) continue;
    MPI_Aint last = tile.offset;
    for (int i = 0; i < dimensions; ++i) last += (tile.box.hi[i] - tile.box.lo[i] - 1) * tile.strides[i];
    end = std::max(end, last + 1);
  }
  return end;
}
)";

  // The same where ranks hold boxes with gaps.
  static constexpr const char* boxes_with_gaps = R"(
// Neighbouring elements of a dimension, from `lo` up to but not including `hi`, and where the first of them is in a
// rank's own array.
struct Run {
  int lo;
  int hi;
  int start;
};

// A box with gaps: the elements whose index in each dimension is in one of its runs, which ascend.
struct Box {
  std::vector<Run> runs[dimensions];
};

long long size(const Box& box) {
  long long elements = 1;
  for (const std::vector<Run>& runs : box.runs) {
    long long length = 0;
    for (const Run& run : runs) length += run.hi - run.lo;
    elements *= length;
  }
  return elements;
}

// The elements that two boxes share, where they lie in the first one's array. False where they share none.
bool intersect(const Box& a, const Box& b, Box& shared) {
  for (int i = 0; i < dimensions; ++i) {
    shared.runs[i].clear();
    auto one = a.runs[i].begin(), other = b.runs[i].begin();
    while (one != a.runs[i].end() && other != b.runs[i].end()) {
      const int lo = std::max(one->lo, other->lo), hi = std::min(one->hi, other->hi);
      if (lo < hi) shared.runs[i].push_back({lo, hi, one->start + lo - one->lo});
      (one->hi < other->hi ? one : other)++;
    }
    if (shared.runs[i].empty()) return false;
  }
  return true;
}

// What a rank holds, and how it lies in the rank's own array: the distance between neighbouring elements in each
// dimension.
struct Tile {
  Box box;
  MPI_Aint strides[dimensions];
};

// The tiles that a rank holds: one.
using Tiles = std::vector<Tile> (*)(int rank);

// The length of a rank's own array along a dimension, up to the end of its runs there.
int length_of(const std::vector<Run>& runs) {
  int end = 0;
  for (const Run& run : runs) end = std::max(end, run.start + run.hi - run.lo);
  return end;
}

// The number of elements of a rank's memory up to the end of its tile.
MPI_Aint reach(const std::vector<Tile>& tiles) {
  const Tile& tile = tiles.front();
  if (size(tile.box) == 0) return 0;
  MPI_Aint last = 0;
  for (int i = 0; i < dimensions; ++i) last += (length_of(tile.box.runs[i]) - 1) * tile.strides[i];
  return last + 1;
}

// What a rank holds of a dimension, and the length of its own array there.
struct Held {
  std::vector<Run> runs;
  int length;
};

// The tile in an own array without gaps: row-major, unless its dimensions are listed, the outermost first.
Tile own_array(const std::vector<Held>& held, const std::vector<int>& order = {}) {
  Tile tile;
  MPI_Aint stride = 1;
  for (int i = dimensions; i-- > 0;) {
    const int dimension = order.empty() ? i : order[i];
    tile.box.runs[dimension] = held[dimension].runs;
    tile.strides[dimension] = stride;
    stride *= held[dimension].length;
  }
  return tile;
}
)";

  static constexpr const char* packed_runs = R"(
// A box without gaps.
struct Corners {
  int lo[dimensions];
  int hi[dimensions];
};

// A tile that fills a rank's memory, row-major.
Tile packed(const Corners& box) {
  std::vector<Held> held;
  for (int i = 0; i < dimensions; ++i) held.push_back({{{box.lo[i], box.hi[i], 0}}, box.hi[i] - box.lo[i]});
  return own_array(held);
}
)";

  static constexpr const char* between = R"(
Held between(int lo, int hi) { return {{{lo, hi, 0}}, hi - lo}; }
)";

  static constexpr const char* in_turn = R"(
// What a tile has of a dimension of `size` elements whose blocks go to `count` tiles in turn, the first block to tile
// `first`.
Held in_turn(int size, int block, int count, int first, int tile) {
  Held held{{}, 0};
  for (long long lo = (tile - first + count) % count * 1LL * block; lo < size; lo += 1LL * count * block) {
    const int length = int(std::min<long long>(block, size - lo));
    held.runs.push_back({int(lo), int(lo) + length, held.length});
    held.length += length;
  }
  return held;
}
)";

  static constexpr const char* packed_tile = R"(
// A tile that fills a rank's memory, row-major.
Tile packed(const Box& box) {
  Tile tile{box, 0, {}};
  MPI_Aint stride = 1;
  for (int i = dimensions; i-- > 0; stride *= box.hi[i] - box.lo[i]) tile.strides[i] = stride;
  return tile;
}
)";

  // The '@' is the type of a box without gaps.
  static constexpr const char* grid_tile = R"(
// The tile at this corner, clipped to the array.
Tile tile(const std::vector<int>& corner, const std::vector<int>& extent) {
  @ box;
  for (int i = 0; i < dimensions; ++i) {
    box.lo[i] = std::min(corner[i], shape[i]);
    box.hi[i] = std::min(corner[i] + extent[i], shape[i]);
  }
  return packed(box);
}
)";

  // For plans in which every rank holds one tile at each end.
  static constexpr const char* own_strides = R"(
// A rank's tile, with the caller's strides if there are any.
std::vector<Tile> laid_out(std::vector<Tile> tiles, const MPI_Aint* strides) {
  if (strides != nullptr) std::copy(strides, strides + dimensions, tiles.front().strides);
  return tiles;
}
)";

  // The same where the array is seen in factors. The '@' are the number of its dimensions, and the dimension that each
  // factor is of.
  static constexpr const char* own_strides_of_factors = R"(
constexpr int array_dimensions = @;
constexpr int dimension_of[dimensions] = @;  // of the array, whose factors are in `shape`

// A rank's tile, with the caller's strides if there are any: one for each dimension of the array.
std::vector<Tile> laid_out(std::vector<Tile> tiles, const MPI_Aint* strides) {
  if (strides == nullptr) return tiles;
  Tile& tile = tiles.front();
  MPI_Aint inner = 1;  // the tile's elements in the finer factors of the same dimension
  for (int i = dimensions; i-- > 0; inner *= tile.box.hi[i] - tile.box.lo[i]) {
    if (i + 1 == dimensions || dimension_of[i] != dimension_of[i + 1]) inner = 1;
    tile.strides[i] = strides[dimension_of[i]] * inner;
  }
  return tiles;
}
)";

  // --- Movements.

  static constexpr const char* datatypes = R"(
// The datatype of a box inside the tiles that a rank holds.
MPI_Datatype part_of(const std::vector<Tile>& tiles, const Box& box) {
  Box shared;
  const Tile& tile = *std::find_if(tiles.begin(), tiles.end(),
                                   [&](const Tile& one) { return intersect(one.box, box, shared); });
  MPI_Aint place = tile.offset;
  MPI_Datatype type, row;
  MPI_Type_dup(element_type, &type);
  for (int i = dimensions; i-- > 0;) {
    place += (box.lo[i] - tile.box.lo[i]) * tile.strides[i];
    row = type;
    MPI_Type_create_hvector(box.hi[i] - box.lo[i], 1, tile.strides[i] * MPI_Aint(sizeof(Element)), row, &type);
    MPI_Type_free(&row);
  }
  const int one = 1;
  place *= sizeof(Element);
  row = type;
  MPI_Type_create_hindexed(1, &one, &place, row, &type);
  MPI_Type_free(&row);
  MPI_Type_commit(&type);
  return type;
}
)";

  static constexpr const char* datatypes_of_runs = R"(
// The datatype of the elements of a box inside the tile that a rank holds.
MPI_Datatype part_of(const std::vector<Tile>& tiles, const Box& box) {
  const Tile& tile = tiles.front();
  Box shared;
  intersect(tile.box, box, shared);
  MPI_Datatype type, row;
  MPI_Type_dup(element_type, &type);
  for (int i = dimensions; i-- > 0;) {
    const MPI_Aint stride = tile.strides[i] * MPI_Aint(sizeof(Element));
    std::vector<int> lengths;
    std::vector<MPI_Aint> places;
    for (const Run& run : shared.runs[i]) {
      lengths.push_back(run.hi - run.lo);
      places.push_back(run.start * stride);
    }
    MPI_Type_create_resized(type, 0, stride, &row);
    MPI_Type_free(&type);
    MPI_Type_create_hindexed(int(lengths.size()), lengths.data(), places.data(), row, &type);
    MPI_Type_free(&row);
  }
  MPI_Type_commit(&type);
  return type;
}
)";

  static constexpr const char* groups = R"(
// A step in which the ranks of a group exchange parts of their tiles. Lists are by member.
struct Group {
  MPI_Comm comm;
  std::vector<int> sent, received, places;  // counts of 0 or 1; offsets are in the types
  std::vector<MPI_Datatype> sent_types, received_types;
};

// Every member sends parts of `held`: what slices have left of the tiles in its memory.
Group plan_group(const std::vector<Tile>& source, Tiles held, const std::vector<Tile>& target, Tiles after, int group,
                 int position, MPI_Comm comm) {
  Group step;
  int rank, count;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_split(comm, group, position, &step.comm);
  MPI_Comm_size(step.comm, &count);
  std::vector<int> ranks(count);
  MPI_Allgather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, step.comm);
  step.sent.resize(count), step.received.resize(count), step.places.resize(count);
  step.sent_types.assign(count, element_type), step.received_types.assign(count, element_type);
  for (int i = 0; i < count; ++i) {
    Box box;
    if (intersect(held(rank).front().box, after(ranks[i]).front().box, box)) {
      step.sent[i] = 1;
      step.sent_types[i] = part_of(source, box);
    }
    if (intersect(held(ranks[i]).front().box, after(rank).front().box, box)) {
      step.received[i] = 1;
      step.received_types[i] = part_of(target, box);
    }
  }
  return step;
}

void exchange(const Group& step, const Element* from, Element* to) {
  MPI_Alltoallw(from, step.sent.data(), step.places.data(), step.sent_types.data(), to, step.received.data(),
                step.places.data(), step.received_types.data(), step.comm);
}

void free_step(Group& step) {
  for (std::size_t i = 0; i < step.sent.size(); ++i) {
    if (step.sent[i] != 0) MPI_Type_free(&step.sent_types[i]);
    if (step.received[i] != 0) MPI_Type_free(&step.received_types[i]);
  }
  MPI_Comm_free(&step.comm);
}
)";

  static constexpr const char* messages = R"(
// A box that one rank sends another, or keeps.
struct Transfer {
  int from;
  int to;
  Box box;
};

// A step in which ranks send each other messages.
struct Messages {
  std::vector<int> senders, receivers;
  std::vector<MPI_Datatype> received_types, sent_types;
};

// Two ranks see the transfers between them in the same order, so messages need no tags.
Messages plan_messages(const std::vector<Tile>& source, const std::vector<Tile>& target,
                       const std::vector<Transfer>& transfers, int rank) {
  Messages step;
  for (const Transfer& transfer : transfers) {
    if (transfer.to == rank) {
      step.senders.push_back(transfer.from);
      step.received_types.push_back(part_of(target, transfer.box));
    }
    if (transfer.from == rank) {
      step.receivers.push_back(transfer.to);
      step.sent_types.push_back(part_of(source, transfer.box));
    }
  }
  return step;
}

void exchange(const Messages& step, const Element* from, Element* to, MPI_Comm comm) {
  std::vector<MPI_Request> requests(step.senders.size() + step.receivers.size());
  MPI_Request* request = requests.data();
  for (std::size_t i = 0; i < step.senders.size(); ++i) {
    MPI_Irecv(to, 1, step.received_types[i], step.senders[i], 0, comm, request++);
  }
  for (std::size_t i = 0; i < step.receivers.size(); ++i) {
    MPI_Isend(from, 1, step.sent_types[i], step.receivers[i], 0, comm, request++);
  }
  MPI_Waitall(int(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

void free_step(Messages& step) {
  for (MPI_Datatype& type : step.received_types) MPI_Type_free(&type);
  for (MPI_Datatype& type : step.sent_types) MPI_Type_free(&type);
}
)";

  // The messages of a step.

  static constexpr const char* kept = R"(
// The parts of its new tiles that a rank already holds.
std::vector<Transfer> kept(Tiles held, Tiles after, int rank) {
  std::vector<Transfer> transfers;
  Box box;
  for (const Tile& tile : held(rank)) {
    for (const Tile& wanted : after(rank)) {
      if (intersect(tile.box, wanted.box, box)) transfers.push_back({rank, rank, box});
    }
  }
  return transfers;
}
)";

  static constexpr const char* permuted = R"(
// Every rank sends one rank that rank's new tile, and receives its own.
std::vector<Transfer> permuted(Tiles after, int receiver, int sender, int rank) {
  std::vector<Transfer> transfers;
  const Box sent = after(receiver).front().box, received = after(rank).front().box;
  if (size(received) > 0) transfers.push_back({sender, rank, received});
  if (size(sent) > 0 && receiver != rank) transfers.push_back({rank, receiver, sent});
  return transfers;
}
)";

  static constexpr const char* asked = R"(
// The boxes that a rank keeps, sends and receives. Every element is held by one rank.
std::vector<Transfer> asked(Tiles held, Tiles after, int rank) {
  std::vector<Transfer> transfers;
  const Box old_tile = held(rank).front().box, new_tile = after(rank).front().box;
  Box box;
  for (int other = 0; other < rank_count; ++other) {
    if (intersect(held(other).front().box, new_tile, box)) transfers.push_back({other, rank, box});
    if (other != rank && intersect(old_tile, after(other).front().box, box)) transfers.push_back({rank, other, box});
  }
  return transfers;
}
)";

  static constexpr const char* is_same = R"(
bool is_same(const Box& a, const Box& b) {
  return std::equal(a.lo, a.lo + dimensions, b.lo) && std::equal(a.hi, a.hi + dimensions, b.hi);
}
)";

  static constexpr const char* is_same_of_runs = R"(
bool is_same(const Box& a, const Box& b) {
  const auto is_same_run = [](const Run& one, const Run& other) { return one.lo == other.lo && one.hi == other.hi; };
  return std::equal(a.runs, a.runs + dimensions, b.runs, [&](const auto& one, const auto& other) {
    return std::equal(one.begin(), one.end(), other.begin(), other.end(), is_same_run);
  });
}
)";

  static constexpr const char* holders = R"(
std::vector<Box> boxes_of(Tiles tiles) {
  std::vector<Box> boxes;
  for (int rank = 0; rank < rank_count; ++rank) boxes.push_back(tiles(rank).front().box);
  return boxes;
}

// The ranks that hold a tile, ascending: of each old tile that a rank holds, or that has some of its new one.
std::vector<std::vector<int>> holders_for(int rank, const std::vector<Box>& old_tiles, const Box& new_tile) {
  std::vector<std::vector<int>> every;
  Box box;
  for (int first = 0; first < rank_count; ++first) {
    const Box& tile = old_tiles[first];
    if (!is_same(tile, old_tiles[rank]) && !intersect(tile, new_tile, box)) continue;
    std::vector<int> holders;
    for (int other = 0; other < rank_count; ++other) {
      if (is_same(tile, old_tiles[other])) holders.push_back(other);
    }
    if (holders.front() == first) every.push_back(holders);
  }
  return every;
}
)";

  static constexpr const char* corner = R"(
std::vector<int> corner(const Box& box) { return {box.lo, box.lo + dimensions}; }
)";

  static constexpr const char* corner_of_runs = R"(
std::vector<int> corner(const Box& box) {
  std::vector<int> corner;
  for (const std::vector<Run>& runs : box.runs) corner.push_back(runs.empty() ? 0 : runs.front().lo);
  return corner;
}
)";

  static constexpr const char* asked_in_turn = R"(
// The boxes that a rank keeps, sends and receives if the ranks that lack a tile ask its holders in turn, in the order
// of their new tiles.
std::vector<Transfer> asked_in_turn(Tiles held, Tiles after, int rank) {
  const std::vector<Box> old_tiles = boxes_of(held), new_tiles = boxes_of(after);
  std::vector<int> order;
  for (int other = 0; other < rank_count; ++other) order.push_back(other);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return corner(new_tiles[a]) < corner(new_tiles[b]); });
  std::vector<Transfer> transfers;
  Box box;
  for (const std::vector<int>& holders : holders_for(rank, old_tiles, new_tiles[rank])) {
    const Box& tile = old_tiles[holders.front()];
    std::size_t turn = 0;
    for (const int receiver : order) {
      if (!intersect(tile, new_tiles[receiver], box)) continue;
      const bool has_it = is_same(tile, old_tiles[receiver]);
      const int sender = has_it ? receiver : holders[turn++ % holders.size()];
      if (sender == rank || receiver == rank) transfers.push_back({sender, receiver, box});
    }
  }
  return transfers;
}
)";

  static constexpr const char* cut = R"(
// Leaves about so many elements in the box, cut between slabs of its longest dimension, and the others in `rest`. False
// where it stays whole.
bool cut(Box& box, long long elements, Box& rest) {
  int longest = 0;
  for (int i = 1; i < dimensions; ++i) {
    if (box.hi[i] - box.lo[i] > box.hi[longest] - box.lo[longest]) longest = i;
  }
  const int length = box.hi[longest] - box.lo[longest];
  const long long slabs = std::max(1LL, elements / (size(box) / length));
  if (slabs >= length) return false;
  rest = box;
  box.hi[longest] = rest.lo[longest] = box.lo[longest] + int(slabs);
  return true;
}
)";

  static constexpr const char* cut_of_runs = R"(
// Leaves about so many elements in the box, cut between slabs of its longest dimension, and the others in `rest`. False
// where it stays whole.
bool cut(Box& box, long long elements, Box& rest) {
  int longest = 0, length = 0;
  for (int i = 0; i < dimensions; ++i) {
    int sum = 0;
    for (const Run& run : box.runs[i]) sum += run.hi - run.lo;
    if (sum > length) longest = i, length = sum;
  }
  const long long slabs = std::max(1LL, elements / (size(box) / length));
  if (slabs >= length) return false;
  rest = box;
  box.runs[longest].clear();
  int left = int(slabs);
  for (Run& run : rest.runs[longest]) {
    const int taken = std::min(left, run.hi - run.lo);
    if (taken > 0) box.runs[longest].push_back({run.lo, run.lo + taken, run.start});
    run = {run.lo + taken, run.hi, run.start + taken};
    left -= taken;
  }
  return true;
}
)";

  static constexpr const char* shared = R"(
// The boxes that a rank keeps, sends and receives if the holders of a tile send equal shares of what others lack of it,
// give or take what is not worth another message.
std::vector<Transfer> shared(Tiles held, Tiles after, int rank) {
  const std::vector<Box> old_tiles = boxes_of(held), new_tiles = boxes_of(after);
  std::vector<Transfer> transfers;
  const auto add = [&](int from, int to, const Box& box) {
    if (from == rank || to == rank) transfers.push_back({from, to, box});
  };
  Box box, rest;
  for (const std::vector<int>& holders : holders_for(rank, old_tiles, new_tiles[rank])) {
    const Box& tile = old_tiles[holders.front()];
    long long lacking = 0;
    for (int receiver = 0; receiver < rank_count; ++receiver) {
      if (!intersect(tile, new_tiles[receiver], box)) continue;
      if (is_same(tile, old_tiles[receiver])) add(receiver, receiver, box);
      else lacking += size(box);
    }
    const long long share = (lacking + holders.size() - 1) / holders.size(), slack = share / 50;
    long long left = share;  // of the sender's share
    auto sender = holders.begin();
    for (int receiver = 0; receiver < rank_count; ++receiver) {
      if (is_same(tile, old_tiles[receiver]) || !intersect(tile, new_tiles[receiver], box)) continue;
      for (bool is_cut = true; is_cut; box = rest) {
        if (left <= slack && sender + 1 != holders.end()) ++sender, left = share;
        is_cut = sender + 1 != holders.end() && size(box) > left + slack && cut(box, left, rest);
        add(*sender, receiver, box);
        left -= size(box);
      }
    }
  }
  return transfers;
}
)";

  static constexpr const char* combine = R"(
// Combines, in order, the parts that the old tile has along dimensions in which the new one has one element.
void combine(const Element* from, const std::vector<Tile>& before, Element* to, const std::vector<Tile>& after) {
  if (after.empty() || size(after.front().box) == 0) return;
  const Tile &old_tile = before.front(), &new_tile = after.front();
  const int inner = dimensions - 1;
  const MPI_Aint from_step = old_tile.strides[inner], to_step = new_tile.strides[inner];
  const int length = new_tile.box.hi[inner] - new_tile.box.lo[inner];
  std::vector<MPI_Aint> parts{0};  // their offsets in the old tile
  for (int i = dimensions; i-- > 0;) {
    const int count = (old_tile.box.hi[i] - old_tile.box.lo[i]) / (new_tile.box.hi[i] - new_tile.box.lo[i]);
    std::vector<MPI_Aint> more;
    for (int part = 0; part < count; ++part) {
      for (const MPI_Aint place : parts) more.push_back(place + part * old_tile.strides[i]);
    }
    parts = more;
  }
  for (long long row = 0; row < size(new_tile.box) / length; ++row) {
    const Element* old_row = from + old_tile.offset;
    Element* new_row = to + new_tile.offset;
    long long rest = row;
    for (int i = inner; i-- > 0;) {
      const int extent = new_tile.box.hi[i] - new_tile.box.lo[i];
      old_row += rest % extent * old_tile.strides[i];
      new_row += rest % extent * new_tile.strides[i];
      rest /= extent;
    }
    for (int i = 0; i < length; ++i) new_row[i * to_step] = old_row[i * from_step];
    for (std::size_t part = 1; part < parts.size(); ++part) {
      const Element* next = old_row + parts[part];
      for (int i = 0; i < length; ++i) new_row[i * to_step] = @;
    }
  }
}
)";
};

}  // namespace retile::emission

// f64[11, 8] from [3{x}11, 8] to [11, 2{x}8]
//
//   mesh {x: 4}  // planner wide
//     [3{x}11, 8]                  // 24 elements per device
//       -> alltoall(0 -> 1; 4)  // cost 24
//     local [11, 2], tiles [1, 4]  // 22
//   // cost 24 (paper, lower bound 22), floor 18
//   // peak 24 elements per device, no more than the larger of source and target
//
// mpicxx -std=c++17 -O2 redistribute.cpp -o redistribute && mpirun -np 4 ./redistribute
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <vector>

using Element = double;
const MPI_Datatype element_type = MPI_DOUBLE;
constexpr int rank_count = 4;
constexpr int dimensions = 2;

// Elements from `lo` up to but not including `hi`.
struct Box {
  int lo[dimensions];
  int hi[dimensions];
};

// A box that a rank holds, and where it lies in the rank's memory: its first element, and from one to the next.
struct Part {
  Box box;
  long long offset;
  long long strides[dimensions];
};

// What a rank holds.
using Parts = std::vector<Part> (*)(int rank);

long long volume(const Box& box) {
  long long elements = 1;
  for (int i = 0; i < dimensions; ++i) elements *= box.hi[i] - box.lo[i];
  return elements;
}

long long size(const std::vector<Part>& parts) {
  long long elements = 0;
  for (const Part& part : parts) elements += volume(part.box);
  return elements;
}

// What two boxes share; nothing where that has no volume.
bool intersect(const Box& a, const Box& b, Box& shared) {
  for (int i = 0; i < dimensions; ++i) {
    shared.lo[i] = std::max(a.lo[i], b.lo[i]);
    shared.hi[i] = std::min(a.hi[i], b.hi[i]);
    if (shared.lo[i] >= shared.hi[i]) return false;
  }
  return true;
}

// A box that is all of a rank's memory, row-major.
std::vector<Part> packed(const Box& box) {
  Part part{box, 0, {}};
  long long stride = 1;
  for (int i = dimensions; i-- > 0;) {
    part.strides[i] = stride;
    stride *= box.hi[i] - box.lo[i];
  }
  if (stride == 0) return {};
  return {part};
}

// The tile at this corner, as far as it lies in the array.
std::vector<Part> tile(const std::vector<int>& corner, const std::vector<int>& extent) {
  static const int shape[dimensions] = {11, 8};
  Box box;
  for (int i = 0; i < dimensions; ++i) {
    box.lo[i] = std::min(corner[i], shape[i]);
    box.hi[i] = std::min(corner[i] + extent[i], shape[i]);
  }
  return packed(box);
}

// --- Who holds what, before and after each step.

// [3{x}11, 8], the source
std::vector<Part> tiles_0(int rank) {
  return tile({rank * 3, 0}, {3, 8});
}

// [11, 2{x}8], the target
std::vector<Part> tiles_1(int rank) {
  return tile({0, rank * 2}, {12, 2});
}

// --- How it is moved.

// A box inside what a rank holds, as MPI sends or receives it.
struct Message {
  long long first = 0;  // element
  MPI_Datatype type = MPI_DATATYPE_NULL;
};

Message message(const std::vector<Part>& parts, const Box& box) {
  for (const Part& part : parts) {
    Box shared;
    if (!intersect(part.box, box, shared)) continue;
    Message result{part.offset, element_type};
    MPI_Type_dup(element_type, &result.type);
    for (int i = dimensions; i-- > 0;) {
      result.first += (box.lo[i] - part.box.lo[i]) * part.strides[i];
      const MPI_Aint stride = part.strides[i] * MPI_Aint(sizeof(Element));
      MPI_Datatype row = result.type;
      MPI_Type_create_hvector(box.hi[i] - box.lo[i], 1, stride, row, &result.type);
      MPI_Type_free(&row);
    }
    MPI_Type_commit(&result.type);
    return result;
  }
  return {};
}

// Every rank of a group gets its new tile from what the members hold: `held` of the tiles that lie in memory, which are
// those of `before`.
void exchange_in_group(const Element* from, Parts before, Parts held, Element* to, Parts after, int group, int position,
                       MPI_Comm comm) {
  int rank, count;
  MPI_Comm members;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_split(comm, group, position, &members);
  MPI_Comm_size(members, &count);
  std::vector<int> ranks(count);
  MPI_Allgather(&rank, 1, MPI_INT, ranks.data(), 1, MPI_INT, members);
  std::vector<int> send_counts(count), receive_counts(count), sends(count), receives(count);  // places in bytes
  std::vector<MPI_Datatype> send_types(count, element_type), receive_types(count, element_type);
  // Places count bytes in an int, so they are part of the types.
  const auto add = [&](const std::vector<Part>& memory, int sender, int receiver, int& number, MPI_Datatype& type) {
    const std::vector<Part> has = held(sender), wants = after(receiver);
    Box box;
    if (has.empty() || wants.empty() || !intersect(has[0].box, wants[0].box, box)) return;
    Message piece = message(memory, box);
    const int one = 1;
    const MPI_Aint place = piece.first * MPI_Aint(sizeof(Element));
    MPI_Type_create_hindexed(1, &one, &place, piece.type, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&piece.type);
    number = 1;
  };
  for (int i = 0; i < count; ++i) {
    add(before(rank), rank, ranks[i], send_counts[i], send_types[i]);
    add(after(rank), ranks[i], rank, receive_counts[i], receive_types[i]);
  }
  MPI_Alltoallw(from, send_counts.data(), sends.data(), send_types.data(), to, receive_counts.data(), receives.data(),
                receive_types.data(), members);
  for (int i = 0; i < count; ++i) {
    if (send_counts[i] != 0) MPI_Type_free(&send_types[i]);
    if (receive_counts[i] != 0) MPI_Type_free(&receive_types[i]);
  }
  MPI_Comm_free(&members);
}

// Both are tiles of the calling rank; of 24 elements at most on the way.
void redistribute(const Element* source, Element* target, MPI_Comm comm) {
  int rank;
  MPI_Comm_rank(comm, &rank);
  // alltoall(0 -> 1; 4), cost 24: local [11, 2], tiles [1, 4]
  exchange_in_group(source, tiles_0, tiles_0, target, tiles_1, 0, rank, comm);
}

// --- A check: every element is told by its place in the array.

Element number(long long place) { return Element(place); }

// Calls visit(element, place) for what a rank holds; places are row-major in the array as it starts out.
template <typename Visit>
void for_each_element(const std::vector<Part>& parts, Element* memory, Visit visit) {
  static const int shape[dimensions] = {11, 8};
  for (const Part& part : parts) {
    for (long long i = 0; i < volume(part.box); ++i) {
      long long rest = i, place = 0, at = part.offset, step = 1;
      for (int d = dimensions; d-- > 0; rest /= part.box.hi[d] - part.box.lo[d], step *= shape[d]) {
        const long long index = rest % (part.box.hi[d] - part.box.lo[d]);
        at += index * part.strides[d];
        place += (part.box.lo[d] + index) * step;
      }
      visit(memory[at], place);
    }
  }
}

int main(int argument_count, char** arguments) {
  MPI_Init(&argument_count, &arguments);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != rank_count) {
    if (rank == 0) std::fprintf(stderr, "start %d ranks, not %d\n", rank_count, ranks);
    MPI_Finalize();
    return 2;
  }
  std::vector<Element> source(size(tiles_0(rank))), target(size(tiles_1(rank)));
  for_each_element(tiles_0(rank), source.data(), [](Element& element, long long place) { element = number(place); });
  redistribute(source.data(), target.data(), MPI_COMM_WORLD);
  long long wrong = 0, all = 0;
  for_each_element(tiles_1(rank), target.data(), [&](const Element& element, long long place) {
    const Element expected = number(place);
    if (element != expected) ++wrong;
  });
  MPI_Allreduce(&wrong, &all, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf(all == 0 ? "verified on %d ranks\n" : "wrong on %d ranks\n", ranks);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}

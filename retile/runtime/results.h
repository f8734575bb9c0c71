// Results of a run: checksums, first elements, files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/language/program.h"
#include "retile/runtime/shared_array.h"

namespace retile::runtime {

// Questions about an array that is no sum. All are collective where the engine has several processes.

// A hash of the global array, whatever its layout: the sum modulo 2^64, over its elements, of mix_bits(mix_bits(i) ^
// b), i being the element's row-major number and b its bits as a number.
std::uint64_t checksum(const Mesh& mesh, const language::ArrayType& type, const TileBuffers& tiles, Engine& engine);

// The first elements in row-major order, at most this many.
std::vector<std::string> first_elements(const Mesh& mesh, const language::ArrayType& type, const TileBuffers& tiles,
                                        Engine& engine, std::int64_t most);

// The global array as a .npy file. Throws RuntimeError where it cannot be written.
void write_npy(const std::string& path, const Mesh& mesh, const language::ArrayType& type, const TileBuffers& tiles,
               Engine& engine);

}  // namespace retile::runtime

// What the example programs compute, against the same computed on global arrays without any mesh.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "retile/engines/threads/threads.h"
#include "tests/support/programs.h"

namespace retile::test {
namespace {

using language::LoweredProgram;
using Numbers = std::vector<double>;

LoweredProgram example(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(std::string(RETILE_SOURCE_DIR) + "/examples/" + name).rdbuf();
  return program_of(text.str());
}

Numbers result_of(const LoweredProgram& program) { return global_array(program, run(program, *make_threads_engine())); }

// [rows, inner] times [inner, columns], row-major.
Numbers multiply(const Numbers& a, const Numbers& b, std::size_t rows, std::size_t inner, std::size_t columns) {
  Numbers product(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < inner; ++k) {
      for (std::size_t j = 0; j < columns; ++j) product[i * columns + j] += a[i * inner + k] * b[k * columns + j];
    }
  }
  return product;
}

// The largest difference, as a part of the largest number.
double error_of(const Numbers& is, const Numbers& should) {
  EXPECT_EQ(is.size(), should.size());
  double difference = 0;
  double largest = 0;
  for (std::size_t i = 0; i < should.size(); ++i) {
    difference = std::max(difference, std::abs(is[i] - should[i]));
    largest = std::max(largest, std::abs(should[i]));
  }
  return difference / largest;
}

TEST(Examples, uneven_means_and_turns) {
  const LoweredProgram program = example("uneven.spmd");
  const Numbers a = global_argument(program, 0);
  Numbers means(23);
  Numbers turned(23 * 17);
  for (std::size_t i = 0; i < 17; ++i) {
    for (std::size_t j = 0; j < 23; ++j) {
      means[j] += a[i * 23 + j] / 17;
      turned[j * 17 + i] = a[i * 23 + j];
    }
  }
  const runtime::ProgramRun result = run(program, *make_threads_engine());
  EXPECT_LT(error_of(global_array(program, result, 0), means), 1e-12);
  EXPECT_EQ(global_array(program, result, 1), turned);
}

TEST(Examples, lst_simple_multiplies_matrices) {
  const LoweredProgram program = example("paper/simple.spmd");
  EXPECT_EQ(result_of(program), multiply(global_argument(program, 0), global_argument(program, 1), 256, 1024, 10));
}

TEST(Examples, lst_complex_multi_multiplies_matrices) {
  const LoweredProgram program = example("paper/matmul.spmd");
  EXPECT_EQ(result_of(program), multiply(global_argument(program, 0), global_argument(program, 1), 256, 1024, 1024));
}

TEST(Examples, lst_resharding_multiplies_three_matrices) {
  const LoweredProgram program = example("paper/chain.spmd");
  const Numbers first = multiply(global_argument(program, 0), global_argument(program, 1), 32, 1024, 2048);
  const Numbers both = multiply(first, global_argument(program, 2), 32, 2048, 256);
  EXPECT_LT(error_of(result_of(program), both), 1e-5);
}

TEST(Examples, chain_multiplies_four_matrices) {
  const LoweredProgram program = example("chain.spmd");
  Numbers product = global_argument(program, 0);
  for (const std::size_t factor : {1U, 2U, 3U})
    product = multiply(product, global_argument(program, factor), 64, 64, 64);
  EXPECT_EQ(result_of(program), product);
}

TEST(Examples, megatron_is_two_layers) {
  const LoweredProgram program = example("megatron.spmd");
  Numbers hidden = multiply(global_argument(program, 0), global_argument(program, 1), 32, 64, 256);
  for (double& x : hidden) x = std::max(x, 0.0);
  EXPECT_EQ(result_of(program), multiply(hidden, global_argument(program, 2), 32, 256, 64));
}

// The matrix applied along one dimension of a cube, whose neighbours along it are `stride` apart.
Numbers transform_along(const Numbers& cube, const Numbers& w, std::size_t size, std::size_t stride) {
  Numbers result(cube.size());
  for (std::size_t i = 0; i < cube.size(); ++i) {
    const std::size_t place = i / stride % size;
    for (std::size_t k = 0; k < size; ++k) result[i] += cube[i - place * stride + k * stride] * w[k * size + place];
  }
  return result;
}

TEST(Examples, pencils_transform_along_every_dimension) {
  const LoweredProgram program = example("pencils.spmd");
  Numbers cube = global_argument(program, 0);
  for (const std::size_t stride : {1U, 12U, 144U})
    cube = transform_along(cube, global_argument(program, 1), 12, stride);
  EXPECT_EQ(result_of(program), cube);
}

TEST(Examples, attention_is_attention) {
  constexpr std::size_t heads = 8;
  constexpr std::size_t length = 16;
  constexpr std::size_t width = 8;
  constexpr std::size_t outputs = 32;
  const LoweredProgram program = example("attention.spmd");
  const Numbers q = global_argument(program, 0);
  const Numbers k = global_argument(program, 1);
  const Numbers v = global_argument(program, 2);
  const Numbers w = global_argument(program, 3);
  Numbers expected(4 * length * outputs);
  const auto at = [&](std::size_t batch, std::size_t head, std::size_t i, std::size_t d) {
    return ((batch * heads + head) * length + i) * width + d;
  };
  for (std::size_t batch = 0; batch < 4; ++batch) {
    for (std::size_t head = 0; head < heads; ++head) {
      for (std::size_t i = 0; i < length; ++i) {
        Numbers weights(length);
        for (std::size_t j = 0; j < length; ++j) {
          double score = 0;
          for (std::size_t d = 0; d < width; ++d) score += q[at(batch, head, i, d)] * k[at(batch, head, j, d)];
          weights[j] = std::exp(score / std::sqrt(8.0));
        }
        double total = 0;
        for (const double weight : weights) total += weight;
        for (std::size_t d = 0; d < width; ++d) {
          double mixed = 0;
          for (std::size_t j = 0; j < length; ++j) mixed += weights[j] / total * v[at(batch, head, j, d)];
          for (std::size_t o = 0; o < outputs; ++o) {
            expected[(batch * length + i) * outputs + o] += mixed * w[(head * width + d) * outputs + o];
          }
        }
      }
    }
  }
  EXPECT_LT(error_of(result_of(program), expected), 1e-6);
}

}  // namespace
}  // namespace retile::test

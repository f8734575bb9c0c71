#include "retile/runtime/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "tests/support/diagnostic_of.h"

namespace retile::runtime {
namespace {

using test::diagnostic_of;

// A reader of bytes in memory, called "x.npy".
NpyReader reader_of(const std::string& bytes) {
  return {"x.npy", static_cast<std::int64_t>(bytes.size()), [bytes](std::int64_t offset, std::span<std::byte> out) {
            std::memcpy(out.data(), bytes.data() + offset, out.size());
          }};
}

// A file of version 1 with this header and data.
std::string file_of(const std::string& header, const std::string& data) {
  const char prefix[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<char>(header.size()), 0};
  return std::string(prefix, sizeof prefix) + header + data;
}

// The bytes of elements, most significant first where they are big-endian.
template <typename Number>
std::string bytes_of_numbers(const std::vector<Number>& numbers, std::endian order) {
  std::string bytes;
  for (const Number number : numbers) {
    std::string one(sizeof number, '\0');
    std::memcpy(one.data(), &number, sizeof number);
    if (order != std::endian::native) std::reverse(one.begin(), one.end());
    bytes += one;
  }
  return bytes;
}

template <typename Number>
std::vector<Number> read_numbers(const NpyReader& reader, const Box& box) {
  std::vector<Number> numbers(static_cast<std::size_t>(volume(box)));
  reader.read_box(box, reinterpret_cast<std::byte*>(numbers.data()));
  return numbers;
}

Box whole(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

// --- Reading.

TEST(NpyReader, reads_what_num_py_writes) {
  // numpy.save of numpy.array([[1.5, -2], [3, 0.25], [0, 7]], dtype='<f4').
  const std::string header =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }" + std::string(58, ' ') + "\n";
  const NpyReader reader =
      reader_of(file_of(header, bytes_of_numbers<float>({1.5F, -2, 3, 0.25F, 0, 7}, std::endian::little)));
  EXPECT_EQ(reader.header().element, ElementType::f32);
  EXPECT_EQ(reader.header().shape, (Shape{3, 2}));
  EXPECT_EQ(reader.header().data_offset, 128);
  EXPECT_THAT(read_numbers<float>(reader, whole({3, 2})), ::testing::ElementsAre(1.5F, -2, 3, 0.25F, 0, 7));
  EXPECT_THAT(read_numbers<float>(reader, {{1, 1}, {3, 2}}), ::testing::ElementsAre(0.25F, 7));
}

TEST(NpyReader, reads_all_element_types_in_both_byte_orders) {
  for (const std::endian order : {std::endian::little, std::endian::big}) {
    const std::string sign = order == std::endian::little ? "<" : ">";
    const std::string rest = "', 'fortran_order': False, 'shape': (2,), }\n";
    EXPECT_THAT(read_numbers<float>(
                    reader_of(file_of("{'descr': '" + sign + "f4" + rest, bytes_of_numbers<float>({1, -2.5F}, order))),
                    whole({2})),
                ::testing::ElementsAre(1, -2.5F));
    EXPECT_THAT(read_numbers<double>(
                    reader_of(file_of("{'descr': '" + sign + "f8" + rest, bytes_of_numbers<double>({1e300, 3}, order))),
                    whole({2})),
                ::testing::ElementsAre(1e300, 3));
    EXPECT_THAT(read_numbers<std::int32_t>(reader_of(file_of("{'descr': '" + sign + "i4" + rest,
                                                             bytes_of_numbers<std::int32_t>({-7, 1 << 20}, order))),
                                           whole({2})),
                ::testing::ElementsAre(-7, 1 << 20));
  }
}

TEST(NpyReader, reads_fortran_order) {
  const NpyReader reader =
      reader_of(file_of("{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n",
                        bytes_of_numbers<std::int32_t>({0, 10, 1, 11, 2, 12}, std::endian::little)));
  EXPECT_THAT(read_numbers<std::int32_t>(reader, whole({2, 3})), ::testing::ElementsAre(0, 1, 2, 10, 11, 12));
  EXPECT_THAT(read_numbers<std::int32_t>(reader, {{1, 1}, {2, 3}}), ::testing::ElementsAre(11, 12));
}

TEST(NpyReader, reads_scalars_and_keys_in_any_order_with_either_quote) {
  const std::string data = bytes_of_numbers<double>({4.5}, std::endian::little);
  for (const char* header : {"{'shape': (), 'fortran_order': False, 'descr': '<f8'}",
                             "  {\"descr\":\"<f8\" , 'shape':( ),'fortran_order':True,}  \n"}) {
    const NpyReader reader = reader_of(file_of(header, data));
    EXPECT_EQ(reader.header().shape, Shape{});
    EXPECT_THAT(read_numbers<double>(reader, whole({})), ::testing::ElementsAre(4.5)) << header;
  }
}

TEST(NpyReader, reads_later_versions) {
  const std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }\n";
  for (const char version : {'\2', '\3'}) {
    const char prefix[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', version, 0, static_cast<char>(header.size()), 0, 0, 0};
    const NpyReader reader = reader_of(std::string(prefix, sizeof prefix) + header + std::string("\x2a\0\0\0", 4));
    EXPECT_THAT(read_numbers<std::int32_t>(reader, whole({1})), ::testing::ElementsAre(42));
  }
}

RC_GTEST_PROP(NpyReaderProperties, boxes_are_slices_whatever_the_order, ()) {
  const Shape shape =
      *rc::gen::container<Shape>(*rc::gen::inRange<std::size_t>(0, 5), rc::gen::inRange<std::int64_t>(1, 6));
  const bool fortran = *rc::gen::arbitrary<bool>();
  Box box;
  for (const std::int64_t size : shape) {
    box.lo.push_back(*rc::gen::inRange<std::int64_t>(0, size));
    box.hi.push_back(*rc::gen::inRange<std::int64_t>(box.lo.back() + 1, size + 1));
  }
  // Each element is its row-major number.
  std::vector<std::int32_t> in_file(static_cast<std::size_t>(product(shape)));
  std::vector<std::int32_t> expected;
  for (std::int64_t number = 0; number < product(shape); ++number) {
    std::int64_t rest = number;
    Shape index(shape.size());
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
    std::int64_t place = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const std::size_t d = fortran ? shape.size() - 1 - i : i;
      place = place * shape[d] + index[d];
    }
    in_file[static_cast<std::size_t>(place)] = static_cast<std::int32_t>(number);
    bool inside = true;
    for (std::size_t d = 0; d < shape.size(); ++d) inside = inside && index[d] >= box.lo[d] && index[d] < box.hi[d];
    if (inside) expected.push_back(static_cast<std::int32_t>(number));
  }
  std::string sizes;
  for (const std::int64_t size : shape) sizes += std::to_string(size) + ",";
  const std::string order = fortran ? "True" : "False";
  const NpyReader reader =
      reader_of(file_of("{'descr': '<i4', 'fortran_order': " + order + ", 'shape': (" + sizes + ")}",
                        bytes_of_numbers(in_file, std::endian::little)));
  RC_ASSERT(read_numbers<std::int32_t>(reader, box) == expected);
}

// --- What is no .npy file, or not one that can be read.

std::string fault_of(const std::string& bytes) {
  return diagnostic_of([&] { return reader_of(bytes); });
}
std::string header_fault(const std::string& header) { return fault_of(file_of(header, "")); }

TEST(NpyFaults, other_files) {
  EXPECT_EQ(fault_of(""), "error: x.npy: it is too short to be a .npy file\n");
  EXPECT_EQ(fault_of("\x93NUMPY\1"), "error: x.npy: it is too short to be a .npy file\n");
  EXPECT_EQ(fault_of("PK\3\4 a zip file"), "error: x.npy: it is no .npy file\n");
  EXPECT_EQ(fault_of(std::string("\x93NUMPY\4\0\0\0\0\0", 12)),
            "error: x.npy: it is a .npy file of version 4; 1 to 3 are known\n");
  EXPECT_EQ(fault_of(std::string("\x93NUMPY\2\0\0\0", 10)), "error: x.npy: it is too short to be a .npy file\n");
  EXPECT_EQ(fault_of(std::string("\x93NUMPY\1\0\xff\0", 10)), "error: x.npy: its header claims to have 255 bytes\n");
  EXPECT_EQ(fault_of(std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12)),
            "error: x.npy: its header claims to have 4294967295 bytes\n");
}

TEST(NpyFaults, other_elements) {
  const std::string rest = ", 'fortran_order': False, 'shape': (2,)}";
  EXPECT_EQ(header_fault("{'descr': '<i8'" + rest),
            "error: x.npy: it holds elements of type '<i8'; retile reads f4, f8 and i4\n"
            "hint: convert the array before it is saved, as in array.astype('f4')\n");
  EXPECT_THAT(header_fault("{'descr': '|u1'" + rest), ::testing::HasSubstr("elements of type '|u1'"));
  EXPECT_THAT(header_fault("{'descr': '=f4'" + rest), ::testing::HasSubstr("elements of type '=f4'"));
  EXPECT_THAT(header_fault("{'descr': ''" + rest), ::testing::HasSubstr("elements of type ''"));
  EXPECT_EQ(header_fault("{'descr': [('a', '<f4')]" + rest),
            "error: x.npy: it holds records; retile reads arrays of f4, f8 and i4\n");
}

TEST(NpyFaults, headers) {
  EXPECT_EQ(header_fault(""), "error: x.npy: its header is no .npy header: expected '{' at ''\n");
  EXPECT_EQ(header_fault("{'descr' '<f4'}"), "error: x.npy: its header is no .npy header: expected ':' at ''<f4'}'\n");
  EXPECT_EQ(header_fault("{'descr': '<f4', 'fortran_order': false}"),
            "error: x.npy: its header is no .npy header: expected True or False at 'false}'\n");
  EXPECT_EQ(header_fault("{'shape': (-1,)}"),
            "error: x.npy: its header is no .npy header: expected a size at '-1,)}'\n");
  EXPECT_EQ(header_fault("{'shape': (99999999999999999999,)}"),
            "error: x.npy: its header is no .npy header: expected a size at '999999999999'\n");
  EXPECT_EQ(header_fault("{'shape': (1 2)}"), "error: x.npy: its header is no .npy header: expected ')' at '2)}'\n");
  EXPECT_EQ(header_fault("{'descr"),
            "error: x.npy: its header is no .npy header: expected the end of a string at 'descr'\n");
  EXPECT_EQ(header_fault("{'shape': (1,), 'shape': (1,)}"),
            "error: x.npy: its header has 'shape' twice, or where it has no meaning\n");
  EXPECT_EQ(header_fault("{'size': 1}"), "error: x.npy: its header has 'size' twice, or where it has no meaning\n");
  EXPECT_EQ(header_fault("{'shape': (1,)}"), "error: x.npy: its header lacks 'descr', 'fortran_order' or 'shape'\n");
  EXPECT_EQ(header_fault("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x"),
            "error: x.npy: its header is no .npy header: expected the end of the header at 'x'\n");
}

TEST(NpyFaults, lengths) {
  EXPECT_EQ(fault_of(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "12345678")),
            "error: x.npy: its header promises 12 bytes of data, and there are 8\n");
  EXPECT_EQ(fault_of(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3)}", "1234")),
            "error: x.npy: its header promises 0 bytes of data, and there are 4\n");
  EXPECT_EQ(header_fault("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4)}"),
            "error: x.npy: its header promises more than 2^63 bytes of data, and there are 0\n");
}

TEST(NpyFaults, files) {
  EXPECT_EQ(diagnostic_of([] { return NpyReader("no/such/file.npy"); }),
            "error: cannot read 'no/such/file.npy': No such file or directory\n");
  EXPECT_EQ(diagnostic_of([] { return NpyReader("/"); }), "error: cannot read '/': it is no plain file\n");
  EXPECT_THROW(NpyWriter("no/such/file.npy", ElementType::f32, {1}, NpyWriter::Mode::create), RuntimeError);
  const NpyWriter full("/dev/full", ElementType::f32, {1}, NpyWriter::Mode::open);
  const float number = 1;
  EXPECT_THROW(full.write_box(whole({1}), reinterpret_cast<const std::byte*>(&number)), RuntimeError);
}

// --- Writing.

TEST(NpyWriter, headers_are_those_of_num_py) {
  const std::string header = npy_header_text(ElementType::f64, {3});
  EXPECT_EQ(header.size() % 64, 0U);
  EXPECT_EQ(header.substr(0, 10), std::string("\x93NUMPY\1\0\x76\0", 10));
  EXPECT_EQ(header.substr(10, 60), "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }   ");
  EXPECT_EQ(header.back(), '\n');
}

TEST(NpyWriter, headers_of_every_length_end_aligned) {
  Shape shape;
  for (int rank = 0; rank < 60; ++rank, shape.push_back(1)) {
    const std::string header = npy_header_text(ElementType::i32, shape);
    EXPECT_EQ(header.size() % 64, 0U) << rank;
    EXPECT_EQ(reader_of(header + "1234").header(),
              (NpyHeader{ElementType::i32, false, false, shape, static_cast<std::int64_t>(header.size())}));
  }
}

class NpyFile : public ::testing::Test {
 protected:
  NpyFile() : path_(std::filesystem::temp_directory_path() / ("retile_npy_" + std::to_string(::getpid()) + ".npy")) {}
  ~NpyFile() override { std::filesystem::remove(path_); }

  std::filesystem::path path_;
};

TEST_F(NpyFile, boxes_written_in_any_order_are_read_back) {
  const Shape shape{4, 6};
  std::ofstream(path_) << std::string(1000, 'x');  // what was there before is gone
  {
    const NpyWriter creator(path_, ElementType::f64, shape, NpyWriter::Mode::create);
    const std::vector<double> right{3, 4, 5, 9, 10, 11, 15, 16, 17, 21, 22, 23};
    creator.write_box({{0, 3}, {4, 6}}, reinterpret_cast<const std::byte*>(right.data()));
  }
  {
    const NpyWriter other(path_, ElementType::f64, shape, NpyWriter::Mode::open);
    const std::vector<double> left{0, 1, 2, 6, 7, 8, 12, 13, 14, 18, 19, 20};
    other.write_box({{0, 0}, {4, 3}}, reinterpret_cast<const std::byte*>(left.data()));
  }
  const NpyReader reader(path_.string());
  EXPECT_EQ(reader.header().shape, shape);
  const std::vector<double> all = read_numbers<double>(reader, whole(shape));
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<double>(i));
}

TEST_F(NpyFile, arrays_larger_than_the_window_are_read) {
  const Shape shape{300, 1000};
  std::vector<std::int32_t> numbers(300000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int32_t>(i);
  NpyWriter(path_, ElementType::i32, shape, NpyWriter::Mode::create)
      .write_box(whole(shape), reinterpret_cast<const std::byte*>(numbers.data()));
  const NpyReader reader(path_.string());
  EXPECT_EQ(read_numbers<std::int32_t>(reader, whole(shape)), numbers);
  const std::vector<std::int32_t> column = read_numbers<std::int32_t>(reader, {{0, 999}, {300, 1000}});
  for (std::size_t i = 0; i < column.size(); ++i) EXPECT_EQ(column[i], static_cast<std::int32_t>(i * 1000 + 999));
}

}  // namespace
}  // namespace retile::runtime

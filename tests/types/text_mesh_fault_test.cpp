// What users read when the text of a mesh is at fault, word for word.

#include <gtest/gtest.h>

#include <string>

#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"

namespace retile {
namespace {

std::string mesh_fault(std::string_view text) {
  return test::diagnostic_of([&] { return parse_mesh(text); });
}

TEST(MeshFault, no_name) {
  EXPECT_EQ(mesh_fault("2=a"),
            "mesh:1:1: error: expected an axis name, found '2'\n"
            "    1 | 2=a\n"
            "      | ^\n"
            "hint: names are letters, digits and _, or any text in double quotes\n");
  EXPECT_EQ(mesh_fault("a=2,"),
            "mesh:1:5: error: expected an axis name, found the end\n"
            "    1 | a=2,\n"
            "      |     ^\n"
            "hint: names are letters, digits and _, or any text in double quotes\n");
  EXPECT_EQ(mesh_fault("{größe: 2}"),
            "mesh:1:4: error: expected '=' or ':' between an axis and its size, found 'ö'\n"
            "    1 | {größe: 2}\n"
            "      |    ^\n");
}

TEST(MeshFault, empty_name) {
  EXPECT_EQ(mesh_fault("a=2, \"\"=3"),
            "mesh:1:6: error: an axis has an empty name\n"
            "    1 | a=2, \"\"=3\n"
            "      |      ^~~~\n");
}

TEST(MeshFault, name_that_cannot_be_printed) {
  EXPECT_EQ(mesh_fault("\"a\tb\"=3"),
            "mesh:1:1: error: an axis's name must be printable UTF-8\n"
            "    1 | \"a b\"=3\n"
            "      | ^~~~~~~\n");
}

TEST(MeshFault, quotes_never_closed) {
  EXPECT_EQ(mesh_fault("{\"a: 2}"),
            "mesh:1:2: error: the quotes around an axis name are never closed\n"
            "    1 | {\"a: 2}\n"
            "      |  ^~~~~~\n");
}

TEST(MeshFault, no_size) {
  EXPECT_EQ(mesh_fault("a,b"),
            "mesh:1:2: error: expected '=' or ':' between an axis and its size, found ','\n"
            "    1 | a,b\n"
            "      |  ^\n");
  EXPECT_EQ(mesh_fault("a="),
            "mesh:1:3: error: expected the size of axis a, found the end\n"
            "    1 | a=\n"
            "      |   ^\n");
}

TEST(MeshFault, size_0) {
  EXPECT_EQ(mesh_fault("a=2,\"my axis\"=0"),
            "mesh:1:15: error: the size of axis \"my axis\" is 0\n"
            "    1 | a=2,\"my axis\"=0\n"
            "      |               ^\n"
            "hint: sizes start at 1\n");
}

TEST(MeshFault, negative_size) {
  EXPECT_EQ(mesh_fault("a=-2"),
            "mesh:1:3: error: the size of axis a is negative\n"
            "    1 | a=-2\n"
            "      |   ^~\n");
}

TEST(MeshFault, size_beyond_63_bits) {
  EXPECT_EQ(mesh_fault("a=9223372036854775808"),
            "mesh:1:3: error: the size of axis a does not fit in 63 bits\n"
            "    1 | a=9223372036854775808\n"
            "      |   ^~~~~~~~~~~~~~~~~~~\n"
            "hint: the largest size is 9223372036854775807\n");
}

TEST(MeshFault, too_many_devices) {
  EXPECT_EQ(mesh_fault("a=65536, b=32767, c=2"),
            "mesh:1:19: error: the mesh has too many devices\n"
            "    1 | a=65536, b=32767, c=2\n"
            "      |                   ^~~\n"
            "hint: at most 2147483647 fit\n");
  EXPECT_EQ(mesh_fault("{a: 9223372036854775807}"),
            "mesh:1:2: error: the mesh has too many devices\n"
            "    1 | {a: 9223372036854775807}\n"
            "      |  ^~~~~~~~~~~~~~~~~~~~~~\n"
            "hint: at most 2147483647 fit\n");
}

TEST(MeshFault, axis_named_twice) {
  EXPECT_EQ(mesh_fault("a=2,b=2,\"a\"=3"),
            "mesh:1:9: error: the mesh has two axes named a\n"
            "    1 | a=2,b=2,\"a\"=3\n"
            "      |         ^~~~~\n");
}

TEST(MeshFault, missing_comma) {
  EXPECT_EQ(mesh_fault("a=2 b=2"),
            "mesh:1:5: error: expected the end of the mesh, or ',' and another axis, found 'b'\n"
            "    1 | a=2 b=2\n"
            "      |     ^\n");
  EXPECT_EQ(mesh_fault("{a:2 b:2}"),
            "mesh:1:6: error: expected '}' or ',' after an axis of a mesh, found 'b'\n"
            "    1 | {a:2 b:2}\n"
            "      |      ^\n");
}

TEST(MeshFault, missing_brace) {
  EXPECT_EQ(mesh_fault("{a:2"),
            "mesh:1:5: error: expected '}' or ',' after an axis of a mesh, found the end\n"
            "    1 | {a:2\n"
            "      |     ^\n");
  EXPECT_EQ(mesh_fault("{"),
            "mesh:1:2: error: expected an axis name, found the end\n"
            "    1 | {\n"
            "      |  ^\n"
            "hint: names are letters, digits and _, or any text in double quotes\n");
}

TEST(MeshFault, more_after_the_end) {
  EXPECT_EQ(mesh_fault("{a:2},b:2"),
            "mesh:1:6: error: expected the end of the mesh, found ','\n"
            "    1 | {a:2},b:2\n"
            "      |      ^\n");
  EXPECT_EQ(mesh_fault("a=2}"),
            "mesh:1:4: error: expected the end of the mesh, or ',' and another axis, found '}'\n"
            "    1 | a=2}\n"
            "      |    ^\n");
}

}  // namespace
}  // namespace retile

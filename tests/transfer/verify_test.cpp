#include "retile/transfer/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/layouts.h"

namespace retile::transfer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Device 0 has rows 0 to 3 of 8 x 4, and wants columns 0 and 1.
class TransferVerifier : public ::testing::Test {
 protected:
  const Manifest manifest_ = make_manifest({{"w", test::problem_of({"x=2", "[4{x}8, 4]", "x=2", "[8, 2{x}4]"})}});
  std::vector<StreamPlan::Piece> pieces_{{0, 0, 0, 0, {{0, 0}, {4, 2}}}, {0, 0, 1, 0, {{4, 0}, {8, 2}}}};

  std::vector<std::string> faults() const { return find_faults(manifest_, 0, pieces_); }
};

TEST_F(TransferVerifier, accepts_what_is_right) { EXPECT_THAT(faults(), IsEmpty()); }

TEST_F(TransferVerifier, finds_what_is_missing) {
  pieces_[1].box.hi[0] = 7;
  EXPECT_THAT(faults(), ElementsAre("array \"w\": device 0 lacks [7:8, 0:2]"));
}

TEST_F(TransferVerifier, finds_what_comes_twice) {
  pieces_.push_back({0, 0, 1, 0, {{5, 1}, {6, 2}}});
  EXPECT_THAT(faults(), ElementsAre("array \"w\": device 0 gets [5:6, 1:2] twice"));
}

TEST_F(TransferVerifier, finds_senders_without_the_data) {
  pieces_[1].from = 0;
  EXPECT_THAT(faults(), ElementsAre("array \"w\": device 0 sends [4:8, 0:2], which it does not hold"));
}

TEST_F(TransferVerifier, finds_what_is_sent_for_nothing) {
  pieces_[1].box.hi[1] = 3;
  EXPECT_THAT(faults(), ElementsAre("array \"w\": device 0 is sent [4:8, 0:3], which it does not want"));
}

TEST(TransferVerifierOfReplicas, finds_what_is_sent_to_its_holder) {
  const Manifest manifest = make_manifest({{"w", test::problem_of({"x=2", "[8]", "x=2", "[4{x}8]"})}});
  EXPECT_THAT(find_faults(manifest, 0, {{0, 0, 1, 0, {{0}, {4}}}}),
              ElementsAre("array \"w\": device 0 is sent [0:4], of which it holds some"));
}

}  // namespace
}  // namespace retile::transfer

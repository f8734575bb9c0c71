#include "retile/base/new_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "retile/base/error.h"

namespace retile {
namespace {

namespace fs = std::filesystem;

class NewFiles : public testing::Test {
 protected:
  void SetUp() override { fs::create_directory(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string text(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::ptrdiff_t file_count() const { return std::distance(fs::directory_iterator(folder_), {}); }

  const fs::path folder_ = fs::path(testing::TempDir()) / ("retile_new_file_" + std::to_string(getpid()));
};

TEST_F(NewFiles, have_their_name_when_they_are_finished) {
  write_file(path("a"), "before");
  {
    NewFile file(path("a"));
    std::ofstream(file.unfinished_path()) << "after";
    EXPECT_EQ(text("a"), "before");
    EXPECT_EQ(file_count(), 2);
    file.finish();
    EXPECT_EQ(text("a"), "after");
    EXPECT_EQ(file_count(), 1);
  }
  EXPECT_EQ(text("a"), "after");
}

TEST_F(NewFiles, that_are_not_finished_leave_what_was_there) {
  write_file(path("a"), "before");
  std::ofstream(NewFile(path("a")).unfinished_path()) << "half";
  EXPECT_EQ(text("a"), "before");
  { const NewFile file(path("b")); }
  EXPECT_EQ(file_count(), 1);
}

TEST_F(NewFiles, are_removed_for_a_signal_that_ends_the_process) {
  const NewFile first(path("a"));
  const NewFile second(path("b"));
  EXPECT_EQ(file_count(), 2);
  remove_unfinished_files();
  EXPECT_EQ(file_count(), 0);
}

TEST_F(NewFiles, keep_permissions_and_links) {
  write_file(path("a"), "before");
  fs::permissions(path("a"), fs::perms::owner_read | fs::perms::owner_write | fs::perms::set_uid);
  fs::create_symlink("a", path("link"));
  write_file(path("link"), "after");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(text("a"), "after");
  EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_hard_link(path("a"), path("twin"));
  write_file(path("a"), "short");
  EXPECT_EQ(text("twin"), "short");
  EXPECT_EQ(file_count(), 3);
}

TEST_F(NewFiles, have_the_permissions_of_any_new_file) {
  const mode_t before = umask(027);
  write_file(path("a"), "");
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat(path("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0640U);
}

TEST_F(NewFiles, are_written_in_place_where_they_are_devices_or_links_to_nothing) {
  write_file("/dev/null", "text");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  fs::create_symlink("a", path("link"));
  write_file(path("link"), "text");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(text("a"), "text");
}

TEST_F(NewFiles, say_why_they_cannot_be) {
  try {
    write_file(path("no/a"), "text");
    FAIL();
  } catch (const RuntimeError& error) {
    EXPECT_EQ(error.what(), "cannot write '" + path("no/a") + "': No such file or directory");
  }
  EXPECT_THROW(write_file(path(""), "text"), RuntimeError);
  EXPECT_THROW(write_file("/dev/full", "text"), RuntimeError);
  if (geteuid() == 0) return;  // who may write everywhere
  write_file(path("a"), "before");
  fs::permissions(path("a"), fs::perms::owner_read);
  EXPECT_THROW(write_file(path("a"), "text"), RuntimeError);
}

}  // namespace
}  // namespace retile

// Files that appear under their names when they are complete.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>

namespace retile {

// A file in the making: bytes are written to an unfinished file in the same folder, which finish() gives the name.
// A write that fails or is interrupted leaves under the name what was there before.
//
// An existing file keeps its owner and permissions (but no set-user-ID or set-group-ID bit, as after any write), its
// hard links, and the symbolic links to it. What is no regular file, such as a device, and files in folders that cannot
// be written to are written where they are. All functions throw RuntimeError.
class NewFile {
 public:
  explicit NewFile(std::string path);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  NewFile(NewFile&&) = delete;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();  // removes the unfinished file

  // The path that bytes are written to. Other processes may open it, too.
  const std::string& unfinished_path() const { return unfinished_; }

  void finish();

 private:
  void create_beside();
  void copy_over() const;
  void remove_unfinished();
  [[noreturn]] void fail(int error) const;

  std::string path_;
  std::string target_;                 // without symbolic links
  std::optional<struct stat> before_;  // of the regular file that is there
  std::string unfinished_;             // the target itself where that is written in place
};

// A file of this text, by NewFile.
void write_file(const std::string& path, std::string_view text);

// Removes what NewFile objects of this process have not finished: for handlers of signals that end it. Safe in them.
void remove_unfinished_files();

}  // namespace retile

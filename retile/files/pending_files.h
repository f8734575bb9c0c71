// Complete files that wait for the disk before they get their names.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "retile/files/file.h"

namespace retile::files {

// Files that are complete, and on the disk when they get their names: what has its name survives a power failure. They
// go to the disk while others are written, and the disk is waited for once for many of them. Functions may be called by
// several threads, and throw RuntimeError.
class PendingFiles {
 public:
  // All files are on the file system of this folder.
  explicit PendingFiles(const std::string& folder) : disk_(folder) {}
  PendingFiles(const PendingFiles&) = delete;
  PendingFiles& operator=(const PendingFiles&) = delete;
  PendingFiles(PendingFiles&&) = delete;
  PendingFiles& operator=(PendingFiles&&) = delete;
  ~PendingFiles();  // names what it can

  // `name` is the path that the file gets. Where many wait, waits for the disk and names them.
  void add(const File& file, std::string name);
  // Names all.
  void finish();

 private:
  struct Pending {
    std::string path;
    std::string name;
  };

  void name_all(const std::vector<Pending>& files) const;

  Disk disk_;
  std::mutex mutex_;  // guards what follows
  std::vector<Pending> files_;
  std::int64_t bytes_ = 0;  // of these
};

}  // namespace retile::files

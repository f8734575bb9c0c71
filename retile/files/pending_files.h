// Complete files that wait for the disk before they get their names.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include "retile/files/file.h"

namespace retile::files {

// Files that are complete, and on the disk when they get their names: what has its name survives a power failure. A
// thread of its own waits for the disk, for many files at once, while others are written. Functions may be called by
// several threads, and throw RuntimeError.
class PendingFiles {
 public:
  // All files are on the file system of this folder.
  explicit PendingFiles(const std::string& folder);
  PendingFiles(const PendingFiles&) = delete;
  PendingFiles& operator=(const PendingFiles&) = delete;
  PendingFiles(PendingFiles&&) = delete;
  PendingFiles& operator=(PendingFiles&&) = delete;
  ~PendingFiles();  // names what it can

  // `name` is the path that the file gets. Waits while there is much that the disk lacks. Throws what naming an earlier
  // file threw.
  void add(const File& file, std::string name);
  // Returns when all files have their names.
  void finish();

 private:
  struct Pending {
    std::string path;
    std::string name;
    std::int64_t bytes;
  };

  void run();
  // Starts bringing files to the disk as they come, and takes them when there are enough. None at the end.
  std::vector<Pending> take_batch();
  void name_all(const std::vector<Pending>& files) const;

  Disk disk_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable came_;
  std::condition_variable named_;
  std::vector<Pending> files_;    // that are not taken yet
  std::int64_t lacks_bytes_ = 0;  // of all files without names
  bool is_over_ = false;          // no more files come
  std::exception_ptr failure_;
  pthread_t thread_{};
  bool is_running_ = false;  // the thread, which is not joined yet
};

}  // namespace retile::files

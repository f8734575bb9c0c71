#include "retile/files/target_folder.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "retile/base/diagnostic.h"
#include "retile/base/error.h"
#include "retile/files/file.h"

namespace retile::files {

namespace fs = std::filesystem;

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string parent_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

bool is_inside(const std::string& inner, const std::string& outer) {
  const fs::path inner_path = fs::weakly_canonical(inner);
  const fs::path outer_path = fs::weakly_canonical(outer);
  return std::mismatch(outer_path.begin(), outer_path.end(), inner_path.begin(), inner_path.end()).first ==
         outer_path.end();
}

void require_source_outside(const std::string& source, const std::string& target) {
  if (!is_inside(source, target)) return;
  if (is_inside(target, source)) throw InputError(fmt::format("source and target are the same: '{}'", source), {});
  throw InputError(fmt::format("'{}' is inside '{}', which would be replaced", source, target), {});
}

void do_once(const Processes& processes, const std::function<void()>& action) {
  processes.do_together([&] {
    if (processes.is_speaker()) with_named_errors("write", action);
  });
}

void wait_for_all(const Processes& processes) { processes.least(0); }

std::string unfinished_path(const std::string& target) { return target + ".unfinished"; }

void name_target(const std::string& target) {
  const std::string folder = unfinished_path(target);
  const Disk disk(parent_of(target));
  disk.sync();
  const bool is_there = fs::exists(fs::symlink_status(target));
  const bool is_exchanged =
      is_there && ::renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0;
  if (is_there && !is_exchanged) fs::remove_all(target);
  if (!is_exchanged) fs::rename(folder, target);
  disk.sync_names();
  if (is_exchanged) fs::remove_all(folder);
}

}  // namespace retile::files

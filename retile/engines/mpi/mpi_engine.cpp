#include "retile/engines/mpi/mpi_engine.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/job.h"
#include "retile/engines/mpi/mpi_backend.h"
#include "retile/engines/staged_engine.h"

namespace retile::mpi {
namespace {

// --- Engines that communicators keep.

using KeptEngines = std::vector<std::pair<MpiOptions, std::shared_ptr<Engine>>>;

// The engines that all communicators keep. Threads may have a communicator each.
struct AllKeptEngines {
  std::mutex mutex;
  std::vector<KeptEngines*> list;
};

AllKeptEngines& all_kept_engines() {
  static AllKeptEngines all;
  return all;
}

void add_kept(KeptEngines* engines) {
  const std::lock_guard lock(all_kept_engines().mutex);
  all_kept_engines().list.push_back(engines);
}

extern "C" int retile_free_engines(MPI_Comm, int, void* value, void*) {
  auto* engines = static_cast<KeptEngines*>(value);
  {
    const std::lock_guard lock(all_kept_engines().mutex);
    std::erase(all_kept_engines().list, engines);
  }
  delete engines;
  return MPI_SUCCESS;
}

// MPI_Finalize frees what MPI_COMM_SELF keeps before anything else, while communicators can still be freed.
extern "C" int retile_free_all_engines(MPI_Comm, int, void*, void*) {
  for (KeptEngines* engines : all_kept_engines().list) engines->clear();
  return MPI_SUCCESS;
}

int make_key(MPI_Comm_delete_attr_function* free) {
  int key = MPI_KEYVAL_INVALID;
  check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free, &key, nullptr), "MPI_Comm_create_keyval");
  return key;
}

// Made once. Copies of a communicator have engines of their own.
int engines_key() {
  static const int key = [] {
    check(MPI_Comm_set_attr(MPI_COMM_SELF, make_key(retile_free_all_engines), nullptr), "MPI_Comm_set_attr");
    return make_key(retile_free_engines);
  }();
  return key;
}

// Null where the communicator keeps none.
KeptEngines* find_engines(MPI_Comm comm) {
  void* engines = nullptr;
  int is_there = 0;
  check(MPI_Comm_get_attr(comm, engines_key(), &engines, &is_there), "MPI_Comm_get_attr");
  return is_there == 0 ? nullptr : static_cast<KeptEngines*>(engines);
}

}  // namespace

std::unique_ptr<Engine> make_mpi_engine(MPI_Comm comm, const MpiOptions& options) {
  return make_staged_engine(std::make_shared<MpiBackend>(std::make_shared<Job>(comm, options)));
}

std::shared_ptr<Engine> engine_of(MPI_Comm comm, const MpiOptions& options) {
  require_communicator(comm);
  KeptEngines* engines = find_engines(comm);
  if (engines == nullptr) {
    auto made = std::make_unique<KeptEngines>();
    made->emplace_back(options, make_mpi_engine(comm, options));
    check(MPI_Comm_set_attr(comm, engines_key(), made.get()), "MPI_Comm_set_attr");
    add_kept(made.get());
    return made.release()->front().second;
  }
  // All ranks find one, or all make one.
  require_same_options(engines->front().second->processes(), options);
  const auto found =
      std::find_if(engines->begin(), engines->end(), [&](const auto& kept) { return kept.first == options; });
  if (found != engines->end()) return found->second;
  engines->emplace_back(options, make_mpi_engine(comm, options));
  return engines->back().second;
}

void do_together(MPI_Comm comm, const std::function<void()>& action) {
  require_communicator(comm);
  const KeptEngines* engines = find_engines(comm);
  if (engines != nullptr) return engines->front().second->processes().do_together(action);
  Communicator::duplicate(comm).do_together(action);
}

}  // namespace retile::mpi

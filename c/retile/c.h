/* retile for C, and for every language that can call C. Under MPI: retile/c_mpi.h beside it.
 *
 *   retile_mesh* mesh;      retile_mesh_parse("row=4,column=2", &mesh);
 *   retile_layout* source;  retile_layout_parse(mesh, "[3{row}12, 4{column}8, 10]", &source);
 *   retile_layout* target;  retile_layout_parse(mesh, "[3{row}12, 8, 5{column}10]", &target);
 *   retile_plan* plan;      retile_plan_create(source, target, "f64", NULL, &plan);
 *   retile_engine* engine;  retile_engine_threads(0, &engine);
 *   retile_run* run;        retile_run_create(plan, engine, NULL, NULL, &run);
 *   retile_run_execute(run, sources, targets);     // as often as you like
 *
 * Every function that can fail returns a status, and leaves what it was to make alone if it fails. No exception leaves
 * the library. Handles are made by ..._create, ..._parse and the like and destroyed by ..._free, which takes NULL. A
 * handle may be used by one thread at a time; what a handle was made from may be freed before it. Strings are UTF-8 and
 * end with a zero; they are copied.
 *
 * Symbols and structs of one minor version (RETILE_VERSION_MINOR) stay as they are: programs need not be compiled
 * again.
 */
#ifndef RETILE_C_H
#define RETILE_C_H

#include <stddef.h>
#include <stdint.h>

#include "retile/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What became of a call: the numbers of the command's exit status. */
typedef enum retile_status {
  RETILE_OK = 0,
  RETILE_INPUT_ERROR = 1,    /* what was given is at fault */
  RETILE_RUN_ERROR = 3,      /* a run failed, or a plan is wrong */
  RETILE_INTERNAL_ERROR = 70 /* a bug in retile */
} retile_status;

/* Why the last call of this thread that failed did so: a sentence, or several lines with a caret under the place. Valid
 * until the next one that fails. */
const char* retile_error_message(void);

/* "0.1.0": of the library that runs, where RETILE_VERSION is the one that was compiled against. */
const char* retile_version(void);

typedef struct retile_mesh retile_mesh;         /* devices in a grid of named axes */
typedef struct retile_layout retile_layout;     /* which boxes of an array each device holds */
typedef struct retile_plan retile_plan;         /* steps from one layout to another */
typedef struct retile_engine retile_engine;     /* what moves tiles: threads, or the ranks of a communicator */
typedef struct retile_transfer retile_transfer; /* a list of arrays that are to be moved together */
typedef struct retile_run retile_run;           /* a plan or a transfer, worked out for an engine */

/* ---- Text. A function that gives text writes at most `capacity` bytes with the zero at the end, and says in `length`,
 * unless that is NULL, how many there are without it. `text` may be NULL where `capacity` is 0. */

/* ---- Meshes. */

/* "row=4,column=2" or "{row: 4, column: 2}". */
retile_status retile_mesh_parse(const char* text, retile_mesh** mesh);
/* The first axis varies slowest. `names` may be NULL: then they are "a0", "a1" and so on. */
retile_status retile_mesh_create(int axes, const int64_t* sizes, const char* const* names, retile_mesh** mesh);
int64_t retile_mesh_devices(const retile_mesh* mesh);
void retile_mesh_free(retile_mesh* mesh);

/* ---- Layouts. */

/* "[3{row}12, 4{column}8, 10]" and everything else that docs/layouts.md has. */
retile_status retile_layout_parse(const retile_mesh* mesh, const char* text, retile_layout** layout);
/* Dimension i has shape[i] elements and is cut along axis_counts[i] axes of the mesh, the fastest first; `axes` lists
 * their numbers, from 0, dimension by dimension. Sizes need not divide: tiles are of ceilings. */
retile_status retile_layout_create(const retile_mesh* mesh, int rank, const int64_t* shape, const int* axis_counts,
                                   const int* axes, retile_layout** layout);
/* Any boxes: device i has box_counts[i] of them, and each box is 2 * rank numbers of `bounds`: first and end
 * (exclusive) of its dimensions. A device's boxes lie in its memory one after the other. */
retile_status retile_layout_boxes(int rank, const int64_t* shape, int64_t devices, const int64_t* box_counts,
                                  const int64_t* bounds, retile_layout** layout);
int retile_layout_rank(const retile_layout* layout);
int64_t retile_layout_devices(const retile_layout* layout);
/* The box of a device: first and end (exclusive) of each dimension, `rank` numbers each. An input error if it has
 * several boxes. Of a sum, the box of the part that the device holds. */
retile_status retile_layout_tile(const retile_layout* layout, int64_t device, int64_t* first, int64_t* end);
/* A dense matrix of ScaLAPACK by the nine integers of its descriptor, on a grid of `rows` x `columns` processes. Ranks
 * are numbered along the grid's rows ("R") or columns ("C"), as `order` of Cblacs_gridinit() says. */
retile_status retile_layout_from_descriptor(const int* descriptor, int rows, int columns, const char* order,
                                            retile_layout** layout);
/* The shape of a device's own array, ghost zones included, its dimensions in the order of memory: also where it holds
 * several boxes, as of a block-cyclic matrix. Several listed boxes have one dimension; otherwise there are `rank`, for
 * which `shape` has room. */
retile_status retile_layout_local_shape(const retile_layout* layout, int64_t device, int* dimensions, int64_t* shape);
/* Elements that a device holds. */
retile_status retile_layout_size(const retile_layout* layout, int64_t device, int64_t* elements);
retile_status retile_layout_text(const retile_layout* layout, char* text, size_t capacity, size_t* length);
void retile_layout_free(retile_layout* layout);

/* ---- Plans. */

/* Zero is a good value of every field. */
typedef struct retile_plan_options {
  const char* planner;  /* "auto" (NULL), "wide", "paper", "direct", "lean", "gather-slice", "two-level" */
  const char* cost;     /* "paper" (NULL), "volume" */
  int64_t memory_limit; /* bytes that a device may hold at once; 0: none */
} retile_plan_options;

/* `element` is one of the types that docs/formats.md lists: "f32", "c128" and so on. `options` may be NULL. */
retile_status retile_plan_create(const retile_layout* source, const retile_layout* target, const char* element,
                                 const retile_plan_options* options, retile_plan** plan);
/* A plan as retile_plan_json() or `retile plan --json` writes it. */
retile_status retile_plan_parse(const char* json, const char* element, retile_plan** plan);
/* Replays the plan box by box. A run error with a sentence for each fault if it is wrong. */
retile_status retile_plan_verify(const retile_plan* plan);
int64_t retile_plan_devices(const retile_plan* plan);
int64_t retile_plan_cost(const retile_plan* plan);
/* No plan costs less; the plan is proved optimal where this is its cost. */
int64_t retile_plan_lower_bound(const retile_plan* plan);
/* What the command prints. */
retile_status retile_plan_text(const retile_plan* plan, char* text, size_t capacity, size_t* length);
retile_status retile_plan_json(const retile_plan* plan, char* text, size_t capacity, size_t* length);
void retile_plan_free(retile_plan* plan);

/* ---- Engines. */

/* All devices in this process; `threads` 0: one for each core. */
retile_status retile_engine_threads(int threads, retile_engine** engine);
/* The devices, out of `count`, whose tiles this process has: their number, and as many of them as `devices` has room
 * for, ascending. */
retile_status retile_engine_devices(const retile_engine* engine, int64_t count, int64_t* devices, size_t capacity,
                                    size_t* number);
/* Memory of the kind that the engine moves fastest, to be given back by retile_engine_release(). */
retile_status retile_engine_allocate(retile_engine* engine, size_t bytes, void** memory);
retile_status retile_engine_release(retile_engine* engine, void* memory);
/* What was allocated is gone with it. Collective under MPI. */
void retile_engine_free(retile_engine* engine);

/* ---- Runs. With several processes, making a run and asking for its statistics is collective, and what one process is
 * refused there all are: also a plan or a transfer that is NULL because one process failed to make it. Executions are
 * not: a process waits for those whose data it needs. Where one cannot execute a run, those that wait for it fail as
 * well, and nothing can be run with the engine's communicator after that: a duplicate of it has an engine of its own.
 */

/* How the tiles of this process's devices lie in their buffers; NULL: row-major and packed. In bytes. */
typedef struct retile_memory {
  int64_t count;          /* 1: for all tiles; or as many as devices */
  const int64_t* offsets; /* from the buffer to the tile's first element, `count` numbers; NULL: 0 */
  const int64_t* strides; /* from an element to the next, `count` times rank numbers; NULL: row-major and packed */
} retile_memory;

/* How this process's part of a matrix of ScaLAPACK lies: column by column, LLD_ elements apart. Writes two strides,
 * which `memory` then points to. */
retile_status retile_memory_from_descriptor(const int* descriptor, const char* element, int64_t* strides,
                                            retile_memory* memory);

retile_status retile_run_create(const retile_plan* plan, retile_engine* engine, const retile_memory* sources,
                                const retile_memory* targets, retile_run** run);

/* A transfer is a list of arrays, each with a name of its own. Its runs take one message for each pair of processes and
 * round, and no more than `max_bytes` per device beyond the tiles; 0: 256 MiB. */
retile_status retile_transfer_create(retile_transfer** transfer);
retile_status retile_transfer_add(retile_transfer* transfer, const char* name, const retile_layout* source,
                                  const retile_layout* target, const char* element, const retile_memory* sources,
                                  const retile_memory* targets);
retile_status retile_transfer_run(const retile_transfer* transfer, retile_engine* engine, int64_t max_bytes,
                                  retile_run** run);
void retile_transfer_free(retile_transfer* transfer);

/* How many arrays a run moves, and how many devices this process has. */
size_t retile_run_arrays(const retile_run* run);
size_t retile_run_devices(const retile_run* run);
/* Bytes that the buffer of this process's n-th device must have for an array. */
retile_status retile_run_bytes(const retile_run* run, size_t array, size_t device, int64_t* source, int64_t* target);

/* The buffers of this process's devices, array by array in the order in which they were added. No target overlaps
 * another tile. Nothing but the targets' elements is written. */
retile_status retile_run_execute(retile_run* run, const void* const* sources, void* const* targets);
/* The same in the background: between start and the end no buffer may be touched. One execution of a run at a time. */
retile_status retile_run_start(retile_run* run, const void* const* sources, void* const* targets);
/* Whether it is done: then as retile_run_wait(). */
retile_status retile_run_test(retile_run* run, int* done);
retile_status retile_run_wait(retile_run* run);

/* The last execution, over all processes. */
typedef struct retile_statistics {
  int64_t received_max; /* bytes of the device that received the most, own parts not counted */
  int64_t staging_max;  /* bytes beyond tiles, of the device that had the most */
  double seconds;
} retile_statistics;
retile_status retile_run_statistics(retile_run* run, retile_statistics* statistics);
void retile_run_free(retile_run* run);

#ifdef __cplusplus
}
#endif

#endif

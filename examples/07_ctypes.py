"""7. Python's ctypes, as any language that can call C: argument 1 is the shared library, libretile_c.so."""

import ctypes
import sys

retile = ctypes.CDLL(sys.argv[1])
retile.retile_error_message.restype = ctypes.c_char_p
retile.retile_plan_cost.restype = ctypes.c_int64


def make(function, *arguments):
    """The handle that a function of retile/c.h makes."""
    handle = ctypes.c_void_p()
    require(function(*arguments, ctypes.byref(handle)))
    return handle


def require(status):
    if status != 0:
        raise SystemExit(retile.retile_error_message().decode())


mesh = make(retile.retile_mesh_parse, b"a=2")
rows = make(retile.retile_layout_parse, mesh, b"[2{a}4, 6]")
columns = make(retile.retile_layout_parse, mesh, b"[4, 3{a}6]")
plan = make(retile.retile_plan_create, rows, columns, b"f64", None)
engine = make(retile.retile_engine_threads, 1)
run = make(retile.retile_run_create, plan, engine, None, None)
print("cost", retile.retile_plan_cost(plan))

Tile = ctypes.c_double * 12
Pointers = ctypes.c_void_p * 2
sources = [Tile(*range(12)), Tile(*range(12, 24))]
targets = [Tile(), Tile()]
require(
    retile.retile_run_execute(run, Pointers(*map(ctypes.addressof, sources)), Pointers(*map(ctypes.addressof, targets)))
)
print([int(x) for x in targets[0]])
for free, handle in [
    ("run", run),
    ("engine", engine),
    ("plan", plan),
    ("layout", rows),
    ("layout", columns),
    ("mesh", mesh),
]:
    getattr(retile, f"retile_{free}_free")(handle)

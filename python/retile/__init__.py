"""retile moves sharded arrays between layouts.

>>> import retile
>>> mesh = retile.Mesh({"x": 2, "y": 2})
>>> rows = retile.Layout("[2{y,x}8, 8]", mesh)
>>> columns = retile.Layout("[8, 2{y,x}8]", mesh)
>>> plan = retile.plan(rows, columns)
>>> plan.steps
[alltoall(0 -> 1; 4)]
>>> plan.cost, plan.floor, plan.optimal
(16, 12, True)

Frameworks are imported only if they are used: `retile.jax` and `retile.torch` move their arrays by such plans.
"""

import functools as _functools
import warnings as _warnings
from collections.abc import Sequence as _Sequence
from typing import Any as _Any
from typing import overload as _overload

from retile import _elements, _retile
from retile._errors import InputError, MemoryLimitError
from retile._files import rechunk
from retile._numpy import redistribute
from retile._numpy_transfer import Transfer
from retile._retile import Account, Explanation, Layout, Machine, Mesh, Plan, Step, __version__

__all__ = [
    "Account",
    "Explanation",
    "InputError",
    "Layout",
    "Machine",
    "MemoryLimitError",
    "Mesh",
    "Plan",
    "Step",
    "Transfer",
    "__version__",
    "explain",
    "parse_ends",
    "parse_problem",
    "plan",
    "rechunk",
    "redistribute",
]


_kept_plan = _functools.lru_cache(maxsize=4096, typed=True)(_retile.plan)


def plan(
    source: Layout,
    target: Layout,
    *,
    dtype: _Any = "f32",
    planner: str = "auto",
    cost: str | None = None,
    memory_limit: int | None = None,
    exchange: bool = True,
    relabel: bool = False,
    machine: Machine | None = None,
) -> Plan:
    """The plan from one layout of an array to another.

    `dtype` is one of retile's names (f32, bf16, i8 of eight bits, …), a type of PyTorch, or anything that NumPy accepts
    as a type. `planner` is one of auto, wide, paper, direct, lean, gather-slice and two-level. `cost` is the model by
    which steps are compared: paper, volume, or seconds on a `machine`; the default is seconds with a machine, otherwise
    paper. Raises MemoryLimitError, with the smallest limit that works, if the plan's run would hold more than
    `memory_limit` bytes on a device. Without `exchange`, all steps are collectives. Plans are cached: the same
    arguments return the same plan.

    With `relabel`, the target's tiles may go to its devices in any order: the one in which devices keep the most
    elements, or with a `machine` the one that is predicted to take the least time. `plan(…).target.devices` has that
    order.

    >>> mesh = Mesh({"x": 2, "y": 2})
    >>> by_columns = Layout("[4, 4{x}8]", mesh), Layout("[4, 4{y}8]", mesh)
    >>> plan(*by_columns).cost, plan(*by_columns, relabel=True).cost
    (16, 0)
    >>> plan(*by_columns, relabel=True).target
    Layout('[4, 4{y}8] on [0, 2, 1, 3]', Mesh({'x': 2, 'y': 2}))

    With a `machine`, the plan is timed on it, and `auto` takes the plan that is predicted to be the fastest.

    >>> hosts = Machine({"hosts": [[0, 1], [2, 3]], "link": {"out": 1e9, "in": 1e9}, "inside": {"rate": 8e9}, "step": 1e-5})
    >>> timed = plan(*by_columns, machine=hosts)
    >>> timed.seconds, timed.least_seconds
    (1.0064e-05, 1.0064e-05)

    >>> mesh = Mesh({"x": 4})
    >>> print(plan(Layout("[2{x}8]", mesh), Layout("[8]", mesh)), end="")
    mesh {x: 4}  // planner wide
      [2{x}8]  // 2 elements per device
        -> allgather(0; 4)  // cost 8
      [8]      // 8
    // cost 8 (paper, optimal over all plans), floor 6
    // peak 8 elements per device, no more than the larger of source and target
    """
    arguments = source, target, _elements.element_type(dtype), planner, cost, memory_limit, exchange
    try:
        return _kept_plan(*arguments, relabel=relabel, machine=machine)
    except TypeError:
        pass  # an argument without a hash is of a wrong type, which is reported below
    return _retile.plan(*arguments, relabel=relabel, machine=machine)


@_overload
def explain(
    source: Layout,
    target: Layout,
    *,
    dtype: _Any = "f32",
    planner: str = "auto",
    cost: str | None = None,
    memory_limit: int | None = None,
    exchange: bool = True,
    machine: Machine | None = None,
) -> Explanation: ...


@_overload
def explain(
    source: str,
    target: None = None,
    *,
    mesh: Mesh | str | None = None,
    shape: str | None = None,
    global_shape: bool = False,
    planner: str = "auto",
    cost: str | None = None,
    memory_limit: int | None = None,
    exchange: bool = True,
    machine: Machine | None = None,
) -> list[Explanation]: ...


def explain(
    source,
    target=None,
    *,
    dtype="f32",
    mesh=None,
    shape=None,
    global_shape=False,
    planner="auto",
    cost=None,
    memory_limit=None,
    exchange=True,
    machine=None,
):
    """Explains what XLA does with a redistribution, what retile would do instead, and why, like `retile explain`.

    Explains one redistribution between two layouts, or each "Involuntary full rematerialization" in the text of a
    compiler's log: equal ones once, the largest arrays first. XLA prints the shape that one device holds;
    `global_shape` says that shapes are those of the whole array. `shape` ("f32[16,1024]") is the array of warnings that
    name none, `mesh` the mesh of shardings that refer to one. Warnings that cannot be read cause a Python warning. The
    other arguments are those of `plan`.

    >>> mesh = Mesh({"x": 4})
    >>> print(explain(Layout("[2{x}8, 8]", mesh), Layout("[8, 2{x}8]", mesh)))
    f32[8, 8]
      [2{x}8, 8] on mesh {x: 4}, devices 0 to 3 with x fastest
      [8, 2{x}8] on mesh {x: 4}, devices 0 to 3 with x fastest
                    bytes moved   bytes in a tile  steps
      XLA                    48                64  alltoall(0 -> 1; 4)
      retile                 48                64  alltoall(0 -> 1; 4)
      floor                  48
      XLA's rules take 1 step.
      retile sends every device what it lacks, and never holds a tile larger than the larger of source and target.
      Beside XLA, it moves as much and holds as much. No plan of such steps costs less.
    """
    options = planner, cost, memory_limit, exchange, machine
    if target is not None or not isinstance(source, str):
        return _retile.explain(source, target, _elements.element_type(dtype), *options)
    explained, faults = _retile.explain_log(source, mesh, shape, global_shape, *options)
    if not explained and not faults:
        raise InputError("there is no 'Involuntary full rematerialization' in this log")
    for fault in faults:
        _warnings.warn(fault, stacklevel=2)
    return explained


def parse_problem(line: str) -> tuple[Layout, Layout, str]:
    """The source, target and element type of a problem in JSON.

    >>> parse_problem('{"mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]]}')
    (Layout('[4{x}8]', Mesh({'x': 2})), Layout('[8]', Mesh({'x': 2})), 'f32')
    """
    return _retile.parse_problem(line)


def parse_ends(
    source: str, target: str, shape: _Sequence[int], mesh: Mesh | str | None = None
) -> tuple[Layout, Layout]:
    """Both ends of a redistribution as XLA, JAX, Shardy, DTensor or MLIR print them, on one mesh if possible.

    >>> parse_ends("{devices=[2,1]<=[2]}", "{devices=[1,2]<=[2]}", (8, 8))
    (Layout('[4{a}8, 8]', Mesh({'a': 2})), Layout('[8, 4{a}8]', Mesh({'a': 2})))
    """
    return _retile.parse_ends(source, target, shape, mesh)

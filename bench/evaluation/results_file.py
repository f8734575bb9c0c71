"""Reads results files: JSON lines, each a run or the result of one contender on one problem. They may be compressed."""

import json
import lzma
import math
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path

PAPER_IDS = "tbl:adversarial, "  # examples/paper.jsonl calls P1 so, retile bench --adversarial by its name alone

ELEMENT_BYTES = {
    "bool": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "f8e4m3fn": 1, "f8e5m2": 1,
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "c64": 8, "c128": 16,
}  # fmt: skip

# What tells runs apart only by when they were made: results of runs that agree in the rest belong together.
OCCASION = ("date", "version", "commit")


def axis_size(mesh, axis):
    """Of an axis, or of a part of one as types print it, x:(2)3; nothing where the mesh has no such axis."""
    if axis in mesh:
        return mesh[axis]
    part = re.fullmatch(r' *"?(.+?)"?:\((\d+)\)(\d+)', axis)
    whole = mesh.get(re.sub(r"\\(.)", r"\1", part[1])) if part else None
    return int(part[3]) if whole and int(part[3]) and whole % (int(part[2]) * int(part[3])) == 0 else None


class FileError(Exception):
    """Something is wrong with a file that the user named; the message begins with its place."""


@dataclass(frozen=True)
class Result:
    """What one contender did on one problem: either it has seconds, or a reason why there are none."""

    id: str
    mesh: dict
    shape: list
    src: list
    dst: list
    src_view: list  # the factors of each dimension
    dst_view: list
    dtype: str
    engine: str
    contender: str
    seconds: list
    skipped: str | None
    steps: list
    cost: dict | None
    memory: dict | None
    planning_ns: int | None
    received_bytes_max: int | None
    peak_bytes: dict | None

    @property
    def time(self):
        return statistics.median(self.seconds)

    @property
    def element_bytes(self):
        return ELEMENT_BYTES[self.dtype]

    @property
    def total_bytes(self):
        return math.prod(self.shape) * self.element_bytes

    def type_text(self, layout, view):
        """The distributed type, as retile prints it: [tile{axes, minor to major}size*..., ...]."""
        cuts = iter(layout)
        return f"[{', '.join('*'.join(self._factor_text(size, next(cuts)) for size in sizes) for sizes in view)}]"

    def _factor_text(self, size, axes):
        tile = size // math.prod(axis_size(self.mesh, axis) for axis in axes)
        return f"{tile}{{{','.join(axes)}}}{size}" if axes else str(size)


@dataclass
class Series:
    """Results whose times may be compared: those of one file, made under the same circumstances."""

    file: str
    engine: str
    runs: list = field(default_factory=list)
    results: dict = field(default_factory=dict)  # problem id -> contender -> Result
    models: dict = field(default_factory=dict)  # name of a whole model -> contender -> seconds
    replaced: int = 0  # results that a later one of the same problem and contender took the place of

    def add(self, result):
        contenders = self.results.setdefault(result.id, {})
        self.replaced += result.contender in contenders
        contenders[result.contender] = result

    @property
    def contenders(self):
        return {contender for results in self.results.values() for contender in results}


@dataclass
class Reading:
    series: list
    warnings: list


def parse_lines(path):
    """The values of a file of JSON lines with their line numbers, and whether its last line was cut off."""
    try:
        with (lzma.open if Path(path).suffix == ".xz" else open)(path, "rb") as file:
            text = file.read().decode("utf-8", errors="replace")
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error
    except (lzma.LZMAError, EOFError) as error:
        raise FileError(f"{path}: {error}") from error
    values = []
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines) and not text.endswith("\n"):
                return values, True
            raise FileError(f"{path}:{number}: this is no JSON: {error}") from error
        if not isinstance(value, dict):
            raise FileError(f"{path}:{number}: expected an object")
        values.append((number, value))
    return values, False


def _check(condition, message):
    if not condition:
        raise ValueError(message)


def _is_amount(value):
    return isinstance(value, (int, float)) and math.isfinite(value) and value >= 0


def _is_list_of(kind, value):
    return isinstance(value, list) and all(isinstance(part, kind) for part in value)


def _optional_numbers(value, key, names):
    part = value.get(key)
    if part is None:
        return None
    fits = isinstance(part, dict) and all(_is_amount(part.get(name)) for name in names)
    _check(fits, f'"{key}" must be null or have the numbers {", ".join(names)}')
    return part


def _optional_count(value, key):
    count = value.get(key)
    _check(count is None or (isinstance(count, int) and count >= 0), f'"{key}" must be null or a count')
    return count


def _view(value, end):
    return value.get(f"{end}_view") or [[size] for size in value["shape"]]


def check_problem(value):
    """Raises ValueError unless the value holds a problem that can be laid out."""
    _check(isinstance(value.get("id"), str), 'no "id"')
    mesh, shape = value.get("mesh"), value.get("shape")
    _check(isinstance(mesh, dict) and all(isinstance(size, int) and size > 0 for size in mesh.values()), 'no "mesh"')
    _check(isinstance(shape, list) and all(isinstance(size, int) and size > 0 for size in shape), 'no "shape"')
    for end in ("src", "dst"):
        layout, view = value.get(end), _view(value, end)
        factors = _is_list_of(list, view) and all(_is_list_of(int, sizes) for sizes in view)
        _check(factors and list(map(math.prod, view)) == shape, f'"{end}_view" does not make up the shape')
        sizes = [size for sizes in view for size in sizes]
        fits = _is_list_of(list, layout) and len(layout) == len(sizes)
        _check(fits, f'"{end}" needs a list of axes for each dimension')
        axes = [axis for dimension in layout for axis in dimension]
        _check(
            all(isinstance(axis, str) and axis_size(mesh, axis) for axis in axes),
            f'"{end}" names an axis that the mesh does not have',
        )
        _check(len(set(axes)) == len(axes), f'"{end}" uses an axis twice')
        for size, dimension in zip(sizes, layout, strict=True):
            tiles = math.prod(axis_size(mesh, axis) for axis in dimension)
            _check(size % tiles == 0, f'"{end}" cuts a dimension of {size} into {tiles}')
    dtype = value.get("dtype", "f32")
    _check(dtype in ELEMENT_BYTES, f'unknown "dtype" {dtype!r}')


def _check_times(value):
    """Of a contender, on a problem or on a whole model."""
    for key in ("engine", "contender"):
        _check(isinstance(value.get(key), str), f'no "{key}"')
    seconds, skipped = value.get("seconds", []), value.get("skipped")
    _check(isinstance(seconds, list) and all(_is_amount(s) for s in seconds), '"seconds" must be a list of times')
    _check(bool(seconds) != isinstance(skipped, str), 'expected either "seconds" or the reason "skipped"')


def _result_of(value):
    check_problem(value)
    seconds, skipped = value.get("seconds", []), value.get("skipped")
    if skipped is None and value.get("verified") is not True:
        seconds, skipped = [], "the result was not verified"
    steps = value.get("steps", [])
    _check(_is_list_of(str, steps), '"steps" must be a list of texts')
    return Result(
        **{key: value[key] for key in ("mesh", "shape", "src", "dst", "engine", "contender")},
        src_view=_view(value, "src"),
        dst_view=_view(value, "dst"),
        id=value["id"].removeprefix(PAPER_IDS),
        dtype=value.get("dtype", "f32"),
        seconds=seconds,
        skipped=skipped,
        steps=steps,
        cost=_optional_numbers(value, "cost", ["paper", "volume", "floor"]),
        memory=_optional_numbers(value, "memory", ["source", "target", "peak"]),
        planning_ns=_optional_count(value, "planning_ns"),
        received_bytes_max=_optional_count(value, "received_bytes_max"),
        peak_bytes=_optional_numbers(value, "peak_bytes", ["predicted", "measured"]),
    )


def _read_file(path, reading):
    values, cut_off = parse_lines(path)
    name = Path(path).name
    if cut_off:
        reading.warnings.append(f"the last line of {name} was cut off, and is left out")
    by_circumstances = {}
    run = None
    for number, value in values:
        if "run" in value:
            run = value["run"]
            if not isinstance(run, dict):
                raise FileError(f'{path}:{number}: "run" must be an object')
            continue
        if run is None:
            raise FileError(f"{path}:{number}: a result before the first run")
        try:
            _check_times(value)
            result = None if "model" in value else _result_of(value)
        except ValueError as error:
            raise FileError(f"{path}:{number}: {error}") from error
        lasting = {key: part for key, part in run.items() if key not in OCCASION}
        key = (value["engine"], json.dumps(lasting, sort_keys=True))
        series = by_circumstances.setdefault(key, Series(name, value["engine"]))
        if run not in series.runs:
            series.runs.append(run)
        if result:
            series.add(result)
        else:
            series.models.setdefault(value["model"], {})[value["contender"]] = value["seconds"]
    if not by_circumstances:
        reading.warnings.append(f"{name} holds no results")
    reading.series += by_circumstances.values()


def read_results(paths):
    """All results of some files, and what the reader of a report should know about them."""
    reading = Reading([], [])
    for path in paths:
        _read_file(path, reading)
    for series in reading.series:
        if series.replaced:
            reading.warnings.append(
                f"{series.replaced} results of {series.file} stand again further down; the last ones count"
            )
    return reading

"""Machines that say how long compiled programs take: how they are measured, and what is chosen on them."""

import json
import math
import warnings

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import retile.jax
from retile import _jax_calibration
from retile._programs import FORMS, Movement, Wishes, choice_for, program_for
from retile.jax import explain, plan_of, reshard

ARRAY = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
KINDS = "permute", "gather", "all_to_all"


def machine_with(latencies=(1e-4, 1e-4, 1e-4), rates=(1e9, 1e9, 1e9), copy=1e9, start=1e-3):
    times = {
        kind: {"latency": [[8, latency]], "rate": [[1, rate]]}
        for kind, latency, rate in zip(KINDS, latencies, rates, strict=True)
    }
    figures = {"name": "made up", "hosts": [[*range(8)]], "inside": {"rate": 1e9}, "copy": [[1, copy]]}
    return retile.Machine(figures | {"programs": {"start": start} | times})


@pytest.fixture
def mesh():
    return Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))


def put(mesh, spec):
    return jax.device_put(ARRAY, NamedSharding(mesh, spec))


# --- The choice.


def test_programs_are_chosen_by_what_their_collectives_take(mesh):
    x, target = put(mesh, P(None, "y")), NamedSharding(mesh, P("y"))  # an alltoall
    dear_permutes = machine_with(latencies=(1, 1e-4, 1e-4))
    assert "ppermute" not in explain(x, target, machine=dear_permutes)
    assert "all_to_all" in explain(x, target, machine=dear_permutes)
    only_permutes = machine_with(latencies=(1e-4, 1, 1))
    assert "3 ppermute" in explain(x, target, machine=only_permutes)
    for machine in (dear_permutes, only_permutes):
        moved = reshard(x, target, machine=machine)
        np.testing.assert_array_equal(moved, ARRAY)
        assert moved.sharding.is_equivalent_to(target, 2)


def test_the_time_of_the_program_is_that_of_its_plan(mesh):
    x, target = put(mesh, P("x")), NamedSharding(mesh, P())
    machine = machine_with()
    plan = plan_of(x, target, machine=machine)
    bytes_in_all = ARRAY.nbytes / 1e9
    assert plan.seconds == pytest.approx(1e-3 + 1e-4 + bytes_in_all)
    assert plan.least_seconds == pytest.approx(1e-3 + 1e-4 + bytes_in_all / 2)
    assert "takes 1.12 ms on made up, 1 ms of it what a step takes by itself" in explain(x, target, machine=machine)


def test_every_program_is_compared(mesh):
    movement = Movement(NamedSharding(mesh, P("x", "y")), NamedSharding(mesh, P("y", "x")), (64, 64), ARRAY.dtype)
    machine = machine_with()
    found = retile._retile.fastest_programs(*movement.layouts(), "f32", machine, [*FORMS])
    seconds = [plan.seconds for _, plan in found]
    assert seconds == sorted(seconds) and len(found) > 4
    assert {form for form, _ in found} == {"collectives", "fast", "lean"}  # XLA's own is equal to one of these
    ((form, plan),) = retile._retile.fastest_programs(*movement.layouts(), "f32", machine, ["xla"])
    assert (form, plan.planner) == ("xla", "xla") and plan.seconds in seconds
    chosen = program_for(movement, Wishes(machine=machine))
    assert (chosen.form, chosen.plan) == found[0]
    for form in FORMS:
        assert program_for(movement, Wishes(machine=machine, form=form)).form == form
    inside = program_for(movement, Wishes(machine=machine, is_alone=False))
    assert inside.form in ("collectives", "xla")


def test_the_fastest_program_that_fits_is_taken(mesh):
    source, target = (NamedSharding(mesh, spec) for spec in (P(("x", "y")), P(None, ("x", "y"))))
    movement = Movement(source, target, (1024, 1024), ARRAY.dtype)
    machine = machine_with(latencies=(1, 1e-4, 1e-4))
    free = program_for(movement, Wishes(machine=machine))
    leanest = min(program.bytes for program in list_of(movement, machine))
    assert leanest < free.bytes
    limited = choice_for((movement,), Wishes(memory_limit=leanest, machine=machine)).programs[0]
    assert limited.bytes <= leanest and limited.plan.seconds > free.plan.seconds


def list_of(movement, machine, **wishes):
    return list(retile._programs._programs(movement, Wishes(machine=machine, **wishes)))


def test_what_fits_is_found_inside_jit_too(mesh):
    """Forms that save memory alone come after those that are fast there."""
    source, target = (NamedSharding(mesh, spec) for spec in (P(("x", "y")), P(None, ("x", "y"))))
    movement = Movement(source, target, (1024, 1024), ARRAY.dtype)
    machine = machine_with(latencies=(1, 1e-4, 1e-4))
    leanest = min(program.bytes for program in list_of(movement, machine))
    assert leanest < min(program.bytes for program in list_of(movement, machine, is_alone=False))
    limited = list_of(movement, machine, is_alone=False, memory_limit=leanest)
    of_others = [program.form in ("fast", "lean") for program in limited]
    assert of_others == sorted(of_others) and not of_others[0]
    array = jax.device_put(np.arange(1024 * 1024, dtype=np.float32).reshape(1024, 1024), source)
    moved = jax.jit(lambda x: reshard(x, target, source=source, memory_limit=leanest, machine=machine))(array)
    np.testing.assert_array_equal(moved, array)


def test_programs_that_take_equally_long_are_all_there(mesh):
    """Which there are does not depend on the machine: here on one that copies in no time."""
    movement = Movement(NamedSharding(mesh, P("x", "y")), NamedSharding(mesh, P("y", "x")), (64, 64), ARRAY.dtype)
    statements = [
        sorted(repr(program.tensors.statements) for program in list_of(movement, machine_with(copy=copy)))
        for copy in (1e9, 1e15)
    ]
    assert statements[0] == statements[1]
    assert len(set(statements[0])) == len(statements[0])


def test_a_form_that_is_named_is_taken_though_it_cannot_be_timed(mesh):
    movement = Movement(NamedSharding(mesh, P("x")), NamedSharding(mesh, P("y")), (64, 64), ARRAY.dtype)
    slow = machine_with(rates=(1e-9, 1e-9, 1e-9))
    assert retile._retile.fastest_programs(*movement.layouts(), "f32", slow, [*FORMS]) == []
    for form in FORMS:
        assert program_for(movement, Wishes(machine=slow, form=form)).form == form
    assert program_for(movement, Wishes(machine=slow)).form == "xla"


def test_other_machines_have_as_many_devices(mesh):
    x, target = put(mesh, P("x")), NamedSharding(mesh, P("y"))
    figures = json.loads(machine_with().to_json()) | {"hosts": [[0, 1]]}
    with pytest.raises(retile.InputError, match="the machine has 2 devices, and the problem 8"):
        reshard(x, target, machine=retile.Machine(figures))


# --- Calibration.


@pytest.fixture
def times(monkeypatch):
    """Calibration in which programs take what a function of their name and their tensor program says."""
    monkeypatch.setattr(_jax_calibration, "TILE_BYTES", (1 << 12, 1 << 14))
    programs = {}
    add_programs = _jax_calibration._add_programs

    def add(trials, devices, end):
        programs.update(add_programs(trials, devices, math.inf))
        return programs

    def take(seconds_of):
        def run(self):
            self.seconds = {name: [seconds_of(name, programs.get(name))] * 5 for name in self.runs}

        monkeypatch.setattr(_jax_calibration, "_add_programs", add)
        monkeypatch.setattr(_jax_calibration.Trials, "run", run)

    return take


def seconds_on(machine):
    figures = json.loads(machine.to_json())["programs"]

    def seconds_of(name, program):
        if program is not None:
            return program.tensors.seconds(4, machine)
        return figures["start"] + (0 if name == "start" else name[2] * figures[name[0]]["latency"][0][1])

    return seconds_of


def test_calibration_finds_the_machine_that_took_the_times(times):
    machine = machine_with(latencies=(3e-6, 2e-6, 1e-6), rates=(4e9, 8e9, 2e9), copy=6e9, start=1e-5)
    times(seconds_on(machine))
    figures = json.loads(retile.jax.calibrate().to_json())
    assert figures["programs"]["start"] == pytest.approx(1e-5)
    for kind, latency, rate in zip(KINDS, (3e-6, 2e-6, 1e-6), (4e9, 8e9, 2e9), strict=True):
        found = figures["programs"][kind]
        assert [seconds for _, seconds in found["latency"]] == pytest.approx([latency] * len(found["latency"]))
        assert [one for _, one in found["rate"]] == pytest.approx([rate] * len(found["rate"]), rel=0.05)
    assert [rate for _, rate in figures["copy"]] == pytest.approx([6e9] * len(figures["copy"]), rel=0.05)
    assert "others are predicted 0% off (median), and repetitions lie 0% apart" in figures["source"]


def test_calibration_and_machines_agree_on_groups_that_were_not_measured(mesh):
    """Here on groups of four, a third of the way from two to eight."""
    latencies = {kind: [[2, 1.0], [8, 4.0]] for kind in KINDS}
    times = {kind: {"latency": latencies[kind], "rate": [[1, 1e15]]} for kind in KINDS}
    figures = json.loads(machine_with().to_json()) | {"copy": [[1, 1e15]], "programs": {"start": 1} | times}
    movement = Movement(NamedSharding(mesh, P("y")), NamedSharding(mesh, P(None, "y")), (64, 64), ARRAY.dtype)
    program = retile._programs.Program(movement, "collectives", retile._programs.plan_for(movement))
    work = [one for one in program.tensors.work(4) if one[0] != "copy"]
    assert [(kind, group) for kind, group, _ in work] == [("all_to_all", 4)]
    assert _jax_calibration._latency(latencies, *work[0]) == pytest.approx(2)
    assert program.tensors.seconds(4, retile.Machine(figures)) == pytest.approx(1 + 2)


def test_calibration_refuses_times_that_make_no_sense(times):
    times(lambda name, program: 1e-3)
    with pytest.raises(RuntimeError, match="eight permutations take no longer than one"):
        retile.jax.calibrate()
    times(lambda name, program: 1e-3 if program else seconds_on(machine_with())(name, None))
    with pytest.raises(RuntimeError, match="the machine is too busy to be measured"):
        retile.jax.calibrate()


def test_machines_are_measured_with_the_devices_at_hand(mesh, monkeypatch):
    monkeypatch.setattr(_jax_calibration, "TILE_BYTES", (1 << 16, 1 << 19))
    monkeypatch.setattr(_jax_calibration, "SECONDS", 4.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a machine that has much else to do
        try:
            machine = retile.jax.calibrate()
        except RuntimeError as error:
            assert str(error).endswith("the machine is too busy to be measured")
            pytest.skip(str(error))
    assert machine.hosts == [list(range(8))]
    x, target = put(mesh, P("x", "y")), NamedSharding(mesh, P("y", "x"))
    np.testing.assert_array_equal(reshard(x, target, machine=machine), ARRAY)


def test_calibration_takes_several_devices():
    with pytest.raises(retile.InputError, match="calibration takes two devices or more"):
        retile.jax.calibrate(jax.devices()[:1])

"""retile itself as a contender: plans and runs by its command."""

import json
import math
import subprocess

USAGE_FAULT = 2  # exit status


class CommandFailure(Exception):
    """The command could not do a problem; the message is what it said first."""


class UsageFailure(Exception):
    """The command does not know an option's value: it would fail for every problem."""


def _step_text(step):
    moves = []
    for move in step.get("moves", []):
        what = f"{move['from']} -> {move['to']}" if "from" in move else str(move["dim"])
        moves.append(f"{what}; {move['factor']}")
    return f"{step['op']}({', '.join(moves)})" if moves else step["op"]


def _most_received(step):
    """Elements: what the step costs under the cost model "volume"."""
    before = math.prod(step["local_in"])
    match step["op"]:
        case "dynslice":
            return 0
        case "alltoall":
            return before - before // len(step["groups"][0])
        case "allgather":
            return math.prod(step["local_out"]) - before
        case "allpermute":
            return before if any(source != target for source, target in step["pairs"]) else 0
    received = {}
    for _, receiver, low, high in step["transfers"]:
        received[receiver] = received.get(receiver, 0) + math.prod(b - a for a, b in zip(low, high, strict=True))
    return max(received.values(), default=0)


class Ours:
    def __init__(self, command, planner, engine):
        self.command, self.planner, self.engine = command, planner, engine

    def _ask(self, subcommand, problem, *options):
        command = [self.command, subcommand, "--problems", "-", "--planner", self.planner, "--json", *options]
        process = subprocess.run(command, input=json.dumps(problem) + "\n", capture_output=True, text=True)
        if process.returncode != 0:
            said = process.stderr.strip().splitlines() or [f"{subcommand} ended with status {process.returncode}"]
            raise (UsageFailure if process.returncode == USAGE_FAULT else CommandFailure)(said[0])
        return json.loads(process.stdout)

    def plan(self, problem):
        """The parts of a result that a plan gives."""
        plan = self._ask("plan", problem, "--full")
        volume = sum(_most_received(step) for step in plan["steps"])
        bounds = {key: plan["cost"][key] for key in ("lower_bound", "floor", "optimal")}
        return {
            "steps": [_step_text(step) for step in plan["steps"]],
            "cost": {"paper": plan["cost"]["total"], "volume": volume} | bounds,
            "memory": plan["memory"],
            "planning_ns": plan["planning_ns"],
        }

    def run(self, problem, repetitions):
        """The report of a run, which was verified, after one repetition for warming up."""
        report = self._ask("run", problem, "--engine", self.engine, "--repeat", str(repetitions + 1))
        if not report["verified"]:
            raise CommandFailure("the result was not verified")
        return report | {"seconds": report["seconds"][1:]}

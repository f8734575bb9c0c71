"""Replays a plan's JSON on NumPy arrays, element by element: what devices hold after each step is copied from what is listed
as sent, and nothing else."""

import numpy as np
from layouts import most_held

OPERATIONS = ("dynslice", "alltoall", "allgather", "allpermute", "exchange", "reduce")
REDUCTIONS = {"sum": np.add, "max": np.maximum, "min": np.minimum}


class Wrong(Exception):
    """The plan does not do what it says."""


def require(condition, *words):
    if not condition:
        raise Wrong(" ".join(str(word) for word in words))


class Replay:
    """Devices' arrays, one after the other step. `values` holds every device's elements where `held` is set."""

    def __init__(self, plan, ends):
        self.plan = plan
        self.ends = ends
        self.world = ends.world
        self.stacked = len(ends.source.sum_axes)
        # Steps count factors as dimensions where there is a view.
        self.view = plan.get("view")
        require(self.view is None or len(self.view) == len(ends.shape), "the view has another rank")
        stack = ends.source_masks.shape[1 : 1 + self.stacked]
        truth = np.random.default_rng(0).integers(0, 1 << 40, size=(*stack, *ends.shape))
        self.truth = self.seen(truth if self.stacked else ends.moved(truth), self.stacked)
        self.held = self.seen(ends.source_masks, 1 + self.stacked).copy()
        self.values = np.where(self.held, self.truth, -1)
        self.costs = {"paper": [], "volume": []}
        self.peak = int(ends.source.sizes.max())

    def seen(self, array, first):
        """The array in the view's factors, which may reach beyond it, from this dimension on."""
        if self.view is None:
            return array
        padding = [(0, 0)] * first
        for size, factors in zip(array.shape[first:], self.view, strict=True):
            reach = int(np.prod(factors, dtype=np.int64))
            require(reach >= size, "the view is too small")
            padding.append((0, reach - size))
        factors = [size for dimension in self.view for size in dimension]
        return np.pad(array, padding).reshape(*array.shape[:first], *factors)

    def run(self):
        for index, step in enumerate(self.plan["steps"]):
            try:
                self.run_step(step)
            except Wrong as wrong:
                raise Wrong(f"step {index} ({step['op']}): {wrong}") from None
            except (IndexError, ValueError, TypeError, KeyError) as error:
                raise Wrong(f"step {index}: {error!r}") from None
        self.check_end()

    def check_end(self):
        wanted = self.seen(self.ends.target_masks, 1 + len(self.ends.target.sum_axes))
        require(self.held.shape == wanted.shape, "it ends with another array")
        for device in range(self.world):
            require((self.held[device] == wanted[device]).all(), "device", device, "does not end with its target tile")
        result = self.truth
        for dimension in reversed(self.ends.reduced):
            result = REDUCTIONS[self.ends.reduce].reduce(result, axis=dimension)
        values = self.values
        require((values[wanted] == np.broadcast_to(result, wanted.shape)[wanted]).all(), "wrong elements at the end")

    # --- Steps.

    def run_step(self, step):
        require(step["op"] in OPERATIONS, "there is no such operation")
        if step["op"] == "reduce":
            self.reduce(step)
        else:
            after = self.tiles_after(step, self.held.shape[1:])
            getattr(self, step["op"])(step, after)
        size = most_held(self.held)
        self.peak = max(self.peak, size)
        moves = step["op"] not in ("dynslice", "reduce")
        self.costs["paper"].append(size if moves else 0)
        self.costs["volume"].append(self.received if moves else 0)

    def tiles_after(self, step, shape):
        """The masks that the step's offsets or boxes say."""
        after = np.zeros((self.world, *shape), dtype=bool)
        boxes = step.get("boxes")
        if boxes is None:
            local = step["local_out"]
            boxes = [[[corner, [c + n for c, n in zip(corner, local, strict=True)]]] for corner in step["offsets"]]
        require(len(boxes) == self.world, "tiles of", len(boxes), "devices")
        for device, listed in enumerate(boxes):
            for low, high in listed:
                self.require_box(low, high, shape)
                after[(device, *map(slice, low, high))] = True
        return after

    @staticmethod
    def require_box(low, high, shape):
        require(len(low) == len(high) == len(shape), "a box of another rank")
        inside = all(0 <= a <= b <= n for a, b, n in zip(low, high, shape, strict=True))
        require(inside, low, high, "is no box of the array")

    def become(self, after, sources):
        """Every device gets its new elements from those of `sources(device)`: pairs of a mask and values."""
        values = np.full_like(self.values, -1)
        most = 0
        for device in range(self.world):
            missing = after[device].copy()
            for mask, there in sources(device):
                here = missing & mask
                values[device][here] = there[here]
                missing &= ~here
            require(not missing.any(), "device", device, "lacks", int(missing.sum()), "elements of its tile")
            most = max(most, int((after[device] & ~self.held[device]).sum()))
        self.received = most
        self.held, self.values = after, values

    def own(self, device):
        return self.held[device], self.values[device]

    def dynslice(self, step, after):
        self.become(after, lambda device: [self.own(device)])

    def of_groups(self, step, after):
        group_of = {}
        for group in step["groups"]:
            for device in group:
                require(0 <= device < self.world and device not in group_of, "groups are no partition")
                group_of[device] = group
        require(len(group_of) == self.world, "groups are no partition")
        self.become(after, lambda device: [self.own(member) for member in group_of[device]])

    def alltoall(self, step, after):
        self.of_groups(step, after)

    def allgather(self, step, after):
        self.of_groups(step, after)

    def allpermute(self, step, after):
        source_of = {target: source for source, target in step["pairs"]}
        sources = sorted(source_of.values())
        everybody = list(range(self.world))
        require(sources == everybody and sorted(source_of) == everybody, "pairs are no bijection")
        require(len(step["pairs"]) == self.world, "pairs are no bijection")
        sizes = after.reshape(self.world, -1).sum(axis=1)
        self.become(after, lambda device: [self.own(source_of[device])])
        self.received = max([int(sizes[d]) for d in everybody if source_of[d] != d], default=0)

    def exchange(self, step, after):
        arrived = {device: [] for device in range(self.world)}
        counts = np.zeros(after.shape, dtype=np.int16)
        for sender, receiver, low, high in step["transfers"]:
            require(0 <= sender < self.world and 0 <= receiver < self.world, "no such device")
            require(sender != receiver, "device", sender, "sends to itself")
            self.require_box(low, high, after.shape[1:])
            box = tuple(map(slice, low, high))
            mask = np.zeros(after.shape[1:], dtype=bool)
            mask[box] = True
            require(self.held[sender][box].all(), "device", sender, "sends what it does not hold")
            require(after[receiver][box].all(), "device", receiver, "is sent what it does not keep")
            counts[receiver][box] += 1
            arrived[receiver].append((mask, self.values[sender]))
        require(counts.max(initial=0) <= 1, "an element is sent twice")
        most = int(counts.reshape(self.world, -1).sum(axis=1).max())
        self.become(after, lambda device: [*arrived[device], self.own(device)])
        self.received = most

    def reduce(self, step):
        dimensions = sorted(step["dims"])
        require(dimensions and len(set(dimensions)) == len(dimensions), "dimensions are listed twice")
        require(step["reduce"] == self.ends.reduce, "parts are combined in another way")
        axes = tuple(dimension + 1 for dimension in dimensions)
        held = self.held
        for axis in reversed(axes):
            some, all_ = held.any(axis=axis), held.all(axis=axis)
            require((some == all_).all(), "some device holds not all parts")
            held = all_
        shape = held.shape[1:]
        after = self.tiles_after(step, shape)
        require((after == held).all(), "tiles after it are not the parts' tiles")
        values = np.where(self.held, self.values, 0)
        for axis in reversed(axes):
            values = REDUCTIONS[step["reduce"]].reduce(values, axis=axis)
        self.held, self.values = held, np.where(held, values, -1)
        self.received = 0


def check_statements(plan, replay, ends):
    """What the plan says of itself, as far as it follows from the replay."""
    cost, memory = plan["cost"], plan["memory"]
    expected = replay.costs[cost["model"]]
    stated = [step["cost"] for step in plan["steps"]]
    require(stated == expected, "costs are", expected, "and not", stated)
    require(cost["total"] == sum(expected), "the total is", sum(expected), "and not", cost["total"])
    require(cost["lower_bound"] <= cost["total"], "the lower bound is above the total")
    require(cost["optimal"] == (cost["lower_bound"] == cost["total"]), "optimal is", cost["optimal"])
    floor = ends.floor()
    require(floor is None or cost["floor"] == floor, "the floor is", floor, "and not", cost["floor"])
    sizes = {"source": int(ends.source.sizes.max()), "target": int(ends.target.sizes.max()), "peak": replay.peak}
    for name, size in sizes.items():
        require(memory[name] == size, f"memory: {name} is", size, "and not", memory[name])
    require(memory["peak"] <= memory["bound"], "the peak is above the bound")


def replay_plan(plan, ends):
    """Throws Wrong where the plan does not lead from source to target."""
    replay = Replay(plan, ends)
    replay.run()
    return replay

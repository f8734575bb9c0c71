"""The cheapest sequence of the paper's collectives by exhaustive search, for small even problems.

A state is a type over prime parts of axes: for each dimension a list of parts, minor to major. A step moves the minor parts of
dimensions: dynslice adds parts, allgather takes some away, alltoall moves some from one dimension to another, in their order, and
allpermute goes to any type of the same local shape. A planner may have steps beyond these, so what is found is an upper
bound of the optimum, which no proved lower bound may exceed.
"""

import heapq
import itertools

import numpy as np


def primes(size):
    found = []
    for prime in (2, 3, 5, 7):
        while size % prime == 0:
            found.append(prime)
            size //= prime
    return found if size == 1 else None


def prime_parts(mesh):
    """Each axis's digits, major to minor: (axis, digits above), with their sizes. None where there are too many."""
    parts = {}
    for axis, size in mesh.items():
        factors = primes(size)
        if factors is None:
            return None
        major = 1
        for prime in factors:
            parts[axis, major] = prime
            major *= prime
    return parts if len(parts) <= 4 else None


def split_cuts(mesh, cuts):
    """The state of a problem's end."""
    state = []
    for axes in cuts:
        parts = []
        for text in axes:
            axis, _, rest = text.partition(":(")
            major, size = (1, mesh[axis]) if not rest else map(int, rest.split(")"))
            digits = []
            for prime in primes(size):
                digits.append((axis, major))
                major *= prime
            parts += reversed(digits)
        state.append(tuple(parts))
    return tuple(state)


def least_cost(problem):
    """None where the problem is not of this kind, or too large."""
    known = {"id", "mesh", "shape", "src", "dst", "dtype"}
    if set(problem) - known or len(problem["shape"]) > 3:
        return None
    mesh, shape = problem["mesh"], problem["shape"]
    parts = prime_parts(mesh)
    if parts is None:
        return None
    source, target = split_cuts(mesh, problem["src"]), split_cuts(mesh, problem["dst"])
    # The digits that problems name must be the same at both ends.
    if any(part not in parts for state in (source, target) for part in itertools.chain(*state)):
        return None

    def tile(state):
        sizes = []
        for size, cut in zip(shape, state, strict=True):
            count = int(np.prod([parts[part] for part in cut], dtype=np.int64))
            if size % count:
                return None
            sizes.append(size // count)
        return tuple(sizes)

    if tile(source) is None or tile(target) is None or 0 in shape:
        return None
    most = max(np.prod(tile(source)), np.prod(tile(target)))
    by_shape = {}
    for state in all_states(tuple(parts), len(shape)):
        local = tile(state)
        if local is not None:
            by_shape.setdefault(local, []).append(state)

    def steps(state):
        free = [part for part in parts if all(part not in cut for cut in state)]
        for i, cut in enumerate(state):
            for part in free:
                yield 0, replaced(state, {i: (part, *cut)})
            for count in range(1, len(cut) + 1):
                yield 1, replaced(state, {i: cut[count:]})
                for j in range(len(state)):
                    if j != i:
                        yield 1, replaced(state, {i: cut[count:], j: (*cut[:count], *state[j])})
        for other in by_shape[tile(state)]:
            yield 1, other

    best = {source: 0}
    queue = [(0, source)]
    while queue:
        cost, state = heapq.heappop(queue)
        if state == target:
            return cost
        if cost > best[state]:
            continue
        for weight, after in steps(state):
            local = tile(after)
            if local is None or np.prod(local) > most:
                continue
            total = cost + weight * int(np.prod(local))
            if total < best.get(after, total + 1):
                best[after] = total
                heapq.heappush(queue, (total, after))
    return None


def replaced(state, changes):
    return tuple(changes.get(i, cut) for i, cut in enumerate(state))


def all_states(parts, rank):
    for count in range(len(parts) + 1):
        for order in itertools.permutations(parts, count):
            for bounds in itertools.combinations_with_replacement(range(count + 1), rank - 1):
                edges = (0, *bounds, count)
                yield tuple(order[a:b] for a, b in itertools.pairwise(edges))

"""Plans with something changed: numbers, lists, whole steps."""

import copy

from problems import choose


def numbers_in(value, path=()):
    """The paths of all whole numbers."""
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield path
    elif isinstance(value, (list, dict)):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers_in(entry, (*path, key))


def lists_in(value, path=()):
    if isinstance(value, (list, dict)):
        if isinstance(value, list) and value:
            yield path
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            yield from lists_in(entry, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def change_number(random, plan):
    paths = [path for path in numbers_in(plan) if path[0] in ("steps", "cost", "memory")]
    path = choose(random, paths)
    holder = at(plan, path[:-1])
    holder[path[-1]] = max(0, holder[path[-1]] + int(choose(random, [-2, -1, 1, 2, 7])))


def drop_entry(random, plan):
    entries = at(plan, choose(random, [path for path in lists_in(plan) if path[0] == "steps"]))
    del entries[int(random.integers(len(entries)))]


def repeat_entry(random, plan):
    entries = at(plan, choose(random, [path for path in lists_in(plan) if path[0] == "steps"]))
    index = int(random.integers(len(entries)))
    entries.insert(index, copy.deepcopy(entries[index]))


def swap_entries(random, plan):
    entries = at(plan, choose(random, [path for path in lists_in(plan) if path[0] == "steps"]))
    i, j = (int(random.integers(len(entries))) for _ in range(2))
    entries[i], entries[j] = entries[j], entries[i]


def swap_group_members(random, plan):
    grouped = [step["groups"] for step in plan["steps"] if len(step.get("groups", ())) > 1]
    if not grouped:
        return change_number(random, plan)
    groups = choose(random, grouped)
    i, j = (int(random.integers(len(groups))) for _ in range(2))
    if groups[i] and groups[j]:
        groups[i][0], groups[j][-1] = groups[j][-1], groups[i][0]


def turn_optimal(random, plan):
    plan["cost"]["optimal"] = not plan["cost"]["optimal"]


MUTATIONS = [change_number, change_number, drop_entry, repeat_entry, swap_entries, swap_group_members, turn_optimal]


def mutated(random, plan):
    changed = copy.deepcopy(plan)
    mutation = choose(random, MUTATIONS) if plan["steps"] else turn_optimal
    mutation(random, changed)
    return changed

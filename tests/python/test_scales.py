"""Weights that are scaled to eight bits block by block on their way. Skipped without PyTorch (make test-torch)."""

import random

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch installs it")

from thread_group import everywhere, refusal

import retile
import retile.torch

FP8 = torch.float8_e4m3fn


def scaled(weight, block):
    """As servers and trainers do it, in PyTorch: the weight in eight bits, and one over the scales. Of a matrix."""
    rows, columns = (-(-length // one) for length, one in zip(weight.shape, block, strict=True))
    padded = torch.zeros(rows * block[0], columns * block[1])
    padded[: weight.shape[0], : weight.shape[1]] = weight.float()
    blocks = padded.view(rows, block[0], columns, block[1])
    largest = blocks.abs().amax(dim=(1, 3), keepdim=True)
    scale = 448.0 / largest
    scale = torch.where((largest == 0) | largest.isinf(), 1.0, scale)
    data = torch.clamp(blocks * scale, -448.0, 448.0).to(FP8).view(padded.shape)
    return data[: weight.shape[0], : weight.shape[1]], scale.reciprocal().view(rows, columns)


def all_scaled(weight, block):
    if weight.dim() == 2:
        return scaled(weight, block)
    data, scales = zip(*(all_scaled(one, block) for one in weight), strict=True)
    return torch.stack([one.view(torch.uint8) for one in data]).view(FP8), torch.stack(scales)


def assert_bits(a, b):
    """Also where they are NaN."""
    assert a.shape == b.shape and a.dtype == b.dtype
    kind = torch.uint8 if a.dtype == FP8 else torch.int32
    assert torch.equal(a.contiguous().view(kind), b.contiguous().view(kind))


def part_of(tensor, box):
    return tensor[tuple(slice(lo, hi) for lo, hi in zip(*box, strict=True))]


def weight_of(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(shape, generator=generator)
    weight[..., :3, :2] = 0
    return (weight * torch.rand(shape, generator=generator)).to(dtype)


LAYOUTS = {  # over four trainers; sizes of the mesh, axes by dimension from the last but one
    "rows": ({"x": 4}, [["x"], []]),
    "columns": ({"x": 4}, [[], ["x"]]),
    "both": ({"x": 2, "y": 2}, [["x"], ["y"]]),
    "replicas": ({"x": 2, "y": 2}, [["x"], []]),
}


@pytest.mark.parametrize("text", ["[32{x}64 halo (2,3), 24]", "[32{x}64 halo (2,3) wrap, 24] order [1, 0]"])
def test_ghost_zones_have_no_part_in_scales(text):
    weight, block = weight_of((64, 24), torch.float32, 0), (24, 8)
    layout = retile.Layout(text, retile.Mesh({"x": 2}))

    def action(group):
        t = retile.torch.Transfer(group=group)
        if group.rank < 2:
            before, after = (2, 3) if "wrap" in text else ((0, 3), (2, 0))[group.rank]
            own = weight[32 * group.rank : 32 * group.rank + 32]
            tile = torch.nn.functional.pad(own, (0, 0, before, after), value=1e6)
            t.add_source("w", tile.T.contiguous() if "order" in text else tile, layout, dtype=FP8, block=block)
            t.commit()
            t.start().wait()
            return
        data, scales = scaled(weight, block)
        targets = {"w": torch.zeros(64, 24, dtype=FP8), "w_scale_inv": torch.zeros(scales.shape)}
        t.add_targets(targets)
        t.commit()
        t.start().wait()
        assert_bits(targets["w"], data)
        assert_bits(targets["w_scale_inv"], scales)

    everywhere(3, action)


@pytest.mark.parametrize("cut", LAYOUTS)
@pytest.mark.parametrize("seed", range(3))
def test_the_bits_are_those_of_the_whole_matrix(cut, seed):
    """However it is cut, in memory with gaps too: trainers hold parts of blocks, servers get columns and all scales."""
    chance = random.Random(seed)
    axes, cuts = LAYOUTS[cut]
    block = chance.choice([(16, 8), (128, 128), (7, 5)])
    weights = {}
    for i in range(4):
        shape = (chance.randrange(20, 200), chance.randrange(20, 200))
        shape = (3, *shape) if i == 3 else shape
        weights[f"w{i}.weight"] = weight_of(shape, chance.choice([torch.float32, torch.bfloat16]), i)
    has_gaps = seed == 1

    def action(group):
        t = retile.torch.Transfer(group=group, max_bytes=1 << 14, verify="crc32")
        targets, tiles = {}, {}
        for name, weight in weights.items():
            data, scales = all_scaled(weight, block)
            if group.rank < 4:
                layout = retile.Layout.cut(
                    retile.Mesh(axes), weight.shape, [[]] * (weight.dim() - 2) + cuts, devices=[0, 1, 2, 3]
                )
                tile = part_of(weight, layout.boxes(group.rank)[0]).clone()
                if has_gaps:
                    tile = torch.stack([tile, tile + 1], -1)[..., 0]
                tiles[name] = tile
                t.add_source(name, tile, layout, dtype=FP8, block=block)
            else:
                half = weight.shape[-1] // 2
                columns = (0, half) if group.rank == 4 else (half, weight.shape[-1])
                box = [(0, length) for length in weight.shape[:-1]] + [columns]
                target = torch.zeros([hi - lo for lo, hi in box], dtype=FP8)
                t.add_target(name, target, box=box)
                targets[name] = target, data[..., columns[0] : columns[1]]
                scale = torch.zeros(scales.shape)
                t.add_target(name + "_scale_inv", scale)
                targets[name + "_scale_inv"] = scale, scales
        t.commit()
        for _ in range(2):
            work = t.start()
            work.wait()
            assert work.report.staged_bytes <= 1 << 14
            for target, expected in targets.values():
                assert_bits(target, expected)
                target.view(torch.uint8).zero_()

    everywhere(6, action)


def test_what_is_no_number_spoils_its_block_alone():
    weight = weight_of((20, 20), torch.float32, 0)
    weight[3, 4], weight[12, 12], weight[2, 15] = float("nan"), float("inf"), 1e-40
    weight[:8, 8:16] = 1e-40
    data, scales = scaled(weight, (8, 8))

    def action(group):
        t = retile.torch.Transfer(group=group)
        t.add_source("w", weight[10 * group.rank :][:10], box=((10 * group.rank, 10 * group.rank + 10), (0, 20)),
                     dtype=FP8, block=(8, 8))  # fmt: skip
        targets = torch.zeros(20, 20, dtype=FP8), torch.zeros(3, 3)
        t.add_target("w", targets[0])
        t.add_target("w_scale_inv", targets[1])
        t.commit()
        t.start().wait()
        return targets

    is_tiny = torch.zeros(20, 20, dtype=torch.bool)
    is_tiny[:8, 8:16] = True  # the reference divides by numbers that have no inverse
    for found, inverse in everywhere(2, action):
        assert found.float().isnan().sum() == 64 and inverse.isnan().sum() == 1
        assert_bits(torch.where(is_tiny, 0, found.view(torch.uint8)), torch.where(is_tiny, 0, data.view(torch.uint8)))
        assert not found.float()[is_tiny].any() and inverse[0, 1] == 1 and inverse[1, 1] == 1


def test_weights_and_scales_are_moved_together():
    weights = {f"layers.{i}.weight": weight_of((24, 16), torch.float32, i) for i in range(2)}

    def action(group):
        t = retile.torch.Transfer(group=group)
        own = {name: weight.clone() for name, weight in weights.items()}
        targets = {name: torch.zeros(24, 16, dtype=FP8) for name in weights}
        scales = {name: torch.zeros(3, 2) for name in weights}
        if group.rank == 0:
            t.add_sources(own, dtype=FP8, block=(8, 8))
        else:
            t.add_targets(targets)
            t.add_targets({name + "_scale_inv": scale for name, scale in scales.items()})
        t.commit()
        assert t._executions[None].maxima is None  # nobody else has a part of a block
        t.start().wait()
        for tensor in own.values():
            tensor.mul_(3)
        for only in (["layers.1.weight"], ["layers.1.weight_scale_inv"], "layers.1"):
            for tensor in (*targets.values(), *scales.values()):
                tensor.view(torch.uint8).zero_()
            t.start(only=only).wait()
            if group.rank:
                for i, (name, weight) in enumerate(weights.items()):
                    data, inverse = scaled(weight * 3, (8, 8))
                    assert_bits(targets[name], data if i else torch.zeros_like(data))
                    assert_bits(scales[name], inverse if i else torch.zeros_like(inverse))
        with pytest.raises(retile.InputError, match='"layers.0.weight" is scaled block by block, and moved as a whole'):
            t.start(only={"layers.0.weight": [((0, 8), (0, 8))]})

    everywhere(2, action)


class FusedServer(torch.nn.Module):
    """Queries and keys fused, as servers load them: rows of weights, and rows of blocks of scales."""

    def __init__(self, rank):
        super().__init__()
        self.rank = rank
        self.weight = torch.nn.Parameter(torch.zeros(32, 24).to(FP8), requires_grad=False)
        self.weight_scale_inv = torch.nn.Parameter(torch.zeros(4, 3), requires_grad=False)

    def load_weights(self, weights):
        for name, weight in weights:
            part = 1 if name.startswith("k") else 0
            parameter = self.weight_scale_inv if name.endswith("scale_inv") else self.weight
            length = parameter.shape[0] // 2
            room = parameter.data.narrow(0, part * length, length)
            room.copy_(weight.narrow(0, self.rank * length, length))


def test_loaders_of_scaled_weights_are_recorded():
    weights = {f"{name}.weight": weight_of((32, 24), torch.bfloat16, i) for i, name in enumerate("qk")}

    def action(group):
        t = retile.torch.Transfer(group=group)
        if group.rank < 3:  # rows are cut across blocks
            layout = retile.Layout.cut(retile.Mesh({"x": 3}), (32, 24), [["x"], []])
            for name, weight in weights.items():
                t.add_source(name, part_of(weight, layout.boxes(group.rank)[0]), layout, dtype=FP8, block=(8, 8))
            t.commit()
            t.start().wait()
            return
        model, expected = FusedServer(group.rank - 3), FusedServer(group.rank - 3)
        with t.record(model) as recorded:
            model.load_weights(recorded)
        t.commit()
        t.start().wait()
        for name, weight in weights.items():
            data, scales = scaled(weight, (8, 8))
            expected.load_weights([(name, data), (name + "_scale_inv", scales)])
        assert_bits(model.weight.data, expected.weight.data)
        assert_bits(model.weight_scale_inv.data, expected.weight_scale_inv.data)

    everywhere(5, action)


def test_damaged_maxima_are_told_on_all_ranks():
    def action(group):
        send, damaged = group.send, []

        def damage(message, peer):
            if group.rank == 0 and not damaged:
                damaged.append(True)
                message[42] ^= 1
            return send(message, peer)

        group.send = damage
        t = retile.torch.Transfer(group=group, verify="crc32")
        box = ((group.rank, group.rank + 1), (0, 8))
        t.add_source("w", torch.ones(1, 8), box=box, dtype=FP8, block=(2, 8))
        t.add_target("w", torch.zeros(2, 8, dtype=FP8))
        t.commit()
        t.start().wait()

    assert (
        refusal(2, action)
        == 'round 0 from rank 0 to rank 1 did not arrive as it was sent: its checksum is wrong; it has "w"'
    )


def test_what_is_wrong_with_blocks_is_told():
    def action(group):
        t = retile.torch.Transfer(group=group)
        if group.rank == 0:
            t.add_source("a", torch.zeros(4, 4), dtype=FP8)
            t.add_source("b", torch.zeros(4, 4), dtype=torch.bfloat16, block=(2, 2))
            t.add_source("c", torch.zeros(4), dtype=FP8, block=(2, 2))
            t.add_source("d", torch.zeros(2, 4), box=((0, 2), (0, 4)), dtype=FP8, block=(2, 2))
            t.add_source("d", torch.zeros(2, 4), box=((2, 4), (0, 4)), dtype=FP8, block=(2, 2))
            t.add_source("e", torch.zeros(4, 4, dtype=torch.int32), dtype=FP8, block=(2, 2))
        t.commit()

    assert refusal(2, action) == (
        'rank 0: "a": the source: elements of float32 are not converted to float8_e4m3fn\n'
        "hint: block=(128, 128) scales them\n"
        'rank 0: "b": the source: block is for what is converted to float8_e4m3fn: float32 is sent as bfloat16\n'
        'rank 0: "c": the source: block is a length for each of its last dimensions, not (2, 2)\n'
        'rank 0: "d": the source: another part of it is scaled on this rank, and one can be\n'
        'rank 0: "e": the source: block is for what is converted to float8_e4m3fn: int32 is sent as float8_e4m3fn'
    )


def test_ranks_scale_in_the_same_blocks():
    def action(group):
        t = retile.torch.Transfer(group=group)
        block = [(2, 2), (4, 2), None][group.rank]
        tile = torch.zeros(2, 4, dtype=FP8 if block is None else torch.float32)
        t.add_source("w", tile, box=((2 * group.rank, 2 * group.rank + 2), (0, 4)), dtype=FP8, block=block)
        t.add_target("w", torch.zeros(2, 4, dtype=FP8), box=((0, 2), (0, 4)))
        t.commit()

    assert refusal(3, action) == (
        '"w": it is scaled in different blocks: (2, 2) on rank 0, (4, 2) on rank 1, none on rank 2'
    )

"""Recorded loaders, against the loaders themselves, bit by bit. Skipped without PyTorch (make test-torch)."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-torch installs it")

from serving_models import FAMILIES, Llama
from thread_group import everywhere, refusal

import retile
import retile.torch
from retile._recording import Recorder

TRAINERS, SERVERS = 2, 4


def checkpoint_of(family):
    generator = torch.Generator().manual_seed(7)
    return {name: torch.randn(shape, generator=generator) for name, shape in family.checkpoint().items()}


def add_rows(t, weights, rank):
    """A trainer's half of the rows of each, as FSDP cuts them."""
    for name, weight in weights.items():
        layout = retile.Layout.cut(
            retile.Mesh({"fsdp": TRAINERS}), weight.shape, [["fsdp"]] + [[]] * (weight.dim() - 1)
        )
        (lo, hi), *_ = layout.boxes(rank)
        t.add_source(name, weight[lo[0] : hi[0]].clone(), layout)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_servers_have_what_their_loaders_load(family):
    weights = checkpoint_of(family)

    def action(group):
        t = retile.torch.Transfer(group=group, max_bytes=1 << 14, verify="crc32")
        if group.rank < TRAINERS:
            add_rows(t, weights, group.rank)
            t.commit()
            t.start().wait()
            return
        model, expected = (family(group.rank - TRAINERS, SERVERS) for _ in range(2))
        with t.record(model) as recorded:
            model.load_weights(recorded)
        expected.load_weights(weights.items())
        assert any(not torch.equal(a, b) for a, b in zip(model.parameters(), expected.parameters(), strict=True))
        t.commit()
        t.start().wait()
        for (name, a), (_, b) in zip(model.named_parameters(), expected.named_parameters(), strict=True):
            assert torch.equal(a, b), name

    everywhere(TRAINERS + SERVERS, action)


# --- Any views.


def random_view(tensor, chance):
    """Another view of the same elements, or of some."""
    kind = torch.randint(7, (), generator=chance).item()
    dims = tensor.dim()
    i = torch.randint(dims, (), generator=chance).item() if dims else 0
    if kind == 0 and dims:
        length = torch.randint(1, tensor.shape[i] + 1, (), generator=chance).item()
        return tensor.narrow(i, torch.randint(tensor.shape[i] - length + 1, (), generator=chance).item(), length)
    if kind == 1 and dims > 1:
        return tensor.transpose(i, torch.randint(dims, (), generator=chance).item())
    if kind == 2 and dims and tensor.shape[i] % 2 == 0:
        return tensor.unflatten(i, (2, -1))
    if kind == 3 and dims > 1:
        return tensor.flatten(max(0, i - 1), max(0, i - 1) + 1)
    if kind == 4 and dims > 1:
        return tensor.select(i, torch.randint(tensor.shape[i], (), generator=chance).item())
    if kind == 5:
        return tensor.contiguous() if i else tensor.clone()
    if kind == 6 and dims:
        return torch.cat(tensor.chunk(2, i)[::-1], i)
    return tensor


def test_views_of_views_are_followed():
    chance = torch.Generator().manual_seed(3)
    for _ in range(400):
        shape = [(4, 6, 5), (12, 8), (24,), (2, 3, 4, 2)][torch.randint(4, (), generator=chance).item()]
        seed, count = chance.get_state(), torch.randint(6, (), generator=chance).item()

        def viewed(tensor, seed=seed, count=count):
            same = torch.Generator()
            same.set_state(seed)
            for _ in range(count):
                tensor = random_view(tensor, same)
            return tensor

        real = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
        expected = viewed(real)
        order = torch.randperm(expected.dim(), generator=chance).tolist()
        memory = torch.nn.Parameter(torch.full([expected.shape[i] for i in order], -1.0), requires_grad=False)
        room = memory.permute([order.index(i) for i in range(expected.dim())]) if order else memory
        recorder = Recorder([("w", shape, torch.float32)], [memory])
        with recorder:
            room.data.copy_(viewed(recorder.weights[0][1]))
        for name, (lo, hi), part in recorder.copies:
            assert name == "w"
            part.copy_(real[tuple(slice(a, b) for a, b in zip(lo, hi, strict=True))])
        assert torch.equal(room, expected)


# --- What cannot be recorded.


def told(load):
    def action(group):
        t = retile.torch.Transfer(group=group)
        if group.rank == 0:
            t.add_source("w", torch.zeros(4, 6))
            t.add_source("v", torch.zeros(6))
        else:
            model = torch.nn.Linear(6, 4)
            with t.record(model) as weights:
                load(model, dict(weights))
        t.commit()

    return refusal(2, action)


def test_what_a_loader_computes_is_told_on_all_ranks():
    assert told(lambda model, weights: model.weight.data.copy_(weights["w"] + 1)) == (
        'rank 1: the loader computes with "w" (aten::add.Tensor): only what it copies can be recorded'
    )
    assert told(lambda model, weights: weights["w"].sum().item()) == (
        'rank 1: the loader computes with "w" (aten::sum): only what it copies can be recorded'
    )
    assert told(lambda model, weights: model.weight.data.copy_(weights["w"].to(torch.bfloat16))) == (
        'rank 1: the loader converts "w" to torch.bfloat16, which may lose bits'
    )
    assert told(lambda model, weights: torch.zeros(4, 6).copy_(weights["w"])) == (
        'rank 1: the loader copies "w" to memory that is none of the model\'s'
    )
    assert told(lambda model, weights: model.weight.data.copy_(weights["v"])) == (
        'rank 1: the loader copies "v" of shape [6] to shape [4, 6]'
    )
    assert told(lambda model, weights: model.weight.data.copy_(torch.cat([weights["w"][:2], torch.ones(2, 6)]))) == (
        'rank 1: the loader joins "w" with a tensor that has data'
    )
    assert told(lambda model, weights: [model.weight.data[i].copy_(weights["v"]) for i in range(2)]) == (
        '"v": rank 1 wants [0:6] twice'
    )


def test_what_a_loader_raises_is_told_on_all_ranks():
    def missing(model, weights):
        weights["bias"]

    def parsing(model, weights):
        torch.zeros(2, 3).view(weights["w"].shape[0], 4)

    assert told(missing) == (
        f"rank 1: the loader failed at test_record.py:{missing.__code__.co_firstlineno + 1}: KeyError: 'bias'"
    )
    assert told(parsing) == (
        f"rank 1: the loader failed at test_record.py:{parsing.__code__.co_firstlineno + 1}: "
        "RuntimeError: shape '[4, 4]' is invalid for input of size 6"
    )


def test_numbers_of_weights_may_fill_single_elements():
    """As vLLM's default_weight_loader does."""

    def action(group):
        t = retile.torch.Transfer(group=group)
        if group.rank == 0:
            t.add_source("scale", torch.tensor(0.3))
            t.add_source("zero", torch.tensor([7], dtype=torch.int32))
            t.add_source("w", torch.arange(6.0))
            t.commit()
            t.start().wait()
            return None
        model = torch.nn.Linear(1, 4)
        rooms = {"scale": torch.zeros(1), "zero": torch.zeros((), dtype=torch.int32), "w": torch.zeros(())}
        for name, room in rooms.items():
            model.register_buffer(name, room)
        with t.record(model) as recorded:
            weights = dict(recorded)
            model.scale.fill_(weights["scale"].item())
            model.zero.fill_(int(weights["zero"]))
            model.w.data.fill_(weights["w"][4])
        t.commit()
        t.start().wait()
        return [room.reshape(()).item() for room in rooms.values()]

    assert everywhere(2, action)[1] == [pytest.approx(0.3), 7, 4.0]


def test_numbers_of_weights_that_are_computed_with_are_told():
    assert told(lambda model, weights: 2 * weights["v"][0].item()) == (
        'rank 1: the loader computes with a number of "v": only what it copies can be recorded'
    )
    assert told(lambda model, weights: model.bias.data.fill_(weights["v"][0].item())) == (
        'rank 1: the loader copies "v" of shape [] to shape [4]'
    )
    assert told(lambda model, weights: bool(weights["v"][0] > 0)) == (
        'rank 1: the loader computes with "v" (aten::gt.Scalar): only what it copies can be recorded'
    )


def test_what_may_come_from_a_number_of_a_weight_does_not_reach_the_model():
    """The number itself has filled an element, as it may."""

    def with_number(write):
        def load(model, weights):
            number = weights["v"][0].item()
            model.weight.data[0, 0].fill_(number)
            write(model.bias.data, number)

        return load

    def fault(name):
        return (
            f'rank 1: the loader writes to the model what it may have computed with a number of "v" ({name}): '
            "only what it copies can be recorded"
        )

    assert told(with_number(lambda bias, number: bias[0].fill_(1 / number))) == fault("aten::fill_.Scalar")
    assert told(with_number(lambda bias, number: bias[0].copy_(torch.tensor(1 / number)))) == fault("aten::copy_")
    assert told(with_number(lambda bias, number: bias.mul_(number))) == fault("aten::mul_.Tensor")


def test_constants_reach_the_model():
    model = torch.nn.Linear(3, 1)
    recorder = Recorder([("v", (3,), torch.float32)], model.parameters())
    with recorder:
        model.bias.data.fill_(0.5)  # before any number is there
        model.weight.data[0, 0].fill_(recorder.weights[0][1][0].item())
        model.weight.data[0, 1].fill_(1.0)
        model.weight.data[0, 2].zero_()
        torch.zeros(3).fill_(0.25)  # none of the model's
    assert recorder.unfilled_faults() == []
    assert model.bias.item() == 0.5
    assert model.weight.data[0, 1:].tolist() == [1.0, 0.0]


def test_a_widened_copy_is_as_good_as_the_weight():
    memory = torch.nn.Parameter(torch.zeros(4, 6), requires_grad=False)
    recorder = Recorder([("w", (4, 6), torch.float32)], [memory])
    with recorder:
        memory.data.copy_(recorder.weights[0][1].to(torch.float64).to("cpu"))
    assert [(name, box) for name, box, _ in recorder.copies] == [("w", ((0, 0), (4, 6)))]


def test_nothing_is_left_to_the_loader_after_recording():
    """Weights are those of the sources, in their order."""
    names = list(Llama.checkpoint())

    def action(group):
        t = retile.torch.Transfer(group=group)
        if group.rank == 0:
            t.add_sources(checkpoint_of(Llama))
            t.commit()
            return
        with t.record(torch.nn.Linear(2, 2)) as weights:
            pass
        assert [name for name, _ in weights] == names
        assert all(weight.device.type == "meta" for _, weight in weights)
        t.commit()

    everywhere(2, action)

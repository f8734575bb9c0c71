"""The adapters in examples/adapters: what test_adapters.py runs in four processes, two trainers and two servers."""

import asyncio
import importlib.abc
import importlib.util
import itertools
import pickle
import socket
import sys
import types
from pathlib import Path

import torch
import torch.distributed as dist
from serving_models import Llama
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

TRAINERS, SERVERS = 2, 2
wheels = {}  # folders with the modules of the packages that are not installed, by name
MODULES = {
    "verl": ["verl.checkpoint_engine.base"],
    "vllm": ["vllm.distributed.weight_transfer.base", "vllm.distributed.weight_transfer.factory"],
}


# --- Modules of a package, without what else it imports.


class _Anything(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls


class _Stub(metaclass=_Anything):
    """What stands for a class, a function, a decorator or a value that is only imported."""

    def __init__(self, *arguments, **keywords):
        pass

    def __call__(self, *arguments):
        return arguments[0] if arguments else None

    def __getattr__(self, name):
        return _Stub()


class _StubModule(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Stub


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules that are there in a package's folder, and stubs of all others below the same names."""

    def __init__(self, folder, modules, stubs):
        self._folder, self._modules, self._stubs = folder, modules, stubs

    def find_spec(self, name, path=None, target=None):
        if name in self._modules:
            place = Path(self._folder, *name.split(".")).with_suffix(".py")
            return importlib.util.spec_from_file_location(name, place)
        if name.split(".")[0] in self._stubs:
            return importlib.util.spec_from_loader(name, self)
        return None

    def create_module(self, spec):
        return _StubModule(spec.name)

    def exec_module(self, module):
        pass


def import_adapter(package, name):
    if package in wheels:
        sys.meta_path.insert(0, _Finder(wheels[package], MODULES[package], (package, "ray")))
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples/adapters"))
    return importlib.import_module(name)


# --- Weights.


def checkpoint(step):
    generator = torch.Generator().manual_seed(step)
    return {name: torch.randn(shape, generator=generator) for name, shape in Llama.checkpoint().items()}


def shards(mesh):
    """Each trainer's rows, which `load` replaces."""
    return {
        name: torch.nn.Parameter(
            DTensor.from_local(rows(weight).clone(), mesh, [Shard(0)], shape=weight.shape, stride=weight.stride())
        )
        for name, weight in checkpoint(0).items()
    }


def rows(weight):
    parts = weight.chunk(TRAINERS)
    return parts[dist.get_rank()] if dist.get_rank() < len(parts) else weight[:0]


def load(parameters, step):
    for name, weight in checkpoint(step).items():
        parameters[name].data.to_local().copy_(rows(weight))


def trainers_mesh():
    return DeviceMesh("cpu", torch.arange(TRAINERS), mesh_dim_names=("fsdp",))


# --- vLLM.


class Client:
    """Workers that are told what to do through the store of the process group, where a real client would use HTTP."""

    def __init__(self):
        self._store, self._calls = dist.distributed_c10d._get_default_store(), itertools.count(1)

    def _call(self, *call):
        number = next(self._calls)
        self._store.set(f"call/{number}", pickle.dumps(call))
        for rank in range(TRAINERS, TRAINERS + SERVERS):
            self._store.get(f"done/{number}/{rank}")

    def init_weight_transfer_engine(self, init_info):
        self._call("init", init_info)

    def start_weight_update(self):
        self._call("start_weight_update")

    def update_weights(self, update_info):
        self._call("update_weights", update_info)

    def finish_weight_update(self, weight_version=None):
        self._call("finish_weight_update")

    def stop(self):
        self._call("shutdown")


def serve(engine, after_update):
    store = dist.distributed_c10d._get_default_store()
    for number in itertools.count(1):
        method, *arguments = pickle.loads(store.get(f"call/{number}"))
        if method == "init":
            engine.init_transfer_engine(engine.parse_init_info(*arguments))
        else:
            getattr(engine, method)(*arguments)
        if method == "finish_weight_update":
            after_update()
        store.set(f"done/{number}/{dist.get_rank()}", b"")
        if method == "shutdown":
            return


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found = [probe.getsockname()[1]]
    dist.broadcast_object_list(found)
    return found[0]


def vllm_workers_load_what_trainers_have():
    adapter = import_adapter("vllm", "vllm_weight_transfer")
    port, mesh, rank = free_port(), trainers_mesh(), dist.get_rank()
    if rank < TRAINERS:
        parameters = shards(mesh)
        model = types.SimpleNamespace(named_parameters=parameters.items)
        client = Client()
        engine = adapter.WeightTransferTrainerFactory.trainer_init(
            adapter.RetileTrainerInitInfo(
                rank=rank, address="127.0.0.1", port=port, trainers=TRAINERS, world_size=TRAINERS + SERVERS
            ),
            client=client,
            source=adapter.ShardSource(model),
        )
        for step in range(3):
            load(parameters, step)
            engine.send_weights()
        if rank == 0:
            client.stop()
        return
    model, steps = Llama(rank - TRAINERS, SERVERS), itertools.count()
    parallel = types.SimpleNamespace(data_parallel_index=0, world_size=SERVERS, rank=rank - TRAINERS)
    config = types.SimpleNamespace(parallel_config=parallel, model_config=None)
    engine = adapter.WeightTransferEngineFactory.create_engine(
        types.SimpleNamespace(backend="retile"), config, torch.device("cpu"), model
    )

    def compare():
        expected = Llama(rank - TRAINERS, SERVERS)
        expected.load_weights(checkpoint(next(steps)).items())
        for (name, own), other in zip(model.named_parameters(), expected.parameters(), strict=True):
            assert torch.equal(own, other), name

    serve(engine, compare)
    assert next(steps) == 3


# --- verl.


def verl_rollouts_get_what_actors_have():
    adapter = import_adapter("verl", "verl_checkpoint_engine")
    registry = sys.modules["verl.checkpoint_engine.base"].CheckpointEngineRegistry
    mesh, rank = trainers_mesh(), dist.get_rank()
    engine = registry.new("retile", bucket_size=6000, is_master=rank == 0)
    assert isinstance(engine, adapter.RetileCheckpointEngine)
    parameters = shards(mesh) if rank < TRAINERS else {}
    for step in range(2):
        metadata = [None] * dist.get_world_size()
        dist.all_gather_object(metadata, engine.prepare())
        sides = registry.get("retile").build_topology(TRAINERS, SERVERS, metadata)
        arguments = sides[0] if rank < TRAINERS else sides[1]
        place = rank if rank < TRAINERS else rank - TRAINERS
        engine.init_process_group(**{key: values[place] for key, values in arguments.items()})
        weights = checkpoint(step)
        if rank < TRAINERS:
            load(parameters, step)
            mixed = [
                (name, weights[name] if i % 3 == 0 else weight) for i, (name, weight) in enumerate(parameters.items())
            ]
            asyncio.run(engine.send_weights(iter(mixed), global_steps=step))
        else:
            asyncio.run(_receive(engine, weights))
        engine.finalize()


async def _receive(engine, weights):
    received = []
    async for name, weight in engine.receive_weights():
        assert torch.equal(weight, weights[name].to(torch.bfloat16)), name
        received.append(name)
    assert received == list(weights)


CASES = {"vllm": vllm_workers_load_what_trainers_have, "verl": verl_rollouts_get_what_actors_have}

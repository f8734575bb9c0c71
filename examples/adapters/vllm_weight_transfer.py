"""vLLM's weight transfer by retile: each worker receives what its loader loads, straight from the trainers' shards.

Importing this registers the backend "retile" on both sides. Workers import it as a plugin of vLLM's, with
WeightTransferConfig(backend="retile"). Trainers call, on every rank:

    engine = WeightTransferTrainerFactory.trainer_init(
        RetileTrainerInitInfo(rank=rank, address=host, port=29600, trainers=8, world_size=12),
        client=client,                # of vLLM's: HTTP, Ray or your own
        source=ShardSource(model),    # DTensors, which are not gathered
    )
    engine.send_weights()             # after every step

The model's loader is recorded once, at the first update. Weights are in the memory of the host on both sides.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import ClassVar

import torch
from joined_worlds import JoinedWorlds
from vllm.distributed.weight_transfer.base import (
    ModuleSource,
    TrainerInitInfo,
    TrainerWeightTransferEngine,
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory, WeightTransferTrainerFactory

import retile.torch

BACKEND = "retile"


@dataclass
class RetileInitInfo(WeightTransferInitInfo):
    """Where trainers and workers meet. Trainers are ranks 0, 1, …, and workers come after them."""

    address: str
    port: int
    trainers: int
    world_size: int
    max_bytes: int = 256 << 20


@dataclass
class RetileUpdateInfo(WeightTransferUpdateInfo):
    """Nothing: names, shapes and types are exchanged by the transfer."""


class RetileEngine(WeightTransferEngine[RetileInitInfo, RetileUpdateInfo]):
    """A worker's side."""

    init_info_cls, update_info_cls = RetileInitInfo, RetileUpdateInfo
    _transfer = None
    _is_planned = False

    def init_transfer_engine(self, init_info):
        parallel = self.parallel_config
        worker = parallel.data_parallel_index * parallel.world_size + parallel.rank
        rank = init_info.trainers + worker
        group = JoinedWorlds(init_info.address, init_info.port, rank, init_info.world_size)
        self._transfer = retile.torch.Transfer(group=group, max_bytes=init_info.max_bytes, verify="crc32")

    def start_weight_update(self):
        pass

    def finish_weight_update(self):
        pass

    def update_weights(self, update_info):
        """As in the base class, which then waits for an accelerator: what was received is in the memory of the host."""
        self.receive_weights(self.parse_update_info(update_info))

    def receive_weights(self, update_info):
        if not self._is_planned:
            with self._transfer.record(self.model) as weights:
                self.model.load_weights(weights)
            self._transfer.commit()
            self._is_planned = True
        self._transfer.start().wait()

    def shutdown(self):
        self._transfer = None


class ShardSource(ModuleSource):
    """The parameters of a model as this rank has them."""

    def shards(self):
        return self._module.named_parameters()


@dataclass
class RetileTrainerInitInfo(TrainerInitInfo):
    backend: ClassVar[str] = BACKEND

    address: str
    port: int
    trainers: int
    world_size: int
    max_bytes: int = 256 << 20
    dtype: torch.dtype | None = None  # what weights are converted to while they are packed


class RetileTrainerEngine(TrainerWeightTransferEngine[RetileTrainerInitInfo]):
    """A trainer's side. Rank 0 tells the workers what to do while all trainers send."""

    init_info_cls = RetileTrainerInitInfo

    @classmethod
    def trainer_init(cls, init_info, *, client, source=None):
        if not isinstance(source, ShardSource):
            raise ValueError("source is a ShardSource: retile sends shards, and gathers nothing")
        engine = cls(client=client, source=source, is_sender=init_info.is_sender)
        size, cap = init_info.world_size, init_info.max_bytes
        workers = RetileInitInfo(init_info.address, init_info.port, init_info.trainers, size, cap)
        group = engine._beside(
            lambda: client.init_weight_transfer_engine(asdict(workers)),
            lambda: JoinedWorlds(init_info.address, init_info.port, init_info.rank, size),
        )
        engine._transfer = retile.torch.Transfer(group=group, max_bytes=cap, verify="crc32")
        engine._transfer.add_sources(source.shards(), dtype=init_info.dtype)
        engine._is_planned = False
        return engine

    def send_weights(self):
        self._beside(self._tell, self._send)

    def _tell(self):
        self.client.start_weight_update()
        self.client.update_weights({})
        self.client.finish_weight_update()

    def _send(self):
        if not self._is_planned:
            self._transfer.commit()
            self._is_planned = True
        self._transfer.start().wait()

    def _beside(self, tell, act):
        """The result of `act`, while rank 0 waits for the workers in another thread."""
        with ThreadPoolExecutor(1) as threads:
            told = threads.submit(tell if self.is_sender else lambda: None)
            result = act()
            told.result()
        return result


WeightTransferEngineFactory.register_engine(BACKEND, RetileEngine)
WeightTransferTrainerFactory.register_engine(BACKEND, RetileTrainerEngine)

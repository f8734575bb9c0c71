"""verl's checkpoint engine by retile: all actors share the sending, in buckets of a bounded size.

Importing this registers the backend "retile": set `checkpoint_engine.custom_backend_module` to this module and
`checkpoint_engine.backend` to retile. Actors may yield DTensors, of which each sends its own part, or whole tensors. Weights
are in the memory of the host on both sides, `bucket_size` bytes of them at a time, and as many are staged at most.
"""

import asyncio
import socket

import torch
import torch.distributed as dist
from joined_worlds import TIME_LIMIT, JoinedWorlds
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry

import retile.torch


@CheckpointEngineRegistry.register("retile")
class RetileCheckpointEngine(CheckpointEngine):
    def __init__(self, bucket_size, is_master=False, rollout_dtype=torch.bfloat16):
        self.bucket_size, self.is_master, self.rollout_dtype = bucket_size, is_master, rollout_dtype
        self._store, self._group = None, None

    def prepare(self):
        """Where all meet: the master, which is the first actor, opens a store at a free port."""
        if not self.is_master:
            return {}
        if self._store is None:
            self._store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False, timeout=TIME_LIMIT)
        return {"address": socket.gethostbyname(socket.gethostname()), "port": self._store.port}

    @classmethod
    def build_topology(cls, actor_wg_world_size, rollout_world_size, metadata):
        size = actor_wg_world_size + rollout_world_size

        def arguments(ranks):
            shared = {"size": size, "address": metadata[0]["address"], "port": metadata[0]["port"]}
            return {"rank": list(ranks)} | {key: [value] * len(ranks) for key, value in shared.items()}

        return arguments(range(actor_wg_world_size)), arguments(range(actor_wg_world_size, size))

    def init_process_group(self, rank, size, address, port):
        if self._group is None:
            self._group = JoinedWorlds(address, port, rank, size, self._store)

    def finalize(self):
        """Nothing is kept between steps but the group."""

    async def send_weights(self, weights, global_steps=None):
        bucket, length = [], 0
        for name, weight in weights:
            if bucket and length + self._bytes_of(weight) > self.bucket_size:
                await self._send(bucket)
                bucket, length = [], 0
            bucket.append((name, weight))
            length += self._bytes_of(weight)
        if bucket:
            await self._send(bucket)
        await self._send([])  # which says that there are no more

    async def _send(self, bucket):
        transfer = self._transfer()
        for name, weight in bucket:
            transfer.add_source(name, weight, dtype=self._type_of(weight))
        await asyncio.to_thread(_moved, transfer)

    async def receive_weights(self, global_steps=None):
        """Each bucket is in memory until the next one is asked for."""
        while True:
            transfer = self._transfer()
            with transfer.record(torch.nn.Module()) as offered:
                pass  # no loader: what actors have, as tensors without data
            bucket = {name: torch.empty_like(weight, device="cpu") for name, weight in offered}
            transfer.add_targets(bucket)
            await asyncio.to_thread(_moved, transfer)
            if not bucket:
                return
            for name, weight in bucket.items():
                yield name, weight

    def _transfer(self):
        return retile.torch.Transfer(group=self._group, max_bytes=self.bucket_size, verify="crc32")

    def _type_of(self, weight):
        return self.rollout_dtype if weight.is_floating_point() else None

    def _bytes_of(self, weight):
        """Of the whole tensor, as it is received: the same on all actors."""
        return weight.numel() * (self._type_of(weight) or weight.dtype).itemsize


def _moved(transfer):
    transfer.commit()
    transfer.start().wait()

"""A group of processes that have no process group in common: trainers and servers, each side with a world of its own.

They meet at a store of PyTorch's, and send each other messages over gloo. `retile.torch.Transfer(group=…)` takes it.
"""

import datetime
import pickle

import torch
import torch.distributed as dist

TIME_LIMIT = datetime.timedelta(minutes=5)


class JoinedWorlds:
    """One process of such a group. Rank 0 has the store, at `port` of its host, or has opened it and hands it in."""

    def __init__(self, address, port, rank, size, store=None):
        self.rank, self.size = rank, size
        if store is None:
            store = dist.TCPStore(address, port, is_master=rank == 0, wait_for_workers=False, timeout=TIME_LIMIT)
        self._values = dist.PrefixStore("values", store)
        self._messages = dist.ProcessGroupGloo(dist.PrefixStore("messages", store), rank, size, TIME_LIMIT)
        self._calls = 0

    def gather(self, value):
        self._calls += 1
        self._values.set(f"{self._calls}/{self.rank}", pickle.dumps(value))
        values = [pickle.loads(self._values.get(f"{self._calls}/{rank}")) for rank in range(self.size)]
        self._values.delete_key(f"{self._calls - 1}/{self.rank}")  # all ranks are in this call, and have read it
        return values

    def most(self, number):
        return max(self.gather(number))

    def send(self, message, peer):
        return self._messages.send([torch.frombuffer(message, dtype=torch.uint8)], peer, 0)

    def receive(self, message, peer):
        return self._messages.recv([torch.frombuffer(message, dtype=torch.uint8)], peer, 0)

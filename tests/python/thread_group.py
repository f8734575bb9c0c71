"""Ranks that are threads of this process, and send each other messages through queues: a group for transfers."""

import queue
import threading

import retile


class ThreadGroup:
    """One rank of such a group."""

    def __init__(self, rank, shared):
        self.rank, self.size, self._shared = rank, len(shared.values), shared

    def gather(self, value):
        self._shared.values[self.rank] = value
        self._shared.barrier.wait(30)
        values = list(self._shared.values)
        self._shared.barrier.wait(30)
        return values

    def most(self, number):
        return max(self.gather(number))

    def send(self, message, peer):
        self._shared.queues[self.rank, peer].put(bytes(message))
        return _Sent()

    def receive(self, message, peer):
        return _Received(message, self._shared.queues[peer, self.rank])


class _Sent:
    def wait(self):
        pass


class _Received:
    def __init__(self, message, arriving):
        self._message, self._arriving = message, arriving

    def wait(self):
        came = self._arriving.get(timeout=30)
        assert len(came) <= len(self._message)
        self._message[: len(came)] = came


class _Shared:
    def __init__(self, size):
        self.values = [None] * size
        self.barrier = threading.Barrier(size)
        self.queues = {(i, j): queue.Queue() for i in range(size) for j in range(size)}


def on_ranks(size, action):
    """What action(group) returns or raises on each rank."""
    shared = _Shared(size)
    results = [None] * size

    def run(rank):
        try:
            results[rank] = action(ThreadGroup(rank, shared))
        except (retile.InputError, RuntimeError) as error:
            results[rank] = error
        except BaseException as error:  # pytest's own failures are no Exceptions
            results[rank] = error
            shared.barrier.abort()  # nobody waits for it

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def everywhere(size, action):
    """The same, with what a rank raised raised here."""
    results = on_ranks(size, action)
    errors = [result for result in results if isinstance(result, BaseException)]
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    return results


def refusal(size, action):
    """What every rank is told, which must be the same."""
    results = on_ranks(size, action)
    assert all(isinstance(result, Exception) for result in results), results
    told = {str(result) for result in results}
    assert len(told) == 1, told
    return told.pop()

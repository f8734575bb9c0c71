"""Ranks that are processes, forked from this one, and send each other messages through sockets: a group for transfers."""

import concurrent.futures
import multiprocessing
import pickle
import socket
import struct
import traceback


class ForkedGroup:
    """One rank of such a group. A rank that dies closes its sockets, which raises on those that wait for it."""

    def __init__(self, rank, sockets):
        self.rank, self.size, self._sockets = rank, len(sockets), sockets
        self._senders = [concurrent.futures.ThreadPoolExecutor(1) for _ in sockets]

    def gather(self, value):
        sent = [self.send(memoryview(pickle.dumps(value)), peer) for peer in range(self.size) if peer != self.rank]
        values = [value if peer == self.rank else pickle.loads(self._receive(None, peer)) for peer in range(self.size)]
        for request in sent:
            request.wait()
        return values

    def most(self, number):
        return max(self.gather(number))

    def send(self, message, peer):
        return _Request(self._senders[peer].submit(self._send, message, peer).result)

    def receive(self, message, peer):
        return _Request(lambda: self._receive(message, peer))

    def _send(self, message, peer):
        self._sockets[peer].sendall(struct.pack("q", len(message)))
        self._sockets[peer].sendall(message)

    def _receive(self, memory, peer):
        (length,) = struct.unpack("q", self._filled(memoryview(bytearray(8)), peer))
        return self._filled(memoryview(bytearray(length)) if memory is None else memory[:length], peer)

    def _filled(self, memory, peer):
        done = 0
        while done < len(memory):
            count = self._sockets[peer].recv_into(memory[done:])
            if count == 0:
                raise ConnectionError(f"rank {peer} is gone")
            done += count
        return memory


class _Request:
    def __init__(self, wait):
        self.wait = wait


def on_forked_ranks(size, action):
    """What action(group) returns on each rank, or the exception that it raised; None for ranks that died."""
    pairs = {(i, j): socket.socketpair() for i in range(size) for j in range(i)}
    answers = [multiprocessing.Pipe(False) for _ in range(size)]

    def run(rank):
        own = [None] * size
        for (i, j), (of_i, of_j) in pairs.items():
            for owner, peer, end in ((i, j, of_i), (j, i, of_j)):
                if owner == rank:
                    own[peer] = end
                else:
                    end.close()
        try:
            result = action(ForkedGroup(rank, own))
        except Exception as error:
            result = error
            if not isinstance(error, (RuntimeError, OSError)):
                result = AssertionError(traceback.format_exc())
        answers[rank][1].send(result)

    processes = [multiprocessing.get_context("fork").Process(target=run, args=(rank,)) for rank in range(size)]
    for process in processes:
        process.start()
    for ends in pairs.values():
        for end in ends:
            end.close()
    results = []
    for receiving, sending in answers:
        sending.close()
        try:
            results.append(receiving.recv() if receiving.poll(60) else TimeoutError("a rank waits"))
        except EOFError:
            results.append(None)
    for process in processes:
        process.join(5)
        process.kill()
    return results


def everywhere(size, action):
    """The same, with what a rank raised raised here."""
    results = on_forked_ranks(size, action)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results

"""Processes that do a peer's work, so that a crash or a hang of its libraries costs one problem and not the run."""

import multiprocessing
import multiprocessing.connection
import signal
import time
import traceback


class Unable(Exception):
    """The peer cannot do this problem; the message says why. Raised alike by all of its processes."""


class WorkerFailure(Exception):
    """A process of the peer failed, crashed or hung; all of them have been ended."""


def _serve(make_worker, rank, count, connection):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    try:
        worker = make_worker(rank, count)
        connection.send(("done", None))
        while True:
            method, *arguments = connection.recv()
            try:
                connection.send(("done", getattr(worker, method)(*arguments)))
            except Unable as error:
                connection.send(("unable", str(error)))
    except EOFError:
        pass  # the parent is done
    except Exception as error:
        line = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
        connection.send(("failed", line))


class Workers:
    """Some processes, each with an object that make_worker(rank, count) gives; they are started by spawning."""

    def __init__(self, make_worker, count, timeout):
        self.timeout = timeout
        self.processes, self.connections = [], []
        context = multiprocessing.get_context("spawn")
        for rank in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(make_worker, rank, count, theirs), daemon=True)
            process.start()
            theirs.close()
            self.processes.append(process)
            self.connections.append(ours)
        try:
            self._collect()
        except Unable as error:
            raise WorkerFailure(str(error)) from error

    def count(self):
        """0 after a failure."""
        return len(self.processes)

    def call(self, method, *arguments):
        """What the method gives on each process, in order. Raises Unable, or WorkerFailure."""
        for connection in self.connections:
            connection.send((method, *arguments))
        return self._collect()

    def _collect(self):
        replies = {}
        deadline = time.monotonic() + self.timeout
        while len(replies) < len(self.connections):
            waiting = [connection for connection in self.connections if connection not in replies]
            ready = multiprocessing.connection.wait(waiting, timeout=max(0, deadline - time.monotonic()))
            if not ready:
                self._fail(f"no answer within {self.timeout:.0f} s")
            for connection in ready:
                replies[connection] = self._receive(connection)
        answers = [replies[connection] for connection in self.connections]
        for kind, value in answers:
            if kind == "unable":
                raise Unable(value)
        return [value for _, value in answers]

    def _receive(self, connection):
        try:
            kind, value = connection.recv()
        except (EOFError, ConnectionError):
            process = self.processes[self.connections.index(connection)]
            process.join(self.timeout)
            self._fail(f"its process ended with status {process.exitcode}")
        if kind == "failed":
            self._fail(value)
        return kind, value

    def _fail(self, reason):
        self.close()
        raise WorkerFailure(reason)

    def close(self):
        for connection in self.connections:
            connection.close()
        for process in self.processes:
            process.kill()
            process.join()
        self.processes, self.connections = [], []

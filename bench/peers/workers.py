"""Processes that do a peer's work, so that a crash or a hang of its libraries costs one problem and not the run."""

import contextlib
import multiprocessing
import multiprocessing.connection
import signal
import tempfile
import time
import traceback


class Unable(Exception):
    """The peer cannot do this problem; the message says why. All of its processes raise it alike, and go on."""


class WorkerFailure(Exception):
    """A process of the peer failed, crashed or hung; all of them have been ended."""


def _answer(function, *arguments):
    try:
        return "done", function(*arguments)
    except Unable as error:
        return "unable", str(error)
    except Exception as error:
        return "failed", traceback.format_exception_only(error)[-1].strip().splitlines()[0]


def _serve(make_worker, rank, count, meeting, connection):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    with contextlib.suppress(EOFError, ConnectionError):  # the parent is done with us
        kind, worker = _answer(make_worker, rank, count, meeting)
        connection.send((kind, None if kind == "done" else worker))
        while kind != "failed":
            method, *arguments = connection.recv()
            kind, value = _answer(getattr(worker, method), *arguments)
            connection.send((kind, value))


class Workers:
    """Some processes, each with an object that make_worker(rank, count, meeting) gives, where meeting is the path of a
    file, not there yet, by which they may find each other. They are spawned: none inherits what the others loaded."""

    def __init__(self, make_worker, count, timeout):
        self.timeout = timeout
        self.folder = tempfile.TemporaryDirectory()
        self.processes, self.connections = [], []
        context = multiprocessing.get_context("spawn")
        for rank in range(count):
            ours, theirs = context.Pipe()
            arguments = (make_worker, rank, count, f"{self.folder.name}/meeting", theirs)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self.processes.append(process)
            self.connections.append(ours)
        self._collect()

    def count(self):
        """0 after a failure."""
        return len(self.processes)

    def call(self, method, *arguments):
        """What the method gives on each process, in order. Raises Unable, or WorkerFailure."""
        for connection in self.connections:
            with contextlib.suppress(ConnectionError):  # receiving will tell of a process that has ended
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
        self.folder.cleanup()

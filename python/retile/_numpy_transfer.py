"""Transfers of whole models of NumPy arrays, between the ranks of a communicator of mpi4py or of any other group."""

from typing import Any

from retile._elements import element_type
from retile._errors import InputError
from retile._numpy import array_faults
from retile._retile import Machine
from retile._transfer import Transfer as _Transfer
from retile._transfer_claims import Memory
from retile._transfer_work import Group

TAG = 25713  # of messages; MPI allows at least 32767


class _Communicator:
    """A communicator of mpi4py as a group."""

    def __init__(self, comm: Any):
        from mpi4py import MPI

        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise InputError("MPI was started without MPI_THREAD_MULTIPLE, and messages are carried by a thread")
        self._comm, self._kind, self._largest = comm, MPI.BYTE, MPI.MAX
        self.rank, self.size = comm.Get_rank(), comm.Get_size()

    def gather(self, value: Any) -> list[Any]:
        return self._comm.allgather(value)

    def most(self, number: int) -> int:
        return self._comm.allreduce(number, self._largest)

    def send(self, message: memoryview, peer: int) -> Any:
        return self._comm.Isend([message, self._kind], peer, TAG)

    def receive(self, message: memoryview, peer: int) -> Any:
        return self._comm.Irecv([message, self._kind], peer, TAG)


class Transfer(_Transfer):
    """Moves the arrays of a whole model between ranks, within a cap on what a rank holds beside them.

    Every rank adds the arrays that it has and those that it wants, each with its layout over all ranks, with its box,
    or whole; no rank knows those of others. `commit` compares and plans; `start` moves, as often as it is called.
    `comm` is a communicator of mpi4py, or a group of your own: see `retile._transfer_work.Group`.

        t = retile.Transfer(comm, max_bytes=64 << 20, verify="crc32")
        t.add_sources({"wq": (tile, layout)}, dtype="float16")
        t.add_target("wq", memory, box=((0, 64), (0, 512)))
        print(t.commit())
        work = t.start()
        work.wait()
    """

    def __init__(
        self,
        comm: Any,
        *,
        max_bytes: int | str = 256 << 20,
        verify: str | None = None,
        host: str | None = None,
        machine: Machine | None = None,
        transport: str = "auto",
    ):
        """`host` names this rank's host; the default is the system's name. A `machine` names the hosts of all ranks;
        the plan of `commit` then tells how long the transfer takes on it. With `transport="messages"`, ranks of one
        host send each other what they could read from each other's memory."""
        group: Group = _Communicator(comm) if hasattr(comm, "Get_rank") else comm
        super().__init__(group, max_bytes, verify, host, machine, transport)

    def _memory_of(self, array: Any) -> Memory:
        faults = array_faults(array, "it")
        if faults:
            raise InputError(faults[0])
        return Memory(array.ctypes.data, array.shape, array.strides, array.dtype, array.itemsize)

    def _address_of(self, array: Any) -> int:
        return array.ctypes.data

    def _dtype_of(self, dtype: Any) -> Any:
        import numpy

        element_type(dtype)  # reports an unknown type
        return numpy.dtype(dtype)

    def _tile(self, name: str, array: Any, *arguments: Any) -> Any:
        tile = super()._tile(name, array, *arguments)
        if tile.is_target and not array.flags.writeable:
            raise InputError("it is read-only")
        return tile

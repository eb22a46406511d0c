"""Checkpoints of a running Python program, and ways back to them, for programs that run under `bis run` or `bis record`.

    import bis

    before = bis.checkpoint()
    if before.times < 3 and not work(before.times):
        before.rollback()       # does not return: the program goes on from the checkpoint
    before.discard()

There is nothing to install: this file is all. Where the program does not run under bis, `checkpoint` raises
OSError with errno ENOSYS. What comes back and what does not is in docs/checkpoints.md.
"""

import ctypes
import errno
import os
import platform

__all__ = ["REPLAY", "RETRY", "Checkpoint", "checkpoint"]

#: A way back: all threads go on from the checkpoint, and may take another path.
RETRY = 1
#: A way back: what was done since the checkpoint is executed again, exactly; then the program goes on behind its call.
REPLAY = 2

_CALL = 0x0B150000
_CHECKPOINT, _ROLLBACK, _DISCARD, _HOW = 3, 4, 5, 6

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.syscall.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_long]


def _ask(operation, first, second=0):
    if platform.machine() != "x86_64":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    result = _libc.syscall(_CALL, operation, first, second)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


class Checkpoint:
    """A checkpoint of this process. Made by `checkpoint()`."""

    def __init__(self, handle, times):
        self._handle = handle
        #: How often the process had gone back to it when `checkpoint()` returned.
        self.times = times

    def rollback(self, how=RETRY):
        """Goes back: `checkpoint()` returns again, or, with REPLAY, this call. Raises OSError where that cannot be."""
        _ask(_ROLLBACK, self._handle, how)

    def discard(self):
        """Forgets it, and gives its memory back."""
        _ask(_DISCARD, self._handle)

    @property
    def how(self):
        """In which way the process came back to it last: 0 (it has not), RETRY or REPLAY."""
        return _ask(_HOW, self._handle)


def checkpoint():
    """Keeps the whole process as it is now. Returns again after each way back to it."""
    handle = ctypes.c_uint64()
    times = _ask(_CHECKPOINT, ctypes.addressof(handle))
    return Checkpoint(handle.value, times)

"""The program, warm: one process that has loaded every verb and run none, and a fork of it for each call.

Most of a short command's time goes into its start: Python, and the imports. A test of what a verb says or does pays
for them once a session. Each call is a process of its own all the same, with its own exit status, environment,
folder, signals and files; what it cannot show is the start itself, which `program.fresh` shows.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_NUMBER = struct.Struct("!q")


class Warm:
    """The warm process as its caller sees it: started by the first call, one call at a time, ended by `stop`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def _connected(self, env: Mapping[str, str]) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair()
            with theirs:
                argv = [sys.executable, __file__, str(theirs.fileno())]
                self._process = subprocess.Popen(argv, env=env, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        return self._socket

    def stop(self) -> None:
        """The process ends when nobody can call any more."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()
            self._socket = self._process = None

    def call(
        self, words: Sequence[str], *, env: Mapping[str, str], cwd: Path, stdin: bytes, timeout: float
    ) -> subprocess.CompletedProcess[bytes]:
        """`stillruns WORDS` in a folder. Raises subprocess.TimeoutExpired once the call has been killed."""
        warm = self._connected(env)
        ask = json.dumps({"words": [*words], "env": {**env}, "cwd": str(cwd)}).encode()
        pid = None
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            files[0].write(stdin)
            files[0].seek(0)
            try:
                socket.send_fds(warm, [_NUMBER.pack(len(ask))], [file.fileno() for file in files])
                warm.sendall(ask)
                pid = _number(warm)
                warm.settimeout(timeout)
                status = _number(warm)
                warm.settimeout(None)
            except BaseException as error:  # the next call must not be told how this one ended
                if pid is not None:
                    os.kill(pid, signal.SIGKILL)
                self.stop()
                if isinstance(error, TimeoutError):
                    raise subprocess.TimeoutExpired([*words], timeout) from None
                raise
            out, err = (os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0) for file in files[1:])
        return subprocess.CompletedProcess([*words], os.waitstatus_to_exitcode(status), out, err)


def _number(source: socket.socket) -> int:
    return int(_NUMBER.unpack(_exactly(source, _NUMBER.size))[0])


def _exactly(source: socket.socket, size: int, found: bytes = b"") -> bytes:
    while len(found) < size:
        piece = source.recv(size - len(found))
        if not piece:
            raise RuntimeError("the other side of a warm call has gone; what it said stands above")
        found += piece
    return found


def _load() -> None:
    """Every module of the command line, and with them all that a verb uses."""
    import stillruns.cli

    for module in sorted(Path(stillruns.cli.__file__).parent.glob("*.py")):
        importlib.import_module(f"stillruns.cli.{module.stem}")
    gc.freeze()


def _serve(calls: socket.socket) -> bool:
    """Fork for each call until nobody can call any more. True in a fork, which then is that call."""
    while True:
        head, files, _, _ = socket.recv_fds(calls, _NUMBER.size, 3)
        if not head:
            return False
        size = _NUMBER.unpack(_exactly(calls, _NUMBER.size, head))[0]
        ask = json.loads(_exactly(calls, size))
        pid = os.fork()
        if pid == 0:
            calls.close()
            for number, file in enumerate(files):
                os.dup2(file, number)
                os.close(file)
            os.chdir(ask["cwd"])
            os.environ.clear()
            os.environ.update(ask["env"])
            time.tzset()
            sys.argv = ["stillruns", *ask["words"]]
            return True
        for file in files:
            os.close(file)
        calls.sendall(_NUMBER.pack(pid))
        calls.sendall(_NUMBER.pack(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))
    _load()
    if _serve(socket.socket(fileno=int(sys.argv[1]))):
        from stillruns.cli import main

        main()

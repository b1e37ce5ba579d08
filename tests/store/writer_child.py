"""A process that writes to a store until it is killed: prints one line for every call that returned.

writer_child.py STORE RUN [COUNT]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stillruns.store.opening import open_store


def main() -> None:
    """Put blobs and append records that name them, COUNT times or forever."""
    path, run = Path(sys.argv[1]), sys.argv[2]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else sys.maxsize
    store = open_store(path)
    os.write(1, b"ready\n")
    with store.writer() as writer:
        for number in range(count):
            content = os.urandom(64) * (1 + number % 200)
            if number % 3 == 0:
                file = store.spool(f"t{number}") / "stdout"
                file.write_bytes(content)
                blob = store.put_file(file)
            else:
                blob = store.put_bytes(content)
            evidence = {"id": "s0", "kind": "stdout", "sha256": blob.sha256, "bytes": blob.bytes, "source": "test"}
            record = writer.append(
                "trial_ended",
                run,
                {"number": number, "pad": "x" * (200_000 if number % 6 == 5 else 3000), "evidence": [evidence]},
            )
            os.write(1, f"{record.sha256} {blob.sha256}\n".encode())


if __name__ == "__main__":
    main()

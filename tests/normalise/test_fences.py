"""The promise: of a page in Markdown its code blocks are read, each line at its place; prose and source are not."""

from __future__ import annotations

import pytest

from stillruns.normalise.logs import fences

SEGV = b"Segmentation fault (core dumped)"


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        (b"It said Segmentation fault (core dumped)\n", []),
        (b"- a list\n\n    Segmentation fault (core dumped)\n", []),
        (b"A paragraph\n    Segmentation fault (core dumped)\n", []),
        (b"It said\n\n    Segmentation fault (core dumped)\n", [3]),
        (b"It said\n```\nSegmentation fault (core dumped)\n```\nand\n", [3]),
        (b"1. so\n   ~~~~ console\n   Segmentation fault (core dumped)\n   ~~~\n   x\n   ~~~~\n", [3, 4, 5]),
        (b"> ```text title=x\n> Segmentation fault (core dumped)\n> ```\n", [2]),
        (b"```bash\r\nSegmentation fault (core dumped)\r\n```\r\nit\r\n", [2]),
        (b"```\nSegmentation fault (core dumped)\n", [2, 3]),
        (b"```python\nprint('Segmentation fault (core dumped)')\n```\n", []),
        (b"```python\nTraceback (most recent call last):\nMemoryError\n```\n", [2, 3]),
        (b"```cpp\nGGML_ASSERT(x);\n```\n```\nAborted\n```\n", [5]),
        (b"``` not `a` fence\nSegmentation fault (core dumped)\n", []),
        (b"", []),
    ],
)
def test_what_a_page_quotes(page: bytes, lines: list[int]) -> None:
    """What stands between fences or is indented as a block, by the rules of CommonMark; all other lines are empty."""
    told = page.split(b"\n")
    kept = fences.quoted(page).split(b"\n")
    assert len(kept) == len(told)
    wanted = [line if number in lines else b"" for number, line in enumerate(told, 1)]
    assert kept == wanted

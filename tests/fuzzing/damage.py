"""Ways to damage bytes: of any kind, and of text with lines."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

_NUMBERS = (
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    (1 << 63) - 1,
    (1 << 64) - 1,
)
_WORDS = ("", "-1", "0", "9" * 30, "1e309", "nan", "é" * 40, "\x00", "\r", "\x1b[31m", "\u202e", "[" * 500, "{" * 500)
_DIGITS = re.compile(rb"\d+|0x[0-9a-fA-F]+")


def binary(seeds: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """Up to six changes of one seed, for ever: bits, numbers of 1 to 8 bytes at any place, parts cut out, put in,
    doubled, taken from another seed, and the end cut off."""
    while True:
        data = bytearray(random.choice(seeds))
        for _ in range(random.randrange(7)):
            _one(data, seeds, random)
        yield bytes(data[: 4 << 20])


def _one(data: bytearray, seeds: Sequence[bytes], random: Random) -> None:
    place, length = random.randrange(len(data) + 1), random.choice((1, 2, 4, 8, 16, 64, 4096))
    match random.randrange(8):
        case 0 if data:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        case 1 | 2:
            size = random.choice((1, 2, 4, 8))
            number = random.choice(_NUMBERS) + random.choice((0, 0, -1, 1))
            order = random.choice("<<>")
            data[place : place + size] = struct.pack(f"{order}Q", number % (1 << 64))[
                : size if order == "<" else None
            ][-size:]
        case 3:
            del data[place : place + length]
        case 4:
            data[place:place] = random.randbytes(length)
        case 5:
            data[place:place] = data[place : place + length] * random.choice((1, 2, 100))
        case 6:
            other = random.choice(seeds)
            start = random.randrange(len(other) + 1)
            data[place : place + length] = other[start : start + length]
        case _:
            del data[place:]


def text(seeds: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """Changes of lines and of the numbers in them, with changes of bytes between, for ever."""
    raw = binary(seeds, random)
    while True:
        if random.random() < 0.2:
            yield next(raw)
            continue
        rows = random.choice(seeds).splitlines(keepends=True)
        for _ in range(random.randrange(1, 6)):
            if not rows:
                break
            index = random.randrange(len(rows))
            match random.randrange(6):
                case 0:
                    del rows[index]
                case 1:
                    rows[index:index] = [rows[random.randrange(len(rows))]] * random.choice((1, 2, 300))
                case 2:
                    random.shuffle(rows)
                case 3:
                    rows[index] = _DIGITS.sub(lambda _: random.choice(_WORDS).encode(), rows[index], count=2)
                case 4:
                    place = random.randrange(len(rows[index]) + 1)
                    word = random.choice(_WORDS).encode("utf-8", "surrogatepass")
                    rows[index] = rows[index][:place] + word + rows[index][place:]
                case _:
                    rows[index] = rows[index].rstrip(b"\n") + random.choice(seeds)[:200]
        yield b"".join(rows)


_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1 << 40,
    1 << 70,
    0.5,
    "",
    "x",
    "\ud800",
    "9" * 50,
    [],
    ["x"],
    {},
    {"x": None},
    [[]],
)


def values(seeds: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """JSON of which up to three values have become others, of any type, or are gone, for ever."""
    while True:
        document = json.loads(random.choice(seeds))
        for _ in range(random.randrange(1, 4)):
            _value(document, random)
        yield json.dumps(document).encode()


def _value(node: Any, random: Random) -> None:
    while isinstance(node, (dict, list)) and node:
        key = random.choice(list(node)) if isinstance(node, dict) else random.randrange(len(node))
        if random.random() < 0.25 or not isinstance(node[key], (dict, list)) or not node[key]:
            if random.random() < 0.2:
                del node[key]
            elif isinstance(node[key], str) and random.random() < 0.5:
                node[key] = node[key][: random.randrange(len(node[key]) + 1)] + random.choice(("", "!", "x", "é"))
            else:
                node[key] = random.choice(_VALUES)
            return
        node = node[key]


def noise(seeds: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """Bytes that nobody wrote."""
    while True:
        yield random.randbytes(random.choice((0, 1, 100, 10_000, 200_000)))


def cuts(seeds: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """A head or a tail of a seed, at every byte of every seed, in an order that the seed of chance rotates: a short
    run tries a part, the next run another."""
    places = [(index, at) for index, seed in enumerate(seeds) for at in range(len(seed) + 1)]
    random.shuffle(places)
    for index, at in places:
        yield seeds[index][:at]
        yield seeds[index][at:]


def shuffled(seeds: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """The lines of a seed, or of several, in any order."""
    while True:
        rows = b"".join(random.choices(seeds, k=random.choice((1, 1, 2, 4)))).splitlines(keepends=True)
        random.shuffle(rows)
        yield b"".join(rows)

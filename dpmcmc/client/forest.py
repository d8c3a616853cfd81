"""A forest plot as text for a terminal, and as PNG, without a library for plots."""

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
LETTERS = Path(__file__).with_name("letters.png")  # DejaVu Sans Mono, whose licence is free
FIRST, LAST = 32, 126  # characters in it, side by side
WIDTH, ROW, LEFT, RIGHT, TOP, BOTTOM = 800, 44, 160, 200, 84, 84  # pixels
INK, SOFT, GREEN, RED = (34, 34, 34), (190, 190, 190), (60, 141, 125), (200, 85, 61)
ROOM = 0.06  # of the axis, at its ends
LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class Effect:
    """An interval, its middle, and the true value to compare it with. 1 is no effect."""

    name: str
    low: float
    middle: float
    high: float
    truth: float


def ends(effects: Sequence[Effect]) -> tuple[float, float]:
    """Return both ends of an axis that includes every interval, every true value, and 1."""
    values = [v for e in effects for v in (e.low, e.high, e.truth)] + [1.0]
    margin = ROOM * max(max(values) - min(values), LEAST)
    return min(values) - margin, max(values) + margin


def text(effects: Sequence[Effect], width: int) -> list[str]:
    """Return lines of this width: |--o--| an interval, x the truth, and a line at 1."""
    label = max(len(e.name) for e in effects) + 2
    columns, (low, high) = max(width - label, 20), ends(effects)

    def at(value: float) -> int:
        return round((columns - 1) * (value - low) / (high - low))

    lines = []
    for e in effects:
        marks = [" "] * columns
        marks[at(1.0)] = "┊"
        marks[at(e.low) : at(e.high) + 1] = "─" * (at(e.high) + 1 - at(e.low))
        for value, mark in ((e.low, "├"), (e.high, "┤"), (e.middle, "●"), (e.truth, "x")):
            marks[at(value)] = mark
        lines.append(f"{e.name:<{label}}{''.join(marks)}")
    axis = [" "] * columns
    for value in sorted({low, 1.0, high}):
        tick = f"{value:.3g}"
        start = min(max(at(value) - len(tick) // 2, 0), columns - len(tick))
        axis[start : start + len(tick)] = tick
    return [*lines, " " * label + "".join(axis).rstrip()]


def png(effects: Sequence[Effect], title: str, verdict: Mapping[str, Any] | None) -> bytes:
    """Return the plot as PNG. verdict: of the API's answer; its status stands beside the title."""
    height, (low, high) = TOP + ROW * len(effects) + BOTTOM, ends(effects)
    canvas = np.full((height, WIDTH, 3), 255, np.uint8)
    bottom = height - BOTTOM

    def at(value: float) -> int:
        return LEFT + round((WIDTH - LEFT - RIGHT) * (value - low) / (high - low))

    status = verdict["status"] if verdict else "not judged"
    colour = GREEN if status == "reliable" else RED
    write(canvas, 24, 24, title, INK)
    write(canvas, 24 + 9 * (len(title) + 2), 24, status, colour)
    box(canvas, at(1.0), TOP - 8, at(1.0) + 1, bottom, SOFT)
    box(canvas, LEFT, bottom, WIDTH - RIGHT, bottom + 1, INK)
    for value in sorted({low, 1.0, high}):
        tick = f"{value:.3g}"
        write(canvas, at(value) - 9 * len(tick) // 2, bottom + 8, tick, INK)
    for k, e in enumerate(effects):
        y = TOP + ROW * k + ROW // 2
        write(canvas, 24, y - 9, e.name, INK)
        box(canvas, at(e.low), y - 1, at(e.high), y + 1, colour)
        for end in (e.low, e.high):
            box(canvas, at(end), y - 6, at(end) + 2, y + 6, colour)
        box(canvas, at(e.middle) - 4, y - 4, at(e.middle) + 5, y + 5, colour)
        write(canvas, at(e.truth) - 4, y - 10, "x", INK)
        interval = f"{e.middle:.3f} ({e.low:.3f}-{e.high:.3f})"
        write(canvas, WIDTH - RIGHT + 16, y - 9, interval, INK)
    write(canvas, 24, height - 34, "x: the fit without privacy", INK)
    return encoded(canvas)


def box(canvas: Pixels, left: int, top: int, right: int, bottom: int, colour: Any) -> None:
    """Fill a rectangle, which ends before right and bottom."""
    canvas[top:bottom, left:right] = colour


def write(canvas: Pixels, left: int, top: int, text: str, colour: Any) -> None:
    """Write a text whose upper left corner is at (left, top)."""
    sheet = decoded(LETTERS.read_bytes())
    step = sheet.shape[1] // (LAST + 1 - FIRST)
    for k, character in enumerate(text):
        n = min(max(ord(character), FIRST), LAST) - FIRST
        ink = sheet[:, n * step : (n + 1) * step, None] / 255.0
        part = canvas[top : top + len(sheet), left + k * step : left + (k + 1) * step]
        part[:] = part + (np.array(colour) - part) * ink[: part.shape[0], : part.shape[1]]


def encoded(pixels: Pixels) -> bytes:
    """Return pixels (height, width) of grey or (height, width, 3) of colour as PNG."""
    height, width = pixels.shape[:2]
    kind = 0 if pixels.ndim == 2 else 2
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">2I5B", width, height, 8, kind, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )


def decoded(file: bytes) -> Pixels:
    """Return the pixels (height, width) of a grey PNG file that `encoded` made."""
    width, height = struct.unpack(">2I", file[16:24])
    (size,) = struct.unpack(">I", file[33:37])
    lines = np.frombuffer(zlib.decompress(file[41 : 41 + size]), np.uint8)
    return lines.reshape(height, width + 1)[:, 1:]

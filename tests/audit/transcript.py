"""What a mechanism did, event by event, and the same again on other rows with its answers forced.

A first run is written down: what every noise was drawn for, the whole cells that it was added to,
and what came out. A second run, on a neighbour, gets in the place of noise whatever makes the same
numbers come out. The second run's noise less the first's is by how many cells the replaced row has
moved the answer: all that the event's price rests on. Everything else must then be the same to the
bit: the sizes of cells, what is drawn beside the noise, draws, releases and verdicts.

Noise is handed out as numbers that name its entries, so that an entry that is used twice, changed,
or not at all is seen. Kernels must be interpreted, for the place where noise is added is replaced.
"""

import importlib
import math
import operator
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
from numba import config
from numpy.typing import NDArray

import dpmcmc
from dpmcmc.kernels.arithmetic import rounding, rules
from dpmcmc.privacy import discrete, discrete_laplace
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.privacy.sites import Site, check

Integers = NDArray[np.int64]
GAUSSIAN, LAPLACE, FLIPS = "gaussian", "laplace", "flips"


@dataclass
class Draw:
    """Noise that was drawn at once. events: which event each entry belongs to.

    place: the module of the site, and that which asked for it. scale: the noise's sd (Gaussian) or
    scale (Laplace) in cells. true, out: cells before and after noise. grid: sizes of the cells.
    used: how often each entry was. unseen: answers that nothing depends on, by public numbers.
    """

    kind: str
    site: Site
    place: str
    noise_multiplier: float
    scale: float
    shape: tuple[int, ...]
    events: Integers
    noise: Integers
    true: Integers = field(init=False)
    out: Integers = field(init=False)
    grid: NDArray[np.float64] = field(init=False)
    used: Integers = field(init=False)
    unseen: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        size = len(self.noise)
        self.true, self.out = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.grid, self.used = np.full(size, np.nan), np.zeros(size, np.int64)
        self.unseen = np.zeros(size, np.bool_)


def events_of(site: Site, shape: tuple[int, ...]) -> Integers:
    """Return which event each entry of noise of this shape belongs to, as the site says."""
    size = math.prod(shape)
    if "each step and chain" in site.event:
        return np.arange(size)
    if "each gradient" in site.event:
        return np.arange(size) // shape[-1]
    return np.zeros(size, np.int64)


class Door:
    """Stands where noise is drawn and where it is added. first: the run whose answers are forced.

    faults: what is not as it should be, in words.
    """

    def __init__(self, first: "list[Draw] | None" = None) -> None:
        self.draws: list[Draw] = []
        self.faults: list[str] = []
        self._first, self._starts, self._random = first, [0], SystemRandom()
        self._add, self._gaussian = rounding.noised, discrete.gaussian_noise
        self._laplace, self._flips = discrete_laplace.laplace_noise, discrete_laplace.flips
        self._barker = rules.barker_accepts
        self._last: Any = None  # the draw and the entries that were added last

    def gaussian(self, _: Any, site: Site, z: float, shape: tuple[int, ...]) -> Integers:
        """Stands in the place of discrete.gaussian_noise."""
        scale = discrete.scale_of(z).sd
        draw = self._drawn(GAUSSIAN, site, z, scale, shape, self._gaussian)
        return self._starts[-2] + np.arange(len(draw.noise)).reshape(shape)

    def laplace(self, _: Any, site: Site, z: float, scale: int, shape: tuple[int, ...]) -> "Handed":
        """Stands in the place of discrete_laplace.laplace_noise."""

        def drawn(random: Any, site: Site, z: float, shape: tuple[int, ...]) -> Integers:
            return self._laplace(random, site, z, scale, shape)

        draw = self._drawn(LAPLACE, site, z, float(scale), shape, drawn)
        return Handed(lambda true: self._told(draw, true, 1.0, operator.add))

    def flips(self, _: Any, site: Site, epsilon: float, shape: tuple[int, ...]) -> "Handed":
        """Stands in the place of discrete_laplace.flips."""

        def drawn(random: Any, site: Site, z: float, shape: tuple[int, ...]) -> Integers:
            return self._flips(random, site, 1.0 / z, shape).astype(np.int64)

        draw = self._drawn(FLIPS, site, 1.0 / epsilon, 1.0, shape, drawn)
        return Handed(lambda true: self._told(draw, true, 1.0, operator.xor).astype(np.bool_))

    def noised(self, total: Any, grid: Any, noise: Any) -> Any:
        """Stands in the place of rounding.noised. noise: names of entries."""
        names = np.asarray(noise)
        number = int(np.searchsorted(self._starts, int(names.flat[0]), side="right")) - 1
        if number >= len(self.draws):
            self._fault("noise is added that was not drawn")
            return self._add(total, grid, noise)
        draw, at = self.draws[number], names - self._starts[number]
        if (at < 0).any() or (at >= len(draw.noise)).any():
            self._fault("noise is added that was drawn for something else")
            return self._add(total, grid, noise)
        true = np.rint(self._add(total, grid, np.zeros_like(names)) / grid).astype(np.int64)
        np.add.at(draw.used, at, 1)
        self._last = draw, at
        draw.true[at], draw.grid[at] = true, grid
        if self._first is None:
            draw.out[at] = true + draw.noise[at]
            answer = self._add(total, grid, draw.noise[at])
            if not np.array_equal(answer, np.asarray(grid) * draw.out[at]):
                self._fault(f"{draw.site.caller} does not add its noise in full")
            return answer
        first = self._first[number]
        if not np.array_equal(draw.grid[at], first.grid[at]):
            self._fault(f"{draw.site.caller} has cells whose size depends on rows")
        draw.out[at] = first.out[at]
        return grid * draw.out[at]

    def barker(self, rule: rules.Rule, seen: Any, widths: Any, *others: Any) -> Any:
        """Stands in the place of rules.barker_accepts, which refuses wide moves unseen."""
        accepted = self._barker(rule, seen, widths, *others)
        if not widths <= rule.widest:
            draw, at = self._last
            draw.unseen[at] = True
            if accepted:
                self._fault(f"{draw.site.caller} takes a move that its noise does not cover")
        return accepted

    def _told(self, draw: Draw, true: Any, grid: float, way: Callable[..., Any]) -> Any:
        """Note whole numbers that get noise outside of `noised`, and return what comes out."""
        flat = np.asarray(true).astype(np.int64).ravel()
        draw.used += 1
        draw.true[:], draw.grid[:] = flat, grid
        if self._first is None:
            draw.out[:] = way(draw.true, draw.noise)
        else:
            draw.out[:] = self._first[len(self.draws) - 1].out
        return draw.out.reshape(draw.shape)

    def _drawn(
        self,
        kind: str,
        site: Site,
        z: float,
        scale: float,
        shape: tuple[int, ...],
        real: Callable[..., Integers],
    ) -> Draw:
        number, events = len(self.draws), events_of(site, shape)
        if self._first is None:
            noise = real(self._random, site, z, shape).ravel()
        else:
            check(site, z)
            noise = np.zeros(math.prod(shape), np.int64)
            same = number < len(self._first)
            same = same and _public(self._first[number]) == (kind, site, z, shape)
            if not same:
                raise DifferentError(f"{site.caller} draws noise that depends on rows")
        draw = Draw(kind, site, _place(site), z, scale, shape, events, noise)
        self.draws.append(draw)
        self._starts.append(self._starts[-1] + len(noise))
        return draw

    def _fault(self, found: str) -> None:
        if found not in self.faults:
            self.faults.append(found)

    def closed(self) -> list[str]:
        """Return what was not as it should be, after a run."""
        for draw in self.draws:
            if not (draw.used == 1).all():
                self._fault(f"{draw.site.caller} uses noise twice, or not at all")
        if self._first is not None and len(self.draws) < len(self._first):
            self._fault("how much noise is drawn depends on rows")
        return self.faults


class DifferentError(Exception):
    """A neighbour asked for other noise: what it did depends on rows beyond the answers."""


def _place(site: Site) -> str:
    """Return where noise is drawn, and for which release where that is in another module."""
    module, _, name = site.caller.partition(":")
    frame: Any = sys._getframe()
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_qualname) == (module, name):
            break
        frame = frame.f_back
    asked = module if frame is None else frame.f_back.f_globals["__name__"]
    own = site.caller.removeprefix("dpmcmc.")
    if asked == module or not asked.startswith("dpmcmc.releases."):
        return own
    return f"{own} for {asked.removeprefix('dpmcmc.')}"


def _public(draw: Draw) -> tuple[str, Site, float, tuple[int, ...]]:
    return draw.kind, draw.site, draw.noise_multiplier, draw.shape


class Handed:
    """Noise that whole numbers meet with + or ^: what comes out is forced where it is added."""

    __array_ufunc__ = None

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self._answer = answer

    def __radd__(self, true: Any) -> Any:
        return self._answer(true)

    def __rxor__(self, true: Any) -> Any:
        return self._answer(true)


@contextmanager
def standing(door: Door) -> Iterator[None]:
    """Noise is drawn and added by this door meanwhile."""
    if not config.DISABLE_JIT:
        raise RuntimeError("a transcript needs interpreted kernels: set NUMBA_DISABLE_JIT=1")
    _import_all()
    places = {
        discrete.gaussian_noise: door.gaussian,
        discrete_laplace.laplace_noise: door.laplace,
        discrete_laplace.flips: door.flips,
        rounding.noised: door.noised,
        rules.barker_accepts: door.barker,
    }
    with ExitStack() as stack:
        for module in [m for n, m in list(sys.modules.items()) if n.startswith("dpmcmc.") and m]:
            for name, value in list(vars(module).items()):
                if callable(value) and not isinstance(value, type) and _in(value, places):
                    stack.enter_context(mock.patch.object(module, name, places[value]))
        yield


@cache
def _import_all() -> None:
    """Import every module of the core: one that came later would have the real functions."""
    for found in pkgutil.walk_packages(dpmcmc.__path__, "dpmcmc."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)


def _in(value: Any, places: dict[Any, Any]) -> bool:
    try:
        return value in places
    except TypeError:
        return False

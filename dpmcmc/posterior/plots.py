"""Figures of draws. matplotlib is imported only when a figure is drawn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.errors import SpecError, near

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
PlotKind = Literal["forest", "trace", "rank", "density", "pair", "prior", "curve"]
INK, SOFT, FAINT, WARNING = "#1f4e79", "#7fa6c9", "#d5dde5", "#b3261e"
MOST_ROWS = 12  # of panels, where nobody named the parameters
RANK_BINS, POINTS, GRID = 20, 1500, 256
WIDTH = 7.0  # inches
FOREST = (0.05, 0.25, 0.5, 0.75, 0.95)
INTERVALS = "90 % (thin) and 50 % (thick) interval, median"
LEAST_SHARE = 0.02  # of an axis, that an interval takes to be seen
MOST_RANGES = 2.0  # of the kept draws, that a trace shows of a warm-up beyond them
LONGEST_LABEL = 16


@dataclass(frozen=True, slots=True)
class PlotData:
    """The data of a figure. draws: (chain, draw, parameter) with warm-up. mark: of the verdict.

    priors: by parameter, with kind, loc, scale, df, lower and upper. curves: by covariate, values
    and (5, values) quantiles of the mean response, those of FOREST. response: its name, for
    their axis.
    """

    draws: Floats
    names: tuple[str, ...]
    num_warmup: int
    mark: str
    priors: Mapping[str, Any]
    curves: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict)
    response: str = ""

    def after_warmup(self, k: int) -> Floats:
        """Return the draws of one parameter after the warm-up, (chain, draw)."""
        return self.draws[:, self.num_warmup :, k]


def drawn(kind: PlotKind, shown: PlotData) -> "Figure":
    """Return a figure. Raises SpecError on another kind, ImportError without matplotlib."""
    if not isinstance(kind, str) or kind not in KINDS:
        message = f"must be one of {', '.join(KINDS)}{near(str(kind), KINDS)}"
        raise SpecError("/kind", message)
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'dpmcmc[plots]'") from None
    if kind not in ("forest", "curve"):
        count = MOST_ROWS // 2 if kind == "pair" else MOST_ROWS
        names = shown.names[:count]
        shown = PlotData(
            shown.draws[..., :count], names, shown.num_warmup, shown.mark, shown.priors
        )
    figure = Figure(layout="constrained")
    KINDS[kind](figure, shown)
    if shown.mark:
        figure.suptitle("unreliable: do not use these numbers", color=WARNING, weight="bold")
    return figure


def _forest(figure: "Figure", shown: PlotData) -> None:
    """Draw the intervals of all parameters on one axis or on one each."""
    count = len(shown.names)
    quantiles = np.array([np.quantile(shown.after_warmup(k), FOREST) for k in range(count)])
    if not _comparable(quantiles):
        for k, axes in _rows(figure, shown, height=0.75):
            _interval(axes, quantiles[k], 0)
            axes.set_yticks([])
        axes.set_xlabel(f"each on a scale of its own: {INTERVALS}")
        return
    figure.set_size_inches(WIDTH, 1.0 + 0.32 * count)
    axes = figure.add_subplot()
    for k in range(count):
        _interval(axes, quantiles[k], k)
    axes.axvline(0.0, color=SOFT, linestyle=":", linewidth=1.0)
    axes.set_yticks(range(count), shown.names)
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_xlabel(INTERVALS)
    _plain(axes)


def _comparable(quantiles: Floats) -> bool:
    """Return whether most intervals (parameter, quantile) are visible on one axis."""
    low, high = quantiles.min(), quantiles.max()
    widths = quantiles[:, -1] - quantiles[:, 0]
    return bool(np.sort(widths)[(len(widths) - 1) // 2] >= LEAST_SHARE * max(high - low, 1e-300))


def _interval(axes: "Axes", quantiles: Floats, height: int) -> None:
    """Draw one interval with its median."""
    low, inner, middle, outer, high = quantiles
    heights = (height, height)
    axes.plot((low, high), heights, color=INK, linewidth=1.2)
    axes.plot((inner, outer), heights, color=INK, linewidth=4.0, solid_capstyle="butt")
    axes.plot(middle, height, "o", color="white", markeredgecolor=INK, markersize=5.0)


def _trace(figure: "Figure", shown: PlotData) -> None:
    """Draw the trace and density of each parameter."""
    for k, axes in _rows(figure, shown):
        for chain in shown.draws[:, :, k]:
            axes.plot(chain, linewidth=0.5, alpha=0.8)
        axes.set_ylim(*_ends(shown.draws[:, :, k], shown.after_warmup(k)))
        if shown.num_warmup:
            axes.axvspan(0, shown.num_warmup, color=FAINT, linewidth=0.0)
    axes.set_xlabel("draw; shaded: warm-up" if shown.num_warmup else "draw")


def _ends(draws: Floats, kept: Floats) -> tuple[float, float]:
    """Return the y limits of a trace: all draws after warm-up, and the nearer warm-up draws."""
    reach = MOST_RANGES * max(float(np.ptp(kept)), 1e-12 * float(np.abs(kept).max()), 1e-300)
    low = max(float(draws.min()), float(kept.min()) - reach)
    high = min(float(draws.max()), float(kept.max()) + reach)
    margin = 0.05 * max(high - low, reach)
    return low - margin, high + margin


def _rank(figure: "Figure", shown: PlotData) -> None:
    """Draw rank histograms by chain."""
    for k, axes in _rows(figure, shown):
        draws = shown.after_warmup(k)
        ranks = draws.ravel().argsort().argsort().reshape(draws.shape)
        edges = np.linspace(0, draws.size, RANK_BINS + 1)
        for chain in ranks:
            axes.stairs(np.histogram(chain, edges)[0], edges, linewidth=1.2)
        axes.axhline(draws.shape[1] / RANK_BINS, color=SOFT, linestyle=":", linewidth=1.0)
        axes.set_ylim(bottom=0.0)
        axes.set_xticks([])
    axes.set_xlabel("rank among all draws: level where chains agree")


def _density(figure: "Figure", shown: PlotData) -> None:
    """Draw the density of each parameter."""
    for k, axes in _rows(figure, shown):
        for chain in shown.after_warmup(k):
            axes.plot(*_smoothed(chain), linewidth=1.2)
        axes.set_yticks([])


def _prior(figure: "Figure", shown: PlotData) -> None:
    """Draw prior and posterior densities of each parameter."""
    for k, axes in _rows(figure, shown):
        grid, height = _smoothed(shown.after_warmup(k).ravel())
        axes.fill_between(grid, height, color=SOFT, alpha=0.5, linewidth=0.0)
        axes.plot(grid, height, color=INK, linewidth=1.2, label="posterior")
        prior = shown.priors.get(shown.names[k])
        if prior is not None:
            axes.plot(
                grid, _prior_density(prior, grid), color=WARNING, linestyle="--", label="prior"
            )
        axes.set_yticks([])
        if k == 0:
            axes.legend(frameon=False, fontsize="small")
    axes.set_xlabel("standardised coefficient")


def _curve(figure: "Figure", shown: PlotData) -> None:
    """Draw the mean response along covariates, with intervals."""
    count = len(shown.curves)
    figure.set_size_inches(WIDTH, 0.4 + 2.4 * count)
    panels = figure.subplots(count, 1, squeeze=False)[:, 0]
    for (name, (at, quantiles)), axes in zip(shown.curves.items(), panels, strict=True):
        low, inner, middle, outer, high = quantiles
        axes.fill_between(at, low, high, color=FAINT, linewidth=0.0)
        axes.fill_between(at, inner, outer, color=SOFT, alpha=0.6, linewidth=0.0)
        axes.plot(at, middle, color=INK, linewidth=1.5)
        axes.set_xlabel(name)
        axes.set_ylabel(f"mean of {shown.response}")
        _plain(axes)
    panels[0].set_title("90 % and 50 % interval, median", loc="left", fontsize="small")


def _pair(figure: "Figure", shown: PlotData) -> None:
    """Draw pairs of parameters against each other."""
    count = len(shown.names)
    figure.set_size_inches(WIDTH, WIDTH)
    grid = figure.subplots(count, count, squeeze=False)
    thin = max(1, shown.after_warmup(0).size // POINTS)
    flat = [shown.after_warmup(k).ravel() for k in range(count)]
    for row in range(count):
        for column in range(count):
            axes = grid[row, column]
            if column > row:
                axes.set_visible(False)
                continue
            if column == row:
                axes.hist(flat[row], 30, color=SOFT)
                axes.set_yticks([])
            else:
                x, y = flat[column][::thin], flat[row][::thin]
                axes.plot(x, y, ".", color=INK, markersize=1.5, alpha=0.4)
            _plain(axes)
            axes.tick_params(labelsize="x-small")
            axes.locator_params(nbins=3)
            axes.tick_params("x", rotation=45)
            if row == count - 1:
                axes.set_xlabel(_short(shown.names[column]), fontsize="x-small")
            else:
                axes.tick_params(labelbottom=False)
            if column == 0 and row:
                axes.set_ylabel(_short(shown.names[row]), fontsize="x-small")
            elif column:
                axes.tick_params(labelleft=False)


KINDS: dict[str, Callable[["Figure", PlotData], None]] = {
    "forest": _forest,
    "trace": _trace,
    "rank": _rank,
    "density": _density,
    "pair": _pair,
    "prior": _prior,
    "curve": _curve,
}


def _short(name: str) -> str:
    """Return a name shortened to LONGEST_LABEL."""
    half = LONGEST_LABEL // 2
    return name if len(name) <= LONGEST_LABEL else f"{name[:half]}…{name[1 - half :]}"


def _rows(figure: "Figure", shown: PlotData, height: float = 1.1) -> "list[tuple[int, Axes]]":
    """Return a panel for each parameter, with its name as title. height: of each, in inches."""
    count = len(shown.names)
    figure.set_size_inches(WIDTH, 0.6 + height * count)
    panels = figure.subplots(count, 1, squeeze=False)[:, 0]
    for name, axes in zip(shown.names, panels, strict=True):
        axes.set_title(name, loc="left", fontsize="small")
        _plain(axes)
    return list(enumerate(panels))


def _plain(axes: "Axes") -> None:
    """Remove the frame and the ticks of an axis that need none."""
    axes.spines[["top", "right"]].set_visible(False)


def _smoothed(draws: Floats) -> tuple[Floats, Floats]:
    """Return a grid and the density of draws on it, by a Gaussian kernel of Silverman's width."""
    spread = max(float(draws.std()), 1e-300)
    width = 0.9 * spread * len(draws) ** -0.2
    grid = np.linspace(draws.min() - 3 * width, draws.max() + 3 * width, GRID)
    counts, edges = np.histogram(draws, np.append(grid, 2 * grid[-1] - grid[-2]))
    step = edges[1] - edges[0]
    reach = np.arange(-GRID, GRID + 1) * step
    kernel = np.exp(-0.5 * (reach / width) ** 2)
    smooth = np.convolve(counts, kernel)[GRID : 2 * GRID]
    return grid, smooth / (smooth.sum() * step)


def _prior_density(prior: Any, grid: Floats) -> Floats:
    """Return a prior's density on the grid, within its bounds."""
    from scipy import stats

    distributions = {"normal": stats.norm, "laplace": stats.laplace, "cauchy": stats.cauchy}
    low = -np.inf if prior.lower is None else prior.lower
    high = np.inf if prior.upper is None else prior.upper
    inside = (grid >= low) & (grid <= high)
    if prior.kind == "uniform":
        width = high - low
        return np.where(inside, 1.0 / width if np.isfinite(width) else np.nan, 0.0)
    distribution = (
        stats.t(prior.df, prior.loc, prior.scale)
        if prior.kind == "student_t"
        else distributions[prior.kind](prior.loc, prior.scale)
    )
    return np.asarray(
        np.where(
            inside, distribution.pdf(grid) / (distribution.cdf(high) - distribution.cdf(low)), 0.0
        )
    )

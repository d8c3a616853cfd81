"""The report of an audit: a table, a plot of claimed against measured, and all numbers as JSON."""

import csv
import json
import math
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from dpmcmc.releases import clips, grouped
from dpmcmc.releases.newton_path import LEAST_CURVE, NOISE
from tests.audit.bounds import CONFIDENCE, FALSE_ALARMS
from tests.audit.cells import Cell
from tests.audit.noise import Finding
from tests.audit.replay import CLOSE, Replay
from tests.audit.requests import Request

HALF = 0.5  # of its claim, that the tightest attack of all must be measured at
THIRD = 1 / 3  # the same of algorithms: in 64 quick attacks of four, 3 of one were below, never all
COLUMNS = (
    *("algorithm", "family", "steps", "claimed_epsilon", "delta", "claimed_mu"),
    *("lower_bound", "corrected_bound", "share_of_claim", "conversion", "distinguisher"),
    *("false_positives", "n0", "false_negatives", "n1", "trial", "correlation", "request"),
    *("row", "replaced_by", "other_rows"),
)


@dataclass
class Audit:
    """What an audit saw. search: counts of requests. ends: of every number of the schema."""

    cells: list[Cell]
    search: dict[str, Any]
    ends: dict[str, list[float] | None]
    findings: list[tuple[Finding, Request]]
    settings: dict[str, Any]
    replay: dict[str, Any] = field(default_factory=dict)
    others: list[Cell] = field(default_factory=list)

    @property
    def alpha(self) -> float:
        """Probability that one cell's corrected bound is too large: Bonferroni over all cells."""
        return alpha_of([*self.cells, *self.others])

    def wrong(self) -> list[str]:
        """Return what fails the audit, with all that it takes to see it again."""
        found = [
            f"{one.kind}: {one.found}\n    request {request.as_json()}"
            for one, request in self.findings
        ]
        found += too_sure(self.cells, self.alpha) + too_sure(self.others, self.alpha)
        found += self.replay.get("wrong", [])
        for cells, least in ((self.cells, THIRD), ([*self.cells, *self.others], HALF)):
            shares = [cell.lower / cell.claim.epsilon for cell in cells]
            if shares and max(shares) < least:
                found.append(f"no attack reaches {least:.2g} of a claim: the audit lost its power")
        return found


def alpha_of(cells: list[Cell]) -> float:
    """Return the probability that one cell's corrected bound may be too large."""
    return FALSE_ALARMS / max(len(cells), 1)


def too_sure(cells: list[Cell], alpha: float) -> list[str]:
    """Return, in words, the cells whose corrected bound is above the claim."""
    return [
        f"{cell.algorithm}: epsilon {cell.claim.epsilon:.4g} is claimed and is at least"
        f" {cell.sure(alpha):.4g} by {cell.statistic}\n    {again(cell)}"
        for cell in cells
        if cell.sure(alpha) > cell.claim.epsilon
    ]


def again(cell: Cell) -> str:
    """Return what it takes to attack a cell again: no seed is part of it."""
    one = cell.candidate
    return (
        f"request {one.request.as_json()}, row {one.pair[0]} or {one.pair[1]}, others {one.beside}"
    )


def line_of(cell: Cell, alpha: float) -> dict[str, Any]:
    """Return a cell as a line of the table."""
    one = cell.candidate
    return {
        **{"algorithm": cell.algorithm, "family": cell.family, "steps": cell.steps},
        "claimed_epsilon": cell.claim.epsilon,
        "delta": cell.claim.delta,
        "claimed_mu": cell.claim.mu,
        "lower_bound": cell.lower,
        "corrected_bound": cell.sure(alpha),
        "share_of_claim": cell.lower / cell.claim.epsilon,
        "conversion": cell.claim.conversion,
        "distinguisher": cell.statistic,
        **asdict(cell.counts),
        "trial": cell.trial,
        "correlation": cell.correlation,
        "request": one.request.as_json(),
        **{"row": one.pair[0], "replaced_by": one.pair[1], "other_rows": one.beside},
    }


def write(audit: Audit, folder: Path) -> None:
    """Write audit.csv, audit.json, audit.png and AUDIT.md."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [line_of(cell, audit.alpha) for cell in audit.cells]
    with (folder / "audit.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    told = {
        "settings": audit.settings,
        "search": audit.search,
        "ends": audit.ends,
        "wrong": [one for one in audit.wrong() if one not in audit.replay.get("wrong", [])],
        "cells": lines,
        "replay": audit.replay,
        **others_of(audit.others, audit.alpha),
    }
    _plot(audit, folder / "audit.png")
    _save(told, folder)


def write_part(part: dict[str, Any], folder: Path) -> None:
    """Write some parts anew, in audit.json and AUDIT.md of an earlier audit."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "audit.json"
    told = json.loads(path.read_text()) if path.exists() else {}
    _save({**told, **part}, folder)


def others_of(cells: list[Cell], alpha: float, **settings: Any) -> dict[str, Any]:
    """Return the part on what is no chain, as JSON holds it."""
    lines = [line_of(cell, alpha) for cell in cells]
    return {"others": {"settings": settings_of(**settings), "cells": lines}}


def _save(told: dict[str, Any], folder: Path) -> None:
    (folder / "audit.json").write_text(json.dumps(told, indent=1) + "\n")
    (folder / "AUDIT.md").write_text(_page(told))


def most_of_one_vector(shares: tuple[float, float, float, float]) -> float:
    """Return the largest squared shift, of the charge, of rows whose parts are made of one vector.

    shares: of the score, both matrices and the scalar. Proof: docs/proofs/noisy_quadratic.md,
    section 1.
    """
    score, curvature, noise, square = shares
    cosines = np.linspace(0.0, 1.0, 10_001)
    matrices = (curvature + noise) * np.maximum(1.0 - cosines**2, 0.5)
    return float((0.5 * score * (1.0 + cosines) + matrices).max()) + 0.5 * square


# parts of an iterate without a scale, at as little noise as there may be: of a model's own answer,
# and of a robust one
LEAST_PARTS = (1.0 - clips.LEAST_CURVE - clips.VARIANCE, clips.LEAST_CURVE, clips.VARIANCE, 0.0)
PARTS = (1.0 - LEAST_CURVE - NOISE, LEAST_CURVE, NOISE, 0.0)
# the largest shift, of the charge, that rows can reach; 1 of all places that are not named
ATTAINABLE = {
    "mechanisms.joint_sums:release for releases.newton_path": math.sqrt(
        most_of_one_vector(LEAST_PARTS)
    ),
    # of rows of a logistic model, whose groups have numbers in the same vector
    "mechanisms.arrow_sums:release for releases.grouped": math.sqrt(
        most_of_one_vector((grouped.LAST_PARTS[0], grouped.LAST_PARTS[1], 0.0, 0.0))
        / sum(grouped.LAST_PARTS[:2])
    ),
}
# what a search reaches whatever it draws, where that is less
REACHED = {
    "mechanisms.joint_sums:release for releases.newton_path": math.sqrt(most_of_one_vector(PARTS)),
}
# why no row of a model reaches what is charged, by place
LOOSE = {
    "mechanisms.arrow_sums:release for releases.grouped": (
        "The charge is loose for rows of a model: the event of a joint step pays for a score, a"
        " matrix and numbers as if one row could be the worst in all of them at once. In a"
        " regression all are made of one vector of covariates and groups, so that the bound of an"
        " iterate below holds: .925 for the parts of a logistic model. As there it is attained by"
        " two rows with the same covariates in one group, of which one is far out by its offset."
        " Matrices that turn by a right angle reach all of theirs, by a row that moves to another"
        " group (tests/core/test_groups.py)."
    ),
    "mechanisms.joint_sums:release for releases.newton_path": (
        "The charge is loose for rows of a model by a margin that is derived, and the search"
        " reaches what is left. An iterate's event pays for a score, two matrices and a"
        " scalar, with parts f_S, f_G, f_V and f_q of it, as if one row could be the worst in all"
        " of them at once: a score that turns round while the matrices turn by a right angle. In a"
        " regression with one predictor all are made of one vector a, so that with c the cosine"
        " between the vectors of two rows the squared shift is at most f_S (1 + c) / 2 +"
        " (f_G + f_V) max(1 - c^2, 1/2) + f_q / 2 of the charge (docs/proofs/noisy_quadratic.md,"
        " section 1): .92 for the parts of a robust logistic model, (.84, .11, .05, 0), that is a"
        " shift of .959, and .972 for any parts that a job can have. For the parts of a job it is"
        " attained by two rows with the"
        " same covariate and opposite responses, both with a score at its clip, of which one has"
        " the largest curvature that a row may have and the other, far out by its offset, none."
        " Vectors and matrices that are chosen freely reach all of the charge"
        " (`tests/privacy/test_joint_sums.py`)."
    ),
}


def reached_at_least(place: str) -> float:
    """Return the largest shift, of the charge, that a search reaches whatever it draws."""
    return REACHED.get(place, ATTAINABLE.get(place, 1.0))


def replay_of(replays: list[Replay], **settings: Any) -> dict[str, Any]:
    """Return the part on forced transcripts, as JSON holds it."""
    return {
        "settings": settings_of(**settings),
        "cases": len(replays),
        "runs": sum(one.runs for one in replays),
        "mechanisms": _grouped(replays, lambda one: [one.mechanism] * len(one.shares)),
        "places": _grouped(replays, lambda one: list(one.shares)),
        "wrong": wrong_of(replays, every_place=not settings.get("only")),
    }


def _grouped(
    replays: list[Replay], names: Callable[[Replay], list[str]]
) -> dict[str, dict[str, Any]]:
    """Return by name how many cases, runs and events there were, and the largest shift."""
    found: dict[str, dict[str, Any]] = {}
    for one in replays:
        pairs = zip(names(one), one.shares, strict=True)
        for name in dict.fromkeys(names(one)):
            kept = {"cases": 0, "runs": 0, "events": 0, "largest": 0.0, "case": ""}
            kept = found.setdefault(name, kept)
            kept["cases"] += 1
            kept["runs"] += one.runs
        for name, place in pairs:
            found[name]["events"] += one.events[place]
            if one.shares[place] > found[name]["largest"]:
                found[name] |= {"largest": one.shares[place], "case": one.name}
    return found


def wrong_of(replays: list[Replay], *, every_place: bool = False) -> list[str]:
    """Return what is not as it should be: faults, and mechanisms whose rows move answers too little
    for a search of any power. every_place: whether places are looked at as well, of a whole audit.
    """
    found = [f"{one.name}: {fault}" for one in replays for fault in one.faults]
    for name, seen in _grouped(replays, lambda one: [one.mechanism] * len(one.shares)).items():
        if seen["largest"] < CLOSE:
            found.append(f"{name}: no neighbour moves an answer by {CLOSE:g} of what is charged")
    if not every_place:
        return found
    for name, seen in _grouped(replays, lambda one: list(one.shares)).items():
        most = ATTAINABLE.get(name, 1.0)
        if not CLOSE * reached_at_least(name) <= seen["largest"] <= most:
            message = f"the largest shift is {seen['largest']:.4f}, and {most:.4f} is attainable"
            found.append(f"{name}: {message}")
    return found


def best_of(cells: list[Cell]) -> list[Cell]:
    """Return for each algorithm the cell whose bound is the largest part of its claim."""
    best: dict[str, Cell] = {}
    for cell in cells:
        other = best.get(cell.algorithm)
        if other is None or cell.lower / cell.claim.epsilon > other.lower / other.claim.epsilon:
            best[cell.algorithm] = cell
    return list(best.values())


def _plot(audit: Audit, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    cells = best_of(audit.cells)
    figure, axes = plt.subplots(figsize=(8.0, 0.6 * len(cells) + 1.6))
    for at, cell in enumerate(reversed(cells)):
        axes.barh(at, cell.claim.epsilon, color="0.85", label="claimed" if at == 0 else None)
        label = f"lower bound, {CONFIDENCE:.0%}" if at == 0 else None
        axes.barh(at, cell.lower, height=0.4, color="tab:blue", label=label)
        label = "lower bound, corrected for all cells" if at == 0 else None
        axes.plot(cell.sure(audit.alpha), at, "k|", markersize=14, label=label)
    axes.set_yticks(range(len(cells)), [f"{c.algorithm}\n{c.family}" for c in reversed(cells)])
    axes.set_xlabel("epsilon of one trial, at the cell's delta")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=3, frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def settings_of(**given: Any) -> dict[str, Any]:
    """Return the configuration of an audit, for its report."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        **given,
    }


def _page(told: dict[str, Any]) -> str:
    replay = told.get("replay") or {}
    wrong = [*told.get("wrong", []), *replay.get("wrong", [])]
    parts = [
        "# Privacy audit",
        "",
        "Written by `./dev audit`; the method is told in tests/audit.",
        "",
        "**Nothing is less private than claimed.**" if not wrong else "**WRONG:**",
        *[f"- {one}" for one in wrong],
        "",
    ]
    if "cells" in told:
        parts += _attacks(told)
    if told.get("others"):
        parts += _others(told["others"])
    if replay:
        parts += _replays(replay)
    if "search" in told:
        parts += _requests(told)
    return "\n".join(parts)


def _in_words(settings: dict[str, Any]) -> str:
    return "; ".join(f"{name} {value}" for name, value in settings.items()) + "."


def _attacks(told: dict[str, Any]) -> list[str]:
    parts = [
        "## Claimed against measured",
        "",
        "![claimed epsilon and lower bounds](audit.png)",
        "",
        "A trial is one chain or one release, on one of two neighbouring datasets; the attacker"
        " knows all rows but one. Error rates are counted on trials that it was not tuned"
        f" on and bounded by Clopper and Pearson; bounds hold with {CONFIDENCE:.0%} each. The"
        " *corrected* bounds, which fail the audit, exceed the claims of a correct system in less"
        f" than {FALSE_ALARMS:g} of all audits, all cells together. *GDP*: the claim is Gaussian"
        " DP, and error rates become mu, then epsilon at delta; *direct*: they become epsilon at"
        " delta at once.",
        "",
        f"Settings: {_in_words(told['settings'])}",
        "",
        "| algorithm | model | steps | claimed | lower bound | corrected | of claim | conversion"
        " | delta | distinguisher | errors |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    parts += [_line(line) for line in told["cells"]]
    return [*parts, ""]


def _line(line: dict[str, Any]) -> str:
    errors = "{false_positives} / {n0}, {false_negatives} / {n1}".format(**line)
    return (
        "| {algorithm} | {family} | {steps} | {claimed_epsilon:.3f} | {lower_bound:.3f}"
        " | {corrected_bound:.3f} | {share_of_claim:.2f} | {conversion} | {delta:g}"
        " | {distinguisher} | ".format(**line)
        + errors
        + " |"
    )


def _others(others: dict[str, Any]) -> list[str]:
    """The part on what is no chain."""
    return [
        "## Tasks, holders, and a whitening used again",
        "",
        "The same attack on single releases. The attacker sees every number that leaves: counts,"
        " statistics, or draws and what is stored of a release. What draws of a noisy quadratic, or"
        " of a fit, hide of a row is not hidden from the forced transcripts below.",
        "",
        f"Settings: {_in_words(others['settings'])}",
        "",
        "| what | | | claimed | lower bound | corrected | of claim | conversion | delta"
        " | distinguisher | errors |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *[_line({**line, "steps": ""}) for line in others["cells"]],
        "",
    ]


def _replays(replay: dict[str, Any]) -> list[str]:
    """The part on forced transcripts."""
    places = replay["places"]
    ends = "; and every number of options, models and privacy at both ends of what is admitted"
    ends = "" if replay["settings"].get("quick") else ends
    parts = [
        "## Forced transcripts",
        "",
        "A mechanism runs on some rows, and everything that its noise was added to is written down."
        " It runs again on neighbours, with the noise of each event forced so that the same numbers"
        " come out. Then draws, release and verdict must be the same to the bit, and so must be the"
        " size of every cell, all that is drawn beside the noise, and how much; each entry of noise"
        " is added once and in full. By how many cells the forced noise differs from the first is"
        " how far the replaced row has moved the answer: over the noise's scale it must be at most"
        " the inverse of the noise multiplier that is charged. (For Laplace noise scaled by a"
        " smooth sensitivity: half of epsilon, and the logarithm of the scale changes by at most"
        " what its proof allows; for flipped answers: the log odds of one answer over epsilon.)",
        "",
        f"{replay['cases']} cases, {replay['runs']} runs: every algorithm on every family, after a"
        " release, on rows with missing codes, with the rows of several holders and with a"
        " whitening used again; every kind of task; options with which the worst neighbours are at"
        f" the corners of the bounds{ends}. Settings: {_in_words(replay['settings'])}",
        "",
        "| mechanism | cases | runs | events | largest shift, of the charge | where |",
        "|---|---|---|---|---|---|",
    ]
    line = "| {} | {cases} | {runs} | {events} | {largest:.4f} | {case} |"
    place = "| {} | {cases} | {runs} | {events} | {largest:.4f} | {attainable:.4f} | {case} |"
    parts += [line.format(name, **seen) for name, seen in replay["mechanisms"].items()]
    parts += [
        "",
        "The same by the place where noise is drawn:",
        "",
        "| place | cases | runs | events | largest shift, of the charge | attainable | where |",
        "|---|---|---|---|---|---|---|",
        *[
            place.format(name, attainable=ATTAINABLE.get(name, 1.0), **seen)
            for name, seen in places.items()
        ],
        "",
    ]
    for name, seen in places.items():
        if seen["largest"] < CLOSE:
            why = LOOSE.get(name, "Not explained.")
            parts += [f"*{name}*, {seen['largest']:.4f}: {why}", ""]
    return [
        *parts,
        "Barker's test on a batch of fewer than all rows reaches .973 of its charge, on one of all"
        " rows all of it: the charge adds the most that the mean moves to the most that the filling"
        " normal turns with the batch's variance, each at a worst batch of its own (the root's"
        " slope is largest where the variance is, and one row changes the variance most where"
        " there is none). It is loose by that much.",
        "",
    ]


def _requests(told: dict[str, Any]) -> list[str]:
    search = told["search"]
    return [
        "## Requests",
        "",
        f"{search['tried']} requests from the whole schema, at the ends of every admitted range"
        f" and in between: {search['refused']} refused, {search['planned']} planned, and"
        f" {search['ran']} of those run for a few steps on rows at the corners of their bounds. The"
        " noise of each was measured at its own numbers (sd within 1 %, mean, tails, nothing cut);"
        " all that was drawn was compared with the event that is charged; and two neighbouring"
        " tables were asked the same questions: no answer differed by more than its sensitivity.",
        "",
        "| algorithm | planned |",
        "|---|---|",
        *[f"| {name} | {count} |" for name, count in sorted(search["by_algorithm"].items())],
        "",
    ]

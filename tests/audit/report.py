"""The report of an audit: a table, a plot of claimed against measured, and all numbers as JSON."""

import csv
import json
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.audit.bounds import CONFIDENCE, FALSE_ALARMS
from tests.audit.cells import Cell
from tests.audit.noise import Finding
from tests.audit.requests import Request

HALF = 0.5  # of its claim, that the tightest algorithm must be measured at
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

    @property
    def alpha(self) -> float:
        """Probability that one cell's corrected bound is too large: Bonferroni over all cells."""
        return FALSE_ALARMS / max(len(self.cells), 1)

    def wrong(self) -> list[str]:
        """Return what fails the audit, with all that it takes to see it again."""
        found = [
            f"{one.kind}: {one.found}\n    request {request.as_json()}"
            for one, request in self.findings
        ]
        for cell in self.cells:
            sure = cell.sure(self.alpha)
            if sure > cell.claim.epsilon:
                found.append(
                    f"{cell.algorithm}: epsilon {cell.claim.epsilon:.4g} is claimed and is at least"
                    f" {sure:.4g} by {cell.statistic}\n    {again(cell)}"
                )
        shares = [cell.lower / cell.claim.epsilon for cell in self.cells]
        if shares and max(shares) < HALF:
            found.append(f"no attack reaches {HALF:g} of a claim: the audit has lost its power")
        return found


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
        "wrong": audit.wrong(),
        "cells": lines,
    }
    (folder / "audit.json").write_text(json.dumps(told, indent=1) + "\n")
    _plot(audit, folder / "audit.png")
    (folder / "AUDIT.md").write_text(_page(audit, lines))


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


def _page(audit: Audit, lines: list[dict[str, Any]]) -> str:
    wrong, search = audit.wrong(), audit.search
    parts = [
        "# Privacy audit",
        "",
        "Written by `./dev audit`; the method is told in tests/audit. "
        + "; ".join(f"{name} {value}" for name, value in audit.settings.items())
        + ".",
        "",
        "**Nothing is less private than claimed.**" if not wrong else "**WRONG:**",
        *[f"- {one}" for one in wrong],
        "",
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
        "| algorithm | model | steps | claimed | lower bound | corrected | of claim | conversion"
        " | delta | distinguisher | errors |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        errors = "{false_positives} / {n0}, {false_negatives} / {n1}".format(**line)
        parts.append(
            "| {algorithm} | {family} | {steps} | {claimed_epsilon:.3f} | {lower_bound:.3f}"
            " | {corrected_bound:.3f} | {share_of_claim:.2f} | {conversion} | {delta:g}"
            " | {distinguisher} | ".format(**line)
            + errors
            + " |"
        )
    parts += [
        "",
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
    return "\n".join(parts)

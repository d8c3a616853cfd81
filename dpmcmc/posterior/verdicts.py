"""Verdicts: whether a result is reliable, from released numbers only."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import fill
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.digits import LINE
from dpmcmc.inputs.schema import Schema
from dpmcmc.posterior.breadth import Note
from dpmcmc.posterior.diagnostics import ParameterSummary
from dpmcmc.releases import RELEASES
from dpmcmc.releases.base import Judgement

MAX_RHAT = 1.01  # largest rank-normalised R-hat of a chain that has mixed: Vehtari et al. 2021
MIN_ESS = 200.0  # 50 for each half chain that R-hat compares: with fewer it is above MAX_RHAT
COLOURS, PLAIN = {"reliable": "\x1b[32m", "unreliable": "\x1b[31m"}, "\x1b[0m"
UNMIXED = (
    "the chain has not mixed; more steps or a larger budget, or noisy_quadratic, would mend it"
)
LONGER = "more steps or a larger budget, or noisy_quadratic, would mend it"
TWICE, LEAST_LEFT = 2.0, 1e-4  # times as wide, and part of the variance that is not privacy's
MOST_SDS_AWAY = 10.0  # sds between a chain's mean and its released starting point


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a result.

    reasons: a sentence on each problem, with what would mend it. width_from_privacy: part of the
    width of its intervals that is due to privacy, where that is known. notes: for the next dataset.
    mended_at: the epsilon that the sentence names, at which noise would be no reason any more; None
    where it names none. Other reasons that stand beside it may remain.
    """

    status: Literal["reliable", "unreliable"]
    sentence: str
    reasons: tuple[str, ...]
    width_from_privacy: float | None
    notes: tuple[Note, ...] = ()
    mended_at: float | None = None

    @property
    def mark(self) -> str:
        """The mark of a title: " (unreliable)", or an empty text."""
        return "" if self.status == "reliable" else " (unreliable)"

    def text(self, colour: bool, label: str = "") -> str:
        """Return the sentence behind a label, wrapped for a terminal.

        colour: whether its first word is coloured.
        """
        word = self.sentence.partition(":")[0]
        lines = fill(label + self.sentence, LINE, subsequent_indent="  ", break_long_words=False)
        return lines.replace(word, f"{COLOURS[self.status]}{word}{PLAIN}", 1) if colour else lines


def of_release(
    judged: Judgement | None,
    notes: tuple[Note, ...] = (),
    words: tuple[str, ...] = (),
    mended_at: float | None = None,
) -> Verdict:
    """Return the verdict on a release. judged: from its numbers; None where it stores none.

    words: what would mend what is wrong with it, and remarks. mended_at: see Verdict.
    """
    if judged is None:
        reason = "this release keeps nothing by which it could be judged; noisy_quadratic does"
        return Verdict("unreliable", f"Unreliable: {reason}.", (reason,), None)
    width = 1.0 - math.sqrt(1.0 - min(max(judged.privacy_share, 0.0), 1.0))
    if judged.reliable:
        said = "; ".join(text for text in (widened(judged.privacy_share), *words) if text)
        return Verdict("reliable", f"Reliable: {said}.", (), width, notes)
    reason = "; ".join(text for text in (judged.sentence, *words) if text)
    return Verdict("unreliable", f"Unreliable: {reason}.", (reason,), width, notes, mended_at)


def widened(share: float) -> str:
    """Return in words how much noise widens intervals. share: of their variance."""
    times = 1.0 / math.sqrt(max(1.0 - share, LEAST_LEFT))
    if times >= TWICE:
        return f"privacy makes these intervals {times:.2g} times as wide"
    percent = 100.0 * (times - 1.0)
    shown = "less than 1" if percent < 1.0 else f"{percent:.0f}"
    return f"privacy widens these intervals by {shown} %"


def joined(verdict: Verdict, reasons: Sequence[str]) -> Verdict:
    """Return the verdict with further problems; keeps the first epsilon that would help."""
    if not reasons:
        return verdict
    all_reasons = (*verdict.reasons, *reasons)
    sentence = f"Unreliable: {'; '.join(all_reasons)}."
    return replace(verdict, status="unreliable", sentence=sentence, reasons=all_reasons)


def dependence_reasons(schema: Schema, algorithm: str) -> list[str]:
    """Return why intervals are too narrow where a person has several rows, or nothing."""
    release = RELEASES.get(algorithm)
    if schema.unit_rows == 1 or (release is not None and release.by_units):
        return []
    other = "" if algorithm == "noisy_quadratic" else "; noisy_quadratic knows that they are alike"
    return [f"{algorithm} takes the rows of a person as independent, and is too sure{other}"]


def of_chain(
    draws: NDArray[np.float64],
    num_warmup: int,
    summaries: Sequence[ParameterSummary],
    *,
    started: bool,
    exact: bool = True,
) -> Verdict:
    """Return the verdict on a chain. draws: (chain, draw, parameter), warm-up included.

    summaries: of the draws after it. started: whether the chain began at a released point. exact:
    whether the sampler's target is the posterior; otherwise the draws do not show their bias.
    """
    problems = [_mixing(summaries), _size(summaries)]
    if not exact:
        problems.append(
            "this sampler is not exact, and its draws do not tell how far off they are; dp_barker,"
            " dp_penalty and noisy_quadratic are judged"
        )
    if started:
        problems.append(_start(draws, num_warmup, summaries))
    reasons = tuple(problem for problem in problems if problem)
    if reasons:
        return Verdict("unreliable", f"Unreliable: {'; '.join(reasons)}.", reasons, None)
    hat = max(summary.r_hat or math.inf for summary in summaries)
    ess = min(summary.ess_bulk or 0.0 for summary in summaries)
    alone = ", one chain by its halves" if len(draws) == 1 else ""
    sentence = f"Reliable: the chain has mixed (R-hat {hat:.3f}{alone}; {ess:.0f} effective draws)."
    return Verdict("reliable", sentence, (), None)


def _mixing(summaries: Sequence[ParameterSummary]) -> str:
    """Return a sentence where chains have not mixed, else ""."""
    unknown = [summary.name for summary in summaries if summary.r_hat is None]
    if unknown:
        return f"{unknown[0]} never moved, or the chain is too short to be judged; {LONGER}"
    worst = max(summaries, key=lambda summary: summary.r_hat or 0.0)
    if (worst.r_hat or 0.0) <= MAX_RHAT:
        return ""
    return f"R-hat of {worst.name} is {worst.r_hat:.3f}, above {MAX_RHAT}: {UNMIXED}"


def _size(summaries: Sequence[ParameterSummary]) -> str:
    """Return a sentence where the effective sample size is too small, else ""."""

    def size(summary: ParameterSummary) -> float:
        """Return the smaller of bulk and tail ESS, 0 where unknown."""
        return min(summary.ess_bulk or 0.0, summary.ess_tail or 0.0)

    worst = min(summaries, key=size)
    if size(worst) >= MIN_ESS:
        return ""
    return (
        f"{worst.name} has an effective sample size of {size(worst):.0f};"
        f" fewer than {MIN_ESS:.0f} do not describe a posterior; about"
        f" {MIN_ESS / max(size(worst), 1.0):.2g} times the steps at the same noise would have them,"
        " or noisy_quadratic, whose draws are independent"
    )


def _start(
    draws: NDArray[np.float64], num_warmup: int, summaries: Sequence[ParameterSummary]
) -> str:
    """Return a sentence where the chain moved far from its released starting point, else ""."""
    middle = draws[:, num_warmup:].mean(axis=(0, 1))
    sds = np.array([max(summary.sd, 1e-300) for summary in summaries])
    with np.errstate(over="ignore"):  # of a chain that hardly moved, very far
        distances = np.abs((draws[:, 0] - middle) / sds).max(axis=0)
    worst = int(np.argmax(distances))
    if distances[worst] <= MOST_SDS_AWAY:
        return ""
    return (
        f"{summaries[worst].name} went {distances[worst]:.3g} sds from where its release had put"
        " it: the start did not reach the posterior; a larger share of the budget for the start, or"
        " noisy_quadratic alone, would mend it"
    )

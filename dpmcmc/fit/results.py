"""The result of a job: draws, summaries and a verdict."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from textwrap import fill, shorten
from typing import TYPE_CHECKING, Any

import numpy as np
from dacite import DaciteError
from numpy.typing import NDArray

from dpmcmc.base.digits import LINE
from dpmcmc.base.errors import SpecError, near
from dpmcmc.base.floating import own_errors
from dpmcmc.base.loading import loaded
from dpmcmc.base.names import ROW
from dpmcmc.base.private import Released
from dpmcmc.base.version import __version__
from dpmcmc.fit import files
from dpmcmc.fit.files import Path
from dpmcmc.formula.design import Design, make_design
from dpmcmc.inputs.frames import columns_of
from dpmcmc.inputs.schema import NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.planner import Cost, Plan, cost_of, event
from dpmcmc.posterior import plots
from dpmcmc.posterior.datatree import data_tree
from dpmcmc.posterior.diagnostics import ParameterSummary, summarise
from dpmcmc.posterior.explain import explained
from dpmcmc.posterior.free.effects import Predictions
from dpmcmc.posterior.free.settings import Setting, covariates
from dpmcmc.posterior.plots import PlotKind
from dpmcmc.posterior.stored import StoredRelease
from dpmcmc.posterior.summary_table import SHOWN, Summaries, as_lines
from dpmcmc.posterior.units import SCALES, Scale, in_units
from dpmcmc.posterior.verdicts import (
    Verdict,
    dependence_reasons,
    joined,
    of_chain,
    of_release,
)
from dpmcmc.releases import RELEASES
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.starting import release_of

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

NOTES = 2  # of a verdict, in a representation


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a local run. Summaries and tables are in the units of the columns.

    draws: (chain, draw, parameter), warm-up included, of the standardised design as they were
    sampled; `on` has them on either scale. verdict: whether they may be believed. release: what
    stays usable for free, of a chain what it began from; None where there was none. drawn: what the
    run cost where it stopped early; None where it drew all that was planned.
    """

    plan: Plan
    draws: NDArray[np.float64]
    verdict: Verdict
    design: Design
    release: StoredRelease | None = None
    drawn: Cost | None = None

    def on(self, scale: Scale = "original") -> NDArray[np.float64]:
        """Return the draws (chain, draw, parameter), warm-up included, on this scale.

        original: coefficients per unit of a column, the intercept where all covariates are 0.
        design: those of columns centred and scaled by their declared bounds.
        """
        return in_units(self.design, self.plan.parameters, self.draws, scale)

    @own_errors
    def summary(self, scale: Scale = "original", *, mixing: bool = True) -> Summaries:
        """Return moments, quantiles and diagnostics of the draws after warm-up, as a table.

        mixing: whether R-hat and effective sizes are wanted, which takes longer.
        """
        kept = self.on(scale)[:, self.plan.num_warmup :]
        return Summaries(tuple(summarise(Released(kept), self.plan.parameters, mixing=mixing)))

    @own_errors
    def __str__(self) -> str:
        """Return the verdict, in colour on a terminal, and the posterior."""
        return self._text(sys.stdout.isatty())

    __repr__ = __str__

    def _text(self, colour: bool) -> str:
        """Return the text of the result, with or without colour."""
        known, notes = self.verdict, [f"note: {note.sentence}" for note in self.verdict.notes]
        lines = [
            shorten(self._model(), LINE),
            known.text(colour, f"{self.plan.spec.sampler.algorithm}: "),
            *(fill(note, LINE, subsequent_indent="  ") for note in notes[:NOTES]),
            self._cost(),
        ]
        if len(notes) > NOTES:
            lines.insert(-1, f"and {len(notes) - NOTES} more notes in fit.verdict.notes")
        lines += as_lines([(row.name, row) for row in self.summary(mixing=False)[:SHOWN]])
        left = len(self.plan.parameters) - SHOWN
        return "\n".join([*lines, f"  and {left} more" if left > 0 else ""]).rstrip("\n")

    def _model(self) -> str:
        """Return the model in words."""
        model, schema = self.plan.spec.model, self.design.schema
        counted, unit = schema.units, "person" if schema.unit != ROW else "row"
        family = model.family.replace("_", " ")
        return f"{model.formula}: {family}, {counted:,} {unit if counted == 1 else unit + 's'}"

    def _cost(self) -> str:
        """Return the cost in words."""
        planned = f"{self.plan.cost.epsilon:.4g}"
        of = f" of up to {planned}" if self.plan.rounds else f" of {planned} that were planned"
        of = "" if self.drawn is None else of
        cost = f"cost: epsilon {self.cost.epsilon:.4g}{of}, delta {self.cost.delta:g}"
        return f"{cost}; protects {self.design.schema.protects}"

    @property
    def cost(self) -> Cost:
        """The cost of the run; of one that stopped early, the cost of what it drew.

        `plan.cost` is what was planned.
        """
        return self.plan.cost if self.drawn is None else self.drawn

    @own_errors
    def explain(self) -> str:
        """Return sentences that explain question, estimates, uncertainty and privacy noise."""
        rows, model = self.summary(mixing=False).rows, self.plan.spec.model
        verdict = self.verdict.status, self.verdict.sentence
        return "\n".join(explained(self.design, model, rows, verdict, self.cost.epsilon))

    @own_errors
    def predict(self, given: Sequence[Setting] | object) -> Predictions:
        """Return the mean response with its interval at each setting of the covariates. Free.

        given: covariates by column, all of them: a list of mappings, or a data frame whose rows are
        the settings and whose other columns are not looked at. Raises SpecError, also where only a
        chain ran.
        """
        if self.release is None:
            raise SpecError("/given", "a chain stores no release; noisy_quadratic does")
        settings: Any = given if isinstance(given, list | tuple) else self._settings(given)
        return self.release.posterior().predict(settings)

    def _settings(self, frame: object) -> list[Setting]:
        """Return the rows of a frame as settings of the covariates. Raises SpecError."""
        message = "must be a list of settings such as [{'age': 50}], or a data frame"
        try:
            columns = columns_of(frame)
        except (TypeError, ValueError) as error:
            raise SpecError("/given", message) from error
        names = covariates(self.design)
        names = [name for name in names if name in columns or name in self.design.of_terms]
        for name in names:
            if name not in columns:
                raise SpecError("/given", f"the data frame has no column {name!r}")
        rows = zip(*(columns[name] for name in names), strict=True)
        return [dict(zip(names, row, strict=True)) for row in rows]

    @own_errors
    def to_frame(self, scale: Scale = "original") -> Any:
        """Return the draws after warm-up as a pandas data frame, a column for each parameter.

        Its index has the chain and the draw. Needs pandas. Raises ImportError without it.
        """
        pd = loaded("pandas")
        kept = self.on(scale)[:, self.plan.num_warmup :]
        index = pd.MultiIndex.from_product(map(range, kept.shape[:2]), names=["chain", "draw"])
        names = list(self.plan.parameters)
        return pd.DataFrame(kept.reshape(-1, len(names)), index=index, columns=names)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the draws after warm-up as a stream of Arrow, for any library that reads one.

        `polars.DataFrame(fit)`, `pyarrow.table(fit)` and DuckDB do. Columns are chain, draw and
        each parameter, in the units of the columns. Needs pyarrow. Raises ImportError without it.
        Source: the Arrow PyCapsule interface.
        """
        pa = loaded("pyarrow")
        kept = self.on("original")[:, self.plan.num_warmup :]
        chains, draws = np.indices(kept.shape[:2], dtype=np.int32).reshape(2, -1)
        columns = [chains, draws, *kept.reshape(-1, kept.shape[2]).T]
        names = ["chain", "draw", *self.plan.parameters]
        table = pa.Table.from_arrays([pa.array(column) for column in columns], names=names)
        return table.__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """Return the verdict and the posterior as a table, for notebooks, light or dark."""
        ground = {"reliable": "#1a7f37", "unreliable": "#b3261e"}[self.verdict.status]
        word, _, rest = self.verdict.sentence.partition(":")
        style = f"background:{ground};color:#fff;padding:0 .4em;border-radius:.2em"
        notes = "".join(f"<p>Note: {escape(note.sentence)}</p>" for note in self.verdict.notes)
        return (
            f"<p>{escape(self._model())}</p>"
            f'<p><b style="{style}">{escape(word)}</b> {escape(rest.strip())}</p>{notes}'
            f"<p>{self.plan.spec.sampler.algorithm}, {self._cost()}</p>"
            f"{self.summary(mixing=False)._repr_html_()}"
        )

    def save(self, path: Path) -> None:
        """Write the fit to a file for `dpmcmc.load`: released values, no rows.

        A file that is there is replaced. Raises OSError.
        """
        plan = {
            field.name: getattr(self.plan, field.name)
            for field in fields(self.plan)
            if field.name not in ("event", "spec", "cost")
        }
        plan |= {"spec": asdict(self.plan.spec), "cost": asdict(self.plan.cost)}
        facts = {
            "schema": asdict(self.design.schema),
            "plan": plan,
            "verdict": asdict(self.verdict),
            "release": None if self.release is None else self.release.to_dict(),
            "drawn": None if self.drawn is None else asdict(self.drawn),
        }
        files.write(path, facts, self.draws)

    def plot(
        self,
        kind: PlotKind = "forest",
        *,
        parameters: Sequence[str] | None = None,
        scale: Scale = "original",
    ) -> "Figure":
        """Return a figure of the draws. Needs matplotlib: `pip install 'dpmcmc[plots]'`.

        kind: forest (90 % and 50 % intervals), trace (warm-up shaded), rank (level where chains
        agree), density, pair, or prior (beside the posterior; always of the design's scale, and
        only where a release was stored), or curve (the mean response along numbers, the other
        covariates in the middle of their bounds, where a release was stored). parameters: by name;
        all, but of pair and trace the first twelve. Of curve they are covariates; all that have a
        smooth, or else all numbers. An unreliable verdict stands on the figure. Raises SpecError,
        ImportError.
        """
        if kind == "curve":
            return plots.drawn(kind, self._curves(parameters))
        names = tuple(self.plan.parameters)
        chosen = tuple(names if parameters is None else parameters)
        if isinstance(parameters, str) or not chosen:
            raise SpecError("/parameters", f"must be a list of some of {', '.join(names)}")
        for name in chosen:
            if name not in names:
                message = f"{name!r} is none of {', '.join(names)}{near(str(name), names)}"
                raise SpecError("/parameters", message)
        priors = self._priors() if kind == "prior" else {}
        draws = self.on("design" if kind == "prior" else scale)
        at = [names.index(name) for name in chosen]
        shown = plots.PlotData(
            draws[..., at], chosen, self.plan.num_warmup, self.verdict.mark, priors
        )
        return plots.drawn(kind, shown)

    def _curves(self, covariates: Sequence[str] | None) -> plots.PlotData:
        """Return the data of a figure of curves. Raises SpecError."""
        numbers = [
            column.name
            for column in self.design.schema.columns
            if isinstance(column, NumberColumn) and column.name in self.design.covariates
        ]
        curves_of = [smooth.column for smooth in self.design.smooths if smooth.column in numbers]
        names = covariates or curves_of or numbers
        if isinstance(names, str) or not names:
            raise SpecError("/parameters", f"must be a list of some of {', '.join(numbers)}")
        if self.release is None:
            raise SpecError("/kind", "a chain stores no release that curves follow from")
        free, curves = self.release.posterior(), {}
        for name in names:
            curve = free.curve(name, pointer="/parameters")
            if not curve.expected:
                message = "curves are of a response with one mean: ask the release for its curve"
                raise SpecError("/kind", message)
            quantiles = [(s.q05, s.q25, s.q50, s.q75, s.q95) for s in curve.expected]
            curves[name] = np.array(curve.at), np.array(quantiles).T
        mark, response = self.verdict.mark, self.design.response
        return plots.PlotData(self.draws, (), self.plan.num_warmup, mark, {}, curves, response)

    def _priors(self) -> Mapping[str, Any]:
        """Return the priors of the parameters, for the figure of priors."""
        if self.release is None:
            raise SpecError("/kind", "a chain stores no release, so its prior cannot be drawn")
        return self.release.posterior().priors

    def to_datatree(self, scale: Scale = "original") -> "xarray.DataTree":
        """Return all draws as one ArviZ DataTree, warm-up in a group of its own: see datatree."""
        plan = self.plan
        how = attributes_of(plan.spec, self.cost, self.design.schema)
        worth = {"verdict": self.verdict.status, "verdict_sentence": self.verdict.sentence}
        return data_tree(self.on(scale), plan.parameters, plan.num_warmup, {**how, **worth})


def load(path: Path) -> Result:
    """Return the fit that `Result.save` wrote: the same draws, verdict and free posteriors.

    Nothing in the file is executed.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    Result
        The fit, as `sample` returned it.

    Raises
    ------
    ValueError
        If the file holds no fit, or was written by a later version.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> fit = dpmcmc.load("fit.zip")
    >>> fit.summary()
    """
    facts, draws = files.read(path)
    try:
        return _read(facts, draws)
    except (DaciteError, LookupError, TypeError, AttributeError, ValueError):
        raise files.no_fit(path) from None


def _read(facts: Mapping[str, Any], draws: NDArray[np.float64]) -> Result:
    """Return the fit from a file's facts and draws."""
    schema, plan_facts = files.schema_of(facts["schema"]), facts["plan"]
    spec = files.spec_of(plan_facts["spec"])
    design, release = make_design(schema, spec.model.formula), None
    if facts["release"] is not None:
        release = StoredRelease.read(schema, spec, facts["release"])
    plan = files.plan_of(plan_facts, spec, event(schema, spec))
    if draws.ndim != 3 or draws.shape[2] != len(plan.parameters):
        raise ValueError("draws of other parameters")
    drawn = Cost(**facts["drawn"]) if facts.get("drawn") else None
    return Result(plan, draws, files.verdict_of(facts["verdict"]), design, release, drawn)


def attributes_of(spec: JobSpec, cost: Cost, schema: Schema) -> dict[str, str | float]:
    """Return the provenance of a resolved job's draws, as attributes of a file.

    With the most that a job might have cost which went on until its result was reliable.
    """
    algorithm, release = spec.sampler.algorithm, "none"
    if algorithm in RELEASES or getattr(spec.sampler, "start", None) is not None:
        release = release_of(spec).name
    made = attributes(cost, algorithm, schema, release)
    if getattr(spec.sampler, "rounds", None) is None:
        return made
    return made | {"epsilon_up_to": cost_of(event(schema, spec), cost.delta).epsilon}


def attributes(
    cost: Cost, algorithm: str, schema: Schema, release: str = "none"
) -> dict[str, str | float]:
    """Return the provenance of draws, as attributes of a file.

    release: what was released of the rows beside the draws, or in their place.
    """
    return {
        "inference_library": "dpmcmc",
        "inference_library_version": __version__,
        "version": __version__,
        "epsilon": cost.epsilon,
        "delta": cost.delta,
        "relation": schema.neighbouring.value,
        "protects": schema.protects,
        "algorithm": algorithm,
        "release": release,
    }


def summary_and_verdict(
    design: Design,
    spec: JobSpec,
    parameters: Sequence[str],
    draws: NDArray[np.float64],
    release: StoredRelease | None,
) -> tuple[dict[Scale, list[ParameterSummary]], Verdict]:
    """Return summaries after warm-up on both scales, and a verdict that holds on both.

    draws: (chain, draw, parameter) of the design, warm-up included. Chains mix on one scale and
    not on the other where coefficients hang together.
    """
    summaries: dict[Scale, list[ParameterSummary]] = {}
    verdicts: list[Verdict] = []
    before = None
    for scale in SCALES:
        every = in_units(design, parameters, draws, scale)
        kept = every[:, spec.sampler.num_warmup or 0 :]
        summaries[scale] = summarise(Released(kept), parameters, rescaled=before)
        before = kept, summaries[scale]
        if spec.sampler.algorithm not in RELEASES or not verdicts:
            verdicts.append(judged(design.schema, spec, every, summaries[scale], release))
    return summaries, next(
        (verdict for verdict in verdicts if verdict.status == "unreliable"), verdicts[0]
    )


def judged(
    schema: Schema,
    spec: JobSpec,
    draws: NDArray[np.float64],
    summaries: Sequence[ParameterSummary],
    release: StoredRelease | None,
) -> Verdict:
    """Return the verdict on a resolved job's result, from released values only.

    draws: (chain, draw, parameter), warm-up included. summaries: of those after it.
    """
    if spec.sampler.algorithm in RELEASES:
        return of_release(None) if release is None else release.verdict
    started = getattr(spec.sampler, "start", None) is not None
    exact = SAMPLERS[spec.sampler.algorithm].exact
    warmup = spec.sampler.num_warmup or 0
    alone = of_chain(draws, warmup, summaries, started=started, exact=exact)
    return joined(alone, dependence_reasons(schema, spec.sampler.algorithm))

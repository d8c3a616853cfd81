"""`noisy_quadratic` of categories that few rows have: told as far as the rows go, and covered."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import ndtr

from dpmcmc import sample
from dpmcmc.families.scores.base import Evaluation
from dpmcmc.families.scores.linear import Linear
from dpmcmc.fit.local import table_of
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from dpmcmc.inputs.spec import JobSpec, ModelSpec, NormalPrior, PrivacySpec
from dpmcmc.planner import plan
from dpmcmc.releases.noisy_quadratic import opened, released, usual_far
from dpmcmc.releases.quadratic import agreed, parted, unmoved
from dpmcmc.releases.quadratic_verdict import verdict
from tests.sources import Seeded

ROWS, FEW, EFFECT = 2000, 40, -2.5
MU = 0.84  # epsilon 4 at delta 1e-6
NUMBERS = (
    NumberColumn(name="a", lower=-1.0, upper=1.0),
    NumberColumn(name="t", lower=-9.0, upper=9.0),
)
UNIT = 18.0 / 8.0  # of draws, an eighth of the response's range
DECLARED = Schema(columns=(*NUMBERS, BinaryColumn(name="b", categories=("no", "yes"))), rows=ROWS)
NUMBERED = Schema(columns=(*NUMBERS, NumberColumn(name="b", lower=0.0, upper=1.0)), rows=ROWS)
SEEDS = range(12)


def told(schema, seed, mu=MU):
    """The release and its draws (draw, 4) of intercept, a, b and log scale; residuals' sd is 1."""
    rng, rare = np.random.default_rng(seed), np.arange(ROWS) < FEW
    a, coded = rng.uniform(-1, 1, ROWS), schema is DECLARED
    response = np.clip(a + EFFECT * rare + rng.standard_normal(ROWS), -9, 9)
    data = {"a": a, "b": np.where(rare, "yes", "no") if coded else rare * 1.0, "t": response}
    model = ModelSpec(family="linear", formula="t ~ a + b", prior=NormalPrior(scale=50.0))
    privacy = PrivacySpec(delta=1e-6, noise_multiplier=1.0 / mu)
    spec = JobSpec(model=model, sampler=NoisyQuadraticOptions(estimand="robust"), privacy=privacy)
    design = make_design(schema, model.formula)
    rows = opened(design, spec, table_of(schema, data))
    filled = plan(schema, spec).spec.sampler
    found = released(rows, design.max_norm, filled, 1.0 / mu, Seeded(50 + seed))
    made = found.posterior(rows.prior_mean, rows.prior, Seeded(90 + seed))
    return found, made.draws(1, 2000, Seeded(seed))[0]


def test_a_design_knows_its_indicators():
    kinds = CategoryColumn(name="k", categories=("u", "v", "w"))
    schema = Schema(columns=(*NUMBERS, kinds), rows=ROWS)
    design = make_design(schema, "t ~ a + k + a:k")
    number = ["a" in name for name in design.parameters]
    assert design.indicators.tolist() == [not told for told in number]
    assert any(number)


def test_a_declared_category_is_told_by_its_rows():
    """Forty rows alone have an sd of 1 / sqrt(40); coordinates that noise stretches have many."""
    found = [told(DECLARED, seed) for seed in SEEDS]
    sds = [UNIT * draws[:, 2].std() * math.sqrt(FEW) for _, draws in found]
    assert np.median(sds) < 3.5
    inside = [np.quantile(UNIT * d[:, 2], (0.01, 0.99)) for _, d in found]
    assert sum(low < EFFECT < high for low, high in inside) >= 10
    assert sum(verdict(release).reliable for release, _ in found) >= 11


@pytest.mark.parametrize(("schema", "most"), [(DECLARED, 0.7), (NUMBERED, 1.0)])
def test_rows_of_a_hidden_category_do_not_shift_the_scale(schema, most):
    """Where their mean is not known their residuals are large, and no longer those of the scale.

    Of a category that is declared as a number nobody knows that few rows have it.
    """
    off = []
    for seed in SEEDS:
        scale = told(schema, seed)[1][:, 3] + math.log(UNIT)
        off.append(scale.mean() / scale.std())
    assert abs(np.mean(off)) < most


def test_a_category_far_from_where_noise_puts_it_is_not_sure_and_wrong():
    """Twenty rows whose mean is six residual sds off, in a response of 65: scores are cut there."""
    rows, few, effect, away, widths = 4000, 20, 6.0, [], []
    names = "a", "c", "d", "e"
    numbers = tuple(NumberColumn(name=name, lower=-1.0, upper=1.0) for name in names)
    response = NumberColumn(name="t", lower=-32.0, upper=33.0)
    schema = Schema(columns=(*numbers, response, DECLARED.columns[2]), rows=rows)
    for seed in range(40):
        rng, rare = np.random.default_rng(seed), np.arange(rows) < few
        data = {name: rng.uniform(-1, 1, rows) for name in names}
        data["t"] = sum(data.values()) + effect * rare + rng.standard_normal(rows)
        data["b"] = np.where(rare, "yes", "no")
        told = {"epsilon": 10, "delta": 1e-6, "random": Seeded(seed)}
        fit = sample("t ~ a + c + d + e + b", data, schema, **told)
        row = fit.summary(mixing=False)["b[yes]"]
        away.append(abs(row.mean - effect) / row.sd)
        widths.append(row.sd)
    assert max(away) < 5.0
    assert np.median(widths) < 4.0  # where the response may be anywhere within 65


def test_a_slope_is_that_over_where_the_mean_may_lie():
    """Beyond the cut a score is no line: its mean slope over N(0, 2^2), by integration."""
    sd, spread, most, reach = 1.5, 2.0, 3.0, 2.5
    cut, nodes = most * sd / reach, np.linspace(-8, 8, 4001)
    weights = np.exp(-0.5 * nodes**2) / np.exp(-0.5 * nodes**2).sum()
    shift = nodes * spread / sd
    mean = float(weights @ (ndtr(cut - shift) - ndtr(-cut - shift)))
    one = np.ones(1)
    place = Evaluation(np.zeros((1, 1)), reach * one, spread * one, most, math.inf, sd, 1.0)
    slope = Linear().terms(np.zeros(1), place).root[0, 0, 0] ** 2
    assert slope * sd * sd == pytest.approx(mean, rel=1e-6)


def test_a_score_that_still_pulls_widens_its_direction_alone():
    found = dataclasses.replace(told(DECLARED, 3)[0], spreads=None)  # as where it is a number
    values, vectors = np.linalg.eigh(found.curvature)
    assert values[0] < 0.5 * np.median(values)
    way, pull = 0.4 * vectors[:, 0], 8.0 * found.score_sds[1] * vectors[:, 0]
    places = np.stack((found.place - 0.5 * found.root @ way, found.place + 0.5 * found.root @ way))
    pulls = np.stack((pull + found.curvature @ way, pull))  # as a step by the tangent says
    steady = dataclasses.replace(found, places=places, scores=pulls, score=pull)
    bent = dataclasses.replace(steady, scores=np.stack((pull, pull)))
    assert not unmoved(steady, vectors).any()
    assert unmoved(bent, vectors).tolist() == [True, False, False]
    mean, prior = np.zeros(4), np.full(4, 1e-4)
    sds = []
    for release in (steady, bent):
        moves = release.posterior(mean, prior, Seeded(4)).draws(1, 4000, Seeded(5))[0][:, :3]
        sds.append((np.linalg.solve(release.root, moves.T).T @ vectors).std(axis=0))
    assert sds[1][0] > 2.0 * sds[0][0]
    assert (sds[1][1:] < 1.4 * sds[0][1:]).all()
    assert verdict(bent).jump < 1.0


def test_a_look_from_afar_does_not_count_where_few_rows_tell_otherwise():
    """It is left out in that direction; the place is the last look's, as wide as its noise says."""
    found = dataclasses.replace(told(DECLARED, 3)[0], scaled=False)
    vectors = np.linalg.eigh(found.curvature)[1]
    way = 0.4 * vectors[:, 0]
    first, last = found.score_sds**2
    share = last / (first + last)  # of the first look, in the pooled place and score
    places = np.stack((found.place - (1.0 - share) * found.root @ way, found.place))
    places[1] = places[0] + found.root @ way
    far = 9.0 * first**0.5 * vectors[:, 0]
    agree = np.stack((found.curvature @ way, np.zeros(3)))
    for scores, apart in ((agree, False), (agree + np.stack((far, np.zeros(3))), True)):
        pooled = share * scores[0] + (1.0 - share) * scores[1]
        release = dataclasses.replace(found, places=places, scores=scores, score=pooled)
        assert parted(release, vectors).tolist() == [apart, False, False]
        score, noise = agreed(release)
        mode = release.place + release.root @ np.linalg.solve(release.curvature, score)
        assert mode == pytest.approx(places[1])  # its own score is 0
        sizes = np.diag(vectors.T @ noise @ vectors)
        assert sizes[0] == pytest.approx(last if apart else found.score_sd**2)
        assert sizes[1:] == pytest.approx(found.score_sd**2)
        assert verdict(release).jump < 1.0
    assert not parted(dataclasses.replace(release, scaled=True), vectors).any()


def test_classes_get_as_many_looks_as_counts():
    assert usual_far("multinomial") == usual_far("poisson") > usual_far("linear")

"""Clips of the model's own scores: chosen by layers of rows, and counted where they leave out."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from dpmcmc.families import MODELS
from dpmcmc.families.linear import MODEL
from dpmcmc.families.scores.base import NONE as NONE_INNER
from dpmcmc.families.scores.base import UNCUT, Evaluation
from dpmcmc.families.scores.given import Given
from dpmcmc.families.scores.linear import clipped_square, inside
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.inputs.spec import ModelOptions
from dpmcmc.mechanisms import sums
from dpmcmc.mechanisms.sums import Products
from dpmcmc.privacy import accountant
from dpmcmc.privacy.pld import leaves
from dpmcmc.releases import clips, newton_path, reach, whitening
from dpmcmc.releases.design_rows import HeldRows
from dpmcmc.releases.noisy_quadratic import Rows, event, released
from dpmcmc.releases.quadratic_verdict import verdict
from dpmcmc.releases.reach import Reach
from dpmcmc.releases.whitening import Whitening
from tests.sources import Seeded

NONE = np.zeros(0)


def told(lengths, z, seed=1, squares=None):
    """Layers of rows with these lengths, and curvatures of 1."""
    block = lengths, np.ones_like(lengths), NONE if squares is None else squares, None
    scaled = squares is not None
    return clips.layers([block], len(lengths), z, Seeded(seed), scaled=scaled, gaps=False)


@pytest.mark.parametrize("tail", ["normal", "exponential", "lognormal", "spike"])
def test_layers_tell_what_a_clip_leaves_out(tail):
    rng = np.random.default_rng(2)
    lengths = {
        "normal": np.abs(rng.normal(size=40_000)),
        "exponential": rng.exponential(size=40_000),
        "lognormal": rng.lognormal(0.0, 1.0, 40_000),
        "spike": np.where(rng.random(40_000) < 0.002, 30.0, 0.5),
    }[tail]
    found = told(lengths, 1e-3, squares=lengths**2)
    for clip in clips.LENGTHS[:-1]:
        left = float(np.maximum(lengths - clip, 0.0).mean())
        assert float(found.scores.beyond(np.array([clip]))[0]) == pytest.approx(
            left, abs=0.01, rel=0.1
        )
    for clip in clips.SIZES[:-1]:
        left = float(np.maximum(lengths**2 - clip**2, 0.0).mean())
        seen = float(found.squares.beyond(np.array([clip**2]))[0])
        assert seen == pytest.approx(left, abs=0.01, rel=0.1)


def test_noise_does_not_hide_a_tail_from_the_choice():
    rng = np.random.default_rng(3)
    chosen = []
    for tail in (np.abs(rng.normal(size=20_000)), np.abs(rng.standard_t(3, 20_000))):
        some = [clips.choose(told(tail, 20.0, seed), 5, 6.0) for seed in range(20)]
        chosen.append(np.median([clip.length for clip in some]))
    assert chosen[1] > 1.3 * chosen[0]
    left = [clip.left / float(np.maximum(tail - clip.length, 0.0).mean()) for clip in some]
    assert np.median(left) > 0.4  # of the last tail, which clips do reach


def test_what_many_rows_lose_cancels_in_part():
    """All of a single row's points one way, a third of that of a thousand rows."""
    parts = clips.one_sided(np.array([-1.0, 0.0, 1.0, 250.0, 3000.0]))
    assert parts[:2].tolist() == [1.0, 1.0]
    assert np.allclose(parts[2:], [0.96, 0.5, 0.33], atol=0.01)
    lengths = np.random.default_rng(6).exponential(size=40_000)
    longer = told(lengths, 1e-3).scores.longer(np.array([1.8, 3.6, 5.0]))
    assert np.allclose(longer, np.exp([-1.8, -3.6, -5.0]), rtol=0.15)


@pytest.mark.parametrize("z", [0.3, 1.0, 25.0])
@pytest.mark.parametrize("scaled", [False, True])
def test_layers_have_all_the_noise_that_they_are_charged(monkeypatch, z, scaled):
    """One vector, which a row that fills every layer moves by 1 / z of its noise."""
    seen = []

    def spy(total, sensitivity, noise_multiplier, noise):
        seen.append((np.array(total), sensitivity * noise_multiplier))
        return noisy_sums(total, sensitivity, noise_multiplier, noise)

    noisy_sums = sums.noisy_sums
    monkeypatch.setattr(sums, "noisy_sums", spy)
    rows = np.full(50, 1e9), np.zeros(50)
    for lengths in rows:
        block = lengths, lengths, lengths if scaled else NONE, None
        clips.layers([block], 50, z, Seeded(1), scaled=scaled, gaps=False)
    (full, sd), (empty, _) = seen
    assert np.linalg.norm(full - empty) / 50 == pytest.approx(sd / z, rel=1e-6)
    assert np.linalg.norm(full - empty) / 50 <= sd / z


def test_a_larger_budget_cuts_less():
    tail = np.abs(np.random.default_rng(4).standard_t(3, 20_000))
    some = [clips.choose(told(tail, 80.0 * z, 1), 5, 20.0 * z) for z in (1.0, 0.3, 0.1, 0.01)]
    assert [c.length for c in some] == sorted(c.length for c in some)
    assert [c.left for c in some] == sorted((c.left for c in some), reverse=True)
    assert some[-1].left * math.sqrt(20_000) < 0.2


def test_a_cap_of_curvatures_that_lies_far_out_has_a_part_of_its_own():
    """One row in a hundred has thirty times the curvature of a mean one, as of several classes."""
    rows, size, pooled = 20_000, 15, 3.0
    curves = np.where(np.arange(rows) % 100 == 0, 30.0, 0.7)
    block = np.full(rows, 0.5), curves, NONE, None
    seen = clips.layers([block], rows, 5.0, Seeded(1), scaled=False, gaps=False)
    chosen = clips.choose(seen, size, pooled, quadratic=False)
    share = chosen.parts[1]
    noise = math.sqrt(2.0 / share) * chosen.most * size * pooled / rows * math.sqrt(2.0 * size)
    assert chosen.most > 2.0 * clips.USUAL_CURVE
    assert share == clips.MOST_CURVE or noise <= clips.CURVE_NOISE_BENT[1] * (1.0 + 1e-9)
    usual = np.full(rows, 0.5), np.full(rows, 1.0), NONE, None
    seen = clips.layers([usual], rows, 5.0, Seeded(1), scaled=False, gaps=False)
    assert clips.choose(seen, size, pooled, quadratic=False).parts[1] < clips.MOST_CURVE


def test_no_row_fills_more_of_the_layers_than_is_charged():
    wild = np.array([0.0, 1.0, 1e300, np.inf, -np.inf, np.nan, -5.0, 7.0])
    for ends in (clips.LENGTHS, clips.CURVES, clips.SIZES**2):
        part = clips.filled(wild, ends)
        assert np.isfinite(part).all()
        assert np.abs(part).max() <= 0.5


@pytest.mark.parametrize("last", [0.0, 3.0, 9.0, 400.0])
def test_a_row_fills_at_most_what_the_event_is_charged_for(monkeypatch, last):
    """Rows at both ends are as far apart as two may be, and are not cut where they are added."""
    seen = {}

    def spy(blocks, dimension, rows, caps, z, random, **others):
        made = list(blocks)
        seen["norms"] = np.linalg.norm(np.concatenate([b.vectors for b in made], axis=1), axis=0)
        seen["apart"] = float(np.linalg.norm(made[0].vectors[:, 0] - made[0].vectors[:, 1]))
        seen["caps"] = caps
        return released_as_is(made, dimension, rows, caps, z, random, **others)

    released_as_is = clips.release
    monkeypatch.setattr(clips, "release", spy)
    ends = np.array([0.0, 1e9, 3.0, 60.0])
    block = ends, ends, ends, None
    clips.layers([block], 400, 5.0, Seeded(1), scaled=True, gaps=False, reach=50.0, last=last)
    assert seen["norms"].max() <= seen["caps"].score * (1.0 + 1e-12)
    assert seen["apart"] == pytest.approx(2.0 * seen["caps"].score, rel=1e-12)


def reached(lengths, z, last, seed=1):
    """What layers and the reach tell of rows with these lengths."""
    block = lengths, np.ones_like(lengths), NONE, None
    return clips.layers([block], len(lengths), z, Seeded(seed), scaled=False, gaps=False, last=last)


TAILS = {
    "normal": lambda rng: np.abs(rng.normal(size=20_000)),
    "a lump": lambda rng: np.where(rng.random(20_000) < 0.003, 12.0, np.abs(rng.normal(size=1))),
    "two lumps": lambda rng: rng.choice([0.5, 4.0, 11.0], 20_000, p=[0.99, 0.007, 0.003]),
    "exponential": lambda rng: np.minimum(rng.exponential(1.5, 20_000), 12.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("z", [3.0, 30.0])
def test_no_clip_leaves_out_more_than_is_told(tail, z):
    """Whatever lengths are, within the noise: of 150 releases none by chance of .0013 each."""
    lengths = TAILS[tail](np.random.default_rng(7))
    cuts = np.array([1.6, 2.5, 5.0, 10.0])
    left = np.array([np.maximum(lengths - cut, 0.0).mean() for cut in cuts])
    missed = 0
    for seed in range(150):
        told = reached(lengths, z, 12.0, seed)
        most = told.reach.most(cuts)
        missed += bool((most < left).any())
    assert missed <= 3


def test_the_reach_is_what_clips_leave_out_where_there_is_no_noise():
    for tail in TAILS:
        lengths = TAILS[tail](np.random.default_rng(8))
        told, cuts = reached(lengths, 1e-3, 12.0), np.array([2.1, 3.0, 6.0, 9.0])
        found, _ = told.reach.cut_off(cuts)
        left = [float(np.maximum(lengths - cut, 0.0).mean()) for cut in cuts]
        assert found == pytest.approx(left, abs=1e-2, rel=0.1)
        assert (told.unseen(cuts) >= np.array(left) - 2e-3).all()


def test_a_lump_that_is_seen_moves_the_clip_out():
    lengths = np.full(20_000, 0.7)
    plain = clips.choose(reached(lengths, 20.0, 30.0), 5, 6.0)
    lengths[:300] = 30.0
    some = clips.choose(reached(lengths, 20.0, 30.0), 5, 6.0)
    assert plain.length < 3.0 < 10.0 < some.length
    assert some.left > plain.left


def test_nothing_is_excluded_by_less_than_three_sds():
    told = Reach(np.array([2.1, 10.0]), 10.0, np.zeros(1), np.full(1, 1e-3))
    assert told.most(np.array([2.1, 6.05, 10.0])) == pytest.approx([3e-3 * 7.9, 3e-3 * 3.95, 0.0])
    apart = Reach(np.array([2.1, 6.0, 10.0]), 10.0, np.zeros(2), np.full(2, 1e-3))
    assert apart.most(np.array([2.1]))[0] == pytest.approx(3e-3 * math.hypot(3.9, 4.0))


def test_layers_by_their_width_say_more_of_the_sum_than_equal_ones(monkeypatch):
    """What they hold together, which moves an answer, has the noise of one number for all."""
    lengths = np.full(20_000, 0.7)
    by_width = reached(lengths, 20.0, 20.0).reach.cut_off(np.array([3.0]))[1][0]
    monkeypatch.setattr(reach, "MOST_PART", reach.LEAST_PART)
    equal = reached(lengths, 20.0, 20.0).reach.cut_off(np.array([3.0]))[1][0]
    assert by_width < 0.8 * equal


def test_how_far_a_score_can_be_follows_from_public_ends_and_released_numbers():
    eye = Whitening(np.eye(1), np.eye(1), 0.0, np.zeros((1, 1)))
    one = {
        name: MODELS[name].rows(ModelOptions(dispersion=4.0 if name[0] == "n" else None))
        for name in ("linear", "poisson", "negative_binomial", "logistic")
    }
    far = {
        "linear": reach.farthest(np.array([2.0]), 0.5, eye, one["linear"], (0.0, 8.0)),
        "poisson": reach.farthest(np.log([4.0]), 1.4, eye, one["poisson"], (0.0, 40.0)),
        "negative_binomial": reach.farthest(
            np.log([4.0]), 1.4, eye, one["negative_binomial"], (0.0, 40.0)
        ),
        "logistic": reach.farthest(np.log([1.0 / 99.0]), 1.0, eye, one["logistic"], (0.0, 1.0)),
    }
    assert far["linear"] == pytest.approx(12.0)
    assert far["poisson"] == pytest.approx(18.0)
    assert far["negative_binomial"] == pytest.approx(36.0 / math.sqrt(8.0))
    assert far["logistic"] == pytest.approx(10.0)
    assert reach.farthest(np.zeros(1), 1e-9, eye, one["linear"], (0.0, 8.0)) == reach.FARTHEST


@pytest.mark.parametrize("rate", [0.01, 0.5, 4.0, 190.0])
def test_counts_that_vary_as_the_model_says_reach_no_farther_than_these_do(rate):
    """However wide their bounds: no count that is as likely as one in a million lies beyond."""
    eye = Whitening(np.eye(1), np.eye(1), 0.0, np.zeros((1, 1)))
    for name, k in (("poisson", None), ("negative_binomial", 0.7)):
        family = MODELS[name].rows(ModelOptions(dispersion=k))
        law = stats.poisson(rate) if k is None else stats.nbinom(k, k / (k + rate))
        most = max(float(law.isf(1e-6)) - rate, rate) / float(law.std())
        far = [
            reach.farthest(np.log([rate]), 1.2, eye, family, (0.0, upper)) for upper in (1e4, 1e50)
        ]
        assert far[0] == far[1]
        assert far[0] == pytest.approx(most, abs=1.01 / float(law.std()))
        wide = reach.farthest(np.log([rate]), 1.4, eye, family, (0.0, 1e4))
        assert wide > far[0]


def test_the_reach_does_not_follow_the_rows():
    x = np.vstack([np.ones(50), np.linspace(-1.0, 1.0, 50)])
    eye = Whitening(np.eye(2), np.eye(2), 0.0, np.zeros((2, 2)))
    found = set()
    for y in (np.full(50, 4.0), np.full(50, 8.0), np.linspace(0.0, 8.0, 50)):
        problem = newton_path.Problem(
            MODEL.rows(ModelOptions()), HeldRows(x, y), np.array([4.0, 0.0]), np.zeros(2),
            np.ones(2), 1.5, 2.0, 1.0, of_model=True, ends=(0.0, 8.0),
        )  # fmt: skip
        path = newton_path._Path(problem, eye, Seeded(1))
        found.add((path._longest(), path._farthest(10.0, path._longest())))
    assert len(found) == 1


@pytest.mark.parametrize("mean_rows", [1.5, 3.0])
def test_a_person_reaches_as_far_as_rows_together_can(mean_rows):
    """Of three rows, the most that one has, all at the far end: no longer than the longest."""
    y = np.array([8.0, 8.0, 8.0, 1.0, 2.0, 3.0])
    problem = newton_path.Problem(
        MODEL.rows(ModelOptions()), HeldRows(np.ones((1, 6)), y), np.array([2.0]), np.zeros(1),
        np.ones(1), 1.0, 0.5, 1.0, of_model=True, ends=(0.0, 8.0), unit_rows=3, mean_rows=mean_rows,
    )  # fmt: skip
    eye = Whitening(np.eye(1), np.eye(1), 0.0, np.zeros((1, 1)))
    path = newton_path._Path(problem, eye, Seeded(1))
    path._root = 0.5 * np.eye(1)  # in which a mean person's information is 1
    score = path._unclipped(path._covering()).map(lambda block: np.abs(block.vectors).max(axis=1))
    longest = score.total()[0]
    assert longest == pytest.approx(12.0 * 3.0 / mean_rows)
    assert longest <= path._longest()
    # in lengths of a person whose rows are independent
    assert path._farthest(1e-3, math.inf) == pytest.approx(12.0 * math.sqrt(3.0))


def schema_box(d):
    """Bounds of an intercept, of a category and of numbers."""
    return np.array([1.0, 0.0, *[-1.0] * (d - 2)]), np.ones(d)


@pytest.mark.parametrize("name", ["logistic", "multinomial", "linear"])
@pytest.mark.parametrize("d", [3, 12])
def test_no_score_is_longer_than_public_bounds_allow(name, d):
    """An adversary's search over rows within their bounds comes near, where corners are few."""
    rng = np.random.default_rng(d)
    classes, family = (2 if name == "multinomial" else 1), MODELS[name].rows(ModelOptions())
    root, place = rng.normal(size=(classes * d, classes * d)), rng.normal(size=classes * d)
    low, high = schema_box(d)
    told = root, place, 0.7, family, (0.0, 8.0)
    most = reach.longest(*told, (low, high), (d, math.sqrt(d)))
    assert most <= reach.longest(*told, None, (d, math.sqrt(d))) * (1.0 + 1e-12)
    x = np.where(rng.random((d, 20_000)) < 0.5, low[:, None], high[:, None])
    y = rng.choice([0.0, 1.0, 8.0] if name == "linear" else np.arange(classes + 1.0), 20_000)
    jacobians = newton_path.jacobians_of(x, root)
    none, uncut = np.zeros(20_000), (UNCUT, UNCUT, 0.7, 3.0)
    inner = newton_path.inner(jacobians) if classes > 1 else NONE_INNER
    norms = np.linalg.norm(jacobians[0], axis=0)
    terms = family.terms(
        y, Evaluation(place.reshape(classes, d) @ x, norms, none, *uncut, inner=inner)
    )
    lengths = np.linalg.norm(Products(jacobians, terms.psi).array(), axis=0)
    longest = lengths.max() / math.sqrt(classes * d)
    assert longest <= most * (1.0 + 1e-9)
    assert longest > (0.4 if d == 3 else 0.1) * most


def test_where_counts_or_offsets_have_no_bound_no_length_is_ruled_out():
    eye, ends = np.eye(1), (0.0, 8.0)
    counts = MODELS["poisson"].rows(ModelOptions())
    assert reach.longest(eye, np.zeros(1), 1.0, counts, ends, None, (1, 1.0)) == math.inf
    linear = MODEL.rows(ModelOptions())
    told = eye, np.zeros(1), 1.0
    assert reach.longest(*told, linear, None, None, (1, 1.0)) == math.inf
    assert reach.longest(*told, Given(linear, 0.0), ends, None, (1, 1.0)) == math.inf
    weighted = Given(linear, 0.0, 2.0, 4.0, moved=False)
    plain = reach.longest(*told, linear, ends, None, (1, 1.0))
    assert reach.longest(*told, weighted, ends, None, (1, 1.0)) == pytest.approx(2.0 * plain)


def test_scores_that_cannot_be_long_are_cut_nowhere_beyond():
    """Layers end where scores do, and a clip there leaves nothing out."""
    lengths = np.minimum(np.random.default_rng(9).exponential(2.0, 20_000), 9.0)
    block = lengths, np.ones_like(lengths), NONE, None
    told = clips.layers(
        [block], 20_000, 20.0, Seeded(1), scaled=False, gaps=False, last=9.0, longest=9.0
    )
    assert told.scores.ends[-1] == 9.0
    assert told.unseen(np.array([9.0])) == pytest.approx([0.0], abs=1e-12)
    found = clips.choose(told, 5, 6.0)
    assert found.length <= 9.0
    open_ended = clips.layers([block], 20_000, 20.0, Seeded(1), scaled=False, gaps=False)
    assert found.left < clips.choose(open_ended, 5, 6.0).left


def test_a_clip_is_wider_where_else_too_much_may_be_hidden():
    variance, unseen = np.array([0.5, 0.4, 0.9, 4.0]), np.array([90.0, 60.0, 9.0, 0.0])
    assert clips._best(variance, unseen) == 2
    assert clips._best(variance, np.full(4, 90.0)) == 1  # then the least
    assert clips._best(np.array([0.5, 0.4, 9.0, 30.0]), unseen) == 1  # or where it costs too much
    assert clips._best(variance, unseen, most_wider=1.1) == 1
    assert clips._best(variance, unseen, 20.0) == 1  # scores that vary so much hide less


def lumps(rows, part, runs, epsilon, bound):
    """Distances (runs,) to least squares in own sds, the worst, and whether they are reliable."""
    found, good = [], []
    for run in range(runs):
        rng = np.random.default_rng(run)
        x = np.vstack([np.ones(rows), rng.uniform(-1.0, 1.0, rows), rng.uniform(-1.0, 1.0, rows)])
        sd = 8.0 / (bound + 5.0)
        y = np.clip(sd * (5.0 + 0.5 * x[1] + rng.normal(size=rows)), 0.0, 8.0)
        y[: round(part * rows)] = 8.0
        exact = np.linalg.lstsq(x.T, y, rcond=None)[0]
        mean, prior = np.array([4.0, 0.0, 0.0, 0.0]), np.array([8.0**-2] * 3 + [1.5**-2])
        told = Rows(
            MODEL.rows(ModelOptions()), HeldRows(x, y), mean[:3], mean, prior, 1.0, fixed=False,
            largest_slope=1.0, ends=(0.0, 8.0),
        )  # fmt: skip
        options = NoisyQuadraticOptions(num_far=4, estimand="model")
        mu = accountant.mu_of_epsilon(epsilon, 1e-6)
        release = released(told, math.sqrt(3.0), options, 1.0 / mu, Seeded(200 + run))
        draws = release.posterior(mean, prior, Seeded(run)).draws(1, 500, Seeded(run + 1))[0][:, :3]
        found.append(np.abs((draws.mean(axis=0) - exact) / draws.std(axis=0)).max())
        good.append(verdict(release).reliable)
    return np.array(found), np.array(good)


@pytest.mark.parametrize(("part", "bound"), [(0.005, 100.0), (0.005, 20.0), (0.002, 100.0)])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_few_responses_at_a_far_bound_are_not_reliably_wrong(part, bound, epsilon):
    off, good = lumps(20_000, part, 10, epsilon, bound)
    assert off[good].max(initial=0.0) < 3.5


def test_bounds_that_are_not_far_stay_reliable():
    off, good = lumps(20_000, 0.0, 10, 1.0, 8.0)
    assert good.mean() > 0.8
    assert off[good].max() < 3.0


def test_what_the_model_costs_is_charged_in_all_its_parts():
    for estimand in ("model", "robust", None):
        for paid in (None, "earlier"):
            options = NoisyQuadraticOptions(num_far=5, estimand=estimand, whitening=paid)
            made = event(options, 3.0, 100)
            assert accountant.gdp_mu(made) == pytest.approx(1.0 / 3.0, rel=1e-9)
            assert accountant.gdp_mu(made) <= 1.0 / 3.0
            layers = sum(leaves(made).values()) - 7 - (0 if paid else whitening.ITERATIONS)
            assert layers == (estimand == "model")


def incomes(kind, n, rng):
    """Covariates within [-1, 1] and incomes within [0, 100], skewed and most of them small."""
    employed, children = rng.random(n) < 0.7, rng.integers(0, 4, n)
    x = np.vstack([np.ones(n), employed * 1.0, children / 1.5 - 1.0])
    mean = 8.0 + 8.0 * employed - 1.0 * children
    skewed = {
        "lognormal": lambda: rng.lognormal(-0.5, 1.0, n),
        "gamma": lambda: rng.gamma(0.7, 1.0 / 0.7, n),
        "spike": lambda: (rng.random(n) < 0.6) * rng.gamma(2.0, 0.5 / 0.6, n),
    }[kind]()
    return x, np.clip(mean * skewed, 0.0, 100.0)


def income_fits(kind, epsilon, runs, estimand):
    """Distances (runs, 3) to least squares in sds, and whether each is called reliable."""
    unit, found, good = 100.0 / 8.0, [], []
    for run in range(runs):
        x, y = incomes(kind, 20_000, np.random.default_rng(run))
        exact = np.linalg.lstsq(x.T, y, rcond=None)[0]
        start = np.array([4.0, 0.0, 0.0])
        mean, prior = np.append(start, 0.0), np.array([8.0**-2] * 3 + [1.5**-2])
        family = MODEL.rows(ModelOptions())
        told = Rows(
            family, HeldRows(x, y / unit), start, mean, prior, 1.0, fixed=False, largest_slope=1.0,
            indicators=np.array([False, True, False]), ends=(0.0, 8.0),
        )  # fmt: skip
        options = NoisyQuadraticOptions(num_far=4, estimand=estimand)
        mu = accountant.mu_of_epsilon(epsilon, 1e-6)
        release = released(told, math.sqrt(3.0), options, 1.0 / mu, Seeded(100 + run))
        draws = release.posterior(mean, prior, Seeded(run)).draws(1, 1000, Seeded(run + 1))[0]
        off = unit * draws[:, :3].mean(axis=0) - exact
        found.append(off / (unit * draws[:, :3].std(axis=0)))
        good.append(verdict(release).reliable)
    return np.array(found), np.array(good)


@pytest.mark.parametrize("kind", ["lognormal", "gamma", "spike"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_skewed_incomes_are_not_reliably_wrong(kind, epsilon):
    off, good = income_fits(kind, epsilon, 12, "model")
    assert np.abs(off[good]).max(initial=0.0) < 3.0
    assert good.mean() > 0.8
    assert (np.abs(off[good]) < 1.645).mean() > 0.85


def test_a_tail_that_goes_on_as_it_begins_is_told():
    """Of normal lengths hardly anything is hidden; of Pareto ones, more than clips allow for."""
    rng, found = np.random.default_rng(5), []
    for tail in (np.abs(rng.normal(size=20_000)), rng.pareto(1.0, 20_000)):
        some = [clips.choose(told(tail, 20.0, seed), 5, 6.0) for seed in range(10)]
        found.append(np.median([clip.unseen for clip in some]) * math.sqrt(20_000))
    assert found[0] < 5.0 < found[1] / 4.0


@pytest.mark.parametrize("reach", [0.5, 2.0, 9.0, 50.0, math.inf])
def test_no_layer_lies_beyond_what_residuals_can_be(reach):
    square = np.minimum(np.random.default_rng(6).standard_t(2, 5000), reach) ** 2
    block = np.ones(5000), np.ones(5000), square, None
    seen = clips.layers([block], 5000, 1.0, Seeded(1), scaled=True, gaps=False, reach=reach)
    assert seen.squares.ends[-1] <= reach**2
    assert (np.diff(seen.squares.ends) > 0.0).all()
    assert np.isfinite(seen.squares.part).all()


def test_the_robust_answer_is_another_one_and_says_so():
    off, _ = income_fits("lognormal", 1.0, 3, "robust")
    assert np.abs(off).max() > 4.0


def test_a_release_tells_which_question_it_answers():
    x, y = incomes("gamma", 2000, np.random.default_rng(1))
    start = np.array([4.0, 0.0, 0.0])
    mean, prior = np.append(start, 0.0), np.ones(4)
    data = HeldRows(x, y / 12.5)
    told = Rows(MODEL.rows(ModelOptions()), data, start, mean, prior, 1.0, fixed=False)
    for estimand in ("model", "robust", None):
        options = NoisyQuadraticOptions(num_far=4, estimand=estimand)
        found = released(told, math.sqrt(3.0), options, 1.0, Seeded(1))
        assert found.robust == (estimand != "model")
        assert type(found).from_dict(found.to_dict()).robust == found.robust
        earlier = {k: v for k, v in found.to_dict().items() if k != "several_rows"}
        assert type(found).from_dict(earlier).several_rows  # it has no floor that came later
        before = {k: v for k, v in found.to_dict().items() if k != "robust"}
        assert type(found).from_dict(before).robust  # as it was stored before there was a choice
        wider = dataclasses.replace(found, left_sd=found.left_sd + 100.0)
        sds = [
            each.posterior(mean, prior, Seeded(2)).draws(1, 500, Seeded(3))[0].std(axis=0)
            for each in (found, wider)
        ]
        assert (sds[1][:3] > sds[0][:3]).all()


@pytest.mark.parametrize("clips", [[40.0], [41.0, 1e6, 1e12], [40.0, 39.0], [2.0, np.nan]])
def test_moments_of_residuals_that_no_clip_reaches_are_those_of_all(clips):
    """Without a look at the tables of a normal distribution; with the same bits."""
    clips = np.array(clips)
    tail = 2.0 * ndtr(-clips)
    density = 2.0 * clips * np.exp(-0.5 * clips**2) / np.sqrt(2.0 * np.pi)
    np.testing.assert_array_equal(
        clipped_square(clips), 1.0 - tail - density + clips * clips * tail
    )
    np.testing.assert_array_equal(inside(clips), 2.0 * ndtr(clips) - 1.0)

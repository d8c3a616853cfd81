"""Models with groups, `y ~ x + (1 | ward)` and `(x | ward)`: formulas, privacy, posteriors."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dpmcmc import (
    BinaryColumn,
    CategoryColumn,
    NormalPrior,
    NumberColumn,
    Schema,
    load,
    plan,
    sample,
)
from dpmcmc.base.errors import SpecError
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import NoisyQuadraticOptions
from dpmcmc.mechanisms import arrow_sums
from dpmcmc.mechanisms.arrow_sums import ArrowBlock, ArrowCaps
from dpmcmc.mechanisms.joint_sums import rounding
from dpmcmc.mechanisms.sums import digits_of
from dpmcmc.posterior.free.priors import CoefficientPrior
from dpmcmc.privacy.noise import SystemRandom
from dpmcmc.releases.grouped_posterior import Arrow, Part, judge, unseen_of_nested

WARDS = 12
NAMES = tuple(f"ward {k}" for k in range(WARDS))
PREDICTORS = (
    NumberColumn(name="x", lower=-2, upper=2),
    CategoryColumn(name="ward", categories=NAMES),
)
RESPONSES = {
    "linear": NumberColumn(name="y", lower=0, upper=40),
    "logistic": BinaryColumn(name="y", categories=("no", "yes")),
    "poisson": NumberColumn(name="y", lower=0, upper=60),
}
TRUTH = {"linear": (20.0, 1.5), "logistic": (-0.5, 0.8), "poisson": (0.5, 0.4)}
SD = {"linear": 3.0, "logistic": 0.8, "poisson": 0.6}


def wards(family, rows=4000, seed=3, sizes=None):
    """Rows of wards of unequal sizes; with what they were made of."""
    rng = np.random.default_rng(seed)
    parts = np.array(sizes or np.geomspace(1, 30, WARDS))
    ward = rng.choice(WARDS, rows, p=parts / parts.sum())
    effects = rng.normal(0, SD[family], WARDS)
    x = np.clip(rng.normal(0, 0.6, rows), -2, 2)
    first, slope = TRUTH[family]
    eta = first + slope * x + effects[ward]
    if family == "linear":
        y = np.clip(rng.normal(eta, 2), 0, 40)
    elif family == "logistic":
        y = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)
    else:
        y = np.minimum(rng.poisson(np.exp(eta)), 60)
    words = np.where(y == 1, "yes", "no") if family == "logistic" else y
    data = {"x": x, "ward": np.array(NAMES)[ward], "y": words}
    schema = Schema(columns=(*PREDICTORS, RESPONSES[family]), rows=rows)
    return SimpleNamespace(data=data, schema=schema, x=x, y=y, ward=ward, effects=effects)


def fitted(family, epsilon, **given):
    made = wards(family)
    formula = "y ~ x + (1 | ward)"
    options = {"family": family, "epsilon": epsilon, "delta": 1e-6} | given
    return made, sample(formula, made.data, made.schema, **options)


def exact(made, draws=3000):
    """The posterior without privacy by Gibbs, flat priors but those of effects and their sd."""
    rng, n = np.random.default_rng(0), len(made.x)
    design = np.column_stack((np.ones(n), made.x))
    beta, b, tau, sigma = np.array(TRUTH["linear"]), np.zeros(WARDS), 3.0, 2.0
    scale, kept = 10.0, []
    for step in range(draws + 500):
        for part in range(2):
            if part:
                left = made.y - design @ beta
                known = np.bincount(made.ward, minlength=WARDS) / sigma**2 + tau**-2
                pulled = np.bincount(made.ward, left, WARDS) / sigma**2
                b = rng.normal(pulled / known, known**-0.5)
            else:
                known = design.T @ design / sigma**2
                pulled = design.T @ (made.y - b[made.ward]) / sigma**2
                beta = rng.multivariate_normal(np.linalg.solve(known, pulled), np.linalg.inv(known))
        left = made.y - design @ beta - b[made.ward]
        sigma = math.sqrt((left @ left) / rng.chisquare(n))
        # intercept and effects move together, which mix slowly alone
        shift = rng.normal(b.mean(), tau / math.sqrt(WARDS))
        beta[0], b = beta[0] + shift, b - shift
        grid = scale * np.geomspace(1e-3, 5, 400)
        logs = -WARDS * np.log(grid) - 0.5 * (b @ b) / grid**2 - 0.5 * (grid / scale) ** 2
        weights = np.exp(logs - logs.max()) * grid
        tau = rng.choice(grid, p=weights / weights.sum())
        if step >= 500:
            kept.append((*beta, tau, *b))
    return np.array(kept)


def penalised(made, family, tau):
    """Effects of the mode without privacy, given the sd of effects."""
    n, b, beta = len(made.x), np.zeros(WARDS), np.zeros(2)
    u = np.column_stack((np.ones(n), made.x, np.eye(WARDS)[made.ward]))
    ridge = np.diag([1e-8, 1e-8, *([tau**-2] * WARDS)])
    theta = np.concatenate((beta, b))
    for _ in range(30):
        eta = u @ theta
        mean = 1 / (1 + np.exp(-eta)) if family == "logistic" else np.exp(eta)
        weight = mean * (1 - mean) if family == "logistic" else mean
        whole = (u * weight[:, None]).T @ u + ridge
        theta = theta + np.linalg.solve(whole, u.T @ (made.y - mean) - ridge @ theta)
    return theta, np.sqrt(np.diag(np.linalg.inv(whole)))


def test_a_formula_names_groups_that_are_no_columns_of_the_design():
    schema = wards("linear", 50).schema
    for formula in ("y ~ x + (1 | ward)", "y ~ (1|ward) + x", "y ~ (1 | `ward`) + x"):
        design = make_design(schema, formula)
        assert design.parameters == ("Intercept", "x")
        assert design.grouping.columns == ("ward",)
        assert design.grouping.parameters[:2] == ("sd(ward)", "ward[ward 0]")
        assert set(design.read) == {"x", "ward", "y"}
    alone = make_design(schema, "y ~ (1 | ward)")
    assert alone.parameters == ("Intercept",)


@pytest.mark.parametrize(
    ("formula", "remedy"),
    [
        ("y ~ (x | ward)", "write x + (x | ward)"),
        ("y ~ (x | ward/x)", "(x | ward/x): a slope"),
        ("y ~ x + (0 + x | ward)", "write (x || ward)"),
        ("y ~ x + (x - 1 | ward)", "write (x || ward)"),
        ("y ~ x + I(x^2) + (x + I(x^2) | ward)", "write (x | ward), and I(x^2):h"),
        ("y ~ poly(x, 2) + (poly(x, 2) | ward)", "is of a number with a slope of its own"),
        ("y ~ (1 | ward/x)", "'x' is a number"),
        ("y ~ (1 | ward/x/y)", "write (1 | ward/x:y), or ward + (1 | ward:x/y)"),
        ("y ~ x + (x | ward/x)", "write (x | ward:x)"),
        ("y ~ (x | ward) + (1 | ward:x)", "slopes differ by groups of one kind"),
        ("y ~ (1 | ward/ward)", "names a column twice"),
        ("y ~ (1 | ward) + (1 | ward)", "or one within the other, (1 | g/h)"),
        ("y ~ (1 | ward*x)", "write (1 | g)"),
        ("y ~ (1 | ward:ward)", "names a column twice"),
        ("y ~ (1 | ward:x)", "'x' is a number"),
        ("y ~ (x || ward)", "write x + (x || ward)"),
        ("y ~ (1 + x | ward)", "x:h by few categories"),
        ("y ~ (1 | ward) + (1 | x)", "or one within the other, (1 | g/h)"),
        ("y ~ (1 | x)", "'x' is a number"),
        ("y ~ (1 | wards)", "did you mean 'ward'"),
        ("y ~ C(ward) + (1 | ward)", "leave one of the two out"),
        ("y ~ 0 + x + (1 | ward)", "leave out 0 or - 1"),
        ("y ~ x | ward", "written (1 | g)"),
        ("~ x + (1 | ward)", "need a response"),
    ],
)
def test_groups_that_are_not_available_are_refused_with_what_to_write(formula, remedy):
    with pytest.raises(SpecError) as refused:
        make_design(wards("linear", 50).schema, formula)
    assert remedy in str(refused.value)


@pytest.mark.parametrize(
    "terms",
    [
        "(1 | region/`the ward`)",
        "(1 | region) + (1 | region:`the ward`)",
        "(1 | `the ward`:region) + (1 | region)",
        "(1 | region / `the ward`)",
    ],
)
def test_groups_within_groups_are_written_as_one_term_or_as_two(terms):
    schema = crossed_wards(50)[1]
    design = make_design(schema, f"y ~ {terms}")
    assert design == make_design(schema, "y ~ (1 | region/`the ward`)")
    assert design.sds == ("sd(region)", "sd(region:the ward)")
    effects = design.grouping.effects
    assert effects[:3] == ("region[a]", "region[b]", "region[c]")
    assert (effects[3], effects[-1], len(effects)) == (
        "region:the ward[a:w1]",
        "region:the ward[c:w4]",
        15,
    )
    for other, refusal in (("region", "leave one of the two out"), (".", "and there is none")):
        with pytest.raises(SpecError, match=refusal):
            make_design(schema, f"y ~ {other} + {terms}")


def crossed_wards(rows=6000):
    """Rows of four wards in each of three regions, whose means are far apart."""
    rng = np.random.default_rng(8)
    region, ward = rng.integers(0, 3, rows), rng.integers(0, 4, rows)
    effects = rng.normal(0, 2, (3, 4))
    y = np.clip(20 + 5 * region + effects[region, ward] + rng.normal(0, 2, rows), 0, 60)
    words = np.array(list("abc"))[region], np.array(["w1", "w2", "w3", "w4"])[ward]
    columns = (
        CategoryColumn(name="region", categories=tuple("abc")),
        CategoryColumn(name="the ward", categories=("w1", "w2", "w3", "w4")),
        NumberColumn(name="y", lower=0, upper=60),
    )
    data = {"region": words[0], "the ward": words[1], "y": y}
    return data, Schema(columns=columns, rows=rows), effects


def test_groups_may_be_categories_of_several_columns_crossed():
    data, schema, effects = crossed_wards()
    formula = "y ~ region + (1 | region:`the ward`)"
    design = make_design(schema, formula)
    assert design.grouping.count == 12
    assert design.grouping.effects[5] == "region:the ward[b:w2]"
    assert design.of_terms == ("region",)
    fit = sample(formula, data, schema, epsilon=20, delta=1e-6)
    means = {row.name: row.mean for row in fit.summary(mixing=False)}
    assert set(means) >= {"region[b]", "sd(region:the ward)", "region:the ward[c:w4]"}
    settings = [{"region": r, "the ward": f"w{w + 1}"} for r, w in (("a", 0), ("b", 2), ("c", 3))]
    told = [p.expected.mean for p in fit.predict([*settings, {"region": "b"}])]
    wanted = [20 + effects[0, 0], 25 + effects[1, 2], 30 + effects[2, 3]]
    assert told[:3] == pytest.approx(wanted, abs=0.5)
    assert told[3] == pytest.approx(25 + effects[1].mean(), abs=2.5)
    many = tuple(f"c{k}" for k in range(60))
    wide = [CategoryColumn(name=name, categories=many) for name in ("g", "h")]
    columns = (*wide, NumberColumn(name="y", lower=0, upper=1))
    with pytest.raises(SpecError, match="at most 2000"):
        make_design(Schema(columns=columns, rows=100), "y ~ (1 | g:h)")


def test_jobs_that_models_with_groups_cannot_have_are_refused_by_name():
    schema, formula = wards("linear", 500).schema, "y ~ x + (1 | ward)"

    def refusal(**given):
        with pytest.raises(SpecError) as refused:
            plan(formula, schema, **({"family": "linear", "epsilon": 1.0} | given))
        return str(refused.value)

    assert "noisy_quadratic" in refusal(sampler="dp_penalty")
    assert "noisy_quadratic" in refusal(sampler="sufficient_statistics")
    assert "C(ward)" in refusal(family="student_t")
    assert "as a number" in refusal(epsilon={"up_to": 4, "until": "reliable"})
    assert "/model/prior/sd(ward)/loc" in refusal(prior={"sd(ward)": NormalPrior(loc=1)})
    assert "no such parameter" in refusal(prior={"ward[ward 0]": NormalPrior(scale=1)})
    assert "did you mean 'sd(ward)'" in refusal(prior={"sd(wards)": NormalPrior(scale=1)})
    assert "between 1 and 12" in refusal(sampler=NoisyQuadraticOptions(num_joint=0))
    with pytest.raises(SpecError, match="leave it out"):
        plan(
            "y ~ x",
            schema,
            family="linear",
            epsilon=1.0,
            sampler=NoisyQuadraticOptions(num_joint=2),
        )


def caps_of(shares):
    return ArrowCaps(2.0, 3.0, 4.0, np.array([0.5, 1.0, 2.0]), shares)


def block_of(x, cell, psi, slope, square, own=(1.3,)):
    one = np.array([1.0])
    return ArrowBlock(
        np.array(x, np.float64)[:, None],
        np.array([cell]),
        np.array(own)[:, None],
        psi * one,
        slope * one,
        square * one,
        one,
    )


def moved_by(one, other, caps, rows=1000):
    """How far replacing a row by another moves what noise is added to, in its units."""
    digits, size = digits_of(rows), (2, 5, len(one.own))
    grid, weights = arrow_sums._grids(size, caps, digits)
    first, second = (arrow_sums._cells(size, caps, digits, block) for block in (one, other))
    return float(np.linalg.norm(grid * (first - second) * weights))


@pytest.mark.parametrize("effects", [1, 2])
def test_no_replaced_row_moves_a_joint_step_by_more_than_it_is_charged(effects):
    rng, caps = np.random.default_rng(1), caps_of((0.5, 0.3, 0.1, 0.08, 0.02))
    most = 0.0
    for _ in range(2000):
        size = 10.0 ** rng.uniform(-2, 4, 2)
        rows = [
            block_of(
                rng.normal(0, size[k], 2),
                int(rng.integers(-1, 5)),
                rng.normal(0, 3),
                abs(rng.normal(0, 3)),
                abs(rng.normal(0, 9)),
                (1.3, *rng.normal(0, size[k], effects - 1)),
            )
            for k in (0, 1)
        ]
        most = max(most, moved_by(*rows, caps))
    # opposite scores in one group, and a row that moves to another one
    for cell in (0, 3):
        one, other = (
            block_of([1e6, 0.0], c, psi, 1e9, square, (1.3, 7.0)[:effects])
            for c, psi, square in ((0, 1e6, 9e9), (cell, -1e6, 0.0))
        )
        most = max(most, moved_by(one, other, caps))
    there, own = [1.0, 1.0], (1.3, 0.4)[:effects]
    lost = block_of([math.nan, 1.0], 2, math.inf, 1.0, math.nan, own)
    assert moved_by(lost, block_of(there, 2, 1.0, 1.0, 1.0, own), caps) <= 1.0
    assert 0.7 < most <= 1.0 + 1e-9


def test_a_row_that_moves_to_another_group_attains_what_a_matrix_is_charged():
    caps = caps_of((0.0, 1.0, 0.0, 0.0, 0.0))
    one, other = (block_of([0.0, 0.0], cell, 0.0, 1e6, 0.0) for cell in (0, 1))
    assert moved_by(one, other, caps) == pytest.approx(1.0, rel=1e-5)  # of a grid
    same = block_of([0.0, 0.0], 0, 0.0, 1e6, 0.0)
    assert moved_by(one, same, caps) == 0.0
    one, other = (block_of([0.0, 0.0], 1, 0.0, 1e6, 0.0, own) for own in ((3.0, 4.0), (4.0, -3.0)))
    assert moved_by(one, other, caps) == pytest.approx(1.0, rel=1e-5)  # of slopes, in one group


@pytest.mark.parametrize(
    ("part", "attained"), [(0, 1.0), (1, 1.0), (2, math.sqrt(0.5)), (3, 1.0), (4, 1.0)]
)
def test_each_part_of_a_joint_step_alone_is_charged_for_its_worst_rows(part, attained):
    """Of which one is long in all that is released, and the other opposite, elsewhere or none."""
    caps = caps_of(tuple(float(k == part) for k in range(5)))
    one = block_of([1e3, 0.0], 0, 1e6, 1e9, 9e9)
    others = [block_of([1e3, 0.0], cell, psi, 1e9, 0.0) for cell, psi in ((0, -1e6), (1, 0.0))]
    others.append(block_of([0.0, 0.0], -1, 0.0, 0.0, 0.0))
    most = max(moved_by(one, other, caps) for other in others)
    if part == 1:  # two rows of one direction each
        far = block_of([0.0, 0.0], 1, 0.0, 1e9, 0.0)
        most = max(most, moved_by(block_of([0.0, 0.0], 0, 0.0, 1e9, 0.0), far, caps))
    assert most == pytest.approx(attained, rel=1e-5)


def test_parts_of_a_joint_step_beyond_the_whole_event_get_no_noise():
    block = block_of([1.0, 0.0], 0, 1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="add up to at most 1"):
        arrow_sums.release(
            [block], (2, 5, 1), 9, caps_of((0.5, 0.3, 0.1, 0.1, 0.1)), 1.0, SystemRandom()
        )


@pytest.mark.parametrize("part", [3, 4])
def test_counts_of_a_joint_step_are_rounded_down(part):
    """Of so many rows that a cell of the grid is large."""
    shares = tuple(0.3 * float(k == part) for k in range(5))
    one, none = block_of([1e3, 0.0], 0, 1e6, 1e9, 9e9), block_of([0.0, 0.0], -1, 0.0, 0.0, 0.0)
    moved = moved_by(one, none, caps_of(shares), rows=10**9)
    assert math.sqrt(0.3) * (1.0 - 1e-4) < moved <= math.sqrt(0.3)


def test_noise_of_a_joint_step_has_room_for_the_rounding_of_its_sums():
    caps, block = caps_of((0.5, 0.3, 0.1, 0.08, 0.02)), block_of([1.0, 0.0], 0, 1.0, 1.0, 1.0)
    sums = arrow_sums.release([block], (2, 5, 1), 10**9, caps, 1.0, SystemRandom())
    least = 1.0 + rounding(7, 10**9)
    assert sums.score_sd >= 4.0 / math.sqrt(0.5) * least > 4.0 / math.sqrt(0.5) * (1.0 + 1e-6)


@pytest.mark.parametrize("effects", [1, 2])
def test_a_joint_step_adds_up_what_rows_say_where_nothing_is_cut(effects):
    rng, n = np.random.default_rng(2), 300
    x, cells = rng.normal(0, 1, (2, n)), rng.integers(0, 5, n)
    psi, slope, square = rng.normal(0, 1, n), rng.random(n), rng.random(n)
    caps = ArrowCaps(1e3, 1e4, 10.0, np.array([1.0]), (0.4, 0.4, 0.1, 0.05, 0.05))
    counted = np.ones(n)
    counted[:7] = 0.0
    places = np.array([np.full(n, 2.0), rng.normal(0, 1, n)])[:effects]
    block = ArrowBlock(x, cells, places, psi, slope, square, counted)
    sums = arrow_sums.release([block], (2, 5, effects), n, caps, 1e-5, SystemRandom())
    kept = slice(7, n)
    own = [np.eye(5)[cells] * place[:, None] for place in places]
    u = np.column_stack((x.T, *own))[kept]
    whole = (u * slope[kept, None]).T @ u
    assert np.allclose(np.concatenate((sums.score, sums.cell_score)), psi[kept] @ u, atol=0.5)
    assert np.allclose(sums.curvature, whole[:2, :2], atol=1.0)
    assert np.allclose(sums.border, whole[:2, 2:], atol=1.0)
    apart = whole[2:, 2:].reshape(effects, 5, effects, 5)
    pairs = [np.diag(apart[i, :, j]) for i in range(effects) for j in range(i, effects)]
    assert np.allclose(sums.cell_curvature, np.concatenate(pairs), atol=1.0)
    assert sums.rows == pytest.approx(n - 7, abs=0.01)
    assert sums.square == pytest.approx(square[kept].sum(), abs=0.01)
    long = np.abs(psi[kept]) * np.linalg.norm(u, axis=1) > 1.0
    assert sums.longer == pytest.approx([long.sum()], abs=0.01)


def test_noise_has_the_sd_that_is_charged():
    caps, n = ArrowCaps(2.0, 3.0, 4.0, np.zeros(0), (0.5, 0.4, 0.1, 0.0, 0.0)), 1
    block = ArrowBlock(
        np.zeros((2, n)), np.zeros(n, np.int64), np.zeros((2, n)), *np.zeros((3, n)), np.ones(n)
    )
    size = (2, 40, 2)
    drawn = [arrow_sums.release([block], size, n, caps, 1.5, SystemRandom()) for _ in range(40)]
    cells = np.concatenate([sums.cell_score for sums in drawn])
    borders = np.concatenate([sums.border.ravel() for sums in drawn])
    own = np.array([sums.cell_curvature.reshape(3, 40) for sums in drawn])
    for values, expected in (
        (cells, 1.5 * 4.0 / math.sqrt(0.5)),
        (borders, 1.5 * 3.0 / math.sqrt(0.4)),
        (own[:, [0, 2]].ravel(), 1.5 * math.sqrt(2.0) * 3.0 / math.sqrt(0.4)),
        (own[:, 1].ravel(), 1.5 * 3.0 / math.sqrt(0.4)),
    ):
        assert values.std() == pytest.approx(expected, rel=4.0 / math.sqrt(2.0 * len(values)))
    assert drawn[0].score_sd == pytest.approx(1.5 * 4.0 / math.sqrt(0.5), rel=1e-9)


def test_with_hardly_any_noise_a_linear_model_has_the_posterior_without_privacy():
    made, fit = fitted("linear", 1e6)
    assert fit.verdict.status == "reliable"
    draws, parameters = fit.on().reshape(-1, len(fit.plan.parameters)), fit.plan.parameters
    wanted = exact(made)
    order = [0, 1, parameters.index("sd(ward)")]
    order += [parameters.index(f"ward[{name}]") for name in NAMES]
    ours = draws[:, order]
    sds = wanted.std(axis=0)
    assert np.abs((ours.mean(axis=0) - wanted.mean(axis=0)) / sds).max() < 0.2
    assert np.abs(np.log(ours.std(axis=0) / sds)).max() < 0.15


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_with_hardly_any_noise_effects_are_those_of_the_mode(family):
    made, fit = fitted(family, 1e6)
    assert fit.verdict.status == "reliable"
    draws = fit.on().reshape(-1, len(fit.plan.parameters))
    tau = draws[:, 2].mean()
    mode, sds = penalised(made, family, tau)
    ours = np.concatenate((draws[:, :2], draws[:, 3:]), axis=1)
    assert np.abs((ours.mean(axis=0) - mode) / sds).max() < 0.35
    assert np.abs(np.log(ours.std(axis=0)[2:] / sds[2:])).max() < 0.25


def test_groups_that_noise_hides_are_shrunk_and_said_so():
    sizes = [400.0] * 6 + [1.0] * 6
    made = wards("linear", 6000, sizes=sizes)
    fit = sample("y ~ x + (1 | ward)", made.data, made.schema, epsilon=1.0, delta=1e-6)
    assert fit.verdict.status == "reliable"
    assert "groups have too few rows beside the noise" in fit.verdict.sentence
    draws = fit.on().reshape(-1, len(fit.plan.parameters))
    effects = draws[:, -WARDS:]
    sds = (draws[:, :1] + effects).std(axis=0)  # of levels
    assert np.median(sds[6:]) > 3.0 * np.median(sds[:6])
    away = np.abs(effects.mean(axis=0)) / effects.std(axis=0)
    assert np.median(away[6:]) < 1.5


def test_one_group_alone_does_not_tell_how_much_groups_differ():
    """Of two declared ones, where nobody is in the other; with three of them it was said before."""
    random = np.random.default_rng(3)
    for names in (("a", "b"), ("a", "b", "c")):
        columns = (NumberColumn(name="y", lower=-10, upper=10),)
        kind = BinaryColumn if len(names) == 2 else CategoryColumn
        schema = Schema(columns=(*columns, kind(name="ward", categories=names)), rows=4000)
        data = {"y": random.normal(0, 1, 4000).clip(-10, 10), "ward": np.full(4000, "a")}
        fit = sample("y ~ 1 + (1 | ward)", data, schema, epsilon=4, accept_low_quality=True)
        assert fit.verdict.status == "unreliable"
        assert "tells nothing of how much groups differ" in fit.verdict.sentence


def test_predictions_are_of_a_group_or_of_one_not_seen_before():
    made, fit = fitted("linear", 50.0)
    known, new = fit.predict([{"x": 0.0, "ward": NAMES[-1]}, {"x": 0.0}])
    truth = TRUTH["linear"][0] + made.effects[-1]
    assert known.expected.q05 - 0.5 < truth < known.expected.q95 + 0.5
    assert new.expected.sd > 4.0 * known.expected.sd
    assert new.response.sd > known.response.sd
    difference = fit.release.posterior().compare({"x": 1.0}, {"x": 0.0})
    assert difference.predictor.sd < new.expected.sd / 4.0  # within one group
    with pytest.raises(SpecError, match="declared category"):
        fit.predict([{"x": 0.0, "ward": "none"}])
    with pytest.raises(SpecError, match="is missing"):
        fit.predict([{"ward": NAMES[0]}])


def test_another_prior_of_the_sd_of_groups_is_free():
    _, fit = fitted("linear", 4.0)
    release = fit.release
    narrow = release.posterior({"sd(ward)": NormalPrior(scale=0.01)})
    assert narrow.summary()["sd(ward)"].q95 < 0.06
    wide = release.posterior({"sd(ward)": CoefficientPrior(kind="student_t", df=3, scale=3.0)})
    assert wide.summary()["sd(ward)"].mean == pytest.approx(
        release.posterior().summary()["sd(ward)"].mean, rel=0.35
    )
    with pytest.raises(SpecError, match="sd"):
        release.posterior({"ward[ward 0]": NormalPrior(scale=1.0)})
    with pytest.raises(SpecError, match="loc 0"):
        release.posterior({"sd(ward)": CoefficientPrior(kind="laplace", scale=1.0)})
    laplace = release.posterior({"x": CoefficientPrior(kind="laplace", scale=0.001)})
    assert abs(laplace.summary()["x"].mean) < 0.3
    assert release.posterior().bayes_factor({"x": 0.0}).log > 2.0


def test_a_fit_with_groups_is_read_as_it_was_written(tmp_path):
    _, fit = fitted("linear", 4.0)
    fit.save(tmp_path / "fit.zip")
    again = load(tmp_path / "fit.zip")
    assert again.verdict == fit.verdict
    assert again.plan.parameters == fit.plan.parameters
    assert again.release.to_dict() == fit.release.to_dict()


def test_a_model_with_groups_costs_what_one_without_does():
    made = wards("linear", 2000)
    both = [
        plan(formula, made.schema, family="linear", epsilon=1.0, delta=1e-6)
        for formula in ("y ~ x", "y ~ x + (1 | ward)")
    ]
    assert both[1].cost.epsilon == pytest.approx(both[0].cost.epsilon, rel=1e-3)
    assert both[1].cost.epsilon <= 1.0
    assert both[1].algorithm == "noisy_quadratic"


def test_a_plan_says_where_groups_of_usual_size_would_be_hidden():
    made = wards("linear", 3000)
    small, large = (
        plan("y ~ x + (1 | ward)", made.schema, family="linear", epsilon=epsilon, delta=1e-6)
        for epsilon in (0.3, 8.0)
    )
    assert not small.usable
    assert large.usable
    with pytest.raises(SpecError, match="epsilon"):
        sample("y ~ x + (1 | ward)", made.data, made.schema, epsilon=0.3, delta=1e-6)


def test_a_verdict_knows_a_place_that_was_not_found():
    _, fit = fitted("logistic", 1e4)
    arrow = Arrow.from_dict(fit.release.to_dict())
    assert judge(arrow, None).reliable
    far = replace(arrow, cell_score=arrow.cell_score + 2.0 * arrow.cell_curvature)
    assert judge(far, None).fault == "place"
    hidden = replace(arrow, sds=arrow.sds * 1e6, quadratic=True)
    assert judge(hidden, None).fault == "noise"
    cut = replace(arrow, left=arrow.left + np.array([1e9, 0.0]), quadratic=True)
    assert judge(cut, None).fault == "skewed"


def test_rows_with_a_missing_code_are_left_out():
    made = wards("linear")
    columns = tuple(
        replace(column, missing=(-9.0,)) if column.name == "x" else column
        for column in made.schema.columns
    )
    data = dict(made.data)
    data["x"] = np.where(np.arange(len(made.x)) % 4 == 0, -9.0, made.x)
    schema = replace(made.schema, columns=columns)
    fit = sample("y ~ x + (1 | ward)", data, schema, epsilon=20.0, delta=1e-6)
    arrow = Arrow.from_dict(fit.release.to_dict())
    assert arrow.rows == pytest.approx(3000, abs=60)
    low, high = np.quantile(fit.on()[..., 1], (0.001, 0.999))
    assert low < TRUTH["linear"][1] < high


def exact_nested(made, sds_of_prior=(15.0, 15.0), count=40):
    """Moments without privacy of intercept, sds, regions' and wards' effects, by dense matrices.

    Of a linear model with flat priors of the intercept and half normal ones of both sds, which a
    grid takes in turn; the sd of residuals is that within wards.
    """
    data = made[0]
    region = np.unique(data["region"], return_inverse=True)[1]
    cell = 4 * region + np.unique(data["the ward"], return_inverse=True)[1]
    n, y = len(region), data["y"]
    design = np.column_stack((np.ones(n), np.eye(3)[region], np.eye(12)[cell]))
    means = np.bincount(cell, y) / np.bincount(cell)
    variance = ((y - means[cell]) ** 2).sum() / (n - 12)
    gram, pulled = design.T @ design / variance, design.T @ y / variance
    logs, parts = [], []
    for outer in np.geomspace(0.3, 60, count):
        for inner in np.geomspace(0.3, 20, count):
            known = np.concatenate(([1e-9], np.full(3, outer**-2), np.full(12, inner**-2)))
            covariance = np.linalg.inv(gram + np.diag(known))
            mean = covariance @ pulled
            log = 0.5 * (np.log(known).sum() + np.linalg.slogdet(covariance)[1] + pulled @ mean)
            log -= 0.5 * ((outer / sds_of_prior[0]) ** 2 + (inner / sds_of_prior[1]) ** 2)
            logs.append(log + math.log(outer * inner))
            whole = np.concatenate((mean[:1], [outer, inner], mean[1:]))
            spread = np.diag(covariance)
            parts.append((whole, np.concatenate((spread[:1], [0, 0], spread[1:]))))
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    middles, spreads = (np.array(each) for each in zip(*parts, strict=True))
    mean = weights @ middles
    return mean, np.sqrt(weights @ (spreads + (middles - mean) ** 2))


def test_with_hardly_any_noise_groups_within_groups_have_the_posterior_without_privacy():
    made = crossed_wards()
    data, schema, effects = made
    formula = "y ~ (1 | region/`the ward`)"
    fit = sample(formula, data, schema, epsilon=1e6, delta=1e-6, accept_low_quality=True)
    parameters = fit.plan.parameters
    assert parameters[2:4] == ("sd(region)", "sd(region:the ward)")
    draws = np.delete(fit.on().reshape(-1, len(parameters)), 1, axis=1)  # without log_sigma
    mean, sds = exact_nested(made)
    assert np.abs((draws.mean(axis=0) - mean) / sds).max() < 0.1
    assert np.abs(np.log(draws.std(axis=0) / sds)).max() < 0.1
    settings = [{"region": "b", "the ward": "w3"}, {"region": "b"}, {"the ward": "w3"}, {}]
    known, ward, *new = (p.expected for p in fit.predict(settings))
    assert known.mean == pytest.approx(25 + effects[1, 2], abs=0.3)
    assert ward.mean == pytest.approx(25 + effects[1].mean(), abs=1.5)
    at = [parameters.index(f"region:the ward[b:w{k}]") - 1 for k in (1, 2, 3, 4)]
    levels = draws[:, :1] + draws[:, [4]] + draws[:, at]
    assert known.sd == pytest.approx(levels[:, 2].std(), rel=0.1)
    alike = np.sqrt((draws[:, 0] + draws[:, 4]).var() + (draws[:, 2] ** 2).mean())
    assert ward.sd == pytest.approx(alike, rel=0.1)
    wide = np.sqrt(draws[:, 0].var() + (draws[:, 1:3] ** 2).mean(axis=0).sum())
    assert [each.sd for each in new] == pytest.approx([wide, wide], rel=0.1)


def test_both_sds_of_groups_within_groups_have_priors_of_their_own():
    data, schema, _ = crossed_wards()
    formula = "y ~ (1 | region/`the ward`)"
    cost = [
        plan(each, schema, epsilon=8.0, delta=1e-6, family="linear").cost.epsilon
        for each in (formula, "y ~ (1 | region:`the ward`)")
    ]
    assert cost[0] == cost[1]
    fit = sample(
        formula,
        data,
        schema,
        epsilon=8.0,
        delta=1e-6,
        prior={"sd(region)": NormalPrior(scale=9), "sd(region:the ward)": NormalPrior(scale=3)},
        accept_low_quality=True,
    )
    arrow = Arrow.from_dict(fit.release.to_dict())
    assert (arrow.outer_sd, arrow.prior_sd, arrow.within) == (1.2, 0.4, 4)  # of an eighth of 60
    for name, other in (
        ("sd(region)", "sd(region:the ward)"),
        ("sd(region:the ward)", "sd(region)"),
    ):
        narrow = fit.release.posterior({name: NormalPrior(scale=0.01)}).summary()
        assert narrow[name].q95 < 0.06
        assert narrow[other].mean > 1.0
    for name, sd in (("region[a]", r"sd\(region\)"), ("region:the ward[a:w1]", "sd.region:the")):
        with pytest.raises(SpecError, match=sd):
            fit.release.posterior({name: NormalPrior(scale=1.0)})


def test_a_verdict_says_which_sd_of_groups_within_groups_rows_do_not_tell():
    known, big, small = np.full(12, 4.0), 25.0, 1e-3
    assert unseen_of_nested(known, np.array([big, 1.0]), 4) == ""
    assert unseen_of_nested(known, np.array([small, 1.0]), 4).startswith("outer groups do not")
    assert unseen_of_nested(known, np.array([big, small]), 4).startswith("groups within outer")
    many = np.full(400, 0.2)  # of which none stands out, and all together do
    assert unseen_of_nested(many, np.array([1.0, 1.0]), 20) == ""


def arrow_of(d, g, seed, slope=0, within=0):
    """A stored release of g groups and d coefficients, whose noise hides some of both."""
    rng = np.random.default_rng(seed)
    sizes, k = rng.lognormal(3, 1.2, g), 2 if slope else 1
    rows = [rng.normal(rng.normal(0, 0.4, d - 1), 1.0, (int(n) + 2, d - 1)) for n in sizes]
    whole, border, cells = np.zeros((d, d)), np.zeros((d, k, g)), np.zeros((k, k, g))
    for c, own in enumerate(rows):
        u = np.column_stack((np.ones(len(own)), own))
        whole += u.T @ u
        border[:, :, c], cells[:, :, c] = u.T @ u[:, :k], u[:, :k].T @ u[:, :k]
    root = np.eye(d) if slope else np.triu(rng.normal(size=(d, d)), 1) + np.eye(d)
    if slope:  # whose first two columns are of 1 and of t
        root[0, 1:] = rng.normal(size=d - 1)
    return Arrow(
        place=rng.normal(size=d),
        effects=rng.normal(size=k * g),
        root=root,
        score=rng.normal(0, 9, d),
        cell_score=rng.normal(0, 9, k * g),
        curvature=whole,
        border=border.reshape(d, k * g),
        cell_curvature=cells[np.triu_indices(k)].ravel(),
        sds=np.array([6.0, 5.0, 3.0, 3.0, 4.0]),
        unit=1.0,
        left=np.array([1.0, 0.1]),
        rows=float(sum(map(len, rows))),
        square=1.0,
        square_sd=0.01,
        scale=1.0,
        scaled=False,
        spread=True,
        quadratic=True,
        prior_sd=1.0,
        df=0.0,
        noise_multiplier=1.0,
        tempering=0.9,
        slope=slope,
        slope_sd=0.7,
        within=within,
        outer_sd=1.4 if within else 0.0,
    )


def matrix_of(curve):
    """A curve as the matrix (d + k g, d + k g) that it is."""
    k = len(curve.cells)
    cells = np.block([[np.diag(curve.cells[i, j]) for j in range(k)] for i in range(k)])
    return np.block([[curve.corner, curve.border], [curve.border.T, cells]])


@pytest.mark.parametrize(
    ("d", "g", "slope", "within"),
    [
        (1, 6, 0, 0),
        (4, 3, 0, 0),
        (3, 40, 0, 0),
        (2, 6, 1, 0),
        (4, 3, 1, 0),
        (3, 30, 1, 0),
        (1, 6, 0, 3),
        (3, 20, 0, 4),
    ],
)
def test_a_posterior_by_an_arrow_is_that_of_the_whole_matrix(d, g, slope, within):
    arrow, times = arrow_of(d, g, d + g, slope, within), 1.3
    mean, precision = np.linspace(-1, 1, d), np.full(d, 0.2)
    (curve,) = arrow.curvatures(1, None)
    part = Part.of(arrow, curve, times, mean, precision)
    whole, k = matrix_of(curve), 2 if slope else 1
    assert np.linalg.eigvalsh(whole).min() > -1e-6
    gain = np.linalg.solve(times * whole + np.diag(arrow.noise(curve.cells)), whole).T
    score = np.concatenate((arrow.score, arrow.cell_score))
    likelihood, pulled = 0.9 * gain @ whole, 0.9 * gain @ score
    at = np.concatenate((np.zeros(d), -arrow.effects))  # moves where effects are 0
    turn = np.eye(k)
    if slope:  # effects by columns of the design, of effects by 1 and t
        turn[0, 1] = arrow.root[0, 1]
    logs = []
    for number, law in enumerate(part.laws.values):
        scatter = np.diag(law[:k] ** 2)
        if slope:
            scatter[0, 1] = scatter[1, 0] = law[2] * law[0] * law[1]
        own = turn.T @ np.linalg.inv(scatter) @ turn
        held = np.zeros((d + k * g, d + k * g))
        held[:d, :d] = arrow.root.T @ (precision[:, None] * arrow.root)
        every_effect = np.kron(scatter, np.eye(g))
        held[d:, d:] = np.kron(own, np.eye(g))
        if within:
            outer = np.kron(np.eye(g // within), np.ones((within, within)))
            every_effect = law[1] ** 2 * np.eye(g) + law[0] ** 2 * outer
            held[d:, d:] = np.linalg.inv(every_effect)
        prior_pull = held @ at
        prior_pull[:d] = arrow.root.T @ (precision * (mean - arrow.place))
        both, pull = likelihood + held, pulled + prior_pull
        middle = np.linalg.solve(both, pull)
        evidence = 0.5 * (pull @ middle - np.linalg.slogdet(both)[1])
        evidence -= 0.5 * arrow.effects @ held[d:, d:] @ arrow.effects
        evidence -= 0.5 * np.linalg.slogdet(every_effect)[1]
        evidence += math.log(law[0]) - 0.5 * (law[0] / (1.4 if within else 1.0)) ** 2
        if within:
            evidence += math.log(law[1]) - 0.5 * law[1] ** 2
        if slope:
            evidence += math.log(law[1]) - 0.5 * (law[1] / 0.7) ** 2 + 2 * math.log(1 - law[2] ** 2)
        logs.append(evidence)
        if number == len(part.laws.values) // 2:
            found, spread = part.moments(law)
            covariance = np.linalg.inv(both)
            assert np.allclose(found, middle, atol=1e-8)
            assert np.allclose(spread.corner, covariance[:d, :d], atol=1e-9)
            assert np.allclose(spread.border, covariance[:d, d:], atol=1e-9)
            assert np.allclose(spread.diagonal, np.diag(covariance), atol=1e-9)
            ours = matrix_of(spread)[d:, d:]
            assert np.allclose(ours, np.where(ours == 0.0, 0.0, covariance[d:, d:]), atol=1e-9)
            normals = part.of_effects(law)
            drawn = normals.drawn(np.eye(k * g))
            assert np.allclose(drawn.T @ drawn, covariance[d:, d:], atol=1e-9)
            moves = np.ones((1, d))
            given = part.of_effects(law, coefficients=True)
            own = np.linalg.inv(both[d:, d:])
            wanted = own @ (pull[d:] - both[d:, :d] @ moves[0]) + arrow.effects
            assert np.allclose(given.solved(part.pull_given(moves))[0], wanted, atol=1e-8)
    weights = np.exp(np.array(logs) - max(logs))
    assert np.allclose(part.weights, weights / weights.sum(), atol=1e-9)
    every = np.random.default_rng(0).normal(size=(3, d + k * g))
    assert np.allclose(curve.of(every), np.einsum("ni,ij,nj->n", every, whole, every))


@pytest.mark.parametrize(("g", "slope", "within"), [(25, 0, 0), (12, 1, 0), (24, 0, 6)])
def test_draws_of_many_groups_have_the_moments_of_their_posterior(g, slope, within):
    arrow = arrow_of(3, g, 4, slope, within)
    (curve,) = arrow.curvatures(1, None)
    part = Part.of(arrow, curve, 1.0, np.zeros(3), np.full(3, 0.2))
    moves, effects, laws = part.draws(40_000, SystemRandom())
    size = 3 + effects.shape[1]
    means, squares = np.zeros(size), np.zeros(size)
    for law, weight in zip(part.laws.values, part.weights.tolist(), strict=True):
        mean, spread = part.moments(law)
        means += weight * mean
        squares += weight * (mean**2 + spread.diagonal)
    variances = squares - means**2
    drawn = np.column_stack((moves, effects - arrow.effects))
    assert np.abs((drawn.mean(axis=0) - means) / np.sqrt(variances)).max() < 0.03
    assert np.abs(np.log(drawn.var(axis=0) / variances)).max() < 0.06
    assert laws.mean(axis=0) == pytest.approx(part.middle(), rel=0.02, abs=0.01)


def lines(rows=5000, seed=5):
    """Rows of wards whose levels and slopes differ, correlated; with what they were made of."""
    rng = np.random.default_rng(seed)
    ward, x = rng.integers(0, WARDS, rows), np.clip(rng.normal(0.4, 0.7, rows), -2, 2)
    effects = rng.multivariate_normal([0, 0], [[4.0, 1.2], [1.2, 1.0]], WARDS)
    y = np.clip(
        20 + effects[ward, 0] + (1.5 + effects[ward, 1]) * x + rng.normal(0, 2, rows), 0, 40
    )
    data = {"x": x, "ward": np.array(NAMES)[ward], "y": y}
    schema = Schema(columns=(*PREDICTORS, RESPONSES["linear"]), rows=rows)
    return SimpleNamespace(data=data, schema=schema, x=x, y=y, ward=ward, effects=effects)


def exact_lines(made, draws=2500):
    """The posterior without privacy by Gibbs, of standardised levels and slopes of wards."""
    rng, n = np.random.default_rng(0), len(made.x)
    design = np.column_stack((np.ones(n), made.x / 2))
    wards = [made.ward == k for k in range(WARDS)]
    grams = [design[own].T @ design[own] for own in wards]
    beta, b, law, sigma = (
        np.array([20.0, 3.0]),
        np.zeros((WARDS, 2)),
        np.array([2.0, 2.0, 0.0]),
        2.0,
    )
    grids = [
        np.geomspace(0.05, 20, 300),
        np.geomspace(0.05, 20, 300),
        np.linspace(-0.99, 0.99, 199),
    ]
    kept = []
    for step in range(draws + 500):
        cross = law[0] * law[1] * law[2]
        held = np.linalg.inv([[law[0] ** 2, cross], [cross, law[1] ** 2]])
        for k, own in enumerate(wards):
            left = made.y[own] - design[own] @ beta
            spread = np.linalg.inv(grams[k] / sigma**2 + held)
            b[k] = rng.multivariate_normal(spread @ design[own].T @ left / sigma**2, spread)
        left = made.y - (design * b[made.ward]).sum(axis=1)
        gram = np.linalg.inv(design.T @ design)
        beta = rng.multivariate_normal(gram @ design.T @ left, sigma**2 * gram)
        left = left - design @ beta
        sigma = math.sqrt((left @ left) / rng.chisquare(n))
        shift = rng.multivariate_normal(b.mean(axis=0), np.linalg.inv(held) / WARDS)
        beta, b = beta + shift, b - shift
        for j, grid in enumerate(grids):
            tried = np.repeat(law[None], len(grid), axis=0)
            tried[:, j] = grid
            first, second, rho = tried.T
            one, two, both = (b**2).sum(axis=0)[0], (b**2).sum(axis=0)[1], (b[:, 0] * b[:, 1]).sum()
            size = 1 - rho**2
            logs = -WARDS * (np.log(first * second) + 0.5 * np.log(size))
            logs -= (
                0.5 * (one / first**2 + two / second**2 - 2 * rho * both / first / second) / size
            )
            logs += -0.5 * (first**2 + second**2) / 100 + np.log(size)
            weights = np.exp(logs - logs.max()) * (grid if j < 2 else 1.0)
            law[j] = rng.choice(grid, p=weights / weights.sum())
        if step >= 500:
            kept.append((*beta, *law, *b.T.ravel()))
    return np.array(kept)


@pytest.mark.longer
def test_with_hardly_any_noise_levels_and_slopes_have_the_posterior_without_privacy():
    made = lines()
    fit = sample("y ~ x + (x | ward)", made.data, made.schema, epsilon=1e6, delta=1e-6)
    assert fit.verdict.status == "reliable"
    names = ("Intercept", "x", "log_sigma", "sd(ward)", "sd(ward:x)", "cor(ward:x)")
    assert fit.plan.parameters[:6] == names
    assert fit.plan.parameters[-1] == f"{fit.plan.parameters[5 + WARDS]}:x"
    ours = np.delete(fit.on("design").reshape(-1, len(fit.plan.parameters)), 2, axis=1)
    wanted = exact_lines(made)
    sds = wanted.std(axis=0)
    assert np.abs((ours.mean(axis=0) - wanted.mean(axis=0)) / sds).max() < 0.2
    assert np.abs(np.log(ours.std(axis=0) / sds)).max() < 0.15


def test_slopes_of_groups_are_in_units_of_their_column_and_predictions_follow_them():
    made = lines()
    fit = sample("y ~ x + (x || ward)", made.data, made.schema, epsilon=50, delta=1e-6)
    names = list(fit.plan.parameters)
    assert "cor(ward:x)" not in names
    draws = {scale: fit.on(scale).reshape(-1, len(names)) for scale in ("original", "design")}
    for name in ("sd(ward:x)", f"ward[{NAMES[3]}]:x"):
        one, other = (draws[scale][:, names.index(name)] for scale in ("original", "design"))
        assert one == pytest.approx(other / 2.0)
    slopes = draws["original"][:, [names.index(f"ward[{name}]:x") for name in NAMES]]
    assert np.abs(slopes.mean(axis=0) - made.effects[:, 1]).max() < 1.2
    told = fit.predict([{"x": x, "ward": NAMES[3]} for x in (-1.0, 1.0)] + [{"x": 1.0}])
    by_hand = draws["original"][:, names.index("x")] + slopes[:, 3]
    rise = told[1].expected.mean - told[0].expected.mean
    assert rise == pytest.approx(2.0 * by_hand.mean(), abs=0.15)
    own = made.ward == 3  # whose rows alone say about this, whatever they were drawn from
    assert rise == pytest.approx(2.0 * np.polyfit(made.x[own], made.y[own], 1)[0], abs=0.6)
    assert told[2].expected.sd > 3.0 * told[1].expected.sd
    flat = fit.release.posterior({"sd(ward:x)": NormalPrior(scale=0.01)})
    assert flat.summary()["sd(ward:x)"].q95 < 0.06
    with pytest.raises(SpecError, match=r"sd\(ward:x\)"):
        fit.release.posterior({f"ward[{NAMES[3]}]:x": NormalPrior(scale=1.0)})


def test_a_prior_of_the_sd_of_slopes_may_be_in_the_unit_of_their_column():
    made = lines(2000)
    planned = plan(
        "y ~ x + (x | ward)",
        made.schema,
        family="linear",
        epsilon=8.0,
        prior={"sd(ward:x)": "normal(0, 0.5)"},
    )
    assert planned.spec.model.prior["sd(ward:x)"].scale == pytest.approx(1.0)
    assert planned.spec.model.prior["sd(ward)"].scale == 10.0


def test_a_joint_step_of_more_cells_than_the_proof_covers_is_refused():
    none = np.zeros(1)
    own = np.ones((1, 1))
    block = ArrowBlock(np.zeros((2, 1)), np.zeros(1, np.int64), own, none, none, none, none)
    caps = caps_of((0.5, 0.3, 0.1, 0.05, 0.05))
    arrow_sums.release([block], (2, 2000, 1), 9, caps, 1.0, SystemRandom())
    for size in ((2, 2001, 1), (2, 1001, 2), (250, 3, 1), (249, 3, 2)):
        with pytest.raises(ValueError, match="too many"):
            arrow_sums.release([block], size, 9, caps, 1.0, SystemRandom())


@pytest.mark.parametrize(("link", "off"), [("logit", 0.01), ("log", 1e-12)])
def test_means_stay_where_predictors_are_averaged_over_other_variances(link, off):
    """Of two covariates whose means are not 0, by quadrature."""
    root = np.array([[2.0, -0.6, 0.4], [0.0, 1.5, 0.2], [0.0, 0.0, 0.8]])
    blank = {name: np.zeros(0) for name in ("score", "cell_score", "curvature", "left")}
    blank |= dict.fromkeys(("unit", "rows", "square", "scale", "prior_sd"), 1.0)
    arrow = Arrow(
        **blank, border=np.zeros((3, 3)), cell_curvature=np.ones(3), sds=np.ones(5),
        square_sd=0.0, scaled=False, spread=False, quadratic=False, df=0.0,
        noise_multiplier=1.0, root=root, link=link,
        place=np.array([-0.4, 0.9, 0.5]), effects=np.array([0.7, -0.2, 0.1]),
        averaged=np.full(3, 0.4),
    )  # fmt: skip
    other = arrow.averaged_over(np.full(3, 1.1), np.array([5.0, 1.0, 3.0]))
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    usual = -np.linalg.solve(root[1:, 1:].T, root[0, 1:])
    x = usual + np.random.default_rng(2).normal(0, 0.7, (50, 2))

    def means(release):
        level = release.place[0] + x @ release.place[1:]
        at = (level[:, None] + release.effects)[..., None] + release.averaged[:, None] * nodes
        answers = np.exp(at) if link == "log" else 1 / (1 + np.exp(-at))
        return answers @ (weights / weights.sum())

    assert means(other) == pytest.approx(means(arrow), abs=off)
    if link == "logit":  # which a release that stays where it was would not have
        assert abs(means(replace(arrow, averaged=other.averaged)) - means(arrow)).max() > 0.03


def bare_arrow(link, **more):
    """Return a release without numbers, of a link, with one coefficient unless `more` says so."""
    blank = {name: np.zeros(0) for name in ("score", "cell_score", "curvature", "left")}
    blank |= dict.fromkeys(("unit", "rows", "square", "scale", "prior_sd"), 1.0)
    blank |= {"sds": np.ones(5), "square_sd": 0.0, "df": 0.0, "noise_multiplier": 1.0}
    blank |= {"scaled": False, "spread": False, "quadratic": False, "link": link}
    return Arrow(**blank | {"root": np.eye(1), "place": np.zeros(1)} | more)


def test_a_tangent_of_a_log_link_touches_the_mean_where_groups_are():
    """Score over curvature is exp(x + (p^2 - s^2) / 2) - 1, x the effect from where it was seen."""
    effects, averaged = np.array([0.7, -0.2, 0.1]), np.array([0.4, 0.2, 0.3])
    arrow = bare_arrow(
        "log", effects=effects, averaged=averaged, around=effects,
        border=np.ones((1, 3)), cell_curvature=np.ones(3),
    )  # fmt: skip
    variances, times = np.array([0.05, 0.02, 0.1]), np.array([2.5, 0.4, 1.0])
    tangent = arrow.tangent(variances, times)
    assert tangent.averaged == pytest.approx(np.sqrt(variances))

    def exact(x):
        return np.exp(x + 0.5 * (variances - averaged**2)) - 1

    x = tangent.around - effects
    assert exact(x) == pytest.approx(times - 1)
    assert tangent.times * (tangent.around - tangent.effects) == pytest.approx(exact(x))
    assert tangent.times == pytest.approx((exact(x + 1e-6) - exact(x - 1e-6)) / 2e-6)


def test_predictors_are_as_near_to_where_rows_were_evaluated_as_earlier_steps_say():
    """Of effects that are seen twice: by the score, and by the place that a step before found."""
    g, sd, noise, before = 2000, 0.7, 0.5, 0.6
    random = np.random.default_rng(4)
    effects = random.normal(0, sd, g)
    kept = sd**2 / (sd**2 + before**2)
    around = kept * (effects + random.normal(0, before, g))
    curvature = np.full(g, 10.0)
    off = np.sqrt(curvature + (noise * curvature) ** 2) * random.normal(size=g)
    arrow = bare_arrow(
        "logit", effects=around, averaged=np.full(g, 0.5), around=around,
        score=np.zeros(1), curvature=np.full((1, 1), curvature.sum()), rows=float(g),
        cell_score=curvature * (effects - around) + off, left=np.zeros(2),
        border=curvature[None], cell_curvature=curvature,
        sds=np.array([1e-3, noise * 10, 1e-3, 1e-3, 1e-3]),
        earlier_precision=np.full(g, before**-2.0),
    )  # fmt: skip
    away = np.mean((effects - around) ** 2)
    flat = np.zeros(1), np.full(1, 1e-6)

    def found(release):
        part = Part.of(release, release.curvatures(1, None)[0], 1.0, *flat)
        return part.variances().mean()

    assert found(arrow) == pytest.approx(away, rel=0.07)
    assert found(replace(arrow, earlier_precision=np.zeros(0))) > 1.15 * away  # by the score alone


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_means_are_averaged_over_what_the_release_tells_of_predictors(family):
    arrow = fitted(family, 2.0)[1].release._stored
    d = len(arrow.place)
    flat = np.zeros(d), np.full(d, 1e-6)
    part = Part.of(arrow, arrow.curvatures(1, None)[0], 1.0, *flat)
    assert np.sqrt(part.variances()) == pytest.approx(arrow.averaged, rel=0.25)


@pytest.mark.longer
def test_a_release_that_is_noise_alone_has_draws():
    """Slopes of thirty groups in 300 rows of counts that are all 0, at epsilon .01."""
    names = tuple(f"w{k}" for k in range(30))
    rows = {"x": np.linspace(-2, 2, 300), "y": np.zeros(300), "w": np.repeat(names[0], 300)}
    columns = (PREDICTORS[0], CategoryColumn(name="w", categories=names), RESPONSES["poisson"])
    given = {"family": "poisson", "epsilon": 0.01, "delta": 1e-6}
    for _ in range(3):
        fit = sample(
            "y ~ x + (x | w)", rows, Schema(columns=columns, rows=300), spend="all",
            accept_low_quality=True, **given,
        )  # fmt: skip
        assert fit.verdict.status == "unreliable"
        assert np.isfinite(fit.on()).all()

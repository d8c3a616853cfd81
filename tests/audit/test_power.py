"""The audit finds noise that is too small, in every algorithm, and a sampler that is new."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np
import pytest

from dpmcmc.inputs.options import ChainOptions, Proposal
from dpmcmc.privacy import discrete
from dpmcmc.releases import RELEASES
from dpmcmc.samplers import SAMPLERS
from dpmcmc.samplers.algorithms import ALGORITHMS
from dpmcmc.samplers.base import Sampler
from dpmcmc.samplers.penalty import init, penalty_event, step
from dpmcmc.samplers.penalty_mixing import PenaltyMixing
from tests.audit import mechanism
from tests.audit.bounds import FALSE_ALARMS
from tests.audit.cells import CHAINS, Candidate, attacked, candidates, names
from tests.audit.noise import of_plan, of_run
from tests.audit.report import Audit
from tests.audit.requests import Request, from_json
from tests.audit.search import COLUMNS, FORMULAS, Outcome, admitted, examine
from tests.audit.work import QUICK, wanted

pytestmark = pytest.mark.slow
CUT = 0.15  # of the noise that is left: attacks on secret steps need so much to be sure
CELLS = 100  # more than an audit has
ATTACKS = 5  # each of which reports what holds less than once in 10^5
WALK = {"kind": "full", "shape": "bactrian", "adapt": False, "stretch": 1.0, "scale": 1.0}
ONE = {**WALK, "kind": "component"}
PATH = {"gradient_noise_multiplier": 100.0, "gradient_clip": 1e-6, "step_size": 2.5}
SHARP = {
    "dp_penalty": {"proposal": WALK},
    "dp_penalty_component": {"proposal": ONE},
    "dp_penalty_guided": {"proposal": ONE},
    "dp_penalty_subsampled": {"proposal": {**WALK, "scale": 2.5}, "batch": 2},
    "dp_hmc": {**PATH, "num_leapfrog": 1},
    "dp_mala": PATH,
    "noisy_mean": {"shares": [1.0]},
}
# whose draws hide most of what they cost; see the report
UNSEEN = {"dp_barker", "noisy_quadratic", "dp_vi", "sufficient_statistics"}


@pytest.fixture
def quieter(monkeypatch):
    """Privacy noise everywhere, cut."""
    real = discrete.gaussian_noise

    def cut(*given):
        return np.rint(CUT * real(*given)).astype(np.int64)

    mechanism.replace(monkeypatch, "gaussian_noise", cut)


@pytest.fixture
def weaker(monkeypatch):
    """Every algorithm as if its noise multiplier was less than what is charged for."""
    for name, real in list(ALGORITHMS.items()):
        if name in RELEASES:
            changed = replace(real, publish=_cut(real.publish, 3))
        else:
            changed = replace(real, step=_cut(real.step, 2))
        for registry in (SAMPLERS, RELEASES, ALGORITHMS):
            if name in registry:
                monkeypatch.setitem(registry, name, changed)


def _cut(real, place):
    """Return a function that gets less of the noise multiplier at this place of its arguments."""

    def less(*given):
        return real(*given[:place], CUT * given[place], *given[place + 1 :])

    return less


def sharp(algorithm, **options):
    column = {"name": "x", "type": "number", "lower": -1.0, "upper": 1.0}
    delta = 1e-3 if algorithm == "dp_penalty_subsampled" else 1e-5
    steps = 500 if algorithm in RELEASES else 1
    job = {
        "model": {"family": "gaussian_mean", "formula": "~ x"},
        "sampler": {"algorithm": algorithm, "num_steps": steps, "num_warmup": 0, **options},
        "privacy": {"delta": delta, "noise_multiplier": 1.0},
    }
    return Candidate(Request((column,), 2, job), ({"x": 0}, {"x": 1}), ({"x": 0},))


def fails(cell):
    audit = Audit([cell], {}, {}, [], {})
    return cell.sure(FALSE_ALARMS / CELLS) > cell.claim.epsilon and bool(audit.wrong())


def test_every_algorithm_is_attacked_here():
    assert set(SHARP) | UNSEEN == set(names())


@pytest.mark.longer
@pytest.mark.parametrize("algorithm", SHARP)
def test_an_attack_sees_that_noise_was_cut(weaker, algorithm):
    """One of a few attacks: a threshold is learned from trials, and now and then badly."""
    release = algorithm in RELEASES
    trials, chains = (1000, 1) if release else (20_000, CHAINS)
    target = sharp(algorithm, **SHARP[algorithm])
    assert any(fails(attacked(target, trials, chains)) for _ in range(ATTACKS))


@pytest.mark.parametrize("algorithm", ["dp_penalty", "noisy_mean"])
def test_an_attack_on_noise_as_it_is_stays_below_the_claim(algorithm):
    release = algorithm in RELEASES
    trials, chains = (1000, 1) if release else (20_000, CHAINS)
    cell = attacked(sharp(algorithm, **SHARP[algorithm]), trials, chains)
    assert not cell.sure(FALSE_ALARMS / CELLS) > cell.claim.epsilon
    assert cell.trial == "chain"


def usual(algorithm):
    """Any small request of this algorithm, of means, or of a regression where it takes none."""
    for family, formula in (("gaussian_mean", "~ x"), ("linear", FORMULAS[2])):
        job = {
            "model": {"family": family, "formula": formula},
            "sampler": {"algorithm": algorithm, "num_steps": 3, "num_chains": 1},
            "privacy": {"delta": 1e-6, "noise_multiplier": 1.0},
        }
        request = Request(COLUMNS, 20, job)
        if admitted(request):
            return request
    raise AssertionError(algorithm)


@pytest.mark.longer
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_request_is_found_where_noise_is_cut(quieter, algorithm):
    request = usual(algorithm)
    planned = request.plan()
    kinds = {one.kind for one in of_run(request, planned, np.random.default_rng(1))}
    assert "noise" in kinds
    assert "noise" in {one.kind for one in of_plan(planned)}


@pytest.mark.longer
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nothing_is_found_where_noise_is_as_it_should_be(algorithm):
    assert examine(usual(algorithm), Outcome(), np.random.default_rng(1)) == []


@pytest.mark.parametrize(
    "algorithm", ["dp_penalty", "dp_penalty_subsampled", "dp_barker", "dp_hmc"]
)
def test_a_decision_with_less_noise_is_found(monkeypatch, algorithm):
    """Of the right integers, but in cells that are too small."""
    real = discrete.scale_of
    mechanism.replace(monkeypatch, "scale_of", lambda *given: _half(real(*given)), inside=True)
    if algorithm == "dp_barker":
        monkeypatch.setattr("dpmcmc.samplers.dp_barker.math.sqrt", lambda x: 0.5 * x**0.5)
    found = of_run(usual(algorithm), usual(algorithm).plan(), np.random.default_rng(1))
    assert "noise" in {one.kind for one in found}


def _half(scale):
    return scale._replace(unit=0.5 * scale.unit)


def test_more_draws_than_are_paid_for_are_found(monkeypatch):
    real = SAMPLERS["dp_penalty"]

    def cheap(options, noise_multiplier, rows):
        return penalty_event(options, 2.0 * noise_multiplier, rows)

    broken = Sampler(real.name, real.options, cheap, real.mixing, real.step, real.init)
    for registry in (SAMPLERS, ALGORITHMS):
        monkeypatch.setitem(registry, "dp_penalty", broken)
    found = of_run(usual("dp_penalty"), usual("dp_penalty").plan(), np.random.default_rng(1))
    assert "cost" in {one.kind for one in found}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakyOptions(ChainOptions):
    algorithm: Literal["leaky"] = "leaky"
    proposal: Proposal = field(default_factory=Proposal)


@pytest.fixture
def leaky(monkeypatch):
    """A sampler that is registered like any other, with less noise than its event says."""

    def less(target, options, noise_multiplier, *rest):
        return step(target, options, CUT * noise_multiplier, *rest)

    mixing = PenaltyMixing()
    made = Sampler("leaky", LeakyOptions, penalty_event, mixing, less, partial(init, mixing))
    for registry in (SAMPLERS, ALGORITHMS):
        monkeypatch.setitem(registry, "leaky", made)


@pytest.mark.longer
def test_a_sampler_is_audited_by_being_registered(leaky):
    assert ("leaky", "gaussian_mean", 1) in list(wanted(QUICK, []))
    assert candidates("leaky", "gaussian_mean", 1.0, 1e-5, 1)
    target = sharp("leaky", proposal=WALK)
    assert any(fails(attacked(target, 24_000, CHAINS)) for _ in range(ATTACKS))
    found = examine(usual("leaky"), Outcome(), np.random.default_rng(1))
    assert {"cost"} <= {one.kind for one in found}


def test_a_finding_can_be_seen_again_from_its_request_alone():
    request = sharp("dp_penalty", proposal=WALK).request
    assert from_json(request.as_json()) == request

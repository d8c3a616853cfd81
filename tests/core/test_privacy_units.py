"""Rows grouped by the unit of privacy, and schemas that declare one."""

import time
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from dpmcmc import (
    Budget,
    describe,
    release_in_two_stages,
    release_statistic,
    sample,
    synthesise,
)
from dpmcmc.base.errors import SpecError
from dpmcmc.base.private import Neighbouring, Permit, Private
from dpmcmc.families.logistic import LogisticForm
from dpmcmc.families.rowwise import RowTarget
from dpmcmc.fit import local
from dpmcmc.fit.local import table_of
from dpmcmc.fit.run import run
from dpmcmc.formula.design import make_design
from dpmcmc.inputs.options import DpPenaltyOptions, SufficientStatisticsOptions
from dpmcmc.inputs.schema import NumberColumn, PrivacyUnit, Schema, Table, units_named
from dpmcmc.inputs.spec import JobSpec, ModelOptions, ModelSpec, PrivacySpec
from dpmcmc.inputs.units import EMPTY, digest_of, owners
from dpmcmc.mechanisms import joint_sums
from dpmcmc.mechanisms.counts import TABLE_SENSITIVITY
from dpmcmc.mechanisms.joint_sums import Block, Caps
from dpmcmc.mechanisms.sums import PLAIN, digits_of
from dpmcmc.planner import event, noise_event, plan
from dpmcmc.privacy.event_json import digest
from dpmcmc.privacy.events import (
    Barker,
    Compose,
    EventError,
    Gaussian,
    Laplace,
    Parallel,
    PureEpsilon,
    Repeat,
    SmoothLaplace,
    WithoutReplacement,
    of_units,
)
from dpmcmc.privacy.pld import leaves
from dpmcmc.queries.paid import settled
from dpmcmc.queries.statistics.populations import NormalVariance
from dpmcmc.queries.summaries.statistics import Counts, Mean, Quantiles, request_of
from dpmcmc.releases import RELEASES
from dpmcmc.releases.whitening import by_unit
from dpmcmc.samplers.algorithms import ALGORITHMS
from tests.sources import Seeded

KEY = b"k" * 32
DOSE = NumberColumn(name="dose", lower=0, upper=10)


def digests(names):
    return np.array([list(digest_of(name, KEY)) for name in names], np.uint8)


def test_every_unit_has_its_slots_and_only_its_own_rows():
    rng = np.random.default_rng(1)
    names = [str(unit) for unit in rng.integers(0, 40, 300)]
    result = owners(digests(names)).grouped(4, KEY)
    units = len(set(names))
    assert len(result.slots) == 4 * units
    sizes = [names.count(name) for name in set(names)]
    assert result.dropped_rows == sum(max(size - 4, 0) for size in sizes) > 0
    assert result.cut_units == sum(size > 4 for size in sizes)
    for unit, slots in enumerate(result.slots.reshape(units, 4)):
        used = slots[slots != EMPTY]
        assert (slots[: len(used)] == used).all()  # those in use first
        owners_of_slots = {names[row] for row in used}
        assert len(owners_of_slots) == 1
        (owner,) = owners_of_slots
        assert len(used) == min(names.count(owner), 4)
        assert bytes(result.digests[unit]) == digest_of(owner, KEY)
    assert len(set(result.slots[result.slots != EMPTY])) == (result.slots != EMPTY).sum()


def test_kept_rows_are_a_uniform_choice_in_random_order():
    names = ["a"] * 6 + ["b"]
    first = np.zeros(6)
    kept = np.zeros(6)
    for trial in range(3000):
        key = trial.to_bytes(32)
        result = owners(digests(names)).grouped(3, key)
        slots = next(s for s in result.slots.reshape(2, 3) if (s != 6).all())
        kept[slots] += 1
        first[slots[0]] += 1
    assert np.abs(kept / 3000 - 0.5).max() < 5 * (0.25 / 3000) ** 0.5
    assert np.abs(first / 3000 - 1 / 6).max() < 5 * (5 / 36 / 3000) ** 0.5


def test_the_order_of_units_says_nothing_of_the_file():
    names = ["a", "b", "c", "d"]
    one = owners(digests(names)).grouped(1, KEY)
    other = owners(digests(names[::-1])).grouped(1, KEY)
    assert [names[row] for row in one.slots] == [names[::-1][row] for row in other.slots]


def test_numbers_and_words_name_the_same_unit():
    names, unit_of = units_named("id", [1.0, "1", 1, " 1", "2"])
    assert (names, unit_of.tolist()) == (["1", "2"], [0, 0, 0, 0, 1])
    names, unit_of = units_named("id", np.array([7, 3, 7]))
    assert [names[unit] for unit in unit_of] == ["7", "3", "7"]


@pytest.mark.parametrize(
    "other",
    [
        "Zo\u0065\u0308 Roe",
        "Zo\u00eb\u00a0Roe",
        "Zo\u00eb\u202fRoe ",
        "\ufeffZo\u00eb Roe",
        "Zo\u00eb\u200b Roe",
    ],
)
def test_names_that_look_the_same_are_one_unit(other):
    names, unit_of = units_named("patient", ["Zo\u00eb Roe", other, "Zoe Roe"])
    assert (names, unit_of.tolist()) == (["Zo\u00eb Roe", "Zoe Roe"], [0, 0, 1])


@pytest.mark.parametrize("lacking", [None, float("nan"), "", "  "])
def test_rows_of_nobody_are_refused_by_the_name_of_the_column(lacking):
    with pytest.raises(ValueError, match="1 rows have no value in 'patient'"):
        units_named("patient", ["a", lacking])


def test_a_schema_says_whom_it_protects():
    unit = PrivacyUnit(column="patient", max_rows=6)
    schema = Schema(columns=(DOSE,), rows=600, privacy_unit=unit)
    assert (schema.units, schema.unit_rows) == (100, 6)
    assert schema.protects == "a person (named by patient, at most 6 rows)"
    assert Schema(columns=(DOSE,), rows=600).protects == "a row"
    assert Schema(columns=(DOSE,), rows=600, privacy_unit="row").units == 600


@pytest.mark.parametrize("most", [0, -1, 1001, 2.5, True, "6"])
def test_impossible_numbers_of_rows_are_refused(most):
    with pytest.raises(ValueError, match="max_rows of the privacy unit 'patient'"):
        PrivacyUnit(column="patient", max_rows=most)


def test_the_unit_is_no_column_of_the_rows():
    unit = PrivacyUnit(column="dose", max_rows=6)
    with pytest.raises(ValueError, match="'dose' is the privacy unit"):
        Schema(columns=(DOSE,), rows=600, privacy_unit=unit)
    with pytest.raises(ValueError, match="privacy_unit must be"):
        Schema(columns=(DOSE,), rows=600, privacy_unit="patient")
    with pytest.raises(ValueError, match="number of units times max_rows"):
        Schema(columns=(DOSE,), rows=601, privacy_unit=PrivacyUnit(column="id", max_rows=6))


EXACT = Gaussian(2.0)


@pytest.mark.parametrize("rows", [2, 6, 1000])
def test_noise_on_units_is_that_many_times_less(rows):
    composed = Compose((Repeat(EXACT, 3), Laplace(4.0), PureEpsilon(0.1)))
    repeated, laplace, pure = of_units(composed, rows).events
    assert repeated.count == 3
    assert 0.0 <= 2.0 / rows - repeated.event.noise_multiplier < 1e-14
    assert 0.0 <= 4.0 / rows - laplace.noise_multiplier < 1e-14
    assert 0.0 <= pure.epsilon - 0.1 * rows < 1e-11


def test_parts_of_several_holders_are_charged_one_after_the_other():
    assert of_units(Parallel((EXACT, EXACT)), 2) == Compose((of_units(EXACT, 2),) * 2)


@pytest.mark.parametrize(
    "event",
    [
        WithoutReplacement(EXACT, 5, 50),
        Barker(6, 50),
        SmoothLaplace(1.0, 1e-6),
        Gaussian(1.0, Neighbouring.ADD_REMOVE),
    ],
)
def test_events_without_a_proof_for_units_have_no_cost(event):
    for one in (event, Repeat(event, 2), Compose((event,))):
        with pytest.raises(EventError):
            of_units(one, 2)
    assert of_units(event, 1) is event


def panel(persons=400, most=4, seed=3):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, most + 1, persons)
    person = np.repeat(np.arange(persons), sizes)
    dose = rng.uniform(0, 10, len(person))
    cured = np.where(rng.random(len(person)) < 1 / (1 + np.exp(2 - 0.4 * dose)), "yes", "no")
    return {"patient": person, "dose": dose, "cured": cured}


BOUNDS = {"dose": (0, 10), "cured": ("no", "yes")}


def by_patient(rows, most=4):
    return Schema.from_frame(rows, bounds=BOUNDS, privacy_unit="patient", max_rows=most)


def test_a_schema_of_a_frame_counts_persons():
    schema = by_patient(panel())
    assert (schema.units, schema.rows, schema.unit) == (400, 1600, "patient")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"privacy_unit": "patient"}, "max_rows is needed"),
        ({"max_rows": 4}, "max_rows needs a column"),
        ({"privacy_unit": "row", "max_rows": 1}, "max_rows needs a column"),
        ({"privacy_unit": "pateint", "max_rows": 4}, "no column 'pateint'"),
        ({"privacy_unit": "dose", "max_rows": 4}, "'dose' is the privacy unit"),
        ({"privacy_unit": 7, "max_rows": 4}, "privacy_unit must be the name of a column"),
    ],
)
def test_wrong_units_are_refused_by_name(given, message):
    with pytest.raises(ValueError, match=message):
        Schema.from_frame(panel(), bounds=BOUNDS, **given)


RELEASES_OF_LOGISTIC = ("noisy_quadratic", "dp_vi")
CHAINS = ("dp_penalty", "dp_penalty_component", "dp_penalty_guided", "dp_hmc", "dp_mala")


@pytest.mark.parametrize("name", [*RELEASES_OF_LOGISTIC, *CHAINS])
def test_a_job_on_persons_costs_what_was_asked(name):
    schema = by_patient(panel())
    privacy = PrivacySpec(epsilon=2.0, delta=1e-6)
    model = ModelSpec(family="logistic", formula="cured ~ dose")
    spec = JobSpec(model=model, sampler=ALGORITHMS[name].options(), privacy=privacy)
    made = plan(schema, spec)
    assert 0.98 * 2.0 < made.cost.epsilon <= 2.0
    drawn = leaves(noise_event(schema, made.spec))
    paid = leaves(made.event)
    times = 1 if name in RELEASES and RELEASES[name].by_units else 4
    for noise, cost in zip(drawn, paid, strict=True):
        assert noise.noise_multiplier == pytest.approx(times * cost.noise_multiplier, rel=1e-12)


@pytest.mark.parametrize("name", ["dp_barker", "dp_penalty_subsampled"])
def test_rows_drawn_at_random_are_refused_with_what_to_take(name):
    schema, model = by_patient(panel()), ModelSpec(family="logistic", formula="cured ~ dose")
    privacy = PrivacySpec(epsilon=2.0, delta=1e-6)
    spec = JobSpec(model=model, sampler=ALGORITHMS[name].options(), privacy=privacy)
    with pytest.raises(SpecError, match="noisy_quadratic, dp_penalty and dp_hmc read all rows"):
        plan(schema, spec)


def test_the_planner_chooses_what_a_person_may_have_several_rows_in():
    schema, model = by_patient(panel()), ModelSpec(family="logistic", formula="cured ~ dose")
    made = plan(schema, JobSpec(model=model, privacy=PrivacySpec(epsilon=5.0, delta=1e-6)))
    assert made.cost.epsilon <= 5.0


def test_what_an_empty_slot_holds_changes_nothing():
    rows = panel()
    schema = by_patient(rows)
    design = make_design(schema, "cured ~ dose")
    table = table_of(schema, rows)
    assert table.present.sum() == len(rows["dose"]) < table.rows
    columns = {name: values.copy() for name, values in table.columns.items()}
    columns["dose"][~table.present] = 10.0
    columns["cured"][~table.present] = 1
    other = replace(table, columns=columns)
    for one, two in zip(design.build(table), design.build(other), strict=True):
        np.testing.assert_array_equal(one, two)
    spec = JobSpec(
        model=ModelSpec(family="logistic", formula="cured ~ dose"),
        privacy=PrivacySpec(noise_multiplier=1.0, delta=1e-6),
    )
    move = np.array([[0.3, -0.2]])
    sums = [
        RowTarget(LogisticForm(design, spec), spec, t, 1).vector_ratios(move)[0]
        for t in (table, other)
    ]
    assert sums[0] == sums[1]
    for request in (Mean("dose"), Counts(("cured", "dose")), Counts(("dose",), {"dose": 3})):
        asked = request_of(schema, request)
        np.testing.assert_array_equal(asked.cells(table), asked.cells(other))


def test_a_replaced_person_moves_counts_by_what_is_charged():
    schema = by_patient(panel())
    table = table_of(schema, panel())
    k = schema.unit_rows

    def with_first_person(dose, used):
        columns = {name: values.copy() for name, values in table.columns.items()}
        present = table.present.copy()
        columns["dose"][:k], present[:k] = dose, np.arange(k) < used
        return asked.of(asked.cells(replace(table, columns=columns, present=present)))

    asked = request_of(schema, Counts(("dose",), {"dose": 2}))
    low, high = (with_first_person(dose, k) for dose in (0.0, 10.0))
    charged = k * TABLE_SENSITIVITY
    assert np.linalg.norm(low - high) == pytest.approx(charged, rel=1e-12)
    few = with_first_person(0.0, 1)
    assert np.linalg.norm(low - few) == k - 1


def test_summaries_of_persons_hold_the_truth():
    rows = panel(4000)
    schema = by_patient(rows)
    held = np.zeros(3)
    for _ in range(20):
        result = describe(
            rows,
            [Mean("dose"), Quantiles("dose", at=(0.5,)), Counts(("cured",))],
            schema=schema,
            epsilon=2.0,
        )
        named = {estimate.name: estimate for estimate in result.estimates(target="rows")}
        truth = {
            "mean of dose": rows["dose"].mean(),
            "dose, quantile 0.5": np.median(rows["dose"]),
            "share of cured yes": (rows["cured"] == "yes").mean(),
        }
        held += [named[name].lower <= true <= named[name].upper for name, true in truth.items()]
        assert result.cost.epsilon == pytest.approx(2.0, rel=1e-3)
        assert "protects a person (named by patient, at most 4 rows)" in str(result)
    assert held.min() >= 14


def test_persons_and_rows_never_share_a_budget(tmp_path):
    rows = panel()
    schema, plain = by_patient(rows), Schema.from_frame(rows, bounds=BOUNDS)
    file = tmp_path / "budget.json"
    budget = Budget(epsilon=8, delta=1e-6, path=file)
    describe(rows, [Mean("dose")], schema=schema, epsilon=0.5, budget=budget)
    for kept in (budget, Budget.load(file)):
        with pytest.raises(ValueError, match=r"protect a person \(patient\).*protect a row"):
            describe(rows, [Mean("dose")], schema=plain, epsilon=0.5, budget=kept)
    assert budget.calls == 1
    describe(rows, [Mean("dose")], schema=by_patient(rows, 2), epsilon=0.5, budget=budget)
    assert Budget.load(file).calls == 2


def test_a_result_says_whom_it_protects():
    rows = panel()
    fit = sample("cured ~ dose", rows, by_patient(rows), epsilon=20, accept_low_quality=True)
    assert "400 persons" in str(fit)
    assert "protects a person (named by patient, at most 4 rows)" in str(fit)
    assert fit.to_datatree().attrs["protects"] == "a person (named by patient, at most 4 rows)"
    other = sample("cured ~ dose", rows, by_patient(rows), epsilon=20, sampler="dp_vi")
    assert other.verdict.status == "unreliable"
    assert "takes the rows of a person as independent" in other.verdict.sentence


def test_one_row_of_each_person_is_independent_and_may_be_reliable():
    rows = panel(20_000)
    fit = sample("cured ~ dose", rows, by_patient(rows), epsilon=6, sampler="dp_vi", max_rows=1)
    assert fit.verdict.status == "reliable", fit.verdict.sentence


def test_how_long_a_run_takes_does_not_follow_the_number_of_rows(monkeypatch):
    """Of persons with one row and with four, whose public facts are the same."""
    tables = {size: few_or_many(size) for size in (1, 4)}
    schemas = {size: by_patient(rows) for size, rows in tables.items()}
    assert schemas[1] == schemas[4]
    built = {size: local.table_of(schemas[size], rows) for size, rows in tables.items()}
    by_rows = {len(rows["patient"]): built[size] for size, rows in tables.items()}
    monkeypatch.setattr(local, "table_of", lambda _, data, _read: by_rows[len(data["patient"])])
    asked = [Mean("dose"), Quantiles("dose"), Counts(("cured",))]
    calls = {
        "describe": lambda rows, schema: describe(rows, asked, schema=schema, epsilon=1.0),
        **{
            sampler: lambda rows, schema, sampler=sampler: sample(
                "cured ~ dose", rows, schema, epsilon=4, sampler=sampler, accept_low_quality=True
            )
            for sampler in ("noisy_quadratic", "dp_vi")
        },
    }
    for name, call in calls.items():
        seconds = {1: [], 4: []}
        for turn in range(16):
            for size in (1, 4) if turn % 2 else (4, 1):
                began = time.process_time()
                call(tables[size], schemas[size])
                seconds[size].append(time.process_time() - began)
        ratio = np.median(seconds[4][1:]) / np.median(seconds[1][1:])
        assert 0.8 < ratio < 1.25, name


def few_or_many(size, persons=3000):
    """A panel in which every person has so many rows."""
    rng = np.random.default_rng(size)
    count = persons * size
    return {
        "patient": np.repeat(np.arange(persons), size),
        "dose": rng.uniform(0, 10, count),
        "cured": rng.choice(["no", "yes"], count),
    }


def test_what_is_of_single_rows_alone_is_refused_by_name():
    rows = panel()
    schema = by_patient(rows)
    with pytest.raises(SpecError, match="synthetic tables are of one row of each"):
        synthesise(rows, schema=schema, epsilon=1.0)
    with pytest.raises(SpecError, match="ask for max_rows 1"):
        release_statistic(rows, "dose", schema=schema, epsilon=1.0)


def test_tables_and_statistics_are_of_one_row_of_each_person():
    rows = few_or_many(4, persons=500)
    schema, budget = by_patient(rows), Budget(epsilon=200.0, delta=1e-4)
    asked = {"schema": schema, "epsilon": 20.0, "delta": 1e-6, "budget": budget, "max_rows": 1}
    made = synthesise(rows, tables=2, moves=20, accept_low_quality=True, **asked)
    assert made.cells.shape == (2, 500)
    share = np.mean(rows["cured"] == "yes")
    assert np.mean(made.table(0)["cured"] == "yes") == pytest.approx(share, abs=0.1)
    mean = release_statistic(rows, "dose", **asked).values[0] / 500
    assert mean == pytest.approx(rows["dose"].mean(), abs=0.5)
    stages = release_in_two_stages(
        *(rows, "dose", NormalVariance()), first_rows=100, thetas=[1, 4], powers=[1, 2], **asked
    )
    assert stages.first.values.shape == (1,)
    with pytest.raises(ValueError, match="protect"):
        release_statistic(
            rows,
            "dose",
            **(asked | {"schema": replace(schema, privacy_unit=None), "max_rows": None}),
        )
    with pytest.raises(ValueError, match="max_rows"):
        synthesise(rows, **(asked | {"max_rows": 5}))


def test_averages_of_rows_by_their_order_are_refused():
    """Another person in the place of one may lie elsewhere, and move all between the two."""
    schema = by_patient(few_or_many(1, persons=200), most=1)
    model = ModelSpec(
        family="linear", formula="dose ~ cured", options=ModelOptions(noise_scale=1.0)
    )
    for group, refused in ((1, False), (2, True)):
        sampler = SufficientStatisticsOptions(group=group, method="mcmc_fixeds")
        spec = JobSpec(model=model, sampler=sampler, privacy=PrivacySpec(epsilon=1.0, delta=1e-6))
        with pytest.raises(SpecError, match="persons have none") if refused else nullcontext():
            plan(schema, spec)


def test_noise_of_summaries_covers_a_person():
    schema = by_patient(panel())
    asked = PrivacySpec(epsilon=2.0, delta=1e-6)
    made, plain = (settled(s, asked) for s in (schema, replace(schema, privacy_unit=None)))
    assert made.noise_multiplier == pytest.approx(4 * plain.noise_multiplier, rel=1e-9)
    assert made.cost.epsilon <= 2.0
    given = PrivacySpec(noise_multiplier=3.0, delta=1e-6)
    assert settled(schema, given).event.noise_multiplier == pytest.approx(0.75)


def test_an_empty_slot_holds_what_is_public():
    """All over the range, as rows may be: one value alone was looked up faster than rows are."""
    held = {}
    for dose, word in ((7.0, "yes"), (3.0, "no")):
        rows = panel()
        rows |= {"dose": np.full(len(rows["dose"]), dose), "cured": [word] * len(rows["dose"])}
        table = table_of(by_patient(rows), rows)
        doses, words = (table.columns[name][~table.present] for name in ("dose", "cured"))
        assert dose not in doses
        assert 0.0 <= doses.min() < 0.5 < 9.5 < doses.max() <= 10.0
        assert set(words) == {0, 1}
        for slot in np.flatnonzero(~table.present):
            values = [table.columns[name][slot] for name in ("dose", "cured")]
            assert held.setdefault(slot, values) == values


def test_a_replaced_person_moves_the_sums_by_what_is_charged():
    rng, k, units, mean_rows = np.random.default_rng(4), 4, 30, 2.0
    caps = Caps(1.0, 2.0, 1.0, 1.0, (0.5, 0.5, 0.0, 0.0))

    def sums(last):
        x = np.concatenate([rng_x[:, : k * (units - 1)], last], axis=1)
        block = by_unit(Block(x, (x,), (), np.zeros(0)), x, k, mean_rows)
        cells = joint_sums._cells(caps, digits_of(units), False, PLAIN, block)
        grid, weights = joint_sums._grids(2, caps.units, digits_of(units), gaps=False)
        return cells * grid * weights

    rng_x = rng.normal(size=(2, k * units))
    far, other = np.full((2, k), 50.0), np.full((2, k), -50.0)
    few = np.concatenate([far[:, :1], np.zeros((2, k - 1))], axis=1)
    across = far * np.array([[1.0], [-1.0]])
    ends = [sums(last) for last in (far, other, few, across, np.zeros((2, k)))]
    moved = [np.linalg.norm(a - b) for a in ends for b in ends]
    assert 0.8 < max(moved) <= 1.0 + joint_sums.rounding(2, units)


def test_a_call_may_use_fewer_rows_of_each_person():
    rows = panel(2000)
    schema = by_patient(rows)
    few = schema.with_max_rows(2)
    assert (few.units, few.rows, few.unit_rows) == (2000, 4000, 2)
    table = table_of(few, rows)
    assert table.present.sum() == np.minimum(np.bincount(rows["patient"]), 2).sum()
    asked = [Mean("dose")]
    whole = describe(rows, asked, schema=schema, epsilon=1.0)
    less = describe(rows, asked, schema=schema, epsilon=1.0, max_rows=2)
    assert less.plan.noise_sd == pytest.approx(0.5 * whole.plan.noise_sd, rel=1e-3)
    assert less.cost.epsilon == pytest.approx(1.0, rel=1e-3)
    fit = sample("cured ~ dose", rows, schema, epsilon=5.0, max_rows=2, accept_low_quality=True)
    assert fit.design.schema.protects == "a person (named by patient, at most 2 rows)"


@pytest.mark.parametrize("most", [5, 0, -1, 2.0, True, "2"])
def test_more_or_no_rows_of_each_person_are_refused(most):
    rows = panel()
    budget = Budget(epsilon=2, delta=1e-6)
    for call in (
        lambda: sample(
            "cured ~ dose", rows, by_patient(rows), epsilon=1, max_rows=most, budget=budget
        ),
        lambda: describe(rows, [Mean("dose")], schema=by_patient(rows), epsilon=1, max_rows=most),
    ):
        with pytest.raises(ValueError, match="max_rows"):
            call()
    plain = Schema.from_frame(rows, bounds=BOUNDS)
    with pytest.raises(ValueError, match="declares no persons"):
        sample("cured ~ dose", rows, plain, epsilon=1, max_rows=2, budget=budget)
    assert budget.calls == 0


def test_other_persons_keep_their_rows_whatever_one_person_has():
    rng = np.random.default_rng(6)
    names = [str(person) for person in rng.integers(0, 30, 200)]
    rows = [(name, number) for number, name in enumerate(names)]
    more = [*rows[:50], *(("7", 1000 + k) for k in range(9)), *rows[50:]]
    less = [row for row in rows if row[0] != "7"]

    def kept(some):
        result = owners(digests([name for name, _ in some])).grouped(3, KEY)
        slots = result.slots.reshape(-1, 3)
        return {
            bytes(digest): tuple(some[k][1] for k in unit if k != EMPTY)
            for digest, unit in zip(result.digests, slots, strict=True)
        }

    own = digest_of("7", KEY)
    whole = {unit: slots for unit, slots in kept(rows).items() if unit != own}
    for other in (more, less):
        assert {unit: slots for unit, slots in kept(other).items() if unit != own} == whole


def test_no_column_of_persons_is_called_row():
    rows = panel()
    rows["row"] = rows.pop("patient")
    with pytest.raises(ValueError, match="cannot name persons"):
        PrivacyUnit(column="row", max_rows=4)
    plain = Schema.from_frame(rows, bounds=BOUNDS, privacy_unit="row")
    assert plain.unit_rows == 1


def test_a_job_that_names_fewer_rows_is_planned_and_run_on_these():
    rows = panel()
    schema = by_patient(rows)
    model = ModelSpec(family="logistic", formula="cured ~ dose")
    privacy = PrivacySpec(epsilon=500.0, delta=1e-6, max_rows=2)
    sampler = DpPenaltyOptions(num_steps=200, num_chains=2)
    spec = JobSpec(model=model, privacy=privacy, sampler=sampler)
    few = schema.with_max_rows(2)
    made = plan(schema, spec)
    assert made.event == plan(few, spec).event == event(schema, made.spec)
    assert made.spec.privacy.max_rows == 2
    assert made.cost.epsilon == pytest.approx(500.0, rel=1e-3)
    table, subject = table_of(schema, rows), "rows"

    def drawn(given):
        permit = Permit(subject=subject, event_digest=digest(made.event))
        private = Private(given, subject=subject)
        blocks = run(schema, made.spec, private, permit, random=Seeded(4))
        return np.concatenate([block.value for block in blocks], axis=1)

    first = drawn(table)
    assert len(np.unique(first)) > 40  # it moves, and where to depends on the rows
    np.testing.assert_array_equal(first, drawn(table.within(few)))


def test_a_table_of_fewer_rows_has_the_first_slots_of_each_unit():
    rows = panel()
    schema = by_patient(rows, 4)
    table = table_of(schema, rows)
    few = table.within(schema.with_max_rows(3))
    assert few.rows == 3 * schema.units
    np.testing.assert_array_equal(
        few.columns["dose"].reshape(-1, 3), table.columns["dose"].reshape(-1, 4)[:, :3]
    )
    np.testing.assert_array_equal(few.present.reshape(-1, 3), table.present.reshape(-1, 4)[:, :3])
    assert table.within(schema) is table
    with pytest.raises(ValueError, match="not those of the schema"):
        few.within(schema)
    with pytest.raises(ValueError, match="not those of the schema"):
        Table({}, schema.rows + 1).within(schema)

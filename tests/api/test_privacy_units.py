"""Datasets of persons with several rows, over REST: uploads, answers, jobs and budgets."""

import io
import json
import re
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from app.storage.files import name_of
from app.storage.limits import Limits
from app.storage.rows import DatasetRow
from tests.api.support import Caller, House, signed_in

PERSONS, MOST = 300, 4
METADATA: dict[str, Any] = {
    "name": "visits",
    "privacy": {"epsilon": 40.0, "delta": 1e-6},
    "columns": [
        {"name": "dose", "type": "number", "lower": 0, "upper": 10},
        {"name": "cured", "type": "binary", "categories": ["no", "yes"]},
    ],
    "privacy_unit": {"column": "patient", "max_rows": MOST},
}
PROTECTS = {"unit": "patient", "max_rows": MOST}


def visits(sizes: Any = None, seed: int = 3, first: int = 0) -> dict[str, list[Any]]:
    """Rows in random order. sizes: of persons; 1 to 5 where left out, so that some are cut.

    first: number of the first person.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, PERSONS) if sizes is None else np.full(PERSONS, sizes)
    person = rng.permutation(np.repeat(np.arange(PERSONS), sizes))
    dose = rng.uniform(0, 10, len(person)).round(3)
    cured = np.where(rng.random(len(person)) < dose / 12, "yes", "no")
    names = [f"p{first + one:04d}" for one in person]
    return {"patient": names, "dose": dose.tolist(), "cured": cured.tolist()}


def as_csv(rows: dict[str, list[Any]]) -> bytes:
    lines = [",".join(map(str, row)) for row in zip(*rows.values(), strict=True)]
    return "\n".join([",".join(rows), *lines, ""]).encode()


def as_parquet(rows: dict[str, list[Any]], **others: Any) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pa.table(rows | others), sink)
    return sink.getvalue()


def send(house: House, content: bytes | list[bytes], **changes: Any) -> Any:
    metadata = {k: v for k, v in (METADATA | changes).items() if v is not None}
    contents = content if isinstance(content, list) else [content]
    parts: list[Any] = [("metadata", (None, json.dumps(metadata)))]
    parts += [("file", ("rows", each)) for each in contents]
    return house.admin.post("/v1/datasets", files=parts)


def uploaded(house: House, content: bytes | list[bytes], **changes: Any) -> dict[str, Any]:
    answer = send(house, content, **changes)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def table_of(house: House, dataset: str) -> Any:
    with house.services.sessions.read() as session:
        row = session.get_one(DatasetRow, UUID(dataset))
    house.services.vault.files.examine(row)
    return house.services.vault.files.load(row)._Private__value  # type: ignore[attr-defined]


def job_on(dataset: str, **changes: Any) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "model": {"family": "logistic", "formula": "cured ~ dose"},
        "privacy": {"epsilon": 5.0, "delta": 1e-6},
        "accept_low_quality": True,
    } | changes


def submitted(analyst: Caller, body: dict[str, Any]) -> str:
    answer = analyst.post("/v1/jobs", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


SITES = ["north", "south"]


def at_sites() -> dict[str, list[Any]]:
    """Rows of which each is at a site; most persons are at both."""
    rows, rng = visits(3), np.random.default_rng(5)
    return {**rows, "site": rng.choice(SITES, len(rows["dose"]), p=(0.7, 0.3)).tolist()}


def of_sites(house: House, name: str) -> dict[str, dict[str, Any]]:
    """The datasets of an upload by its name, and that of each site by the site's."""
    listed = house.admin.get("/v1/datasets?limit=100").json()["items"]
    return {
        one["name"].removeprefix(f"{name}/"): one for one in listed if one["name"].startswith(name)
    }


def test_persons_at_several_holders_have_one_budget(either_house: House) -> None:
    """A dataset of all rows and one of each holder, by a column or by files, on one ledger."""
    house, rows = either_house, at_sites()
    ada = house.user("analyst")
    files = {
        site: as_csv(
            {
                name: [v for v, own in zip(rows[name], rows["site"], strict=True) if own == site]
                for name in ("patient", "dose", "cured")
            }
        )
        for site in SITES
    }
    uploads = {
        "by column": (as_csv(rows), {"names": SITES, "column": "site"}),
        "by files": (list(files.values()), {"names": SITES}),
    }
    for name, (content, holders) in uploads.items():
        apart = {"separate_budget": {"reason": "the same rows again"}}
        made = uploaded(house, content, name=name, holders=holders, **apart)
        datasets = of_sites(house, name)
        assert set(datasets) == {name, *SITES}
        persons = {
            site: {p for p, own in zip(rows["patient"], rows["site"], strict=True) if own == site}
            for site in SITES
        }
        assert made["units"] == PERSONS
        for site in SITES:
            assert datasets[site]["units"] == len(persons[site]) < PERSONS
            assert datasets[site]["shares_ledger_with"] == made["id"]
            table = table_of(house, datasets[site]["id"])
            doses = table.columns["dose"][table.present]
            own = [d for d, s in zip(rows["dose"], rows["site"], strict=True) if s == site]
            assert sorted(doses) == sorted(own)
        whole = table_of(house, made["id"])
        assert sorted(whole.columns["dose"][whole.present]) == sorted(rows["dose"])

        def spent(dataset: str) -> float:
            budget = house.admin.get(f"/v1/datasets/{dataset}/budget").json()
            return float(budget["spent"]["epsilon"] + budget["reserved"]["epsilon"])

        house.run(submitted(ada, job_on(datasets["north"]["id"])))
        first = spent(made["id"])
        assert first == spent(datasets["south"]["id"]) == pytest.approx(5.0, abs=0.1)
        house.run(submitted(ada, job_on(made["id"])))
        assert spent(made["id"]) == spent(datasets["south"]["id"]) > 1.2 * first
        checked = house.admin.post(f"/v1/datasets/{made['id']}/ledger/verify").json()
        assert checked["ok"], checked


def test_what_is_wrong_with_holders_of_persons_names_where(house: House) -> None:
    rows = at_sites()
    by_column = {"names": SITES, "column": "site"}
    cases = [
        ({**rows, "site": ["east", *rows["site"][1:]]}, "/metadata/holders/column"),
        ({**rows, "patient": ["", *rows["patient"][1:]]}, "/metadata/privacy_unit/column"),
        ({**rows, "site": ["north"] * len(rows["site"])}, "/metadata/holders/names/1"),
    ]
    for content, pointer in cases:
        answer = send(house, as_csv(content), holders=by_column)
        assert answer.status_code == 422, answer.text
        assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]
    assert not of_sites(house, "visits")


def test_holders_of_persons_may_be_of_a_population(house: House) -> None:
    rows = at_sites()
    by_column = {"names": SITES, "column": "site"}
    made = uploaded(house, as_csv(rows), holders=by_column, population="patients")
    later = uploaded(house, as_csv(visits(1, first=400)), name="later", population="patients")
    assert later["shares_ledger_with"] == made["id"]
    again = uploaded(house, as_csv(visits(1)), name="again", privacy_unit=METADATA["privacy_unit"])
    assert again["shares_ledger_with"] == made["id"]


def test_rows_lie_with_their_person_and_others_are_cut(house: House) -> None:
    rows = visits()
    numbers = [int(one[1:]) for one in rows["patient"]]
    for content in (
        as_csv(rows),
        as_parquet(rows),
        as_parquet(rows, patient=pa.array(numbers, pa.int64())),
        as_parquet(rows, patient=pa.array(rows["patient"]).dictionary_encode()),
    ):
        made = uploaded(house, content, separate_budget={"reason": "another format"})
        assert (made["rows"], made["units"], made["protects"]) == (None, PERSONS, PROTECTS)
        assert made["privacy_unit"] == METADATA["privacy_unit"]
        assert [column["name"] for column in made["columns"]] == ["dose", "cured"]
        cut = [one for one in made["warnings"] if one["code"] == "rows_cut"]
        counts = {name: rows["patient"].count(name) for name in rows["patient"]}
        lost = [size - MOST for size in counts.values() if size > MOST]
        assert cut[0]["detail"].startswith(f"{len(lost)} persons have more rows")
        assert f": {sum(lost)} of their rows" in cut[0]["detail"]
        table = table_of(house, made["id"])
        assert table.rows == PERSONS * MOST
        assert table.present.sum() == len(rows["dose"]) - sum(lost)
        mine: dict[float, set[str]] = {}
        for name, dose in zip(rows["patient"], rows["dose"], strict=True):
            mine.setdefault(dose, set()).add(name)
        found = []
        for slots in range(0, table.rows, MOST):
            used = table.present[slots : slots + MOST]
            doses = table.columns["dose"][slots : slots + MOST]
            assert (np.diff(used.astype(int)) <= 0).all()
            assert not set(doses[~used]) & set(mine)
            owners = set.intersection(*(mine[dose] for dose in doses[used]))
            assert owners
            found += sorted(owners)[:1]
        assert len(set(found)) > 0.98 * PERSONS


def test_numbers_and_words_of_one_file_are_the_same_persons(house: House) -> None:
    rows = {"patient": [1, 1, 2, 3], "dose": [1.0, 2.0, 3.0, 4.0], "cured": ["no", "yes"] * 2}
    few = {"privacy": {"epsilon": 1.0, "delta": 1e-6}, "name": "few"}
    made = uploaded(house, as_csv(rows), **few)
    assert made["units"] == 3


@pytest.mark.parametrize(
    ("changes", "pointer", "word"),
    [
        (
            {"privacy_unit": {"column": "person", "max_rows": 4}},
            "/privacy_unit/column",
            "has no column",
        ),
        ({"privacy_unit": {"column": "dose", "max_rows": 4}}, "", "leave it undeclared"),
        ({"privacy_unit": {"column": "row", "max_rows": 4}}, "/privacy_unit/column", "rename it"),
        ({"privacy_unit": {"column": "patient", "max_rows": 0}}, "/privacy_unit", "greater than"),
        ({"privacy_unit": {"column": "patient", "max_rows": 1001}}, "/privacy_unit", "less than"),
        ({"privacy_unit": {"column": "patient"}}, "/privacy_unit", "required"),
        ({"privacy_unit": "person"}, "/privacy_unit", "row"),
        ({"skip": ["patient"]}, "", "'patient' is declared or names persons: it cannot be skipped"),
        ({"columns": [METADATA["columns"][0]] * 2}, "", "declared more than once, such as 'dose'"),
        ({"holders": {"names": ["a", "b"], "column": "site"}}, "/holders/column", "has no column"),
    ],
)
def test_wrong_declarations_name_the_field(
    house: House, changes: dict[str, Any], pointer: str, word: str
) -> None:
    answer = send(house, as_csv(visits()), **changes)
    assert answer.status_code == 422, answer.text
    (fault,) = answer.json()["errors"]
    assert f"/metadata{pointer}" in fault["pointer"]
    assert word in fault["message"]


@pytest.mark.parametrize("lacking", ["", "  "])
def test_a_row_of_nobody_is_refused_with_counts_alone(house: House, lacking: str) -> None:
    rows = visits()
    rows["patient"][5] = rows["patient"][9] = lacking
    some = [None if one == lacking else one for one in rows["patient"]]
    for content in (as_csv(rows), as_parquet(rows), as_parquet(rows, patient=pa.array(some))):
        answer = send(house, content)
        assert answer.status_code == 422
        (fault,) = answer.json()["errors"]
        assert fault["pointer"] == "/metadata/privacy_unit/column"
        assert fault["message"].startswith("2 missing values in 'patient': give each person")


def test_a_parquet_column_of_fractions_names_nobody(house: House) -> None:
    rows = visits()
    numbers = [int(one[1:]) + 0.5 for one in rows["patient"]]
    answer = send(house, as_parquet(rows, patient=pa.array(numbers)))
    assert answer.status_code == 422
    assert "text or whole numbers" in answer.text


def test_a_file_too_large_to_group_is_refused(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Limits(unit_bytes=1000)
    monkeypatch.setattr("app.services.datasets.uploads.Limits", lambda **_: small)
    answer = send(house, as_csv(visits()))
    assert answer.status_code == 422
    assert "grouped by person" in answer.text


def test_a_job_says_whom_it_protects_and_costs_what_was_asked(either_house: House) -> None:
    house = either_house
    dataset, ada = uploaded(house, as_csv(visits()))["id"], house.user("analyst")
    plan = ada.post("/v1/plans", json=job_on(dataset)).json()
    assert plan["protects"] == PROTECTS
    assert plan["epsilon"] == pytest.approx(5.0, rel=0.01)
    job = submitted(ada, job_on(dataset))
    house.run(job)
    done = ada.get(f"/v1/jobs/{job}").json()
    assert (done["status"], done["protects"]) == ("succeeded", PROTECTS)
    assert ada.get(f"/v1/jobs/{job}/summary").json()["protects"] == PROTECTS
    budget = ada.get(f"/v1/datasets/{dataset}/budget").json()
    assert budget["protects"] == PROTECTS
    assert budget["spent"]["epsilon"] == pytest.approx(done["cost"]["epsilon"], rel=0.01)
    assert ada.get("/v1/budget").json()["items"][0]["protects"] == PROTECTS
    netcdf = ada.get(f"/v1/jobs/{job}/chain", headers={"Accept": "application/x-netcdf"})
    assert b"a person (named by patient, at most 4 rows)" in netcdf.content
    csv = ada.get(f"/v1/jobs/{job}/chain", headers={"Accept": "text/csv"})
    assert csv.headers["Dpmcmc-Protects"] == "a person (named by patient, at most 4 rows)"
    counts = {"kind": "summaries", "statistics": [{"kind": "counts", "columns": ["cured"]}]}
    task = {"dataset": dataset, "task": counts, "privacy": {"epsilon": 5.0, "delta": 1e-6}}
    house.run(submitted(ada, task))
    verified = house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()
    assert verified["ok"], verified


def fewer(body: dict[str, Any], most: Any) -> dict[str, Any]:
    return body | {"privacy": body["privacy"] | {"max_rows": most}}


COUNTS = {"kind": "summaries", "statistics": [{"kind": "counts", "columns": ["cured"]}]}


def test_a_job_may_use_fewer_rows_of_each_person(either_house: House) -> None:
    house = either_house
    dataset, ada = uploaded(house, as_csv(visits(sizes=4)))["id"], house.user("analyst")
    task = {"dataset": dataset, "task": COUNTS, "privacy": {"epsilon": 20.0, "delta": 1e-6}}
    noise = [ada.post("/v1/plans", json=fewer(task, most)).json()["reasons"][0] for most in (1, 4)]
    noise_sds = [float(re.findall(r"sd ([0-9.]+)", told)[0]) for told in noise]
    assert noise_sds[1] == pytest.approx(4.0 * noise_sds[0], rel=0.02)
    for body in (fewer(job_on(dataset), 2), fewer(task, 2) | {"accept_low_quality": False}):
        plan = ada.post("/v1/plans", json=body).json()
        assert plan["protects"] == {"unit": "patient", "max_rows": 2}
        job = submitted(ada, body)
        house.run(job)
        done = ada.get(f"/v1/jobs/{job}").json()
        assert (done["status"], done["protects"]) == ("succeeded", plan["protects"])
        assert done["spec"]["privacy"]["max_rows"] == 2
    shares = [one["estimate"] for one in ada.get(f"/v1/jobs/{job}/result").json()["estimates"]]
    cured = np.mean(np.array(visits(sizes=4)["cured"]) == "yes")
    assert shares == pytest.approx([1.0 - cured, cured], abs=0.1)
    chain = submitted(ada, fewer(job_on(dataset), 2))
    house.run(chain)
    csv = ada.get(f"/v1/jobs/{chain}/chain", headers={"Accept": "text/csv"})
    assert csv.headers["Dpmcmc-Protects"] == "a person (named by patient, at most 2 rows)"
    assert ada.post(f"/v1/jobs/{chain}/posteriors", json={}).status_code == 200
    budget = ada.get(f"/v1/datasets/{dataset}/budget").json()
    assert budget["protects"] == PROTECTS
    assert house.admin.post(f"/v1/datasets/{dataset}/ledger/verify").json()["ok"]


def test_one_row_of_each_person_takes_what_single_rows_take(house: House) -> None:
    dataset, ada = uploaded(house, as_csv(visits()))["id"], house.user("analyst")
    tables = {"kind": "synthetic", "columns": ["cured"], "tables": 2, "moves": 40}
    body = {"dataset": dataset, "task": tables, "privacy": {"epsilon": 10.0, "delta": 1e-6}}
    assert ada.post("/v1/plans", json=body).status_code == 422
    job = submitted(ada, fewer(body, 1))
    house.run(job)
    told = ada.get(f"/v1/jobs/{job}/result").json()
    assert told["rows"] == PERSONS
    assert sum(told["marginals"][0]["counts"]) == pytest.approx(PERSONS, abs=20)
    assert len(ada.get(f"/v1/jobs/{job}/tables/0").text.split()) == PERSONS + 1


def test_forms_ask_how_many_rows_of_a_person(house: House) -> None:
    dataset = uploaded(house, as_csv(visits()))["id"]
    plain = uploaded(house, as_csv(visits(seed=5)), privacy_unit="row", name="plain", columns=[
        *METADATA["columns"], {"name": "patient", "type": "category", "categories": sorted(
            set(visits(seed=5)["patient"]))}])["id"]  # fmt: skip
    signed_in(house, house.user("analyst").key)
    for address in ("/jobs/new?", "/jobs/columns?", "/tasks/new?", "/tasks/fields?"):
        page = house.http.get(f"{address}dataset={dataset}")
        assert page.status_code == 200, page.text
        assert "Most rows of each patient" in page.text
        assert 'name="max_rows"' not in house.http.get(f"{address}dataset={plain}").text


@pytest.mark.parametrize("most", [0, -1, 5, 1001, 2.5, "2", True, 1e300])
def test_a_number_of_rows_that_is_none_is_refused(house: House, most: Any) -> None:
    dataset, ada = uploaded(house, as_csv(visits()))["id"], house.user("analyst")
    task = {"dataset": dataset, "task": COUNTS, "privacy": {"epsilon": 1.0, "delta": 1e-6}}
    for path in ("/v1/plans", "/v1/jobs"):
        for body in (fewer(job_on(dataset), most), fewer(task, most)):
            answer = ada.post(path, json=body)
            assert answer.status_code == 422, answer.text
            assert answer.json()["errors"][0]["pointer"] == "/privacy/max_rows"


def test_a_dataset_of_rows_has_no_rows_of_a_person_to_choose(house: House) -> None:
    rows = visits(seed=9)
    del rows["patient"]
    dataset = uploaded(house, as_csv(rows), privacy_unit="row")["id"]
    answer = house.user("analyst").post("/v1/jobs", json=fewer(job_on(dataset), 2))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/privacy/max_rows"


@pytest.mark.parametrize(
    "body",
    [
        job_on("", sampler={"algorithm": "dp_penalty_subsampled"}),
        {
            "task": {"kind": "synthetic", "columns": ["cured"]},
            "privacy": {"epsilon": 1.0, "delta": 1e-6},
        },
        {
            "task": {"kind": "statistic", "column": "dose"},
            "privacy": {"epsilon": 1.0, "delta": 1e-6},
        },
    ],
)
def test_what_has_no_proof_for_persons_is_refused(house: House, body: dict[str, Any]) -> None:
    branches = {"gdp": 0.5, "rdp": [[16, 0.5]]}
    privacy = {"epsilon": 40.0, "delta": 1e-6, "branches": branches}
    dataset = uploaded(house, as_csv(visits()), privacy=privacy)["id"]
    ada = house.user("analyst")
    for path in ("/v1/plans", "/v1/jobs"):
        answer = ada.post(path, json=body | {"dataset": dataset})
        assert answer.status_code == 422, answer.text
        assert "person" in answer.text or "several" in answer.text


def test_persons_and_rows_never_share_a_ledger(house: House) -> None:
    first = uploaded(house, as_csv(visits()), population="town")
    other = as_csv(visits(seed=8))
    again = uploaded(
        house, other, population="town", privacy_unit={"column": "patient", "max_rows": 2}
    )
    assert again["shares_ledger_with"] == first["id"]
    rows = visits(seed=9)
    del rows["patient"]
    for unit in (None, "row"):
        answer = send(house, as_csv(rows), population="town", privacy_unit=unit)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/metadata/privacy_unit"
        assert "protects by 'patient'" in answer.text
    plain = visits()  # the same rows, without their persons
    del plain["patient"]
    answer = send(house, as_csv(plain), privacy_unit=None)
    assert answer.status_code == 422, answer.text
    assert "separate_budget" in answer.text


OWN = re.compile(  # ids, times and hashes
    r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[0-9:.]+Z?|[0-9a-f]{64}"
)


def alike(answer: Any) -> tuple[int, str, dict[str, str]]:
    """An answer without what is its own, and its headers without those of the request."""
    apart = ("x-request-id", "etag", "date", "content-length", "location")
    headers = {k: v for k, v in answer.headers.items() if k.lower() not in apart}
    kept = {k: v for k, v in headers.items() if not k.lower().startswith("ratelimit")}
    return answer.status_code, OWN.sub("-", answer.text), kept


def test_nothing_public_tells_how_many_rows_persons_have(house: House) -> None:
    ada, seen = house.user("analyst"), []
    most, unit = 6, {"column": "patient", "max_rows": 6}
    for sizes in (1, most):
        made = send(house, as_csv(visits(sizes, first=1000 * sizes)), privacy_unit=unit)
        dataset = made.json()["id"]
        with house.services.vault.files._store.read(name_of(UUID(dataset))) as file:
            size = file.size
        answers = [made, ada.post("/v1/plans", json=job_on(dataset))]
        for caller in (ada, house.admin):
            answers.append(caller.get(f"/v1/datasets/{dataset}"))
            answers.append(caller.get(f"/v1/datasets/{dataset}/budget"))
        answers.append(house.admin.get(f"/v1/datasets/{dataset}/ledger"))
        job = submitted(ada, job_on(dataset, spend="all"))
        answers.append(ada.get(f"/v1/jobs/{job}"))
        house.run(job)
        done = ada.get(f"/v1/jobs/{job}").json()
        released = ("verdict", "started_at", "finished_at", "created_at", "id", "dataset")
        facts = {k: v for k, v in done.items() if k not in released}
        answers.append(ada.get(f"/v1/datasets/{dataset}/budget"))
        answers.append(house.admin.get(f"/v1/datasets/{dataset}/ledger"))
        seen.append((size, [alike(answer) for answer in answers], facts))
        house.admin.call(
            "PATCH", f"/v1/datasets/{dataset}", json={"archived": True}
        )  # its name is free
    assert seen[0] == seen[1]


def test_the_audit_trail_and_the_ledger_name_the_unit(house: House) -> None:
    dataset = uploaded(house, as_csv(visits()))["id"]
    entries = house.admin.get(f"/v1/datasets/{dataset}/ledger").json()["items"]
    assert entries[0]["details"]["privacy_unit"] == METADATA["privacy_unit"]


def test_one_row_a_person_needs_no_slots(house: House) -> None:
    made = uploaded(house, as_csv(visits(1)), privacy_unit={"column": "patient", "max_rows": 1})
    alone = {"unit": "patient", "max_rows": 1}
    assert (made["rows"], made["units"], made["protects"]) == (None, PERSONS, alone)
    job = house.user("analyst").post("/v1/jobs", json=job_on(made["id"])).json()
    assert job["protects"] == alone
    assert table_of(house, made["id"]).present is None
    said = uploaded(
        house,
        as_csv({k: v for k, v in visits(1, seed=5).items() if k != "patient"}),
        privacy_unit="row",
        name="rows",
    )
    assert (said["rows"], said["privacy_unit"]) == (PERSONS, "row")
    assert said["protects"] == {"unit": "row", "max_rows": 1}

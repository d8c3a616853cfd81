"""Names of datasets: two in use may share one, and admins are told, unless an upload refuses."""

import json
import threading
from typing import Any

import httpx

from tests.api import support
from tests.api.support import CSV, House, as_csv, csv_rows, signed_in

ONCE: dict[str, Any] = {"unique_name": True}


def sent(house: House, content: bytes = CSV, key: str = "", **changes: Any) -> httpx.Response:
    metadata = support.METADATA | changes
    parts = {"file": ("rows.csv", content), "metadata": (None, json.dumps(metadata))}
    headers = {"Idempotency-Key": key} if key else {}
    return house.admin.post("/v1/datasets", files=parts, headers=headers)


def said(answer: httpx.Response) -> list[str]:
    assert answer.status_code in (200, 201), answer.text
    found: list[str] = answer.json().get("same_name", [])
    return found


def test_a_second_dataset_of_a_name_is_made_and_told_to_admins(house: House) -> None:
    first = sent(house)
    assert said(first) == []
    second = sent(house, as_csv(csv_rows(300, seed=9)))
    assert said(second) == [first.json()["id"]]
    assert second.json()["warnings"] == []  # what clients know of
    address = f"/v1/datasets/{second.json()['id']}"
    assert said(house.admin.get(address)) == [first.json()["id"]]
    words, name = "Another dataset in use has this name", f"/datasets/{second.json()['id']}"
    signed_in(house, support.ADMIN)
    assert words in house.http.get(name).text
    signed_in(house, house.user("analyst").key)
    assert words not in house.http.get(name).text
    assert said(house.user("analyst").get(address)) == []
    assert said(house.user("auditor").get(address)) == []


def test_an_upload_that_wants_its_name_alone_is_refused_while_it_is_in_use(house: House) -> None:
    first = sent(house, **ONCE).json()["id"]
    refused = sent(house, **ONCE)
    assert refused.status_code == 409, refused.text
    problem = refused.json()
    assert (problem["code"], problem["dataset"]) == ("name_taken", first)
    assert "give another name, or archive that dataset" in problem["detail"]
    assert len(house.admin.get("/v1/datasets").json()["items"]) == 1
    address = f"/v1/datasets/{first}"
    assert house.admin.call("PATCH", address, json={"archived": True}).status_code == 200
    second = sent(house, **ONCE)
    assert said(second) == []
    reopened = house.admin.call("PATCH", address, json={"archived": False})
    assert said(reopened) == [second.json()["id"]]
    for one in (first, second.json()["id"]):
        assert house.admin.call("DELETE", f"/v1/datasets/{one}").status_code == 204
    assert said(sent(house, **ONCE)) == []


def test_a_repeated_request_is_answered_and_not_refused(house: House) -> None:
    answers = [sent(house, key="once", **ONCE) for _ in range(2)]
    assert [one.status_code for one in answers] == [201, 201], answers[1].text
    assert answers[0].json() == answers[1].json()


def test_names_of_holders_are_looked_at_too(house: House) -> None:
    sent(house, name="clinics/north")
    rows = as_csv(csv_rows(300, seed=4)).decode().splitlines()
    of = [",".join([line, "north" if k % 2 else "south"]) for k, line in enumerate(rows[1:])]
    content = "\n".join([rows[0] + ",clinic", *of, ""]).encode()
    holders = {"names": ["north", "south"], "column": "clinic"}
    refused = sent(house, content, name="clinics", holders=holders, **ONCE)
    assert (refused.status_code, refused.json()["code"]) == (409, "name_taken"), refused.text


def test_of_uploads_at_once_one_has_the_name(either_house: House) -> None:
    """Both may pass the look before rows are read; the second look is in the transaction."""
    assert sent(either_house, name="of before").status_code == 201  # so that the service is warm
    answers: list[httpx.Response] = []
    start = threading.Barrier(4)

    def go(seed: int) -> None:
        start.wait()
        answers.append(sent(either_house, as_csv(csv_rows(3000, seed)), **ONCE))

    threads = [threading.Thread(target=go, args=(seed,)) for seed in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(one.status_code for one in answers) == [201, 409, 409, 409]
    names = [one["name"] for one in either_house.admin.get("/v1/datasets").json()["items"]]
    assert names.count("people") == 1

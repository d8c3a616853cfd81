"""openapi.json agrees with the contract, and the service agrees with openapi.json."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.api.bodies import BODIES
from app.api.examples import EXAMPLES, FURTHER
from tests.api.support import House, job_of
from tests.api.test_access import ALLOWED


@pytest.fixture
def document(house: House) -> dict[str, Any]:
    found: dict[str, Any] = house.http.get("/openapi.json").json()
    return found


def test_the_contracts_calls_are_all_there(document: dict[str, Any], shared_dir: Path) -> None:
    contract = (shared_dir / "contract.md").read_text()
    calls = set(re.findall(r"`(GET|POST|PATCH|DELETE) (/v1/[^`?\s]*)`", contract))
    assert len(calls) > 15
    there = {(m.upper(), p) for p, item in document["paths"].items() for m in item}
    assert calls <= there


def test_every_body_and_refusal_is_described(document: dict[str, Any]) -> None:
    for method, path in ALLOWED:
        operation = document["paths"][path][method.lower()]
        refusal = operation["responses"]["401"]["content"]
        assert list(refusal) == ["application/problem+json"]
        assert operation["security"]
        assert operation["description"]
        bare = ("verify", "cancel", "keys", "refresh")
        if method in ("POST", "PATCH") and not path.endswith(bare):
            assert operation["requestBody"]["required"]


def test_every_body_has_an_example_that_is_read(document: dict[str, Any]) -> None:
    bodies = [
        body
        for item in document["paths"].values()
        for operation in item.values()
        for kind, body in operation.get("requestBody", {}).get("content", {}).items()
        if kind == "application/json"
    ]
    seen = set()
    for body in bodies:
        for schema in body["schema"].get("oneOf", [body["schema"]]):
            name = schema["$ref"].rsplit("/", 1)[1]
            example = body["examples"][name]["value"] if "examples" in body else body["example"]
            for one in (example, *FURTHER.get(name, {}).values()):
                assert BODIES[name].model_validate_json(json.dumps(one)), name
            assert set(FURTHER.get(name, {})) <= set(body.get("examples", {}))
            seen.add(name)
    assert {*seen, "DatasetIn", "InspectIn"} == set(EXAMPLES) == set(BODIES)  # metadata of forms


def test_the_examples_of_an_upload_and_a_job_do_what_they_say(house: House) -> None:
    admin, analyst = house.admin, house.user("analyst")
    rows = "age,sex,income\n" + "".join(
        f"{20 + k % 60},{'Female' if k % 2 else 'Male'},{'>50K' if k % 3 else '<=50K'}\n"
        for k in range(5000)
    )
    made = admin.post(
        "/v1/datasets",
        files={"file": ("rows.csv", rows), "metadata": (None, json.dumps(EXAMPLES["DatasetIn"]))},
    )
    assert made.status_code == 201, made.text
    job = {**EXAMPLES["JobIn"], "dataset": made.json()["id"]}
    assert analyst.post("/v1/plans", json=job).json()["usable"]
    task = {**EXAMPLES["TaskIn"], "dataset": made.json()["id"]}
    assert analyst.post("/v1/plans", json=task).json()["affordable"]
    assert analyst.post("/v1/accounting/compose", json=EXAMPLES["ComposeIn"]).status_code == 200


def test_every_operation_has_examples_that_its_schemas_allow(document: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator

    def told(schema: dict[str, Any], example: Any) -> list[str]:
        whole = {**schema, "components": document["components"]}
        return [error.message for error in Draft202012Validator(whole).iter_errors(example)]

    bare = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for parameter in operation.get("parameters", []):
                if parameter["required"]:
                    assert not told(parameter["schema"], parameter["example"]), (path, method)
            contents = [
                answer.get("content", {})
                for status, answer in operation["responses"].items()
                if status.startswith("2")
            ]
            for kind, answer in (pair for one in contents for pair in one.items()):
                if kind == "application/json":
                    assert not told(answer["schema"], answer["example"]), (path, method)
            if not any("example" in one for content in contents for one in content.values()):
                bare.append(f"{method} {path}")
    deleted = ("datasets/{id}", "users/me/keys", "users/{id}/keys", "keys/{id}")
    assert bare == [*(f"delete /v1/{one}" for one in deleted), "get /metrics"]


def test_every_operation_is_summed_up_in_a_plain_line(document: dict[str, Any]) -> None:
    for path, item in document["paths"].items():
        for operation in item.values():
            summary = operation["summary"]
            assert len(summary) > 10, path
            assert "\n" not in summary
            assert operation["description"].startswith(summary)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    named = set(re.findall(r"#/components/schemas/([\w.\-\[\]]+)", str(document)))
    assert named
    assert named <= set(document["components"]["schemas"])


def test_requests_refuse_unknown_fields(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name in ("JobIn", "UserIn", "DatasetIn", "DatasetPatch", "ModelSpec", "PrivacySpec"):
        assert schemas[name]["additionalProperties"] is False, name


@pytest.mark.longer
@pytest.mark.timeout(240)
def test_no_request_that_schemathesis_makes_breaks_the_service(house: House) -> None:
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis import checks
    from schemathesis.specs.openapi import checks as openapi

    wanted = [
        checks.not_a_server_error,
        openapi.status_code_conformance,
        openapi.content_type_conformance,
        openapi.response_schema_conformance,
    ]
    analyst = house.user("analyst")
    job = house.submit(analyst, house.dataset())
    house.run(job)
    assert job_of("x")
    schema = schemathesis.openapi.from_asgi("/openapi.json", house.http.app)
    few = settings(
        max_examples=6,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    def probe(operation: Any, key: str) -> Callable[[], None]:
        @few
        @given(case=operation.as_strategy())
        def call(case: Any) -> None:
            case.call_and_validate(headers={"Authorization": f"Bearer {key}"}, checks=wanted)

        return call

    called = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.startswith("/v1/keys"):
            continue  # it would revoke the key that it calls with
        if operation.path == "/readyz":
            continue  # no worker runs here, and it says so
        allowed = ALLOWED.get((operation.method.upper(), operation.path), {"analyst"})
        probe(operation, house.admin.key if "admin" in allowed else analyst.key)()
        called += 1
    assert called > 20

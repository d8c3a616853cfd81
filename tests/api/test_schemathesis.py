"""Requests that schemathesis makes of the OpenAPI document, one by one and in sequences.

`--fuzz-seconds 600` goes on for ten minutes; without it each role gets some seconds.
"""

import logging
import time
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky

from dpmcmc.base.private import Released
from tests.api.support import Caller, House, draw_with

# users and keys that a sequence shuts out are those that it calls with
LEFT_OUT = r"^/v1/(keys/\{id\}|users/\{id\})$"
# a house without workers has nobody to reach, and says so: that is no fault
NO_BROKER = "/readyz"


SETTINGS = settings(
    max_examples=5,
    stateful_step_count=8,
    deadline=None,
    database=None,
    derandomize=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def fuzzed(house: House, monkeypatch: pytest.MonkeyPatch) -> House:
    def draws(*_: Any) -> Any:
        yield Released(np.random.default_rng(1).normal(size=(2, 60, 3)))

    draw_with(monkeypatch, draws)
    return house


def callers(house: House) -> dict[str, Caller]:
    """An analyst with a dataset, a finished job and a waiting one, and the admin."""
    analyst, dataset = house.user("analyst"), house.dataset()
    house.run(house.submit(analyst, dataset))
    house.submit(analyst, dataset)
    return {"analyst": analyst, "admin": house.admin}


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("role", ["analyst", "admin"])
def test_no_sequence_of_requests_breaks_the_service(
    fuzzed: House, role: str, request: pytest.FixtureRequest
) -> None:
    """No 5xx, no status and no answer that the document does not know, in any sequence."""
    import schemathesis
    from schemathesis import checks
    from schemathesis.specs.openapi import checks as openapi

    seconds = float(request.config.getoption("--fuzz-seconds")) / 2
    wanted = [
        checks.not_a_server_error,
        openapi.status_code_conformance,
        openapi.content_type_conformance,
        openapi.response_schema_conformance,
        openapi.response_headers_conformance,
        openapi.use_after_free,
        openapi.ensure_resource_availability,
    ]
    caller = callers(fuzzed)[role]
    schema = schemathesis.openapi.from_asgi("/openapi.json", fuzzed.http.app)
    schema = schema.exclude(path_regex=LEFT_OUT).exclude(path=NO_BROKER)
    counted: dict[int, int] = {}
    violations: list[str] = []

    class Sequences(schema.as_state_machine()):  # type: ignore[misc]
        def get_call_kwargs(self, _: Any) -> dict[str, Any]:
            return {"headers": {"Authorization": f"Bearer {caller.key}"}}

        def validate_response(self, response: Any, case: Any, **given: Any) -> None:
            counted[response.status_code] = counted.get(response.status_code, 0) + 1
            try:
                case.validate_response(response, checks=wanted, headers=given.get("headers"))
            except BaseException as error:
                violations.append(f"{case.method} {case.path}: {error}")
                raise

    until = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < until or not rounds:
        rounds += 1
        with suppress(Flaky):  # which rules there are depends on what the service has answered
            Sequences.run(settings=SETTINGS)
        assert not violations, "\n".join(violations)
    told = f"{role}: {sum(counted.values())} requests in {rounds} rounds, {sorted(counted.items())}"
    logging.getLogger(__name__).warning(told)  # `-o log_cli=true` shows it
    assert sum(counted.values()) >= 20
    assert any(status < 300 for status in counted)

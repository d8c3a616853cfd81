"""Tools for an assistant: what its key may do, up to a cap of its own."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client as McpClient
from mcp.client.stdio import StdioServerParameters

from dpmcmc.client import Client
from dpmcmc.client.assistant import Cap, server
from tests.api.support import METADATA, House, as_csv, csv_rows
from tests.api.test_command_line import within

JOB = {"dataset": "people", "formula": "income ~ age + sex", "epsilon": 1.0}


class Assistant:
    """An assistant of one analyst, and what its tools answer."""

    def __init__(self, client: Client, cap: Cap) -> None:
        self.made = server(client, cap)

    def __call__(self, tool: str, **given: Any) -> Any:
        async def ask() -> Any:
            async with McpClient(self.made) as connected:
                return await connected.call_tool(tool, given)

        answer = anyio.run(ask)
        text = "\n".join(part.text for part in answer.content)
        if answer.is_error:
            raise RuntimeError(text)
        held = answer.structured_content
        return held["result"] if set(held) == {"result"} else held


@pytest.fixture
def analyst(house: House) -> Any:
    house.admin.upload(as_csv(csv_rows(4000)), METADATA)
    return house.user("analyst")


@pytest.fixture
def assistant(house: House, analyst: Any, tmp_path: Path) -> Assistant:
    return Assistant(within(house, analyst.key), Cap(2.0, tmp_path / "spent.json"))


def test_from_a_plan_to_a_result(house: House, assistant: Assistant) -> None:
    (people,) = assistant("list_datasets")
    assert people["name"] == "people"
    assert assistant("describe_dataset", dataset="people")["columns"][0]["lower"] == 17.0
    plan = assistant("plan_job", **JOB)
    assert plan["usable"]
    assert plan["assistant"] == {"cap": 2.0, "left": 2.0}
    assert assistant("budget", dataset="people")["spent"]["epsilon"] == 0.0
    job = assistant("submit_job", **JOB, name="by an assistant")
    house.run(job["id"])
    assert assistant("get_job", job=job["id"])["status"] == "succeeded"
    result = assistant("get_result", job=job["id"])
    assert result["verdict"]["status"] in ("reliable", "unreliable")
    assert result["explanation"]
    assert assistant("list_jobs")[0]["name"] == "by an assistant"


def test_its_cap_holds_in_every_process(
    house: House, analyst: Any, assistant: Assistant, tmp_path: Path
) -> None:
    assistant("submit_job", **JOB)
    more = JOB | {"epsilon": 1.2}
    with pytest.raises(RuntimeError, match="1 is left of this assistant's cap of 2"):
        assistant("submit_job", **more)
    again = Assistant(within(house, analyst.key), Cap(2.0, tmp_path / "spent.json"))
    with pytest.raises(RuntimeError, match="cap"):
        again("submit_job", **more)
    again("submit_job", **JOB)
    with pytest.raises(RuntimeError, match="cap"):
        assistant("submit_job", **JOB)
    assert len(assistant("list_jobs")) == 2


def test_threads_and_processes_share_what_is_left(tmp_path: Path) -> None:
    cap = Cap(1.0, tmp_path / "spent.json")
    with ThreadPoolExecutor(8) as pool:
        left = list(pool.map(lambda _: Cap(1.0, tmp_path / "spent.json").take(0.125), range(40)))
    assert sum(one >= 0.0 for one in left) == 8
    assert cap.left == 0.0
    assert Cap(2.0, tmp_path / "spent.json").left == 1.0


@pytest.mark.parametrize("text", ["{}", '{"spent_epsilon": -1}', '{"spent_epsilon": NaN}', "no"])
def test_a_file_that_says_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "spent.json").write_text(text)
    with pytest.raises(ValueError, match="name another file"):
        Cap(1.0, tmp_path / "spent.json")
    for cap in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="positive"):
            Cap(cap, tmp_path / "other.json")


def test_what_is_not_sent_costs_nothing(house: House, assistant: Assistant) -> None:
    for wrong, said in (
        (JOB | {"epsilon": 0.01}, "nothing was spent"),
        (JOB | {"formula": "income ~ wealth"}, "wealth"),
        (JOB | {"formula": "wealth ~ age"}, "name the family"),
        (JOB | {"dataset": "nobody"}, "no dataset"),
        (JOB | {"epsilon": -1.0}, "epsilon"),
    ):
        with pytest.raises(RuntimeError, match=said):
            assistant("submit_job", **wrong)
    budget = assistant("budget", dataset="people")
    assert budget["assistant"]["left"] == 2.0
    assert budget["spent"]["epsilon"] == budget["reserved"]["epsilon"] == 0.0


def test_it_is_served_on_stdin_and_stdout(tmp_path: Path) -> None:
    words = ["--key", "dpm_a-key", "--url", "http://127.0.0.1:9", "mcp", "--cap", "1"]
    words += ["--spent", str(tmp_path / "spent.json")]
    served = StdioServerParameters(
        command=sys.executable, args=["-m", "dpmcmc.client", *words], env=dict(os.environ)
    )

    async def ask() -> Any:
        async with McpClient(served) as connected:
            listed = await connected.list_tools()
            return listed.tools, await connected.call_tool("list_datasets", {})

    tools, answer = anyio.run(ask)
    assert {"plan_job", "submit_job", "get_result"} <= {tool.name for tool in tools}
    assert all("self" not in tool.input_schema.get("properties", {}) for tool in tools)
    assert answer.is_error
    assert "cannot be reached" in answer.content[0].text or "refused" in answer.content[0].text
    assert "dpm_a-key" not in answer.content[0].text


def test_it_may_not_do_what_its_key_may_not(house: House, assistant: Assistant) -> None:
    other = house.dataset(name="closed", grants=[])
    assert [one["name"] for one in assistant("list_datasets")] == ["people"]
    with pytest.raises(RuntimeError, match="no such dataset"):
        assistant("submit_job", **JOB | {"dataset": other})

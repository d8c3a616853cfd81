"""Snapshots of a source on the admin's pages, of a service that runs."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest
from playwright.sync_api import Page, expect

from app.local_service import Service, local_service
from dpmcmc.client import ApiError, AsyncClient, Client


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder: Path = tmp_path_factory.mktemp("service")
    with duckdb.connect(str(folder / "lab.duckdb")) as made:
        ages = "SELECT (i * 7 % 90)::DOUBLE AS age, i AS id FROM range(300000) AS all_rows(i)"
        made.execute(f"CREATE TABLE people AS {ages}")
    file = folder / "sources.toml"
    file.write_text(
        f'[sources.lab]\nkind = "duckdb"\nfile = "{folder}/lab.duckdb"\ntables = ["people"]\n'
    )
    (folder / "data").mkdir()
    with local_service(folder / "data", {"DPMCMC_SOURCES": str(file)}) as running:
        yield running


@pytest.mark.longer
def test_an_admin_registers_a_snapshot_and_takes_it_again(page: Page, service: Service) -> None:
    page.goto(service.url)
    page.get_by_label("API key").fill(service.admin_key)
    page.get_by_role("button", name="Sign in").click()
    page.goto(f"{service.url}/datasets/new")
    page.get_by_label("Rows from").select_option("lab")
    expect(page.locator("[name=file]")).to_be_hidden()
    expect(page.get_by_role("button", name="Look at the file")).to_be_hidden()
    page.locator("[data-item]").fill("persons")
    page.get_by_label("Name", exact=True).first.fill("ages")
    page.get_by_label("Epsilon").fill("3")
    column = page.locator(".column").first
    column.get_by_label("Name").fill("age")
    column.get_by_label("Lower").fill("0")
    column.get_by_label("Upper").fill("100")
    register = page.get_by_role("button", name="Upload")
    register.click()
    expect(page.get_by_role("alert")).to_contain_text("/source/table: the source offers no such")
    page.locator("[data-item]").fill("people")
    register.click()
    expect(page.get_by_role("alert")).to_contain_text("1 columns of the file are not declared")
    page.get_by_label("Leave out all that is not declared").check()
    register.click()
    expect(page.get_by_role("heading", name="ages", exact=True)).to_be_visible()
    expect(page.locator("main")).to_contain_text("A snapshot of lab, table people")
    expect(page.locator("main")).to_contain_text("300,000 rows")
    page.get_by_role("button", name="Take it again").click()
    expect(page.get_by_role("heading", name="ages, version 2")).to_be_visible()
    expect(page.locator("main")).to_contain_text("The next version of an earlier dataset")
    with Client(service.url, service.admin_key) as admin:
        names = {one["name"]: one for one in admin.datasets()}
        assert names["ages, version 2"]["refreshes"] == names["ages"]["id"]
        told: list[int] = []
        third = admin.refresh("ages, version 2", "ages of May", told.append)
        assert (third["name"], third["rows"]) == ("ages of May", 300_000)
        assert told == sorted(told)


def test_the_asynchronous_client_takes_snapshots_too(service: Service) -> None:
    async def asked() -> tuple[list[str], dict[str, Any], list[int]]:
        read: list[int] = []
        async with AsyncClient(service.url, service.admin_key) as client:
            offered = [source["name"] async for source in client.sources()]
            with pytest.raises(ApiError) as refused:
                await client.snapshot({"name": "lab", "table": "persons"}, declared)
            assert "offers no such" in str(refused.value.problem["errors"])
            await client.snapshot({"name": "lab", "table": "people"}, declared)
            made = await client.refresh("ages again", "ages of June", read.append)
        return offered, made, read

    declared = {
        "name": "ages again",
        "privacy": {"epsilon": 3.0, "delta": 1e-6},
        "columns": [{"name": "age", "type": "number", "lower": 0, "upper": 100}],
        "skip_undeclared": True,
    }
    with ThreadPoolExecutor(1) as pool:  # the thread of the browser has a loop of its own
        offered, made, read = pool.submit(asyncio.run, asked()).result()
    assert offered == ["lab"]
    assert (made["name"], made["rows"]) == ("ages of June", 300_000)
    assert read == sorted(read)

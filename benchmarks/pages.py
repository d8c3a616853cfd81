"""How soon a page of the dashboard is usable in Chromium with 1,000 jobs on 50 datasets.

    python -m benchmarks.pages [--jobs 1000] [--times 5]

A service of its own on this machine; each page is opened by a browser that has nothing in its
cache. Told are the medians of: bytes received (the browser's own count, headers included), first
contentful paint, the end of DOMContentLoaded (all scripts have run: the page answers), and load.
"""

import argparse
import gzip
import json
import shutil
import statistics
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from playwright.sync_api import Browser, sync_playwright
from sqlalchemy import create_engine, insert, select
from sqlalchemy.orm import Session

from app.local_service import Service, local_service
from app.storage.rows import JobRow
from dpmcmc.client import Client

ROOT = Path(__file__).resolve().parent.parent
DATASETS = 50
MEASURE = """() => {
  const [page] = performance.getEntriesByType("navigation");
  const all = [page, ...performance.getEntriesByType("resource")];
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return {
    bytes: all.reduce((sum, one) => sum + one.transferSize, 0), paint: paint?.startTime,
    usable: page.domContentLoadedEventEnd, load: page.loadEventEnd,
  };
}"""


def filled(folder: Path, service: Service, jobs: int) -> tuple[str, str]:
    """Return an analyst's key and a job of theirs that succeeded, beside so many like it."""
    rows, shown = folder / "rows.csv", ROOT / "experiments/data"
    rows.write_bytes(gzip.decompress((shown / "randhie.csv.gz").read_bytes()))
    told = json.loads((shown / "randhie.json").read_text())
    with Client(service.url, service.admin_key) as admin:
        key: str = admin.create_user("reader", "analyst")["key"]
        ids = [admin.upload(rows, told | {"name": "visits"})["id"]]
        small = folder / "small.csv"
        for k in range(1, DATASETS):
            small.write_text("x\n" + f"{k % 10}\n" * (100 + k))
            columns = [{"name": "x", "type": "number", "lower": 0, "upper": 9}]
            facts = {"name": f"people {k}", "columns": columns, "privacy": told["privacy"]}
            ids.append(admin.upload(small, facts)["id"])
    model = {"family": "logistic", "formula": "any_visit ~ chronic + income + sex"}
    body = {"dataset": ids[0], "model": model, "privacy": {"epsilon": 1.0, "delta": 1e-6}}
    with Client(service.url, key) as analyst:
        job = analyst.wait(analyst.submit(body)["id"], timeout=300)["id"]
    (database,) = folder.glob("dpmcmc.sqlite3")
    with Session(create_engine(f"sqlite:///{database}")) as session, session.begin():
        one = session.scalars(select(JobRow)).one()
        like: dict[str, Any] = {c.key: getattr(one, c.key) for c in JobRow.__table__.columns}
        copies = [
            like
            | {
                "id": uuid4(),
                "idempotency_key": str(uuid4()),
                "dataset_id": UUID(ids[k % DATASETS]),
                "created_at": one.created_at - timedelta(minutes=k),
            }
            for k in range(1, jobs)
        ]
        session.execute(insert(JobRow), copies)
    return key, job


def measured(browser: Browser, url: str, key: str, path: str) -> dict[str, float]:
    """Return what one visit with an empty cache took."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, bypass_csp=True)
    tab = context.new_page()
    tab.request.post(f"{url}/login", form={"key": key, "then": "/me"})
    tab.goto(url + path, wait_until="load")
    tab.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
    found: dict[str, float] = tab.evaluate(MEASURE)
    context.close()
    return found


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as made,
        local_service(Path(made)) as service,
        sync_playwright() as driver,
    ):
        key, job = filled(Path(made), service, options.jobs)
        chromium = shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        print(
            "| page | kB received | first paint ms | usable ms | loaded ms |\n|---|---|---|---|---|"
        )
        paths = ("/datasets", "/jobs", "/jobs?text=chronic", "/jobs/new", f"/jobs/{job}", "/docs")
        for path in paths:
            visits = [measured(browser, service.url, key, path) for _ in range(options.times)]
            kilobytes, *times = (
                statistics.median(visit[name] for visit in visits)
                for name in ("bytes", "paint", "usable", "load")
            )
            shown = path.replace(job, "{id}")
            print(f"| {shown} | {kilobytes / 1000:.0f} | {' | '.join(f'{t:.0f}' for t in times)} |")


if __name__ == "__main__":
    main()

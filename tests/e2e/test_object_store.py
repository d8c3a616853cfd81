"""The whole service, API and worker, with its rows in an object store."""

from pathlib import Path

import pytest

from tests.api.support import ADMIN, METADATA, as_csv, client, csv_rows, job_of, running
from tests.object_store import admin_of, s3_server, settings_of


@pytest.mark.slow
def test_a_job_runs_on_rows_from_an_object_store(tmp_path: Path) -> None:
    rows, secret = tmp_path / "rows.csv", tmp_path / "secret"
    rows.write_bytes(as_csv(csv_rows()))
    with s3_server() as address:
        admin_of(address).create_bucket(Bucket="rows")
        given = settings_of(address, "rows")
        secret.write_text(given.pop("s3_secret_key") + "\n")
        environment = {f"DPMCMC_{name.upper()}": value for name, value in given.items()}
        environment["DPMCMC_S3_SECRET_KEY_FILE"] = str(secret)
        with running(tmp_path, environment) as (_, service):
            admin = client(service, ADMIN)
            dataset = admin.upload(rows, METADATA)["id"]
            analyst = client(service, admin.create_user("analyst", "analyst")["key"])
            ended = analyst.wait(analyst.submit(job_of(dataset))["id"], timeout=120)
            assert ended["status"] == "succeeded", service.log.read_text()
        found = admin_of(address).list_objects_v2(Bucket="rows")["Contents"]
    keys = {item["Key"] for item in found}
    marks = {key for key in keys if key.startswith("rows/installation-")}
    assert len(marks) == 1
    assert keys - marks == {f"rows/{dataset}.rows"}

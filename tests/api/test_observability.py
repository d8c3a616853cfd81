"""Alerts, dashboard and manifests speak of what there is."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from app.ledger.totals import LEFT
from app.services.metrics import AGE_STEP
from app.settings import Settings, variables_of
from app.storage.rows import ACCOUNT_STATUSES, JOB_STATUSES
from tests.api.support import House, job_of

ROOT = Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted(DEPLOY.glob("kubernetes/*.yaml"))
NAME = re.compile(r"dpmcmc_\w+")
PAIR = re.compile(r'(\w+)=(~?)"([^"]*)"')


def rules() -> list[dict[str, Any]]:
    read = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    return [rule for group in read["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((DEPLOY / "grafana.json").read_text())
    return read


def expressions() -> list[str]:
    panels = [target["expr"] for one in dashboard()["panels"] for target in one["targets"]]
    return [*(rule["expr"] for rule in rules()), *panels]


def test_the_guide_says_of_every_alert_what_to_do() -> None:
    guide = (ROOT / "docs" / "guides" / "operation.md").read_text()
    named = re.findall(r"^\| `(Dpmcmc\w+)` \|", guide, re.MULTILINE)
    assert named == [rule["alert"] for rule in rules()]


def told(house: House) -> str:
    """/metrics after a plan and some requests."""
    analyst = house.user("analyst")
    assert analyst.post("/v1/plans", json=job_of(house.dataset())).status_code == 200
    assert house.admin.get("/metrics").status_code == 200
    return str(house.admin.get("/metrics").text)


def samples(text: str) -> dict[str, list[dict[str, str]]]:
    """Name -> the labels of each of its samples."""
    found: dict[str, list[dict[str, str]]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels = re.fullmatch(r"(\w+)(?:\{(.*)\})? \S+", line).groups()  # type: ignore[union-attr]
            found.setdefault(name, []).append(
                {key: value for key, _, value in PAIR.findall(labels or "")}
            )
    return found


def test_every_metric_and_label_that_is_named_exists(house: House) -> None:
    there = samples(told(house))
    for expression in expressions():
        for name, labels in re.findall(r"(dpmcmc_\w+)(?:\{([^}]*)\})?", expression):
            assert name in there, name
            for label, _, _ in PAIR.findall(labels):
                assert all(label in sample for sample in there[name]), (name, label)


def test_every_value_of_a_label_that_is_named_can_come(house: House) -> None:
    outcomes = {one["outcome"] for one in samples(told(house))["dpmcmc_plans_total"]}
    known = {"status": {*JOB_STATUSES, *ACCOUNT_STATUSES, "5.."}, "left": set(LEFT)}
    known["outcome"] = outcomes
    for expression in expressions():
        for label, _, value in PAIR.findall(expression):
            if label in known:
                assert set(value.split("|")) <= known[label], expression


@pytest.mark.parametrize("expression", expressions())
def test_every_expression_is_promql(expression: str) -> None:
    promql_parser.parse(expression)


def test_what_is_no_promql_is_refused() -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the parser's own text
        promql_parser.parse("sum(dpmcmc_jobs")


def test_every_alert_has_what_prometheus_and_people_need() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"\d+m", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_the_dashboard_has_a_place_for_every_panel() -> None:
    shown = dashboard()
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= set(shown)
    ids = [panel["id"] for panel in shown["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set[tuple[int, int]]()
    for panel in shown["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert all(x < 24 for x, _ in cells)
        taken |= cells


def answered(text: str) -> float:
    found = re.search(r'^dpmcmc_plans_total\{outcome="answered"\} (\S+)$', text, re.M)
    assert found is not None
    return float(found[1])


def test_metrics_count_what_there_is(house: House) -> None:
    there = told(house)
    assert "dpmcmc_queue_age_seconds 0.0" in there
    assert "dpmcmc_ledgers_rewound 0.0" in there
    assert 'dpmcmc_ledgers{status="open"} 1.0' in there
    assert 'dpmcmc_budgets{left="most"} 1.0' in there
    assert answered(there) >= 1.0  # planners are shared by all tests of a process
    assert answered(house.admin.get("/metrics").text) == answered(there)  # looking does not count
    plan = job_of(house.dataset(name="another"))
    assert house.user("analyst").post("/v1/plans", json=plan).status_code == 200
    assert answered(house.admin.get("/metrics").text) == answered(there) + 1


def test_a_budget_that_is_spent_is_counted(house: House) -> None:
    dataset = house.dataset()
    analyst = house.user("analyst")
    limit = analyst.get(f"/v1/datasets/{dataset}/budget").json()["mu_total"]
    for share, left in ((0.6, "less than half"), (0.38, "less than a tenth")):
        job = job_of(dataset, num_steps=10, num_chains=1)
        z = (10 / (share * limit**2)) ** 0.5
        job["privacy"] = {"noise_multiplier": z, "delta": 1e-6}
        assert analyst.post("/v1/jobs", json=job).status_code == 202
        text = str(house.admin.get("/metrics").text)
        assert f'dpmcmc_budgets{{left="{left}"}} 1.0' in text
    assert 'dpmcmc_jobs{status="queued"} 2.0' in text


def test_the_queues_age_is_told_in_steps(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import timedelta

    from app.services import metrics

    house.submit(house.user("analyst"), house.dataset())
    now = metrics.database_now
    for seconds, said in ((4.0, 0.0), (27.0, 20.0)):
        later = timedelta(seconds=seconds)
        monkeypatch.setattr(metrics, "database_now", lambda s, later=later: now(s) + later)
        assert f"dpmcmc_queue_age_seconds {said}" in house.admin.get("/metrics").text
    assert AGE_STEP == 10.0


# ---- manifests ----


def resources() -> list[dict[str, Any]]:
    return [one for path in MANIFESTS for one in yaml.safe_load_all(path.read_text())]


def pods() -> dict[str, dict[str, Any]]:
    """Component -> its pod's specification."""
    found = [one for one in resources() if one["kind"] in ("Deployment", "Job")]
    return {
        one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"]["template"]["spec"]
        for one in found
    }


def test_the_base_names_every_manifest() -> None:
    base = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())
    others = {path.name for path in MANIFESTS} - {"kustomization.yaml"}
    assert set(base["resources"]) == others


def test_a_misspelled_field_of_a_manifest_is_found(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text((DEPLOY / "kubernetes/api.yaml").read_text().replace("runAsUser", "runAsuser"))
    tool = Path(sys.executable).with_name("kubernetes-validate")
    done = subprocess.run([tool, "--strict", wrong], capture_output=True, check=False)
    assert done.returncode


def test_every_role_of_the_base_is_locked_down() -> None:
    assert set(pods()) == {"api", "worker", "recovery", "migrate"}
    for pod in pods().values():
        (container,) = pod["containers"]
        inside = container["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert str(pod["securityContext"]["runAsUser"]) in (ROOT / "Dockerfile").read_text()
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert inside["readOnlyRootFilesystem"] is True
        assert inside["allowPrivilegeEscalation"] is False
        assert inside["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        drain = Settings.model_fields["drain_seconds"].default
        assert pod["terminationGracePeriodSeconds"] > drain


def test_every_role_that_stays_is_probed() -> None:
    for name, pod in pods().items():
        (container,) = pod["containers"]
        if name != "migrate":
            assert {"startupProbe", "livenessProbe"} <= set(container)
    assert (
        pods()["api"]["containers"][0]["readinessProbe"]["httpGet"]["path"]
        == "/readyz?workers=false"
    )


def test_every_role_is_a_module_that_can_be_started() -> None:
    for pod in pods().values():
        module = pod["containers"][0]["args"][0]
        found = importlib.util.find_spec(module)
        assert found is not None
        if found.submodule_search_locations:
            assert importlib.util.find_spec(f"{module}.__main__") is not None


def test_manifests_set_only_settings_that_exist_and_no_secret() -> None:
    names = {v for key, f in Settings.model_fields.items() for v in variables_of(key, f)}
    names |= {f"{name}_FILE" for name in names}
    (shared,) = (one["data"] for one in resources() if one["kind"] == "ConfigMap")
    own = [one["name"] for pod in pods().values() for one in pod["containers"][0].get("env", [])]
    assert {*shared, *own} <= names
    assert not [one for one in resources() if one["kind"] == "Secret"]
    for name, value in shared.items():
        assert name.endswith("_FILE") == value.startswith("/run/secrets/")


def test_a_workers_memory_is_that_of_its_jobs() -> None:
    (shared,) = (one["data"] for one in resources() if one["kind"] == "ConfigMap")
    of_jobs = int(shared["DPMCMC_JOB_MEMORY_BYTES"]) * int(shared["DPMCMC_WORKER_CONCURRENCY"])
    limit = pods()["worker"]["containers"][0]["resources"]["limits"]["memory"]
    assert int(limit.removesuffix("Gi")) * 2**30 > of_jobs


def test_nobody_reaches_a_pod_that_no_policy_lets_in() -> None:
    policies = {
        o["metadata"]["name"]: o["spec"] for o in resources() if o["kind"] == "NetworkPolicy"
    }
    assert set(policies["dpmcmc-deny"]["policyTypes"]) == {"Ingress", "Egress"}
    assert not {"ingress", "egress"} & set(policies["dpmcmc-deny"])
    open_to = [name for name, spec in policies.items() if "ingress" in spec]
    assert open_to == ["dpmcmc-api"]
    selected = policies["dpmcmc-api"]["podSelector"]["matchLabels"]
    assert selected["app.kubernetes.io/component"] == "api"

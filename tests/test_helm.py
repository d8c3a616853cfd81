"""The Helm chart renders to what the kustomize base says, and to what its values ask for."""

from typing import Any

import kubernetes_validate
import pytest
import yaml
from gotpl.exts.helm import HelmTemplateEngine

from tests.docs.pages import ROOT

CHART = ROOT / "deploy" / "helm"
BASE = ROOT / "deploy" / "kubernetes"


def rendered(release: str = "dpmcmc", **given: Any) -> dict[tuple[str, str], Any]:
    """The chart's objects by kind and name. given: values of the first level, merged."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for name, value in given.items():
        values[name] = {**values[name], **value} if isinstance(value, dict) else value
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    about = {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]}
    data = {
        "Values": values,
        "Chart": about,
        "Release": {"Name": release, "Namespace": "models", "Revision": 3},
    }
    files = {path.name: path.read_text() for path in (CHART / "templates").iterdir()}
    engine = HelmTemplateEngine.from_sources(files, strict=True)
    written = engine.render({name: data for name in files if name.endswith(".yaml")})
    made = objects(list(written.values()))
    for one in made.values():
        kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)
    return made


def objects(written: list[str]) -> dict[tuple[str, str], Any]:
    every = [one for text in written for one in yaml.safe_load_all(text) if one]
    named = {(one["kind"], one["metadata"]["name"]): one for one in every}
    assert len(named) == len(every)
    return named


def base() -> dict[tuple[str, str], Any]:
    """What the kustomize base has."""
    kept = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    return objects([(BASE / name).read_text() for name in kept])


def plain(spec: Any) -> Any:
    """A part of an object without what the chart alone has."""
    if isinstance(spec, dict):
        added = ("app.kubernetes.io/instance", "imagePullPolicy", "annotations")
        return {name: plain(value) for name, value in spec.items() if name not in added}
    return [plain(value) for value in spec] if isinstance(spec, list) else spec


def test_the_chart_is_the_kustomize_base() -> None:
    chart, wanted = rendered(), base()
    migrate = chart.pop(("Job", "dpmcmc-migrate-3"))
    migrate["metadata"]["name"] = "dpmcmc-migrate"  # a fixed name there, one a revision here
    chart["Job", "dpmcmc-migrate"] = migrate
    assert set(chart) == set(wanted)
    for name, one in wanted.items():
        for part in ("spec", "data"):
            assert plain(chart[name].get(part)) == one.get(part), name


def test_names_follow_the_release_so_that_two_may_share_a_namespace() -> None:
    one, other = rendered("one"), rendered("other")
    assert not set(one) & set(other)
    pods = one["Deployment", "one-worker"]["spec"]
    assert pods["selector"]["matchLabels"]["app.kubernetes.io/instance"] == "one"
    assert pods["template"]["spec"]["serviceAccountName"] == "one"
    claim = pods["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
    assert ("PersistentVolumeClaim", claim) in one


def test_values_are_taken() -> None:
    chart = rendered(
        image={"repository": "mirror/dpmcmc", "digest": "sha256:ab", "pullSecrets": ["mirror"]},
        settings={"DPMCMC_S3_BUCKET": "rows", "DPMCMC_CHAIN_DAYS": 30},
        api={"replicas": 1},
        storage={"existingClaim": "there"},
        networkPolicy={"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.7/32"}}]}]},
        ingress={"enabled": True, "host": "models.example.org", "tlsSecret": "certificate"},
    )
    pod = chart["Deployment", "dpmcmc-api"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "mirror/dpmcmc@sha256:ab"
    assert pod["imagePullSecrets"] == [{"name": "mirror"}]
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == "there"
    settings = chart["ConfigMap", "dpmcmc"]["data"]
    assert settings["DPMCMC_S3_BUCKET"] == "rows"
    assert settings["DPMCMC_CHAIN_DAYS"] == "30"  # a word: numbers are refused there
    kinds = {kind for kind, _ in chart}
    assert not kinds & {"PersistentVolumeClaim", "PodDisruptionBudget"}
    rule = chart["Ingress", "dpmcmc"]["spec"]["rules"][0]
    assert rule["host"] == "models.example.org"
    egress = chart["NetworkPolicy", "dpmcmc-servers"]["spec"]["egress"]
    assert egress[-1] == {"to": [{"ipBlock": {"cidr": "10.0.0.7/32"}}]}


def test_new_settings_start_new_pods() -> None:
    def checksum(**settings: Any) -> Any:
        pods = rendered(settings=settings)["Deployment", "dpmcmc-worker"]["spec"]["template"]
        return pods["metadata"]["annotations"]

    assert checksum() == checksum()
    assert checksum() != checksum(DPMCMC_WORKER_CONCURRENCY="4")


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"secret": ""}, "database_url, broker_url"),
        ({"ingress": {"enabled": True, "tlsSecret": "t"}}, "ingress.host"),
        ({"ingress": {"enabled": True, "host": "h"}}, "never sent in clear"),
    ],
)
def test_what_is_missing_is_named(given: dict[str, Any], word: str) -> None:
    with pytest.raises(Exception, match=word):
        rendered(**given)


def test_every_setting_that_the_chart_names_exists() -> None:
    known = (ROOT / "docs" / "settings.md").read_text()
    for name in rendered()["ConfigMap", "dpmcmc"]["data"]:
        assert f"`{name}`" in known or f"`{name.removesuffix('_FILE')}`" in known, name

"""A fit as one file: its released values, and the public facts needed to read them.

The file is a zip archive of `fit.json` (schema, resolved job, plan, verdict, stored release) and
`draws.npy`. Nothing in it is executed when it is read.
"""

import json
import zipfile
import zlib
from collections.abc import Mapping
from os import PathLike
from typing import Any

import dacite
import numpy as np
from numpy.typing import NDArray

from dpmcmc.base.private import Neighbouring
from dpmcmc.base.version import __version__
from dpmcmc.inputs.schema import Schema
from dpmcmc.inputs.spec import JobSpec
from dpmcmc.planner import Plan
from dpmcmc.posterior.verdicts import Verdict
from dpmcmc.privacy.events import Event
from dpmcmc.samplers.algorithms import ALGORITHMS

FORMAT, VERSION = "dpmcmc fit", 1
FACTS, DRAWS = "fit.json", "draws.npy"
READ = dacite.Config(cast=[tuple, Neighbouring], strict=True)
Path = str | PathLike[str]


def write(path: Path, facts: Mapping[str, Any], draws: NDArray[np.float64]) -> None:
    """Write facts that JSON holds, and draws (chain, draw, parameter)."""
    _check_path(path)
    head = {"format": FORMAT, "version": VERSION, "dpmcmc": __version__}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(FACTS, json.dumps({**head, **facts}))
        with archive.open(DRAWS, "w", force_zip64=True) as file:
            np.lib.format.write_array(file, np.ascontiguousarray(draws), allow_pickle=False)


def read(path: Path) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """Return what `write` wrote. Raises ValueError where the file is something else, OSError."""
    _check_path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            facts = json.loads(archive.read(FACTS))
            with archive.open(DRAWS) as file:
                draws = np.lib.format.read_array(file, allow_pickle=False)
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError):
        raise no_fit(path) from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise no_fit(path)
    if facts.get("version") != VERSION:
        raise ValueError(f"{path} was written by dpmcmc {facts.get('dpmcmc')}: read it with that")
    return facts, draws


def no_fit(path: Path) -> ValueError:
    """Return the error for a file that is no fit, or an incomplete one."""
    return ValueError(
        f"{path} holds no fit, or a broken one: name a file that fit.save(path) wrote"
    )


def _check_path(path: object) -> None:
    """Raise TypeError unless it is a path."""
    if not isinstance(path, str | PathLike):
        raise TypeError("the path of a file is needed")


def schema_of(stored: Mapping[str, Any]) -> Schema:
    """Return the schema from the dictionary of its fields."""
    return dacite.from_dict(Schema, stored, READ)


def spec_of(stored: Mapping[str, Any]) -> JobSpec:
    """Return the job from the dictionary of its fields."""
    sampler = stored["sampler"]
    options = ALGORITHMS[sampler["algorithm"]].options
    read = {**stored, "sampler": dacite.from_dict(options, sampler, READ)}
    return dacite.from_dict(JobSpec, read, READ)


def plan_of(stored: Mapping[str, Any], spec: JobSpec, event: Event) -> Plan:
    """Return the plan from the dictionary of its fields, for this job and its event."""
    kept = {name: value for name, value in stored.items() if name != "spec"}
    return dacite.from_dict(Plan, {**kept, "spec": spec, "event": event}, READ)


def verdict_of(stored: Mapping[str, Any]) -> Verdict:
    """Return the verdict from the dictionary of its fields."""
    return dacite.from_dict(Verdict, stored, READ)

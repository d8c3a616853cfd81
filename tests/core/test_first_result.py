"""A statistician's first answer waits for no compiler: what a fresh process loads until then."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from gc import get_objects
import numpy as np
from dpmcmc import BinaryColumn, ModelSpec, NumberColumn, Schema, sample

rng = np.random.default_rng(1)
dose, cured = rng.uniform(0, 10, 5000), np.where(rng.random(5000) < 0.5, "yes", "no")
columns = (
    NumberColumn(name="dose", lower=0, upper=10),
    BinaryColumn(name="cured", categories=("no", "yes")),
)
result = sample(
    {"dose": dose, "cured": cured},
    schema=Schema(columns=columns, rows=5000),
    model=ModelSpec(family="logistic", formula="cured ~ dose"),
    epsilon=2.0,
    delta=1e-6,
)
assert result.plan.spec.sampler.algorithm == "noisy_quadratic"
assert "dose" in str(result)
from numba.core.registry import CPUDispatcher
kernels = [one for one in get_objects() if isinstance(one, CPUDispatcher)]
print([one.py_func.__name__ for one in kernels if one.signatures])
slow = ("arviz_stats", "scipy.signal", "xarray", "scipy.stats")
print([name for name in slow if name in sys.modules])
"""


def test_a_release_loads_no_compiled_code_and_no_diagnostics(tmp_path: Path) -> None:
    """They take longer to load than 50,000 rows to be read; seconds are not tested, causes are."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]
    assert not list(tmp_path.rglob("*.nbi"))

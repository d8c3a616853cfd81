"""What tests over the registries run on: filled by registration, as a model has an example."""

from dataclasses import asdict

import numpy as np

from dpmcmc.families import MODELS
from dpmcmc.families.scores.base import SEVERAL, is_apart, is_skewed
from dpmcmc.fit.local import sample
from dpmcmc.inputs.schema import BinaryColumn, CategoryColumn, NumberColumn, Schema
from tests.sources import Seeded

EXAMPLES = {name: model.example for name, model in MODELS.items()}
FAMILIES = {
    name: family
    for name, model in MODELS.items()
    if (family := model.rows(model.example.options)) is not None
}
WEIGHTED = [
    name
    for name, family in FAMILIES.items()
    if family.link not in SEVERAL and not is_skewed(family) and not is_apart(family)
]


def asked_for(family, formula):
    """A job's `model` of another formula, with the options that the example gives."""
    given = {k: v for k, v in asdict(EXAMPLES[family].options).items() if v is not None}
    return {"family": family, "formula": formula} | ({"options": given} if given else {})


def schema_of(rows, most=8):
    """The columns that examples read."""
    return Schema(
        columns=(
            NumberColumn(name="x", lower=-1, upper=1),
            NumberColumn(name="count", lower=0, upper=most),
            BinaryColumn(name="y", categories=("no", "yes")),
            CategoryColumn(name="g", categories=("a", "b", "c")),
        ),
        rows=rows,
    )


def people(rows, seed=1, most=8):
    """Rows of them."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, rows)
    return {
        "x": x,
        "count": np.clip(rng.poisson(2.0, rows), 0, most),
        "y": np.where(rng.random(rows) < 0.5, "yes", "no"),
        "g": rng.choice(["a", "b", "c"], rows),
    }


def posterior(data, schema, model, seed, epsilon=1e6):
    """A fit, and draws of its posterior in the units of the design."""
    result = sample(
        data, schema=schema, model=model, epsilon=epsilon, delta=1e-6, random=Seeded(seed),
        accept_low_quality=True,
    )  # fmt: skip
    return result, result.release.posterior(random=Seeded(seed + 1), scale="design").draws

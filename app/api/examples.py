"""An example of every body that a request may have, for the API's page and its document."""

from typing import Any

Json = dict[str, Any]
_ID = "00000000-0000-4000-8000-000000000000"
_DELTA = 1e-6
_ANCHOR = {"rows": 12, "head": "0" * 64}

METADATA: Json = {
    "name": "adult",
    "description": "Incomes of a census.",
    "privacy": {"epsilon": 6.0, "delta": _DELTA},
    "columns": [
        {"name": "age", "type": "number", "lower": 17, "upper": 90},
        {"name": "sex", "type": "category", "categories": ["Female", "Male"]},
        {"name": "income", "type": "binary", "categories": ["<=50K", ">50K"]},
    ],
}
EXAMPLES: dict[str, Json] = {
    "DatasetIn": METADATA,
    "SnapshotIn": {"source": {"name": "clinic", "table": "study.visits"}, "metadata": METADATA},
    "RefreshIn": {"name": "visits of May"},
    "InspectIn": {"format": {"separator": ";", "missing": ["NA"]}},
    "DatasetPatch": {"privacy": {"epsilon": 8.0}, "grants": [_ID], "allotments": {_ID: 2.0}},
    "JobIn": {
        "dataset": _ID,
        "model": {"family": "logistic", "formula": "income ~ age + sex"},
        "privacy": {"epsilon": 1.0, "delta": _DELTA},
    },
    "JobPatch": {"name": "Income by age", "note": "the model of the report"},
    "TaskIn": {
        "dataset": _ID,
        "task": {
            "kind": "summaries",
            "statistics": [
                {"kind": "mean", "column": "age"},
                {"kind": "counts", "columns": ["sex", "income"]},
            ],
        },
        "privacy": {"epsilon": 0.5, "delta": _DELTA},
    },
    "PosteriorIn": {
        "prior": {"age": {"kind": "normal", "loc": 0.0, "scale": 1.0}},
        "num_draws": 1000,
        "given": [{"age": 40, "sex": "Female"}],
        "contrasts": [{"age": 1.0}],
        "null": [{"age": 0.0}],
    },
    "InferenceIn": {
        "family": "normal_mean",
        "options": {"sd": 15.0},
        "prior": {"kind": "uniform", "lower": 17.0, "upper": 90.0},
    },
    "UserIn": {"name": "Ada", "role": "analyst"},
    "UserPatch": {"disabled": True},
    "MePatch": {"email": "ada@example.org"},
    "KeyIn": {"label": "laptop", "expires_at": "2030-01-01T00:00:00Z"},
    "AccessRequestIn": {
        "dataset": _ID,
        "epsilon": 2.0,
        "reason": "A second model of income, by age and sex, for the yearly report.",
        "job": {
            "model": {"family": "logistic", "formula": "income ~ age + sex"},
            "privacy": {"epsilon": 2.0, "delta": _DELTA},
        },
    },
    "AccessRequestPatch": {"status": "granted", "allotment": 3.0, "answer": "For the report."},
    "VerifyIn": {"anchor": _ANCHOR},
    "RestoreIn": {"accept": True, "reason": "The disk failed; the backup of last night is back."},
    "ComposeIn": {
        "events": [
            {
                "kind": "repeat",
                "count": 100,
                "event": {"kind": "gaussian", "noise_multiplier": 20.0},
            }
        ],
        "delta": _DELTA,
    },
    "NoiseIn": {"epsilon": 1.0, "delta": _DELTA, "num_steps": 2000},
    "StatisticChoiceIn": {
        "dataset": _ID,
        "column": "age",
        "family": "normal_mean",
        "options": {"sd": 15.0},
        "thetas": [30.0, 40.0, 50.0],
        "powers": [0.5, 1.0, 2.0],
        "epsilon": 1.0,
    },
    "StepsIn": {"epsilon": 1.0, "delta": _DELTA, "noise_multiplier": 200.0},
}
# beside that of the same body, for what it says otherwise
FURTHER: dict[str, dict[str, Json]] = {
    "TaskIn": {
        "a check of a fit": {
            "dataset": _ID,
            "task": {"kind": "predictive_check", "job": _ID, "bins": 10},
            "privacy": {"epsilon": 0.1, "delta": _DELTA},
        }
    }
}

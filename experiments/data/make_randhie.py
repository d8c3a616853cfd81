"""Makes randhie.csv.gz from the file that statsmodels ships (statsmodels is not a dependency).

python -m venv /tmp/v && /tmp/v/bin/pip install statsmodels && /tmp/v/bin/python make_randhie.py
"""

import csv
import gzip
from importlib import resources
from pathlib import Path

HERE = Path(__file__).parent
FIELDS = (
    "person",
    "any_visit",
    "health",
    "chronic",
    "limitation",
    "age",
    "sex",
    "family_size",
    "income",
    "coinsurance",
)


def health(row: dict[str, str]) -> str:
    """Self-rated health from its three indicator columns; none of them set is excellent."""
    for column, word in (("hlthg", "good"), ("hlthf", "fair"), ("hlthp", "poor")):
        if float(row[column]) == 1:
            return word
    return "excellent"


def extract(row: dict[str, str]) -> dict[str, str]:
    """One row of the extract: renamed, indicators in words, numbers rounded."""
    return {
        "person": f"{float(row['zper']):.0f}",
        "any_visit": "yes" if float(row["mdvis"]) > 0 else "no",
        "health": health(row),
        "chronic": f"{float(row['disea']):.2f}",
        "limitation": "yes" if float(row["physlm"]) >= 0.5 else "no",
        "age": f"{float(row['xage']):.1f}",
        "sex": "female" if float(row["female"]) == 1 else "male",
        "family_size": f"{float(row['num']):.0f}",
        "income": f"{float(row['income']):.0f}",
        "coinsurance": f"{float(row['coins']):.0f}",
    }


def main() -> None:
    """Write the extract; mtime 0 and no name in the header, so that the bytes are repeatable."""
    source = resources.files("statsmodels.datasets.randhie") / "src" / "randhie.csv"
    with (
        source.open(encoding="utf-8") as lines,
        (HERE / "randhie.csv.gz").open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed,
    ):
        rows = [extract(row) for row in csv.DictReader(lines)]
        text = "\n".join([",".join(FIELDS), *(",".join(row[f] for f in FIELDS) for row in rows)])
        packed.write(text.encode() + b"\n")


if __name__ == "__main__":
    main()

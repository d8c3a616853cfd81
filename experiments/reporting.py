"""What the experiments share: the command line, a seed to report, CSV, JSON and a figure."""

import argparse
import csv
import json
import platform
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")  # draws to files, on a server too

# Told apart with any colour vision (Okabe and Ito), and by their marks in print.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a8a00")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True)
class Choice:
    """The command line. random draws everything; seed: what it was started from."""

    quick: bool
    output: Path
    seed: int
    random: np.random.Generator


def choose(name, doc):
    """Read the command line of the experiment `name` and make its output folder."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="under two minutes")
    parser.add_argument("--output", type=Path, default=Path("var") / name)
    parser.add_argument("--seed", type=int, help="to repeat a run; by default a fresh one")
    choice = parser.parse_args()
    choice.output.mkdir(parents=True, exist_ok=True)
    seed = choice.seed if choice.seed is not None else np.random.SeedSequence().entropy
    return Choice(choice.quick, choice.output, seed, np.random.default_rng(seed))


def write_csv(path, rows):
    """Write rows (dictionaries with the same keys) as CSV."""
    with path.open("w", newline="") as out:
        table = csv.DictWriter(out, rows[0])
        table.writeheader()
        table.writerows(rows)


def rows_of(path):
    """The runs that a file holds."""
    if not path.exists():
        return []
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def add_row(path, columns, row):
    """Append a run to a file, which is made where it is not there."""
    fresh = not path.exists()
    with path.open("a", newline="") as out:
        table = csv.DictWriter(out, columns)
        if fresh:
            table.writeheader()
        table.writerow(row)


def add_missing(path, columns, cells, epsilons, measured):
    """Run what a file does not hold, by cell and epsilon. Yields the rows that are added."""
    done = {(row["cell"], float(row["epsilon"])) for row in rows_of(path)}
    for name in cells:
        for epsilon in epsilons:
            if (name, epsilon) not in done:
                for row in measured(name, epsilon):
                    add_row(path, columns, row)
                    yield row


def table_of_cells(rows, epsilons):
    """Markdown of cells by epsilon: width, what held, the worst, and how many are reliable."""
    lines = [
        "| cell | rows, coefficients | " + " | ".join(f"epsilon {e:g}" for e in epsilons) + " |",
        "|---|---|" + "---|" * len(epsilons),
    ]
    for name in dict.fromkeys(row["cell"] for row in rows):
        here = {float(row["epsilon"]): row for row in rows if row["cell"] == name}
        if set(here) < set(epsilons):
            continue
        cells = [
            f"{row['width']}, {row['truth'] or row['held']}, {row['worst']}, {row['reliable']}"
            f" of {row['runs']}"
            if int(row["reliable"])
            else f"none of {row['runs']}"
            for row in (here[epsilon] for epsilon in epsilons)
        ]
        one = here[epsilons[0]]
        size = f"{int(one['rows']):,}, {one['coefficients']}"
        lines.append(f"| {name} | {size} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_json(path, choice, settings, findings, seconds):
    """Write what was run, from which seed, with what, and what came out; and print it."""
    report = {
        "settings": settings,
        "quick": choice.quick,
        "seed": str(choice.seed),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "seconds": round(seconds, 1),
        "findings": findings,
    }
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))


def tidy(axes):
    """Take the box off a panel and give it a light grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)

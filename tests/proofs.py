"""The proofs of what is registered, by its name."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "proofs"
SHOWN: dict[str, str] = {}  # those that a guide shows, where what it builds is registered


def proof_of(name: str) -> str:
    """Return its text."""
    return SHOWN[name] if name in SHOWN else (FOLDER / f"{name}.md").read_text()

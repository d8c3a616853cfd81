"""Which promises make sense: docs/guides/operation.md, "What a budget promises"."""

LARGEST_PROMISE = 1e4  # epsilon: beyond it a promise says nothing at all
WEAK = 20.0  # epsilon above which a promise says little


def senseless(delta: float, rows: int) -> bool:
    """Whether a promise of this delta is kept by publishing one row picked at random."""
    return delta * rows >= 1.0


TOO_LIKELY = "must be below 1 / rows: with {rows} rows one of them could be published as it is"


def warnings(epsilon: float) -> list[str]:
    """What to say of a promise that says little."""
    if epsilon <= WEAK:
        return []
    return [
        f"epsilon {epsilon:g} is above {WEAK:g}: whoever knows all other rows can be nearly certain"
        " of the last one. Values up to 10 are usual"
    ]

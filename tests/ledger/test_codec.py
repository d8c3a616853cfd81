"""What a debit writes by hand while the head is held is the canonical JSON that is documented."""

import hashlib
from datetime import UTC, datetime
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from app.ledger.codec import HASHED_FIELDS, canonical, entry_hash, read_state, write_state
from dpmcmc.privacy.filter import FilterState

TEXTS = ("kind", "event", "event_digest", "cost", "total", "details", "previous")
ENTRIES = st.fixed_dictionaries(
    {
        **{name: st.none() | st.text() for name in TEXTS},
        **{name: st.none() | st.uuids() for name in ("actor_id", "job_id", "analyst_id")},
        "dataset_id": st.uuids(),
        "seq": st.integers(1, 2**63 - 1),
        "at": st.datetimes(timezones=st.just(UTC)),
    }
)


def plain(value):
    if isinstance(value, UUID):
        return str(value)
    return value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value


@given(ENTRIES)
def test_an_entrys_hash_is_that_of_its_canonical_json(entry):
    assert sorted(entry) == sorted(HASHED_FIELDS)
    text = canonical({name: plain(value) for name, value in entry.items()})
    assert entry_hash({**entry, "hash": "ignored"}) == hashlib.sha256(text.encode()).hexdigest()


@given(st.lists(st.tuples(st.integers(0, 2**200), st.integers(0, 10**6)), min_size=3))
def test_a_state_is_written_as_canonical_json_and_read_back(branches):
    state = FilterState(*zip(*branches, strict=True))
    plainly = {"sums": [str(total) for total in state.sums], "unbounded": list(state.unbounded)}
    assert write_state(state) == canonical(plainly)
    assert read_state(write_state(state)) == state

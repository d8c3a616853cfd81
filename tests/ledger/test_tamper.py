"""What the database refuses, and what verification finds when somebody gets past the database."""

import json
from uuid import uuid4

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.exc import DBAPIError

from app.ledger.account import ENTRIES, HEADS
from app.ledger.codec import canonical, entry_hash
from dpmcmc.privacy.event_json import as_dict, digest
from dpmcmc.privacy.events import Gaussian, Repeat

DISARM = {
    "sqlite": [f"DROP TRIGGER {name}" for name in (
        "ledger_entries_no_update", "ledger_entries_no_delete", "ledger_entries_no_replace",
        "ledger_heads_forward", "ledger_heads_no_delete", "ledger_heads_no_replace")],
    "postgresql": [f"ALTER TABLE {name} DISABLE TRIGGER ALL"
                   for name in ("ledger_entries", "ledger_heads")],
}  # fmt: skip


def run(books, *statements: str) -> None:
    with books.factory.engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def disarm(books) -> None:
    run(books, *DISARM[books.factory.engine.dialect.name])


@pytest.fixture
def used(books):
    """Nine entries: open, then four jobs reserved, two posted, one voided, one amendment."""
    jobs = [books.reserve() for _ in range(4)]
    books.post(jobs[0])
    books.post(jobs[1])
    books.void(jobs[2])
    books.amend("grant", users=None)
    assert books.verify().ok
    assert books.verify().rows == 9
    return books


COMMON = (
    "UPDATE ledger_entries SET cost = '[]' WHERE seq = 2",
    "UPDATE ledger_entries SET seq = 99 WHERE seq = 2",
    "DELETE FROM ledger_entries WHERE seq = 9",
    "DELETE FROM ledger_entries",
    "DELETE FROM ledger_heads",
    "UPDATE ledger_heads SET posted = reserved",
    "UPDATE ledger_heads SET seq = seq + 2",
    "UPDATE ledger_heads SET seq = seq - 1",
)


@pytest.mark.longer
@pytest.mark.parametrize("statement", COMMON)
def test_the_database_refuses_to_change_the_ledger(used, statement):
    with pytest.raises(DBAPIError, match=r"immutable|stays|forward"):
        run(used, statement)
    assert used.verify().ok


@pytest.mark.parametrize("statement", ["TRUNCATE ledger_entries", "TRUNCATE ledger_heads CASCADE"])
def test_postgresql_refuses_to_truncate_the_ledger(used, statement):
    if used.factory.engine.dialect.name != "postgresql":
        pytest.skip("SQLite has no TRUNCATE")
    with pytest.raises(DBAPIError, match="immutable"):
        run(used, statement)


def test_sqlite_refuses_to_replace_an_entry(used):
    if used.factory.engine.dialect.name != "sqlite":
        pytest.skip("only SQLite has INSERT OR REPLACE")
    for table in ("ledger_entries", "ledger_heads"):
        with pytest.raises(DBAPIError, match=r"immutable|stays"):
            run(used, f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")


@pytest.mark.longer
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("kind", "'post'"),
        ("cost", '\'["1",null,"0"]\''),
        ("event_digest", "'0'"),
        ("event", "'{}'"),
        ("total", "'{}'"),
        ("details", '\'{"reason":"x"}\''),
        ("at", "'2020-01-01 00:00:00.000000'"),
        ("analyst_id", "NULL"),
        ("actor_id", "NULL"),
        ("hash", "previous"),
    ],
)
def test_a_changed_field_is_found(used, column, value):
    disarm(used)
    run(used, f"UPDATE ledger_entries SET {column} = {value} WHERE seq = 5")
    found = used.verify()
    assert not found.ok
    assert found.problem.startswith(("entry 5", "entry 6"))


@pytest.mark.longer
@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (["DELETE FROM ledger_entries WHERE seq = 4"], "entry 4: missing"),
        (["DELETE FROM ledger_entries WHERE seq = 9"], "the last entries are missing"),
        (["DELETE FROM ledger_entries WHERE seq > 6"], "the last entries are missing"),
        (["DELETE FROM ledger_entries"], "the last entries are missing"),
        (
            ["UPDATE ledger_entries SET seq = 99 WHERE seq = 3",
             "UPDATE ledger_entries SET seq = 3 WHERE seq = 4",
             "UPDATE ledger_entries SET seq = 4 WHERE seq = 99"],
            "entry 3: does not follow",
        ),
        (
            ["DELETE FROM ledger_entries WHERE seq = 3",
             "UPDATE ledger_entries SET seq = seq - 1 WHERE seq = 4"],
            "entry 3: does not follow",
        ),
        (["UPDATE ledger_heads SET reserved = posted"], "totals"),
        (["UPDATE ledger_heads SET jobs = 1"], "totals"),
        (["UPDATE ledger_heads SET status = 'archived'"], "totals"),
        (["UPDATE ledger_heads SET seq = 8"], "head was changed"),
    ],
)  # fmt: skip
def test_missing_moved_and_inserted_entries_and_a_changed_head_are_found(used, statements, problem):
    disarm(used)
    run(used, *statements)
    found = used.verify()
    assert not found.ok
    assert problem in found.problem


def test_a_higher_cap_in_the_head_is_found(used):
    disarm(used)
    run(used, "UPDATE ledger_heads SET terms = replace(terms, '1e-06', '1e-05')")
    assert not used.verify().ok


def rewrite(books, change) -> None:
    """Change the entries and make all hashes after it fit again, head included."""
    with books.factory.engine.begin() as connection:
        rows = connection.execute(select(ENTRIES).order_by(ENTRIES.c.seq)).mappings().all()
        previous = rows[0]["previous"]
        for row in rows:
            fields = {**row, "previous": previous, **change(row)}
            previous = fields["hash"] = entry_hash(fields)
            where = ENTRIES.c.seq == row["seq"]
            connection.execute(update(ENTRIES).where(where).values(fields))
        connection.execute(update(HEADS).values(hash=previous))


def test_a_rewritten_chain_with_a_cheaper_entry_is_found_by_its_totals(used):
    disarm(used)
    rewrite(used, lambda row: {"cost": '["1",null,"0"]'} if row["seq"] == 2 else {})
    assert "entry 2: wrong total" in used.verify().problem


def test_only_an_anchor_kept_elsewhere_finds_a_consistent_rewrite(used):
    before = used.balance()
    anchor = (before.seq, before.head)
    used.reserve()
    assert used.verify(anchor).ok
    disarm(used)
    rewrite(used, lambda row: {"actor_id": uuid4()} if row["seq"] == 5 else {})
    assert used.verify().ok, "no hash chain can find this by itself"
    assert "anchored" in used.verify(anchor).problem


def test_entries_cut_off_together_with_the_head_are_found_by_an_anchor(used):
    after = used.balance()
    disarm(used)
    run(used, "DELETE FROM ledger_entries WHERE seq = 9")
    with used.factory.engine.begin() as connection:
        last = connection.execute(text("SELECT hash FROM ledger_entries WHERE seq = 8")).scalar()
        connection.execute(text("UPDATE ledger_heads SET seq = 8, hash = :h"), {"h": last})
    assert used.verify().ok, "no hash chain can find this by itself"
    assert "anchored" in used.verify((after.seq, after.head)).problem


def test_entries_are_hashed_as_documented(used):
    from app.ledger.codec import HASHED_FIELDS, genesis

    with used.factory.engine.connect() as connection:
        rows = connection.execute(select(ENTRIES).order_by(ENTRIES.c.seq)).mappings().all()
    assert rows[0]["previous"] == genesis(used.dataset_id)
    assert set(HASHED_FIELDS) == set(rows[0]) - {"hash"}
    assert json.loads(rows[1]["event"])["kind"] == "repeat"


@pytest.fixture
def returned(books):
    """Entry 4 is what a job that stopped early gave back."""
    job = books.reserve()
    books.post(job)
    books.return_rest(job, Repeat(Gaussian(40.0), 30))
    assert books.verify().ok
    disarm(books)
    return books


@pytest.mark.parametrize(
    "drawn", [Repeat(Gaussian(40.0), 20), Repeat(Gaussian(80.0), 30), Repeat(Gaussian(40.0), 101)]
)
def test_a_return_of_another_event_is_found(returned, drawn):
    told = {"event": canonical(as_dict(drawn)), "event_digest": digest(drawn)}
    rewrite(returned, lambda row: told if row["seq"] == 4 else {})
    assert "entry 4: " in returned.verify().problem


def test_a_return_of_more_than_was_not_drawn_is_found(returned):
    more = str(10**28)
    rewrite(returned, lambda row: {"cost": f'["{more}","0","0"]'} if row["seq"] == 4 else {})
    assert "entry 4: returns something else" in returned.verify().problem


def test_a_second_return_is_refused_and_found(returned):
    copied = "INSERT INTO ledger_entries SELECT dataset_id, 5, at, kind, actor_id, job_id,"
    rest = " analyst_id, event, event_digest, cost, total, details, previous, hash"
    with pytest.raises(DBAPIError):
        run(returned, f"{copied}{rest} FROM ledger_entries WHERE seq = 4")
    run(returned, "DROP INDEX uq_ledger_entries_job_id_kind")
    run(returned, f"{copied}{rest} FROM ledger_entries WHERE seq = 4")
    with returned.factory.engine.begin() as connection:
        first = connection.execute(text("SELECT hash FROM ledger_entries WHERE seq = 4")).scalar()
        row = connection.execute(select(ENTRIES).where(ENTRIES.c.seq == 5)).mappings().one()
        made = entry_hash({**row, "previous": first})
        where = ENTRIES.c.seq == 5
        connection.execute(update(ENTRIES).where(where).values(previous=first, hash=made))
        connection.execute(update(HEADS).values(seq=5, hash=made))
    assert "entry 5: returns what was not debited" in returned.verify().problem

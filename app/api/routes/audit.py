"""The audit trail: what was done, by whom, and whether it is whole."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from app.api import anchors
from app.api.anchors import anchor_of
from app.api.auth import Admin, House, Overseer
from app.api.bodies import describe, read, read_any
from app.api.endpoints import Route
from app.api.paging import DEFAULT_LIMIT, Cursor, Limit
from app.api.schemas import (
    AuditOut,
    Listing,
    PlaceOut,
    RestoreIn,
    RestoreOut,
    RewoundOut,
    VerificationOut,
    VerifyIn,
)
from app.ledger.anchors import AUDIT
from app.ledger.audit import AuditEntry
from app.services.audit import trail
from app.services.budgets import rewind

router = APIRouter(prefix="/v1", tags=["audit"], route_class=Route)
OfAction = Annotated[
    str | None,
    Query(max_length=40, pattern=r"^[a-z._]+$", description="only acts of this kind"),
]
WHOLE = "No ledger is behind its anchor."


@router.get("/audit")
def entries(
    _: Overseer,
    services: House,
    action: OfAction = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> Listing[AuditOut]:
    """Every administrative act, oldest first, each hashed with the one before."""
    page = trail.entries(services, limit, cursor, action)
    return Listing(items=[_shown(entry) for entry in page.items], next_cursor=page.next_cursor)


def _shown(entry: AuditEntry) -> AuditOut:
    return AuditOut(
        seq=entry.seq,
        at=entry.at,
        action=entry.action,
        actor=entry.actor_id,
        key=entry.key_id,
        address=entry.address,
        subject=entry.subject_id,
        user=entry.user_id,
        details=entry.details,
        previous=entry.previous,
        hash=entry.hash,
    )


@router.post("/audit/verify", openapi_extra=describe(VerifyIn, required=False))
def verify(
    caller: Overseer,
    services: House,
    body: Annotated[VerifyIn | None, Depends(read_any(VerifyIn))],
) -> VerificationOut:
    """Recompute the trail, and hold it against an end that was kept elsewhere."""
    verification = trail.verify(services, caller, anchor_of(body))
    return anchors.shown(services, verification, AUDIT, body)


@router.get("/restore")
def restore(_: Overseer, services: House) -> RestoreOut:
    """Which ledgers are behind what was anchored outside of the database: it was put back."""
    return _restore(rewind.rewound(services))


@router.post("/restore", openapi_extra=describe(RestoreIn))
def accept(
    caller: Admin, services: House, body: Annotated[RestoreIn, Depends(read(RestoreIn))]
) -> RestoreOut:
    """Go on with a database that was put back, booking what its anchors say as spent."""
    return _restore(rewind.accept(services, caller, body.reason))


def _restore(restored: list[rewind.Rewound]) -> RestoreOut:
    items = [
        RewoundOut(
            ledger=None if ledger.anchor.ledger == AUDIT else ledger.anchor.ledger,
            datasets=list(ledger.datasets),
            anchor=PlaceOut(rows=ledger.anchor.seq, head=ledger.anchor.head),
            found=PlaceOut(rows=ledger.now.seq, head=ledger.now.head) if ledger.now else None,
        )
        for ledger in restored
    ]
    return RestoreOut(rewound=items, detail=rewind.REWOUND if items else WHOLE)

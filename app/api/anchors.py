"""Anchors (signed chain ends) in requests and responses."""

import hmac
from uuid import UUID

from app.api.schemas import AnchorOut, VerificationOut, VerifyIn
from app.ledger.anchors import AUDIT
from app.ledger.verify import Verification
from app.services.context import Services

UNSIGNED = "the anchor was not signed by this installation for this ledger"


def anchor_of(body: VerifyIn | None) -> tuple[int, str] | None:
    """Return the number of entries and the hash of an anchor in a request body."""
    return (body.anchor.rows, body.anchor.head) if body and body.anchor else None


def shown(
    services: Services, verification: Verification, ledger: UUID, body: VerifyIn | None
) -> VerificationOut:
    """Return a verification with its signed end; a wrong signature in the body is a fault."""
    sign = services.vault.anchors.signer.end
    ok, problem = verification.ok, verification.problem
    sent = body.anchor if body else None
    if sent and sent.signature:
        right = hmac.compare_digest(sent.signature, sign(ledger, sent.rows, sent.head))
        ok, problem = (ok, problem) if right else (False, problem or UNSIGNED)
    anchor = AnchorOut(
        ledger=None if ledger == AUDIT else ledger,
        rows=verification.rows,
        head=verification.head,
        signature=sign(ledger, verification.rows, verification.head),
    )
    return VerificationOut(
        ok=ok,
        rows=verification.rows,
        head=verification.head,
        problem=problem,
        anchor=anchor if ok else None,
    )

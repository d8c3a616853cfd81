"""An analyst's name and note of a job, which do not affect the job."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.services.accounts.access import own_job
from app.services.accounts.caller import Caller
from app.services.context import Services
from app.storage.rows import JobRow


@dataclass(frozen=True, slots=True)
class Label:
    """A job's name and note; None: it has none."""

    name: str | None = None
    note: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are set."""
        both = {"name": self.name, "note": self.note}
        return {member: text for member, text in both.items() if text is not None}


def rename(
    services: Services, caller: Caller, job_id: UUID, changes: dict[str, str | None]
) -> JobRow:
    """Change the name or note of the caller's job; None removes it.

    changes: by member of `Label`; what is not named stays. Raises Refusal 404.
    """
    with services.sessions.write() as session:
        job = own_job(session, caller, job_id)
        for member, text in changes.items():
            setattr(job, member, text)
        session.flush()
        session.refresh(job)
        return job

"""The filters of a list of jobs."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import exists, func, or_
from sqlalchemy.sql import ColumnElement

from app.services.accounts.access import open_to
from app.storage.named import columns_of_dataset, columns_of_task
from app.storage.rows import DatasetRow, JobRow


@dataclass(frozen=True, slots=True)
class Wanted:
    """Filters of a list of jobs. None: no filter.

    formula: a part of it, in either case. text: a part of what a list shows of a job: its name or
    note, its formula or that of the fit that it checks, the columns and kind of its task, its
    algorithm, or its dataset's name.
    """

    status: str | None = None
    dataset: UUID | None = None
    formula: str | None = None
    text: str | None = None

    def conditions(self, analyst: UUID) -> list[ColumnElement[bool]]:
        """Return the SQL conditions. analyst: the caller."""
        conditions: list[ColumnElement[bool]] = []
        if self.status is not None:
            conditions.append(JobRow.status == self.status)
        if self.dataset is not None:
            conditions.append(JobRow.dataset_id == self.dataset)
        if self.formula is not None:
            conditions.append(_FORMULA.icontains(self.formula, autoescape=True))
        if self.text is not None:
            conditions.append(_holds(self.text, analyst))
        return conditions


_FORMULA = JobRow.resolved["model"]["formula"].as_string()
_TASK = JobRow.resolved["task"]
_CHECKED = _TASK["model"]["formula"].as_string()
# their underscores are spaces in a page: both are found
_WORDS = (
    _TASK["kind"].as_string(),
    JobRow.resolved["sampler"]["algorithm"].as_string(),
    JobRow.resolved["inference"]["family"].as_string(),
)


def _holds(text: str, analyst: UUID) -> ColumnElement[bool]:
    """Return the condition that a job, or its visible dataset, is named by a text."""
    plain = text.replace("_", " ")
    every = (_TASK["kind"].as_string() == "synthetic") & _TASK["columns"].as_string().is_(None)
    of_all = every & columns_of_dataset(DatasetRow.columns).icontains(text, autoescape=True)
    named = DatasetRow.name.icontains(text, autoescape=True)
    return or_(
        *(part.icontains(text, autoescape=True) for part in (JobRow.name, JobRow.note, _FORMULA)),
        columns_of_task(JobRow.resolved).icontains(text, autoescape=True),
        _CHECKED.icontains(text, autoescape=True),
        *(func.replace(column, "_", " ").icontains(plain, autoescape=True) for column in _WORDS),
        exists().where(DatasetRow.id == JobRow.dataset_id, open_to(analyst), named | of_all),
    )

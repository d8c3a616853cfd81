"""?limit=&cursor= of every list."""

from typing import Annotated

from fastapi import Query

Limit = Annotated[int, Query(ge=1, le=500, description="items of a page")]
Cursor = Annotated[str | None, Query(max_length=500, description="next_cursor of the page before")]
DEFAULT_LIMIT = 100

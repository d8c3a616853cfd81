"""Who may use a dataset, and what each analyst may spend of it; the end of its rows. For admins."""

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from app.web.dataset_pages import Asked, show
from app.web.forms import NotReadError, number, problem_of, reason_of
from app.web.inside import Id, Json, RefusedError
from app.web.session import Signed, fields_of

OPENED = [
    "Every analyst may use it from now on, those who join later too. What they see meanwhile they"
    " have seen."
]
router = APIRouter(include_in_schema=False)


@router.post("/datasets/{id}/access", response_model=None)
async def access(request: Request, signed: Signed, id: Id) -> Response:
    """Write who may use a dataset and every changed cap into its ledger, all or none."""
    form = await fields_of(request)
    try:
        wanted = changes(form)
        if "grants" in wanted and wanted["grants"] is None:
            reason = reason_of(form)
            if reason is None:
                kept = {name: value for name, value in form.items() if name != "csrf"}
                asked = Asked(f"/datasets/{id}/access", OPENED, kept)
                return await show(request, signed, id, asked=asked)
            wanted["reason"] = reason
        if wanted:
            await signed.api.send("PATCH", f"/v1/datasets/{id}", json=wanted)
    except (NotReadError, RefusedError) as error:
        return await show(request, signed, id, 422, problem=problem_of(error))
    return RedirectResponse(f"/datasets/{id}", status_code=303)


def changes(form: dict[str, str]) -> Json:
    """Return what differs from what the form was made of. Raises NotReadError.

    Fields are may.ID, cap.ID and was.ID of each analyst, `open` for all of them, and `granted`:
    whom the form was made with, `all` or identifiers.
    """
    wanted: Json = {}
    chosen = sorted(name.removeprefix("may.") for name in form if name.startswith("may."))
    grants = "all" if form.get("open") == "true" else " ".join(chosen)
    if grants != form.get("granted", ""):
        wanted["grants"] = None if grants == "all" else chosen
    caps = {}
    for name in form:
        kind, _, analyst = name.partition(".")
        if kind == "cap" and form[name].strip() != form.get(f"was.{analyst}", ""):
            caps[analyst] = number(form, name, f"/allotments/{analyst}")
    return wanted | ({"allotments": caps} if caps else {})


@router.post("/datasets/{id}/destroy", response_model=None)
async def destroy(request: Request, signed: Signed, id: Id) -> Response:
    """Destroy the rows, where the dataset's name was typed; its ledger stays."""
    dataset, form = await signed.api.get(f"/v1/datasets/{id}"), await fields_of(request)
    try:
        if form.get("name", "") != dataset["name"]:
            raise NotReadError("/name", "type the dataset's name to destroy its rows")
        why = {"reason": reason_of({"reason": "", **form})}
        await signed.api.send("DELETE", f"/v1/datasets/{id}", params=why)
    except (NotReadError, RefusedError) as error:
        return await show(request, signed, id, 422, problem=problem_of(error))
    return RedirectResponse(f"/datasets/{id}", status_code=303)

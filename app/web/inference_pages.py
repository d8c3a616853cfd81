"""What follows from a released statistic: a family's number, under a prior that is typed."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from app.web.forms import NotReadError, number, problem_of
from app.web.inside import Id, Json, RefusedError
from app.web.session import Signed, fields_of
from app.web.shown import page

router = APIRouter(include_in_schema=False)
PRIORS = {  # what the two numbers of each are
    "uniform": ("lower", "upper"),
    "normal": ("loc", "scale"),
    "gamma": ("shape", "scale"),
    "inverse_gamma": ("shape", "scale"),
    "beta": ("a", "b"),
}


@router.post("/jobs/{id}/inference", response_class=HTMLResponse)
async def inference(request: Request, signed: Signed, id: Id) -> HTMLResponse:
    """The posterior of a family's number given what a job released: free."""
    values: Json = {}
    try:
        body = question(await fields_of(request))
        values["found"] = await signed.api.json("POST", f"/v1/jobs/{id}/inferences", json=body)
    except (NotReadError, RefusedError) as error:
        values["problem"] = problem_of(error)
    return page(request, "inference.html", signed, **values)


def question(form: dict[str, str]) -> Json:
    """Return the body of a question to a released statistic. Raises NotReadError."""
    kind = form.get("prior", "")
    if kind not in PRIORS:
        raise NotReadError("/prior", f"must be one of {', '.join(PRIORS)}")
    prior: Json = {"kind": kind}
    for field, name in zip(("first", "second"), PRIORS[kind], strict=True):
        if (value := number(form, field, f"/prior/{name}")) is None:
            raise NotReadError(f"/prior/{name}", "must be a number")
        prior[name] = value
    sd = number(form, "sd", "/options/sd")
    body: Json = {"family": form.get("family", ""), "prior": prior}
    body |= {} if sd is None else {"options": {"sd": sd}}
    algorithm = form.get("algorithm", "")
    return body | ({"algorithm": algorithm} if algorithm else {})

"""Signing in and out, the way in, and what a reader sees where something is refused."""

from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from app.web import session as sessions
from app.web.inside import RefusedError
from app.web.session import ForgedError, SignInNeededError
from app.web.shown import page

router = APIRouter(include_in_schema=False)


@router.get("/", response_model=None)
async def begin(request: Request) -> Response:
    """The first page of whoever is signed in; for others the one that asks for a key."""
    try:
        await sessions.signed_in(request)
    except SignInNeededError:
        return page(request, "login.html", None, then="/")
    return RedirectResponse("/datasets", status_code=303)


@router.get("/login", response_class=HTMLResponse)
async def login(request: Request, then: str = "/") -> HTMLResponse:
    """Ask for a key."""
    return page(request, "login.html", None, then=_ours(then))


@router.post("/login", response_model=None)
async def enter(request: Request) -> Response:
    """Sign in with the key that was pasted."""
    if not _from_here(request):
        raise ForgedError
    form = await sessions.fields_of(request)
    then = _ours(form.get("then", "/"))
    try:
        return await sessions.begin(request, form.get("key", "").strip(), then)
    except RefusedError as refused:
        message = str(refused)
        if refused.status == 401:
            message = "That key is not known here, or it has ended. Check it and paste it again."
        return page(request, "login.html", None, 401, then=then, problem=message)


@router.post("/logout", dependencies=[Depends(sessions.signed_in)])
async def leave(request: Request) -> RedirectResponse:
    """Sign out: the session's key is revoked."""
    return await sessions.end(request)


def _ours(then: str) -> str:
    """Return the address of a page of this service, and of no other."""
    parts = urlsplit(then)
    local = then.startswith("/") and not then.startswith(("//", "/\\")) and not parts.netloc
    return then if local and then.isprintable() else "/"


def _from_here(request: Request) -> bool:
    """Whether a form was sent by a page of ours, or by no browser."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


async def _sign_in(request: Request, error: SignInNeededError) -> Response:
    address = f"/login?then={quote(error.then, safe='')}"
    if request.headers.get("hx-request"):
        return Response(status_code=204, headers={"HX-Redirect": address})
    return RedirectResponse(address, status_code=303)


async def _forged(request: Request, _: ForgedError) -> Response:
    message = (
        "This form is not from a page of your present session. Go back, reload, and send again."
    )
    return page(request, "refused.html", None, 403, title="Not sent", told=message)


async def _refused(request: Request, error: RefusedError) -> Response:
    words = {404: "Nothing is here", 403: "Not for your role", 429: "Too many requests"}
    title = words.get(error.status, "The service said no")
    session = await sessions.whoever(request) if request.method == "GET" else None
    return page(request, "refused.html", session, error.status, title=title, told=str(error))


def install(app: FastAPI) -> None:
    """Answer with pages where pages are refused."""
    app.add_exception_handler(SignInNeededError, _sign_in)  # type: ignore[arg-type]
    app.add_exception_handler(ForgedError, _forged)  # type: ignore[arg-type]
    app.add_exception_handler(RefusedError, _refused)  # type: ignore[arg-type]

"""Signing in and out, the way in, and what a reader sees where something is refused."""

from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from app.web import session as sessions
from app.web.inside import Api, RefusedError
from app.web.session import ATTEMPT, LABEL, LASTS, ForgedError, SignInNeededError
from app.web.shown import page

router = APIRouter(include_in_schema=False)
MOST_ADDRESS = 64
AGAIN = "Begin again, and tell whoever runs this service if it happens twice."
REFUSALS = {  # why a sign-in at the provider came to nothing; its own words are shown nowhere
    "unavailable": (503, "The provider cannot be reached now. Try again in a moment."),
    "forged": (
        400,
        "This sign-in was not begun in this browser, was used already, or took more than ten"
        " minutes. Begin again.",
    ),
    "denied": (403, "You did not sign in at the provider, or it does not let you in here."),
    "provider": (502, f"The provider refused to sign you in. {AGAIN}"),
    "token": (403, f"What the provider gave is not valid for this service. {AGAIN}"),
    "role": (
        403,
        "The provider knows you, but your account has no role here. Ask whoever runs this service.",
    ),
    "disabled": (403, "Your user is disabled here. Ask an admin."),
    "keys": (
        409,
        "You may have no more keys and sessions. Sign out elsewhere, or revoke some keys.",
    ),
}


@router.get("/", response_model=None)
async def begin(request: Request) -> Response:
    """The first page of whoever is signed in; for others the one that asks for a key."""
    try:
        await sessions.signed_in(request)
    except SignInNeededError:
        return await _entrance(request, "/")
    return RedirectResponse("/datasets", status_code=303)


@router.get("/login", response_class=HTMLResponse)
async def login(request: Request, then: str = "/") -> HTMLResponse:
    """Ask for a key, or lead to the identity provider."""
    return await _entrance(request, _ours(then))


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
        return await _entrance(request, then, 401, problem=message)


@router.get("/session")
async def session(signed: sessions.Signed) -> JSONResponse:
    """Who is signed in, and the token of their forms: for a page that is older than the session."""
    who = {"user": signed.user["id"], "csrf": signed.csrf}
    return JSONResponse(who, headers={"Cache-Control": "no-store"})


@router.post("/logout", response_model=None, dependencies=[Depends(sessions.signed_in)])
async def leave(request: Request) -> Response:
    """Sign out: the session's key is revoked, and the provider's session ends where it has one.

    To the provider a page of ours leads: a form may be answered by no redirect to another site.
    """
    address = await sessions.end(request)
    answer: Response = RedirectResponse("/login", status_code=303)
    if address is not None:
        answer = page(request, "onwards.html", None, then=address, title="Signed out here")
    sessions.forget(answer)
    return answer


@router.get("/signin/oidc", response_model=None)
async def to_provider(request: Request, then: str = "/") -> Response:
    """Begin to sign in at the identity provider."""
    try:
        address, attempt = await _provider(request).begin(_ours(then))
    except Exception as error:
        return await _sign_in_refused(request, error, _ours(then))
    answer = RedirectResponse(address, status_code=303)
    sessions.keep_attempt(request, answer, attempt)
    return answer


@router.get("/signin/oidc/callback", response_model=None)
async def from_provider(request: Request) -> Response:
    """Sign in with what the provider sent this browser back with.

    The next page is asked for by a page of ours: with a redirect of another site's request the
    browser would not send the session's cookie (SameSite=Strict).
    """
    cookie, query = request.cookies.get(ATTEMPT, ""), request.query_params.multi_items()
    address = request.client.host[:MOST_ADDRESS] if request.client else None
    answer: Response
    try:
        made = await _provider(request).finish(cookie, query, address, LABEL, LASTS)
    except Exception as error:
        answer = await _sign_in_refused(request, error, "/")
    else:
        answer = page(request, "onwards.html", None, then=_ours(made.then), title="Signed in")
        sessions.keep(request, answer, str(made.key_id), made.key)
    sessions.forget_attempt(answer)
    return answer


@router.post("/signin/oidc/logout", response_model=None)
async def provider_ended(request: Request) -> Response:
    """End the sessions that the provider says have ended: its back-channel logout."""
    logout_token = (await sessions.fields_of(request)).get("logout_token", "")
    return Response(status_code=200 if await _provider(request).end(logout_token) else 400)


def _provider(request: Request) -> Any:
    """The way in by the identity provider. Raises RefusedError 404 where there is none."""
    provider = request.app.state.sign_in
    if provider is None:
        raise RefusedError(404, {"detail": "This service has no identity provider."})
    return provider


async def _entrance(request: Request, then: str, status: int = 200, **shown: str) -> HTMLResponse:
    """The page of signing in."""
    provider = (await Api(request, "").get("/v1/sign-in"))["provider"]
    known = {"then": then, "provider": provider if provider and provider["browser"] else None}
    return page(request, "login.html", None, status, **known, **shown)


async def _sign_in_refused(request: Request, error: Exception, then: str) -> HTMLResponse:
    """Return the sign-in page with why the provider refused. Raises any other error again."""
    status, refusal = REFUSALS.get(getattr(error, "why", ""), (0, ""))
    if not status:
        raise error
    return await _entrance(request, then, status, refusal=refusal)


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
    if request.headers.get("hx-request"):
        return Response(status_code=401)  # the page stays, with what was typed
    return RedirectResponse(f"/login?then={quote(error.then, safe='')}", status_code=303)


async def _forged(request: Request, _: ForgedError) -> Response:
    message = (
        "This form is not from a page of your present session. Go back, reload, and send again."
    )
    return page(request, "refused.html", None, 403, title="Not sent", told=message)


async def _refused(request: Request, error: RefusedError) -> Response:
    if error.status == 401 and request.method == "GET":
        # the session ended while the page was made: asked again, sign-in follows
        return RedirectResponse(sessions.address_of(request), status_code=303)
    words = {404: "Nothing is here", 403: "Not for your role", 429: "Too many requests"}
    title = words.get(error.status, "The service said no")
    session = await sessions.whoever(request) if request.method == "GET" else None
    return page(request, "refused.html", session, error.status, title=title, told=str(error))


def install(app: FastAPI) -> None:
    """Answer with pages where pages are refused."""
    app.add_exception_handler(SignInNeededError, _sign_in)  # type: ignore[arg-type]
    app.add_exception_handler(ForgedError, _forged)  # type: ignore[arg-type]
    app.add_exception_handler(RefusedError, _refused)  # type: ignore[arg-type]

"""How people may sign in, for programs that have not yet."""

from urllib.parse import urlsplit

from fastapi import APIRouter

from app.api.auth import House
from app.api.endpoints import Route
from app.api.schemas import ProviderOut, SignInOut

router = APIRouter(prefix="/v1", tags=["users"], route_class=Route)


@router.get("/sign-in")
async def sign_in(services: House) -> SignInOut:
    """How to sign in. Keys are always taken; for everybody, without a key."""
    chosen = services.settings
    if not chosen.oidc_issuer:
        return SignInOut(provider=None)
    browser = chosen.public_url.rstrip("/") + "/signin/oidc" if chosen.oidc_client_id else None
    return SignInOut(
        provider=ProviderOut(
            issuer=chosen.oidc_issuer,
            name=chosen.oidc_name or urlsplit(chosen.oidc_issuer).netloc,
            scopes=chosen.oidc_scopes,
            browser=browser,
            device_client_id=chosen.oidc_device_client_id or None,
        )
    )

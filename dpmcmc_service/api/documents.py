"""Answers that stay the same until they are made anew, with an ETag: a copy need not come again."""

from dataclasses import dataclass
from hashlib import blake2b

from fastapi import Request, Response

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Tagged:
    """A JSON document and its entity tag."""

    text: bytes
    tag: str

    def answer(self, request: Request) -> Response:
        """The document; 304 where the client has it already (RFC 9110, If-None-Match)."""
        known = request.headers.get("if-none-match", "")
        headers = {"ETag": self.tag, "Cache-Control": "private, no-cache", "Vary": "Authorization"}
        had = {one.strip().removeprefix("W/") for one in known.split(",")}
        if known.strip() == "*" or self.tag in had:
            return Response(status_code=304, headers=headers)
        return Response(self.text, media_type=JSON, headers=headers)


def tagged(text: bytes) -> Tagged:
    """A document with the tag that follows from its bytes."""
    return Tagged(text, f'"{blake2b(text, digest_size=16).hexdigest()}"')

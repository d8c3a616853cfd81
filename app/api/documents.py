"""ETags of JSON documents, so that clients need not download them again."""

from hashlib import blake2b

from fastapi import Request, Response
from starlette.responses import StreamingResponse

JSON = "application/json"
MOST_BYTES = 2**20  # that a tag is made of: the event loop makes it
MOST_TAGS = 100  # of an If-None-Match that are read


def tag_of(body: bytes | memoryview) -> str:
    """Return the ETag of a document."""
    return f'"{blake2b(body, digest_size=16).hexdigest()}"'


def unless_had(request: Request, answer: Response) -> Response:
    """Return the answer with its ETag, or 304 where the client has it (RFC 9110, 13.1.2)."""
    plain = answer.status_code == 200 and answer.media_type == JSON
    if request.method != "GET" or not plain or isinstance(answer, StreamingResponse):
        return answer
    if len(answer.body) > MOST_BYTES:
        return answer
    tag = tag_of(answer.body)
    answer.headers["ETag"] = tag
    given = request.headers.get("if-none-match", "")
    had = {tag.strip().removeprefix("W/") for tag in given.split(",", MOST_TAGS)[:MOST_TAGS]}
    if tag not in had and "*" not in had:
        return answer
    kept = {name: answer.headers[name] for name in ("etag", "vary") if name in answer.headers}
    return Response(status_code=304, headers=kept)

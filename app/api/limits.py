"""Rate limits and concurrency limits of users, and delays of refusals.

Counted by user and not by key: everybody may make further keys for himself. Requests are metered by
the generic cell rate algorithm (ITU-T I.371): of each user one moment is kept, the one at which all
that was asked for would have come at the allowed rate.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from app import logs
from app.services.errors import Refusal
from app.settings import Settings

WINDOW_SECONDS = 10.0
ALONE_SECONDS = 5.0  # that this process meters by itself after Redis was away
MOST_KEPT = 10_000
AT_ONCE = 30  # refusals of one caller in WINDOW_SECONDS that are answered at once
WAIT_SECONDS = 5.0  # that each further one waits
NOBODY = UUID(int=0)  # all callers without a key that works, as one
LEFT_AT_ONCE = 10  # requests that one caller may leave in WINDOW_SECONDS before his next ones wait
METER = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
local each, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local before = math.max(tonumber(redis.call('GET', KEYS[1]) or 0) - now, 0)
if before + each > most + 1e-6 then return {0, tostring(before)} end
redis.call('SET', KEYS[1], string.format('%.6f', now + before + each), 'PX', math.ceil(most * 1000))
return {1, tostring(before + each)}
"""


@dataclass(frozen=True, slots=True)
class Allowance:
    """The rate limiter's decision. ahead: seconds by which the user exceeds the rate."""

    allowed: bool
    limit: int
    ahead: float

    @property
    def each(self) -> float:
        """Return the seconds in which one request is earned."""
        return WINDOW_SECONDS / self.limit

    def headers(self) -> dict[str, str]:
        """Return the rate limit headers of an answer."""
        headers = {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(max(0, int((WINDOW_SECONDS - self.ahead) / self.each))),
            "RateLimit-Reset": str(math.ceil(self.ahead)),
            "RateLimit-Policy": f"{self.limit};w={WINDOW_SECONDS:.0f}",
        }
        if not self.allowed:
            until = self.ahead + self.each - WINDOW_SECONDS
            headers["Retry-After"] = str(max(1, math.ceil(until)))
        return headers


class Meter(Protocol):
    """Storage of users' request times."""

    def ask(self, user: UUID, each: float) -> tuple[bool, float]:
        """Count a request if allowed; return that, and the seconds ahead of the rate."""
        ...


class OwnMeter:
    """Request times in this process's memory."""

    def __init__(self) -> None:
        self._guard, self._until = threading.Lock(), dict[UUID, float]()

    def ask(self, user: UUID, each: float) -> tuple[bool, float]:
        """Count a request by this process's clock, see Meter."""
        now = time.monotonic()
        with self._guard:
            before = max(self._until.get(user, now) - now, 0.0)
            if before + each > WINDOW_SECONDS + 1e-6:
                return False, before
            if len(self._until) >= MOST_KEPT:
                self._until = {who: until for who, until in self._until.items() if until > now}
            self._until[user] = now + before + each
            return True, before + each


class AwayError(Exception):
    """Redis is unavailable."""


class SharedMeter:
    """Request times in Redis, shared by all processes. Raises AwayError."""

    def __init__(self, url: str) -> None:
        import redis  # with half of OpenTelemetry, which nobody needs without Redis

        self._away = redis.RedisError
        client = redis.Redis.from_url(url, socket_timeout=1.0, socket_connect_timeout=1.0)
        self._script = client.register_script(METER)

    def ask(self, user: UUID, each: float) -> tuple[bool, float]:
        """Count a request by the clock of Redis, see Meter."""
        try:
            allowed, ahead = self._script(keys=[f"dpmcmc:rate:{user}"], args=[each, WINDOW_SECONDS])
        except self._away as error:
            raise AwayError from error
        return bool(allowed), float(ahead)


class Rates:
    """The rate limiter: in Redis where that is the broker, else in this process."""

    def __init__(self, settings: Settings) -> None:
        self._limit = settings.rate_requests
        self._own: Meter = OwnMeter()
        shared = settings.broker.startswith(("redis://", "rediss://"))
        self._shared: Meter | None = SharedMeter(settings.broker) if shared else None
        self._alone_until = 0.0

    def ask(self, user: UUID) -> Allowance:
        """Count a request, if allowed."""
        each = WINDOW_SECONDS / self._limit
        if self._shared is not None and time.monotonic() >= self._alone_until:
            try:
                return self._allowance(*self._shared.ask(user, each))
            except AwayError as error:  # what meters must not stop the service
                self._alone_until = time.monotonic() + ALONE_SECONDS
                why = type(error.__cause__).__name__
                logs.logger().warning("rates_not_shared", exception=why)
        return self._allowance(*self._own.ask(user, each))

    def _allowance(self, allowed: bool, ahead: float) -> Allowance:
        """Return the decision for this request."""
        return Allowance(allowed, self._limit, ahead)


class Refusals:
    """Delays of refusals, which grow with their number.

    Making a refusal takes milliseconds of the event loop, and whoever is refused may ask again at
    once, on many connections. A caller who is refused all the time gets one answer in five seconds
    on each of them, so that others' requests do not wait behind his.
    """

    def __init__(self) -> None:
        self._meter = OwnMeter()

    def wait_seconds(self, user: UUID | None) -> float:
        """Return the seconds to delay a refusal. user None: unauthenticated."""
        allowed, _ = self._meter.ask(user or NOBODY, WINDOW_SECONDS / AT_ONCE)
        return 0.0 if allowed else WAIT_SECONDS


class Departures:
    """Delays of requests of callers who leave before the answer, which grow with their number.

    What was left is worked on until that is seen, and whoever leaves may ask again at once. Of a
    caller who does so all the time about one request a second is worked on. The others wait before
    anything is done for them, and most are left again meanwhile.
    """

    def __init__(self) -> None:
        self._users = dict[bytes, UUID]()  # by the hash of a key: before it is looked up
        self._until = dict[UUID, float]()  # as OwnMeter keeps it, and beyond the window

    def count(self, key: bytes, user: UUID) -> None:
        """Count a request that was left. key: the hash of the key that it came with."""
        now = time.monotonic()
        if len(self._users) >= MOST_KEPT:
            self._until = {who: until for who, until in self._until.items() if until > now}
            self._users = {of: who for of, who in self._users.items() if who in self._until}
        before = max(self._until.get(user, now), now)
        most = now + WINDOW_SECONDS + WAIT_SECONDS
        self._until[user] = min(before + WINDOW_SECONDS / LEFT_AT_ONCE, most)
        self._users[key] = user

    def wait_seconds(self, key: bytes) -> float:
        """Return the seconds to delay a request with this key before anything is done for it."""
        user = self._users.get(key)
        if user is None:
            return 0.0
        return max(0.0, self._until.get(user, 0.0) - time.monotonic() - WINDOW_SECONDS)


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource with limited concurrency. refused: makes the refusal; else_do: the advice."""

    name: str
    refused: Callable[[str], Refusal]
    else_do: str


class Places:
    """Slots of a limited resource in this process: for one user, and in total."""

    def __init__(self, kind: Kind, of_user: int, in_all: int) -> None:
        self._kind, self._of_user, self._in_all = kind, of_user, in_all
        self._guard, self._open = threading.Lock(), Counter[UUID]()

    def take(self, user: UUID) -> None:
        """Take a slot. Raises Refusal 429."""
        name, refused, else_do = self._kind.name, self._kind.refused, self._kind.else_do
        with self._guard:
            if self._open[user] >= self._of_user:
                message = f"You have {self._of_user} {name} open, as many as may be: {else_do}."
                raise refused(message)
            if self._open.total() >= self._in_all:
                raise refused(f"Too many {name} are open: {else_do}.")
            self._open[user] += 1

    def leave(self, user: UUID) -> None:
        """Release a slot."""
        with self._guard:
            self._open[user] -= 1
            if self._open[user] <= 0:
                del self._open[user]


def streams(settings: Settings) -> Places:
    """Return the slots of event streams."""
    kind = Kind(
        "event streams",
        lambda message: Refusal(429, "too_many_streams", message),
        "poll the job in their place",
    )
    return Places(kind, settings.max_streams_of_user, settings.max_streams)


def downloads(settings: Settings) -> Places:
    """Return the slots of large downloads, held until they were sent."""
    kind = Kind(
        "downloads",
        lambda message: Refusal(429, "too_many_downloads", message),
        "try again when some have ended",
    )
    return Places(kind, settings.max_downloads_of_user, settings.max_downloads)


def too_fast(allowance: Allowance) -> Refusal:
    """Return Refusal 429 for a caller over the rate limit."""
    often = f"{allowance.limit} requests in {WINDOW_SECONDS:.0f} seconds"
    return Refusal(429, "rate_limited", f"More than {often}; wait as Retry-After says.")

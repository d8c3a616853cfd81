"""How much one user may ask for: requests in a time, and event streams at once. How refusals wait.

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
    """Whether a request is allowed. ahead: seconds by which its user is ahead of the rate."""

    allowed: bool
    limit: int
    ahead: float

    @property
    def each(self) -> float:
        """Seconds in which one more request is earned."""
        return WINDOW_SECONDS / self.limit

    def headers(self) -> dict[str, str]:
        """What every answer tells."""
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
    """Where moments are kept."""

    def ask(self, user: UUID, each: float) -> tuple[bool, float]:
        """Take one request in, if it is allowed; says how far ahead its user is then."""
        ...


class OwnMeter:
    """Moments in this process's memory."""

    def __init__(self) -> None:
        self._guard, self._until = threading.Lock(), dict[UUID, float]()

    def ask(self, user: UUID, each: float) -> tuple[bool, float]:
        """Take one request in, by this process' clock."""
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
    """Redis does not answer."""


class SharedMeter:
    """Moments in Redis, for all processes, by its clock. Raises AwayError where it is away."""

    def __init__(self, url: str) -> None:
        import redis  # with half of OpenTelemetry, which nobody needs without Redis

        self._away = redis.RedisError
        client = redis.Redis.from_url(url, socket_timeout=1.0, socket_connect_timeout=1.0)
        self._script = client.register_script(METER)

    def ask(self, user: UUID, each: float) -> tuple[bool, float]:
        """Take one request in, by the clock of Redis."""
        try:
            allowed, ahead = self._script(keys=[f"dpmcmc:rate:{user}"], args=[each, WINDOW_SECONDS])
        except self._away as error:
            raise AwayError from error
        return bool(allowed), float(ahead)


class Rates:
    """Requests of each user, metered in Redis where that is the broker, else in this process."""

    def __init__(self, settings: Settings) -> None:
        self._limit = settings.rate_requests
        self._own: Meter = OwnMeter()
        shared = settings.broker.startswith(("redis://", "rediss://"))
        self._shared: Meter | None = SharedMeter(settings.broker) if shared else None
        self._alone_until = 0.0

    def ask(self, user: UUID) -> Allowance:
        """Take one request in, if it is allowed."""
        each = WINDOW_SECONDS / self._limit
        if self._shared is not None and time.monotonic() >= self._alone_until:
            try:
                return self._told(*self._shared.ask(user, each))
            except AwayError as error:  # what meters must not stop the service
                self._alone_until = time.monotonic() + ALONE_SECONDS
                why = type(error.__cause__).__name__
                logs.logger().warning("rates_not_shared", exception=why)
        return self._told(*self._own.ask(user, each))

    def _told(self, allowed: bool, ahead: float) -> Allowance:
        return Allowance(allowed, self._limit, ahead)


class Refusals:
    """How long refusals wait before they are sent.

    Making a refusal takes milliseconds of the event loop, and whoever is refused may ask again at
    once, on many connections. A caller who is refused all the time gets one answer in five seconds
    on each of them, so that others' requests do not wait behind his.
    """

    def __init__(self) -> None:
        self._meter = OwnMeter()

    def wait_seconds(self, user: UUID | None) -> float:
        """Seconds that a refusal of a user waits; None: of somebody without a key that works."""
        allowed, _ = self._meter.ask(user or NOBODY, WINDOW_SECONDS / AT_ONCE)
        return 0.0 if allowed else WAIT_SECONDS


@dataclass(frozen=True, slots=True)
class Kind:
    """What there may be only so much of at once. refused: of what is said; else_do: what to do."""

    name: str
    refused: Callable[[str], Refusal]
    else_do: str


class Places:
    """Places for something that takes long, in this process: of one user, and in all."""

    def __init__(self, kind: Kind, of_user: int, in_all: int) -> None:
        self._kind, self._of_user, self._in_all = kind, of_user, in_all
        self._guard, self._open = threading.Lock(), Counter[UUID]()

    def take(self, user: UUID) -> None:
        """Take a place. Raises Refusal 429."""
        name, refused, else_do = self._kind.name, self._kind.refused, self._kind.else_do
        with self._guard:
            if self._open[user] >= self._of_user:
                message = f"You have {self._of_user} {name} open, as many as may be: {else_do}."
                raise refused(message)
            if self._open.total() >= self._in_all:
                raise refused(f"Too many {name} are open: {else_do}.")
            self._open[user] += 1

    def leave(self, user: UUID) -> None:
        """Give a place back."""
        with self._guard:
            self._open[user] -= 1
            if self._open[user] <= 0:
                del self._open[user]


def streams(settings: Settings) -> Places:
    """Places for event streams."""
    kind = Kind(
        "event streams",
        lambda message: Refusal(429, "too_many_streams", message),
        "poll the job in their place",
    )
    return Places(kind, settings.max_streams_of_user, settings.max_streams)


def downloads(settings: Settings) -> Places:
    """Places for answers that may be large, from before they are made until they are taken."""
    kind = Kind(
        "downloads",
        lambda message: Refusal(429, "too_many_downloads", message),
        "try again when some have ended",
    )
    return Places(kind, settings.max_downloads_of_user, settings.max_downloads)


def too_fast(allowance: Allowance) -> Refusal:
    """429 for whoever asks more often than is allowed."""
    often = f"{allowance.limit} requests in {WINDOW_SECONDS:.0f} seconds"
    return Refusal(429, "rate_limited", f"More than {often}; wait as Retry-After says.")

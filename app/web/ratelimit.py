"""How often anybody may ask: per API key and per stranger's address; and how often a login may fail.

Failed logins are few for a name from one address, more for a name from everywhere and for an address: so a
stranger keeps nobody else from the login, and guessing is slow however it is spread.

Counted in windows of a minute that begin with somebody's first request, in this process or, where several
shall count together, by the `limits` package in a Redis or Valkey: the one named for it, or the broker if
there is more than one web process. Keys bound to a node are not limited: its heartbeats, polls and reports
are what restores live on.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv6Address, ip_address
from math import ceil
from typing import Final

from fastapi import Request
from limits import RateLimitItem, RateLimitItemPerMinute
from limits.errors import StorageError
from limits.storage import Storage, storage_from_string
from limits.strategies import FixedWindowRateLimiter

from app.config import Settings
from app.core.digest import sha256
from app.errors import TooManyRequests

WINDOW_S: Final = 60
# A household or a machine has a whole IPv6 /64.
_IPV6_PREFIX_BITS: Final = 64
log = logging.getLogger(__name__)


class Rate(StrEnum):
    """What is counted; the name stands in the RateLimit headers."""

    KEY = "key"
    STRANGER = "stranger"
    LOGIN = "login"
    LOGIN_NAME = "login-name"
    LOGIN_ADDRESS = "login-address"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where one counted party stands after a request."""

    rate: Rate
    quota: int
    remaining: int
    reset_s: int
    allowed: bool

    @property
    def headers(self) -> dict[str, str]:
        """RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers)."""
        return {
            "RateLimit-Policy": f'"{self.rate}";q={self.quota};w={WINDOW_S}',
            "RateLimit": f'"{self.rate}";r={self.remaining};t={self.reset_s}',
        }


class Windows:
    """Counters of this process.

    The memory storage of `limits` starts a thread with every request to forget what is over, which costs more
    than the counting; here the first request of a new window sees to that, once a minute.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[str, tuple[int, float]] = {}
        self._sweep_at = 0.0

    def count(self, key: str) -> tuple[int, float]:
        """Count one request: how many there are in its window, and when that ends (seconds since 1970)."""
        now = self._clock()
        with self._lock:
            found, ends = self._counts.get(key, (0, 0.0))
            if ends <= now:
                self._sweep(now)
                found, ends = 0, now + WINDOW_S
            self._counts[key] = found + 1, ends
        return found + 1, ends

    def clear(self, key: str) -> None:
        """Forget what was counted."""
        with self._lock:
            self._counts.pop(key, None)

    def take_back(self, key: str) -> None:
        """Uncount one request, if its window goes on."""
        with self._lock:
            found, ends = self._counts.get(key, (0, 0.0))
            if found:
                self._counts[key] = found - 1, ends

    def __len__(self) -> int:
        return len(self._counts)

    def _sweep(self, now: float) -> None:
        if now < self._sweep_at:
            return
        self._sweep_at = now + WINDOW_S
        self._counts = {key: held for key, held in self._counts.items() if held[1] > now}


class RateLimits:
    """The counters of one application."""

    def __init__(self, settings: Settings) -> None:
        quotas = {
            Rate.KEY: settings.rate_key_per_min,
            Rate.STRANGER: settings.rate_stranger_per_min,
            Rate.LOGIN: settings.rate_login_per_min,
            Rate.LOGIN_NAME: settings.rate_login_name_per_min,
            Rate.LOGIN_ADDRESS: settings.rate_login_address_per_min,
        }
        self._items = {rate: RateLimitItemPerMinute(quota) for rate, quota in quotas.items() if quota}
        storage = _storage(settings)
        self._windows = Windows()
        self._limiter = None if storage is None else FixedWindowRateLimiter(storage)

    @property
    def are_shared(self) -> bool:
        """Whether several processes count together, so that counting asks a server."""
        return self._limiter is not None

    def spend(self, rate: Rate, *, who: str) -> Standing | None:
        """Count one request of `who`; None where this rate is not limited.

        Raises:
            TooManyRequests: the quota of the last minute is spent.
        """
        item = self._items.get(rate)
        if item is None:
            return None
        standing = None
        with _unless_away():
            standing = self._counted(rate, item=item, who=who)
        if standing is not None and not standing.allowed:
            raise TooManyRequests(
                f"{rate}: expected at most {standing.quota} requests in {WINDOW_S} s, found more; "
                f"ask again in {standing.reset_s} s",
                headers={**standing.headers, "Retry-After": str(standing.reset_s)},
            )
        return standing

    def forgive(self, rate: Rate, *, who: str) -> None:
        """Forget what was counted of `who`: it has proved to be no guesser."""
        item = self._items.get(rate)
        if item is None:
            return
        if self._limiter is None:
            self._windows.clear(f"{rate}/{_key(who)}")
            return
        with _unless_away():
            self._limiter.clear(item, rate, _key(who))

    def take_back(self, rate: Rate, *, who: str) -> None:
        """Uncount one request of `who`; what others were counted for under the same name stays."""
        item = self._items.get(rate)
        if item is None:
            return
        if self._limiter is None:
            self._windows.take_back(f"{rate}/{_key(who)}")
            return
        with _unless_away():
            self._limiter.hit(item, rate, _key(who), cost=-1)

    def _counted(self, rate: Rate, *, item: RateLimitItem, who: str) -> Standing:
        if self._limiter is None:
            found, ends = self._windows.count(f"{rate}/{_key(who)}")
            allowed, remaining = found <= item.amount, item.amount - found
        else:
            allowed = self._limiter.hit(item, rate, _key(who))
            stats = self._limiter.get_window_stats(item, rate, _key(who))
            ends, remaining = stats.reset_time, stats.remaining
        reset_s = min(WINDOW_S, max(1, ceil(ends - time.time())))
        return Standing(
            rate=rate, quota=item.amount, remaining=max(0, remaining), reset_s=reset_s, allowed=allowed
        )


@contextmanager
def _unless_away() -> Iterator[None]:
    """A counter that is away must not take the control plane with it."""
    try:
        yield
    except StorageError as error:
        log.warning("rate limits: the storage does not answer: %s", type(error).__name__)


def client_address(request: Request) -> str:
    """Whom a request without a good key is counted for: its address, of IPv6 the first 64 bits."""
    host = request.client.host if request.client else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(int(address) >> (128 - _IPV6_PREFIX_BITS))
    return str(address)


def limits_of(request: Request) -> RateLimits:
    """The counters of the application that serves this request."""
    limits: RateLimits = request.app.state.rate_limits
    return limits


def _storage(settings: Settings) -> Storage | None:
    """Where several processes count together; None where this one counts for itself."""
    url = settings.rate_storage_url
    if url is None and settings.web_processes > 1:
        url = settings.broker_url
    if url is None:
        return None
    found = storage_from_string(url.get_secret_value(), wrap_exceptions=True)
    if not isinstance(found, Storage):
        raise ValueError("SPARKGATE_RATE_STORAGE_URL: expected a storage of the limits package, as redis://…")
    return found


def _key(who: str) -> str:
    """Of one length, however long a name somebody sends; no secret and no name stands in the storage."""
    return str(sha256(who.encode("utf-8", "surrogatepass")))[:32]

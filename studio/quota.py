"""What one owner may have of a studio that others use, too: requests at once, speech in an hour.

- A request is let in while its owner has speech left, and takes off what was spoken when it ends;
  what was too much has to be waited for.
- The speech that is left grows evenly, up to that of an hour.
- Bounded: of owners to whom all is open again nothing is kept.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice

from engine import OwnerShareUsed

HOUR_S = 3600.0
MAX_OWNERS = 10_000
# Of those who were away longest, so many are looked at each time.
NUM_LOOKED_AT = 8
# Where requests of one's own have to end first, nobody knows when; look again so soon.
RETRY_S = 2.0


class _Account:
    def __init__(self, now_s: float) -> None:
        self.num_running = 0
        self.spoken_s = 0.0  # not waited off yet, at ``seen_s``
        self.seen_s = now_s


class Place:
    """An owner's running request."""

    def __init__(self, quota: Quota, share: str) -> None:
        self._quota = quota
        self._share = share
        self._is_over = False

    def give_back(self, spoken_s: float = 0.0) -> None:
        """It ended after ``spoken_s`` of speech; only the first call counts."""
        if not self._is_over:
            self._is_over = True
            self._quota.settle(self._share, spoken_s)


class Quota:
    """The limits of every owner; 0 is no limit. Thread-safe."""

    def __init__(
        self,
        max_requests: int,
        max_audio_s_per_hour: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_requests = max_requests
        self._max_audio_s = max_audio_s_per_hour
        self._clock = clock
        self._lock = threading.Lock()
        self._accounts: OrderedDict[str, _Account] = OrderedDict()  # longest away first

    def check(self, share: str) -> None:
        """Raise ``OwnerShareUsed`` where ``take`` would."""
        with self._lock:
            self._check(share, self._account(share))

    def take(self, share: str) -> Place:
        """Let a request in; raises ``OwnerShareUsed`` with the honest wait."""
        with self._lock:
            account = self._account(share)
            self._check(share, account)
            account.num_running += 1
        return Place(self, share)

    def settle(self, share: str, spoken_s: float) -> None:
        """A request of ``share`` ended."""
        with self._lock:
            account = self._account(share)
            account.num_running = max(0, account.num_running - 1)
            if self._max_audio_s:
                account.spoken_s += spoken_s

    def _check(self, share: str, account: _Account) -> None:
        if self._max_requests and account.num_running >= self._max_requests:
            raise OwnerShareUsed(
                f"queue: {account.num_running} of your requests are running and the limit is"
                f" {self._max_requests}; let one of them end.",
                retry_after_s=RETRY_S,
            )
        if self._max_audio_s and account.spoken_s >= self._max_audio_s:
            excess_s = account.spoken_s - self._max_audio_s
            wait_s = math.floor(excess_s * HOUR_S / self._max_audio_s) + 1
            raise OwnerShareUsed(
                f"queue: your {self._max_audio_s / 60:.0f} minutes of speech an hour are used up;"
                f" try again in {wait_s} s.",
                retry_after_s=wait_s,
            )

    def _account(self, share: str) -> _Account:
        now_s = self._clock()
        account = self._accounts.pop(share, None) or _Account(now_s)
        self._forget_old(now_s)
        account.spoken_s = max(0.0, account.spoken_s - self._waited_off_s(account, now_s))
        account.seen_s = now_s
        self._accounts[share] = account
        return account

    def _waited_off_s(self, account: _Account, now_s: float) -> float:
        return (now_s - account.seen_s) * self._max_audio_s / HOUR_S

    def _forget_old(self, now_s: float) -> None:
        for share, account in list(islice(self._accounts.items(), NUM_LOOKED_AT)):
            if account.num_running:
                self._accounts.move_to_end(share)  # it is not away
                continue
            is_clear = account.spoken_s <= self._waited_off_s(account, now_s)
            if is_clear or len(self._accounts) > MAX_OWNERS:
                del self._accounts[share]

"""Requests at once and speech in an hour, on a clock of the test's own."""

import pytest

from engine import OwnerShareUsed
from studio import quota as quota_module
from studio.quota import Quota


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_without_limits_nothing_is_refused(clock: Clock):
    quota = Quota(0, 0, clock)
    for place in [quota.take("a") for _ in range(100)]:
        place.give_back(1e6)
    quota.check("a")


def test_requests_at_once_are_counted_by_owner_and_given_back_once(clock: Clock):
    quota = Quota(2, 0, clock)
    first, _ = quota.take("a"), quota.take("a")
    with pytest.raises(OwnerShareUsed, match=r"2 of your requests are running.*limit is 2"):
        quota.take("a")
    with pytest.raises(OwnerShareUsed):
        quota.check("a")
    quota.take("b")
    first.give_back()
    first.give_back()
    quota.take("a")
    with pytest.raises(OwnerShareUsed):
        quota.take("a")


def test_speech_beyond_the_hours_share_has_to_be_waited_for(clock: Clock):
    quota = Quota(0, 600.0, clock)
    quota.take("a").give_back(590.0)
    quota.take("a").give_back(70.0)  # let in while anything was left
    with pytest.raises(OwnerShareUsed, match="10 minutes of speech an hour") as caught:
        quota.take("a")
    assert caught.value.retry_after_s == 361  # 60 s too many, at 600 s an hour
    quota.take("b")
    clock.now_s += 359
    with pytest.raises(OwnerShareUsed):
        quota.check("a")
    clock.now_s += 2
    quota.check("a")
    clock.now_s += 2 * 3600
    quota.take("a").give_back(599.0)
    quota.check("a")  # more than an hour's is never saved up


def test_owners_who_are_clear_are_forgotten_and_their_number_is_bounded(clock: Clock, monkeypatch):
    monkeypatch.setattr(quota_module, "MAX_OWNERS", 50)
    quota = Quota(2, 600.0, clock)
    speaking = quota.take("speaking")
    for number in range(200):
        quota.take(f"visitor {number}").give_back(700.0)
    assert len(quota._accounts) <= 51
    clock.now_s += 3 * 3600
    for name in ["somebody", "somebody else"] * 6:
        quota.check(name)
    assert set(quota._accounts) == {"speaking", "somebody else"}
    speaking.give_back()

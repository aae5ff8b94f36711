"""Admission: bounds, turns between owners, places that come true."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import OwnerShareUsed, QueueFull
from engine.queue import AdmissionQueue


@dataclass(frozen=True, eq=False)
class Item:
    owner: str


def drain(queue: AdmissionQueue[Item]) -> list[Item]:
    taken = []
    while (item := queue.take()) is not None:
        taken.append(item)
    return taken


@given(st.lists(st.sampled_from("abcd"), max_size=40))
def test_everyone_is_taken_once_in_the_order_that_places_foretold(owners: list[str]) -> None:
    queue: AdmissionQueue[Item] = AdmissionQueue(100, 100)
    items = [Item(owner) for owner in owners]
    for item in items:
        queue.put(item, wait_s=1)
    foretold = {item: queue.num_ahead(item) for item in items}
    taken = drain(queue)
    assert [foretold[item] for item in taken] == list(range(len(items)))
    for owner in "abcd":
        mine = [item for item in items if item.owner == owner]
        assert [item for item in taken if item.owner == owner] == mine
    assert len(queue) == 0


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=30), st.data())
def test_no_owner_is_served_twice_while_another_waits(
    owners: list[str], data: st.DataObject
) -> None:
    queue: AdmissionQueue[Item] = AdmissionQueue(100, 100)
    items = [Item(owner) for owner in owners]
    for item in items:
        queue.put(item, wait_s=1)
    gone = data.draw(st.lists(st.sampled_from(items), unique_by=id, max_size=len(items)))
    for item in gone:
        assert queue.remove(item)
        assert not queue.remove(item)
        assert queue.num_ahead(item) is None
    taken = drain(queue)
    assert set(taken) == set(items) - set(gone)
    for place, (first, second) in enumerate(pairwise(taken)):
        if first.owner == second.owner:
            assert {item.owner for item in taken[place:]} == {first.owner}


def test_one_owner_cannot_take_every_place() -> None:
    queue: AdmissionQueue[Item] = AdmissionQueue(max_waiting=4, max_waiting_per_owner=2)
    for _ in range(2):
        queue.put(Item("greedy"), wait_s=3)
    with pytest.raises(OwnerShareUsed, match=r"limit is 2; try again in 3 s") as refused:
        queue.put(Item("greedy"), wait_s=3)
    assert refused.value.retry_after_s == 3
    for owner in ("second", "third"):
        queue.put(Item(owner), wait_s=3)
    with pytest.raises(QueueFull, match="all 4 places are taken") as full:
        queue.put(Item("fourth"), wait_s=5)
    assert not isinstance(full.value, OwnerShareUsed)
    assert len(queue) == 4

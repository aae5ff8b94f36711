"""Slots: who prefills, who decodes, who waits for a reader."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from engine.queue import AdmissionQueue
from engine.scheduler import Scheduler, affordable


@dataclass(eq=False)
class Job:
    owner: str = "o"
    slots: tuple[int, ...] = ()
    num_slots: int = 1
    needs_prefill: bool = True
    has_room: bool = True


def scheduler(num_slots: int) -> Scheduler[Job]:
    return Scheduler(num_slots, AdmissionQueue(1000, 1000))


def test_prompts_join_in_order_while_the_others_decode() -> None:
    subject = scheduler(3)
    jobs = [Job(), Job(), Job(), Job()]
    for job in jobs:
        subject.queue.put(job, wait_s=1)
    for index in range(3):
        step = subject.next_step()
        assert step.prefill == tuple(jobs[index:3])
        assert step.decode == tuple(jobs[:index])
        jobs[index].needs_prefill = False
    assert [job.slots for job in jobs] == [(0,), (1,), (2,), ()]
    assert not subject.next_step().prefill
    subject.release(jobs[1])
    step = subject.next_step()
    assert step.prefill == (jobs[3],) and jobs[3].slots == (1,)
    assert step.decode == (jobs[0], jobs[2])


def test_a_slot_whose_reader_is_behind_keeps_its_place_and_skips_steps() -> None:
    subject = scheduler(2)
    slow, quick = Job(needs_prefill=False, has_room=False), Job(needs_prefill=False)
    for job in (slow, quick):
        subject.queue.put(job, wait_s=1)
    assert subject.next_step().decode == (quick,)
    quick.has_room = False
    assert subject.next_step().is_idle
    slow.has_room = True
    assert subject.next_step().decode == (slow,)
    assert slow.slots == (0,)


@given(
    st.integers(1, 5),
    st.lists(st.sampled_from(["come", "twin comes", "step", "leave"]), max_size=60),
)
def test_slots_are_never_shared_nor_lost(num_slots: int, events: list[str]) -> None:
    subject = scheduler(num_slots)
    taken: list[int] = []
    for event in events:
        if event.endswith(("come", "comes")):
            lanes = 2 if event.startswith("twin") and num_slots > 1 else 1
            subject.queue.put(Job(num_slots=lanes), wait_s=1)
        elif event == "step":
            step = subject.next_step()
            for job in step.prefill[:1]:
                job.needs_prefill = False
        elif subject.live:
            leaving = subject.live[0]
            subject.release(leaving)
            subject.release(leaving)
        taken = [slot for job in subject.live for slot in job.slots]
        assert len(set(taken)) == len(taken) <= num_slots
        assert all(len(job.slots) == job.num_slots for job in subject.live)
    subject.next_step()
    num_taken = sum(len(job.slots) for job in subject.live)
    waiting = subject.queue.peek()
    assert waiting is None or waiting.num_slots > num_slots - num_taken


def test_a_request_with_a_twin_starts_only_when_both_lanes_are_free() -> None:
    subject = scheduler(3)
    first, second, paired = Job(), Job(), Job(num_slots=2)
    for job in (first, second, paired):
        subject.queue.put(job, wait_s=1)
    subject.next_step()
    assert subject.live == [first, second] and paired.slots == ()
    subject.release(first)
    subject.next_step()
    assert paired.slots == (0, 2)


@given(st.lists(st.integers(0, 400), max_size=20), st.integers(1, 1000))
def test_prompts_join_first_come_first_served_within_the_row_budget(
    rows: list[int], budget: int
) -> None:
    jobs = [Job() for _ in rows]
    rows_of = dict(zip(map(id, jobs), rows, strict=True))
    asked: list[Job] = []

    def num_rows(job: Job) -> int:
        asked.append(job)
        return rows_of[id(job)]

    taken, waiting = [], jobs
    while waiting:
        asked.clear()
        step = list(affordable(waiting, num_rows, budget))
        costs = [rows_of[id(job)] for job in step if rows_of[id(job)]]
        assert step and (sum(costs) <= budget or len(costs) == 1)
        following = waiting[len(step) :]
        if following:  # as many as fit, and nobody is planned long before its turn
            assert sum(costs) + rows_of[id(following[0])] > budget
            assert asked == [*step, following[0]]
        taken, waiting = taken + step, following
    assert taken == jobs

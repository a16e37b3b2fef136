"""A bounded sum."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from seat.budget import Budget
from seat.errors import QueueFull


def _budget() -> Budget:
    return Budget(10, lambda held: f"{held} things")


def test_what_is_drawn_comes_back() -> None:
    """Also where the request ends with an error."""
    budget = _budget()
    held: list[int] = []

    def request() -> None:
        with budget.share() as draw:
            draw(3)
            draw(4)
            held.append(budget.held)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        request()
    assert (held, budget.held) == ([7], 0)


def test_too_much_is_refused_and_not_drawn() -> None:
    """What was drawn before stays; the sentence tells what is held."""
    budget = _budget()
    with budget.share() as one, budget.share() as other:
        one(6)
        other(4)
        with pytest.raises(QueueFull, match="10 things") as caught:
            other(1)
        assert (budget.held, caught.value.retry_after_s) == (10, 5)
    assert budget.held == 0


def test_one_alone_may_hold_any_amount() -> None:
    """A limit below what one file needs must not make that file impossible."""
    budget = _budget()
    with budget.share() as draw:
        draw(8)
        draw(8)
        with budget.share() as other, pytest.raises(QueueFull):
            other(1)


def test_of_those_that_grow_together_the_first_goes_on() -> None:
    """Else two files that each need more than the limit would both be refused, and again when they come back."""
    budget = _budget()
    with budget.share() as one, budget.share() as other:
        one(5)
        other(5)
        with pytest.raises(QueueFull):
            other(1)
        one(6)
        assert budget.held == 16
    assert budget.held == 0


def test_threads_may_draw_at_once() -> None:
    """No amount gets lost, and none is drawn twice."""
    budget = Budget(10**9, str)

    def draw_some(_number: int) -> None:
        with budget.share() as draw:
            for _ in range(500):
                draw(1)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(draw_some, range(64)))
    assert budget.held == 0

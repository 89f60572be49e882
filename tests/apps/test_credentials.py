"""Credentials of several libraries in one site."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from tests.support.credentials import ORDERS, OURS, VIEWS
from tests.support.processes import run_python

SCHEMES = {OURS: "Bearer", "simplejwt": "Bearer", "oauth": "Bearer", "knox": "Token"}
SCHEMES |= {"basic": "Basic", "session": ""}


class Answer(NamedTuple):
    """An answer to a credential; ``user`` is None for an error and "" if anonymous."""

    order: tuple[str, ...]
    whose: str
    state: str
    view: str
    status: int
    user: str | None
    challenge: str | None

    @property
    def is_expected(self) -> bool:
        status, user = expected(self.order, self.whose, self.state)
        fits = (self.challenge is not None) is (status == 401)
        return (self.status, self.user) == (status, user) and fits


def expected(order: tuple[str, ...], whose: str, state: str) -> tuple[int, str | None]:
    """Return the status and the user for a credential; the tool is open to everybody."""
    if whose == "session":
        return expected_of_session(order, state)
    if whose == "nobody":
        return 200, ""
    if whose not in order:
        return 401, None
    if state == "without a user":
        return 200, ""
    return (200, "ada" if whose == OURS else "bob") if state == "valid" else (401, None)


def expected_of_session(order: tuple[str, ...], state: str) -> tuple[int, str | None]:
    if state == "invalid beside a token":
        # A class that refuses the request, not just the credential, ends authentication.
        known = [name for name in order if name in (OURS, "session")]
        return {OURS: (200, "ada"), "session": (403, None)}[known[0]] if known else (401, None)
    if "session" not in order or state == "unknown":
        return 200, ""
    return (200, "bob") if state == "valid" else (403, None)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    folder = tmp_path_factory.mktemp("site")
    rows: list[Any] = json.loads(
        run_python("-m", "tests.support.credentials", str(folder), timeout=300)
    )
    return [Answer(tuple(order), *rest) for order, *rest in rows]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("order", ORDERS, ids=", ".join)
@pytest.mark.alone
def test_credentials_work_in_any_class_order(
    answers: list[Answer], order: tuple[str, ...], view: str
) -> None:
    given = [each for each in answers if each.order == order and each.view == view]
    assert {each.whose for each in given} >= {"nobody", "foreign", *SCHEMES}
    assert [each for each in given if not each.is_expected] == []


def test_challenge_uses_the_scheme_of_the_request(answers: list[Answer]) -> None:
    refused = [each for each in answers if each.status == 401 and each.whose in each.order]
    assert {each.whose for each in refused} == SCHEMES.keys() - {"session"}
    for each in refused:
        assert each.challenge is not None
        assert each.challenge.split(" ")[0] == SCHEMES[each.whose], each


def test_bearer_challenge_has_one_invalid_token_error(answers: list[Answer]) -> None:
    bearer = [each for each in answers if (each.challenge or "").startswith("Bearer")]
    assert len(bearer) > 50
    assert [each for each in bearer if str(each.challenge).count("error=") != 1] == []

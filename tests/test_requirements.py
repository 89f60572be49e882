"""Every rule of the specification that applies has a test, and every test names a rule there is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.requirements import carried, counts, rules

APPLYING = {rule.id for rule in rules() if rule.applies}


def test_each_rule_that_applies_is_carried_by_a_test() -> None:
    assert APPLYING - set(carried()) == set()


def test_tests_carry_rules_that_exist_and_apply() -> None:
    unknown = {name: places for name, places in carried().items() if name not in APPLYING}
    assert unknown == {}


def test_a_rule_has_an_id_of_its_own_and_a_sentence() -> None:
    assert [name for name, times in Counter(each.id for each in rules()).items() if times > 1] == []
    assert [each.id for each in rules() if not each.text.endswith(".")] == []
    assert {each.level for each in rules()} <= {"MUST", "MUST NOT", "SHOULD"}


def test_the_page_has_the_counts() -> None:
    page = Path(__file__).parents[1] / "docs" / "project" / "reliability.md"
    assert counts() in page.read_text("utf-8")

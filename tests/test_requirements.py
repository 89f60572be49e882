"""Every applicable rule of the specification has a test, and tests name existing rules."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.requirements import carried, counts, rules

APPLYING = {rule.id for rule in rules() if rule.applies}


def test_each_applicable_rule_has_a_test() -> None:
    assert APPLYING - set(carried()) == set()


def test_rules_of_tests_exist_and_apply() -> None:
    unknown = {name: places for name, places in carried().items() if name not in APPLYING}
    assert unknown == {}


def test_rule_has_a_unique_id_and_a_sentence() -> None:
    assert [name for name, times in Counter(each.id for each in rules()).items() if times > 1] == []
    assert [each.id for each in rules() if not each.text.endswith(".")] == []
    assert {each.level for each in rules()} <= {"MUST", "MUST NOT", "SHOULD"}


def test_page_has_the_counts() -> None:
    page = Path(__file__).parents[1] / "docs" / "project" / "reliability.md"
    assert counts() in page.read_text("utf-8")

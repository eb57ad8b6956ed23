"""No rule changes behind its version: verdicts made with the old one would never be made again."""

import json

from tests.data import rule_sources
from tests.data.rule_sources import GOLDEN, behind_their_version, current, lines_that_count


def test_every_rule_is_the_one_its_version_names() -> None:
    before, now = json.loads(GOLDEN.read_text()), current()
    behind = behind_their_version(before, now=now)
    assert not behind, f"raise the version of {behind}, or see {rule_sources.__name__}"
    assert before == now, f"python -m {rule_sources.__name__}"


def test_a_changed_source_under_the_same_version_is_found() -> None:
    now = current()
    name = next(iter(now))
    changed = now | {name: now[name] | {"source": "0" * 64}}
    raised = now | {name: {"version": now[name]["version"] + 1, "source": "0" * 64}}
    assert behind_their_version(now, now=changed) == [name]
    assert behind_their_version(now, now=raised) == []


def test_words_about_a_rule_are_no_change_of_it() -> None:
    plain = "def f(x):\n    return x\n"
    told = '"""File."""\n\n# why\ndef f(x):\n    """Says more."""\n    # and more\n    return x\n'
    assert lines_that_count(plain) == lines_that_count(told)
    assert lines_that_count(plain) != lines_that_count(plain.replace("return x", "return not x"))

"""The rules that the head of a module states by name, and the tests of a test module that are named after them."""

import re


def untested_rules(module, tests):
    """The rules of `module` for which `tests` has no test `test_the_..._rule...`."""
    stated = re.findall(r"^- The (.+?) rule:", module.__doc__, re.MULTILINE)
    assert stated, f"{module.__name__} states no rule"
    prefixes = {f"test_the_{re.sub(r'[^a-z]+', '_', rule.lower())}_rule": rule for rule in stated}
    return [rule for prefix, rule in prefixes.items() if not any(name.startswith(prefix) for name in tests)]

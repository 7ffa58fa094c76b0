"""The lines of a config file: where a setting is written, and which key or setting is written twice."""

import ast
from collections.abc import Iterator, Sequence


def find_line(source: str, trait: str, path: Sequence[str] = ()) -> int | None:
    """Return the line where `c.<trait>` is set for the last time, or None if nothing in the source sets it.

    If `path` names keys inside the value, the line is that of the innermost key that is found. Returns None for a
    source that is not valid Python.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    wanted = trait.split(".")
    found = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _mentions(node, wanted)]
    if not found:
        return None
    statement: ast.AST = max(found, key=lambda node: node.lineno)
    line: int = statement.lineno  # type: ignore[attr-defined]
    for key in path:
        inner = _value_at(statement, key)
        if inner is None:
            break
        line, statement = inner
    return line


def _mentions(statement: ast.stmt, wanted: Sequence[str]) -> bool:
    """Return whether a simple statement names `<anything>.Section.trait`, or `.Section` if `wanted` has only that."""
    if isinstance(statement, ast.FunctionDef | ast.If | ast.For | ast.With | ast.Try | ast.While | ast.ClassDef):
        return False
    return any(_names(node)[: len(wanted)] == wanted for node in ast.walk(statement) if isinstance(node, ast.Attribute))


def _names(node: ast.Attribute) -> list[str]:
    """Return the attribute names, such as ["FixedQuota", "users"] for `c.FixedQuota.users`.

    Returns [] if the expression does not start with a plain name.
    """
    names: list[str] = []
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        names.append(inner.attr)
        inner = inner.value
    return names[::-1] if isinstance(inner, ast.Name) else []


def _value_at(within: ast.AST, key: str) -> tuple[int, ast.AST] | None:
    """Return the line and value of `key` in the first dict or keyword argument inside `within` that has it.

    Returns None if there is none.
    """
    for node in ast.walk(within):
        if isinstance(node, ast.Dict):
            for name, value in zip(node.keys, node.values, strict=True):
                if isinstance(name, ast.Constant) and name.value == key:
                    return name.lineno, value
        if isinstance(node, ast.keyword) and node.arg == key:
            return node.value.lineno, node.value
    return None


def find_duplicates(source: str) -> list[str]:
    """Return a sentence for each key that a dict has twice, and for each setting or entry that two plain lines set.

    Python uses the last one and says nothing. The list is empty for a source that is not valid Python.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    found = sorted([*_repeated_keys(tree), *_repeated_settings(tree), *_repeated_entries(tree)])
    return [
        f"line {line}: {what} is written in line {first} too. Only the last one counts." for line, first, what in found
    ]


def _repeated_keys(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    """Yield each key that a dict repeats: its line, the line of the key before it, and a phrase that names it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            names = [(key.value, key.lineno) for key in node.keys if isinstance(key, ast.Constant)]
            yield from ((line, first, f"the key {name!r}") for line, first, name in _repeated(names))


def _repeated_settings(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    """Yield each setting that the top level of the file assigns again, such as "c.FixedQuota.users".

    An entry is the line of the repetition, the line of the assignment before it, and the name of the setting.
    """
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    names = [(".".join(_names(each)), each.lineno) for each in targets if isinstance(each, ast.Attribute)]
    yield from ((line, first, f"c.{name}") for line, first, name in _repeated([pair for pair in names if pair[0]]))


def _repeated_entries(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    """Yield each entry of a setting that the top level of the file assigns again, such as "c.FixedQuota.users['ann']".

    An entry is written by a line of its own, or with all others of its setting. The result is like that of
    `_repeated_settings`.
    """
    seen: dict[str, int] = {}
    assignments = [node for node in tree.body if isinstance(node, ast.Assign)]
    for node in assignments:
        for target in node.targets:
            name = _entry_name(target)
            if name and isinstance(target, ast.Attribute):
                # The line removes all earlier entries, and is a repetition itself if there were any.
                seen = {entry: line for entry, line in seen.items() if not entry.startswith(f"{name}[")}
                seen.update(_entries_of(name, node.value))
            elif name:
                if name in seen:
                    yield target.lineno, seen[name], f"c.{name}"
                seen[name] = target.lineno


def _entry_name(target: ast.expr) -> str:
    """Return a setting or an entry such as "FixedQuota.users['ann']"; "" for anything else, or if a key is computed."""
    if isinstance(target, ast.Attribute):
        names = _names(target)
        return ".".join(names) if names and names[0][:1].isupper() else ""
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        inner = _entry_name(target.value)
        return inner and f"{inner}[{target.slice.value!r}]"
    return ""


def _entries_of(name: str, value: ast.expr) -> Iterator[tuple[str, int]]:
    """Yield the name and the line of each entry that a dict gives to the setting `name`."""
    for key in value.keys if isinstance(value, ast.Dict) else ():
        if isinstance(key, ast.Constant):
            yield f"{name}[{key.value!r}]", key.lineno


def _repeated(names: Sequence[tuple[object, int]]) -> Iterator[tuple[int, int, object]]:
    """Yield each repetition of a name: its line, the line of the name before it, and the name."""
    seen: dict[object, int] = {}
    for name, line in names:
        if name in seen:
            yield line, seen[name], name
        seen[name] = line

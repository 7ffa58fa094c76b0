"""The changes of databases that calls make: by the names of methods, and by the statements of SQL that these run.

Rules
-----
- A statement counts by its first words: `drop > 5` and `update and x` in `df.query(...)` are no SQL.
- What lives in memory, such as the tables of `sqlite3.connect(":memory:")` and `duckdb.sql`, is no database. If cells
  open such ones only, neither are those whose connection is not known.
"""

import ast
import re
from collections.abc import Iterator
from typing import Literal

from jupyter_gq.lab.reading.call_parts import get_argument, get_method, get_receiver, list_receivers
from jupyter_gq.lab.reading.full_names import Names, read_text

Kind = Literal["writes_files", "writes_database"]

#: Methods that change a database, whatever their arguments are.
_DATABASE_METHODS = frozenset(
    {
        *("to_sql", "to_gbq", "insert_one", "insert_many", "update_one", "update_many", "replace_one"),
        *(
            "delete_one",
            "delete_many",
            "bulk_write",
            "write_database",
            "bulk_create",
            "bulk_update",
            "bulk_save_objects",
        ),
        *("bulk_insert_mappings", "upsert", "saveAsTable", "insertInto"),
    }
)
#: Methods that run a statement of SQL.
_SQL_METHODS = frozenset({"execute", "executemany", "executescript", "exec_driver_sql", "sql", "query"})
_SQL_COMMENTS = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*(?:(?!\*/).)*\*/)*", re.DOTALL)
_THINGS = (
    "table|view|index|schema|database|sequence|type|function|procedure|trigger|column|user|role|extension|macro|catalog"
)
#: Statements that change a database. The text ends early if a value is put into it, as with `f"update {table} ..."`.
_SQL_WRITES = re.compile(
    r"(?:with\b.{0,10000}?\)\s*)?(?:"
    r"insert\s+(?:or\s+\w+\s+)?(?:into|overwrite|ignore)\b|insert\s+\S+\s+(?:values|select)\b|replace\s+into\b|merge\s+into\b|delete\s+(?:\S+\s+)?(?:from|where)\b"
    r"|update\s+(?:or\s+\w+\s+|only\s+)?\S+\s+(?:(?:as\s+)?\w+\s+)?set\b|truncate\s+(?:table\b|[\w\"`\[])|vacuum\b\s*(?:\w|;|$)"
    rf"|(?:drop|alter|create(?:\s+or\s+replace)?)\s+(?:(?:unique|materialized|external|foreign|virtual)\s+)?(?:{_THINGS})\b"
    r"|(?:insert|update|delete|replace|drop|alter|truncate|merge|create)\s+$)",
    re.IGNORECASE | re.DOTALL,
)
#: After such a statement, says that it changes nothing the second time.
_SQL_ONCE = re.compile(r"\bif\s+not\s+exists\b", re.IGNORECASE)
#: Statements that write files: COPY ... TO and EXPORT DATABASE. COPY ... FROM fills a table.
_SQL_EXPORTS = re.compile(r"copy\b.{0,10000}?\bto\s+'([^']*)|export\s+database\s+'([^']*)", re.IGNORECASE | re.DOTALL)
_SQL_LOADS = re.compile(r"copy\b.{0,10000}?\bfrom\b", re.IGNORECASE | re.DOTALL)
#: Functions and methods that make a statement which changes a table.
_SQL_CHANGES = frozenset({"insert", "update", "delete"})


def find_changes(call: ast.Call, names: Names) -> Iterator[tuple[Kind, str]]:
    """Yield the kind of each change by a call, and the path of a file that SQL writes; "" for a database."""
    method = get_method(call)
    if method in _DATABASE_METHODS or (method == "commit" and not call.args and not call.keywords):
        changes: list[tuple[Kind, str]] = [("writes_database", "")]
    elif method in _SQL_METHODS:
        statement = get_argument(call, 0)
        changes = [*judge_sql(read_text(statement))]
        if isinstance(statement, ast.Call) and _changes_table(statement, names):
            changes.append(("writes_database", ""))
    else:
        return
    yield from (each for each in changes if each[0] == "writes_files" or not _is_in_memory(call, names))


def judge_sql(statement: str) -> Iterator[tuple[Kind, str]]:
    """Yield the kind of each change by a statement of SQL, and the path of a written file; "" for a database."""
    begun = _SQL_COMMENTS.match(statement)
    bare = statement[begun.end() :] if begun else statement
    exported = _SQL_EXPORTS.match(bare)
    if exported:
        yield "writes_files", exported[1] or exported[2] or ""
    elif _writes_database(bare) or _SQL_LOADS.match(bare):
        yield "writes_database", ""


def _writes_database(statement: str) -> bool:
    writes = _SQL_WRITES.match(statement)
    return writes is not None and _SQL_ONCE.search(statement, writes.end()) is None


def _is_in_memory(call: ast.Call, names: Names) -> bool:
    """Return whether a call changes a database in memory only."""
    given = [get_receiver(call), *call.args, *(keyword.value for keyword in call.keywords)]
    return names.spell(call.func).startswith("duckdb.") or names.are_in_memory([each for each in given if each])


def _changes_table(statement: ast.Call, names: Names) -> bool:
    """Return whether an expression is built to change a table: `insert(table).values(x=1)`, `table.update()`.

    Methods of dicts and lists with these names have arguments.
    """
    calls = (each for each in (statement, *list_receivers(statement)) if isinstance(each, ast.Call))
    return any(_is_change(each, names) for each in calls)


def _is_change(call: ast.Call, names: Names) -> bool:
    name = names.spell(call.func)
    if get_method(call) in _SQL_CHANGES and not name.startswith("sqlalchemy."):
        return not call.args and not call.keywords
    return name.rpartition(".")[2] in _SQL_CHANGES

"""What is wrong with a request is said in plain words, not in those of the library that checks it."""

import pytest
from pydantic import BaseModel, Field, ValidationError

from jupyter_gq.client.model_errors import describe_errors


class Order(BaseModel):
    count: int = 1
    share: float = 0.5
    urgent: bool = False
    names: list[str] = Field(default=[], max_length=2)
    note: str = ""
    amount: int | str = 1


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("count", "x", 'a whole number was expected, not "x"'),
        ("count", 1.5, "a whole number was expected, not 1.5"),
        ("count", [], "a whole number was expected, not an empty list"),
        ("share", "half", 'a number was expected, not "half"'),
        ("urgent", "soon", 'true or false was expected, not "soon"'),
        ("names", 5, "a list was expected, not 5"),
        ("names", ["a", "b", "c"], "at most 2 entries are possible, not a list of 3"),
        ("note", 4, "text was expected, not 4"),
        ("amount", [], "text or a number was expected, not an empty list"),
    ],
)
def test_a_wrong_value_is_told_with_what_was_expected(field, value, told):
    with pytest.raises(ValidationError) as refused:
        Order(**{field: value})
    assert describe_errors(refused.value) == {field: told}

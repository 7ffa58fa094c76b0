"""Types of JSON documents, and the one place that says what a value inside of them may be.

Such a document comes from, or goes to, somebody whose format is not ours: notebooks (nbformat), Jupyter messages,
Kubernetes objects, answers of the Hub, dictionaries of a configuration. The values are `Any`: a reader checks them,
or trusts the format. What is ours has a dataclass or a model.
"""

from collections.abc import Mapping
from typing import Any

#: A JSON value: object, list, text, number, True, False or None.
JsonValue = Any
#: A JSON object.
JsonObject = dict[str, Any]
#: A JSON object that is only read.
JsonMapping = Mapping[str, Any]

"""A parsed JSON file whose every part knows where it stands, so that an error can name the file and the field.

Invariant: a value that comes out has the type that was asked for; anything else is a ValueError that says what was met
and what was expected.

    >>> node = Node({"model": {"type": "BPE"}}, "tokenizer.json")
    >>> node.node("model").text("type")
    'BPE'
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

KINDS = {str: "a text", bool: "true or false", int: "a whole number", dict: "an object", list: "a list"}
MOST_SHOWN = 60
REQUIRED: Any = object()


class Node:
    """A value of a JSON file, with the name of the file and the path of fields that leads to it."""

    def __init__(self, value: Any, file: str, path: str = "") -> None:
        self.value, self.file, self.path = value, file, path

    def refused(self, why: str) -> ValueError:
        """Make the error that says why this value is refused."""
        return ValueError(f"{self.file}: {self.path or 'the whole file'}: {why}")

    def node(self, key: str, default: Any = REQUIRED) -> Node:
        """Give a field of an object; a field that is missing has the default, if there is one."""
        fields: dict[str, Any] = self.of(dict)
        path = f"{self.path}.{key}" if self.path else key
        if key not in fields and default is REQUIRED:
            raise Node(None, self.file, path).refused("the field is missing")
        return Node(fields.get(key, default), self.file, path)

    def of(self, kind: type) -> Any:
        """Give the value, which must be of this type (true and false are no numbers)."""
        if not isinstance(self.value, kind) or (kind is int and isinstance(self.value, bool)):
            raise self.refused(f"{self.shown()} was met, and {KINDS[kind]} was expected")
        return self.value

    def text(self, key: str, default: Any = REQUIRED) -> str:
        """Give a field that is a text."""
        found: str = self.node(key, default).of(str)
        return found

    def flag(self, key: str, default: Any = REQUIRED) -> bool:
        """Give a field that is true or false; null is the default, too."""
        node = self.node(key, default)
        found: bool = default if node.value is None and default is not REQUIRED else node.of(bool)
        return found

    def number(self, key: str, default: Any = REQUIRED) -> int:
        """Give a field that is a whole number."""
        found: int = self.node(key, default).of(int)
        return found

    def items(self) -> Iterator[Node]:
        """Give the members of a list."""
        return (Node(item, self.file, f"{self.path}[{index}]") for index, item in enumerate(self.of(list)))

    def shown(self) -> str:
        """Give the value in a short form for an error."""
        return shown(self.value)


def shown(value: Any) -> str:
    """Give a value in a short form for an error."""
    words = repr(value)
    return words if len(words) <= MOST_SHOWN else f"{words[:MOST_SHOWN]}..."

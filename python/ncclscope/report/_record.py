"""What all objects of a report have in common."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, ClassVar


class Record:
    """An object of a report. Its fields are attributes; :meth:`to_dict` gives it as plain dicts and lists."""

    _parts: ClassVar[dict[str, type[Record]]] = {}
    """Fields that hold records, or lists of them."""

    __slots__ = ("_plain",)

    def __init__(self, plain: dict[str, Any]) -> None:
        self._plain = plain

    def to_dict(self) -> dict[str, Any]:
        """As in ``ncclscope report --json``."""
        return self._plain

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name.startswith("_") or name not in self._plain:
                raise AttributeError(f"{type(self).__name__} has no field {name!r}; it has {', '.join(self)}")
            value = self._plain[name]
            part = self._parts.get(name)
            if part is None or value is None:
                return value
            return [part(each) for each in value] if isinstance(value, list) else part(value)

    def __iter__(self) -> Iterator[str]:
        """The names of its fields."""
        return iter(self._plain)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._plain]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._plain == other._plain

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self)
        return f"{type(self).__name__}({fields})"

"""What `Settings` is made of: attributes that have a kind, a default and a description, checked when given.

Python's own means do: pydantic, which was here before, was a third of the CPU time of a start, and all that it had
to do was to call the kinds. Nothing here knows what a setting is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, dataclass_transform

from coordinator.settings.types import Kind


class FieldInfo(NamedTuple):
    """One attribute: its default, what people read about it, and the values that it may have."""

    default: Any
    description: str
    kind: Kind


class _Declared(NamedTuple):
    default: Any
    description: str


def Field(default: Any, *, description: str) -> Any:
    """Declare an attribute of a subclass of `Fields`; its annotation is `Annotated[type, kind]`."""
    return _Declared(default, description)


class WrongValues(ValueError):
    """Raised for values that their kinds refuse; `allowed` says in words what would do, by attribute, in order."""

    def __init__(self, allowed: Mapping[str, str]) -> None:
        self.allowed = dict(allowed)
        super().__init__("\n".join(f"{name} must be {words}" for name, words in self.allowed.items()))


# Without `field_specifiers`: so `Field(...)` counts as any default, and every attribute may be left out.
@dataclass_transform(kw_only_default=True, frozen_default=True)
class Fields:
    """Base class of immutable objects whose attributes are declared by `Field`.

    The constructor raises WrongValues for values that are refused, TypeError for names that no attribute has.
    A subclass must be in a module that evaluates its annotations.
    """

    model_fields: ClassVar[Mapping[str, FieldInfo]] = {}

    def __init_subclass__(cls) -> None:
        fields = {}
        for name, annotation in cls.__annotations__.items():
            (kind,) = annotation.__metadata__
            default, description = cls.__dict__[name]
            fields[name] = FieldInfo(default, description, kind)
            setattr(cls, name, default)  # What an instance does not have was not given.
        cls.model_fields = fields

    def __init__(self, **given: Any) -> None:
        if unknown := given.keys() - self.model_fields.keys():
            raise TypeError(f"no such settings: {', '.join(sorted(unknown))}")
        given = self._with_older_names(given)
        values: dict[str, Any] = {}
        wrong: dict[str, str] = {}
        for name, field in self.model_fields.items():
            if name in given:
                try:
                    values[name] = field.kind.parse(given[name])
                except ValueError as error:
                    wrong[name] = str(error)
        if wrong:
            raise WrongValues(wrong)
        vars(self).update(values)
        self._check_together()

    @classmethod
    def model_validate(cls, given: Mapping[str, Any]) -> Self:
        """Return an object with these values, by attribute. Raises as the constructor does."""
        return cls(**given)

    def model_copy(self, update: Mapping[str, Any]) -> Self:
        """Return a copy with other values for some attributes, which are not checked."""
        copy = object.__new__(type(self))
        vars(copy).update({**vars(self), **update})
        return copy

    @property
    def model_fields_set(self) -> Set[str]:
        """The names of the attributes that were given, as opposed to defaults."""
        return vars(self).keys()

    def _with_older_names(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return `given`, with what was given under an older name under the present one, too."""
        return given

    def _check_together(self) -> None:
        """Raise ValueError for values that do not fit together."""

    def __eq__(self, other: object) -> bool:
        """Whether all values are the same, given or not."""
        if not isinstance(other, Fields) or type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.model_fields)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name} cannot be changed")

"""The orders in which a broker walks its hash tables, on which targets depend (A32, A33).

Members in another order get another target, just as balanced, so that what is to be equal to Kafka's has to walk
as Kafka does. Modelled are `java.util.HashMap` of OpenJDK 17, with its bucket lists but without the trees that
it makes of eight keys that collide, and the broker's own table of a group's members. Only orders are kept here,
no values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, Generic, Self, TypeVar

from coordinator.groups.partitioning import java_hash

K = TypeVar("K", bound=Hashable)

DEFAULT_CAPACITY: Final = 16
_UINT32: Final = 0xFFFFFFFF
_UINT64: Final = 0xFFFFFFFFFFFFFFFF
_TIMELINE_FACTOR: Final = -7046029254386353131 & _UINT64


def string_hash(text: str) -> int:
    """`String.hashCode`, as an unsigned 32-bit number."""
    return java_hash(text) & _UINT32


def uuid_hash(uuid: bytes) -> int:
    """`Uuid.hashCode` of 16 bytes, most significant first, as an unsigned 32-bit number."""
    mixed = int.from_bytes(uuid[:8]) ^ int.from_bytes(uuid[8:])
    return (mixed >> 32) ^ (mixed & _UINT32)


def int_hash(number: int) -> int:
    """`Integer.hashCode` of a number that is not negative."""
    return number


def java_sorted(texts: Iterable[str]) -> list[str]:
    """Sort texts as Java does, by their UTF-16 units. In ASCII, as most are, that is Python's order too."""
    texts = list(texts)
    return sorted(texts) if "".join(texts).isascii() else sorted(texts, key=utf16_units)


def utf16_units(text: str) -> bytes:
    """The UTF-16 units of a text, by which Java compares."""
    return text.encode("utf-16-be", "surrogatepass")


def capacity_for(asked: int) -> int:
    """Return the capacity that a HashMap has which is made for `asked`: the next power of two, at least 1."""
    return 1 << max(asked - 1, 0).bit_length()


class JavaTable(Generic[K]):
    """The keys of a HashMap or HashSet, in its order: buckets ascending, in each bucket as they came.

    A key that `compute_if_absent` makes goes to the front of its bucket, one that `put` makes to the end. Growth
    keeps the order within what a bucket is split into, so it is enough to know the order in which keys came to
    either end; `_front` and `_back` have each key's spread hash.
    """

    __slots__ = ("_back", "_capacity", "_front", "_hash_of")

    def __init__(self, hash_of: Callable[[K], int], capacity: int = DEFAULT_CAPACITY) -> None:
        self._hash_of = hash_of
        self._capacity = capacity_for(capacity)
        self._front: dict[K, int] = {}  # The newest one is the first in its bucket.
        self._back: dict[K, int] = {}

    @classmethod
    def of_list(cls, hash_of: Callable[[K], int], keys: Iterable[K], count: int | None = None) -> Self:
        """A HashSet made of a collection that says it has `count` keys, by default as many as there are."""
        keys = list(keys)
        made = cls(hash_of, max(int((len(keys) if count is None else count) / 0.75) + 1, DEFAULT_CAPACITY))
        made._back = {key: (hashed := hash_of(key)) ^ (hashed >> 16) for key in keys}
        while len(made._back) * 4 > made._capacity * 3:
            made._capacity *= 2
        return made

    def put(self, key: K) -> None:
        """Put a key at the end of its bucket, unless it is there. The table grows once it has it."""
        if key not in self._back and key not in self._front:
            hashed = self._hash_of(key)
            self._back[key] = hashed ^ (hashed >> 16)
            if (len(self._back) + len(self._front)) * 4 > self._capacity * 3:
                self._capacity *= 2

    def compute_if_absent(self, key: K) -> None:
        """Put a key at the front of its bucket, unless it is there. The table grows before, and either way."""
        if (len(self._back) + len(self._front)) * 4 > self._capacity * 3:
            self._capacity *= 2
        if key not in self._back and key not in self._front:
            hashed = self._hash_of(key)
            self._front[key] = hashed ^ (hashed >> 16)

    def remove(self, key: K) -> None:
        """Remove a key that is there; KeyError if it is not. The table never shrinks."""
        del (self._front if key in self._front else self._back)[key]

    def __contains__(self, key: object) -> bool:
        return key in self._back or key in self._front

    def __len__(self) -> int:
        return len(self._front) + len(self._back)

    def __iter__(self) -> Iterator[K]:
        spread, mask = self._back, self._capacity - 1
        if self._front:
            spread = {**dict(reversed(self._front.items())), **self._back}
        return iter(sorted(spread, key=lambda key: spread[key] & mask))


class TimelineTable:
    """Texts in the order of the broker's own tables (`TimelineHashMap`), of which the members of a group are one.

    Buckets by the top bits of a product, in each bucket the newest first. It never shrinks.
    """

    __slots__ = ("_capacity", "_places")

    def __init__(self) -> None:
        self._capacity = 2
        self._places: dict[str, int] = {}  # Each text's hash; the newest is the first in its bucket.

    def put(self, text: str) -> None:
        """Add a text, or put it again where it is. Either way the table grows before, for one more than it has."""
        if (len(self._places) + 1) * 3 > self._capacity * 4:
            self._capacity *= 2
        if text not in self._places:
            self._places[text] = java_hash(text) * _TIMELINE_FACTOR & _UINT64

    def remove(self, text: str) -> None:
        """Remove a text that is there; KeyError if it is not."""
        del self._places[text]

    def __contains__(self, text: object) -> bool:
        return text in self._places

    def __len__(self) -> int:
        return len(self._places)

    def copy(self) -> TimelineTable:
        """A table that has the same texts in the same order, and stays as it is."""
        copied = TimelineTable()
        copied._capacity, copied._places = self._capacity, self._places.copy()
        return copied

    def as_they_came(self) -> Iterator[str]:
        """The texts, the oldest first: put into another table in this order they are in the same one there.

        But for its capacity, where there were more of them once.
        """
        return iter(self._places)

    def __iter__(self) -> Iterator[str]:
        places, shift = self._places, 65 - self._capacity.bit_length()
        newest_first = list(reversed(places))
        newest_first.sort(key=lambda text: places[text] >> shift)
        return iter(newest_first)


def count_names(counts: dict[str, int], table: TimelineTable, before: str | None, after: str | None) -> None:
    """Count one name less and one more, in the broker's own table of them."""
    if before is not None and before in counts:
        counts[before] -= 1
        if counts[before]:
            table.put(before)
        else:
            del counts[before]
            table.remove(before)
    if after is not None:
        counts[after] = counts.get(after, 0) + 1
        table.put(after)


def copied_table(names: Iterable[str], count: int) -> JavaTable[str]:
    """The HashMap that is made as a copy of another map with so many names."""
    table = JavaTable(string_hash, int(count / 0.75) + 1) if count else JavaTable(string_hash)
    for name in names:
        table.put(name)
    return table


def count_computed(
    counts: dict[str, int], table: JavaTable[str], before: str | None, after: str | None
) -> None:
    """Count one name less and one more, in a HashMap and by its `compute`."""
    if before is not None and before in counts:
        table.compute_if_absent(before)
        counts[before] -= 1
        if not counts[before]:
            del counts[before]
            table.remove(before)
    if after is not None:
        counts[after] = counts.get(after, 0) + 1
        table.compute_if_absent(after)

"""Versions as tuples of numbers, which can be compared: "0.12.0.1" as (0, 12, 0, 1)."""


def version_numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version.

    >>> version_numbers("0.13.0.dev20270101")
    (0, 13, 0)
    """
    numbers = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)

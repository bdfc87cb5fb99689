"""`prefetch`: host work in threads, ahead of the loop that uses the results."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from xjax.errors import bad

T = TypeVar("T")


def prefetch(make: Callable[[Any], T], items: Iterable[Any], *, threads: int = 1, ahead: int = 2) -> Iterator[T]:
    """``make(item)`` for each item, in order, computed in threads before the result is requested.

    An exception of `make` is raised at the position of its item. When the iterator ends, is closed or is deleted, it
    cancels pending calls and waits for running ones: no thread outlives it.

    Args:
      make: function called in threads; larger NumPy operations run in parallel with the caller.
      threads: number of threads; with 0, `make` is called when its result is requested.
      ahead: largest number of results that are computed or kept before they are requested; raised to `threads`.

    >>> list(prefetch(abs, [-3, 2, -1], threads=2))
    [3, 2, 1]
    """
    if threads < 0 or ahead < 1:
        raise bad("prefetch", "needs threads >= 0 and ahead >= 1", {"threads": threads, "ahead": ahead},
                  "pass threads=1, ahead=2.", ValueError)
    return map(make, items) if threads == 0 else _prefetched(make, iter(items), threads, max(threads, ahead))


def _prefetched(make: Callable[[Any], T], items: Iterator[Any], threads: int, ahead: int) -> Iterator[T]:
    pool = ThreadPoolExecutor(threads, thread_name_prefix="prefetch")
    waiting: deque[Future] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(make, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)

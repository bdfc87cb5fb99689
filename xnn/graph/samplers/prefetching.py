"""`prefetch`: work of the host done by threads, ahead of the loop that uses it."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from xjax.errors import bad

T = TypeVar("T")


def prefetch(make: Callable[[Any], T], items: Iterable[Any], *, threads: int = 1, ahead: int = 2) -> Iterator[T]:
    """``make(item)`` for each item, in their order, computed by threads before it is asked for.

    An exception of `make` is raised at the place of its item. When the iterator ends, is closed or is dropped, calls
    that have not begun are cancelled, and those that have are waited for: no thread outlives it.

    Args:
      make: called in threads; NumPy's larger operations run in parallel with the caller.
      threads: number of threads; 0 calls `make` when its result is asked for.
      ahead: most results that are computed or kept before they are asked for, at least `threads`.

    >>> list(prefetch(abs, [-3, 2, -1], threads=2))
    [3, 2, 1]
    """
    if threads < 0 or ahead < 1:
        raise bad("prefetch", "needs a number of threads and of results ahead", {"threads": threads, "ahead": ahead},
                  "threads=1, ahead=2.", ValueError)
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

"""Time of `import xjax` and of `import jax`, each in a new process in which NumPy is not yet imported."""

import time

from pairs import load, main


def work(library: str) -> dict[str, float]:
    start = time.perf_counter()
    load(library)
    return {"import": time.perf_counter() - start}


if __name__ == "__main__":
    main(work, pairs=15, limit={"import": 0.6})

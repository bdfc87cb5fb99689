"""Seeds per second of neighbour sampling with features, against a loop in C and PyTorch Geometric's NeighborLoader.

The graph has 100,000 nodes, 1,000,000 edges and 128 features; a batch has 1,024 seeds, with 15 and 10 neighbours. The
script compiles the C loop, which samples without replacement (Floyd), numbers the nodes with a table, and copies their
features, in one thread. It does not order the edges by sender, and it has a simpler random generator. The cases run in
turn; the figure is the median of the ratios.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from xnn.graph import Graph
from xnn.graph.samplers.sampling import NeighbourSampler, SeedBatches

NODES, EDGES, FEATURES, SEEDS, FAN_OUT = 100_000, 1_000_000, 128, 1024, (15, 10)

LOOP = """
#include <stdint.h>
#include <string.h>
static uint64_t state;
static uint32_t below(uint32_t n) {                      /* xorshift64*, and Lemire's multiplication */
    state ^= state >> 12; state ^= state << 25; state ^= state >> 27;
    return (uint32_t)(((state * 2685821657736338717ull >> 32) * n) >> 32);
}
/* ids: seeds first; returns the number of nodes. table is -1 everywhere, before and after. */
int64_t sample(const int64_t *first, const int32_t *from, int32_t *table, const int32_t *fan_out, int hops,
               int32_t *ids, int64_t n, int32_t *senders, int32_t *receivers, int64_t *n_edges,
               const float *x, float *rows, int64_t width, uint64_t seed) {
    int64_t e = 0, begin = 0;
    state = seed * 2 + 1;
    for (int64_t i = 0; i < n; i++) table[ids[i]] = (int32_t)i;
    for (int hop = 0; hop < hops; hop++) {
        int64_t end = n;
        for (int64_t i = begin; i < end; i++) {
            int64_t start = first[ids[i]], degree = first[ids[i] + 1] - start, k = fan_out[hop], chosen[64];
            if (degree < k) k = degree;
            for (int64_t j = 0; j < k; j++) {
                int64_t last = degree - k + j, one = degree > k ? below((uint32_t)(last + 1)) : j;
                if (degree > k) for (int64_t m = 0; m < j; m++) if (chosen[m] == one) { one = last; break; }
                chosen[j] = one;
                int32_t node = from[start + one];
                if (table[node] < 0) { table[node] = (int32_t)n; ids[n++] = node; }
                senders[e] = table[node]; receivers[e++] = (int32_t)i;
            }
        }
        begin = end;
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(rows + i * width, x + (int64_t)ids[i] * width, width * sizeof(float));
        table[ids[i]] = -1;
    }
    *n_edges = e;
    return n;
}
"""


def draw() -> tuple[Graph, np.ndarray]:
    """A graph with a mean degree of 10, and disjoint seeds for 16 batches."""
    npr = np.random.default_rng(0)
    x = npr.normal(size=(NODES, FEATURES)).astype(np.float32)
    graph = Graph.from_edges(npr.integers(0, NODES, EDGES), npr.integers(0, NODES, EDGES), x)
    return graph, npr.permutation(NODES)[:16 * SEEDS].reshape(16, SEEDS)


def compiled(folder: Path) -> ctypes.CDLL | None:
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    (folder / "loop.c").write_text(LOOP)
    subprocess.run([compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", folder / "loop.so", folder / "loop.c"],
                   check=True)
    library = ctypes.CDLL(str(folder / "loop.so"))
    library.sample.restype = ctypes.c_int64
    return library


def loop_of(library: ctypes.CDLL, graph: Graph) -> Callable[[np.ndarray, int], tuple[int, int]]:
    """``(seeds, seed) -> (nodes, edges)``; it allocates new arrays in each call, as a sampler must."""
    first = np.append(0, np.cumsum(np.bincount(graph.receivers, minlength=NODES)))
    table, fan_out = np.full(NODES, -1, np.int32), np.array(FAN_OUT, np.int32)
    most = SEEDS * (FAN_OUT[0] + FAN_OUT[0] * FAN_OUT[1])

    def pointer(x):
        return x.ctypes.data_as(ctypes.c_void_p)

    def call(seeds, seed):
        ids, ends = np.empty(min(SEEDS + most, NODES), np.int32), np.empty((2, most), np.int32)
        rows, count = np.empty((len(ids), FEATURES), np.float32), ctypes.c_int64()
        ids[:SEEDS] = seeds
        n = library.sample(pointer(first), pointer(graph.senders), pointer(table), pointer(fan_out), len(FAN_OUT),
                           pointer(ids), ctypes.c_int64(SEEDS), pointer(ends[0]), pointer(ends[1]), ctypes.byref(count),
                           pointer(graph.nodes), pointer(rows), ctypes.c_int64(FEATURES), ctypes.c_uint64(seed + 1))
        return n, count.value

    return call


def peer_of(graph: Graph) -> Callable[[np.ndarray, int], tuple[int, int]] | None:
    """PyTorch Geometric's loader, one batch per call; None if it or its sampler is not installed."""
    try:
        import torch
        from torch_geometric.data import Data
        from torch_geometric.loader import NeighborLoader

        ends = torch.tensor(np.stack([graph.senders, graph.receivers]).astype(np.int64))
        loader = NeighborLoader(Data(x=torch.tensor(graph.nodes), edge_index=ends), list(FAN_OUT), batch_size=SEEDS)
        loader([0])
    except ImportError as err:
        print(f"PyTorch Geometric's sampler is not installed ({str(err).splitlines()[0]})", file=sys.stderr)
        return None

    def call(seeds, seed):
        batch = loader(torch.tensor(seeds).tolist())
        return batch.num_nodes, batch.num_edges

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="number of calls of each case, in turn")
    parser.add_argument("--json", type=Path, help="also write every time to this file")
    args = parser.parse_args()
    graph, seeds = draw()
    sampler = NeighbourSampler(graph, FAN_OUT, batch_size=SEEDS).fitted(seeds.ravel())

    def ours(seeds, seed):
        block = sampler.sample(seeds, index=seed)
        return int(block.graph.n_node[0]), int(block.graph.n_edge[0])

    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        cases = {"xnn": ours, "C": library and loop_of(library, graph), "pyg": peer_of(graph)}
        cases = {name: call for name, call in cases.items() if call}
        times = {name: [] for name in cases}
        for i in range(-2, args.rounds):
            sizes = {}
            for name, call in list(cases.items())[::-1 if i % 2 else 1]:
                start = time.perf_counter()
                sizes[name] = call(seeds[i % 16], i + 2)
                if i >= 0:
                    times[name].append(time.perf_counter() - start)
    print("nodes and edges of a batch:", sizes)
    for name, taken in times.items():
        ratios = sorted(theirs / own for theirs, own in zip(taken, times["xnn"], strict=True))
        print(f"{name:<5}{SEEDS / statistics.median(taken):>12,.0f} seeds/s   "
              f"xnn is {statistics.median(ratios):.2f} times as fast "
              f"({ratios[0]:.2f}-{ratios[-1]:.2f}, {args.rounds} rounds)")
    for threads in (0, 1, 2):
        batches = SeedBatches(sampler, seeds.ravel(), threads=threads, ahead=4)
        start = time.perf_counter()
        count = sum(1 for _ in batches.epoch(0))
        print(f"an epoch with {threads} threads and an idle loop: "
              f"{count * SEEDS / (time.perf_counter() - start):,.0f} seeds/s")
    if args.json:
        args.json.write_text(json.dumps(times, indent=1))


if __name__ == "__main__":
    main()

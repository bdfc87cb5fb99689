"""Uses of deleted arrays over four devices, in a process of its own, which a wrong use may end:

    python -m tests.runtime.donation_program

It prints each use that did not raise the expected error, then "done". The name of each use goes to the error stream
before the use: the last one ended the process.
"""

from __future__ import annotations

import copy
import pickle
import sys
import threading

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax.sharding import Mesh, NamedSharding
from xjax.sharding import PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(4, 8)


def double(x):
    return x * 2


def gone():
    """Every use of a deleted or donated array, for every way to make and to lose it."""
    mesh, other = Mesh(xjax.devices(), "x"), Mesh(xjax.devices(), "y")
    rows, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    mapped = xjax.pmap(double, donate_argnums=0)
    by_name = xjax.jit(lambda *, x: x * 2, donate_argnames="x")
    by_shards = xjax.jit(xjax.shard_map(double, mesh=mesh, in_specs=P("x"), out_specs=P("x")), donate_argnums=0)
    donating = xjax.jit(double, donate_argnums=0)
    compiled = donating.lower(xjax.device_put(X, rows)).compile()
    pmapped, shard_mapped = xjax.pmap(lambda x: x + 1), xjax.shard_map(double, mesh=mesh, in_specs=P("x"),
                                                                       out_specs=P("x"))
    makers = {
        "NamedSharding": lambda: xjax.device_put(X, rows),
        "an equal mesh": lambda: xjax.device_put(X, NamedSharding(other, P("y", None))),
        "pmap": lambda: pmapped(X),
        "shard_map": lambda: shard_mapped(X),
        "replicated": lambda: xjax.device_put(X, whole),
    }
    ends = {
        "delete": lambda x: x.delete(),
        "jit": donating,
        "jit by name": lambda x: by_name(x=x),
        "Compiled": compiled,
        "pmap": mapped,
        "shard_map": by_shards,
        "a part deleted": lambda x: x.addressable_shards[2].data.delete(),
        "a part donated": lambda x: donating(x.addressable_data(1)),
        "donated next to a view": lambda x: kept.append((np.asarray(x.addressable_data(0)), donating(x))),
    }
    uses = [
        "x.is_ready()", "x.block_until_ready()", "x.on_device_size_in_bytes()", "x.copy_to_host_async()",
        "x.addressable_shards", "x.global_shards", "x.addressable_data(0)", "x.__array__()", "np.asarray(x)",
        "x.tolist()", "str(x)", "f'{x}'", "pickle.dumps(x)", "copy.deepcopy(x)", "x + 1", "1 + x", "x + x", "-x",
        "x.copy()", "x.sum()", "x[0]", "x[:, 1]", "x[x > 0]", "x.at[0].set(1.0)", "jnp.sin(x)", "jnp.var(x)",
        "jnp.where(True, x, x)", "jnp.stack([x, x])", "jnp.linalg.norm(x)",
        "xjax.lax.cumsum(x)", "list(x)", "xjax.block_until_ready([x])",
        "xjax.device_get(x)", "xjax.device_put(x, xjax.devices()[1])", "xjax.device_put(x, cut_by_columns)",
        "xjax.lax.with_sharding_constraint(x, cut_by_columns)", "plain(x)", "two(x, np.ones(1, np.float32))",
        "two(x, 2.5)", "two(1.0, x)", "donating(x)", "compiled(x)", "mapped(x)", "pmapped(x)", "by_shards(x)",
        "by_name(x=x)", "shard_mapped(x)", "xjax.grad(lambda x: plain(x).sum())(x)", "xjax.vmap(plain)(x)",
        "xjax.lax.cond(True, lambda a: a, lambda a: a, x)", "xjax.jit(double, out_shardings=cut_by_columns)(x)",
        "xjax.jit(double, in_shardings=x.sharding)(x)", "xjax.lax.map(lambda row: row, x)",
    ]
    kept: list = []
    names = {**locals(), "jnp": jnp, "np": np, "xjax": xjax, "copy": copy, "pickle": pickle, "double": double,
             "cut_by_columns": NamedSharding(mesh, P(None, "x")), "plain": xjax.jit(double),
             "two": xjax.jit(lambda a, b: a + b)}
    for made, make in makers.items():
        for lost, lose in ends.items():
            if made == "replicated" and lost in ("Compiled", "pmap", "shard_map"):
                continue                    # they need rows, and donate a copy
            x = make()
            lose(x)
            if not x.is_deleted():
                print(f"{made}, {lost}: not deleted")
            for use in uses:
                if made == "replicated" and use in ("compiled(x)", "mapped(x)", "pmapped(x)"):
                    continue                # refused earlier, since they need rows
                refused(f"{made}, {lost}: {use}", lambda: eval(use, {**names, "x": x}), "the array has been deleted")


def twice():
    """One array as two arguments of a call that donates one or both, and as an argument and a captured array."""
    mesh = Mesh(xjax.devices(), "x")
    rows = NamedSharding(mesh, P("x"))

    def pair(x, y):
        return x * 2, y + 1

    again = "passed a second time"
    first, both = xjax.jit(pair, donate_argnums=0), xjax.jit(pair, donate_argnums=(0, 1))
    tree = xjax.jit(lambda t: (t["a"] * 2, t["b"] + 1), donate_argnums=0)
    for made, x in (("one device", jnp.asarray(X)), ("NamedSharding", xjax.device_put(X, rows)),
                    ("pmap", xjax.pmap(double)(X)), ("equal", xjax.device_put(X, rows))):
        same = x if made != "equal" else xjax.device_put(x, NamedSharding(Mesh(xjax.devices(), "y"), P("y")))
        refused(f"{made}: first", lambda: first(x, same), again)
        refused(f"{made}: both", lambda: both(x, same), again)
        refused(f"{made}: tree", lambda: tree({"a": x, "b": same}), again)
        refused(f"{made}: compiled", lambda: first.lower(x, same).compile()(x, same), again)
        refused(f"{made}: captured", lambda: xjax.jit(lambda y: x + y, donate_argnums=0)(same), again)
        if made != "one device":
            refused(f"{made}: pmap", lambda: xjax.pmap(pair, donate_argnums=0)(x, same), again)
            refused(f"{made}: pmap both", lambda: xjax.pmap(pair, donate_argnums=(0, 1))(same, x), again)
        out = first(x, same.copy())                     # the calls before donated nothing
        assert float(out[0].sum()) == 2 * float(out[1].sum() - 32)
        if not (x.is_deleted() and same.is_deleted()):
            print(f"{made}: not deleted")


def captured():
    """A compiled function captured an array that is then deleted."""
    rows = NamedSharding(Mesh(xjax.devices(), "x"), P("x"))
    for made, put in (("one device", jnp.asarray), ("NamedSharding", lambda v: xjax.device_put(v, rows))):
        x, y = put(X), put(X)
        f = xjax.jit(lambda y: x + y)
        f(y)
        x.delete()
        refused(made, lambda: f(y), "a compiled function captured has been deleted")
        refused(f"{made}, before", lambda: xjax.jit(lambda y: x + y)(y), "has been deleted")
        x = put(X)
        _, pullback = xjax.vjp(xjax.jit(lambda x: x * x), x)
        x.delete()
        refused(f"{made}, residual", lambda: pullback(y), "the array has been deleted")


def joined():
    """An array joined of parts, one of which is then lost by itself."""
    rows = NamedSharding(Mesh(xjax.devices(), "x"), P("x"))
    donating, plain, mapped = xjax.jit(double, donate_argnums=0), xjax.jit(double), xjax.pmap(double)
    for use in (donating, plain, mapped, np.asarray, lambda x: x + 1, lambda x: x.addressable_data(2)):
        for lost, lose in (("deleted", lambda x: x.delete()), ("donated", donating)):
            for k in (0, 2):
                parts = [xjax.device_put(X[i:i + 1], d) for i, d in enumerate(xjax.devices())]
                x = xjax.make_array_from_single_device_arrays(X.shape, rows, parts)
                use(x + 0)
                lose(parts[k])
                refused(f"part {k} {lost}", lambda: use(x), "the array has been deleted")
    parts = [xjax.device_put(X[i:i + 1], d) for i, d in enumerate(xjax.devices())]
    donating(xjax.make_array_from_single_device_arrays(X.shape, rows, parts))
    refused("the whole donated", lambda: parts[3] + 1, "the array has been deleted")


def threads():
    """Several threads donate, read and delete one array at the same time: one is first, the others get an error."""
    rows = NamedSharding(Mesh(xjax.devices(), "x"), P("x"))
    donating, reading, mapped = xjax.jit(double, donate_argnums=0), xjax.jit(double), xjax.pmap(double)
    for f in (donating, reading, mapped):
        f(xjax.device_put(X, rows))
    sys.setswitchinterval(1e-5)
    for i in range(300):
        x, start, said = xjax.device_put(X, rows), threading.Barrier(4), []

        def run(use, x=x, start=start, said=said):
            start.wait()
            try:
                y = use(x)
                said.append("" if y is None or np.array_equal(y, X * 2) else "a wrong value")
            except RuntimeError as error:
                said.append("" if "the array has been deleted" in str(error) else str(error))

        uses = [donating, reading, mapped] if i % 2 else [donating, donating, lambda x: x.delete()]
        users = [threading.Thread(target=run, args=(use,)) for use in uses]
        for user in users:
            user.start()
        start.wait()
        for user in users:
            user.join()
        if said != ["", "", ""] or not x.is_deleted():
            print(said)


def refused(name, call, text):
    print(name, file=sys.stderr, flush=True)
    try:
        call()
    except RuntimeError as error:
        if text in str(error) and "fix:" in str(error):
            return
        name += f": {error}"
    except Exception as error:
        name += f": {type(error).__name__} {error}"
    print(name)


if __name__ == "__main__":
    for cases in (gone, twice, captured, joined, threads):
        cases()
    print("done")

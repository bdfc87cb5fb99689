"""Programs of the kind "chains": long chains of cheap operations whose values are read twice; compiled but not run.

A compiler that fuses or analyses each reader separately needs time exponential in the length of such a chain.
"""

from __future__ import annotations

from itertools import product

from tests.compilers.program import Source

_HASHES = """
def murmur(h):
    for _ in range({rounds}):
        h = (h ^ (h >> 16)) * jnp.uint32(0x85ebca6b)
        h = (h ^ (h >> 13)) * jnp.uint32(0xc2b2ae35)
        h = h ^ (h >> 16)
    return h

def xorshift(h):
    for _ in range({rounds}):
        h = h ^ (h << 13)
        h = h ^ (h >> 17)
        h = h ^ (h << 5)
    return h

def splitmix(h):
    for k in range({rounds}):
        h = h + jnp.uint32(0x9e3779b9)
        z = (h ^ (h >> 16)) * jnp.uint32(0x21f0aaad)
        z = (z ^ (z >> 15)) * jnp.uint32(0x735a2d97)
        h = h ^ z ^ (z >> 15)
    return h

def feistel(h):
    a, b = h, h + jnp.uint32(1)
    for k in range({rounds}):
        a, b = a + b, (b << (k % 13 + 3)) | (b >> (29 - k % 13))
        b = a ^ b
    return a + b

def popcount(h):
    h = h - ((h >> 1) & jnp.uint32(0x55555555))
    h = (h & jnp.uint32(0x33333333)) + ((h >> 2) & jnp.uint32(0x33333333))
    h = (h + (h >> 4)) & jnp.uint32(0x0f0f0f0f)
    return (h * jnp.uint32(0x01010101)) >> 24
"""
_FLOATS = """
def horner(x):
    a = b = x
    for k in range(20):
        a, b = a * x + 0.5 ** k, b * a * 0.01 + 0.3
    return a + b

def fibonacci(x):
    x, y = 0.1 * x, 0.1 + 0.0 * x
    for _ in range(40):
        x, y = y, 0.5 * (x + y * x)
    return x

def logistic(x):
    for _ in range(50):
        x = 3.7 * x * (1 - x)
    return x

def coupled(x):
    x, y = x, 1 - x
    for _ in range(30):
        x, y = jnp.minimum(x + 0.1 * x * y, y), jnp.maximum(y - 0.1 * y * x, x)
    return x + y

def elementwise(x):
    for k in range(50):
        x = x + 0.01 * jnp.abs(x * x - k) if k % 2 else jnp.maximum(x, 0.5 * x * x)
    return x

def leapfrog(x):
    p = 0.1 * x
    for _ in range(25):
        p = p - 0.01 * x * (x * x - 1)
        x = x + 0.01 * p
    return x * p

def product(x):
    y = x
    for k in range(30):
        y = (x + k) * y / (1 + y * y)
    return y

erf_inv = lambda x: lax.erf_inv(lax.erf_inv(0.9 * jnp.tanh(x)) * 0.3)
lgamma = lambda x: lax.lgamma(lax.lgamma(x + 3.0) + 2.0)
digamma = lambda x: lax.digamma(lax.digamma(x + 3.0) + 2.0)
igamma = lambda x: lax.igamma(x + 1.0, lax.igamma(x + 0.5, x + 2.0))
betainc = lambda x: lax.betainc(x + 1.0, x + 2.0, jnp.clip(x, 0.1, 0.9))
bessel = lambda x: lax.bessel_i1e(lax.bessel_i0e(x)) + lax.bessel_i0e(x * x)
"""
HASHES = ("murmur", "xorshift", "splitmix", "feistel", "popcount")
FLOATS = ("horner", "fibonacci", "logistic", "coupled", "elementwise", "leapfrog", "product", "erf_inv", "lgamma",
          "digamma", "igamma", "betainc", "bessel")
NO_GRADIENT = ("igamma", "betainc", "bessel")            # their gradients are long, and have tests of their own

# {f} a function, {x} its argument: an array, or a scalar with the name s.
_ARRAY = {
    "alone": "lambda x: {f}(x)",
    "joined": "lambda x: jnp.concatenate([{f}(x), {f}(x + 1)[:5], {f}(x[::2])])",
    "fused": "lambda x: {f}({f}(x)) + {f}(x)[::-1]",
    "padded": "lambda x: jnp.pad({f}(x), (3, 2)) + jnp.pad({f}(x + 2), (1, 4))",
    "summed": "lambda x: (jnp.sum({f}(x)), jnp.max({f}(x)), {f}(x))",
    "in scan": "lambda x: lax.scan(lambda c, _: ({f}(c), c[0]), x, None, length=9)",
    "rows": "lambda x: jnp.stack([{f}(x) * {f}(x[:1]), jnp.flip({f}(x))])",
    "mapped": "lambda x: jax.vmap({f})(jnp.stack([x, x + 1]))",
}
_NUMBER = {
    "number joined": "lambda s, x: jnp.concatenate([jnp.full(70, {f}(s), x.dtype), x * {f}(s)])",
    "number chosen": "lambda s, x: jnp.where(x > 1, {f}(s), x * {f}(s + 1))",
    "number padded": "lambda s, x: lax.pad(x, {f}(s).astype(x.dtype), ((3, 4, 1),))",
    "number as index": "lambda s, x: lax.dynamic_slice(x, ({i},), (50,)) + {f}(s).astype(x.dtype)",
    "number in scan": "lambda s, x: lax.scan(lambda c, r: ({f}(c), r * c), s, x)",
}
_GRADIENT = {
    "gradient": "jax.grad(lambda x: jnp.sum({f}(x)))",
    "gradient joined": "jax.grad(lambda x: jnp.sum(jnp.sin(jnp.concatenate([{f}(x), {f}(2 * x[:7])]))))",
}


def _rows(functions: tuple[str, ...], head: str, x: str, s: str, index: str, forms: dict[str, str]) -> list[Source]:
    """Each form of each function. x, s: arguments, an array and a scalar; index: text that makes an index from s."""
    out = []
    for f, (form, text) in product(functions, forms.items()):
        arguments = f"{s}, {x}" if form in _NUMBER else x
        out.append(Source(f"chain {f}, {form}", f"# chain: {f}, {form}\n{head}\nprogram = "
                          f"{text.format(f=f, i=index.format(f=f))}\narguments = ({arguments},)\n"))
    return out


_BITS, _REALS = "jnp.arange(200, dtype='uint32')", "jnp.linspace(0.1, 0.9, 200)"
CHAINS: tuple[Source, ...] = (
    *_rows(HASHES, _HASHES.format(rounds=8), _BITS, "jnp.uint32(7)", "({f}(s) % 9).astype('int32')", _ARRAY | _NUMBER),
    *_rows(HASHES[:4], _HASHES.format(rounds=25), _BITS, "jnp.uint32(7)", "({f}(s) % 9).astype('int32')",
           {"alone": _ARRAY["alone"], "joined, 25 rounds": _ARRAY["joined"]}),
    *_rows(FLOATS, _FLOATS, _REALS, "jnp.float32(0.3)", "(9 * {f}(s)).astype('int32')", _ARRAY | _NUMBER),
    *_rows(tuple(f for f in FLOATS if f not in NO_GRADIENT), _FLOATS, _REALS, "", "", _GRADIENT))

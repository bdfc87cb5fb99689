"""Quantisation, narrow dtypes, weak types, bits and complex numbers."""

import numpy as np


def int8_weights(jax):
    jnp = jax.numpy
    w = jnp.linspace(-1.3, 2.1, 12).reshape(3, 4)
    scale = jnp.max(jnp.abs(w), axis=0, keepdims=True) / 127
    q = jnp.clip(jnp.round(w / scale), -128, 127).astype(jnp.int8)
    x = jnp.arange(6, dtype=jnp.int8).reshape(2, 3)
    y = jax.lax.dot(x, q, preferred_element_type=jnp.int32)
    return q, y, y * scale, jnp.abs(q * scale - w).max() <= scale.max() / 2


def fake_quantisation_straight_through(jax):
    jnp = jax.numpy

    @jax.custom_vjp
    def fake_quant(x, scale):
        return jnp.round(x / scale) * scale

    def fwd(x, scale):
        inside = jnp.abs(x) < 127 * scale
        return fake_quant(x, scale), (inside, scale)
    fake_quant.defvjp(fwd, lambda res, g: (jnp.where(res[0], g, 0), jnp.zeros_like(res[1])))
    x = jnp.array([.11, .26, -30.])
    return fake_quant(x, 0.1), jax.grad(lambda x, s: (fake_quant(x, s)**2).sum(), (0, 1))(x, 0.1)


def straight_through_by_stop_gradient(jax):
    jnp = jax.numpy
    ste = lambda x: x + jax.lax.stop_gradient(jnp.sign(x) - x)
    x = jnp.array([-2., .5, 0.])
    return ste(x), jax.grad(lambda x: (3 * ste(x)).sum())(x), jax.jacfwd(ste)(x)


def fp8_casts_and_saturation(jax):
    jnp = jax.numpy
    x = jnp.array([.1, 1.7, 500., -1e5, 2.**-9, jnp.nan])
    e4, e5 = x.astype(jnp.float8_e4m3fn), x.astype(jnp.float8_e5m2)
    top = jnp.finfo(jnp.float8_e4m3fn).max.astype(jnp.float32)
    safe = jnp.clip(x, -top, top).astype(jnp.float8_e4m3fn)
    return e4, e5, safe.astype(jnp.float32), e4.dtype.itemsize, (e5.astype(jnp.bfloat16) * 2).dtype


def bfloat16_accumulation(jax):
    jnp = jax.numpy
    x = jnp.full((64,), 0.1, dtype=jnp.bfloat16)
    naive = jax.lax.fori_loop(0, 64, lambda i, s: s + x[i], jnp.bfloat16(0))
    return naive, x.sum(), x.sum(dtype=jnp.float32), jnp.mean(x), jnp.cumsum(x)[-1], jnp.dot(x, x), x.std()


def stochastic_rounding(jax):
    jnp, lax = jax.numpy, jax.lax
    x = jnp.array([1.001, 2.5, -3.14159], jnp.float32)
    bits = lax.bitcast_convert_type(x, jnp.uint32)
    noise = jax.random.bits(jax.random.key(0), x.shape, jnp.uint16).astype(jnp.uint32)
    rounded = lax.bitcast_convert_type((bits + noise) & jnp.uint32(0xFFFF0000), jnp.float32)
    return rounded.astype(jnp.bfloat16), lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7), x.view(jnp.int32)


def pack_four_bit_numbers(jax):
    jnp = jax.numpy
    x = jnp.array([1, -2, 7, -8, 0, 3], dtype=jnp.int4)
    wide = x.astype(jnp.uint8) & 0xF
    packed = wide[::2] | (wide[1::2] << 4)
    low = (packed.astype(jnp.int8) << 4) >> 4
    return packed, low, packed.astype(jnp.int8) >> 4, x.astype(jnp.int32), (x + x).dtype, packed.dtype


def block_scaled_quantisation(jax):
    jnp = jax.numpy
    x = jnp.sin(jnp.arange(32.)) * jnp.geomspace(.1, 10, 32)
    blocks = x.reshape(-1, 8)
    exponent = jnp.floor(jnp.log2(jnp.max(jnp.abs(blocks), axis=1, keepdims=True)))
    scale = jnp.exp2(exponent - 2)
    q = jnp.clip(jnp.rint(blocks / scale), -8, 7)
    mantissa, e = jnp.frexp(blocks[:, 0])
    return q, exponent.astype(int), (q * scale).ravel(), mantissa, e, jnp.ldexp(mantissa, e)


def dtype_zoo_of_arithmetic(jax):
    jnp = jax.numpy
    types = ["bool", "uint8", "int16", "int32", "bfloat16", "float16", "float32", "complex64"]
    table = [[str(jnp.promote_types(a, b)) for b in types] for a in types]
    sums = [(jnp.ones((), t) + 1, jnp.ones((), t) * 2., jnp.ones(1, t) / 2, jnp.ones((), t).sum()) for t in types]
    return table, sums, [str(jnp.result_type(t, 1, 2.)) for t in types], jnp.result_type(jnp.float16, 1j)


def weak_type_zoo(jax):
    jnp, lax = jax.numpy, jax.lax
    w = jnp.asarray(2.)
    return (jnp.asarray(1), jnp.array(1), jnp.array(1.), w * 3, w + jnp.float16(1), jnp.where(True, 1, 2),
            jnp.maximum(1, 2.),
            jnp.full((2,), 3), jnp.full_like(w, 2), jnp.zeros_like(1), jnp.broadcast_to(1, (2,)), jnp.stack([1, 2]),
            jnp.concatenate([w[None], w[None]]), jnp.sum(w), -w, w.astype(float), lax.add(w, w), lax.full((1,), 2.),
            jnp.sqrt(4), jnp.exp(1), jnp.abs(-1), jnp.sign(2.), jnp.round(2.5), jnp.clip(5, 0, 3), jnp.power(2, 3.),
            2**w,
            w.T, w.reshape(1), jnp.squeeze(w), w[None], jnp.expand_dims(w, 0), jnp.ravel(w), jnp.square(3), jnp.cos(1j))


def weak_types_through_transformations(jax):
    jnp, lax = jax.numpy, jax.lax
    f = lambda x: x * 2
    return (jax.jit(f)(1), jax.jit(f)(1.5), jax.jit(f)(jnp.bfloat16(1)), jax.grad(lambda x: f(x)**2)(3.),
            jax.vjp(f, 2.)[0],
            jax.vmap(lambda x: x + 1)(jnp.arange(2)), lax.cond(True, lambda: 1, lambda: 2), lax.map(f, jnp.arange(2.)),
            lax.fori_loop(0, 3, lambda i, x: x + i, 0), lax.while_loop(lambda x: x < 3, lambda x: x + 1, 0.),
            jax.checkpoint(f)(2.), jax.linearize(f, 2.)[0], lax.switch(1, [lambda: 1., lambda: 2.]),
            jax.value_and_grad(f)(1.))


def python_scalars_of_arrays(jax):
    jnp = jax.numpy
    x = jnp.array([[1.5, 2.5]])
    return (float(x[0, 0]), int(jnp.int8(-3)), bool(jnp.array(0)), complex(jnp.float32(2)), x.item(1), x.tolist(),
            len(x),
            range(jnp.array(3))[-1], [10, 20, 30][jnp.array(1)], round(jnp.float32(2.567), 1), abs(x),
            divmod(jnp.array(7), 2),
            hex(jnp.array(255)), x.nbytes, x.itemsize, x.ndim, x.size, np.asarray(x).dtype, jnp.array(3).__index__())


def popcounts_and_gray_codes(jax):
    jnp, lax = jax.numpy, jax.lax
    n = jnp.arange(10, dtype=jnp.uint32)
    gray = n ^ (n >> 1)
    return (gray, lax.population_count(n), lax.clz(n), jnp.bitwise_invert(n), ~n.astype(jnp.int8), jnp.left_shift(n, 2),
            lax.shift_right_arithmetic(-n.astype(jnp.int32), jnp.int32(1)), jnp.bitwise_xor.reduce(n), n & -n, n << n,
            lax.shift_right_logical(n, jnp.uint32(40)))


def xorshift_generator(jax):
    jnp = jax.numpy

    def step(s, _):
        s ^= s << 13
        s ^= s >> 17
        s ^= s << 5
        return s, s
    last, out = jax.lax.scan(step, jnp.uint32(2463534242), None, length=5)
    return last, out, out.astype(jnp.float32) / 2.**32, out % 6 + 1, out.view(jnp.int32)


def hashing_and_crc(jax):
    jnp = jax.numpy
    data = jnp.asarray(np.frombuffer(b"hello", dtype=np.uint8))
    fnv = jax.lax.fori_loop(0, 5, lambda i, h: (h ^ data[i].astype(jnp.uint32)) * jnp.uint32(16777619),
                            jnp.uint32(2166136261))

    def bit(c, _):
        return jnp.where(c & 1, (c >> 1) ^ jnp.uint32(0xEDB88320), c >> 1), None
    crc = jax.lax.scan(lambda c, b: (jax.lax.scan(bit, c ^ b, None, length=8)[0], None), ~jnp.uint32(0), data)[0]
    return fnv, ~crc, jnp.packbits(data > 105), jnp.unpackbits(data[:2]), jnp.packbits(data > 105, bitorder="little")


def float_bit_tricks(jax):
    jnp, lax = jax.numpy, jax.lax
    x = jnp.array([1., 2.5, 100.])
    i = lax.bitcast_convert_type(x, jnp.int32)
    y = lax.bitcast_convert_type(0x5f3759df - (i >> 1), jnp.float32)
    y = y * (1.5 - 0.5 * x * y * y)
    return (y, jnp.signbit(-x), jnp.nextafter(x, jnp.inf), jnp.copysign(x, -1), jnp.spacing(x), (i >> 23) - 127,
            jnp.modf(-x),
            jnp.heaviside(jnp.array([-1., 0.]), .5), jnp.float_power(x, 2), jnp.trunc(-x))


def integer_division_and_remainders(jax):
    jnp, lax = jax.numpy, jax.lax
    a, b = jnp.array([7, -7, 7, -7]), jnp.array([3, 3, -3, -3])
    return (a // b, a % b, lax.div(a, b), lax.rem(a, b), jnp.divmod(a, b), jnp.fmod(a, b), jnp.floor_divide(a, 2.),
            a / b,
            jnp.remainder(-1., 3), a // 0, jnp.gcd(a, 21), jnp.lcm(a, b), jnp.abs(jnp.int8(-128)),
            jnp.uint8(3) - jnp.uint8(5),
            jnp.int32(2**31 - 1) + 1, lax.integer_pow(a, 3), a**2, jnp.power(a, jnp.abs(b)))


def casts_of_odd_values(jax):
    jnp = jax.numpy
    x = jnp.array([-1.7, 300., jnp.nan, jnp.inf, -jnp.inf])
    return (x.astype(jnp.int8), x.astype(jnp.uint8), x.astype(jnp.int32), x.astype(bool), x.astype(jnp.float16),
            jnp.array([300, -1]).astype(jnp.uint8), jnp.array([1, 0, 2]).astype(bool), jnp.astype(x, jnp.complex64),
            jnp.isnan(x), jnp.isposinf(x), jnp.nan_to_num(x, posinf=9.), jnp.nansum(x[:3]),
            jnp.array([True, False]) + 1)


def mandelbrot(jax):
    jnp = jax.numpy
    c = jnp.linspace(-2, .5, 5)[None] + 1j * jnp.linspace(-1, 1, 5)[:, None]

    def step(_, state):
        z, n = state
        z = jnp.where(jnp.abs(z) < 2, z**2 + c, z)
        return z, n + (jnp.abs(z) < 2)
    z, n = jax.lax.fori_loop(0, 8, step, (jnp.zeros_like(c), jnp.zeros(c.shape, int)))
    return n, z.dtype, jnp.isfinite(z).all()


def complex_functions(jax):
    jnp = jax.numpy
    z = jnp.array([1 + 2j, -1.5j, -2 + 0j, .3 - .4j])
    return (jnp.exp(z), jnp.log(z), jnp.sqrt(z), z.conj(), jnp.angle(z, deg=True), z.real, jnp.imag(z), abs(z),
            z * z.conj(),
            jnp.sinh(z), jnp.arctan(z), z**2, z**.5, jnp.sum(z), jnp.prod(z), jnp.sort_complex(z), jnp.iscomplex(z),
            jnp.real_if_close(z) if hasattr(jnp, "real_if_close") else 0, jnp.vdot(z, z), jnp.dot(z, z), jnp.sign(z),
            jnp.max(z))


def complex_gradients(jax):
    jnp = jax.numpy
    f = lambda z: z**3 + 1
    z = 1 + 2j
    real = jax.grad(lambda z: jnp.abs(z)**2)(jnp.complex64(z))
    holomorphic = jax.grad(f, holomorphic=True)(jnp.complex64(z))
    J = jax.jacrev(lambda x: jnp.fft.fft(x).real)(jnp.arange(3.))
    split = jax.vmap(jax.jacfwd(lambda x: jnp.abs(x[0] + 1j * x[1])))(jnp.array([[3., 4.]]))
    return real, holomorphic, J, split, jax.vjp(jnp.real, jnp.complex64(z))[1](jnp.float32(1))


def roots_and_polynomials(jax):
    jnp = jax.numpy
    p = jnp.array([1., -6., 11., -6.])
    return (jnp.sort(jnp.roots(p, strip_zeros=False).real), jnp.polyval(p, jnp.array([1., 4.])), jnp.polyder(p),
            jnp.polyint(p, 2),
            jnp.polymul(p, p[:2]), jnp.polydiv(p, jnp.array([1., -1.])), jnp.poly(jnp.array([1., 2.])),
            jnp.polyadd(p, p[1:]),
            jnp.polysub(p[1:], p), jnp.round(jnp.polyfit(jnp.arange(5.), jnp.arange(5.)**2, 2), 3))


def accumulators_of_many_widths(jax):
    jnp = jax.numpy
    x8 = jnp.array([100, 100, 100], jnp.int8)
    b = jnp.array([True, True, False])
    return (x8.sum(), x8.prod(), x8.mean(), jnp.cumsum(x8), x8.max(), b.sum(), b.mean(), jnp.cumsum(b),
            jnp.add.reduce(x8),
            jnp.sum(x8, dtype=jnp.int8), x8 @ x8, jnp.einsum("i,i", x8, x8), jnp.var(x8), b.any(), b.all(),
            jnp.trace(jnp.eye(2, dtype=bool)),
            jnp.average(x8), jnp.median(x8), jnp.ptp(x8), b.argmax(), jnp.diff(b), jnp.ediff1d(x8), jnp.linalg.norm(x8))

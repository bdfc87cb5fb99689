"""Differential equations, physics and cellular automata."""

from functools import partial


def runge_kutta_oscillator(jax):
    jnp = jax.numpy
    f = lambda y, t: jnp.stack([y[1], -y[0]])

    def rk4(y, t, dt=0.1):
        k1 = f(y, t)
        k2 = f(y + dt / 2 * k1, t + dt / 2)
        k3 = f(y + dt / 2 * k2, t + dt / 2)
        k4 = f(y + dt * k3, t + dt)
        y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y
    return jax.lax.scan(rk4, jnp.array([1., 0.]), jnp.arange(0, 1, 0.1))


def odeint_lotka_volterra(jax):
    jnp = jax.numpy
    from importlib import import_module
    odeint = import_module(jax.__name__ + ".experimental.ode").odeint

    def field(y, t, a, b):
        return {"prey": a * y["prey"] - b * y["prey"] * y["pred"], "pred": -y["pred"] + y["prey"] * y["pred"]}
    y0 = {"prey": jnp.float32(1.0), "pred": jnp.float32(0.5)}
    ys = odeint(field, y0, jnp.linspace(0., 1., 4), 1.5, 1.0, rtol=1e-6, atol=1e-6)
    return jax.tree.map(lambda y: jnp.round(y, 4), ys)


def symplectic_pendulum(jax):
    jnp = jax.numpy
    H = lambda q, p: p**2 / 2 - jnp.cos(q)

    def step(state, _):
        q, p = state
        p = p - 0.1 * jax.grad(H, argnums=0)(q, p)
        q = q + 0.1 * jax.grad(H, argnums=1)(q, p)
        return (q, p), H(q, p)
    (q, p), energies = jax.lax.scan(step, (1.0, 0.0), xs=None, length=10)
    return q, p, energies, jnp.ptp(energies)


def lagrangian_mechanics(jax):
    jnp = jax.numpy

    def lagrangian(q, qdot):
        return 0.5 * jnp.sum(qdot**2) + 0.3 * qdot[0] * qdot[1] * jnp.cos(q[0] - q[1]) - jnp.sum(1 - jnp.cos(q))

    def acceleration(q, v):
        mass = jax.hessian(lagrangian, 1)(q, v)
        force = jax.grad(lagrangian, 0)(q, v) - jax.jacfwd(jax.grad(lagrangian, 1), 0)(q, v) @ v
        return jnp.linalg.solve(mass, force)
    return jax.jit(acceleration)(jnp.array([.1, .2]), jnp.array([.3, -.4]))


def euler_maruyama(jax):
    jnp, random = jax.numpy, jax.random

    @partial(jax.jit, static_argnames="steps")
    def simulate(key, steps=10):
        dw = random.normal(key, (steps,)) * jnp.sqrt(0.1)

        def step(i, path):
            return path.at[i + 1].set(path[i] + 0.1 * (1 - path[i]) + 0.2 * jnp.sqrt(jnp.abs(path[i])) * dw[i])
        return jax.lax.fori_loop(0, steps, step, jnp.zeros(steps + 1).at[0].set(0.5))
    return simulate(random.key(0)), jax.vmap(partial(simulate, steps=3))(random.split(random.key(1), 2))


def heat_equation_by_roll(jax):
    jnp = jax.numpy
    u = jnp.zeros((6, 6)).at[2:4, 2:4].set(1)

    def laplacian(u):
        return sum(jnp.roll(u, s, axis) for axis in (0, 1) for s in (1, -1)) - 4 * u
    return jax.lax.fori_loop(0, 4, lambda i, u: u + 0.2 * laplacian(u), u), laplacian(u).astype(int)


def crank_nicolson_by_tridiagonal(jax):
    jnp = jax.numpy
    n, r = 6, 0.4
    u = jnp.sin(jnp.linspace(0, jnp.pi, n))
    lower = jnp.full(n, -r).at[0].set(0)
    upper = jnp.full(n, -r).at[-1].set(0)
    d = jnp.full(n, 1 + 2 * r)
    rhs = u + r * (jnp.pad(u, (1, 0))[:-1] - 2 * u + jnp.pad(u, (0, 1))[1:])
    return jax.lax.linalg.tridiagonal_solve(lower, d, upper, rhs[:, None])[:, 0], rhs


def burgers_upwind(jax):
    jnp = jax.numpy
    x = jnp.linspace(0, 1, 16, endpoint=False)
    u = jnp.sin(2 * jnp.pi * x)

    def step(u, _):
        left = (u - jnp.roll(u, 1)) * 16
        right = (jnp.roll(u, -1) - u) * 16
        return u - 0.01 * jnp.where(u > 0, u * left, u * right), jnp.max(jnp.abs(u))
    return jax.lax.scan(step, u, length=5)


def poisson_by_fft(jax):
    jnp = jax.numpy
    n = 8
    x = jnp.arange(n) / n
    f = jnp.sin(2 * jnp.pi * x)[:, None] * jnp.cos(4 * jnp.pi * x)[None]
    k = jnp.fft.fftfreq(n, d=1 / n)
    k2 = (2 * jnp.pi)**2 * (k[:, None]**2 + k[None]**2)
    fh = jnp.fft.fft2(f)
    u = jnp.where(k2 == 0, 0, -fh / jnp.where(k2 == 0, 1, k2))
    return jnp.fft.ifft2(u).real, k, jnp.fft.fftshift(k), jnp.fft.rfftfreq(n)


def wave_equation_leapfrog(jax):
    jnp = jax.numpy
    kernel = jnp.array([1., -2., 1.])
    u0 = jnp.exp(-jnp.linspace(-3, 3, 15)**2)

    def step(state, _):
        prev, now = state
        new = 2 * now - prev + 0.25 * jnp.convolve(now, kernel, mode="same")
        new = new.at[jnp.array([0, -1])].set(0.)
        return (now, new), new[7]
    return jax.lax.scan(step, (u0, u0), None, 6)


def n_body_gravity(jax):
    jnp = jax.numpy
    q = jnp.array([[0., 0.], [1., 0.], [0., 2.]])
    m = jnp.array([1., .5, .25])

    def potential(q):
        d = q[:, None] - q[None]
        r = jnp.sqrt(jnp.sum(d**2, -1) + jnp.eye(3))
        return -jnp.sum(jnp.triu(m[:, None] * m / r, k=1))
    force = -jax.grad(potential)(q)
    return potential(q), force, force.sum(0), jnp.cross(jnp.pad(q, ((0, 0), (0, 1))), force[:, [0, 1, 1]])


def lennard_jones_with_periodic_box(jax):
    jnp = jax.numpy
    box = 3.0
    R = jnp.array([[.1, .2], [1.3, .2], [.3, 2.9], [2., 1.5]])

    def displacement(a, b):
        d = a - b
        return d - box * jnp.round(d / box)
    pairwise = jax.vmap(jax.vmap(displacement, (None, 0)), (0, None))

    def energy(R):
        i, j = jnp.triu_indices(4, 1)
        r2 = jnp.sum(pairwise(R, R)[i, j]**2, axis=-1)
        s6 = (1 / r2)**3
        return jnp.sum(4 * (s6**2 - s6) * (r2 < 4))
    return energy(R), jax.grad(energy)(R), jnp.mod(R - 1, box), jnp.fmod(R - 1, box)


def verlet_neighbours(jax):
    jnp = jax.numpy
    x = jnp.array([0., .4, .9, 2., 2.2])
    near = (jnp.abs(x[:, None] - x) < 0.6) & ~jnp.eye(5, dtype=bool)
    i, j = jnp.nonzero(near, size=8, fill_value=-1)
    return i, j, near.sum(axis=1), jnp.argwhere(near, size=3), jnp.count_nonzero(near, axis=0), jnp.flatnonzero(near[0])


def ising_checkerboard(jax):
    jnp, random = jax.numpy, jax.random
    n = 6
    spins = random.rademacher(random.PRNGKey(0), (n, n))
    mask = jnp.indices((n, n)).sum(0) % 2

    def half_sweep(spins, inputs):
        key, parity = inputs
        neighbours = sum(jnp.roll(spins, s, a) for s in (-1, 1) for a in (0, 1))
        flip = random.uniform(key, spins.shape) < jnp.exp(-2 * 0.4 * spins * neighbours)
        spins = jnp.where((mask == parity) & flip, -spins, spins)
        return spins, spins.mean()
    return jax.lax.scan(half_sweep, spins, (random.split(random.PRNGKey(1), 4), jnp.array([0, 1, 0, 1])))


def game_of_life_by_convolution(jax):
    jnp = jax.numpy
    board = jnp.zeros((8, 8), jnp.int32).at[jnp.array([1, 2, 3, 3, 3]), jnp.array([2, 3, 1, 2, 3])].set(1)

    @jax.jit
    def life(b):
        n = jax.scipy.signal.convolve2d(b, jnp.ones((3, 3), b.dtype), mode="same", boundary="fill") - b
        return ((n == 3) | ((b == 1) & (n == 2))).astype(b.dtype)
    for _ in range(4):
        board = life(board)
    return board, jnp.argwhere(board), board.dtype


def game_of_life_by_reduce_window(jax):
    jnp, lax = jax.numpy, jax.lax
    b = jnp.asarray([[0, 1, 0], [0, 1, 0], [0, 1, 0]], dtype=jnp.uint8)
    wrapped = jnp.pad(b, 1, mode="wrap")
    n = lax.reduce_window(wrapped, jnp.uint8(0), lax.add, (3, 3), (1, 1), "VALID") - b
    return jnp.logical_or(n == 3, jnp.logical_and(b, n == 2)).astype(jnp.uint8), n


def rule_110(jax):
    jnp = jax.numpy
    table = jnp.array([int(c) for c in format(110, "08b")[::-1]], dtype=jnp.uint8)

    def step(row, _):
        code = 4 * jnp.roll(row, 1) + 2 * row + jnp.roll(row, -1)
        new = table[code]
        return new, new
    return jax.lax.scan(step, jnp.zeros(16, jnp.uint8).at[-2].set(1), None, length=6)


def gray_scott(jax):
    jnp = jax.numpy
    kernel = jnp.array([[.05, .2, .05], [.2, -1, .2], [.05, .2, .05]])
    u, v = jnp.ones((8, 8)), jnp.zeros((8, 8)).at[3:5, 3:5].set(.5)

    def step(state, _):
        u, v = state
        lap = lambda a: jax.lax.conv_general_dilated(jnp.pad(a, 1, mode="wrap")[None, None], kernel[None, None],
                                                     (1, 1), "VALID")[0, 0]
        uvv = u * v * v
        return (u + .2 * lap(u) - uvv + .04 * (1 - u), v + .1 * lap(v) + uvv - .1 * v), v.mean()
    return jax.lax.scan(step, (u, v), None, length=3)


def random_walks_and_first_passage(jax):
    jnp, random = jax.numpy, jax.random
    steps = 2 * random.bernoulli(random.PRNGKey(1), 0.5, (4, 20)) - 1
    paths = jnp.cumsum(steps, axis=1)
    hit = jnp.abs(paths) >= 3
    first = jnp.where(hit.any(1), jnp.argmax(hit, axis=1), -1)
    return paths[:, -1], first, steps.dtype, jax.lax.cummax(paths, axis=1)[:, -1]


def logistic_map_and_lyapunov(jax):
    jnp = jax.numpy
    f = lambda r, x: r * x * (1 - x)

    def exponent(r):
        def body(carry, _):
            x, total = carry
            dx = jax.grad(f, argnums=1)(r, x)
            return (f(r, x), total + jnp.log(jnp.abs(dx) + 1e-12)), None
        return jax.lax.scan(body, (0.3, 0.), None, length=6)[0][1] / 6
    return jax.vmap(exponent)(jnp.array([2.5, 3.2, 3.9]))


def adaptive_step_in_a_while_loop(jax):
    jnp, lax = jax.numpy, jax.lax
    f = lambda t, y: -2 * t * y

    def body(s):
        t, y, h, n = s
        h = jnp.minimum(h, 1 - t)
        euler, k = y + h * f(t, y), f(t, y)
        heun = y + h / 2 * (k + f(t + h, euler))
        error = jnp.abs(heun - euler)
        ok = error < 1e-2
        return jnp.where(ok, t + h, t), jnp.where(ok, heun, y), jnp.where(ok, h * 1.5, h * .5), n + 1
    return lax.while_loop(lambda s: s[0] < 1.0, body, (0.0, 1.0, 0.5, 0))


def gradient_through_simulation(jax):
    jnp = jax.numpy

    def landing(v0, drag):
        def step(s, _):
            x, v = s
            return (x + .1 * v, v - .1 * (drag * v * jnp.abs(v) + jnp.array([0., 9.8]))), None
        step = jax.checkpoint(step)
        (x, _), _ = jax.lax.scan(step, (jnp.zeros(2), v0), None, length=5)
        return x[0]
    return jax.grad(landing, argnums=(0, 1))(jnp.array([3., 4.]), 0.1), jax.jvp(
        lambda d: landing(jnp.array([3., 4.]), d), (0.1,), (1.0,))


def lattice_boltzmann_streaming(jax):
    jnp = jax.numpy
    c = jnp.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])
    f = jnp.arange(5 * 9.).reshape(5, 3, 3) / 45
    streamed = jax.vmap(lambda f, c: jnp.roll(f, (c[0], c[1]), (0, 1)))(f, c)
    rho = streamed.sum(0)
    u = jnp.tensordot(c.T, streamed, axes=1) / rho
    return rho, u, jnp.einsum("qd,dxy->qxy", c, u)


def kuramoto(jax):
    jnp = jax.numpy
    theta = jnp.linspace(0, 6, 5)
    step = lambda th, w: (th + .1 * (w + jnp.sin(th[None] - th[:, None]).mean(1)), jnp.abs(jnp.exp(1j * th).mean()))
    theta, order = jax.lax.scan(step, theta, jnp.ones((4, 5)) * jnp.arange(5))
    return jnp.unwrap(theta), order, jnp.angle(jnp.exp(1j * theta))

"""Filters of images and signals."""


def sobel_edges(jax):
    jnp = jax.numpy
    image = jnp.zeros((6, 6)).at[:, 3:].set(1.)
    kx = jnp.array([[-1., 0, 1], [-2, 0, 2], [-1, 0, 1]])
    conv = lambda k: jax.scipy.signal.correlate2d(image, k, mode="valid")
    gx, gy = conv(kx), conv(kx.T)
    return jnp.hypot(gx, gy), jnp.degrees(jnp.arctan2(gy, gx)), jnp.gradient(image)[1]


def gaussian_blur_separable(jax):
    jnp = jax.numpy
    t = jnp.arange(-2, 3)
    k = jnp.exp(-t**2 / 2.)
    k /= k.sum()
    image = jnp.eye(7)
    blur = lambda r: jnp.convolve(jnp.pad(r, 2, mode="edge"), k, mode="valid")
    return jax.vmap(blur, 1, 1)(jax.vmap(blur)(image)), jnp.apply_along_axis(blur, 0, image)[0]


def morphology_by_windows(jax):
    jnp, lax = jax.numpy, jax.lax
    image = (jnp.arange(25).reshape(5, 5) % 7 == 0).astype(jnp.int32)
    dilated = lax.reduce_window(image, -2**31, lax.max, (3, 3), (1, 1), "SAME")
    eroded = lax.reduce_window(dilated, jnp.iinfo(jnp.int32).max, lax.min, (3, 3), (1, 1), ((1, 1), (1, 1)))
    return (dilated, eroded, dilated - image, lax.reduce_window(image, 0, lax.add, (2, 2), (2, 2), "VALID",
                                                                window_dilation=(2, 2)))


def resize_and_warp(jax):
    jnp = jax.numpy
    image = jnp.arange(12.).reshape(3, 4)
    rows, cols = jnp.meshgrid(jnp.linspace(0, 2, 3), jnp.linspace(0, 3, 4), indexing="ij")
    warped = jax.scipy.ndimage.map_coordinates(image, [rows + .5, cols - .3], order=1, mode="nearest")
    return ([jax.image.resize(image, (6, 2), m) for m in ("nearest", "linear", "cubic", "lanczos3")], warped,
            jax.image.scale_and_translate(image, (3, 4), (0, 1), jnp.array([.5, 1.]), jnp.zeros(2), "bilinear",
                                          antialias=False))


def histogram_equalisation(jax):
    jnp = jax.numpy
    image = (jnp.arange(36) ** 2 % 256).astype(jnp.uint8).reshape(6, 6)
    counts = jnp.bincount(image.ravel(), length=256)
    cdf = jnp.cumsum(counts)
    lut = jnp.round((cdf - cdf.min()) / (cdf[-1] - cdf.min()) * 255).astype(jnp.uint8)
    return lut[image], jnp.take(lut, image, axis=0).dtype, jnp.mean(image), image.max() - image.min()


def colour_spaces(jax):
    jnp = jax.numpy
    rgb = jnp.array([[.2, .4, .6], [1., 0., 0.], [.5, .5, .5]])
    top, low = rgb.max(-1), rgb.min(-1)
    hue = jnp.select([top == low, top == rgb[:, 0], top == rgb[:, 1]], [jnp.zeros(3),
                                                                        (rgb[:, 1] - rgb[:, 2]) / (top - low) % 6,
                                                                        (rgb[:, 2] - rgb[:, 0]) / (top - low) + 2],
                     (rgb[:, 0] - rgb[:, 1]) / (top - low) + 4)
    linear = jnp.where(rgb <= .04045, rgb / 12.92, ((rgb + .055) / 1.055)**2.4)
    return 60 * hue, linear, rgb @ jnp.array([.299, .587, .114]), (rgb * 255).astype(jnp.uint8)


def patches_and_unfold(jax):
    jnp, lax = jax.numpy, jax.lax
    x = jnp.arange(16.).reshape(1, 1, 4, 4)
    patches = lax.conv_general_dilated_patches(x, (2, 2), (2, 2), "VALID")
    by_reshape = x.reshape(2, 2, 2, 2).transpose(0, 2, 1, 3).reshape(4, 4)
    return (patches.shape, patches[0, :, 0, 0], by_reshape, lax.conv_general_dilated_local(x,
                                                                                           jnp.ones((1, 4,
                                                                                                     4)).reshape(1, 4,
                                                                                                                 2, 2),
                                                                                           (2, 2), "VALID", (2, 2)))


def short_time_fourier_transform(jax):
    jnp, signal = jax.numpy, jax.scipy.signal
    t = jnp.arange(64) / 64
    x = jnp.sin(2 * jnp.pi * 8 * t)
    frames = x[jnp.arange(0, 49, 8)[:, None] + jnp.arange(16)]
    spectrum = jnp.abs(jnp.fft.rfft(frames * jnp.hanning(16), axis=-1))
    f, _, Z = signal.stft(x, nperseg=16)
    return (spectrum, f, Z.shape, signal.welch(x, nperseg=32)[1], signal.detrend(x + t),
            signal.fftconvolve(x[:5], x[:3], mode="full"))


def transforms_of_every_kind(jax):
    jnp, fft = jax.numpy, jax.numpy.fft
    x = jnp.arange(8.) % 3
    return (fft.fft(x), fft.ifft(x, norm="ortho"), fft.rfft(x, n=6), fft.irfft(fft.rfft(x), n=8), fft.hfft(x),
            fft.ihfft(x), fft.rfft2(x.reshape(2, 4)), fft.fftn(x.reshape(2, 2, 2), axes=(0, 2)),
            fft.irfftn(fft.rfftn(x.reshape(2, 4))), fft.ifftshift(x), jax.scipy.fft.dct(x, norm="ortho"),
            jax.scipy.fft.idct(x),
            jax.lax.fft(x.astype(complex), "fft", (8,)), jax.lax.fft(x, "rfft", (8,)))


def recursive_filter(jax):
    jnp = jax.numpy
    b, a = jnp.array([.1, .2]), jnp.array([1., -.7])
    x = jnp.ones(6)

    def step(state, v):
        y = b[0] * v + state
        return b[1] * v - a[1] * y, y
    forward = jax.lax.scan(step, 0., x)[1]
    backward = jax.lax.scan(step, 0., forward[::-1])[1][::-1]
    w = jnp.linspace(0, jnp.pi, 4)
    response = jnp.polyval(b[::-1], jnp.exp(-1j * w)) / jnp.polyval(a[::-1], jnp.exp(-1j * w))
    return forward, backward, jnp.abs(response), 20 * jnp.log10(jnp.abs(response))


def windows_and_interpolation(jax):
    jnp = jax.numpy
    x, y = jnp.array([0., 1., 3.]), jnp.array([1., 2., 0.])
    new = jnp.array([-1., .5, 2., 4.])
    grid = jax.scipy.interpolate.RegularGridInterpolator((x, x), jnp.outer(y, y))
    return (jnp.blackman(5), jnp.bartlett(5), jnp.kaiser(5, 3.), jnp.interp(new, x, y, left=-9., right="extrapolate"),
            jnp.interp(new, x, y, period=4.), grid(jnp.array([[.5, 2.]])), jax.scipy.integrate.trapezoid(y, x))


def spectral_peaks(jax):
    jnp, lax = jax.numpy, jax.lax
    x = jnp.cos(2 * jnp.pi * 3 * jnp.arange(32) / 32) + .5 * jnp.cos(2 * jnp.pi * 7 * jnp.arange(32) / 32)
    power = jnp.abs(jnp.fft.rfft(x))**2
    peak = (power[1:-1] > power[:-2]) & (power[1:-1] > power[2:]) & (power[1:-1] > 1)
    return (jnp.flatnonzero(peak, size=3, fill_value=-1) + 1, lax.top_k(power, 2), jnp.argmax(power),
            jax.scipy.signal.correlate(x[:4], x[:2]), jnp.sinc(jnp.linspace(-1, 1, 3)))

"""`xjax.numpy.fft` and the cosine transforms of `xjax.scipy.fft`."""

from __future__ import annotations

from tests.values.row import rows

REAL = ("f4[6]", "f8[2,5]", "i4[4]", "b1[3]")
COMPLEX = ("c8[6]", "c16[2,5]", "f4[4]", "i4[3]")
BOXES = ("f4[2,3,4]", "f8[3,1,2]", "i4[2,2,3]")
COMPLEX_BOXES = ("c8[2,3,4]", "c16[3,1,2]", "f4[2,2,3]")
D, DD = ("f8[2,5]",), ("f8[2,3,4]",)
NORMS = (None, "backward", "ortho", "forward")


def _one_axis(f, x):
    """Every option, each in some call."""
    return [*[f(x, norm=norm) for norm in NORMS], f(x, 4), f(x, n=9), f(x, 3, 0), f(x, axis=0, norm="ortho"), f(x,
            1 + x.ndim)]


def _several_axes(f, x):
    return [*[f(x, norm=norm) for norm in NORMS], f(x, (4, 3)), f(x, s=(3, 5), axes=(0, 2)), f(x, axes=(1, 0)),
            f(x, (2, 4), (-1, 0), "ortho")]


def _of_sizes(f, x):
    return [*[f(x, 2, n) for n in (1, 5, 8)], f(x, 2, norm="ortho"), f(x, type=2, axis=0), f(x, 2, None, -1, "ortho")]


def _of_all_sizes(f, x):
    return [f(x), f(x, 2, norm="ortho"), f(x, 2, (5, 2), (0, 1)), f(x, axes=(1,)), f(x, 2, s=(3,), axes=(-1,),
            norm="ortho")]


ROWS = [
    *rows("numpy.fft", "fft ifft", *COMPLEX, "b1[3]", grad=(*D, "c16[3]"), call=_one_axis),
    *rows("numpy.fft", "rfft ihfft", *REAL, grad=D, call=_one_axis),
    *rows("numpy.fft", "irfft hfft", *COMPLEX, grad=("f8[2,5]", "c16[4]"), call=_one_axis),
    *rows("numpy.fft", "fft2 ifft2 fftn ifftn", *COMPLEX_BOXES, grad=DD, call=_several_axes),
    *rows("numpy.fft", "rfft2 rfftn", *BOXES, grad=DD, call=_several_axes),
    *rows("numpy.fft", "irfft2 irfftn", *COMPLEX_BOXES[:1], "c16[3,2,4]", "f4[2,2,3]", grad=("c16[2,3,4]",),
          call=_several_axes),
    *rows("numpy.fft", "fftn rfftn ifftn irfftn", "f8[2,1,2,3]", id="of many axes", call=lambda f, x: f(x)),
    *rows("numpy.fft", "fft ifft", "c16[3]:edges", id="at the edges", call=lambda f, x: f(x)),
    *rows("numpy.fft", "fftfreq rfftfreq", "",
          call=lambda f: [*[f(n) for n in (1, 2, 5, 8)], f(6, 0.5), f(7, d=2), f(4, d=-0.25)]),
    *rows("numpy.fft", "fftshift ifftshift", "f4[2,3,4]:wide", "i4[3,5]", "c8[2,0]", "b1[1,4]", grad=DD,
          call=lambda f, x: (f(x), f(x, 0), f(x, axes=-1), f(x, (0, 1)))),
    *rows("scipy.fft", "dct idct", "f4[6]", "f8[2,5]", "f4[3,4]", "f8[1]", grad=D, call=_of_sizes),
    *rows("scipy.fft", "dctn idctn", "f4[2,3]", "f8[4,2]", "f4[3,1]", grad=("f8[2,3]",), call=_of_all_sizes),]

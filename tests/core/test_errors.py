"""Error messages: their form, their classes, and the search for the user's line."""

import functools
import sys
import textwrap
import warnings

from tests.oracle import real_jax
from xjax.core import errors
from xjax.core.errors import bad, did_you_mean, user_frame


def define(source, file, names):
    """Run a source text as if it were the content of `file`."""
    exec(compile(source, file, "exec"), names)


def test_form_of_a_message():
    error = bad("lax.dot", "sizes differ", {"lhs": "f32[2]", "longer": "f32[3]"}, "transpose.")
    assert isinstance(error, TypeError)
    assert str(error) == textwrap.dedent("""\
        lax.dot: sizes differ.
          lhs     f32[2]
          longer  f32[3]
          fix: transpose.""")


def test_given_may_be_lines_and_class_is_free():
    error = bad("scan", "is it so?", ["first", "second\nthird"], exc=ValueError)
    assert type(error) is ValueError
    assert str(error) == "scan: is it so?\n  first\n  second\n  third"
    assert str(bad("", "no place")) == "no place."


def test_values_are_shown_by_type():
    class Aval:
        def str_short(self):
            return "f32[3]"

    class Array:
        aval = Aval()

    values = {"aval": Aval(), "array": Array(), "number": 3, "long": list(range(1000))}
    text = str(bad("f", "x", values))
    assert "aval    f32[3]" in text
    assert "array   f32[3]" in text
    assert "number  3" in text
    assert len(text) < 200
    assert "..." in text


def test_classes_are_related_as_in_jax():
    theirs = real_jax().errors
    names = {name for name in dir(theirs) if isinstance(getattr(theirs, name), type)}
    # The checker of JAX's own jaxprs is not part of this library.
    # JaxRuntimeError is jaxlib's own class, in both libraries.
    ours = names - {"JaxprTypeError", "JaxRuntimeError"}
    for name in ours:
        bases = [base.__name__ for base in getattr(theirs, name).__mro__]
        classes = [base.__name__ for base in getattr(errors, name).__mro__]
        assert classes == [base for base in bases if base != "_JAXErrorMixin"], name
    assert errors.EscapedTracerError is errors.UnexpectedTracerError
    assert issubclass(errors.TypePromotionError, ValueError)


def test_did_you_mean():
    assert did_you_mean("retrun", ["return", "yield"]) == "did you mean 'return'?"
    assert did_you_mean("zzz", ["return", "yield"]) is None


def test_user_frame_is_the_caller():
    file, line, function = user_frame()
    assert file == __file__
    assert function == "test_user_frame_is_the_caller"
    assert line == sys._getframe().f_lineno - 3


def test_user_frame_skips_ours_and_the_standard_library():
    ours = {"user_frame": user_frame, "functools": functools}
    source = "def reduce():\n    return functools.reduce(lambda a, b: user_frame(), [0, 1])\n"
    define(source, errors.__file__.replace("errors.py", "made_up.py"), ours)
    assert ours["reduce"]()[2] == "test_user_frame_skips_ours_and_the_standard_library"
    for name in ("xnn", "recipes"):
        define(source, errors.__file__.replace("xjax", name), ours)
        assert ours["reduce"]()[0] == __file__
    theirs = dict(ours)
    file = f"{functools.__file__.replace('functools.py', '')}site-packages/lib/__init__.py"
    define(source, file, theirs)  # a third party's library is the user's code
    assert theirs["reduce"]()[0] == file


def test_warning_points_at_the_users_line():
    ours = {"warn": errors.warn}
    define("def f():\n    warn('look')\n", errors.__file__, ours)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            ours["f"]()
    assert [w.filename for w in caught] == [__file__]  # one warning for this line
    assert caught[0].lineno == sys._getframe().f_lineno - 2
    assert str(caught[0].message) == "look"

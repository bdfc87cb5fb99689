"""The watch over compilations reports a compilation that hangs, and is silent about others."""

import os
import threading
import time

import xjax
from tests.compile_watch import CompileWatch
from xjax.core.config import Override


def test_a_long_compilation_is_printed_once():
    reading, writing = os.pipe()
    compile_ = CompileWatch(writing, limit=0.2).watched(lambda client, text, seconds: time.sleep(seconds) or text)
    assert compile_(None, "module @quick {}", 0) == "module @quick {}"
    compile_(None, "module @slow {}", 0.8)
    os.close(writing)
    said = os.read(reading, 10_000).decode()
    os.close(reading)
    assert said.count("module @slow") == 1 and "@quick" not in said
    assert "test_a_long_compilation_is_printed_once" in said and "0.2 s" in said


def test_programs_of_tests_are_watched():
    with Override("enable_compilation_cache", False):
        xjax.jit(lambda x: x * 3.5).lower(1.0).compile()
    assert "compile watch" in {thread.name for thread in threading.enumerate()}

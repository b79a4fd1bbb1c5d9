"""The marks and fixtures of the contract tests. A test marked `forked` has a process of its own; see forked.py."""

import signal

import forked
import launch
import pytest

SECONDS = 60  # for one test; the slowest takes a few


def pytest_configure(config):
    config.addinivalue_line("markers", "forked(seconds): the body runs in a fork of this process")
    # A shell starts what is to run in its background with interrupts ignored, which programs would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "stable(reason): makes sense, or is granted, under the stable binding only")


def pytest_runtest_setup(item):
    mark = item.get_closest_marker("stable")
    if mark is not None and not launch.STABLE:
        pytest.skip(f"stable binding only: {mark.args[0]}")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    mark = pyfuncitem.get_closest_marker("forked")
    if mark is None:
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    forked.run(lambda: pyfuncitem.obj(**arguments), mark.kwargs.get("seconds", SECONDS))
    return True


@pytest.fixture
def spill(tmp_path):
    """A directory for spill files, which must be empty again when the test is over."""
    folder = tmp_path / "spill"
    folder.mkdir()
    yield str(folder)
    assert list(folder.iterdir()) == []


@pytest.fixture(scope="session")
def server():
    """Starts programs, each in a process of its own that ends as any Python program ends."""
    server = launch.ProgramServer()
    yield server
    server.stop()

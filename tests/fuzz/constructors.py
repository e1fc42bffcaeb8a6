"""Every public function and class, called with nonsense: an error that says so, soon, and in little memory.

What is public is read from the `__all__` of the root and of its rooms, so that a new name joins by itself.
"""

import inspect
import os
import reprlib
import tempfile
import warnings
from contextlib import contextmanager

import opendp.prelude as dp
from opendp.mod import OpenDPException, UnknownTypeException

import opendp_tree as ot
from tests.fuzz import Violation, case_random, reported
from tests.fuzz.limits import HANGS, SECONDS, limited
from tests.fuzz.nonsense import NUMBERS, made, nonsense, sensible

ALLOWED = (TypeError, ValueError, OpenDPException, UnknownTypeException)
FILES = ("Ledger", "frame_context", "read_source", "release_tree", "write_html", "write_image")
"""These read or write a file that is named by an argument, which may raise OSError."""
SEARCHES = (
    *("choose_level_weights", "smallest_epsilon"),
    *("make_multiplicative_estimator", "then_multiplicative_estimator"),
)
"""These look at many plans, or make up to 10,000 classifiers: they may take longer than a second."""


def fuzz(seed, cases):
    """Call public functions and classes with arguments, many of which are nonsense."""
    callables = targets()
    with a_folder_of_its_own():
        for case in range(cases):
            random = case_random(seed, case)
            with reported(seed, case):
                attempt(*random.choice(callables), random)
    return cases


@contextmanager
def a_folder_of_its_own():
    """Files of any name may be written."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(here)


def targets():
    """What can be called: functions, classes, and the class methods of classes."""
    made()  # imports what is imported late, which takes time
    found = []
    rooms = [ot, *(getattr(ot, room) for room in ot._SUBMODULES)]
    for name, value in {name: getattr(room, name) for room in rooms for name in room.__all__}.items():
        if inspect.isclass(value) and issubclass(value, Exception):
            continue
        found.append((name, value))
        if inspect.isclass(value):
            methods = [method for method, kind in vars(value).items() if isinstance(kind, classmethod)]
            found += [(f"{name}.{method}", getattr(value, method)) for method in methods if method[0] != "_"]
    return found


def attempt(name, target, random):
    """One call and the use of its result: a partial is completed, a map is called."""
    given, options = arguments(target, random)
    words = f"{name}({', '.join([*map(shown, given), *(f'{key}={shown(value)}' for key, value in options.items())])})"
    try:
        with warnings.catch_warnings(), limited(words, seconds=HANGS if name in SEARCHES else SECONDS):
            warnings.simplefilter("ignore", ot.paper.AccuracyWarning)
            found = target(*given, **options)
            if name.startswith("then_") and name != "then_consistent":
                found = (sensible("input_domain", random), sensible("input_metric", random)) >> found
            if isinstance(found, (dp.Measurement, dp.Transformation)):
                found.map(random.choice((1, 2, nonsense(random))))
    except ALLOWED as error:
        if "panicked" in str(error):
            raise Violation(f"{words}: {error}") from error
    except Violation:
        raise
    except BaseException as error:
        if not (isinstance(error, OSError) and name.startswith(FILES)):
            raise Violation(f"{words}: {type(error).__name__}: {error}") from error


def shown(value):
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes no integers of more than 4300 digits
        return type(value).__name__


def arguments(target, random):
    """Positional and named arguments: some are nonsense, some are left out, and rarely there is one too many."""
    given, options = [], {}
    hostility = random.choice((0.1, 0.3, 1.0))
    for parameter in inspect.signature(target).parameters.values():
        optional = parameter.default is not parameter.empty
        if parameter.kind is parameter.VAR_KEYWORD or (optional and random.random() < 0.6):
            continue
        value = sensible(parameter.name, random)
        if value is None or random.random() < hostility:
            # Where a number belongs, numbers come furthest.
            number = isinstance(value, (int, float)) and random.random() < 0.7
            value = random.choice(NUMBERS) if number else nonsense(random)
        if parameter.kind is parameter.VAR_POSITIONAL:
            given += [value, *(nonsense(random) for _ in range(random.randrange(3)))]
        else:
            options[parameter.name] = value
    if random.random() < 0.01:
        options["no_such_argument"] = 1
    return given, options

# Runs the project's tests as `python3 -m unittest` or `python3 -m pytest` would, and tells what each did on a pipe of
# its own. Started as `python3 -c SOURCE`. Everything lives in functions: `import __main__` finds no secret.
import sys


def outside():
    """Takes the repository off the import path, so that none of its files stands in for the framework."""
    import os

    here, path = os.getcwd(), list(sys.path)

    def foreign(entry):
        inside = os.path.realpath(entry or ".").startswith(here)
        return not inside or "site-packages" in entry or "dist-packages" in entry

    sys.path[:] = [entry for entry in path if foreign(entry)]
    # As `python3 -m` has it.
    return [here] + (path[1:] if path[:1] == [""] else path)


def reporter(fd, secret):
    import os
    from json import dumps

    write, getpid, pid = os.write, os.getpid, os.getpid()

    def say(*what):
        # A forked copy of this process is not the one that runs the tests.
        if getpid() != pid:
            return
        data = (secret + " " + dumps(what) + "\n").encode()
        while data:
            data = data[write(fd, data) :]

    return say


def watch(classes, modules):
    """A function that names what was replaced since: methods of these classes, functions of these modules, built-ins."""
    import builtins

    own = {"_", "print", "open", "input", "__import__", "exit", "quit", "copyright", "credits", "license", "help", "breakpoint"}
    kinds = (property, classmethod, staticmethod)

    def state():
        found = {}
        for owner in classes + modules:
            for name, value in list(vars(owner).items()):
                if callable(value) or isinstance(value, kinds):
                    found[getattr(owner, "__qualname__", owner.__name__) + "." + name] = value
        for name, value in list(vars(builtins).items()):
            if name not in own:
                found["builtins." + name] = value
        found["sys.settrace"] = sys.gettrace()
        found["sys.setprofile"] = sys.getprofile()
        return found

    before = state()

    def replaced():
        now = state()
        return [name for name, value in before.items() if now.get(name) is not value]

    return replaced


def always_equal(value, test):
    """Does it compare equal to things it has never seen? `mock.ANY` and classes of the test itself may."""
    kind = type(value)
    if kind.__module__ in ("builtins", "unittest.mock", type(test).__module__):
        return False
    try:
        return all((value == probe) is True for probe in (object(), type("Probe", (), {})()))
    except Exception:
        return False


def sentinels(classes, case, result):
    """Tests that must fail, of the classes that the project's tests have. Returns those that did not."""
    bodies = {
        "assertEqual": lambda self: self.assertEqual(1, 2),
        "assertRaises": lambda self: self.assertRaises(KeyError, int),
        "assertTrue": lambda self: self.assertTrue(False),
        "fail": lambda self: self.fail("planted"),
    }
    if __debug__:
        def plain(self):
            assert [1] == [2]

        bodies["assert"] = plain

    def nothing(self):
        pass

    silent = []
    for kind in [case.TestCase] + classes[:100]:
        for name, body in bodies.items():
            fields = {"setUp": nothing, "tearDown": nothing, "runTest": body, "__module__": kind.__module__}
            fields.update({"__unittest_skip__": False, "__unittest_expecting_failure__": False})
            try:
                planted = type("Sentinel", (kind,), fields)("runTest")
            except Exception:
                continue
            outcome = result.TestResult()
            planted.run(outcome)
            if not (outcome.failures or outcome.errors):
                silent.append(f"{kind.__module__}.{kind.__qualname__}.{name}")
    return silent


def flat(suite):
    try:
        parts = list(suite)
    except TypeError:
        return [suite]
    return [test for part in parts for test in flat(part)]


def listed(path, name, joint):
    """The tests of a file that cannot be imported, by reading it."""
    import ast

    with open(path, "rb") as file:
        tree = ast.parse(file.read())
    cases, ids = set(), []

    def methods(node):
        found = [part.name for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]
        return [method for method in found if method.startswith("test")]

    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = [getattr(base, "attr", getattr(base, "id", "")) for base in node.bases]
            if any(base.endswith("TestCase") or base in cases for base in bases):
                cases.add(node.name)
                ids += [joint.join((name, node.name, method)) for method in methods(node)]
    return ids


def test_function(test):
    """The function that a test is, as the class has it now."""
    name = getattr(test, "_testMethodName", None)
    for kind in type(test).__mro__:
        if name in vars(kind):
            value = vars(kind)[name]
            return value, getattr(value, "__code__", None)
    return None


def load_unittest(args, case):
    import unittest

    class Program(unittest.TestProgram):
        def runTests(self):
            pass

    return Program(module=None, argv=["python -m unittest"] + args, exit=False)


def missing(tests, say):
    """What a module that cannot be imported would have brought."""
    import os

    for test in tests:
        if type(test).__name__ != "_FailedTest":
            continue
        name = test._testMethodName
        say("unloadable", name)
        for root in [os.getcwd()] + sys.path[:2]:
            path = os.path.join(root, *name.split(".")) + ".py"
            if os.path.isfile(path):
                try:
                    say("expected", listed(path, name, "."))
                except (SyntaxError, ValueError, OSError):
                    pass
                break


def reporting(say, replaced):
    """A result that prints as unittest does and tells how each test ended."""
    import unittest

    class Result(unittest.TextTestResult):
        def startTest(self, test):
            self.state = None
            super().startTest(test)

        state = None

        def note(self, state):
            # The first thing that is not a success stays.
            if self.state in (None, "pass"):
                self.state = state

        def addSuccess(self, test):
            self.note("pass")
            super().addSuccess(test)

        def addFailure(self, test, error):
            self.note("fail")
            super().addFailure(test, error)

        def addError(self, test, error):
            self.note("error")
            if not hasattr(test, "_testMethodName"):
                say("broken", test.id())
            super().addError(test, error)

        def addSkip(self, test, reason):
            self.note("skip")
            if not hasattr(test, "_testMethodName"):
                # A fixture of a class or a module: none of its tests will run.
                say("left", test.id())
            super().addSkip(test, reason)

        def addExpectedFailure(self, test, error):
            self.note("xfail")
            super().addExpectedFailure(test, error)

        def addUnexpectedSuccess(self, test):
            self.note("xpass")
            super().addUnexpectedSuccess(test)

        def addSubTest(self, test, subtest, error):
            if error is not None:
                self.note("fail")
            super().addSubTest(test, subtest, error)

        def stopTest(self, test):
            super().stopTest(test)
            for name in replaced():
                say("replaced", name)
            say("ran", test.id(), self.state or "nothing")

    return Result


def run_unittest(say, args, path):
    import unittest
    from unittest import case, loader, result, runner, suite

    equality = case.TestCase._getAssertEqualityFunc

    def probing(self, first, second):
        for value in (first, second):
            if always_equal(value, self):
                raise self.failureException(f"{type(value).__qualname__} compares equal to anything")
        return equality(self, first, second)

    case.TestCase._getAssertEqualityFunc = probing
    classes = [case.TestCase, result.TestResult, runner.TextTestResult, suite.TestSuite, suite.BaseTestSuite]
    replaced = watch(classes + [loader.TestLoader, case._AssertRaisesContext, case._Outcome], [case, result, runner, suite])
    sys.path[:] = path
    say("began")
    program = load_unittest(args, case)
    tests = flat(program.test)
    kinds = []
    for test in tests:
        if type(test) not in kinds and type(test).__name__ not in ("_FailedTest", "ModuleSkipped"):
            kinds.append(type(test))
    functions = [(test, test_function(test)) for test in tests]
    say("expected", [test.id() for test in tests if type(test).__name__ != "_FailedTest"])
    missing(tests, say)
    say("silent", sentinels(kinds, case, result))
    texts = unittest.TextTestRunner(
        verbosity=program.verbosity,
        buffer=program.buffer,
        warnings=program.warnings,
        resultclass=reporting(say, replaced),
    )
    outcome = texts.run(program.test)
    for test, was in functions:
        if was != test_function(test):
            say("replaced", test.id())
    say("silent", sentinels(kinds, case, result))
    say("ended")
    return 0 if outcome.wasSuccessful() else 1


def plugin(say, replaced):
    """A plugin of pytest that tells how each test ended, by its exception and not by its report."""
    import pytest

    skipped = pytest.skip.Exception

    class Plugin:
        def __init__(self):
            self.states = {}
            self.planted = None

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, items):
            say("expected", [item.nodeid for item in items])
            # Beside a test function, so that the same fixtures and hooks see it.
            parents = [item for item in items if isinstance(item, pytest.Function) and item.cls is None]
            if parents:
                def planted():
                    assert [1] == [2]

                self.planted = pytest.Function.from_parent(parents[-1].parent, name="planted", callobj=planted)

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtestloop(self, session):
            yield
            if self.planted is not None and session.items:
                from _pytest.runner import runtestprotocol

                # Not logged, so that it counts in no summary.
                runtestprotocol(self.planted, log=False, nextitem=None)
                if self.states.get(self.planted.nodeid) == "pass":
                    say("silent", [self.planted.nodeid])

        def pytest_collectreport(self, report):
            if report.failed:
                say("unloadable", report.nodeid)
                if report.nodeid.endswith(".py"):
                    try:
                        say("expected", listed(report.nodeid, report.nodeid, "::"))
                    except (SyntaxError, ValueError, OSError):
                        pass

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item, call):
            report = (yield).get_result()
            # From the exception itself: a report can be rewritten.
            state = "pass"
            if call.excinfo is not None:
                state = "skip" if call.excinfo.errisinstance(skipped) else "fail"
            if hasattr(report, "wasxfail"):
                state = "xfail" if call.excinfo is not None else "xpass" if call.when == "call" else state
            if self.states.get(item.nodeid, "pass") == "pass":
                self.states[item.nodeid] = state

        @pytest.hookimpl(trylast=True)
        def pytest_runtest_logfinish(self, nodeid):
            for name in replaced():
                say("replaced", name)
            say("ran", nodeid, self.states.pop(nodeid, "nothing"))

    return Plugin()


def run_pytest(say, args, path):
    import unittest
    from unittest import case, result

    try:
        import pytest
    except ImportError:
        say("unavailable", "pytest")
        return 1
    replaced = watch([case.TestCase, result.TestResult, pytest.Item, pytest.Function], [case])
    sys.path[:] = path
    say("began")
    say("silent", sentinels([], case, result))
    status = pytest.main(["-p", "no:cacheprovider"] + args, plugins=[plugin(say, replaced)])
    say("silent", sentinels([], case, result))
    say("ended")
    return int(status)


def main():
    path = outside()
    import json
    import os

    secret, fd, runner, args = json.loads(sys.stdin.readline())
    os.set_inheritable(fd, False)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    sys.argv = ["python -m " + runner] + args
    run = {"unittest": run_unittest, "pytest": run_pytest}[runner]
    return run(reporter(fd, secret), args, path)


sys.exit(main())

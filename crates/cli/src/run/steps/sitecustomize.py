"""Waits for torch's optimizers. `ncclscope run --steps torch` puts the folder of this file on PYTHONPATH, so
each Python of the program runs it before the program's first line.

First the `sitecustomize` runs that Python would have found without this folder, and what it raises is raised
as always. If the program then imports `torch.optim`, `torch_steps.py` beside this file gets the module.

Rule: the program runs as without this file, whatever fails here. Before torch's optimizers, it imports
nothing. PYTHONPATH is for all releases of Python, so the syntax is what all of them read.
"""

import sys

_NAME = "sitecustomize"
_OPTIMIZERS = "torch.optim.optimizer"
_HERE = __file__.rpartition("/")[0]
# Python 2 takes the names away from a module that nobody knows any more.
_OWN = sys.modules.get(_NAME)


def _run_other():
    """Runs the `sitecustomize` that there is without this one, which then has the name."""
    sys.path[:] = [place for place in sys.path if place != _HERE]
    sys.modules.pop(_NAME, None)
    try:
        __import__(_NAME)
    except ImportError as error:
        if getattr(error, "name", _NAME) != _NAME:
            raise
    finally:
        # The import of this file needs a module of the name.
        sys.modules.setdefault(_NAME, _OWN)


def _begin(module):
    try:
        _loaded("torch_steps").begin(module, _loaded("marks"))
    except Exception:
        pass


def _loaded(name):
    """A file beside this one, as a module."""
    full_name = "_ncclscope_" + name
    if full_name not in sys.modules:
        path = _HERE + "/" + name + ".py"
        with open(path) as file:
            # `torch.compile` leaves code of Python's importlib alone, and would compile this one.
            code = compile(file.read(), "<frozen importlib> " + path, "exec")
        module = type(sys)(full_name)
        exec(code, module.__dict__)
        sys.modules[full_name] = module
    return sys.modules[full_name]


class _Loader(object):
    """Loads the module as its own loader does, and then hands it on."""

    def __init__(self, own):
        self._own = own

    def __getattr__(self, name):
        if name == "_own":
            raise AttributeError(name)
        return getattr(self._own, name)

    def create_module(self, spec):
        return self._own.create_module(spec)

    def exec_module(self, module):
        # The module sees no other loader than its own.
        module.__loader__ = module.__spec__.loader = self._own
        self._own.exec_module(module)
        _begin(module)


class _Finder(object):
    """Finds one module, by asking the other finders. It stays: who takes it away disturbs imports of other
    threads.
    """

    _is_asking = False

    def find_spec(self, name, path=None, target=None):
        if name != _OPTIMIZERS or self._is_asking:
            return None
        self._is_asking = True
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find else None
                if spec is not None:
                    if hasattr(spec.loader, "exec_module") and hasattr(spec.loader, "create_module"):
                        spec.loader = _Loader(spec.loader)
                    return spec
        except Exception:
            # Python asks the other finders itself, and says what is wrong.
            pass
        finally:
            self._is_asking = False
        return None


def _wait():
    if sys.version_info < (3, 8):
        return
    # The other `sitecustomize` may have imported torch.
    if _OPTIMIZERS in sys.modules:
        _begin(sys.modules[_OPTIMIZERS])
    sys.meta_path.insert(0, _Finder())


try:
    _run_other()
finally:
    _wait()

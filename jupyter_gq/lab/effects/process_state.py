"""The state that cells set in no variable: random numbers, options of libraries, environment, paths.

A job that takes variables along in place of these cells does not have it. For Python only.

Rules
-----
- As with effects, only what runs when the cell runs counts, and a false alarm is worse than a miss.
- A value that is assigned to an attribute or an item of an imported module is such a state: `torch.backends.cudnn.
  deterministic = True`, `os.environ["MODE"] = "fast"`, or a method that is replaced.
- So is what is set in an object of the process that a variable only names: a logger, the shell, decimal's context.
- A function of a cell sets what its body sets, in each cell that calls it.
- Known functions are listed below, by their full names; nothing is run to find others.

See docs/decisions/0193-tell-what-no-variable-takes-along.md and
docs/decisions/0223-follow-functions-to-what-they-set.md.
"""

import ast
from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

from jupyter_gq.lab.reading.bindings import Function, find_functions
from jupyter_gq.lab.reading.calls import list_calls
from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.reading.full_names import Names
from jupyter_gq.lab.reading.magics import Magic, read_magic
from jupyter_gq.lab.reading.parsing import list_children, list_nodes

#: The bodies of functions as modules, and what modules assign to, for as long as their nodes are kept.
_BODIES: WeakKeyDictionary[Function, ast.Module] = WeakKeyDictionary()
_TARGETS: WeakKeyDictionary[ast.Module, list[ast.expr]] = WeakKeyDictionary()
_SETS = frozenset(
    {
        *("random.seed", "random.setstate", "numpy.random.seed", "numpy.random.set_state", "torch.manual_seed"),
        *("torch.random.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "torch.set_rng_state"),
        *("tensorflow.random.set_seed", "tensorflow.keras.utils.set_random_seed", "keras.utils.set_random_seed"),
        *("transformers.set_seed", "accelerate.utils.set_seed", "lightning.seed_everything"),
        *("lightning.pytorch.seed_everything", "pytorch_lightning.seed_everything"),
        *("torch.set_default_dtype", "torch.set_default_device", "torch.set_default_tensor_type"),
        *("torch.use_deterministic_algorithms", "torch.set_num_threads", "torch.set_float32_matmul_precision"),
        *("torch.cuda.set_device", "torch.set_grad_enabled", "torch.autograd.set_detect_anomaly"),
        *("tensorflow.keras.mixed_precision.set_global_policy", "keras.mixed_precision.set_global_policy"),
        *("tensorflow.keras.backend.set_floatx", "keras.backend.set_floatx", "jax.config.update"),
        *("sklearn.set_config", "pandas.reset_option", "pandas.set_eng_float_format", "scipy.special.seterr"),
        *("numpy.seterr", "numpy.set_printoptions", "torch.set_printoptions", "pandas.set_option"),
        *("matplotlib.use", "matplotlib.rc", "matplotlib.pyplot.rc", "matplotlib.style.use"),
        *("matplotlib.pyplot.style.use", "matplotlib.rcParams.update", "matplotlib.pyplot.rcParams.update"),
        *("matplotlib.rcdefaults", "matplotlib.rc_file", "matplotlib.pyplot.rcdefaults", "matplotlib.pyplot.set_cmap"),
        *("matplotlib_inline.backend_inline.set_matplotlib_formats", "IPython.display.set_matplotlib_formats"),
        *("seaborn.set", "seaborn.set_theme", "seaborn.set_style", "seaborn.set_context", "seaborn.set_palette"),
        *("os.chdir", "os.putenv", "os.environ.update", "os.environ.setdefault", "os.environ.pop"),
        *("sys.path.append", "sys.path.insert", "sys.path.extend", "sys.setrecursionlimit", "dotenv.load_dotenv"),
        *("warnings.filterwarnings", "warnings.simplefilter", "logging.basicConfig", "locale.setlocale"),
        *("warnings.resetwarnings", "logging.disable", "logging.config.dictConfig", "logging.config.fileConfig"),
        *("time.tzset", "os.umask", "socket.setdefaulttimeout", "sys.path.remove", "copyreg.pickle"),
        *("decimal.setcontext", "multiprocessing.set_start_method", "faulthandler.enable"),
    }
)
#: Last names of functions that set all seeds, also those of the user's modules, which are not read here.
_SEEDING = frozenset(
    {"seed_everything", "set_seed", "set_seeds", "set_random_seed", "seed_all", "fix_seed", "setup_seed"}
)
#: Calls that return an object of the process, with its methods that set something. A pickle holds no such object.
_OBJECTS: dict[str, frozenset[str]] = {
    "logging.getLogger": frozenset({"setLevel", "addHandler", "removeHandler", "addFilter"}),
    "get_ipython": frozenset({"for_type", "for_type_by_name", "register", "set_custom_exc"}),
    "decimal.getcontext": frozenset({"clear_traps"}),
}
_SETTING_MAGICS = frozenset({"env", "set_env", "cd", "load_ext", "config", "precision", "alias"})
#: Extensions that change nothing in a job.
_HARMLESS = frozenset({"autoreload"})


def find_process_state(sources: Iterable[str]) -> list[list[str]]:
    """Return for each cell the full names of what it sets, each once; the cells are in the order of their runs."""
    reader = _Reader()
    return [list(dict.fromkeys(reader.read(source))) for source in sources]


class _Reader:
    """The names of the cells that were read, their functions, and their variables that name objects of the process."""

    def __init__(self) -> None:
        self._names = Names()
        self._functions: dict[str, Function] = {}
        #: Calls that made the objects, by the names of the variables.
        self._objects: dict[str, str] = {}

    def read(self, source: str) -> Iterator[str]:
        """Yield what one cell sets; its own names are added to those of the cells before it."""
        tree = parse_cell(source)
        if tree is not None:
            yield from self._read_tree(tree)

    def _read_tree(self, tree: ast.Module) -> Iterator[str]:
        self._names.add(tree)
        self._functions |= find_functions(tree.body)
        for node in list_nodes(tree):
            if isinstance(node, ast.Assign):
                self._note_objects(node)
        yield from self._find(tree, set())

    def _note_objects(self, node: ast.Assign) -> None:
        made = self._spell_object(node.value)
        for target in node.targets if made else ():
            if isinstance(target, ast.Name):
                self._objects[target.id] = made

    def _find(self, tree: ast.Module, called: set[str]) -> Iterator[str]:
        """Yield what this code sets; functions that were `called` are not followed once more."""
        for call in list_calls(tree):
            magic = read_magic(call)
            if magic is not None:
                yield from self._find_in_magic(magic)
                continue
            function = self._functions.get(call.func.id) if isinstance(call.func, ast.Name) else None
            if function is None:
                yield from self._find_in_call(call)
            elif function.name not in called:
                called.add(function.name)
                yield from self._find(_body_of(function), called)
        for target in _list_targets(tree):
            name = self._spell_owner(target)
            if name:
                yield name

    def _find_in_magic(self, magic: Magic) -> Iterator[str]:
        for tree in magic.trees:
            yield from self._read_tree(tree)
        argument = magic.line.strip()
        if (magic.name in _SETTING_MAGICS and argument and argument not in _HARMLESS) or magic.name == "pprint":
            yield f"%{magic.name}"

    def _find_in_call(self, call: ast.Call) -> Iterator[str]:
        """Yield what a call of a function that no cell defines sets."""
        name = self._spell(call.func)
        if name in _SETS or name.rpartition(".")[2] in _SEEDING:
            yield name
        elif name == "setattr" and len(call.args) > 1:
            key = call.args[1]
            named = key.value if isinstance(key, ast.Constant) else ""
            yield from filter(None, [self._spell_owner(ast.Attribute(value=call.args[0], attr=str(named)))])
        elif isinstance(call.func, ast.Attribute):
            owner, shown = self._find_object(call.func)
            if call.func.attr in _OBJECTS.get(owner, ()):
                yield shown

    def _spell_owner(self, target: ast.expr) -> str:
        """Return the full name of the attribute or the items that are set if no variable holds them; else ""."""
        owner = target.value if isinstance(target, ast.Subscript) else target
        if not isinstance(owner, ast.Attribute):
            return ""
        root = _find_root(owner)
        if isinstance(root, ast.Name) and root.id in self._names.modules and root.id not in self._names.own:
            return self._names.spell(owner)
        return self._find_object(owner)[1]

    def _find_object(self, attribute: ast.Attribute) -> tuple[str, str]:
        """Return the call that made the object of the process that this belongs to, and its text; else "" twice."""
        root = _find_root(attribute)
        made = self._objects.get(root.id, "") if isinstance(root, ast.Name) else self._spell_object(root)
        return made, ast.unparse(attribute) if made else ""

    def _spell_object(self, value: ast.expr) -> str:
        """Return the full name of the call, if this is a call that returns an object of the process; otherwise ""."""
        name = self._spell(value.func) if isinstance(value, ast.Call) else ""
        return name if name in _OBJECTS else ""

    def _spell(self, called: ast.expr) -> str:
        """Return the full name of what is called, also if the last `from x import *` has brought it."""
        name = self._names.spell(called)
        starred = self._names.modules.get("*", "*").replace("*", name)
        return starred if starred in _SETS or starred in _OBJECTS else name


def _find_root(attribute: ast.expr) -> ast.expr:
    """Return the expression in front of all attributes and items."""
    while isinstance(attribute, ast.Attribute | ast.Subscript):
        attribute = attribute.value
    return attribute


def _body_of(function: Function) -> ast.Module:
    """Return the body of a function as a module, of which the nodes and calls are kept as those of a cell."""
    body = _BODIES.get(function)
    if body is None:
        body = _BODIES[function] = ast.Module(body=function.body, type_ignores=[])
    return body


def _list_targets(tree: ast.Module) -> list[ast.expr]:
    """Return what the statements of a cell assign to, without those in functions and classes; kept as its nodes are."""
    found = _TARGETS.get(tree)
    if found is None:
        found = _TARGETS[tree] = list(_find_targets(tree))
    return found


def _find_targets(tree: ast.Module) -> Iterator[ast.expr]:
    ahead: list[ast.AST] = list(reversed(tree.body))
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if isinstance(node, ast.Assign):
            yield from node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            yield node.target
        elif isinstance(node, ast.stmt):
            ahead.extend(reversed(list_children(node)))

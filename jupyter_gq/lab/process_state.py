"""The state that cells set in no variable: random numbers, options of libraries, environment, paths.

A job that takes variables along in place of these cells does not have it. For Python only.

Rules
-----
- As with effects, only what runs when the cell runs counts, and a false alarm is worse than a miss.
- A value that is assigned to an attribute or an item of an imported module is such a state: `torch.backends.cudnn.
  deterministic = True`, `os.environ["MODE"] = "fast"`, or a method that is replaced.
- Known functions are listed below, by their full names; nothing is run to find others.

See docs/decisions/0193-tell-what-no-variable-takes-along.md.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence

from .calls import Names, list_calls
from .cells import parse_cell
from .magics import Magic, read_magic
from .parsing import list_children

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
        *("numpy.seterr", "numpy.set_printoptions", "torch.set_printoptions", "pandas.set_option"),
        *("matplotlib.use", "matplotlib.rc", "matplotlib.pyplot.rc", "matplotlib.style.use"),
        *("matplotlib.pyplot.style.use", "matplotlib.rcParams.update", "matplotlib.pyplot.rcParams.update"),
        *("seaborn.set", "seaborn.set_theme", "seaborn.set_style", "seaborn.set_context", "seaborn.set_palette"),
        *("os.chdir", "os.putenv", "os.environ.update", "os.environ.setdefault", "os.environ.pop"),
        *("sys.path.append", "sys.path.insert", "sys.path.extend", "sys.setrecursionlimit", "dotenv.load_dotenv"),
        *("warnings.filterwarnings", "warnings.simplefilter", "logging.basicConfig", "locale.setlocale"),
        *("decimal.setcontext", "multiprocessing.set_start_method", "faulthandler.enable"),
    }
)
_SETTING_MAGICS = frozenset({"env", "set_env", "cd", "load_ext"})


def find_process_state(sources: Iterable[str]) -> list[list[str]]:
    """Return for each cell the full names of what it sets, each once; the cells are in the order of their runs."""
    names = Names()
    return [list(dict.fromkeys(_find_in_cell(source, names))) for source in sources]


def _find_in_cell(source: str, names: Names) -> Iterator[str]:
    """Yield what one cell sets; its own names are added to those of the cells before it."""
    tree = parse_cell(source)
    if tree is None:
        return
    names.add(tree)
    for call in list_calls(tree):
        magic = read_magic(call)
        if magic is not None:
            yield from _find_in_magic(magic, names)
        elif (name := names.spell(call.func)) in _SETS:
            yield name
    for target in _list_targets(tree.body):
        name = _spell_owner(target, names)
        if name:
            yield name


def _find_in_magic(magic: Magic, names: Names) -> Iterator[str]:
    for source in magic.code:
        yield from _find_in_cell(source, names)
    if magic.name in _SETTING_MAGICS and magic.line.strip():
        yield f"%{magic.name}"


def _list_targets(body: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    """Yield what the statements of a cell assign to, without those in functions and classes."""
    ahead: list[ast.AST] = list(reversed(body))
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


def _spell_owner(target: ast.expr, names: Names) -> str:
    """Return the full name of the attribute or of the items that are set, if they belong to a module; otherwise ""."""
    owner = target.value if isinstance(target, ast.Subscript) else target
    if not isinstance(owner, ast.Attribute):
        return ""
    root: ast.expr = owner
    while isinstance(root, ast.Attribute):
        root = root.value
    is_of_module = isinstance(root, ast.Name) and root.id in names.modules and root.id not in names.own
    return names.spell(owner) if is_of_module else ""

"""What answers need of a notebook's other cells: the statements that bind or change a name that they use.

Nothing else of those cells is run: an experiment, a plot or a print binds and changes nothing that an
answer reads.
"""

from __future__ import annotations

import ast
import copy
import re
import symtable
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

ALWAYS = {"*", "annotations"}  # what a star import or one from __future__ brings cannot be seen
GIVEN = {"TodoError", "display", "get_ipython"}  # there in every notebook, and in every runner
NOISY = {"decodelab", "IPython", "ipywidgets", "matplotlib", "pylab", "seaborn", "time"}  # never called
METHODS = re.compile(
    "add|append(left)?|clear|discard|extend(left)?|insert|pop(item|left)?|register|remove|reverse|rotate|setdefault|sort|update"
)
FUNCTIONS = re.compile(
    "(set|del)attr|heap(ify|pop|push|pushpop|replace)|insort(_left|_right)?|shuffle"
)  # of what comes first


@dataclass(frozen=True)
class Statement:
    """A top-level statement of a cell, and the global names that it deals with."""

    cell: int  # its place in the notebook
    node: ast.stmt
    text: str
    bound: frozenset[str]
    reads: frozenset[str]  # function bodies included
    runs: set[str]  # what of it is read when the statement itself runs
    patches: set[str]  # changes what is in them: X.a = …, X["a"] = …, X.append(…), setattr(X, …)
    calls: set[str]  # calls a method of them for nothing but its effect: X.configure(…)

    @property
    def brings(self) -> set[str]:
        """``*`` and ``annotations`` where the statement imports them."""
        return ALWAYS & {a.name for a in self.node.names} if isinstance(self.node, ast.ImportFrom) else set()

    @property
    def is_import(self) -> bool:
        return isinstance(self.node, ast.Import | ast.ImportFrom)


def top_level(source: str) -> list[ast.stmt]:
    """The statements of ``source``; none where Python cannot read it."""
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


@dataclass(frozen=True)
class Names:
    """The names that code defines and imports at its top level, and the global ones that it reads or declares so."""

    defined: frozenset[str]
    imported: frozenset[str]
    reads: frozenset[str]


def names_of(source: str) -> Names:
    """The names in ``source``; none where Python cannot read it."""

    def read(table: symtable.SymbolTable) -> Iterator[str]:
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            is_read = symbol.is_referenced() and (top or symbol.is_global())
            if is_read or (not top and symbol.is_declared_global()):
                yield symbol.get_name()
        for child in table.get_children():
            yield from read(child)

    try:
        table = symtable.symtable(source, "<cell>", "exec")
        symbols = table.get_symbols()
        return Names(
            frozenset(s.get_name() for s in symbols if s.is_assigned()),
            frozenset(s.get_name() for s in symbols if s.is_imported()),
            frozenset(read(table)),
        )
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Names(frozenset(), frozenset(), frozenset())


Owners: TypeAlias = (
    "Mapping[str, tuple[str, float]]"  # name -> grade id and place of the answer that defines it
)


def gather(
    cells: Mapping[int, str], answers: Sequence[str], owners: Owners
) -> tuple[str, dict[str, list[str]]]:
    """(what must run before all answers, what must run after an answer, by grade id), in the notebook's order.

    cells: the source of every code cell but the answers, by its place. answers: their sources.
    """
    code = Code(cells)
    given = owners.keys() | GIVEN
    binding: dict[str, set[int]] = defaultdict(set)
    chosen = set()
    for i, statement in enumerate(code.statements):
        certain, perhaps = code.changes(statement)
        mended = certain | (statement.bound & statement.reads)
        if any(statement.cell > owners[name][1] for name in mended & owners.keys()):
            chosen.add(i)
        for name in (statement.bound | statement.brings | certain | perhaps) - given:
            binding[name].add(i)
    wanted: set[str] = set()
    fresh = ALWAYS.union(
        *(n.reads - n.imported for n in map(names_of, answers)), *(code[i].reads for i in chosen)
    )
    while fresh := fresh - given - wanted:
        wanted |= fresh
        new = set().union(*(binding[name] for name in fresh & binding.keys())) - chosen
        chosen |= new
        fresh = set().union(*(code[i].reads for i in new))
    ordered = [code[i] for i in sorted(chosen)]
    late = behind(ordered, owners)
    before = [narrowed(s, wanted) for s in ordered if s.is_import or s.cell not in late]
    after: dict[str, list[str]] = defaultdict(list)
    for s in ordered:
        if s.cell in late and not s.is_import:
            after[late[s.cell]].append(s.text)
    return "\n\n".join(sorted(before, key=lambda text: not text.startswith("from __future__"))), after


def behind(chosen: Sequence[Statement], owners: Owners) -> dict[int, str]:
    """The cells that cannot run before an answer has, by place, and the grade id of the last such answer.

    A cell is one of them if a statement of it needs a name of the answer, or of another such cell, to run.
    """
    reading: dict[str, list[Statement]] = defaultdict(list)
    inside: dict[int, list[Statement]] = defaultdict(list)
    for statement in chosen:
        if not statement.is_import:
            inside[statement.cell].append(statement)
            for name in statement.reads:
                reading[name].append(statement)
    late: dict[int, str] = {}
    waits: dict[str, str] = {}  # name -> the answer that must have run before it can be used
    left = [(name, grade_id) for name, (grade_id, _) in owners.items()]
    while left:
        name, grade_id = left.pop()
        if waits.get(name, "") >= grade_id:
            continue
        waits[name] = grade_id
        for statement in reading[name]:
            left += [(other, grade_id) for other in statement.bound | statement.patches]
            if name in statement.runs and late.get(statement.cell, "") < grade_id:
                late[statement.cell] = grade_id
                left += [(other, grade_id) for s in inside[statement.cell] for other in s.bound | s.patches]
    return late


def narrowed(statement: Statement, wanted: set[str]) -> str:
    """The statement; of an import only what is wanted: the setup cell's would load the whole learner's part."""
    node = statement.node
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return statement.text
    narrow = copy.copy(node)
    narrow.names = [alias for alias in node.names if (alias.asname or alias.name.split(".")[0]) in wanted]
    return ast.unparse(narrow)


# --- statements -------------------------------------------------------------------------------


class Code:
    """Every top-level statement of some cells, and what the names in them stand for."""

    def __init__(self, cells: Mapping[int, str]) -> None:
        self.statements = [
            replace(statement, cell=cell)
            for cell, source in cells.items()
            for statement in statements_of(source)
        ]
        functions = {s.node.name: s for s in self.statements if isinstance(s.node, ast.FunctionDef)}
        self.effects = {name: Effects.of(function) for name, function in functions.items()}
        modules = {name: package(s.node) for s in self.statements if s.is_import for name in s.bound}
        self.modules, self.noisy = set(modules), {name for name, of in modules.items() if of in NOISY}

    def __getitem__(self, place: int) -> Statement:
        return self.statements[place]

    def changes(self, statement: Statement) -> tuple[set[str], set[str]]:
        """The names whose objects a statement changes, itself or by a function of these cells: surely, perhaps."""
        surely = set(statement.patches)
        for node in executed(statement.node):
            for name, arguments in function_calls(node):
                if effects := self.effects.get(name):
                    surely |= effects.changed | (arguments if effects.on_arguments else set())
        untouched = self.noisy if isinstance(statement.node, ast.Expr) else self.modules
        return surely - untouched, statement.calls - untouched


@dataclass(frozen=True)
class Effects:
    """What calling a function changes: the objects of these global names, and perhaps what it is given."""

    changed: set[str]
    on_arguments: bool

    @classmethod
    def of(cls, function: Statement) -> Effects:
        """By what is written in the function, without what it calls."""
        inside = list(ast.walk(function.node))
        changed = set(patched(inside))
        assigned = {name for node in inside if isinstance(node, ast.Global) for name in node.names}
        parameters = {node.arg for node in inside if isinstance(node, ast.arg)}
        return cls((changed & function.reads) | assigned, bool(changed & parameters))


def function_calls(node: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """The plain functions that a node calls, itself or as decorators, and the names it gives them.

    What a call returns, ``serve(Queue())``, is nobody's name.
    """
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield node.func.id, {root(argument) for argument in node.args if not isinstance(argument, ast.Call)}
    for decorator in getattr(node, "decorator_list", []):
        if isinstance(decorator, ast.Name):
            yield decorator.id, set()


def package(node: ast.stmt) -> str:
    """What an import statement imports from."""
    names = [alias.name for alias in getattr(node, "names", [])]
    return str(getattr(node, "module", None) or names[0]).split(".")[0]


@lru_cache(maxsize=128)
def statements_of(source: str) -> list[Statement]:
    """The statements of a cell, at no place yet: most cells are the same in every notebook of a class."""
    return [about(node, text_of(source, node)) for node in top_level(source)]


def about(node: ast.stmt, text: str) -> Statement:
    """What a statement deals with."""
    names = names_of(text)
    running = list(executed(node))
    augmented = {
        n.target.id for n in running if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }
    runs = {n.id for n in running if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)} | augmented
    patches = set(patched(running)) | decorated(node)
    return Statement(
        -1,
        node,
        text,
        names.defined | names.imported,
        names.reads | augmented,
        runs,
        patches,
        set(called(running)),
    )


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and what runs with it: all below it but the bodies of functions."""
    left = [node]
    while left:
        node = left.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            left += [*node.decorator_list, node.args, *filter(None, [node.returns])]
        elif isinstance(node, ast.Lambda):
            left.append(node.args)
        else:
            left += ast.iter_child_nodes(node)


def root(node: ast.AST) -> str:
    """The name at the beginning of ``name.a["b"].c()``; "" where there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def patched(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names whose objects are changed."""
    for node in nodes:
        match node:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                yield root(node)
            case ast.Call(func=ast.Attribute(attr=name, value=owner)) if METHODS.fullmatch(name):
                yield root(owner)
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[first, *_]) if (
                FUNCTIONS.fullmatch(name)
            ):
                yield root(first)


def called(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names of which a method is called for its effect: ``X.configure(…)``, or as a decorator."""
    for node in nodes:
        calls = getattr(node, "decorator_list", [])
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            calls = [node.value]
        functions = [call.func if isinstance(call, ast.Call) else call for call in calls]
        yield from (root(function) for function in functions if isinstance(function, ast.Attribute))


def decorated(node: ast.stmt) -> set[str]:
    """The classes that a decorator may put a function into: ``@add_to(Sim)``, ``@patch def step(self: Sim)``."""
    if not (isinstance(node, ast.FunctionDef) and node.decorator_list):
        return set()
    given = [arg for d in node.decorator_list if isinstance(d, ast.Call) for arg in d.args]
    given += [arg.annotation for arg in node.args.args[:1] if arg.annotation]
    return {root(arg) for arg in given}


def text_of(source: str, statement: ast.stmt) -> str:
    """A statement's own text, decorators included."""
    first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", []))])
    lines = list(lines_of(source)[first - 1 : statement.end_lineno])
    lines[-1] = lines[-1][: statement.end_col_offset]
    lines[0] = lines[0][statement.col_offset if first == statement.lineno else 0 :]
    return b"\n".join(lines).decode()


@lru_cache(maxsize=64)
def lines_of(source: str) -> list[bytes]:
    """``source`` in lines, as bytes: that is how ``ast`` counts columns."""
    return re.split(rb"\r\n|\r|\n", source.encode())

"""Mechanical mutants: a TODO's reference with one small thing changed, as a slip of the hand would.

Few kinds, each a mistake that people make. A mutant is named by its TODO, the line of the region it is on
and what was done (``ch01.4:3 dropped statement``), so that an edit elsewhere leaves every name as it was.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from decodelab.course import Todo

NEIGHBOURS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Slot:
    """A place in a syntax tree: ``holder[key]`` is ``node``; ``field`` of its parent is what it is there for."""

    holder: Any
    key: Any
    node: ast.AST
    field: str

    @property
    def line(self) -> int:
        """The line of the region it is on."""
        return getattr(self.node, "lineno", 0)


Change = tuple[str, ast.AST]  # what was done, what now stands in the slot


def mutants(todo: Todo) -> dict[str, str]:
    """Every mutant of the reference: its name and its code. The same code is made once."""
    tree = ast.parse(todo.code)
    seen, made = {ast.unparse(tree)}, dict[str, str]()
    siblings = attributes(tree)
    for slot in sorted(slots(tree), key=lambda s: s.line):
        for done, new in changes(slot, siblings):
            slot.holder[slot.key] = new
            code = ast.unparse(tree)
            slot.holder[slot.key] = slot.node
            if code not in seen:
                seen.add(code)
                made[unused(f"{todo.id}:{slot.line} {done}", made)] = code
    return made


def unused(name: str, taken: dict[str, str]) -> str:
    """``name``, numbered from the second on."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} ({number})"
    return free


def slots(tree: ast.AST) -> Iterator[Slot]:
    """Every node below the root, with the place it is in."""
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, ast.AST):
                yield Slot(vars(parent), field, value, field)
            elif isinstance(value, list):
                yield from (Slot(value, i, v, field) for i, v in enumerate(value) if isinstance(v, ast.AST))


def attributes(tree: ast.AST) -> dict[str, list[str]]:
    """For each expression whose attributes are read, their names in order of appearance."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names = found.setdefault(ast.unparse(node.value), [])
            if node.attr not in names:
                names.append(node.attr)
    return found


def changes(slot: Slot, siblings: dict[str, list[str]]) -> Iterator[Change]:
    """All that can be done in one place."""
    yield from operators(slot.node)
    yield from constants(slot.node)
    yield from conditions(slot)
    yield from statements(slot.node)
    yield from swaps(slot.node)
    yield from others(slot.node, siblings)


def operators(node: ast.AST) -> Iterator[Change]:
    """A comparison, an arithmetic or a boolean operator becomes its neighbour; a sign goes."""
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            ops = [*node.ops[:i], neighbour(op), *node.ops[i + 1 :]]
            yield became(op, ops[i]), ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BinOp) and type(node.op) in NEIGHBOURS:
        op = neighbour(node.op)
        yield became(node.op, op), ast.BinOp(node.left, op, node.right)
    elif isinstance(node, ast.AugAssign) and type(node.op) in NEIGHBOURS:
        op = neighbour(node.op)
        yield became(node.op, op), ast.AugAssign(node.target, op, node.value)
    elif isinstance(node, ast.BoolOp):
        op = neighbour(node.op)
        yield became(node.op, op), ast.BoolOp(op, node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "minus removed", node.operand


def neighbour(op: ast.AST) -> Any:
    """The operator that is easily written instead."""
    return NEIGHBOURS[type(op)]()


def became(old: ast.AST, new: ast.AST) -> str:
    """The change of an operator, in words."""
    return f"{type(old).__name__} became {type(new).__name__}"


def constants(node: ast.AST) -> Iterator[Change]:
    """A whole number, one more and one less."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        for value in (node.value + 1, node.value - 1):
            yield f"{node.value} became {value}", ast.Constant(value)


def conditions(slot: Slot) -> Iterator[Change]:
    """A ``not`` goes, or a condition gets one."""
    node = slot.node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not removed", node.operand
    elif slot.field in ("test", "ifs") and isinstance(node, ast.expr):
        yield "condition negated", ast.UnaryOp(ast.Not(), node)


def statements(node: ast.AST) -> Iterator[Change]:
    """A statement is left out; what is returned is forgotten."""
    if isinstance(node, ast.stmt):
        yield "dropped statement", ast.Pass()
    if isinstance(node, ast.Return) and node.value and ast.unparse(node.value) != "None":
        yield "returned None", ast.Return(ast.Constant(None))


def swaps(node: ast.AST) -> Iterator[Change]:
    """Two neighbouring arguments, keyword values or items of a tuple change places."""
    if isinstance(node, ast.Call):
        for i, args in swapped(node.args):
            yield f"arguments {i} and {i + 1} swapped", ast.Call(node.func, args, node.keywords)
        for i, values in swapped([k.value for k in node.keywords]):
            keywords = [ast.keyword(k.arg, v) for k, v in zip(node.keywords, values, strict=True)]
            names = f"{node.keywords[i - 1].arg} and {node.keywords[i].arg}"
            yield f"{names} swapped", ast.Call(node.func, node.args, keywords)
    elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
        for i, items in swapped(node.elts):
            yield f"fields {i} and {i + 1} swapped", ast.Tuple(items, node.ctx)


def swapped(items: list[ast.expr]) -> Iterator[tuple[int, list[ast.expr]]]:
    """The list with neighbours ``i`` and ``i + 1`` (counted from 1) in each other's place, for every ``i``."""
    for i, (first, second) in enumerate(pairwise(items)):
        yield i + 1, [*items[:i], second, first, *items[i + 2 :]]


def others(node: ast.AST, siblings: dict[str, list[str]]) -> Iterator[Change]:
    """An attribute becomes another one that the region reads from the same object."""
    if isinstance(node, ast.Attribute):
        for other in siblings[ast.unparse(node.value)]:
            yield f"{node.attr} became {other}", ast.Attribute(node.value, other, node.ctx)

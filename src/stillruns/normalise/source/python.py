"""Python source to the common form (tree-sitter, so that a file with an error in it is still read)."""

from __future__ import annotations

from stillruns.normalise.source.ir import Builder, Expr, Field, FileFacts
from stillruns.normalise.source.syntax import (
    MAX_DEPTH,
    PYTHON,
    Node,
    children_but,
    end_line,
    line,
    parse,
    text,
    unquote,
    walk,
)

_LITERALS = {"integer", "float", "true", "false", "none"}


def lower(data: bytes) -> FileFacts:
    """One Python file."""
    return _Python(data).facts


class _Python:
    def __init__(self, data: bytes) -> None:
        root = parse(PYTHON, data).root_node
        self.facts = FileFacts("python", [], [], "syntax errors" if root.has_error else "")
        outer = Builder("", "", 1, end_line(root))
        self.facts.funcs.append(outer.func)
        self.owner = ""
        for node in root.named_children:
            self._statement(node, outer, 0)
        outer.done()

    def _statement(self, node: Node, build: Builder, depth: int) -> None:
        if depth > MAX_DEPTH:
            return
        handler = _STATEMENTS.get(node.type)
        if handler is not None:
            handler(self, node, build, depth)
        elif node.type in ("call", "await", "yield"):
            build.add("expr", line(node), values=[self._expr(node, build, 0)])
        else:
            for child in node.named_children:
                self._statement(child, build, depth + 1)

    def _klass(self, node: Node, build: Builder, depth: int) -> None:
        before, self.owner = self.owner, text(node.child_by_field_name("name"))
        bases = node.child_by_field_name("superclasses")
        for base in bases.named_children if bases is not None else ():
            self.facts.embeds.append([self.owner, text(base).split(".")[-1]])
        body = node.child_by_field_name("body")
        for child in body.named_children if body is not None else ():
            inner = (
                child.named_children[0] if child.type == "expression_statement" and child.named_children else child
            )
            name = inner.child_by_field_name("left") if inner.type == "assignment" else None
            if name is not None and name.type == "identifier":
                default = text(inner.child_by_field_name("right"))[:60]
                kind = text(inner.child_by_field_name("type"))
                self.facts.fields.append(Field(text(name), self.owner, line(inner), kind, "", "", default))
                self._ctypes_fields(inner)
            self._statement(child, build, depth + 1)
        self.owner = before

    def _ctypes_fields(self, node: Node) -> None:
        """`_fields_ = [("n_gpu_layers", c_int32), ...]`: the C API as ctypes sees it."""
        if text(node.child_by_field_name("left")) != "_fields_":
            return
        for pair in walk(node):
            if pair.type == "tuple" and pair.named_children and pair.named_children[0].type == "string":
                name = unquote(text(pair.named_children[0]))
                kind = text(pair.named_children[1]) if len(pair.named_children) > 1 else ""
                self.facts.fields.append(Field(name, self.owner, line(pair), kind, "ctypes"))

    def _function(self, node: Node, build: Builder, _depth: int, name: str = "") -> int:
        index = len(self.facts.funcs)
        parent = build.index if node.type == "lambda" or build.func.name else -1
        given = text(node.child_by_field_name("name")) or name
        inner = Builder(given, self.owner, line(node), end_line(node), parent, index)
        self.facts.funcs.append(inner.func)
        params = node.child_by_field_name("parameters")
        for param in params.named_children if params is not None else ():
            words = [text(n) for n in walk(param) if n.type == "identifier"]
            if words and words[0] not in ("self", "cls"):
                inner.func.params.append(words[0])
                value = param.child_by_field_name("value")
                if value is not None:
                    target: Expr = ["id", line(param), words[0]]
                    inner.add("assign", line(param), [target], [self._expr(value, inner, 0)], "param")
        inner.func.results = ["object"]
        inner.names.update(inner.func.params)
        body = node.child_by_field_name("body")
        if body is not None:
            self._statement(body, inner, 0)
        inner.done()
        return index

    def _define(self, node: Node, build: Builder, depth: int) -> None:
        self._function(node, build, depth)

    def _assignment(self, node: Node, build: Builder, _depth: int) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return
        op = text(node.child_by_field_name("operator")).rstrip("=")
        lefts = left.named_children if left.type in ("pattern_list", "tuple_pattern") else [left]
        targets = [self._expr(n, build, 0) for n in lefts]
        rights = right.named_children if right.type == "expression_list" else [right]
        build.add("assign", line(node), targets, [self._expr(n, build, 0, text(left)) for n in rights], op)

    def _returns(self, node: Node, build: Builder, _depth: int) -> None:
        build.add("return", line(node), values=[self._expr(n, build, 0) for n in node.named_children])

    def _branch(self, node: Node, build: Builder, depth: int) -> None:
        before = build.ctrl
        condition = node.child_by_field_name("condition")
        if node.type == "for_statement":
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is not None and right is not None:
                words = [n for n in walk(left) if n.type == "identifier"]
                targets: list[Expr] = [["id", line(n), text(n)] for n in words]
                build.ctrl = build.add("range", line(node), targets, [self._expr(right, build, 0)])
        elif condition is not None:
            build.ctrl = build.add("branch", line(condition), values=[self._expr(condition, build, 0)])
        for child in children_but(node, condition):
            inside = build.ctrl
            if child.type in ("else_clause", "elif_clause"):
                build.ctrl = build.add("branch", line(child), op="else")
            self._statement(child, build, depth + 1)
            build.ctrl = inside
        build.ctrl = before

    def _expr(self, node: Node, build: Builder, depth: int, name: str = "") -> Expr:
        kind, at = node.type, line(node)
        if kind == "identifier":
            word = text(node)
            build.names.add(word)
            return ["id", at, word]
        if kind in ("string", "concatenated_string"):
            return ["lit", at, unquote(text(node))]
        if kind in _LITERALS:
            return ["lit", at, text(node)]
        if depth > MAX_DEPTH:
            return ["seq", at, [], "deep"]
        if kind == "attribute":
            field = text(node.child_by_field_name("attribute"))
            build.names.add(field)
            return ["sel", at, self._expr(node.named_children[0], build, depth + 1), field]
        if kind == "call":
            return self._call(node, build, depth)
        if kind in ("binary_operator", "boolean_operator", "comparison_operator"):
            parts = [self._expr(n, build, depth + 1) for n in node.named_children]
            op = text(node.child_by_field_name("operator") or node.child_by_field_name("operators"))
            if len(parts) == 2:
                return ["bin", at, op or "==", parts[0], parts[1]]
            return ["seq", at, parts, "list"]
        if kind == "conditional_expression" and len(node.named_children) == 3:
            yes, condition, no = (self._expr(n, build, depth + 1) for n in node.named_children)
            build.add("branch", at, values=[condition], op="?")
            return ["seq", at, [yes, no], "cond"]
        if kind == "dictionary":
            items: list[list[object]] = []
            for pair in node.named_children:
                key, value = pair.child_by_field_name("key"), pair.child_by_field_name("value")
                if key is not None and value is not None:
                    items.append([unquote(text(key)), line(pair), self._expr(value, build, depth + 1)])
            return ["kv", at, items, "dict"]
        if kind == "lambda":
            return ["fun", at, self._function(node, build, depth, name)]
        parts = [self._expr(n, build, depth + 1) for n in node.named_children]
        if kind == "unary_operator" and parts and parts[0][0] == "lit":
            return ["lit", at, text(node).replace(" ", "")]
        what = {"subscript": "index", "not_operator": "!"}.get(kind, "list")
        return ["seq", at, parts, what]

    def _call(self, node: Node, build: Builder, depth: int) -> Expr:
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        args: list[Expr] = []
        items: list[list[object]] = []
        for child in arguments.named_children if arguments is not None else ():
            if child.type == "keyword_argument":
                value = child.child_by_field_name("value")
                key = text(child.child_by_field_name("name"))
                if value is not None:
                    build.names.add(key)
                    items.append([key, line(child), self._expr(value, build, depth + 1)])
            else:
                args.append(self._expr(child, build, depth + 1))
        receiver, name = None, text(function)
        if function is not None and function.type == "attribute":
            receiver = self._expr(function.named_children[0], build, depth + 1)
            name = text(function.child_by_field_name("attribute"))
        if items:
            args.append(["kv", line(node), items, name])
        build.names.add(name)
        return ["call", line(node), name, receiver, args]


_STATEMENTS = {
    "class_definition": _Python._klass,
    "function_definition": _Python._define,
    "assignment": _Python._assignment,
    "augmented_assignment": _Python._assignment,
    "return_statement": _Python._returns,
    "if_statement": _Python._branch,
    "elif_clause": _Python._branch,
    "while_statement": _Python._branch,
    "for_statement": _Python._branch,
}

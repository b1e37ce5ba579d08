"""C, C++, CUDA and Objective-C source to the common form. No preprocessor: every branch of an #if is read."""

from __future__ import annotations

import re

from stillruns.normalise.source.ir import Builder, Expr, Field, FileFacts
from stillruns.normalise.source.syntax import (
    CPP,
    MAX_DEPTH,
    C,
    Language,
    Node,
    children_but,
    end_line,
    line,
    parse,
    text,
    unquote,
    walk,
)

_LITERALS = {"number_literal", "char_literal", "true", "false", "null", "nullptr"}
_NAMES = {"identifier", "field_identifier", "type_identifier", "namespace_identifier", "this"}
_BRANCHES = {
    "if_statement",
    "while_statement",
    "for_statement",
    "do_statement",
    "switch_statement",
    "for_range_loop",
}


def lower(data: bytes, name: str) -> FileFacts:
    """One file; `.c` is read by the C grammar, everything else by the C++ one."""
    return _C(data, C if name.endswith(".c") else CPP).facts


class _C:
    def __init__(self, data: bytes, language: Language) -> None:
        self.lines = data.split(b"\n")
        root = parse(language, data).root_node
        self.facts = FileFacts("c", [], [], "syntax errors" if root.has_error else "")
        outer = Builder("", "", 1, end_line(root))
        self.facts.funcs.append(outer.func)
        for node in root.named_children:
            self._statement(node, outer, 0)
        outer.done()

    def _comment(self, at: int) -> str:
        raw = self.lines[at - 1].decode("utf-8", "replace") if at <= len(self.lines) else ""
        found = re.search(r"//[/!<]*\s*(.*?)\s*$|/\*+!?<?\s*(.*?)\s*\*/\s*$", raw)
        return (found.group(1) or found.group(2) or "") if found else ""

    def _function(self, node: Node, build: Builder, name: str = "") -> int:
        """A definition or lambda. `auto f = [..](..) {..}` takes the variable's name."""
        declarator = node.child_by_field_name("declarator")
        while declarator is not None and declarator.type not in (
            "function_declarator",
            "abstract_function_declarator",
        ):
            declarator = declarator.child_by_field_name("declarator")
        owner = ""
        if node.type == "function_definition" and declarator is not None:
            full = text(declarator.child_by_field_name("declarator"))
            owner, _, name = full.rpartition("::")
            owner = owner.split("::")[-1]
            owner = owner or self._enclosing_class(node)
        index = len(self.facts.funcs)
        parent = build.index if node.type == "lambda_expression" else -1
        inner = Builder(name.strip("*& "), owner, line(node), end_line(node), parent, index)
        self.facts.funcs.append(inner.func)
        params = declarator.child_by_field_name("parameters") if declarator is not None else None
        for group in params.named_children if params is not None else ():
            if group.type == "comment":
                continue
            words = [text(n) for n in walk(group) if n.type == "identifier"]
            inner.func.params.append(words[-1] if words else "_")
        inner.func.results = [text(node.child_by_field_name("type")) or "auto"]
        inner.names.update(inner.func.params)
        for child in node.named_children:
            if child.type in ("compound_statement", "field_initializer_list", "try_statement"):
                self._statement(child, inner, 0)
        inner.done()
        return index

    def _enclosing_class(self, node: Node) -> str:
        above = node.parent
        while above is not None:
            if above.type in ("class_specifier", "struct_specifier"):
                return text(above.child_by_field_name("name"))
            above = above.parent
        return ""

    def _statement(self, node: Node, build: Builder, depth: int) -> None:
        if depth > MAX_DEPTH:
            return
        kind = node.type
        handler = _STATEMENTS.get(kind)
        if handler is not None:
            handler(self, node, build, depth)
        elif kind in _BRANCHES:
            self._branch(node, build, depth)
        elif kind.endswith("expression") or kind in ("initializer_list", "identifier"):
            build.add("expr", line(node), values=[self._expr(node, build, 0)])
        elif kind not in ("comment", "preproc_include", "parameter_list", "type_identifier", "primitive_type"):
            for child in node.named_children:
                self._statement(child, build, depth + 1)

    def _definition(self, node: Node, build: Builder, _depth: int) -> None:
        self._function(node, build)

    def _field(self, node: Node, build: Builder, _depth: int) -> None:
        """A member: plain, pointer, array or bit field; methods' declarations have no place in the fields."""
        owner = self._enclosing_class(node)
        for declarator in node.children_by_field_name("declarator"):
            inside = list(walk(declarator))
            if any(n.type == "function_declarator" for n in inside) and declarator.type == "function_declarator":
                continue
            names = [n for n in inside if n.type == "field_identifier"]
            if names:
                value = node.child_by_field_name("default_value")
                at = line(names[0])
                self.facts.fields.append(
                    Field(
                        text(names[0]),
                        owner,
                        at,
                        text(node.child_by_field_name("type")),
                        "",
                        self._comment(at),
                        text(value)[:60],
                    )
                )
        kind = node.child_by_field_name("type")
        if kind is not None and kind.type in ("struct_specifier", "class_specifier", "union_specifier"):
            self._statement(kind, build, _depth + 1)

    def _declaration(self, node: Node, build: Builder, depth: int) -> None:
        kind = node.child_by_field_name("type")
        if kind is not None and kind.named_children:
            self._statement(kind, build, depth + 1)
        for declarator in node.children_by_field_name("declarator"):
            if declarator.type == "function_declarator" and build.func.name:
                self._vexing(declarator, kind, build)
            if declarator.type != "init_declarator":
                continue
            value, name = declarator.child_by_field_name("value"), declarator.child_by_field_name("declarator")
            if value is None or name is None:
                continue
            words = [text(n) for n in walk(name) if n.type in ("identifier", "field_identifier")]
            build.names.update(words)
            targets: list[Expr] = [["id", line(name), w] for w in words]
            at = line(declarator)
            made = self._expr(value, build, 0, words[0] if words else "")
            if value.type == "argument_list":  # `type name(arguments)`: a call of the type's constructor
                maker = text(kind).split("<")[0].split("::")[-1]
                build.names.add(maker)
                made = ["call", at, maker, None, made[2] if made[0] == "seq" else [made]]
            build.add("assign", at, targets, [made], "var")
        condition = node.child_by_field_name("value")
        if condition is not None and not node.children_by_field_name("declarator"):
            self._statement(condition, build, depth + 1)

    def _vexing(self, declarator: Node, kind: Node | None, build: Builder) -> None:
        """Inside a function, `std::string devices(devices_env);` declares no function: it is a construction."""
        name, params = declarator.child_by_field_name("declarator"), declarator.child_by_field_name("parameters")
        if name is None or params is None or name.type != "identifier":
            return
        words = [text(p.child_by_field_name("type")) for p in params.named_children if len(p.named_children) == 1]
        if not words or len(words) != len(params.named_children):
            return
        build.names.update([text(name), *words])
        args: list[Expr] = [["id", line(params), w] for w in words]
        maker = text(kind).split("<")[0].split("::")[-1]
        build.add(
            "assign",
            line(declarator),
            [["id", line(name), text(name)]],
            [["call", line(name), maker, None, args]],
            "var",
        )

    def _returns(self, node: Node, build: Builder, _depth: int) -> None:
        build.add("return", line(node), values=[self._expr(n, build, 0) for n in node.named_children])

    def _branch(self, node: Node, build: Builder, depth: int) -> None:
        before = build.ctrl
        if node.type == "for_range_loop":
            right, name = node.child_by_field_name("right"), node.child_by_field_name("declarator")
            if right is not None:
                words = [text(n) for n in walk(name) if n.type == "identifier"] if name is not None else []
                targets: list[Expr] = [["id", line(node), w] for w in words]
                build.ctrl = build.add("range", line(node), targets, [self._expr(right, build, 0)])
            body = node.child_by_field_name("body")
            if body is not None:
                self._statement(body, build, depth + 1)
            build.ctrl = before
            return
        initial, condition = node.child_by_field_name("initializer"), node.child_by_field_name("condition")
        if initial is not None:
            self._statement(initial, build, depth + 1)
        if condition is not None:
            build.ctrl = build.add("branch", line(condition), values=[self._expr(condition, build, 0)])
        for child in children_but(node, initial, condition):
            inside = build.ctrl
            if child.type == "else_clause":
                build.ctrl = build.add("branch", line(child), op="else")
            self._statement(child, build, depth + 1)
            build.ctrl = inside
        build.ctrl = before

    def _case(self, node: Node, build: Builder, depth: int) -> None:
        before, value = build.ctrl, node.child_by_field_name("value")
        if value is not None:
            build.ctrl = build.add("branch", line(node), values=[self._expr(value, build, 0)], op="case")
        for child in children_but(node, value):
            self._statement(child, build, depth + 1)
        build.ctrl = before

    def _conditional_text(self, node: Node, build: Builder, depth: int) -> None:
        """`#ifdef NAME`, `#if defined(NAME)`: a branch on the macro, so that build options can be followed."""
        before = build.ctrl
        head = node.child_by_field_name("name") or node.child_by_field_name("condition")
        if head is not None:
            words = re.findall(r"[A-Za-z_]\w*", text(head))
            build.names.update(words)
            parts: list[Expr] = [["id", line(node), w] for w in words if w != "defined"]
            build.ctrl = build.add("branch", line(node), values=parts, op="#if")
        for child in children_but(node, head):
            self._statement(child, build, depth + 1)
        build.ctrl = before

    def _expr(self, node: Node, build: Builder, depth: int, name: str = "") -> Expr:
        kind, at = node.type, line(node)
        if kind in _NAMES:
            word = text(node)
            build.names.add(word)
            return ["id", at, word]
        if kind in ("string_literal", "raw_string_literal", "concatenated_string"):
            return ["lit", at, unquote(text(node))]
        if kind in _LITERALS:
            return ["lit", at, text(node)]
        if depth > MAX_DEPTH:
            return ["seq", at, [], "deep"]
        handler = _EXPRESSIONS.get(kind)
        if handler is not None:
            return handler(self, node, build, depth)
        if kind == "lambda_expression":
            index = self._function(node, build, name)
            build.names.update(self.facts.funcs[index].names)
            return ["fun", at, index]
        if kind == "qualified_identifier":
            word = text(node).split("::")[-1].split("<")[0]
            build.names.add(word)
            return ["id", at, word]
        if kind in ("type_descriptor", "primitive_type", "comment", "template_argument_list"):
            return ["seq", at, [], "type"]
        parts = [self._expr(n, build, depth + 1) for n in node.named_children]
        return ["seq", at, parts, "index" if kind == "subscript_expression" else "list"]

    def _member(self, node: Node, build: Builder, depth: int) -> Expr:
        field = node.child_by_field_name("field")
        base = self._expr(node.named_children[0], build, depth + 1)
        word = text(field).split("<")[0].split("::")[-1]
        build.names.add(word)
        return ["sel", line(field) if field is not None else line(node), base, word]

    def _call(self, node: Node, build: Builder, depth: int) -> Expr:
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if arguments is None:
            arguments = node.child_by_field_name("value")
        args = []
        if arguments is not None:
            args = [self._expr(n, build, depth + 1) for n in arguments.named_children if n.type != "comment"]
        receiver, name = None, text(function)
        if function is not None and function.type == "field_expression":
            receiver = self._expr(function.named_children[0], build, depth + 1)
            name = text(function.child_by_field_name("field"))
        elif function is not None and function.type == "call_expression":
            return ["call", line(node), "", self._expr(function, build, depth + 1), args]
        name = name.split("<")[0].split("::")[-1].strip()
        build.names.add(name)
        return ["call", line(node), name, receiver, args]

    def _binary(self, node: Node, build: Builder, depth: int) -> Expr:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return ["seq", line(node), [], "list"]
        op = text(node.child_by_field_name("operator"))
        return ["bin", line(node), op, self._expr(left, build, depth + 1), self._expr(right, build, depth + 1)]

    def _unary(self, node: Node, build: Builder, depth: int) -> Expr:
        argument = node.child_by_field_name("argument") or (node.named_children[-1] if node.named_children else None)
        if argument is None:
            return ["seq", line(node), [], "list"]
        op = text(node.child_by_field_name("operator"))
        inner = self._expr(argument, build, depth + 1)
        if op == "-" and inner[0] == "lit":
            return ["lit", line(node), "-" + str(inner[2])]
        if node.type == "update_expression":
            build.add("assign", line(node), [inner], [["lit", line(node), "1"]], op[:1] or "+")
        return ["seq", line(node), [inner], op]

    def _assign(self, node: Node, build: Builder, depth: int) -> Expr:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return ["seq", line(node), [], "list"]
        target = self._expr(left, build, depth + 1)
        named = str(target[2]) if target[0] == "id" else ""
        value = self._expr(right, build, depth + 1, named)
        op = text(node.child_by_field_name("operator")).rstrip("=")
        build.add("assign", line(node), [target], [value], op)
        return target

    def _conditional(self, node: Node, build: Builder, depth: int) -> Expr:
        parts = {n: node.child_by_field_name(n) for n in ("condition", "consequence", "alternative")}
        condition = parts["condition"]
        if condition is not None:
            build.add("branch", line(condition), values=[self._expr(condition, build, depth + 1)], op="?")
        rest = [self._expr(n, build, depth + 1) for k, n in parts.items() if n is not None and k != "condition"]
        return ["seq", line(node), rest, "cond"]

    def _initialiser(self, node: Node, build: Builder, depth: int) -> Expr:
        """Braces: designated (`.x = 1`) or with llama.cpp's `/*.x =*/ 1` comments, else a plain list."""
        items: list[list[object]] = []
        plain: list[Expr] = []
        key = ""
        for child in node.named_children:
            if child.type == "comment":
                found = re.match(r"/\*\s*\.(\w+)\s*=\s*\*/", text(child))
                key = found.group(1) if found else ""
            elif child.type == "initializer_pair":
                words = text(child.child_by_field_name("designator")).lstrip(".")
                value = child.child_by_field_name("value")
                if value is not None:
                    items.append([words, line(child), self._expr(value, build, depth + 1)])
                    build.names.add(words)
            elif key:
                items.append([key, line(child), self._expr(child, build, depth + 1)])
                build.names.add(key)
                key = ""
            else:
                plain.append(self._expr(child, build, depth + 1))
        if items:
            return ["kv", line(node), items, ""]
        return ["seq", line(node), plain, "list"]

    def _construct(self, node: Node, build: Builder, depth: int) -> Expr:
        """`Type{a, b}` and `member(a)` in a constructor's list."""
        parts = [self._expr(n, build, depth + 1) for n in node.named_children]
        return ["seq", line(node), parts, "list"]

    def _member_init(self, node: Node, build: Builder, _depth: int) -> None:
        parts = node.named_children
        if len(parts) >= 2:
            target: Expr = ["sel", line(node), ["id", line(node), "this"], text(parts[0])]
            build.names.add(text(parts[0]))
            values = [self._expr(n, build, 0) for n in parts[1].named_children]
            build.add("assign", line(node), [target], values[:1], "var")


_STATEMENTS = {
    "function_definition": _C._definition,
    "field_declaration": _C._field,
    "declaration": _C._declaration,
    "return_statement": _C._returns,
    "case_statement": _C._case,
    "preproc_ifdef": _C._conditional_text,
    "preproc_if": _C._conditional_text,
    "preproc_elif": _C._conditional_text,
    "field_initializer": _C._member_init,
}
_EXPRESSIONS = {
    "field_expression": _C._member,
    "call_expression": _C._call,
    "new_expression": _C._call,
    "binary_expression": _C._binary,
    "unary_expression": _C._unary,
    "pointer_expression": _C._unary,
    "update_expression": _C._unary,
    "assignment_expression": _C._assign,
    "conditional_expression": _C._conditional,
    "initializer_list": _C._initialiser,
    "compound_literal_expression": _C._construct,
}

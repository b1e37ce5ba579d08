"""Go source to the common form."""

from __future__ import annotations

import re

from stillruns.normalise.source.ir import Builder, Expr, Field, FileFacts
from stillruns.normalise.source.syntax import GO, MAX_DEPTH, Node, children_but, end_line, line, parse, text, unquote

_LITERALS = {
    "int_literal",
    "float_literal",
    "rune_literal",
    "imaginary_literal",
    "true",
    "false",
    "nil",
    "iota",
}
_STRINGS = {"interpreted_string_literal", "raw_string_literal"}
_FIRST_ONLY = {"index_expression", "slice_expression", "type_assertion_expression"}


def lower(data: bytes) -> FileFacts:
    """One Go file."""
    return _Go(data).facts


class _Go:
    def __init__(self, data: bytes) -> None:
        root = parse(GO, data).root_node
        self.facts = FileFacts("go", [], [], "syntax errors" if root.has_error else "")
        outer = Builder("", "", 1, end_line(root))
        self.facts.funcs.append(outer.func)
        for node in root.named_children:
            self._top(node, outer)
        outer.done()

    def _top(self, node: Node, outer: Builder) -> None:
        if node.type in ("function_declaration", "method_declaration"):
            receiver = text(node.child_by_field_name("receiver"))
            owner = re.search(r"([A-Za-z_]\w*)(?:\[[^]]*\])?\s*\)\Z", receiver)
            self._function(node, text(node.child_by_field_name("name")), owner.group(1) if owner else "", -1)
        elif node.type == "type_declaration":
            for spec in node.named_children:
                self._struct(spec)
        else:
            self._statement(node, outer, 0)

    def _struct(self, spec: Node) -> None:
        kind, owner = spec.child_by_field_name("type"), text(spec.child_by_field_name("name"))
        if kind is None or kind.type != "struct_type":
            return
        for group in kind.named_children:
            for declared in group.named_children:
                if declared.type != "field_declaration":
                    continue
                type_text = text(declared.child_by_field_name("type"))
                names = declared.children_by_field_name("name")
                if not names:
                    self.facts.embeds.append([owner, type_text.lstrip("*").split(".")[-1]])
                for name in names:
                    tag = text(declared.child_by_field_name("tag"))
                    self.facts.fields.append(Field(text(name), owner, line(name), type_text, tag.strip("`")))

    def _function(self, node: Node, name: str, owner: str, parent: int) -> int:
        index = len(self.facts.funcs)
        build = Builder(name, owner, line(node), end_line(node), parent, index)
        self.facts.funcs.append(build.func)
        params = node.child_by_field_name("parameters")
        for group in params.named_children if params is not None else ():
            names = [text(n) for n in group.children_by_field_name("name")]
            build.func.params += names or ["_"]
        result = node.child_by_field_name("result")
        if result is not None and result.type == "parameter_list":
            for group in result.named_children:
                names = [text(n) for n in group.children_by_field_name("name")]
                kind = text(group.child_by_field_name("type")) or text(group)
                build.func.named += names
                build.func.results += [kind] * (len(names) or 1)
        elif result is not None:
            build.func.results = [text(result)]
        build.names.update(build.func.params, build.func.named)
        body = node.child_by_field_name("body")
        if body is not None:
            self._statement(body, build, 0)
        build.done()
        return index

    def _statement(self, node: Node, build: Builder, depth: int) -> None:
        if depth > MAX_DEPTH:
            return
        kind = node.type
        handler = _STATEMENTS.get(kind)
        if handler is not None:
            handler(self, node, build, depth)
        elif kind.endswith(("expression", "literal")) or kind in ("identifier", *_LITERALS):
            build.add("expr", line(node), values=[self._expr(node, build, 0)])
        else:
            for child in node.named_children:
                self._statement(child, build, depth + 1)

    def _assignment(self, node: Node, build: Builder, _depth: int) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return
        op = text(node.child_by_field_name("operator")).rstrip("=")
        op = ":" if node.type == "short_var_declaration" else op
        targets = [self._expr(n, build, 0) for n in left.named_children]
        names = text(left) if len(left.named_children) == 1 else ""
        values = [self._expr(n, build, 0, names) for n in right.named_children]
        build.add("assign", line(node), targets, values, op)

    def _variable(self, node: Node, build: Builder, _depth: int) -> None:
        value = node.child_by_field_name("value")
        if value is None:
            return
        names = node.children_by_field_name("name")
        targets: list[Expr] = [["id", line(n), text(n)] for n in names]
        build.names.update(text(n) for n in names)
        values = [self._expr(n, build, 0, text(names[0])) for n in value.named_children]
        build.add("assign", line(node), targets, values, "var")

    def _range_clause(self, node: Node, build: Builder, _depth: int) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if right is None:
            return
        targets = [self._expr(n, build, 0) for n in left.named_children] if left is not None else []
        build.add("range", line(node), targets, [self._expr(right, build, 0)])

    def _step(self, node: Node, build: Builder, _depth: int) -> None:
        target = self._expr(node.named_children[0], build, 0)
        one: Expr = ["lit", line(node), "1"]
        build.add("assign", line(node), [target], [one], "+" if node.type == "inc_statement" else "-")

    def _returns(self, node: Node, build: Builder, _depth: int) -> None:
        values: list[Expr] = []
        for child in node.named_children:
            parts = child.named_children if child.type == "expression_list" else [child]
            values += [self._expr(n, build, 0) for n in parts]
        build.add("return", line(node), values=values)

    def _branch(self, node: Node, build: Builder, depth: int) -> None:
        """`if`, `for`, `switch`: the condition, then everything inside under it."""
        before = build.ctrl
        initial = node.child_by_field_name("initializer")
        if initial is not None:
            self._statement(initial, build, depth + 1)
        condition = node.child_by_field_name("condition") or node.child_by_field_name("value")
        alternative = node.child_by_field_name("alternative")
        if condition is not None:
            build.ctrl = build.add("branch", line(condition), values=[self._expr(condition, build, 0)])
        for child in children_but(node, condition, initial):
            if child.type in ("range_clause", "for_clause"):
                self._statement(child, build, depth + 1)
                if child.type == "range_clause" and build.func.stmts:
                    build.ctrl = len(build.func.stmts) - 1
            elif alternative is not None and child.id == alternative.id:
                inside = build.ctrl
                build.ctrl = build.add("branch", line(child), op="else")
                self._statement(child, build, depth + 1)
                build.ctrl = inside
            else:
                self._statement(child, build, depth + 1)
        build.ctrl = before

    def _case(self, node: Node, build: Builder, depth: int) -> None:
        before = build.ctrl
        value = node.child_by_field_name("value")
        parts = [self._expr(n, build, 0) for n in value.named_children] if value is not None else []
        build.ctrl = build.add("branch", line(node), values=parts, op="case")
        for child in children_but(node, value):
            self._statement(child, build, depth + 1)
        build.ctrl = before

    def _expr(self, node: Node, build: Builder, depth: int, name: str = "") -> Expr:
        kind, at = node.type, line(node)
        if kind in ("identifier", "field_identifier", "package_identifier", "type_identifier"):
            word = text(node)
            build.names.add(word)
            return ["id", at, word]
        if kind in _STRINGS:
            return ["lit", at, unquote(text(node))]
        if kind in _LITERALS:
            return ["lit", at, text(node)]
        if depth > MAX_DEPTH:
            return ["seq", at, [], "deep"]
        if kind in ("literal_element", "parenthesized_expression") and len(node.named_children) == 1:
            return self._expr(node.named_children[0], build, depth + 1, name)
        if kind == "selector_expression":
            field = node.child_by_field_name("field")
            base = self._expr(node.named_children[0], build, depth + 1)
            build.names.add(text(field))
            return ["sel", line(field) if field is not None else at, base, text(field)]
        if kind == "call_expression":
            return self._call(node, build, depth)
        if kind == "binary_expression":
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            if left is not None and right is not None:
                op = text(node.child_by_field_name("operator"))
                return ["bin", at, op, self._expr(left, build, depth + 1), self._expr(right, build, depth + 1)]
        if kind == "composite_literal":
            return self._composite(node, build, depth)
        if kind == "func_literal":
            index = self._function(node, name, "", build.index)
            build.names.update(self.facts.funcs[index].names)
            return ["fun", at, index]
        if kind == "unary_expression":
            op = text(node.child_by_field_name("operator"))
            parts = [self._expr(n, build, depth + 1) for n in node.named_children]
            if op == "-" and parts and parts[0][0] == "lit":
                return ["lit", at, "-" + str(parts[0][2])]
            return ["seq", at, parts, op]
        parts = [self._expr(n, build, depth + 1) for n in node.named_children]
        if kind in _FIRST_ONLY:
            return ["seq", at, parts[:1], "index"] if kind != "index_expression" else ["seq", at, parts, "index"]
        return ["seq", at, parts, "list"]

    def _call(self, node: Node, build: Builder, depth: int) -> Expr:
        function = node.child_by_field_name("function")
        arguments = node.child_by_field_name("arguments")
        args = [self._expr(n, build, depth + 1) for n in arguments.named_children] if arguments is not None else []
        at, receiver, name = line(node), None, text(function)
        if function is not None and function.type == "parenthesized_expression":
            return ["seq", at, args, "cast"]
        if function is not None and function.type == "selector_expression":
            receiver = self._expr(function.named_children[0], build, depth + 1)
            field = function.child_by_field_name("field")
            name, at = text(field), line(field) if field is not None else at
        elif function is not None and function.type == "func_literal":
            args.append(self._expr(function, build, depth + 1))
            name = ""
        name = name.split("[")[0].strip("()*")
        build.names.add(name)
        return ["call", at, name, receiver, args]

    def _composite(self, node: Node, build: Builder, depth: int) -> Expr:
        items: list[list[object]] = []
        plain: list[Expr] = []
        body = node.child_by_field_name("body")
        for element in body.named_children if body is not None else ():
            if element.type == "keyed_element" and len(element.named_children) >= 2:
                key = text(element.named_children[0])
                build.names.add(key)
                value = self._expr(element.named_children[-1], build, depth + 1)
                items.append([unquote(key), line(element), value])
            elif element.type != "comment":
                plain.append(self._expr(element, build, depth + 1))
        kind = text(node.child_by_field_name("type"))
        if plain and not items:
            return ["seq", line(node), plain, "list"]
        return ["kv", line(node), items, kind]


_STATEMENTS = {
    "assignment_statement": _Go._assignment,
    "short_var_declaration": _Go._assignment,
    "var_spec": _Go._variable,
    "const_spec": _Go._variable,
    "range_clause": _Go._range_clause,
    "inc_statement": _Go._step,
    "dec_statement": _Go._step,
    "return_statement": _Go._returns,
    "if_statement": _Go._branch,
    "for_statement": _Go._branch,
    "expression_switch_statement": _Go._branch,
    "type_switch_statement": _Go._branch,
    "select_statement": _Go._branch,
    "expression_case": _Go._case,
    "default_case": _Go._case,
}

# SPDX-License-Identifier: Apache-2.0
"""Operations that order elements: topk and sort, along any axis."""

from __future__ import annotations

from .seed_values import C_TYPES, Stored, _ONE, _flat, _product, _variable
from .trace import to_cpp

# Not a number is the greatest, as in PyTorch; of equal ones the first comes first.
AHEAD = """// Whether the value x at i comes before y at j.
template <class T>
DEVICE bool ahead(T x, i64 i, T y, i64 j, bool falling) {
  const bool no_x = x != x, no_y = y != y;
  if (x == y || (no_x && no_y)) return i < j;
  if (no_x || no_y) return no_x == falling;
  return falling ? x > y : x < y;
}
"""


class Orders:
    """The part of a lowering that concerns orders."""

    def argument(self, node, position: int, name: str, default):
        return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)

    def results(self, node, kinds) -> list:
        """A buffer for each of a node's results that is used, and its shape; None for the others."""
        users = {u.args[1]: u for u in node.users if getattr(u.target, "__name__", "") == "getitem"}
        made = []
        for number, kind in enumerate(kinds):
            shape = self.sizes_of(node.meta["val"][number])
            if number not in users:
                made.append(None)
                continue
            direct = self.output_buffer(users[number])
            if direct is not None and len(users[number].users) == 1:
                made.append((direct, shape))
                self.env[users[number]] = Stored(direct, shape)
            else:
                made.append((self.workspace(kind, shape), shape))
        self.env[node] = tuple(Stored(*each) if each else None for each in made)
        return made

    def ordered(self, node, dim: int, falling: bool, body):
        """(what writes the kernel, the shape, the axis). body(code, shape, dim, c_type, element, store, falling): element(idx) is the
        text of a value, store(idx, value, index) puts a result at idx."""
        value = self.value(node.args[0])
        if not value.shape:
            value = self.reshape(value, [_ONE])
        value = self.operand(value)
        dim %= len(value.shape)
        made = self.results(node, [value.kind, "i"])
        shape, c_type = list(value.shape), C_TYPES[value.kind]

        def write(code):
            def store(idx, text, index):
                for each, result in zip(made, (text, index)):
                    if each:
                        code.store(each[0], _flat(idx, each[1] or [_ONE]), result)

            body(code, shape, dim, c_type, lambda idx: value.at(code, idx), store, "true" if falling else "false")

        return write, shape, dim

    def op_topk(self, node):
        k = to_cpp(self.e(self.argument(node, 1, "k", 1)))
        falling = bool(self.argument(node, 3, "largest", True))

        def body(code, shape, dim, c_type, element, store, falling):
            lines = [s for n, s in enumerate(shape) if n != dim]
            self.deal(code, _product(lines))
            idx = self.decompose(code, "unit", lines) if lines else []
            at = lambda position: [*idx[:dim], position, *idx[dim:]]
            last, place, slot = code.fresh("last"), code.fresh("place"), code.fresh("slot")
            code.line(f"{c_type} {last} = 0;")
            code.line(f"i64 {place} = -1;")
            code.open(f"for (i64 {slot} = 0; {slot} < {k}; ++{slot})")
            best, found, r = code.fresh("best"), code.fresh("found"), code.fresh("r")
            code.line(f"{c_type} {best} = 0;")
            code.line(f"i64 {found} = -1;")
            code.open(f"for (i64 {r} = 0; {r} < {to_cpp(shape[dim])}; ++{r})")
            v = element(at(_variable(r)))
            code.line(f"if (({place} < 0 || ahead({last}, {place}, {v}, {r}, {falling})) && "
                      f"({found} < 0 || ahead({v}, {r}, {best}, {found}, {falling}))) {best} = {v}, {found} = {r};")
            code.close()
            store(at(_variable(slot)), best, found)
            code.line(f"{last} = {best}, {place} = {found};")
            code.close()
            code.close()

        dim = self.argument(node, 2, "dim", -1)
        write, shape, dim = self.ordered(node, dim, falling, body)
        self.kernel("topk", write, _product(s for n, s in enumerate(shape) if n != dim))

    def op_sort(self, node):
        stable = node.target._overloadname == "stable"
        dim = node.kwargs.get("dim", -1) if stable else self.argument(node, 1, "dim", -1)
        falling = bool(node.kwargs.get("descending", False) if stable else self.argument(node, 2, "descending", False))

        def body(code, shape, dim, c_type, element, store, falling):
            self.deal(code, _product(shape))
            idx = self.decompose(code, "unit", shape)
            at = lambda position: [*idx[:dim], position, *idx[dim + 1:]]
            mine, place, rank, r = element(idx), to_cpp(idx[dim]), code.fresh("rank"), code.fresh("r")
            code.line(f"i64 {rank} = 0;")
            code.open(f"for (i64 {r} = 0; {r} < {to_cpp(shape[dim])}; ++{r})")
            code.line(f"{rank} += ahead({element(at(_variable(r)))}, {r}, {mine}, {place}, {falling});")
            code.close()
            store(at(_variable(rank)), mine, place)
            code.close()

        write, shape, _ = self.ordered(node, dim, falling, body)
        self.kernel("sort", write, _product(shape))

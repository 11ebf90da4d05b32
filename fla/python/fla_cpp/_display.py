"""What a prompt and a notebook show of the things that say what fla_cpp knows and did."""

from fla_cpp import _fla_cpp


def _html(titles, rows, caption=""):
    from html import escape

    def row(cells, tag):
        return "<tr>" + "".join(f"<{tag} style='text-align:left'>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    above = f"<caption style='text-align:left'>{escape(caption)}</caption>" if caption else ""
    return f"<table>{above}{row(titles, 'th')}{''.join(row(cells, 'td') for cells in rows)}</table>"


def _text(titles, rows):
    rows = [titles, *([str(cell) for cell in cells] for cells in rows)]
    widths = [max(len(cells[i]) for cells in rows) for i in range(len(titles))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip() for cells in rows)


class _Table(list):
    """A list that shows itself as a table."""

    def __repr__(self):
        return _text(self._titles, self._rows()) if self else "[]"

    def _repr_html_(self):
        return _html(self._titles, self._rows())


class Ops(_Table):
    _titles = ["op", "backend", "priority", "toggle", "state", "functions"]

    def _rows(self):
        return [
            [op.name, backend.name, priority, backend.env_var, self._state(backend), ", ".join(backend.functions)]
            for op in self
            for backend, priority in [*((each, each.priority) for each in op.backends), (op.original, "last")]
        ]

    @staticmethod
    def _state(backend):
        if backend.available and backend.enabled:
            return "ready"
        return ("disabled" if backend.available else "unavailable") + (f": {backend.reason}" if backend.reason else "")


class Counters(_Table):
    _titles = ["function", "backend", "taken", "refused", "failed", "fell back", "turned away", "breaker"]

    def _rows(self):
        return [
            [f"{row.op}.{row.function}", row.backend, row.taken, sum(refusal.count for refusal in row.refused),
             row.failed, row.fell_back, row.turned_away, row.breaker or ""]
            for row in self
        ]  # fmt: skip


class Plugins(_Table):
    _titles = ["plugin", "state", "reason", "ops", "backends", "path"]

    def _rows(self):
        return [[p.name, p.state, p.reason, ", ".join(p.ops), ", ".join(p.backends), p.path] for p in self]


def _explanation_html(explanation):
    rows = [[row.name, row.priority, row.state, row.reason, row.route] for row in explanation.rows]
    original = explanation.original
    rows.append([original.name, "", original.state, original.reason, original.route])
    chosen = explanation.selected or explanation.error
    caption = f"{explanation.op}.{explanation.function} -> {chosen}"
    return _html(["backend", "priority", "state", "reason", "route"], rows, caption)


def _repr(thing):
    names = [name for name, value in vars(type(thing)).items() if isinstance(value, property)]
    return f"{type(thing).__qualname__}({', '.join(f'{name}={getattr(thing, name)!r}' for name in names)})"


def install():
    """On the extension's classes."""
    _fla_cpp.Explanation.__repr__ = lambda explanation: explanation.text().rstrip("\n")
    _fla_cpp.Explanation._repr_html_ = _explanation_html
    for kind in (
        _fla_cpp.Explanation.Row,
        _fla_cpp.BackendStatus,
        _fla_cpp.OpStatus,
        _fla_cpp.BackendCounters,
        _fla_cpp.BackendCounters.Refusal,
        _fla_cpp.PluginStatus,
    ):
        kind.__repr__ = _repr

# SPDX-License-Identifier: Apache-2.0
"""A picture of where a model's time goes: its baselines and, of each region, what the machine needs and what could be gained."""

from xml.sax.saxutils import escape

LEFT, WIDTH, ROW = 260, 560, 26


def picture(profile):
    whole = profile.total.median
    bars = []  # (text, [(seconds, color)], what is written behind)
    for name, t in profile.baselines.items():
        if not isinstance(t, str):
            bars.append((name, [(t.median, "#4a6fa5" if name == profile.fastest else "#b8c4d6")], f"{1e3 * t.median:.3g} ms"))
    shown = [r for r in profile.regions if r.floor > 0 and profile.gain(r) > 0]
    for r in sorted(shown, key=lambda r: -profile.gain(r))[:12]:
        floor = min(r.floor, r.base.median)
        bars.append((f"{r.paths[0]} ({r.kind}) x {r.calls}", [(floor, "#5b8c5a"), (r.base.median - floor, "#d9a441" if r.name else "#ecd9ae")],
                     f"{100 * r.base.median / whole:.0f} %" + ("" if r.name else ", no task")))
    most = max(sum(s for s, _ in parts) for _, parts, _ in bars)
    lines = []
    for k, (text, parts, behind) in enumerate(bars):
        y, x = 34 + k * ROW, float(LEFT)
        lines.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(text[:42])}</text>')
        for seconds, color in parts:
            width = WIDTH * seconds / most
            lines.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="18" fill="{color}"/>')
            x += width
        lines.append(f'<text x="{x + 6:.1f}" y="{y + 14}">{escape(behind)}</text>')
    height = 34 + len(bars) * ROW + 30
    legend = ("blue: the model, darkest the one to beat; green: what the machine needs at least; yellow: what could be gained, pale where "
              "there is no task")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 140}" height="{height}" font-family="sans-serif" font-size="12">\n'
            f'<rect width="100%" height="100%" fill="white"/>\n<text x="8" y="20" font-weight="bold">Time of one pass by region</text>\n'
            + "\n".join(lines) + f'\n<text x="8" y="{height - 10}" fill="#555">{escape(legend)}</text>\n</svg>\n')

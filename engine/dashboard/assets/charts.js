// Pictures, drawn in the width that there is, so that their words stay readable.
function round_values(low, high, most) {
  if (!(high > low)) return [];
  const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(k => k * power).find(each => each >= raw);
  const all = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) all.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return all;
}
function log_values(low, high) {
  const all = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); ++power)
    for (const k of [1, 2, 5]) { const v = k * 10 ** power; if (v >= low && v <= high) all.push(v); }
  return all;
}
// Below a picture: round numbers, or times that people would choose.
const time_steps = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000];
function ticks(svg, x_max, by_time, width, X, y) {
  const most = Math.max(2, width / 120), step = time_steps.find(each => each >= x_max / most) || 864000 * Math.ceil(x_max / most / 864000);
  const values = by_time ? Array.from({ length: Math.floor(x_max / step) + 1 }, (_, i) => i * step) : round_values(0, x_max, most);
  for (const v of values) svg.append(s('text', { x: X(v), y, 'text-anchor': X(v) > width - 40 ? 'end' : 'middle' }, by_time ? span(v) : num(v)));
}

// Draws when it is on the page, and again when the width changes. draw(width) -> svg
let undrawn = [];
function drawn(draw) {
  const at = h('div', {});
  let width = 0;
  const redraw = () => {
    const now = Math.max(260, Math.floor(at.clientWidth));
    if (now === width || !at.isConnected) return;
    width = now;
    at.replaceChildren(draw(now));
  };
  undrawn.push(redraw);
  new ResizeObserver(redraw).observe(at);
  return at;
}
function draw_all() { undrawn.forEach(each => each()); undrawn = []; }

const cursors = {};  // which best is shown in each chart

// Every evaluation: fitness over time or number, the best so far, the line of its ancestors, contenders as levels.
function evaluations_chart(series, unit, contenders) {
  const points = series.points, by_time = series.by === 'time';
  if (!points.length) return h('p', { class: 'faint' }, 'No kernel has been measured yet.');
  const levels = Object.entries(contenders || {});
  let low = series.low, high = series.high;
  for (const [, level] of levels) if (level > low / 8 && level < high * 8) { low = Math.min(low, level); high = Math.max(high, level); }
  const logarithmic = high > 8 * low, words = h('figcaption', { 'aria-live': 'polite' });
  const base = logarithmic ? low : Math.max(0, low - .08 * (high - low)), top = high + (high > low ? .04 * (high - low) : 1);
  const hint = 'Click a dot, or use the arrow keys and Enter for the bests.';
  words.textContent = hint;
  const marks = series.best.map(([x, y, id]) => ({ x, y, id, count: 1, best: true }));
  const draw = width => {
    const height = Math.round(Math.min(420, Math.max(240, width * .42))), left = 58, right = 12, upper = 20, lower = 38;
    const X = x => left + (width - left - right) * (series.x_max ? x / series.x_max : 0);
    const part = y => logarithmic ? Math.log(y / base) / Math.log(top / base) : (y - base) / (top - base || 1);
    const Y = y => height - lower - (height - upper - lower) * Math.max(0, Math.min(1, part(y)));
    const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, role: 'application', tabindex: 0, 'data-key': 'chart-' + series.by,
      'aria-label': `Fitness in ${unit} of every evaluation over ${by_time ? 'search time' : 'the number of evaluations'}; the best changed ${series.best.length === 1 ? 'once' : series.best.length + ' times'}. The arrow keys go through them.` });
    for (const v of logarithmic ? log_values(base, top) : round_values(base, top, height / 50))
      svg.append(s('line', { class: 'axis', x1: left, x2: width - right, y1: Y(v), y2: Y(v) }), s('text', { x: left - 6, y: Y(v) + 4, 'text-anchor': 'end' }, num(v, 3)));
    ticks(svg, series.x_max, by_time, width, X, height - lower + 16);
    svg.append(s('text', { x: width - right, y: height - 4, 'text-anchor': 'end' }, by_time ? 'search time' : 'evaluations'), s('text', { x: 2, y: 11 }, unit + (logarithmic ? ', logarithmic' : '')));
    const bars = s('g', { class: 'bars' }), most = Math.max(1, ...series.rejected.map(each => each[1]));
    for (const [x, count] of series.rejected) { const tall = 3 + 20 * count / most; bars.append(s('rect', { x: X(x) - 1.5, y: height - lower - tall, width: 3, height: tall })); }
    svg.append(bars);
    levels.forEach(([name, level], i) => { if (level >= base && level <= top) svg.append(s('line', { class: 'rival', x1: left, x2: width - right, y1: Y(level), y2: Y(level) }),
      s('text', { class: 'rivalname', x: left + 4 + (i % 2) * (width - left) * .4, y: Y(level) < 40 ? Y(level) + 14 : Y(level) - 4 }, name + ' ' + num(level))); });
    const few = points.length < 400 ? 'dots few' : 'dots';
    const dots = kind => points.filter(p => p[3] === kind).map(p => `M${X(p[0]).toFixed(1)} ${Y(p[1]).toFixed(1)}h0`).join('');
    svg.append(s('path', { class: few, d: dots(0) }), s('path', { class: few + ' refused', d: dots(1) }));
    if (series.path.length > 1) svg.append(s('path', { class: 'pathline', d: 'M' + series.path.map(p => `${X(p[0]).toFixed(1)} ${Y(p[1]).toFixed(1)}`).join('L') }));
    if (series.best.length) {
      let line = '';
      series.best.forEach(([x, y], i) => { line += (i ? `H${X(x).toFixed(1)}V` : `M${X(x).toFixed(1)} `) + Y(y).toFixed(1); });
      svg.append(s('path', { class: 'bestline', d: line + 'H' + (width - right) }), s('path', { class: 'bestdots', d: series.best.map(p => `M${X(p[0]).toFixed(1)} ${Y(p[1]).toFixed(1)}h0`).join('') }));
    }
    const ring = s('circle', { class: 'cursor', r: 6, visibility: 'hidden' });
    svg.append(ring);
    let shown = null;
    const show = p => {
      shown = p;
      ring.setAttribute('visibility', 'visible'); ring.setAttribute('cx', X(p.x)); ring.setAttribute('cy', Y(p.y));
      words.replaceChildren();
      add(words, [p.best ? 'Best ' : 'Kernel ', kernel(p.id), `: ${num(p.y)} ${unit}, ${by_time ? 'after ' + span(p.x) : 'evaluation ' + num(p.x)}` + (p.count > 1 ? `, with ${p.count - 1} more at this place` : '')]);
    };
    const nearest = event => {
      const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * width / box.width, y = (event.clientY - box.top) * height / box.height;
      let found = null, least = 400;
      const look = (px, py, id, count, best) => { const d = (X(px) - x) ** 2 + (Y(py) - y) ** 2; if (d < least) { least = d; found = { x: px, y: py, id, count, best }; } };
      for (const [px, py, id, kind, count] of points) look(px, py, id, count, kind === 2);
      return found;
    };
    svg.addEventListener('pointermove', event => { const p = nearest(event); if (p) show(p); });
    svg.addEventListener('click', event => { const p = nearest(event); if (p) location.hash = address('variant', { id: p.id }); });
    svg.addEventListener('keydown', event => {
      if (event.key === 'Enter' && shown) location.hash = address('variant', { id: shown.id });
      const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!way || !marks.length) return;
      event.preventDefault();
      const at = marks.findIndex(each => each.id === cursors[series.by]), step = Math.max(0, Math.min(marks.length - 1, (at < 0 ? marks.length : at) + way));
      cursors[series.by] = marks[step].id;
      show(marks[step]);
    });
    const chosen = marks.find(each => each.id === cursors[series.by]);
    if (chosen) show(chosen);
    return svg;
  };
  return of(JSON.stringify([series, levels]), h('figure', {}, h('ul', { class: 'keys' }, h('li', { class: 'k-dot' }, 'measured'), h('li', { class: 'k-best' }, 'best so far'), h('li', { class: 'k-path' }, 'ancestors of the best'),
    series.rejected.length ? h('li', { class: 'k-bad' }, 'rejected, or failed confirmation') : null, levels.length ? h('li', { class: 'k-rival' }, 'contenders') : null), drawn(draw), words));
}

// Lines over search time. values: [[x, y], ...] of one measure.
function line_chart(name, unit, values, x_max) {
  const ys = values.map(v => v[1]), low = Math.min(...ys), high = Math.max(...ys);
  const draw = width => {
    const height = 150, left = 58, right = 12, upper = 24, lower = 24, pad = high > low ? 0 : Math.max(1, Math.abs(high) * .05);
    const X = x => left + (width - left - right) * (x_max ? x / x_max : 0), Y = y => height - lower - (height - upper - lower) * (y - low + pad) / (high - low + 2 * pad || 1);
    const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${name}: from ${num(low)} to ${num(high)} ${unit}` });
    for (const v of round_values(low - pad, high + pad, 4)) svg.append(s('line', { class: 'axis', x1: left, x2: width - right, y1: Y(v), y2: Y(v) }), s('text', { x: left - 6, y: Y(v) + 4, 'text-anchor': 'end' }, num(v, 3)));
    svg.append(s('text', { x: 2, y: 11 }, `${name}, ${unit}`), s('path', { class: 'bestline', d: 'M' + values.map(v => `${X(v[0]).toFixed(1)} ${Y(v[1]).toFixed(1)}`).join('L') }));
    ticks(svg, x_max, true, width, X, height - 4);
    return svg;
  };
  return of(JSON.stringify([values, x_max]), h('figure', {}, drawn(draw)));
}
// shares: of the time of all measuring workers, in equal parts of the search time.
function busy_chart(shares, x_max) {
  const draw = width => {
    const height = 120, left = 58, right = 12, upper = 24, lower = 24, wide = (width - left - right) / shares.length;
    const Y = y => height - lower - (height - upper - lower) * y;
    const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Part of the time in which the devices evaluate, over search time: at most ${num(100 * Math.max(0, ...shares), 3)} %` }), bars = s('g', { class: 'busy' });
    for (const v of [0, .5, 1]) svg.append(s('line', { class: 'axis', x1: left, x2: width - right, y1: Y(v), y2: Y(v) }), s('text', { x: left - 6, y: Y(v) + 4, 'text-anchor': 'end' }, num(100 * v) + ' %'));
    shares.forEach((share, i) => bars.append(s('rect', { x: left + i * wide + .5, y: Y(share), width: Math.max(1, wide - 1), height: Math.max(0, height - lower - Y(share)) })));
    svg.append(bars, s('text', { x: 2, y: 11 }, 'busy with evaluations'));
    ticks(svg, x_max, true, width, x => left + (width - left - right) * x / x_max, height - 4);
    return svg;
  };
  return of(JSON.stringify([shares, x_max]), h('figure', {}, drawn(draw)));
}

// Two bars of parts to one scale: what all takes before and after, and thus what is left to speed up. parts: [{name, before, after}]; text: of a time.
function before_after_chart(parts, text) {
  const sum = key => parts.reduce((all, each) => all + each[key], 0), before = sum('before'), after = sum('after');
  const draw = width => {
    const left = 58, right = 12, tall = 34, gap = 26, height = 2 * tall + gap + 30, most = Math.max(before, after);
    const X = x => left + (width - left - right) * x / most;
    const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `All together takes ${text(before)} before and ${text(after)} after; the table above has each` });
    for (const [i, key] of ['before', 'after'].entries()) {
      const y = 4 + i * (tall + gap);
      svg.append(s('text', { x: left - 6, y: y + tall / 2 + 4, 'text-anchor': 'end' }, key));
      let at = 0;
      parts.forEach((each, k) => {
        const x = X(at), wide = X(at + each[key]) - x;
        at += each[key];
        svg.append(s('rect', { class: 'part part' + k % 4, x, y, width: Math.max(0, wide - 1), height: tall }, s('title', {}, `${each.name}: ${text(each[key])}`)));
        if (wide > 9 * Math.min(each.name.length, 6)) svg.append(s('text', { class: 'partname', x: x + 4, y: y + tall / 2 + 4 }, each.name.slice(0, Math.floor((wide - 6) / 8))));
      });
      svg.append(s('text', { x: left, y: y + tall + 14 }, text(i ? after : before)));
    }
    return svg;
  };
  return of(JSON.stringify(parts), h('figure', {}, drawn(draw)));
}

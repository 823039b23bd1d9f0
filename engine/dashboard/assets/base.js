// Elements, numbers and words. Nothing here takes text for markup: what a record holds is text.
const embedded = (() => {
  const part = id => { const at = document.getElementById(id); return at ? JSON.parse(at.textContent) : null; };
  const data = part('data');
  return data && { data, variants: part('variants') };
})();

// Shows what cannot be seen: control characters, and those that change the direction of writing.
function plain(text) {
  return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
    c => c === '\r' ? '' : c.charCodeAt(0) < 256 ? '\\x' + c.charCodeAt(0).toString(16).padStart(2, '0') : '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}
function add(at, child) {
  if (child === null || child === undefined || child === false) return;
  if (Array.isArray(child)) child.forEach(each => add(at, each));
  else at.append(child instanceof Node ? child : plain(child));
}
function h(tag, attributes, ...children) {
  const at = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) at.addEventListener(name.slice(2), value);
    else at.setAttribute(name, value === true ? '' : plain(value));
  }
  add(at, children);
  return at;
}
function s(tag, attributes, ...children) {
  const at = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes || {})) if (value !== null && value !== undefined) at.setAttribute(name, value);
  add(at, children);
  return at;
}

const absent = '\u2013';
function num(x, digits = 4) {
  if (typeof x !== 'number' || !isFinite(x)) return absent;
  if (Number.isInteger(x) && Math.abs(x) < 1e15) return x.toLocaleString('en-US');
  const size = Math.abs(x);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return x.toExponential(digits - 1);
  return Number(x.toPrecision(digits)).toLocaleString('en-US', { maximumFractionDigits: 8 });
}
// The one form of a duration, "1 h 30 min", and of a point in time, "2026-11-30 12:30:05 UTC+1".
function span(t) {
  if (typeof t !== 'number' || !isFinite(t)) return absent;
  if (t < 60) return num(Number(t.toFixed(t < 10 ? 1 : 0))) + ' s';
  const w = Math.round(t), two = (of, one, next, unit) => Math.floor(w / of) + one + (Math.floor(w / next % (of / next)) ? ` ${Math.floor(w / next % (of / next))} ${unit}` : '');
  return w < 3600 ? two(60, ' min', 1, 's') : w < 86400 ? two(3600, ' h', 60, 'min') : two(86400, ' d', 3600, 'h');
}
function moment(t) {
  if (!(t > 0)) return absent;
  const d = new Date(1000 * t), two = x => String(x).padStart(2, '0'), ahead = -d.getTimezoneOffset(), off = Math.abs(ahead);
  const zone = 'UTC' + (ahead ? (ahead > 0 ? '+' : '-') + Math.floor(off / 60) + (off % 60 ? ':' + two(off % 60) : '') : '');
  return h('time', { datetime: d.toISOString() }, h('span', { class: 'nowrap' }, `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`), ' ',
    h('span', { class: 'nowrap' }, `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())} ${zone}`));
}
function micro(us) { return typeof us !== 'number' ? absent : us < 1e3 ? num(us) + ' us' : us < 1e6 ? num(us / 1e3) + ' ms' : num(us / 1e6) + ' s'; }
function percent(part) { return typeof part !== 'number' || !isFinite(part) ? absent : (part >= 0 ? '+' : '\u2212') + num(Math.abs(100 * part), 3) + ' %'; }
// A ratio of speeds as `ratio_words` writes it for the terminal: "1.49x", "1.004x".
function times(x) { return typeof x !== 'number' || !isFinite(x) ? absent : x.toFixed(x >= 100 ? 0 : x >= 10 ? 1 : x >= 1.1 || x < .9 ? 2 : 3) + 'x'; }
function counted(count, word) { return `${num(count)} ${word}${count === 1 ? '' : 's'}`; }
function money(x) { return x > 0 ? x.toFixed(x < 1 ? 4 : 2) : ''; }
// "+4.4 % (+3.9 to +5.0 %)" of {ratio, lower, upper}.
function gain(duel) {
  if (!duel) return '';
  const bound = b => b === null || b === undefined ? null : percent(b - 1);
  const low = bound(duel.lower), high = bound(duel.upper);
  return percent(duel.ratio - 1) + (low && high ? ` (${low} to ${high})` : low ? ` (at least ${low})` : high ? ` (at most ${high})` : '');
}

const place = { run: '', view: 'overview', values: {} };
function address(view, values) {
  const all = new URLSearchParams();
  if (place.run && !embedded) all.set('run', place.run);
  all.set('view', view);
  for (const [name, value] of Object.entries(values || {})) if (value !== '' && value !== null && value !== undefined) all.set(name, value);
  return '#' + all;
}
function kernel(id, words) { return id ? h('a', { href: address('variant', { id }) }, words || '#' + id) : absent; }

// A table in a box that scrolls sideways, and says so; rows: arrays of cells. heads: [{name, n, text, brief, whole, sort}]. n: numbers; text: words
// that may be many, brief: of which a narrow screen shows one line; whole: on one line always. Rows are known again by their first cell.
function table(caption, heads, rows, options = {}) {
  const head = heads.map(each => {
    const one = typeof each === 'string' ? { name: each } : each;
    const sorted = options.sort && one.sort === options.sort ? (options.up ? 'ascending' : 'descending') : null;
    return h('th', { scope: 'col', class: one.n ? 'n' : null, 'aria-sort': sorted },
      one.sort ? h('button', { type: 'button', 'data-key': 'sort-' + one.sort, onclick: () => options.onsort(one.sort) }, one.name) : one.name);
  });
  const body = rows.map(row => h('tr', { class: row.mark }, (row.cells || row).map((cell, i) =>
    h('td', { class: heads[i] ? (heads[i].n ? 'n' : heads[i].text ? (heads[i].brief ? 'text brief' : 'text') : heads[i].whole ? 'nowrap' : null) : null }, cell))));
  for (const row of body) row.dataset.row = row.firstChild.textContent.slice(0, 100);
  if (!rows.length) body.push(h('tr', {}, h('td', { colspan: heads.length, class: 'faint' }, options.none || 'None yet.')));
  const inside = h('table', { 'aria-label': caption }, h('thead', {}, h('tr', {}, head)), h('tbody', {}, body));
  const wide = h('div', { class: 'wide', tabindex: 0, role: 'region', 'aria-label': caption }, inside), hint = h('span', { class: 'hint', 'aria-hidden': 'true' });
  hint.of = '';  // its own
  const look = () => {
    const end = wide.getBoundingClientRect().right, beyond = [...inside.rows[0].cells].filter(cell => cell.getBoundingClientRect().right > end + 2).length;
    hint.textContent = beyond ? `${counted(beyond, 'more column')} \u2192` : '';
  };
  wide.addEventListener('scroll', look, { passive: true });
  new ResizeObserver(look).observe(wide);
  return h('div', { class: 'boxed' }, h('p', { class: 'caption', 'aria-hidden': 'true' }, caption, hint),  // it does not scroll sideways
    wide);
}
function tiles(list) {
  return h('dl', { class: 'tiles' }, list.filter(Boolean).map(([name, value, more]) =>
    h('div', { class: 'tile' }, h('dt', {}, name), h('dd', {}, value, more ? h('small', {}, more) : null))));
}
// A long text: its beginning, and all of it on request.
function long(text, most = 20000) {
  text = String(text);
  if (text.length <= most) return h('pre', { tabindex: 0 }, text);
  const at = h('pre', { tabindex: 0 }, text.slice(0, most));
  const more = h('button', { type: 'button', onclick: () => { at.textContent = plain(text); more.remove(); } }, `Show all ${num(text.length)} characters`);
  return of(text, h('div', {}, at, more));
}

// Makes `at` like `next` and leaves alone what is the same: what is focused, selected, unfolded or scrolled stays so. Of a node that was made
// with of() only what it shows is compared: it changes itself.
function of(what, node) { node.of = what; return node; }
const key_of = node => node.nodeType === 1 ? node.tagName + (node.dataset.row || node.dataset.key || node.id) : node.nodeName;
function become(at, next) {
  if (next.of !== undefined || at.of !== undefined) { if (at.of !== next.of) at.replaceWith(next); return; }
  if (next.nodeType !== 1) { if (at.data !== next.data) at.data = next.data; return; }
  for (const { name } of [...at.attributes]) if (!next.hasAttribute(name) && name !== 'open') at.removeAttribute(name);
  for (const { name, value } of next.attributes) if (at.getAttribute(name) !== value && name !== 'open') at.setAttribute(name, value);
  become_children(at, next);
}
function become_children(at, next) {
  const old = new Map(), pairs = [];
  for (const child of at.childNodes) { const key = key_of(child); if (!old.has(key)) old.set(key, []); old.get(key).push(child); }
  for (const child of [...next.childNodes]) pairs.push([child, (old.get(key_of(child)) || []).shift()]);
  for (const rest of old.values()) rest.forEach(child => child.remove());
  let place = at.firstChild;
  for (const [child, found] of pairs) {
    if (!found) { at.insertBefore(child, place); continue; }
    if (found === place) place = place.nextSibling; else at.insertBefore(found, place);
    become(found, child);
  }
}

async function get(view, values = {}) {
  if (embedded) return stored(view, values);
  const all = new URLSearchParams(values);
  if (place.run && view !== 'runs' && view !== 'suite') all.set('run', place.run);
  let reply, said;
  try { reply = await fetch('api/' + view + '?' + all, { credentials: 'same-origin', cache: 'no-store' }); } catch { throw Object.assign(new Error('The dashboard does not answer.'), { away: true }); }
  try { said = await reply.json(); } catch { said = { error: reply.status === 401 ? 'A token is needed: open the address that `cultivar dashboard` printed.' : 'The dashboard gave no answer.' }; }
  if (!reply.ok) throw new Error(said.error || String(reply.status));
  return said;
}

// The same answers from a page that holds its run.
const rows = (() => {
  let all = null;
  return () => {
    if (all) return all;
    const { columns, words, rows: compact } = embedded.data.compact, states = ['proposed', 'measured', 'rejected'], best = (embedded.data.state.summary.best || {}).id;
    all = compact.map(row => {
      const k = {};
      columns.forEach((name, i) => { k[name] = row[i]; });
      for (const name of ['operator', 'model', 'stage', 'reason', 'configuration', 'note']) k[name] = words[k[name]];
      Object.assign(k, { promoted: !!(k.state & 4), expelled: !!(k.state & 8), state: states[k.state & 3], best: k.id === best });
      if (k.elapsed_s < 0) k.elapsed_s = null;
      return k;
    });
    return all;
  };
})();
function stored(view, values) {
  const { data, variants } = embedded;
  if (view === 'runs') return { runs: [{ name: data.run }] };
  if (view === 'series') return data['series?by=' + (values.by || 'time')];
  if (view === 'variant') {
    if (variants[values.id]) return variants[values.id];
    const k = rows().find(each => each.id === Number(values.id));
    if (!k) throw new Error('This run has no individual with that number.');
    return { ...k, brief: true, parents: k.parent ? [k.parent] : [], children: rows().filter(each => each.parent === k.id).map(each => each.id), standing: k.fitness };
  }
  if (view === 'path' && values.id && Number(values.id) !== data.path.of) return { of: Number(values.id), path: [] };
  if (view === 'children') {
    const own = new Map();
    for (const k of rows()) own.set(k.parent, (own.get(k.parent) || 0) + 1);
    const all = rows().filter(k => k.parent === Number(values.id || 0)).sort((a, b) => b.promoted - a.promoted || b.fitness - a.fitness);
    const from = Number(values.from || 0);
    return { of: values.id, all: all.length, from, rows: all.slice(from, from + Number(values.count || 30)).map(k => ({ ...k, children: own.get(k.id) || 0 })) };
  }
  if (view === 'table') {
    const text = (values.text || '').toLowerCase(), used = name => [...new Set(rows().map(k => k[name]).filter(w => w !== ''))].sort();
    const is = { promoted: k => k.promoted, expelled: k => k.expelled };
    const fit = rows().filter(k => (!values.state || (is[values.state] ? is[values.state](k) : k.state === values.state)) &&
      ['operator', 'model', 'stage', 'reason'].every(name => !values[name] || k[name] === values[name]) && (!values.island || k.island === Number(values.island)) &&
      (!text || ['operator', 'model', 'stage', 'reason', 'configuration', 'note'].some(name => k[name].toLowerCase().includes(text))));
    const key = { fitness: 'fitness', time: 'elapsed_s', operator: 'operator', island: 'island', stage: 'stage' }[values.sort] || 'id', way = values.order === 'up' ? 1 : -1;
    const known = k => key === 'island' || k[key] === 0 || k[key] ? key !== 'fitness' || k[key] > 0 : false;
    fit.sort((a, b) => known(b) - known(a) || way * (a[key] < b[key] ? -1 : a[key] > b[key] ? 1 : 0));
    const from = Number(values.from || 0);
    return { rows: fit.slice(from, from + Number(values.count || 50)), all: fit.length, from, cut: data.compact.cut, operators: used('operator'), models: used('model'), stages: used('stage'), islands: used('island') };
  }
  return data[view];
}

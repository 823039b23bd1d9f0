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
function span(t) {
  if (typeof t !== 'number' || !isFinite(t)) return absent;
  if (t < 60) return num(Number(t.toFixed(t < 10 ? 1 : 0))) + ' s';
  const w = Math.round(t);
  if (w < 3600) return Math.floor(w / 60) + ' min ' + (w % 60) + ' s';
  if (w < 86400) return Math.floor(w / 3600) + ' h ' + Math.floor(w / 60 % 60) + ' min';
  return Math.floor(w / 86400) + ' d ' + Math.floor(w / 3600 % 24) + ' h';
}
function micro(us) { return typeof us !== 'number' ? absent : us < 1e3 ? num(us) + ' us' : us < 1e6 ? num(us / 1e3) + ' ms' : num(us / 1e6) + ' s'; }
function percent(part) { return typeof part !== 'number' || !isFinite(part) ? absent : (part >= 0 ? '+' : '\u2212') + num(Math.abs(100 * part), 3) + ' %'; }
function times(x) { return typeof x !== 'number' || !isFinite(x) ? absent : num(x, x >= .9 && x < 1.1 ? 4 : 3) + 'x'; }
function counted(count, word) { return `${num(count)} ${word}${count === 1 ? '' : 's'}`; }
function money(x) { return x > 0 ? x.toFixed(x < 1 ? 4 : 2) : ''; }
function when(t) { return t > 0 ? new Date(1000 * t).toLocaleString() : absent; }
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

// A table in a box that scrolls sideways; rows: arrays of cells. heads: [{name, n, text, brief, whole, sort}]. n: numbers; text: words that may
// be many, brief: of which a narrow screen shows one line; whole: on one line always.
function table(caption, heads, rows, options = {}) {
  const head = heads.map(each => {
    const one = typeof each === 'string' ? { name: each } : each;
    const sorted = options.sort && one.sort === options.sort ? (options.up ? 'ascending' : 'descending') : null;
    return h('th', { scope: 'col', class: one.n ? 'n' : null, 'aria-sort': sorted },
      one.sort ? h('button', { type: 'button', 'data-key': 'sort-' + one.sort, onclick: () => options.onsort(one.sort) }, one.name) : one.name);
  });
  const body = rows.map(row => h('tr', { class: row.mark }, (row.cells || row).map((cell, i) =>
    h('td', { class: heads[i] ? (heads[i].n ? 'n' : heads[i].text ? (heads[i].brief ? 'text brief' : 'text') : heads[i].whole ? 'nowrap' : null) : null }, cell))));
  if (!rows.length) body.push(h('tr', {}, h('td', { colspan: heads.length, class: 'faint' }, options.none || 'None yet.')));
  return h('div', { class: 'boxed' }, h('p', { class: 'caption', 'aria-hidden': 'true' }, caption),  // it does not scroll sideways
    h('div', { class: 'wide', tabindex: 0, role: 'region', 'aria-label': caption },
      h('table', { 'aria-label': caption }, h('thead', {}, h('tr', {}, head)), h('tbody', {}, body))));
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
  return h('div', {}, at, more);
}

async function get(view, values = {}) {
  if (embedded) return stored(view, values);
  const all = new URLSearchParams(values);
  if (place.run && view !== 'runs' && view !== 'suite') all.set('run', place.run);
  const reply = await fetch('api/' + view + '?' + all, { credentials: 'same-origin', cache: 'no-store' });
  let said;
  try { said = await reply.json(); } catch { said = { error: reply.status === 401 ? 'A token is needed: open the address that `cultivar dashboard` printed.' : 'The dashboard gave no answer.' }; }
  if (!reply.ok) throw new Error(said.error || String(reply.status));
  return said;
}

// The same answers from a page that holds its run.
const rows = (() => {
  let all = null;
  return () => {
    if (all) return all;
    const { columns, words, rows: compact } = embedded.data.compact, states = ['proposed', 'measured', 'rejected'];
    all = compact.map(row => {
      const k = {};
      columns.forEach((name, i) => { k[name] = row[i]; });
      for (const name of ['operator', 'model', 'stage', 'reason']) k[name] = words[k[name]];
      Object.assign(k, { promoted: !!(k.state & 4), expelled: !!(k.state & 8), state: states[k.state & 3], note: '', configuration: '' });
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
    const fit = rows().filter(k => (!values.state || (values.state === 'promoted' ? k.promoted : k.state === values.state)) &&
      (!values.operator || k.operator === values.operator) && (!values.model || k.model === values.model) && (!values.stage || k.stage === values.stage) &&
      (!values.island || k.island === Number(values.island)) && (!text || `${k.operator} ${k.model} ${k.stage} ${k.reason}`.toLowerCase().includes(text)));
    const key = { fitness: 'fitness', time: 'elapsed_s', operator: 'operator', island: 'island', stage: 'stage' }[values.sort] || 'id', way = values.order === 'up' ? 1 : -1;
    fit.sort((a, b) => way * (a[key] < b[key] ? -1 : a[key] > b[key] ? 1 : 0));
    const from = Number(values.from || 0);
    return { rows: fit.slice(from, from + Number(values.count || 50)), all: fit.length, from, operators: used('operator'), models: used('model'), stages: used('stage'), islands: used('island') };
  }
  return data[view];
}

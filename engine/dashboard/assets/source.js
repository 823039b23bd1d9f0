// A kernel's source: its words in colors, and how it differs from its parent's.
const keywords = new Set(('alignas alignof auto bool break case catch char class concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept nullptr operator private protected public register reinterpret_cast requires return short signed sizeof static static_cast struct switch template this throw true try typedef typename union unsigned using virtual void volatile while ' +
  '__global__ __device__ __shared__ __host__ __restrict__ __launch_bounds__ __forceinline__ __syncthreads __grid_constant__ half float2 float4 uint4 size_t ssize_t uint8_t uint16_t uint32_t uint64_t int8_t int16_t int32_t int64_t ' +
  'def lambda import from as pass None True False with yield in not and or is elif tl kernel global local __kernel __global __local').split(' '));
const word = /(\/\/[^\n]*|#[^\n]*|\/\*[\s\S]*?\*\/)|("(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)|([A-Za-z_]\w*)|(\d(?:[\w.]|[eEpP][+-])*)/y;

// For each line the nodes that show it.
function highlighted(source) {
  const lines = [[]];
  const put = (text, kind) => text.split('\n').forEach((part, i) => {
    if (i) lines.push([]);
    if (part) lines[lines.length - 1].push(kind ? h('span', { class: kind }, part) : plain(part));
  });
  if (source.length > 400000) { source.split('\n').forEach((line, i) => { if (i) lines.push([]); lines[lines.length - 1].push(plain(line)); }); return lines; }
  let loose = '';
  for (let i = 0; i < source.length;) {
    word.lastIndex = i;
    const found = word.exec(source);
    if (!found) { loose += source[i++]; continue; }
    const kind = found[1] ? (found[1][0] === '#' ? 'hp' : 'hc') : found[2] ? 'hs' : found[4] ? 'hn' : keywords.has(found[3]) ? 'hk' : null;
    if (!kind) loose += found[0];
    else { if (loose) put(loose); loose = ''; put(found[0], kind); }
    i += found[0].length;
  }
  if (loose) put(loose);
  return lines;
}

// [[' ' | '-' | '+', line of before, line of after], ...] by Myers' algorithm; null: they differ too much for it to end soon.
function difference(before, after) {
  const n = before.length, m = after.length, trail = [];
  let head = 0, tail = 0;
  while (head < n && head < m && before[head] === after[head]) ++head;
  while (tail < n - head && tail < m - head && before[n - 1 - tail] === after[m - 1 - tail]) ++tail;
  const a = before.slice(head, n - tail), b = after.slice(head, m - tail), most = Math.min(a.length + b.length, 1000);
  let at = new Map([[1, 0]]), found = -1;
  search: for (let d = 0; d <= most; ++d) {
    trail.push(new Map(at));
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && (at.get(k - 1) ?? -1) < (at.get(k + 1) ?? -1)) ? at.get(k + 1) ?? 0 : (at.get(k - 1) ?? -1) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) ++x;
      at.set(k, x);
      if (x >= a.length && x - k >= b.length) { found = d; break search; }
    }
    if (d > 900) return null;
  }
  if (found < 0) return null;
  const middle = [];
  let x = a.length, y = b.length;
  for (let d = found; d >= 0; --d) {
    const v = trail[d], k = x - y;
    const from = k === -d || (k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1)) ? k + 1 : k - 1;
    const px = d ? v.get(from) ?? 0 : 0, py = d ? px - from : 0;
    while (x > px && y > py) { --x; --y; middle.push([' ', head + x, head + y]); }
    if (d) { if (x > px) { --x; middle.push(['-', head + x, -1]); } else { --y; middle.push(['+', -1, head + y]); } }
  }
  middle.reverse();
  const all = [];
  for (let i = 0; i < head; ++i) all.push([' ', i, i]);
  all.push(...middle);
  for (let i = tail; i > 0; --i) all.push([' ', n - i, m - i]);
  return all;
}

function diff_table(before, after, name) {
  const a = before.split('\n'), b = after.split('\n'), steps = difference(a, b);
  if (!steps) return h('p', {}, 'The two sources have too little in common for a comparison by lines.');
  const context = 4, near = new Array(steps.length).fill(false);
  steps.forEach(([kind], i) => { if (kind !== ' ') for (let j = Math.max(0, i - context); j <= Math.min(steps.length - 1, i + context); ++j) near[j] = true; });
  const body = [];
  let left = 0;
  steps.forEach(([kind, i, j], at) => {
    if (!near[at]) { ++left; return; }
    if (left) { body.push(h('tr', { class: 'gap' }, h('td', { class: 'no', colspan: 2 }), h('td', {}, `${num(left)} equal lines`))); left = 0; }
    body.push(h('tr', { class: kind === '+' ? 'added' : kind === '-' ? 'removed' : null },
      h('td', { class: 'no' }, i >= 0 ? i + 1 : ''), h('td', { class: 'no' }, j >= 0 ? j + 1 : ''), h('td', {}, kind + ' ' + (j >= 0 ? b[j] : a[i]))));
  });
  if (left) body.push(h('tr', { class: 'gap' }, h('td', { class: 'no', colspan: 2 }), h('td', {}, `${num(left)} equal lines`)));
  return h('div', { class: 'code', tabindex: 0, role: 'region', 'aria-label': name }, h('table', {}, h('tbody', {}, body)));
}

// notes: {line: text} beside a line; unrun: [[first, last], ...] lines that no check ran.
function source_table(source, name, notes = {}, unrun = []) {
  const noted = Object.keys(notes).length > 0;
  const body = highlighted(source).map((nodes, i) => {
    const missed = unrun.some(([first, last]) => i + 1 >= first && i + 1 <= last);
    return h('tr', { class: missed ? 'unrun' : null, title: missed ? 'Some block of this line never ran under a check' : null },
      h('td', { class: 'no' }, i + 1), noted ? h('td', { class: 'side' }, notes[i + 1] || '') : null, h('td', {}, nodes.length ? nodes : ' '));
  });
  return h('div', { class: 'code', tabindex: 0, role: 'region', 'aria-label': name }, h('table', {}, h('tbody', {}, body)));
}

// The views of a run. Each loads what it shows and gives the nodes; it is called again when the record has changed.
function state_tag(row) {
  const [words, kind] = row.best ? ['best', 'lead'] : row.promoted ? ['was best', 'lead'] : row.expelled ? ['failed confirmation', 'bad'] : row.state === 'proposed' ? ['not evaluated', 'faint'] : [row.state, row.state === 'measured' ? 'good' : 'bad'];
  return h('span', { class: 'tag ' + kind }, words);
}
function who(row) { return row.operator + (row.model ? ' with ' + row.model : ''); }
function why(row) { return row.state === 'rejected' || row.expelled ? row.stage + (row.reason ? ': ' + row.reason : '') : ''; }

// What a run does now, or how it ended: said once. [state, reason, kind]
const is_alive = q => ['running', 'waiting for workers', 'frozen'].includes(q.state);
function doing(q) {
  if (!is_alive(q)) return [q.state, q.stop_reason, q.state === 'failed' ? 'bad' : null];
  if (q.state === 'frozen') return [q.state, q.stop_reason, 'bad'];
  if (q.waiting) return ['waiting for workers', `no usable worker for ${span(q.waiting.for_s)}: ${q.waiting.why}`, 'bad'];
  if (q.ending) return ['ending', `${q.ending.why}; work in progress may take another ${span(q.ending.left_s)}`, 'warn'];
  return [q.state, q.step || (typeof q.heartbeat_age_s === 'number' ? `recorded ${span(q.heartbeat_age_s)} ago` : ''), q.state === 'running' ? 'good' : null];
}
// Of kernels that a search left undone.
function until_when(q) { return q.state === 'finished' ? 'when the search ended' : 'until the search is resumed'; }

const views = {};

views.overview = {
  name: 'Overview',
  async show() {
    const [state, series] = await Promise.all([get('state'), get('series', { by: 'time' })]);
    const q = state.summary, best = q.best, unit = state.unit, alive = is_alive(q), [now, reason, kind] = doing(q), newest = state.promotions[state.promotions.length - 1];
    const rejected = Object.values(q.rejected).reduce((a, b) => a + b, 0);
    const limited = Object.entries(q.budget).filter(([, use]) => use.limit).map(([kind, use]) => budget_words(kind, use.used) + ' of ' + budget_words(kind, use.limit));
    const rivals = best ? Object.entries(best.ratios) : [];
    const parts = [tiles([
      ['State', h('span', { class: kind }, now), reason],
      ['Best', best ? [num(best.fitness), ' ', unit] : 'none yet', best ? [kernel(best.id), newest && newest.at > 0 ? [', found ', moment(newest.at)] : ''] : null],
      best && best.ratio_to_seed && best.ratio_to_seed !== 1 ? ['Beside the first seed', times(best.ratio_to_seed), best.seed_beside ? 'timed together, when it was confirmed' : 'by their figures in the search'] : null,
      rivals.length ? ['Beside contenders', times(Math.min(...rivals.map(r => r[1]))), rivals.map(([name, ratio]) => (rivals.length > 1 ? times(ratio) + ' ' : '') + name).join(', ') + '; timed together, when it was confirmed'] : null,
      ['Since the best', state.best_age_s === null ? absent : span(state.best_age_s), 'of search time'],
      ['Evaluated', num(q.evaluations), `${num(q.measured)} measured${q.expelled ? ` (${num(q.expelled)} failed ${q.expelled === 1 ? 'its' : 'their'} confirmation)` : ''}, ${num(rejected)} rejected` + (q.in_flight ? (alive ? `; ${num(q.in_flight)} in flight` : `; ${num(q.in_flight)} not evaluated ${until_when(q)}`) : '')],
      ['Evaluations per hour', q.evaluations_per_hour ? num(q.evaluations_per_hour, 3) : absent, state.rate_over],
      ['Comparisons', counted(q.duels, 'duel'), counted(q.promotions, 'promotion') + (q.challengers ? `; ${num(q.challengers)} ${alive ? 'waiting for a duel' : 'waiting for a duel ' + until_when(q)}` : '')],
      ['Search time', span(q.elapsed_s), [...limited, 'in ' + counted(state.sessions, 'session')].join('; ')],
      ['Started', moment(state.created_at), alive ? null : ['ended ', moment(state.last_step_at)]],
    ])];
    for (const [words, kind] of [[q.lost, 'bad'], [q.undelivered, 'bad'], [alive && q.gate_advice, 'warn'],
      [q.duel ? `Duel of #${q.duel.challenger} with #${q.duel.incumbent}: ${q.duel.progress || 'running'}` : '', 'faint'],
      [q.outstanding ? `#${q.outstanding.id}${q.outstanding.by_duel ? ' won its duel and' : ', the first candidate for the best,'} ${alive ? 'waits for its confirmation' : 'was not confirmed ' + until_when(q)}.` : '', 'faint'],
      [alive && q.questions && q.questions.paused ? 'Paused: ' + q.questions.paused : '', 'warn']])
      if (words) parts.push(h('p', { class: kind }, words));
    parts.push(h('h2', {}, 'Promotions'), table('Each kernel that became the best, the last one first; the gain is over the best before it, in their duel', [
      'Kernel', { name: unit, n: true }, { name: 'Gain (bounds)', whole: true }, { name: 'After', n: true }, { name: 'When', whole: true }, { name: 'Evaluation', n: true }, { name: 'By', whole: true }, { name: 'Change', text: true, brief: true }],
    state.promotions.slice().reverse().map(row => [kernel(row.id), num(row.fitness), gain(row.duel) || absent, span(row.elapsed_s), moment(row.at), num(row.evaluations), who(row), row.note]),
    { none: 'No kernel has been promoted yet.' }));
    parts.push(h('h2', {}, 'Fitness over search time'), evaluations_chart(series, unit, state.contenders));
    parts.push(h('p', { class: 'faint' }, `${unit || 'Fitness'} here and in every list: that of the best before, times the ratio of their duel; without a duel as measured` + (state.paced ? ', scaled to the speed of the device at the start.' : '.')));
    return parts;
  },
};

views.evaluations = {
  name: 'Evaluations',
  async show() {
    const [state, by_time, by_count] = await Promise.all([get('state'), get('series', { by: 'time' }), get('series', { by: 'count' })]);
    const q = state.summary;
    return [table('What became of the evaluations', ['Result', { name: 'Count', n: true }],
      [['measured', num(q.measured)], ...(q.expelled ? [['measured, then failed the confirmation', num(q.expelled)]] : []), ...Object.entries(q.rejected).map(([stage, count]) => ['rejected at ' + stage, num(count)]), ...(q.in_flight ? [[is_alive(q) ? 'in flight' : 'not evaluated ' + until_when(q), num(q.in_flight)]] : [])]),
    h('h2', {}, 'By search time'), evaluations_chart(by_time, state.unit, state.contenders),
    h('h2', {}, 'By number'), evaluations_chart(by_count, state.unit, state.contenders)];
  },
};

views.lineage = {
  name: 'Lineage',
  async show(values) {
    const of = values.id ? { id: values.id } : {};
    const [state, path, roots] = await Promise.all([get('state'), get('path', of), children_of(0)]);
    const steps = table(`From the seed to ${path.of ? '#' + path.of : 'the best'}: every ancestor, whatever became of it`, ['Kernel', { name: state.unit, n: true }, { name: 'Over parent', n: true }, { name: 'Duel', whole: true }, { name: 'By', whole: true }, { name: 'Change', text: true, brief: true }, 'State'],
      path.path.map(row => [kernel(row.id), row.fitness ? num(row.fitness) : absent, row.gain === null ? '' : percent(row.gain), gain(row.duel), who(row), row.change, state_tag(row)]),
      { none: 'There is no best kernel yet.' });
    return [steps, h('h2', {}, 'Tree'), h('p', { class: 'faint' }, 'Children are those of the first parent, the fastest first.'), await tree_of(roots, new Set(path.path.map(row => row.id)), 0)];
  },
};
const unfolded = new Set(), wanted = new Map();  // individuals whose children are shown, and how many of them
async function children_of(id) {
  const most = wanted.get(id) || 30, list = await get('children', { id, count: Math.min(200, most) });
  for (let more = true; more && list.rows.length < Math.min(most, list.all);) {
    const next = await get('children', { id, from: list.rows.length, count: 200 });
    list.rows.push(...next.rows);
    more = next.rows.length > 0;
  }
  return list;
}
async function tree_of(list, on_path, parent) {
  const at = h('ul', { class: 'tree' });
  const put = async row => {
    const item = h('li', { 'data-row': row.id }), opened = unfolded.has(row.id);
    const below = async () => { try { return await tree_of(await children_of(row.id), on_path, row.id); } catch (error) { return failure(error); } };
    const toggle = async () => {
      const open = !unfolded.delete(row.id);
      if (open) unfolded.add(row.id);
      fold.textContent = open ? '\u2212' : '+'; fold.setAttribute('aria-expanded', open);
      item.querySelectorAll(':scope > ul, :scope > .error').forEach(each => each.remove());
      const nodes = open && await below();
      if (nodes && unfolded.has(row.id) && !item.querySelector(':scope > ul')) item.append(nodes);
    };
    const fold = row.children ? h('button', { type: 'button', class: 'fold', 'data-key': 'fold-' + row.id, 'aria-expanded': String(opened), 'aria-label': `${row.children} children of #${row.id}`, onclick: toggle }, opened ? '\u2212' : '+') : null;
    add(item, [fold, kernel(row.id), ' ', row.fitness ? h('b', { class: on_path.has(row.id) ? 'lead' : null }, num(row.fitness)) : h('span', { class: 'faint' }, why(row) || 'not evaluated'), on_path.has(row.id) ? h('span', { class: 'lead' }, ' on the path') : null,
      row.best ? ' (best)' : row.promoted ? ' (was best)' : '', ' ', who(row), row.note ? h('span', { class: 'faint' }, ': ' + row.note) : null, row.children ? h('span', { class: 'faint' }, ` (${num(row.children)})`) : null]);
    at.append(item);
    if (opened && fold) item.append(await below());
  };
  await Promise.all(list.rows.map(put));
  const left = list.all - list.rows.length;
  if (left > 0) at.append(h('li', {}, h('button', { type: 'button', 'data-key': 'more-' + parent, onclick: () => { wanted.set(parent, list.rows.length + 50); show(false); } }, `${num(left)} more`)));
  return at;
}

views.islands = {
  name: 'Islands',
  async show() {
    const [state, view] = await Promise.all([get('state'), get('islands')]);
    const unit = state.unit, all = view.cells ? view.cells.map(cell => cell.elite) : view.islands.flatMap(row => row.elites || []), families = all.some(each => each.family), other = all.some(each => each.fitness_in_search), after = row => row.elapsed_s >= 0 ? span(row.elapsed_s) : '';
    const figure_heads = [{ name: unit, n: true }, ...(other ? [{ name: 'In the search', n: true }] : [])], figures = row => [num(row.fitness), ...(other ? [num(row.fitness_in_search || row.fitness)] : [])];
    const parts = [table('What was bred on each island', [{ name: 'Island', n: true }, { name: 'Proposed', n: true }, { name: 'Measured', n: true }, { name: 'Rejected', n: true }, { name: 'Promoted', n: true }, { name: 'Parents now', n: true }, 'Fastest', { name: unit, n: true }, { name: 'By', whole: true }, { name: 'After', n: true }],
      view.islands.map(row => [num(row.island), num(row.proposed), num(row.measured), num(row.rejected), num(row.promoted), row.elites ? num(row.all_elites) : absent, row.best ? kernel(row.best.id) : absent, row.best ? num(row.best.fitness) : '', row.best ? who(row.best) : '', row.best ? after(row.best) : '']))];
    if (view.trouble) return [...parts, h('p', { class: 'warn' }, 'Which kernels are parents now is not known: ' + view.trouble)];
    if (view.cells) parts.push(h('h2', {}, 'Cells'), h('p', { class: 'faint' }, `Of kernels that are alike, the fastest remains a parent: ${counted(view.all_cells, 'cell')} of at most ${num(view.most_cells)}, by ${view.axes.join(', ')}.`),
      cell_grid(view, unit), h('details', { open: view.cells.length <= 12 }, h('summary', {}, 'As a list, the fastest first'),
        table('Cells', [...view.axes, 'Kernel', ...figure_heads, { name: 'By', whole: true }, { name: 'After', n: true }],
          view.cells.map(({ steps, elite }) => [...steps.map((step, i) => step_words(step, view.axes[i])), kernel(elite.id), ...figures(elite), who(elite), after(elite)]))));
    else for (const island of view.islands) if (island.elites) parts.push(h('h2', {}, `Parents on island ${island.island}`),
      table(`The kernels that island ${island.island} keeps as parents, the fastest first` + (other ? ' by their figures in the search' : '') + (island.all_elites > island.elites.length ? `: ${island.elites.length} of ${num(island.all_elites)}` : ''),
        ['Kernel', ...figure_heads, { name: 'By', whole: true }, ...(families ? ['Family'] : []), 'Born', { name: 'After', n: true }],
        island.elites.map(row => [kernel(row.id), ...figures(row), who(row), ...(families ? [row.family ? kernel(row.family) : absent] : []), row.immigrant ? 'on island ' + row.island : 'here', after(row)]), { none: 'None.' }));
    if (view.moved) parts.push(h('h2', {}, 'Moves between islands'), table(view.moved > view.moves.length ? `The newest ${view.moves.length} of ${num(view.moved)}` : 'The last one first', [{ name: 'After', n: true }, 'Kernel', { name: 'From', n: true }, { name: 'To', n: true }, 'Why'],
      view.moves.slice().reverse().map(move => [span(move.elapsed_s), kernel(move.id), num(move.from), num(move.to), move.reset ? 'the island is begun anew with it' : 'migration'])));
    return parts;
  },
};
// A step of an axis: "2^7" is from 128 to below 256; "-": the kernel has no such value.
function step_words(step, axis) {
  const power = /^2\^(\d+)$/.exec(step);
  if (axis === 'family') return kernel(Number(step));
  return power ? '\u2265 ' + num(2 ** Number(power[1])) : step === '-' ? 'none' : step;
}
function step_order(step) { const power = /^2\^(\d+)$/.exec(step); return power ? 2 ** Number(power[1]) : step === '-' ? -1 : isFinite(step) ? Number(step) : NaN; }
function by_step(a, b) { return step_order(a) - step_order(b) || (a < b ? -1 : a > b ? 1 : 0); }
// The last axis goes to the right, all others down; the darker, the faster.
function cell_grid(view, unit) {
  const last = view.axes.length - 1, across = [...new Set(view.cells.map(c => c.steps[last]))].sort(by_step), rows = new Map();
  for (const cell of view.cells) {
    const key = JSON.stringify(cell.steps.slice(0, last));
    if (!rows.has(key)) rows.set(key, { steps: cell.steps.slice(0, last), cells: new Map() });
    rows.get(key).cells.set(cell.steps[last], cell.elite);
  }
  const all = view.cells.map(c => c.elite.fitness || 0), low = Math.min(...all), high = Math.max(...all);
  const shade = x => 'heat' + (high > low ? Math.min(3, Math.floor(4 * (x - low) / (high - low))) : 3);
  const down = [...rows.values()].sort((a, b) => a.steps.reduce((order, step, i) => order || by_step(step, b.steps[i]), 0));
  return table(`${unit} of the fastest kernel of each cell, the darker, the faster; ${view.axes[last]} from left to right`, [...view.axes.slice(0, last), ...across.map(step => ({ name: step_words(step, view.axes[last]), n: true }))],
    down.map(row => [...row.steps.map((step, i) => step_words(step, view.axes[i])), ...across.map(step => { const elite = row.cells.get(step); return elite ? h('div', { class: 'heat ' + shade(elite.fitness || 0) }, kernel(elite.id), ' ' + num(elite.fitness)) : ''; })]));
}

views.kernels = {
  name: 'Kernels',
  form(values, changed) {
    const choice = (name, label, options) => h('label', {}, label, h('select', { name, 'data-key': name, onchange: changed }, options.map(([value, words]) => h('option', { value, selected: String(values[name] || '') === value }, words))));
    return h('form', { class: 'filter', role: 'search', onsubmit: event => { event.preventDefault(); changed(); } },
      h('label', {}, 'Contains', h('input', { name: 'text', type: 'search', value: values.text || '', 'data-key': 'text', maxlength: 200 })),
      choice('state', 'State', [['', 'any'], ['measured', 'measured'], ['rejected', 'rejected'], ['proposed', 'not evaluated'], ['promoted', 'is or was best'], ['expelled', 'failed confirmation']]),
      choice('operator', 'Operator', [['', 'any']]), choice('model', 'Model', [['', 'any']]), choice('stage', 'Stage', [['', 'any']]), choice('island', 'Island', [['', 'any']]), values.reason ? choice('reason', 'Reason', [['', 'any'], [values.reason, values.reason]]) : null,
      h('button', { type: 'submit' }, 'Filter'));
  },
  async show(values) {
    const asked = { sort: values.sort || 'id', order: values.order || 'down', from: values.from || 0, count: 50 };
    for (const name of ['text', 'state', 'operator', 'model', 'stage', 'reason', 'island']) if (values[name]) asked[name] = values[name];
    const [page, state] = await Promise.all([get('table', asked), get('state')]);
    const go = next => { location.hash = address('kernels', { ...values, ...next, id: '' }); };
    const form = views.kernels.form(values, () => go({ reason: '', ...Object.fromEntries(new FormData(form)), from: '' }));
    for (const [name, options] of [['operator', page.operators], ['model', page.models], ['stage', page.stages], ['island', page.islands]]) {
      const at = form.elements[name];
      for (const each of options) at.append(h('option', { value: each, selected: String(values[name] || '') === String(each) }, each));
      at.parentElement.hidden = at.options.length < 2;
    }
    const from = Number(asked.from), last = Math.min(page.all, from + page.rows.length);
    const pages = h('div', { class: 'pages' },
      h('button', { type: 'button', 'data-key': 'back', disabled: from <= 0, onclick: () => go({ from: Math.max(0, from - 50) || '' }) }, 'Back'),
      h('button', { type: 'button', 'data-key': 'next', disabled: last >= page.all, onclick: () => go({ from: from + 50 }) }, 'Next'),
      h('span', {}, page.all ? `${num(from + 1)} to ${num(last)} of ${num(page.all)}` : 'None fit.'));
    const sort = name => go({ sort: name, order: asked.sort === name && asked.order === 'down' ? 'up' : 'down', from: '' });
    const cut = page.cut ? h('p', { class: 'faint' }, `This file holds the whole note and configuration of all but ${counted(page.cut, 'kernel')}: the filter finds only words that it holds.`) : null;
    return [form, cut, pages, table('Kernels', [{ name: 'Kernel', sort: 'id' }, 'State', { name: state.unit, n: true, sort: 'fitness' }, { name: 'By', whole: true, sort: 'operator' }, { name: 'Island', n: true, sort: 'island' }, { name: 'After', n: true, sort: 'time' }, 'Parent', { name: 'Stage and reason', text: true, brief: true, sort: 'stage' }, { name: 'Configuration and note', text: true, brief: true }],
      page.rows.map(row => [kernel(row.id), state_tag(row), row.fitness ? num(row.fitness) : absent, who(row), num(row.island), span(row.elapsed_s), kernel(row.parent), why(row), [setting(row.configuration), ' ', row.note ? h('div', { class: 'faint' }, row.note.slice(0, 300)) : null]]),
      { sort: asked.sort, up: asked.order === 'up', onsort: sort, none: 'No kernel fits this filter.' })];
  },
};
function setting(configuration) {  // lists have it as text already
  return typeof configuration === 'string' ? configuration : Object.entries(configuration || {}).map(([name, each]) => name + '=' + each).join(' ');
}

views.failures = {
  name: 'Failures',
  async show() {
    const view = await get('failures'), those = (stage, reason) => address('kernels', { state: stage === 'confirm' ? 'expelled' : 'rejected', stage, reason });
    return [table('Rejected kernels by stage; at confirm: measured, but failed the confirmation before they would have become the best', ['Stage', { name: 'Count', n: true }], Object.entries(view.stages).map(([stage, count]) => [h('a', { href: those(stage) }, stage), num(count)]), { none: 'No kernel was rejected.' }),
      h('h2', {}, 'Reasons'), table(view.all > view.reasons.length ? `The ${num(view.reasons.length)} most frequent of ${num(view.all)} reasons` : 'All reasons', [{ name: 'Count', n: true }, 'Stage', { name: 'Reason', text: true }, 'Newest'],
        view.reasons.map(row => [h('a', { href: those(row.stage, row.reason), 'aria-label': `${counted(row.count, 'kernel')}: ${row.stage} ${row.reason}` }, num(row.count)), row.stage, row.reason || absent, row.newest.slice().reverse().map((id, i) => [i ? ', ' : '', kernel(id)])]))];
  },
};

views.operators = {
  name: 'Operators',
  async show() {
    const [view, state] = await Promise.all([get('operators'), get('state')]);
    const share = (part, all) => all ? num(100 * part / all, 3) + ' %' : absent;
    const models = Object.entries(view.models || {});
    return [table('What each operator and model gave', ['Operator', 'Model', { name: 'Proposed', n: true }, { name: 'Measured', n: true }, { name: 'Passed', n: true }, { name: 'Challengers', n: true }, { name: 'Promoted', n: true }, { name: 'Accepted', n: true }, { name: 'Gain', n: true }, { name: 'Fastest ' + state.unit, n: true }, { name: 'Device time', n: true }, { name: 'Calls', n: true }, { name: 'Tokens', n: true }, { name: 'USD', n: true }],
      view.rows.map(row => [row.operator, row.model || '', num(row.proposed), num(row.measured), share(row.measured, row.measured + row.rejected), num(row.challengers), num(row.promoted), share(row.promoted, row.proposed), row.promoted ? percent(row.gain) : '', row.best ? num(row.best) : absent, span(row.device_s), row.calls ? num(row.calls) : '', row.calls ? num(row.tokens) : '', money(row.usd)])),
    h('p', { class: 'faint' }, 'Passed: measured of those evaluated. Challengers: those that had a duel with the best. Accepted: promoted of those proposed. Gain: that of its promotions over the best before each, together.'),
    models.length ? [h('h2', {}, 'Language models'), table('Calls to each model', ['Model', 'State', { name: 'Calls', n: true }, { name: 'In flight', n: true }, { name: 'Tokens', n: true }, { name: 'USD', n: true }, { name: 'Reason', text: true }],
      models.map(([name, m]) => [name, m.state || '', num(m.calls || 0), num(m.in_flight || 0), num((m.tokens || {}).total || 0), money(m.usd), m.reason || '']))] : null];
  },
};

// NVML's reasons for a slower clock.
function slowed_by(bits) {
  const words = [[0x4, 'software power cap'], [0x8, 'hardware slowdown'], [0x10, 'sync boost'], [0x20, 'software thermal slowdown'], [0x40, 'hardware thermal slowdown'], [0x80, 'power brake'], [0x100, 'display clocks']];
  return words.filter(([bit]) => bits & bit).map(each => each[1]).join(', ') || 'no';
}
views.devices = {
  name: 'Devices',
  async show() {
    const view = await get('devices'), points = view.measurements.filter(p => p.elapsed_s >= 0);
    const share = view.search_s > 0 ? view.device_s / (view.search_s * view.measuring) : 0, alone = view.of_evaluations_alone;
    const parts = [tiles([['Workers that measure', num(view.measuring)], ['Device time', span(view.device_s), alone ? 'of evaluations alone: the record has no more' : 'of all of them, with duels and confirmations'],
      !alone && share < 1.01 && ['Busy share', num(100 * Math.min(1, share), 3) + ' %', `of ${span(view.search_s)} of search time` + (view.measuring > 1 ? ' of each' : '')]]),
      table('Devices', ['Device', { name: 'Facts', text: true }], view.devices.map(device => [device.description || device.name || 'device', h('details', {}, h('summary', {}, 'What is known of it'), long(JSON.stringify(device, null, 1)))])),
      view.workers.length ? table('Workers', ['Device', { name: 'Workers', n: true }, 'Measures'], view.workers.map(w => [w.device, num(w.workers), w.measures ? 'yes' : 'no: times on different devices cannot be compared'])) : null];
    if (points.length) {
      const last = points.slice(-12).reverse(), has = name => points.some(p => p[name] > 0);
      parts.push(h('h2', {}, 'Clocks and temperature'), table('The newest measurements', ['Kernel', { name: 'After', n: true }, { name: 'Clock MHz', n: true }, { name: 'Temperature \u00b0C', n: true }, { name: 'Power W', n: true }, 'Slowed', { name: 'Discarded', n: true }],
        last.map(p => [kernel(p.id), span(p.elapsed_s), p.clock_mhz ? num(p.clock_mhz) : absent, p.temperature_c ? num(p.temperature_c) : absent, p.power_w ? num(p.power_w) : absent, slowed_by(p.throttle), num(p.discarded)])));
      for (const [key, name, unit] of [['clock_mhz', 'Clock', 'MHz'], ['temperature_c', 'Temperature', '\u00b0C'], ['power_w', 'Power', 'W']])
        if (has(key)) parts.push(line_chart(name, unit, points.map(p => [p.elapsed_s, p[key]]), view.elapsed_s));
    }
    if (view.elapsed_s > 0) parts.push(h('h2', {}, 'Busy with evaluations'), busy_chart(view.busy, view.elapsed_s), h('p', { class: 'faint' }, 'The part of the time of all measuring workers that checks and measurements took, without duels and confirmations; each counts as the time before its end.'));
    return parts;
  },
};

const budget_names = { wall: 'Search time', evaluations: 'Evaluations', device_hours: 'Device time', plateau: 'Time without a promotion', usd: 'USD', tokens: 'Tokens' };
function budget_words(kind, value) {
  if (kind === 'device_hours') return span(3600 * value);
  return kind === 'wall' || kind === 'plateau' ? span(value) : kind === 'usd' ? value.toFixed(2) + ' USD' : num(value, 6) + (kind === 'evaluations' ? ' evaluations' : kind === 'tokens' ? ' tokens' : '');
}
views.budgets = {
  name: 'Budgets',
  async show() {
    const view = await get('budgets');
    const left = view.rows.map(row => row.seconds_left).filter(each => each !== null);
    return [table('Budgets', ['Budget', { name: 'Used', n: true }, { name: 'Limit', n: true }, 'Share', { name: 'Left, at this rate', n: true }],
      view.rows.map(row => [(budget_names[row.kind] || row.kind) + (row.of_evaluations_alone ? ' of evaluations alone' : ''), budget_words(row.kind, row.used), row.limit === null ? 'none' : budget_words(row.kind, row.limit),
        row.limit === null ? '' : [h('meter', { min: 0, max: 1, value: Math.min(1, row.used / row.limit), 'aria-label': (budget_names[row.kind] || row.kind) + ' used' }), ' ' + num(100 * row.used / row.limit, 3) + ' %'], row.seconds_left === null ? absent : span(row.seconds_left)])),
    h('p', {}, `${view.per_hour ? `${num(view.per_hour, 3)} evaluations per hour, ${view.rate_over}. ` : ''}` + (!left.length ? 'No budget ends this search.' : Math.min(...left) > 0 ? `${view.alive ? 'The first budget is spent in' : 'If it is resumed, the first budget is spent after'} about ${span(Math.min(...left))} of search time.` : 'A budget is spent.'))];
  },
};

views.interventions = {
  name: 'Interventions',
  async show() {
    const view = await get('interventions');
    return [table('Changes of how the search proposes, and what they gave' + (view.all > view.rows.length ? `: the newest ${view.rows.length} of ${num(view.all)}` : ''), [{ name: 'After', n: true }, { name: 'Intervention', text: true }, { name: 'Evaluated', n: true }, { name: 'Measured', n: true }, { name: 'Best over parent', n: true }, 'Promoted'],
      view.rows.map(row => [span(row.at_s), row.text, row.result ? num(row.result.evaluated) : '', row.result ? num(row.result.measured) : view.alive ? 'not ended' : 'search ended first', row.result && row.result.best_gain > 0 ? percent(row.result.best_gain) : '', row.promoted.map((id, i) => [i ? ', ' : '', kernel(id)])]),
      { none: 'None: the supervisor saw no reason, or is off.' }),
    view.plan && view.plan.strategies ? [h('h2', {}, `Plan of question ${view.plan.question}`), h('ul', {}, view.plan.strategies.map(each => h('li', {}, each)))] : null,
    view.gate_advice ? h('p', { class: 'warn' }, view.gate_advice) : null];
  },
};

views.log = {
  name: 'Log',
  async show() {
    const view = await get('events', embedded ? {} : { count: 300 });
    return [table('The newest events, the last one first', ['Time', 'Kind', 'Kernel', { name: 'Event', text: true }], view.rows.slice().reverse().map(row => [h('span', { class: 'faint nowrap' }, moment(row.at)), row.kind, row.individual ? kernel(row.individual) : '', row.text]))];
  },
};

views.runs = {
  name: 'All runs',
  async show() {
    const view = await get('runs');
    if (!embedded) take_runs(view);
    return [table('Runs', ['Run', 'Of', 'State', 'Task', 'Target', { name: 'Best', n: true }, { name: 'Beside first seed', n: true }, 'Beside contenders', { name: 'Evaluated', n: true }, { name: 'Promotions', n: true }, { name: 'Searched', n: true }, { name: 'Started', whole: true }, { name: 'Last recorded', whole: true }],
      view.runs.map(run => {
        const link = h('a', { href: '#' + new URLSearchParams({ run: run.name, view: 'overview' }) }, run.name);
        if (!run.status) return [link, run.suite || '', h('span', { class: 'bad' }, run.trouble || ''), '', '', '', '', '', '', '', '', '', ''];
        const q = run.status, best = q.best;
        return [link, run.suite || '', h('span', { class: doing(q)[2] }, doing(q)[0]), q.task, q.target, best ? `${num(best.fitness)} ${best.unit}` : absent, best && best.ratio_to_seed ? times(best.ratio_to_seed) : '', best ? Object.entries(best.ratios).map(([name, ratio]) => `${times(ratio)} ${name}`).join(', ') : '', num(q.evaluations), num(q.promotions), span(q.elapsed_s), moment(run.created_at), moment(run.last_step_at)];
      }))];
  },
};

// "before" is what a contender or the first seed takes, "after" what the best kernel takes.
views.suite = {
  name: 'Suite',
  async show(values) {
    const all = suites, name = values.suite || all[0], view = await get('suite', { suite: name });
    const known = view.rows.filter(row => row.before_us && row.after_us), sum = key => known.reduce((a, row) => a + row[key], 0), before = sum('before_us'), after = sum('after_us');
    const share = (x, of) => of ? num(100 * x / of, 3) + ' %' : absent;
    const link = row => row.run ? h('a', { href: '#' + new URLSearchParams({ run: row.run, view: 'overview' }) }, row.name) : row.name;
    const parts = [all.length > 1 ? h('ul', { class: 'parts' }, all.map(each => h('li', {}, h('a', { href: '#' + new URLSearchParams({ view: 'suite', suite: each }), 'aria-current': each === name ? 'page' : null }, each)))) : null,
      table(`Suite ${name}: the best kernel of each task`, ['Task', 'State', { name: 'Best', n: true }, { name: 'x first seed', n: true }, { name: 'x contenders (lowest)', n: true }, 'x each', { name: 'rms error (beside)', n: true }, { name: 'By', whole: true }, { name: 'Evaluated', n: true }, { name: 'Searched', n: true }],
        view.rows.map(row => { const best = row.best; return [link(row), row.trouble ? h('span', { class: 'bad' }, row.trouble) : row.state, best ? [`${num(best.fitness)} ${best.unit}`, row.confirmed ? '' : ' (not confirmed)'] : absent, best && best.ratio_to_seed ? times(best.ratio_to_seed) : absent,
          row.beside ? `${times(row.beside.mean)} (${times(row.beside.lowest)})` : absent, best ? Object.entries(best.ratios).map(([rival, ratio]) => h('div', {}, `${times(ratio)} ${rival}`)) : '', row.error ? num(row.error, 3) + (row.error_beside ? ` (${num(row.error_beside, 3)})` : '') : absent,
          row.operator ? who(row) : '', num(row.evaluations), span(row.elapsed_s)]; }), { none: 'The suite has no task.' }),
      h('p', { class: 'faint' }, 'Contenders: the fastest of each workload, geometric mean, and on the workload where it is lowest. rms error: the greatest, relative to that of the permitted roundings (and to a contender\u2019s).'),
      h('h2', {}, 'Time before and after'),
      h('p', { class: 'faint' }, 'One execution of each timed workload of a task, together. Before: the fastest contender of each workload, or the first seed where there is none. Shares are of all tasks whose times are known; how often an application runs each task, a suite does not know.'),
      table('What each task takes, and its share of all', ['Task', 'Before is', { name: 'Before', n: true }, { name: 'Share', n: true }, { name: 'After', n: true }, { name: 'Share', n: true }, { name: 'Speedup', n: true }],
        [...view.rows.map(row => [link(row), row.before || absent, row.before_us ? micro(row.before_us) : absent, row.before_us ? share(row.before_us, before) : absent, row.after_us ? micro(row.after_us) : absent, row.after_us ? share(row.after_us, after) : absent, row.after_us ? times(row.before_us / row.after_us) : absent]),
          known.length > 1 ? { mark: 'sum', cells: ['All', '', micro(before), '100 %', micro(after), '100 %', times(before / after)] } : []].filter(row => row.mark || row.length))];
    if (known.length) parts.push(before_after_chart(known.map(row => ({ name: row.name, before: row.before_us, after: row.after_us })), micro));
    return view.model ? [...model_part(view.model), ...parts] : parts;
  },
};
// Of a campaign: where one pass of the model went before, and goes now.
function model_part(model) {
  const of_regions = model.regions.reduce((all, each) => all + each.ms, 0), pass = Math.max(model.pass_ms || 0, of_regions), ms = x => micro(1000 * x);
  const rest = pass - of_regions, gain = model.regions.reduce((all, each) => all + each.gain_ms, 0), left = model.regions.reduce((all, each) => all + each.left_ms, 0);
  const share = x => num(100 * x / pass, 3) + ' %';
  if (!(pass > 0)) return [];
  return [h('h2', {}, 'One pass of the model'),
    table('Where the time of one pass goes, as the campaign last reckoned it; all calls of a region together', ['Region', { name: 'Before', n: true }, { name: 'Share', n: true }, { name: 'Now', n: true }, { name: 'Gained', n: true }, { name: 'Could still be gained', n: true }],
      [...model.regions.map(each => [each.name, ms(each.ms), share(each.ms), ms(each.ms - each.gain_ms), ms(each.gain_ms), ms(each.left_ms)]), ...(rest > 1e-6 ? [['All else', ms(rest), share(rest), ms(rest), '', '']] : []),
        { mark: 'sum', cells: [model.pass_ms ? 'The pass' : 'All regions', ms(pass), '100 %', `${ms(pass - gain)} (${times(pass / Math.max(pass - gain, 1e-9))})`, ms(gain), ms(left)] }]),
    before_after_chart([...model.regions.map(each => ({ name: each.name, before: each.ms, after: each.ms - each.gain_ms })), ...(rest > 1e-6 ? [{ name: 'all else', before: rest, after: rest }] : [])], ms)];
}

// One kernel: what it is, how fast and how exact, what ran under a check, where it waits, and who made it.
function manifest_of(source) {
  const at = source.match(/\/\*---\n?([\s\S]*?)\*\//) || source.match(/\/\*\s*cultivar\n?([\s\S]*?)\*\//i) || source.match(/"""---\n?([\s\S]*?)"""/);
  return at ? at[1].replace(/^\s*cultivar\n|---\s*$/g, '').trim() : '';
}
function workload_rows(evaluation) {
  const rivals = [...new Set(evaluation.workloads.flatMap(w => Object.keys(w.ratios || {})))];
  return table('Times by workload, with 95 % intervals', ['Workload', { name: 'Median', n: true }, { name: '95 % interval', n: true }, { name: 'Quartiles', n: true }, { name: 'Samples', n: true }, { name: evaluation.unit, n: true }, ...rivals.map(name => ({ name: 'Beside ' + name, n: true }))],
    evaluation.workloads.map(w => [w.name, micro(w.median_us), w.interval_us ? `${micro(w.interval_us[0])} \u2013 ${micro(w.interval_us[1])}` : absent, `${micro(w.q1_us)} \u2013 ${micro(w.q3_us)}`, num(w.samples) + (w.discarded ? ` (${w.discarded} discarded)` : ''), num(w.value),
      ...rivals.map(name => { const b = (w.ratio_intervals || {})[name]; return name in w.ratios ? times(w.ratios[name]) + (b ? ` (${times(b[0])} \u2013 ${times(b[1])})` : '') : absent; })]));
}
function evaluation_part(evaluation, title, at) {
  const parts = [h('h2', {}, title), at > 0 ? h('p', { class: 'faint' }, moment(at)) : null];
  if (evaluation.verdict === 'rejected' || (evaluation.reason && !evaluation.workloads.length)) parts.push(h('p', { class: 'bad' }, `Rejected at ${evaluation.stage}: ${evaluation.reason}`));
  if (evaluation.workloads.length) parts.push(workload_rows(evaluation));
  const beside = evaluation.best_contender;
  if (beside) parts.push(h('p', {}, `Beside the fastest contender of each workload: ${times(beside.geometric_mean)} (geometric mean), lowest ${times(beside.lowest)} on ${beside.lowest_on}.`));
  if (evaluation.exactness_rows && evaluation.exactness_rows.length) {
    const [heads, ...body] = evaluation.exactness_rows;
    parts.push(table('Errors against fp64, relative to those of the permitted roundings, beside the contenders', heads.map((name, i) => ({ name, n: i > 0 })), body), evaluation.exactness_words ? h('p', { class: 'faint' }, evaluation.exactness_words) : null);
  }
  if (evaluation.checked_words) parts.push(h('p', {}, evaluation.checked_words));
  if (evaluation.coverage) {
    const c = evaluation.coverage;
    parts.push(h('p', {}, `Blocks that ran under a check: ${num(c.ran)} of ${num(c.blocks)} in ${num(c.specialisations)} specialization${c.specialisations === 1 ? '' : 's'}.`));
    if (c.not_run && c.not_run.length) {
      const missed = table('Lines with a block that never ran under a check', ['Lines', 'File', { name: 'Blocks', n: true }, 'Specialization', 'Timed'], c.not_run.map(each => [each.first_line === each.last_line ? num(each.first_line) : `${each.first_line}\u2013${each.last_line}`, each.file, num(each.blocks), each.specialisation || 'all', each.timed ? 'yes' : 'no']));
      parts.push(c.not_run.length > 8 ? h('details', {}, h('summary', {}, `${num(c.not_run.length)} places that never ran under a check`), missed) : missed);
    }
  }
  if (evaluation.diagnostics) parts.push(h('details', { open: evaluation.verdict === 'rejected' }, h('summary', {}, 'Compiler log and diagnostics'), long(evaluation.diagnostics)));
  const values = { ...(evaluation.resources || {}).values, ...(evaluation.resources || {}).shares };
  if (Object.keys(values).length) parts.push(table('What the compiler reported', ['Resource', { name: 'Value', n: true }], Object.entries(values).map(([name, value]) => [name, num(value)])));
  return parts;
}
function profile_part(shown) {
  const profile = shown.profile || shown, report = shown.report || {};
  const parts = [h('h2', {}, 'Profile'), h('p', {}, report.headline || profile.workload)];
  const floor = Math.max(profile.flops_us || 0, profile.bytes_us || 0);
  if (floor) parts.push(table('Roofline', ['Bound', { name: 'Time at peak', n: true }, { name: 'Reached', n: true }], [['arithmetic', micro(profile.flops_us), num(100 * profile.flops_us / profile.median_us, 3) + ' %'], ['memory', micro(profile.bytes_us), num(100 * profile.bytes_us / profile.median_us, 3) + ' %'], ['measured', micro(profile.median_us), '']]));
  if (report.findings && report.findings.length) parts.push(table('Findings', [{ name: 'Weight', n: true }, { name: 'Finding', text: true }], report.findings.map(f => [num(100 * f.weight, 3) + ' %', f.words])));
  for (const k of profile.kernels || []) {
    const stalls = Object.entries(k.stalls || {}).sort((a, b) => b[1].samples - a[1].samples);
    if (stalls.length) parts.push(table(`Stall reasons of ${k.name}`, ['Reason', { name: 'Samples', n: true }, { name: 'Exposed', n: true }], stalls.slice(0, 12).map(([reason, c]) => [reason, num(c.samples), num(c.exposed)])));
  }
  const hot = (profile.kernels || []).flatMap(k => (k.lines || []).map(line => ({ ...line, share: line.samples / (k.samples || 1) }))).sort((a, b) => b.share - a.share).slice(0, 12);
  if (hot.length) parts.push(table('Source lines with the most samples', [{ name: 'Line', n: true }, { name: 'Samples', n: true }, 'Waits most for', { name: 'Source', text: true }],
    hot.map(line => [line.file ? `${line.file}:${line.line}` : num(line.line), num(100 * line.share, 3) + ' %', Object.entries(line.stalls || {}).sort((a, b) => b[1].samples - a[1].samples).slice(0, 3).map(([reason, c]) => `${reason} ${num(100 * c.samples / line.samples, 2)} %`).join(', '), h('code', {}, (line.text || '').slice(0, 200))])));
  if ((profile.loops || []).length) parts.push(table('Innermost loops', ['Function', 'Lines', { name: 'Instructions', n: true }, { name: 'Loads', n: true }, { name: 'Stores', n: true }, { name: 'Vector', n: true }, { name: 'Bits', n: true }], profile.loops.map(l => [l.function, `${l.first_line} \u2013 ${l.last_line}`, num(l.instructions), num(l.loads), num(l.stores), num(l.vectors), num(l.widest_bits)])));
  return parts;
}
function notes_of(shown) {
  const notes = {}, profile = shown && (shown.profile || shown);
  if (!profile) return notes;
  for (const k of profile.kernels || []) {
    const all = k.samples || 1;
    for (const line of k.lines || []) if (line.line && !line.file) {
      const top = Object.entries(line.stalls || {}).sort((a, b) => b[1].samples - a[1].samples)[0];
      notes[line.line] = num(100 * line.samples / all, 3) + ' %' + (top ? ' ' + top[0] : '');
    }
  }
  for (const loop of profile.loops || []) if (loop.first_line && !loop.file && !notes[loop.first_line]) notes[loop.first_line] = `loop, ${loop.instructions} instructions`;
  return notes;
}
// Every figure of its speed: what was measured beside what, when.
function speed_table(v, unit) {
  const c = v.confirmation, beside = c && c.best_contender, duel = v.duel && v.duels.filter(d => d.incumbent === v.duel.incumbent).pop(), value = x => `${num(x)} ${unit}`;
  return table('Its speed: what each figure is, geometric means over the workloads', ['Figure', { name: 'Value', whole: true }, 'Beside', { name: 'How', text: true }, { name: 'When', whole: true }], [
    ['Measured', value(v.fitness), 'nothing', 'alone, during the search', moment(v.judged_at)],
    v.duel && ['Gain in its duel', gain(v.duel), kernel(v.duel.incumbent), 'interleaved, in random order; decides which of them is the best', moment(duel ? duel.at : 0)],
    ['Fitness', value(v.standing), v.duel ? kernel(v.duel.incumbent) : 'nothing', v.duel ? 'the fitness of that kernel, times the ratio of their duel: what lists and charts show' : v.paced ? 'as measured, scaled to the speed of the device at the start: what lists and charts show' : 'as measured: what lists and charts show', absent],
    c && c.verdict !== 'rejected' && c.fitness && ['Confirmed', value(c.fitness), 'nothing', 'in a fresh process, with new inputs', moment(v.confirmed_at)],
    beside && ['Beside contenders', times(beside.geometric_mean), 'the fastest of each workload', 'interleaved with them, in its confirmation', moment(v.confirmed_at)],
    v.seed_ratio && ['Beside the first seed', times(v.seed_ratio.ratio), 'the first seed', v.seed_ratio.beside ? 'interleaved with it, in its confirmation' : 'the ratio of the two fitnesses', v.seed_ratio.beside ? moment(v.confirmed_at) : absent],
  ].filter(Boolean));
}

// Copied to the clipboard? Browsers refuse it to pages that came without https from another machine; old ones know another way.
async function copied(text) {
  try { await navigator.clipboard.writeText(text); return true; } catch { /* then the other way */ }
  const at = h('textarea', { class: 'unseen', 'aria-hidden': 'true' }), focused = document.activeElement;
  at.value = text;
  document.body.append(at);
  at.select();
  let done = false;
  try { done = document.execCommand('copy'); } catch { done = false; }
  at.remove();
  focused?.focus();
  return done;
}
function source_buttons(v) {
  const said = h('span', { role: 'status', class: 'faint' });
  const copy = async () => {
    if (await copied(v.source)) { said.textContent = 'Copied.'; return; }
    getSelection().selectAllChildren(document.querySelector('#part-source .code'));
    said.textContent = 'The browser does not let this page copy: it has selected the source, press Ctrl-C.';
  };
  const link = embedded ? URL.createObjectURL(new Blob([v.source], { type: 'text/plain' })) : 'api/source?' + new URLSearchParams({ ...(place.run ? { run: place.run } : {}), id: v.id });
  return of(v.source, h('p', { class: 'pages' }, h('button', { type: 'button', 'data-key': 'copy', onclick: copy }, 'Copy'), h('a', { href: link, download: v.file, 'data-key': 'download' }, 'Download ' + v.file), said));
}

function calls_part(calls) {
  return [h('h2', {}, 'Exchange with the model'), table('Calls', ['Call', 'Model', { name: 'Attempt', n: true }, { name: 'Tokens', n: true }, { name: 'USD', n: true }, { name: 'Seconds', n: true }, 'Error'], calls.map(c => [c.call, c.model, num(c.attempt), num(c.tokens), money(c.usd), c.seconds === null ? absent : num(c.seconds, 3), c.error || ''])),
    calls.map(c => h('details', {}, h('summary', {}, `${c.call}: prompt and answer`), h('h3', {}, 'Prompt'), long(c.prompt || ''), h('h3', {}, 'Answer'), c.said === undefined ? h('p', { class: 'faint' }, 'There is none.') : long(c.said)))];
}

views.variant = {
  name: 'Kernel', hidden: true,
  title: values => 'Kernel #' + values.id,
  async show(values) {
    const v = await get('variant', { id: values.id });
    const unit = v.unit || '';
    const facts = tiles([
      ['State', state_tag(v), v.state === 'rejected' ? v.stage : v.failure ? 'at ' + v.confirmation.stage : v.confirmation_outstanding ? 'its confirmation is pending' : null],
      ['Fitness', v.standing ? `${num(v.standing)} ${unit}` : absent, v.brief || !v.standing ? null : 'from the figures below'],
      ['Made by', v.operator, [v.model ? 'with ' + v.model : '', v.usd ? `, ${money(v.usd)} USD` : '', v.tokens ? `, ${num(v.tokens)} tokens` : '']],
      ['Parents', v.parents.length ? v.parents.map((id, i) => [i ? ', ' : '', kernel(id)]) : 'none', v.parent_fitness && v.standing ? `fitness ${percent(v.standing / v.parent_fitness - 1)} over that of the first` : null],
      ['Island', num(v.island), v.elapsed_s !== null && v.elapsed_s >= 0 ? [`judged after ${span(v.elapsed_s)}`, v.judged_at > 0 ? [', ', moment(v.judged_at)] : ''] : v.proposed_at > 0 ? ['proposed ', moment(v.proposed_at)] : null],
      ['Children', num(v.children.length), v.children.length ? h('a', { href: address('lineage', { id: v.id }) }, 'lineage') : null],
    ]);
    const failure = v.failure ? h('div', { class: 'failure' }, h('p', { class: 'bad' }, v.failure), v.confirmation.diagnostics ? long(v.confirmation.diagnostics) : null) : null;
    const parts = [facts, failure, v.standing && !v.brief ? speed_table(v, unit) : null];
    const configuration = setting(v.configuration);
    if (configuration) parts.push(h('p', {}, h('b', {}, 'Configuration: '), h('code', {}, configuration)));
    if (v.note) parts.push(h('p', {}, h('b', {}, 'Note: '), v.note.slice(0, 4000)));
    if (v.reason) parts.push(h('p', { class: 'bad' }, v.stage + ': ' + v.reason));
    if (v.brief) return [...parts, h('p', { class: 'faint' }, 'This file holds the source and the measurements of the most interesting kernels only; `cultivar show` and `cultivar dashboard` show them of every one.')];
    const jump = [];
    const section = (id, words, nodes) => { jump.push(h('li', {}, h('a', { href: address('variant', { id: v.id, part: id }) }, words))); parts.push(h('section', { id: 'part-' + id, tabindex: -1 }, nodes)); };
    if (v.confirmation) section('confirmed', 'Confirmation', evaluation_part(v.confirmation, v.confirmation.verdict === 'rejected' ? 'Failed its confirmation' : 'Confirmed in a fresh process, with new inputs', v.confirmed_at));
    if (v.evaluation) section('evaluation', 'Evaluation', evaluation_part(v.evaluation, 'Evaluated alone, during the search', v.judged_at));
    if (v.duels.length) section('duels', 'Duels', [h('h2', {}, 'Duels'), table('Comparisons with the best of that time', ['With', { name: 'When', whole: true }, 'Verdict', { name: 'Ratio', n: true }, { name: 'Lower', n: true }, { name: 'Upper', n: true }, { name: 'Reason', text: true }],
      v.duels.map(d => { const q = d.decision || {}, e = x => typeof x === 'number' ? times(Math.exp(x)) : absent; return [kernel(d.incumbent), moment(d.at), d.verdict, e(q.log_ratio), e(q.lower), e(q.upper), q.reason || '']; })),
    v.duel && v.duel.workloads.length === v.workload_names.length ? table('By workload, in the last duel', ['Workload', { name: 'Gain', whole: true }], v.duel.workloads.map((r, i) => [v.workload_names[i], gain(r)])) : null]);
    if (v.profile) section('profile', 'Profile', profile_part(v.profile));
    const unrun = [...((v.confirmation || {}).coverage || {}).not_run || [], ...((v.evaluation || {}).coverage || {}).not_run || []].filter(each => /^variant\./.test(each.file || '')).map(each => [each.first_line, each.last_line]);
    if (v.parent_source) section('diff', 'Difference from its parent', [h('h2', {}, 'Difference from ', kernel(v.parents[0])), diff_table(v.parent_source, v.source, 'Difference from the parent')]);
    else if (v.change) section('diff', 'Change', [h('h2', {}, 'Change'), h('p', {}, v.change)]);
    const manifest = manifest_of(v.source);
    if (manifest) section('manifest', 'Manifest', [h('h2', {}, 'Manifest'), long(manifest)]);
    section('source', 'Source', [h('h2', {}, 'Source'), source_buttons(v), unrun.length ? h('p', { class: 'warn' }, 'Marked lines have a block that never ran under a check.') : null, source_table(v.source, 'Source', notes_of(v.profile), unrun)]);
    if (v.calls.length) section('calls', 'Exchange', calls_part(v.calls));
    section('descent', 'Descent', [h('h2', {}, 'Descent'), h('p', {}, v.descent.map((id, i) => [i ? ' \u2192 ' : '', kernel(id)]))]);
    parts.splice(3, 0, h('ul', { class: 'parts' }, jump));
    return parts;
  },
};

// Which view is shown, and when it is shown anew.
function failure(error) { return h('p', { class: 'error', role: 'alert' }, error && error.message ? error.message : String(error)); }

const main = document.getElementById('main');
let turn = 0, runs = [], suites = [], stands = false;  // stands: main shows the view of the address
const of_all = { runs: true, suite: true };  // views that are not of one run

function read_address() {
  const all = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  place.run = all.run || (runs.length === 1 ? runs[0].name : '');
  place.view = views[all.view] ? all.view : place.run || !suites.length && runs.length < 2 ? 'overview' : suites.length === 1 ? 'suite' : 'runs';
  if (place.view === 'suite' && !suites.length || place.view === 'runs' && runs.length < 2) place.view = 'overview';
  if (!place.run && runs.length !== 1 && !of_all[place.view]) place.view = suites.length ? 'suite' : 'runs';
  delete all.run; delete all.view;
  place.values = all;
}
function navigation() {
  const list = Object.entries(views).filter(([name, view]) => !view.hidden && (name !== 'runs' || runs.length > 1) && (name !== 'suite' || suites.length) && (place.run || of_all[name]));
  const current = place.view === 'variant' ? 'kernels' : place.view;
  become_children(document.getElementById('views'), h('ul', {}, list.map(([name, view]) => h('li', { 'data-row': name }, h('a', { href: address(name), 'data-key': name, 'aria-current': name === current ? 'page' : null }, view.name)))));
  document.querySelector('nav a[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
}
function header(q) {
  document.getElementById('state').textContent = q ? plain(`${q.run}: ${q.task} on ${q.target}, ${doing(q)[0]}` + (q.best ? `, best ${num(q.best.fitness)} ${q.best.unit}` : '')) : '';
}

// What everybody sees when a page no longer follows its record.
let heard = Date.now(), silent = false;
function lost(words) {
  const line = document.getElementById('lost');
  line.hidden = !words;
  line.textContent = words;
}
setInterval(async () => {
  if (embedded || document.visibilityState === 'hidden' || !silent && Date.now() - heard < 10000) return;
  try {
    await get('runs');
    if (answered()) show(false);
  } catch (error) { if (error.away) unanswered(); }
}, 5000);
// Whether it did not before.
function answered() {
  const again = silent;
  heard = Date.now();
  silent = false;
  if (again) lost('');
  return again;
}
function unanswered() {
  silent = true;
  lost('The dashboard does not answer: what is shown may be old. The page goes on by itself when it answers again.');
}

// The element of the page that stands for one that was there before.
function same_as(element, key, href) {
  if (element.isConnected) return element;
  return (key && [...document.querySelectorAll('[data-key]')].find(each => each.dataset.key === key)) || (href && [...main.querySelectorAll('a')].find(each => each.getAttribute('href') === href));
}

// `anew`: another view was asked for; otherwise the same one with what is new in the record.
async function show(anew) {
  const mine = ++turn, view = views[place.view];
  if (anew) stands = false;
  const title = view.title ? view.title(place.values) : view.name;
  try {
    const state = of_all[place.view] ? null : get('state').catch(() => null);
    const nodes = await view.show(place.values);
    const q = await state;
    if (mine !== turn) return;
    answered();
    lost('');
    header(q && q.summary);
    document.title = plain(title + (place.run ? ' \u2013 ' + place.run : '') + ' \u2013 Cultivar');
    const next = h('div', {}, h('h1', { tabindex: -1 }, title), nodes);
    const focused = document.activeElement, inside = main.contains(focused), key = focused?.dataset?.key, href = focused?.getAttribute?.('href');
    if (anew) main.replaceChildren(...next.childNodes); else become_children(main, next);
    draw_all();
    stands = true;
    main.dataset.ready = place.view;
    main.dataset.shown = String(Number(main.dataset.shown || 0) + 1);
    const part = place.values.part && anew && document.getElementById('part-' + place.values.part);
    part?.scrollIntoView?.();
    if (inside && document.activeElement !== focused) (part || same_as(focused, key, anew ? null : href) || main.querySelector('h1')).focus({ preventScroll: true });
  } catch (error) {
    if (mine !== turn) return;
    if (error.away) unanswered(); else answered();
    if (stands) {
      if (!error.away) lost(plain(error.message || error));
    } else {
      become_children(main, h('div', {}, h('h1', { tabindex: -1 }, title), error.away ? null : failure(error)));
      header(null);
      document.title = plain(title + ' \u2013 Cultivar');
    }
    main.dataset.ready = 'error';
  }
}

// News of the record. A browser keeps few connections to a server: of all tabs one listens, and tells the others.
const channel = !embedded && 'BroadcastChannel' in window ? new BroadcastChannel('cultivar') : null;
let listening = null, due = null, last = 0;
function news(run) {
  answered();
  if (run !== place.run || due) return;
  due = setTimeout(() => { due = null; last = Date.now(); if (document.visibilityState !== 'hidden') show(false); else late = true; }, Math.max(250, 1500 - (Date.now() - last)));
}
let late = false;
const catch_up = () => { if (late && document.visibilityState === 'visible') { late = false; show(false); } };
document.addEventListener('visibilitychange', catch_up);
function listen(run) {
  let source = null, again = null;
  const say = () => { news(run); channel?.postMessage(run); };
  const open = () => {
    source = new EventSource('events?' + new URLSearchParams({ run }));
    source.addEventListener('news', say);
    source.addEventListener('beat', say);
    source.addEventListener('error', () => { if (source.readyState === EventSource.CLOSED) again = setTimeout(open, 3000); });  // no record yet, or none that can be read
  };
  open();
  return { close: () => { clearTimeout(again); source.close(); } };
}
channel?.addEventListener('message', event => news(event.data));
function follow(run) {
  if (embedded || (listening && listening.run === run)) return;
  listening?.stop();
  let over = false, source = null, release = null;
  listening = { run, stop: () => { over = true; source?.close(); release?.(); } };
  if (navigator.locks) navigator.locks.request('cultivar ' + run, () => over ? null : new Promise(done => { release = done; source = listen(run); })).catch(() => {});
  else source = listen(run);  // not on 127.0.0.1, and no https
}

async function moved() {
  const run = place.run;
  read_address();
  navigation();
  const select = document.getElementById('run');
  if (select.value !== place.run) select.value = place.run;
  follow(place.run);
  if (run !== place.run) { unfolded.clear(); wanted.clear(); }
  await show(true);
  if (!place.values.part) window.scrollTo(0, 0);
}
// A folder may have other runs than before.
function take_runs(all) {
  const before = JSON.stringify([runs.map(run => run.name), suites]);
  runs = all.runs; suites = all.suites || [];
  if (JSON.stringify([runs.map(run => run.name), suites]) === before) return;
  const select = document.getElementById('run'), chosen = select.value;
  document.getElementById('runs').hidden = runs.length < 2;
  become_children(select, h('select', {}, h('option', { value: '', 'data-row': '' }, 'all'), runs.map(run => h('option', { value: run.name, 'data-row': run.name }, run.name))));
  select.value = chosen;
  navigation();
}
async function begin() {
  document.getElementById('skip').addEventListener('click', event => { event.preventDefault(); main.focus(); main.scrollIntoView(); });
  try { take_runs(await get('runs')); } catch (error) { main.replaceChildren(failure(error)); return; }
  document.getElementById('run').addEventListener('change', event => {
    place.run = event.target.value;
    location.hash = address(!place.run ? 'runs' : of_all[place.view] || place.view === 'variant' ? 'overview' : place.view);
  });
  window.addEventListener('hashchange', moved);
  await moved();
}
begin();

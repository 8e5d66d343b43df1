const COLUMNS = [
  ['title', 'Run', (row) => row.title],
  ['prompt', 'Prompt', (row) => row.prompt],
  ['model', 'Model', (row) => row.model],
  ['fidelity', 'Output', (row) => row.fidelity],
  ['ratio', 'Times as fast', (row) => row.ratio, (value) => `${value.toFixed(value >= 9.95 ? 0 : value >= 0.995 ? 1 : 2)}×`],
  ['passes', 'Passes per token', (row) => row.passes, (value) => value.toFixed(2)],
  ['acceptance', 'Acceptance', (row) => row.acceptance, (value) => `${(100 * value).toFixed(0)} %`],
  ['seconds', 'Seconds', (row) => row.seconds, (value) => value.toPrecision(3)],
];
const KINDS = { '': 'All outputs', text: 'Texts', picture: 'Pictures', video: 'Videos', continuous: 'Vectors' };
const FIDELITY = { exact: 'Exact', lossy: 'Lossy', unknown: '' };
let chosen = [];
let pendingSelection = null;
let open = null;
let view = { sort: '', down: false, words: '', kind: '', fidelity: '' };

// The list.

const option = (value, text, now) => {
  const node = build('option', { value }, text);
  node.selected = value === now;
  return node;
};
const rowOf = (row) => {
  const { id, title, note, own: isOwn } = row;
  const box = build('input', { type: 'checkbox', value: id });
  box.checked = chosen.includes(id);
  const order = build('b', { 'aria-hidden': 'true' }, box.checked ? String(chosen.indexOf(id) + 1) : '');
  const source = { yours: 'yours, ', opened: 'opened, ' }[row.source] ?? '';
  const label = build('label', {}, box, order, build('span', {}, build('strong', {}, title), build('small', {}, source + note)));
  const cells = COLUMNS.slice(1).map(([name, head, read, form = String]) => {
    const value = name === 'fidelity' ? FIDELITY[read(row)] : read(row);
    const text = value === null || value === '' ? '' : form(value);
    return build('td', { class: `${name} ${name === 'fidelity' ? row.fidelity : ''}`, title: name === 'prompt' || name === 'model' ? text : head }, text);
  });
  const named = { type: 'button', 'aria-label': `Remove ${title}, ${note}`, title: 'Remove (Delete)', 'data-run': id };
  const tableRow = build('tr', { class: isOwn ? 'own' : '' }, build('td', { class: 'run' }, label, ...(isOwn ? [build('button', named, '×')] : [])), ...cells);
  if (box.checked) tableRow.setAttribute('aria-selected', 'true');
  return tableRow;
};
const sorted = (rows) => {
  const read = COLUMNS.find(([name]) => name === view.sort)?.[2];
  if (!read) return rows;
  const known = rows.filter((row) => read(row) !== null);
  const order = (a, b) => (typeof read(a) === 'string' ? read(a).localeCompare(read(b)) : read(a) - read(b)) * (view.down ? -1 : 1);
  return [...known.sort(order), ...rows.filter((row) => read(row) === null)];
};
const fits = (row) => (!view.kind || row.kind === view.kind) && (!view.fidelity || row.fidelity === view.fidelity)
  && view.words.toLowerCase().split(/\s+/).every((word) => [row.title, row.method, row.model, row.prompt, row.note].join(' ').toLowerCase().includes(word));
const body = build('tbody', {});
const heads = COLUMNS.map(([name, title]) => {
  const button = build('button', { type: 'button', 'data-sort': name }, title);
  return build('th', { scope: 'col', class: name }, button);
});
const count = build('span', { role: 'status' });
const search = build('input', { type: 'search', placeholder: 'Filter by method, model, prompt', 'aria-label': 'Filter runs' });
const kinds = build('select', { 'aria-label': 'Kind of output' });
const fidelities = build('select', { 'aria-label': 'Exact or lossy' });
const table = build('table', {}, build('thead', {}, build('tr', {}, ...heads)), body);
const scroller = build('div', { class: 'scroller', tabindex: '0', role: 'region', 'aria-label': 'Runs' }, table);
const fill = () => {
  const rows = sorted((props.value?.rows ?? []).filter(fits));
  body.replaceChildren(...rows.map(rowOf));
  count.textContent = `${rows.length} of ${props.value?.rows?.length ?? 0}`;
  heads.forEach((head, index) => head.setAttribute('aria-sort', COLUMNS[index][0] === view.sort ? (view.down ? 'descending' : 'ascending') : 'none'));
};
const changed = (what) => { Object.assign(view, what); fill(); };
search.addEventListener('input', () => changed({ words: search.value }));
kinds.append(...Object.entries(KINDS).map(([value, text]) => option(value, text, '')));
kinds.addEventListener('change', () => changed({ kind: kinds.value }));
fidelities.append(...[['', 'Exact and lossy'], ['exact', 'Exact'], ['lossy', 'Lossy']].map(([value, text]) => option(value, text, '')));
fidelities.addEventListener('change', () => changed({ fidelity: fidelities.value }));

// Projects: kept in the browser, which the server never asks for them.

const STORE = 'draftscope.projects';
const files = new Map();  // traces of this page by id, as base64
const stored = () => {
  try {
    const found = JSON.parse(localStorage.getItem(STORE) ?? '{}');
    return { now: 'Untitled', projects: {}, ...found };
  } catch { return { now: 'Untitled', projects: {} }; }
};
let store = stored();
let ready = false;  // until the kept project has come back, an empty list must not replace it
let importing = null;
const message = build('p', { class: 'told', role: 'status' });
const persist = () => {
  try {
    localStorage.setItem(STORE, JSON.stringify(store));
    return '';
  } catch { return 'This browser keeps nothing more: export the project as a file, or remove one.'; }
};
const base64 = (bytes) => {
  let text = '';
  for (let start = 0; start < bytes.length; start += 32768) text += String.fromCharCode(...bytes.subarray(start, start + 32768));
  return btoa(text);
};
const packed = async ({ url, id, title, link, chosen: rank }) => {
  if (link) return { link, chosen: rank };
  if (!files.has(id)) {
    const answer = await fetch(url);
    if (!answer.ok) return { left: title };
    const bytes = new Uint8Array(await answer.arrayBuffer());
    files.set(id, bytes.length > LIMITS.file ? null : base64(bytes));
  }
  return files.get(id) ? { file: files.get(id), chosen: rank } : { left: title };
};
const save = async () => {
  const { runs = [], address = '', turn } = props.value ?? {};
  if (!ready) return;
  const all = await Promise.all(runs.map(packed));
  if (turn !== props.value?.turn) return;  // a later answer is saved
  const left = all.filter((run) => run.left).map((run) => run.left);
  store.projects[store.now] = { kind: LIMITS.kind, version: LIMITS.version, name: store.now, runs: all.filter((run) => !run.left), address };
  const large = JSON.stringify(store.projects[store.now]).length > LIMITS.project;
  if (large) store.projects[store.now].runs = all.filter((run) => run.link);
  const words = large ? `The project has more than ${LIMITS.project / 2 ** 20} MiB of traces: only its links are kept.`
    : left.length ? `Not kept, above ${LIMITS.file / 2 ** 20} MiB: ${left.join(', ')}.` : '';
  message.textContent = persist() || words;
  listProjects();
};
const text = (name) => {
  const { address, ...project } = store.projects[name] ?? { kind: LIMITS.kind, version: LIMITS.version, name, runs: [] };
  return JSON.stringify(project);
};
const unused = (name) => {
  for (let number = 1; ; number += 1) {
    const candidate = number === 1 ? name : `${name.slice(0, LIMITS.name - 4)} ${number}`;
    if (!Object.hasOwn(store.projects, candidate)) return candidate;
  }
};
const openProject = (name) => {
  store.now = name;
  ready = false;
  trigger('restored', { project: text(name), afresh: true });
};
const select = build('select', { 'aria-label': 'Project' });
const name = build('input', { type: 'text', maxlength: LIMITS.name, 'aria-label': 'Name of the project', hidden: '' });
const listProjects = () => {
  const names = [...new Set([...Object.keys(store.projects), store.now])];
  select.replaceChildren(...names.map((each) => option(each, each, store.now)));
};
const makeButton = (words, act, more = {}) => {
  const button = build('button', { type: 'button', ...more }, words);
  button.addEventListener('click', act);
  return button;
};
const rename = () => {
  const wanted = name.value.trim();
  name.hidden = true;
  select.hidden = false;
  if (!wanted || wanted === store.now) return;
  const [old, fresh] = [store.now, unused(wanted)];
  store.projects[fresh] = { ...store.projects[old], name: fresh };
  delete store.projects[old];
  store.now = fresh;
  message.textContent = persist();
  listProjects();
  select.focus();
};
const startRename = () => {
  name.value = store.now;
  [name.hidden, select.hidden] = [false, true];
  name.focus();
  name.select();
};
const saveFile = () => {
  const link = build('a', { download: `${store.now.replaceAll(/[^\w -]/g, '') || 'project'}.json`, href: `data:application/json;charset=utf-8,${encodeURIComponent(text(store.now))}` });
  link.click();
};
const choose = build('input', { type: 'file', accept: '.json,application/json', 'aria-label': 'Project file', hidden: '' });
choose.addEventListener('change', async () => {
  const [file] = choose.files;
  if (!file) return;
  importing = file.size > LIMITS.project ? 'x'.repeat(LIMITS.project + 1) : await file.text();
  choose.value = '';
  trigger('restored', { project: importing, afresh: true });
});
const deleteProject = () => {
  delete store.projects[store.now];
  message.textContent = persist();
  openProject(Object.keys(store.projects)[0] ?? 'Untitled');
};
name.addEventListener('keydown', ({ key }) => {
  if (key === 'Enter') rename();
  if (key === 'Escape') { name.value = ''; rename(); }
});
name.addEventListener('blur', rename);
select.addEventListener('change', () => openProject(select.value));
const projects = build('div', { class: 'projects' }, build('span', {}, 'Project'), select, name,
  makeButton('New', () => openProject(unused('Untitled'))), makeButton('Rename', startRename), makeButton('Delete', deleteProject),
  makeButton('Export', saveFile, { title: 'As one file' }), makeButton('Import', () => choose.click()), choose);

// All of it.

const summary = build('summary', {});
const ticked = build('div', { class: 'ticked' });
const tools = build('div', { class: 'tools' }, search, kinds, fidelities, count, projects);
const drawer = build('details', {}, summary, build('div', { class: 'drawer' }, tools, scroller, message));
summary.addEventListener('click', () => { open = !drawer.open; });
place.append(drawer, ticked);
const chipOf = (row) => {
  const number = build('b', {}, String(chosen.indexOf(row.id) + 1));
  const truth = FIDELITY[row.fidelity] ? [build('i', { class: row.fidelity }, FIDELITY[row.fidelity])] : [];
  return build('span', { class: 'chip', title: `${row.title}; ${row.prompt}; ${row.note}` }, number, ' ', build('span', {}, row.title), ...truth,
    build('button', { type: 'button', 'aria-label': `Deselect ${row.title}, ${row.note}`, 'data-off': row.id }, '×'));
};
const show = () => {
  const { rows = [], chosen: now = [], asked: requested = null, address = '', project = null } = props.value ?? {};
  const focused = body.contains(document.activeElement) ? document.activeElement.value : null;
  const scrolled = scroller.scrollTop;
  if (!pendingSelection || requested?.join() === pendingSelection.join()) [chosen, pendingSelection] = [[...now], null];  // else a tick is still on its way
  summary.textContent = `Runs (${rows.length}${chosen.length ? `, ${chosen.length} selected` : ''})`;
  ticked.replaceChildren(...chosen.map((id) => rows.find((row) => row.id === id)).filter(Boolean).map(chipOf));
  fill();
  drawer.open = open ?? !chosen.length;
  if (address) draftscopeAddress.setRun('compare', address);
  scroller.scrollTop = scrolled;
  if (focused !== null) body.querySelector(`input[value="${CSS.escape(focused)}"]`)?.focus();
  if (project !== null) {
    if (importing && project !== '') {
      store.now = unused(project);
    }
    importing = null;
    ready = true;
    delete document.body.dataset.restoring;
  }
  save();
};
const remove = (id) => {
  const others = [...element.querySelectorAll('.own input')];
  const at = others.findIndex((one) => one.value === id);
  (others[at + 1] ?? others[at - 1])?.focus();  // the keyboard stays in the list
  chosen = chosen.filter((one) => one !== id);
  trigger('dropped', { run: id });
};
const tick = (ids) => {
  chosen = pendingSelection = ids;
  trigger('choose', { chosen });
};
element.addEventListener('click', ({ target }) => {
  const { run, off, sort } = target.dataset ?? {};
  if (run) remove(run);
  if (off) tick(chosen.filter((id) => id !== off));
  if (sort) changed({ sort, down: view.sort === sort ? !view.down : ['ratio', 'acceptance'].includes(sort) });
});
element.addEventListener('keydown', (event) => {
  const removable = event.key === 'Delete' && event.target.closest?.('.own');
  if (removable) remove(removable.querySelector('input').value);
});
element.addEventListener('change', ({ target }) => {
  if (!target.matches('.run input[type=checkbox]')) return;
  tick(target.checked ? [...chosen, target.value] : chosen.filter((id) => id !== target.value));
});
listProjects();
{
  // An address of other runs than the kept ones is a project of its own.
  const named = location.hash.split(/[#&]/).filter((part) => part.startsWith('compare=')).join('&');
  const saved = store.projects[store.now];
  if (named && named !== saved?.address) {
    store.now = 'From an address';
    ready = true;
  } else if (saved?.runs.length) {
    document.body.dataset.restoring = '';
    trigger('restored', { project: text(store.now), afresh: false });
  } else ready = true;
}

// The page of a report: summary, time, lines, hand-overs, stacks, totals.

/** The columns of the table of lines. */
const LINE_COLUMNS = ['rank', 'name', 'verdict_brief', 'lost_share', 'lost_cycles', 'remote_hitm_count', 'local_hitm_count', 'thread_count'];

/** What of a line its details tell in figures. */
const LINE_FACTS = ['lost_cycles', 'stall_cycles', 'run_share', 'false_sharing_cycles', 'disjoint_share', 'load_count', 'store_count',
  'locked_count', 'remote_hitm_count', 'local_hitm_count', 'load_latency_cycles_mean', 'load_latency_cycles_max',
  'miss_latency_cycles_p50', 'miss_latency_cycles_p99', 'thread_count', 'cpu_count', 'nodes'];

const ROW_COLUMNS = ['offset', 'member', 'op', 'threads', 'function', 'source', 'remote_hitm_share', 'local_hitm_share',
  'load_cycles_mean', 'lost_share', 'access_count', 'cpu_count'];

/** Threads that have a row each from the start. */
const THREADS_MAX = 8;

function section(title, id, ...content) {
  return h('section', { class: 'part', 'aria-labelledby': id }, h('h2', { id, title: meaningOf(title) }, title), ...content);
}

function summaryBox(summary) {
  const lines = objects(summary.fields, summary.rows);
  return h('dl', { class: 'summary' }, lines.map((line) => h('div', { class: `summary-${line.label.toLowerCase()}` },
    h('dt', null, line.label), h('dd', null, line.is_command ? command(line.text) : line.text))));
}

/** A command and a button that copies it. */
function command(text) {
  return h('span', { class: 'command' }, h('code', null, text), copyButton('Copy', () => text));
}

/** A button that copies a text, or says that it may not. */
function copyButton(title, textOf) {
  const button = h('button', {
    type: 'button', class: 'quiet', click: () => copied(textOf()).then((isDone) => {
      button.textContent = isDone ? 'Copied' : 'The browser forbids it';
      setTimeout(() => { button.textContent = title; }, 2000);
    }),
  }, title);
  return button;
}

function copied(text) {
  const clipboard = navigator.clipboard;
  return clipboard ? clipboard.writeText(text).then(() => true, () => false) : Promise.resolve(false);
}

/** The whole page of a report. */
function reportPage(data) {
  const { report, pictures } = data;
  const run = objects(report.run.fields, report.run.rows)[0];
  const stacks = stacksOf(pictures.stacks);
  const hasLost = stacks.list.some((stack) => stack.lost_cycles > 0);
  const lines = lineTable(data, stacks);
  const flame = flameGraph(stacks.list, stacks.frames, {
    title: 'Where cycles are lost', name: 'hitm-flame',
    note: 'From the thread down to function, inlined function, source line and member; as wide as what was lost. Click or press Enter to zoom.',
  });
  const axis = stacks.times && timeAxis({
    times: stacks.times, count: pictures.stacks.bucket_count, bucketCycles: pictures.stacks.bucket_cycles, clockKhz: run.clock_khz,
  }, (window) => {
    lines.showWindow(window);
    flame.setWeight((stack) => (window ? lostWithin(stack.times, window) : stack.lost_cycles));
  });
  lines.onOpen((rank) => axis && axis.highlight(rank && stacks.list.filter((stack) => stack.line === rank).map((stack) => stack.times)));
  return [
    pageHead(`hitm report: ${run.command.join(' ')}`, `${run.machine}: ${run.machine_description}`
      + `${run.clock_khz ? `, ${run.clock_khz / 1e6} GHz` : ''}; threads placed ${run.placement}.`),
    firstScreen(data),
    section('Findings', 'findings', findingTable(data)),
    sourceParts(data),
    axis && hasLost ? section('Time', 'time', axis.element) : null,
    section('Contended lines', 'lines', lines.element),
    pictures.transfers && hasLost ? section('Hand-overs', 'transfers', matrixOf(data).element) : null,
    hasLost ? section('Stacks', 'stacks', flame.element) : null,
    section('Totals', 'totals', totalsOf(report)),
    threadsOf(report),
  ];
}

/** The summary, and the line of the first finding beside it. */
function firstScreen(data) {
  const first = findingsOf(data.report.findings)[0];
  const dearest = first && dearestLine(data, first);
  const summary = h('section', { class: 'part', 'aria-labelledby': 'summary' },
    h('div', { class: 'figure-head' }, h('h2', { id: 'summary' }, 'Summary'), copyButton('Copy as Markdown', () => reportMarkdown(data))),
    summaryBox(data.pictures.summary), notes(data.report.diagnostics));
  return h('div', { class: dearest ? 'first-screen' : null }, summary,
    dearest ? h('div', { class: 'part' }, mapOfLine(data, dearest.line, dearest.at).element) : null);
}

function notes(diagnostics) {
  if (diagnostics.length === 0) return null;
  return h('div', { class: 'notes' }, h('h3', null, 'Notes'), h('ul', null, diagnostics.map((text) => h('li', null, text))));
}

/** Stacks with their frames and times. */
function stacksOf(data) {
  const list = objects(data.fields, data.rows);
  list.forEach((stack, at) => { stack.times = data.times ? data.times[at] : []; });
  return { list, frames: objects(data.frame_fields, data.frames), times: data.times };
}

function matrixOf({ report, pictures }) {
  const { transfers, topology } = pictures;
  const lines = objects(report.lines.fields, report.lines.rows);
  const scopes = [{ kind: 'run', name: 'all lines', tables: [transfers.run] }];
  const ofObject = new Map();
  report.lines.details.forEach((detail, at) => {
    for (const one of objects(report.lines.object_fields, detail.objects)) {
      ofObject.set(one.name, [...(ofObject.get(one.name) || []), transfers.lines[at]]);
    }
  });
  for (const [name, tables] of ofObject) scopes.push({ kind: 'object', name, tables });
  lines.forEach((line, at) => scopes.push({ kind: 'line', name: `line ${line.rank}, ${line.name}`, tables: [transfers.lines[at]] }));
  return transferMatrix(transfers, topology, scopes);
}

/** The table of lines. A line opens below its row. */
function lineTable(data, stacks) {
  const { report } = data;
  const { fields } = report.lines;
  const lines = objects(fields, report.lines.rows);
  if (lines.length === 0) {
    return { element: h('p', null, 'No line is contended.'), showWindow: () => {}, onOpen: () => {} };
  }
  const columns = LINE_COLUMNS.map((id) => fieldOf(fields, id)).filter(Boolean);
  const shareOf = fieldOf(fields, 'lost_share');
  let opened = () => {};
  let openRank = null;
  const windowHead = h('th', { scope: 'col', class: 'figure-cell', hidden: true, title: meaningOf('in window') }, 'in window');
  const rows = lines.map((line, at) => lineRow({ data, line, at, columns, shareOf }, (rank) => {
    openRank = rank;
    opened(openRank);
  }));
  const body = h('tbody', null, rows.flatMap((row) => [row.row, row.detail]));
  const table = h('table', { class: 'lines openable' }, h('caption', { class: 'hidden' }, 'Contended lines, the costliest first'),
    h('thead', null, h('tr', null, columns.map((column) => h('th', {
      scope: 'col', class: `${isFigure(column) ? 'figure-cell' : ''} column-${column.id}`, title: column.description,
    }, column.title || column.id)), windowHead)), body);
  const quiet = objects(report.quiet.fields, report.quiet.rows)[0];
  const others = [`${grouped(quiet.line_count)} lines changed hands too rarely to matter`
    + `${quiet.lost_cycles === undefined ? '' : ` and lost ${grouped(quiet.lost_cycles)} cycles`}.`];
  if (quiet.left_out_line_count > 0) others.push(` ${grouped(quiet.left_out_line_count)} contended lines are left out; --top shows more.`);
  const showWindow = (window) => {
    windowHead.hidden = window === null;
    for (const row of rows) {
      const own = stacks.list.filter((stack) => stack.line === row.rank);
      row.setWindow(window && own.reduce((sum, stack) => sum + lostWithin(stack.times, window), 0));
    }
    const order = [...rows].sort((a, b) => (window ? b.lost() - a.lost() : 0) || a.rank - b.rank);
    body.replaceChildren(...order.flatMap((row) => [row.row, row.detail]));
  };
  if (report.findings.rows.length === 0) rows[0].toggle(true);
  return {
    element: h('div', null, scrollable('Table of contended lines', table), h('p', { class: 'note' }, others),
      h('p', { class: 'note narrow' }, 'Some columns have no room here: an opened line has their figures.'), meanings(columns)),
    showWindow,
    onOpen: (listener) => { opened = listener; },
  };
}

function lineRow({ data, line, at, columns, shareOf }, onToggle) {
  const id = `line-${line.rank}`;
  const content = h('td', { colspan: columns.length + 1 });
  const detail = h('tr', { id: `${id}-detail`, class: 'detail', hidden: true }, content);
  const windowCell = h('td', { class: 'figure-cell', hidden: true });
  let lost = 0;
  const button = h('button', { type: 'button', class: 'opener', 'aria-expanded': 'false', 'aria-controls': detail.id, click: () => toggle(detail.hidden) }, breakable(line.name));
  const toggle = (isOpen) => {
    detail.hidden = !isOpen;
    button.setAttribute('aria-expanded', String(isOpen));
    if (isOpen && content.childElementCount === 0) content.replaceChildren(lineDetail(data, line, at));
    if (isOpen) redrawAll();
    onToggle(isOpen ? line.rank : null);
  };
  const cell = (column) => {
    const text = column.unit === 'cycles' || column.unit === 'count' ? compact(line[column.id]) : valueText(column, line[column.id]);
    const classes = `${isFigure(column) ? 'figure-cell' : ''} column-${column.id}`;
    if (column.id === 'name') return h('th', { scope: 'row', class: classes }, button, line.name === line.address ? null : h('span', { class: 'address' }, line.address));
    if (column.id === 'verdict_brief') return h('td', { class: classes }, h('span', { class: `verdict ${line.verdict}` }, text));
    if (column === shareOf) return h('td', { class: classes }, shareBar(line.lost_share), text);
    return h('td', { class: classes, title: valueText(column, line[column.id]) }, text);
  };
  anchors.set(id, () => toggle(true));
  return {
    rank: line.rank, row: h('tr', { id }, columns.map(cell), windowCell), detail, toggle,
    lost: () => lost,
    setWindow: (cycles) => {
      lost = cycles || 0;
      windowCell.hidden = cycles === null;
      windowCell.replaceChildren(cycles === null ? '' : compact(cycles));
    },
  };
}

function shareBar(share) {
  const bar = h('span', { class: 'share-bar', 'aria-hidden': 'true' }, h('span'));
  bar.firstChild.style.width = `${Math.max(1, Math.min(1, share) * 100)}%`;
  return bar;
}

/** Everything about one line. */
function lineDetail(data, line, at) {
  const { report, pictures } = data;
  const detail = report.lines.details[at];
  const name = `hitm-line-${line.rank}`;
  const advice = data.advice.filter((one) => one.ranks.includes(line.rank));
  const parts = [
    h('p', { class: 'verdict-text' }, h('strong', null, line.verdict_text), ` at ${line.address}`),
    h('p', null, line.advice),
    mapOfLine(data, line, at).element,
    advice.map((one, index) => adviceOf(one, `${name}-layout-${index + 1}`)),
  ];
  if (pictures.transfers) {
    const scope = { kind: `line-${line.rank}`, name: `line ${line.rank}`, tables: [pictures.transfers.lines[at]] };
    parts.push(transferMatrix(pictures.transfers, pictures.topology, [scope]).element);
  }
  parts.push(h('section', { class: 'figure' }, h('h3', null, 'Figures'), fieldList(report.lines.fields, report.lines.rows[at], { only: LINE_FACTS })));
  if (detail.fights.length > 0) parts.push(fieldTable(report.lines.fight_fields, detail.fights, { caption: 'What threads fight over' }));
  parts.push(fieldTable(report.lines.row_fields, detail.rows, { caption: 'Accesses by place, operation, thread and instruction', only: ROW_COLUMNS }));
  if (line.rows_left_out_count > 0) parts.push(h('p', { class: 'note' }, `${grouped(line.rows_left_out_count)} cheaper rows are left out.`));
  return h('div', { class: 'line-detail' }, parts);
}

function adviceOf(one, name) {
  if (one.problem) return h('p', { class: 'note' }, `No layout of ${one.type}: ${one.problem}.`);
  return layoutAdvice(one.advice, name);
}

function totalsOf(report) {
  const operations = ['loads', 'stores', 'locked'];
  const { fields, rows } = report.counts;
  const used = fields.map((field, at) => [field, rows.map((row) => row[at])]).filter(([, counts]) => counts.some((count) => count > 0));
  const parts = [
    fieldList(report.totals.fields, report.totals.rows[0]),
    used.length === 0 ? null : textTable('Accesses by where the line was', [['source', false], ...operations.map((one) => [one, true])],
      used.map(([field, counts]) => [field.title, ...counts.map(grouped)])),
  ];
  if (report.filtered) parts.push(h('h3', null, 'Filtered'), fieldList(report.filtered.fields, report.filtered.rows[0]));
  if (report.of_machine) parts.push(h('h3', null, 'Machine'), fieldList(report.of_machine.fields, report.of_machine.rows[0]));
  for (const totals of report.totals_by) parts.push(fieldTable(totals.fields, totals.rows, { caption: `By ${totals.by}` }));
  if (report.handed_over && objects(report.handed_over.fields, report.handed_over.rows)[0].line_count > 0) {
    parts.push(h('h3', null, 'Handed over'), h('p', { class: 'note' }, meaningOf('handed over')),
      fieldList(report.handed_over.fields, report.handed_over.rows[0]),
      fieldTable(report.handed_objects.fields, report.handed_objects.rows, { caption: 'By kind of object' }),
      fieldTable(report.handed_takers.fields, report.handed_takers.rows, { caption: 'By function that took them' }));
  }
  if (report.waiting && report.waits.rows.length > 0) {
    parts.push(h('h3', null, 'Waiting'), h('p', { class: 'note' }, meaningOf('waiting')),
      fieldList(report.waiting.fields, report.waiting.rows[0]),
      fieldTable(report.waits.fields, report.waits.rows, { caption: 'By what they waited for' }));
  }
  return parts;
}

function threadsOf(report) {
  const { fields, rows } = report.threads;
  const table = fieldTable(fields, rows, { caption: 'Threads by first appearance' });
  if (rows.length <= THREADS_MAX) return section('Threads', 'threads', table);
  const sums = fields.map((field, at) => [field, at]).filter(([field]) => field.unit === 'count' || field.unit === 'cycles')
    .map(([field, at]) => `${grouped(rows.reduce((sum, row) => sum + row[at], 0))} ${fieldTitle(field)}`);
  return section('Threads', 'threads', h('details', { class: 'fold' },
    h('summary', null, `${grouped(rows.length)} threads: ${sums.join(', ')}`), table));
}

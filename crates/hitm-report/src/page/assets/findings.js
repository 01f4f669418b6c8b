// Findings: what one change cures, a row each; a finding opens below its row.

const FINDING_COLUMNS = ['number', 'name', 'kind_brief', 'run_share', 'line_count', 'thread_count', 'written_in'];
const SAMPLED_FINDING_COLUMNS = ['number', 'name', 'kind_brief', 'lost_share', 'line_count', 'thread_count', 'written_in'];
const FINDING_FACTS = ['run_share', 'lost_cycles', 'waited_cycles', 'lost_share', 'false_sharing_cycles', 'line_count', 'handed_line_count',
  'thread_count', 'remote_hitm_count', 'local_hitm_count', 'written_in'];

/** Findings below this part of the run are folded. */
const FINDING_SHARE_MIN = 0.01;

/** Lines of one finding that are drawn side by side. */
const COLUMNS_MAX = 8;

/** Rows that an address opens, by their ids. */
const anchors = new Map();

/** Opens what the address names, and shows it. */
function followAddress() {
  const id = decodeURIComponent(location.hash.slice(1));
  if (!anchors.has(id)) return;
  anchors.get(id)();
  requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById(id).scrollIntoView()));
}

/** The address names what was opened; nothing moves. */
function rememberAddress(id) {
  try {
    history.replaceState(null, '', `#${id}`);
  } catch {
    // A page within another one has no address of its own.
  }
}

/** The findings of a report, each with its details; `share` is its part of the run, of samples that of all lines. */
function findingsOf({ fields, rows, details }) {
  return objects(fields, rows).map((finding, at) => ({
    ...finding, ...details[at], row: rows[at], share: finding.run_share === undefined ? finding.lost_share : finding.run_share,
  }));
}

function findingColumns({ report }) {
  const ids = report.is_sampled ? SAMPLED_FINDING_COLUMNS : FINDING_COLUMNS;
  return ids.map((id) => fieldOf(report.findings.fields, id)).filter(Boolean);
}

/** The title of a column; of lost time it says of what it is a part. */
function findingTitle({ report }, column) {
  if (column.unit !== 'share') return fieldTitle(column);
  return report.is_sampled ? 'lost, of lines' : 'lost, of the run';
}

/** The first findings, one at least; those behind are small. */
function largeFindings(findings) {
  const large = findings.filter((finding, at) => at === 0 || finding.share >= FINDING_SHARE_MIN);
  return [large, findings.filter((finding) => !large.includes(finding))];
}

function smallText(findings) {
  const share = findings.reduce((sum, finding) => sum + finding.share, 0);
  return `${grouped(findings.length)} more below 1%, together ${(share * 100).toFixed(1)}%`;
}

/** The line of a finding that costs most, with its place in the data; undefined where the page has none. */
function dearestLine({ report }, finding) {
  return linesOf({ report }, finding)[0];
}

function linesOf({ report }, finding) {
  const lines = objects(report.lines.fields, report.lines.rows);
  return finding.ranks.map((rank) => lines.findIndex((line) => line.rank === rank)).filter((at) => at >= 0)
    .map((at) => ({ line: lines[at], at }));
}

/** The table of findings. */
function findingTable(data) {
  const findings = findingsOf(data.report.findings);
  if (findings.length === 0) return h('p', null, 'Nothing costs the threads time that one change would cure.');
  const columns = findingColumns(data);
  const [large, small] = largeFindings(findings);
  const shown = large.map((finding) => findingRow(data, finding, columns));
  const folded = small.map((finding) => findingRow(data, finding, columns));
  const rows = [...shown, ...folded].flatMap((one) => [one.row, one.detail]);
  if (small.length > 0) {
    const fold = foldRow(smallText(small), folded, columns.length);
    rows.splice(2 * shown.length, 0, fold.row);
    folded.forEach((one) => anchors.set(one.id, () => {
      fold.toggle(true);
      one.toggle(true);
    }));
  }
  shown[0].toggle(true);
  const left = data.report.findings.left_out_count;
  return [
    scrollable('Table of findings', h('table', { class: 'findings openable' },
      h('caption', { class: 'hidden' }, 'Findings, the costliest first'),
      h('thead', null, h('tr', null, columns.map((column) => h('th', {
        scope: 'col', class: `${isFigure(column) ? 'figure-cell' : ''} column-${column.id}`, title: column.description,
      }, findingTitle(data, column))))), h('tbody', null, rows))),
    left > 0 ? h('p', { class: 'note' }, `${grouped(left)} cheaper findings are left out.`) : null,
    h('p', { class: 'note narrow' }, 'Lines, threads and places have no room here: an opened finding has them.'),
    meanings(columns)];
}

/** A row that stands for small ones. */
function foldRow(text, folded, span) {
  const button = h('button', { type: 'button', class: 'opener', 'aria-expanded': 'false', click: () => toggle(button.getAttribute('aria-expanded') === 'false') }, text);
  const toggle = (isOpen) => {
    button.setAttribute('aria-expanded', String(isOpen));
    for (const one of folded) one.show(isOpen);
  };
  folded.forEach((one) => one.show(false));
  return { row: h('tr', null, h('td', { colspan: span }, button)), toggle };
}

function findingRow(data, finding, columns) {
  const id = `finding-${finding.number}`;
  const content = h('td', { colspan: columns.length });
  const detail = h('tr', { id: `${id}-detail`, class: 'detail', hidden: true }, content);
  const button = h('button', {
    type: 'button', class: 'opener', 'aria-expanded': 'false', 'aria-controls': detail.id,
    click: () => {
      toggle(detail.hidden);
      if (!detail.hidden) rememberAddress(id);
    },
  }, breakable(finding.name));
  const toggle = (isOpen) => {
    detail.hidden = !isOpen;
    button.setAttribute('aria-expanded', String(isOpen));
    if (isOpen && content.childElementCount === 0) content.replaceChildren(findingDetail(data, finding));
    if (isOpen) redrawAll();
  };
  const cell = (column) => {
    const text = valueText(column, finding[column.id]);
    const classes = `${isFigure(column) ? 'figure-cell' : ''} column-${column.id}`;
    if (column.id === 'name') return h('th', { scope: 'row', class: classes }, button);
    if (column.id === 'kind_brief') return h('td', { class: classes }, h('span', { class: `verdict ${finding.kind}` }, text));
    if (column.unit === 'share') return h('td', { class: classes }, shareBar(finding.share), text);
    return h('td', { class: classes }, text);
  };
  const row = h('tr', { id }, columns.map(cell));
  const show = (isShown) => {
    row.hidden = !isShown;
    if (!isShown) toggle(false);
  };
  anchors.set(id, () => toggle(true));
  return { id, row, detail, toggle, show };
}

/** Everything about one finding. */
function findingDetail(data, finding) {
  const { report, pictures } = data;
  const lines = linesOf(data, finding);
  const advice = data.advice.filter((one) => finding.has_false_sharing && one.ranks.some((rank) => finding.ranks.includes(rank)));
  const parts = [
    h('p', null, h('strong', null, `${capital(finding.kind_brief)}. `), finding.meaning),
    finding.fix ? h('p', null, finding.fix) : null,
    findingMap(data, finding, lines),
    advice.map((one, index) => adviceOf(one, `hitm-line-${one.ranks.find((rank) => finding.ranks.includes(rank))}-layout-${index + 1}`)),
    fieldList(report.findings.fields, finding.row, { only: FINDING_FACTS.filter((id) => finding[id]) }),
  ];
  if (finding.places.length > 0) parts.push(fieldTable(report.findings.place_fields, finding.places, { caption: 'Where in the program' }));
  if (pictures.transfers && lines.length > 0) {
    const name = `${lines.length > 1 ? 'lines' : 'the line'} of ${finding.name}`;
    const scope = { kind: `finding-${finding.number}`, name, tables: lines.map(({ at }) => pictures.transfers.lines[at]) };
    parts.push(transferMatrix(pictures.transfers, pictures.topology, [scope]).element);
  }
  if (lines.length > 0) parts.push(lineLinks(finding, lines));
  return h('div', { class: 'line-detail' }, parts);
}

/** Links to the lines in their table. */
function lineLinks(finding, lines) {
  const links = lines.map(({ line }, at) => [at > 0 ? ', ' : '', h('a', {
    href: `#line-${line.rank}`, click: () => anchors.get(`line-${line.rank}`)(),
  }, `line ${line.rank}`)]);
  const left = finding.line_count - lines.length;
  return h('p', null, 'In the table of lines: ', links, left > 0 ? `, and ${grouped(left)} that the page leaves out` : '', '.');
}

/** The line of a finding, or its lines side by side. That of the first one is beside the summary. */
function findingMap(data, finding, lines) {
  if (lines.length === 0) return null;
  if (lines.length === 1) {
    return finding.number === 1 ? h('p', { class: 'note' }, 'The map of its line stands with the summary.') : mapOfLine(data, lines[0].line, lines[0].at).element;
  }
  const context = mapContext(data);
  const drawn = lines.slice(0, COLUMNS_MAX).sort((a, b) => (BigInt(a.line.address) < BigInt(b.line.address) ? -1 : 1));
  const map = joinedMaps(context, drawn.map(({ line, at }) => ({ line, map: data.pictures.maps[at] })));
  const which = finding.line_count > drawn.length ? `The ${drawn.length} costliest of ${grouped(finding.line_count)} lines` : `Its ${drawn.length} lines`;
  return lineMap({
    title: `${finding.name}: its lines side by side`, name: `hitm-finding-${finding.number}`, context, map,
    note: `${which} in order of address, a row for each thread, the one that lost most first.`,
  }).element;
}

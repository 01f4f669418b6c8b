// Runs beside each other: bars of each run below a name.

// Rows below half a per cent of the longest bar are left to the table, as in the text report.
const BARS = { rowHead: 18, bar: 12, gap: 10, rowsMax: 24, shareMin: 0.005 };
const RUN_HUES = ['--reads', '--hitm', '--locked', '--writes'];

/** Rows of a chart, from columns of a table: one for each run, or one with a list. */
function chartRows(table, chart) {
  const at = (id) => table.fields.findIndex((field) => field.id === id);
  const nameAt = at(chart.rows);
  const columns = chart.columns.map(at);
  return table.rows.map((row) => ({
    name: row[nameAt] || '(no name)',
    values: columns.flatMap((column) => row[column]).map((value) => value || 0),
  })).filter((row) => row.values.some((value) => value > 0));
}

/** The picture: a group of bars for each row, longest first as the table has them. */
function barChart(data, chart) {
  const table = data.tables[chart.table];
  const field = fieldOf(table.fields, chart.columns[0]);
  const rows = chartRows(table, chart);
  const largest = Math.max(1, ...rows.flatMap((row) => row.values));
  const shown = rows.filter((row) => Math.max(...row.values) >= largest * BARS.shareMin).slice(0, BARS.rowsMax);
  const draw = (width) => drawBars({ rows: shown, labels: data.labels, title: chart.title }, width);
  const behind = () => textTable(chart.title, [['name', false], ...data.labels.map((label) => [label, true])],
    rows.map((row) => [row.name, ...row.values.map((value) => valueText(field, value))]));
  const left = rows.length - shown.length;
  return figure({
    title: chart.title, name: chart.name, draw, table: behind, controls: [],
    note: left > 0 ? `${left} smaller ${left === 1 ? 'one is' : 'ones are'} in the table.` : null,
  }).element;
}

function drawBars({ rows, labels, title }, width) {
  const parts = [];
  let x = 0;
  labels.forEach((text, run) => {
    const shown = clipped(text, Math.max(60, width / labels.length - 30), 12);
    parts.push(s('rect', { x, y: 3, width: 12, height: 10, fill: plain(RUN_HUES[run % RUN_HUES.length]) }), label(x + 18, 12, shown));
    x += widthOf(shown, 12) + 40;
  });
  const largest = Math.max(1, ...rows.flatMap((row) => row.values));
  const room = width - 76;
  let y = 28;
  for (const row of rows) {
    const text = shortened(row.name, width, 12, MONO) || clipped(row.name, width, 12, MONO);
    parts.push(s('g', { 'data-tip': row.name }, label(0, y + 11, text, { 'font-family': MONO })));
    y += BARS.rowHead;
    row.values.forEach((value, run) => {
      const length = (value / largest) * room;
      parts.push(s('g', { 'data-tip': `${row.name}\n${labels[run]}: ${grouped(value)}` },
        s('rect', { x: 0, y, width: Math.max(1, length), height: BARS.bar, rx: 1, fill: plain(RUN_HUES[run % RUN_HUES.length]) }),
        label(length + 6, y + 10, compact(value), { 'font-size': 11 })));
      y += BARS.bar + 2;
    });
    y += BARS.gap;
  }
  return picture(width, y, title, parts);
}

/** The page of `hitm whatif` and of `hitm diff`. */
function comparisonPage(data) {
  const charts = data.charts.filter((chart) => chartRows(data.tables[chart.table], chart).length > 0);
  const tables = data.tables.filter((table) => table.rows.length > 0);
  return [
    pageHead(data.title, data.subtitle),
    notes(data.notes),
    charts.length > 0 ? section('Run by run', 'runs', charts.map((chart) => barChart(data, chart))) : null,
    section('Tables', 'tables', tables.map((table) => fieldTable(table.fields, table.rows, { caption: table.caption, listsByRun: data.labels }))),
  ].flat();
}

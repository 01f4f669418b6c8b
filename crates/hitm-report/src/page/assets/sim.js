// The page of simulations: published figures beside simulated ones, then each figure over the variants.

const RATIOS = { least: 0.05, most: 20, rowHead: 17, bar: 14, gap: 9, top: 26, inset: 18 };

/** Rows of published figures that have a picture: both sides of the same sign. */
function ratioRows(published) {
  return objects(published.fields, published.rows).map((row) => {
    const middle = (row.published_min + row.published_max) / 2;
    const over = (value) => (value === null || middle === 0 ? null : value / middle);
    return {
      row, name: `${row.id}, ${row.variant}`, published: [over(row.published_min), over(row.published_max)],
      simulated: over(row.simulated), spread: [over(row.simulated_min), over(row.simulated_max)],
    };
  }).filter((one) => one.simulated !== null && one.simulated > 0);
}

/** What the tip of a published figure says. */
function ratioText({ name, row }) {
  const published = row.published_min === row.published_max
    ? digits(row.published_min) : `${digits(row.published_min)} to ${digits(row.published_max)}`;
  const spread = row.simulated_min === null ? '' : `, ${digits(row.simulated_min)} to ${digits(row.simulated_max)}`;
  return `${name}\npublished ${published}, simulated ${digits(row.simulated)}${spread} ${row.unit}\n${row.source}`;
}

/** A logarithmic axis of ratios: maps a ratio, and draws rules and texts. */
function ratioAxis(rows, width, height) {
  const all = rows.flatMap((one) => [...one.published, one.simulated, ...one.spread.filter((value) => value !== null)]).filter((value) => value > 0);
  const low = Math.max(RATIOS.least, Math.min(0.5, ...all) / 1.1);
  const high = Math.min(RATIOS.most, Math.max(2, ...all) * 1.1);
  const x = (ratio) => {
    const held = Math.min(high, Math.max(low, ratio));
    return RATIOS.inset + (Math.log(held / low) / Math.log(high / low)) * (width - 2 * RATIOS.inset);
  };
  const ticks = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20].filter((tick) => tick >= low && tick <= high);
  const parts = ticks.flatMap((tick) => [
    s('line', { x1: x(tick), x2: x(tick), y1: RATIOS.top - 4, y2: height, stroke: plain(tick === 1 ? '--muted' : '--rule') }),
    label(x(tick), 14, String(tick), { 'text-anchor': 'middle', 'font-size': 11, fill: plain('--muted') }),
  ]);
  return { x, parts };
}

/** Each published figure as a band, and the simulated one as a point with the spread of its seeds. */
function drawRatios(rows, title, width) {
  const each = RATIOS.rowHead + RATIOS.bar + RATIOS.gap;
  const height = RATIOS.top + rows.length * each;
  const axis = ratioAxis(rows, width, height);
  const parts = [...axis.parts];
  rows.forEach((one, index) => {
    const y = RATIOS.top + index * each;
    const middle = y + RATIOS.rowHead + RATIOS.bar / 2;
    const [least, most] = one.published.map(axis.x);
    const [low, high] = one.spread;
    parts.push(s('g', { 'data-tip': ratioText(one) },
      label(4, y + 12, clipped(one.name, width - 8, 12)),
      s('rect', { x: least - 3, y: y + RATIOS.rowHead, width: most - least + 6, height: RATIOS.bar, rx: 2, fill: plain('--muted'), 'fill-opacity': 0.35 }),
      low === null ? null : s('line', { x1: axis.x(low), x2: axis.x(high), y1: middle, y2: middle, stroke: plain('--hitm'), 'stroke-width': 2 }),
      s('circle', { cx: axis.x(one.simulated), cy: middle, r: 5, fill: plain('--hitm') })));
  });
  return picture(width, height, title, parts);
}

/** Published figures of a scenario beside simulated ones; none where nothing is published. */
function publishedFigure(scenario) {
  if (scenario.published.rows.length === 0) return null;
  const rows = ratioRows(scenario.published);
  const left = scenario.published.rows.length - rows.length;
  const title = 'Published and simulated';
  return figure({
    title, name: 'hitm-published', controls: [],
    note: `Bands are published, points simulated with the spread over the seeds, both as shares of the published figure.${left > 0 ? ` The table has ${left} more, without a ratio.` : ''}`,
    draw: (width) => drawRatios(rows, title, width),
    table: () => fieldTable(scenario.published.fields, scenario.published.rows, { caption: title }),
  }).element;
}

/** Published figures of a metric: the place of each over one key, and the name of its line by another. */
function publishedMarks(data, metric, over, series) {
  if (!data.published) return [];
  const variants = data.keys.findIndex((key) => key.name === 'variant');
  const rows = objects(data.published.fields, data.published.rows);
  return rows.filter((row) => row.id === data.metrics[metric].id).flatMap((row) => {
    const variant = data.keys[variants].values.indexOf(row.variant);
    const point = data.points.find((one) => one[variants] === variant);
    if (!point) return [];
    const name = series < 0 ? '' : valueName(data.keys[series].values[point[series]]);
    return [{ at: point[over], name, least: row.published_min, most: row.published_max, text: row.source }];
  });
}

/** A scenario: what it is, its pictures, its tables. */
function scenarioSection(scenario, isAlone) {
  const about = objects(scenario.about.fields, scenario.about.rows)[0];
  const selection = selectionOf(scenario);
  const published = objects(scenario.published.fields, scenario.published.rows)[0];
  selection.metric = Math.max(0, scenario.metrics.findIndex((metric) => published && metric.id === published.id));
  const hasSeveral = scenario.points.length > 1;
  const drawn = scenario.metrics.length === 0 ? [] : [
    runChoices(scenario, selection, redrawAll),
    ...[hasSeveral ? curveFigure(scenario, selection) : null, boxFigure(scenario, selection), hasSeveral ? frontFigure(scenario, selection) : null]
      .filter(Boolean).map((one) => one.element),
  ];
  const tables = scenario.figures.map(({ variant, table }) => h('details', null, h('summary', null, variant || about.scenario),
    fieldTable(table.fields, table.rows, { caption: `Figures of ${variant || about.scenario}` })));
  const meanings = scenario.metrics.map((metric) => [metric.id, metric.unit, metric.description]);
  tables.push(h('details', null, h('summary', null, 'What the figures count'),
    textTable('What the figures count', [['Metric', false], ['Unit', false], ['Meaning', false]], meanings)));
  return section(isAlone ? 'Figures' : about.scenario, freshId('scenario'),
    h('p', { class: 'note' }, about.description), fieldList(scenario.about.fields, scenario.about.rows[0], { without: ['scenario', 'description'] }),
    publishedFigure(scenario),
    isAlone ? drawn : h('details', { toggle: redrawAll }, h('summary', null, 'Pictures of its variants'), drawn), tables);
}

/** The page of a simulation or of several. */
function simulationPage(data) {
  const count = data.scenarios.length;
  const subtitle = count === 1 ? '' : `${count} scenarios.`;
  return [pageHead(data.title, subtitle), ...data.scenarios.map((scenario) => scenarioSection(scenario, count === 1))];
}

// The page of a sweep: one choice of runs for all pictures, and what each of them shows.

/** Runs that the pictures show: a metric, and for each key a value or all. */
function selectionOf(data) {
  const chosen = data.keys.map(() => null);
  const isChosen = (point) => chosen.every((value, key) => value === null || point[key] === value);
  return {
    metric: 0,
    chosen,
    /** Values of a metric by a group of each point; null leaves a point out. */
    groups(metric, count, groupOf) {
      const values = Array.from({ length: count }, () => []);
      data.points.forEach((point, at) => {
        const group = isChosen(point) ? groupOf(point) : null;
        if (group !== null) values[group].push(...data.values[metric][at]);
      });
      return values.map((list) => (list.length > 0 ? statsOf(list) : null));
    },
  };
}

/** Values of a key without the missing one, which is the last of numbers. */
function statedOf(key) {
  return { ...key, values: key.values.filter((value) => value !== null) };
}

/** The place of a point's value of a key; null where it has none. */
function placeIn(data, key) {
  return (point) => (data.keys[key].values[point[key]] === null ? null : point[key]);
}

/** The number of a key by a preference; null when there is none. */
function firstKey(keys, ...wanted) {
  for (const is of wanted) {
    const found = keys.findIndex(is);
    if (found >= 0) return found;
  }
  return null;
}

function valueName(value) {
  return value === null ? '(none)' : String(value);
}

function keyOptions(data) {
  return data.keys.map((key, at) => [String(at), key.name]);
}

/** Rows of groups for the table behind a picture. */
function groupsTable(title, heads, rows) {
  const numbers = ['runs', 'mean', 'least', 'most'];
  return textTable(title, [...heads.map((head) => [head, false]), ...numbers.map((head) => [head, true])],
    rows.filter(([, stats]) => stats).map(([names, stats]) => (
      [...names.map(String), grouped(stats.count), digits(stats.mean), digits(stats.least), digits(stats.most)])));
}

/** A figure whose parts are chosen: `choices` are [title, name of the part, options]. */
function chosenFigure({ title, note, name, choices, state, draw, table }) {
  const controls = choices.map(([text, part, options]) => choice(text, options, String(state[part]), (value) => {
    state[part] = Number(value);
    one.redraw();
  }));
  const one = figure({ title, note, name, draw, table, controls });
  return one;
}

function curveFigure(data, selection) {
  const ofSeries = firstKey(data.keys, (key) => key.name === 'layout', (key) => !key.is_number);
  const state = {
    over: firstKey(data.keys, (key) => key.name === 'machine.cpus', (key) => key.is_number, () => true),
    series: ofSeries === null || ofSeries === 0 && data.keys.length === 1 ? -1 : ofSeries,
  };
  const overNow = () => statedOf(data.keys[state.over]);
  const seriesNow = () => {
    const over = overNow();
    const place = placeIn(data, state.over);
    const groups = (keep) => selection.groups(selection.metric, over.values.length, (point) => (keep(point) ? place(point) : null));
    if (state.series < 0 || state.series === state.over) return [{ name: '', groups: groups(() => true) }];
    const names = data.keys[state.series].values;
    return names.map((name, at) => ({ name: valueName(name), groups: groups((point) => point[state.series] === at) }))
      .filter((one) => one.groups.some(Boolean));
  };
  const title = () => metricTitle(data.metrics[selection.metric]);
  return chosenFigure({
    title: 'Over a key', name: 'hitm-sweep-curve', state,
    note: `Means of all chosen runs; the band goes from the least run to the largest. Up to ${SERIES_HUES.length} lines are drawn, the table has all.`,
    choices: [['Over', 'over', keyOptions(data)], ['Lines', 'series', [['-1', 'one'], ...keyOptions(data)]]],
    draw: (width) => drawCurve({
      key: overNow(), series: seriesNow().slice(0, SERIES_HUES.length), title: title(),
      marks: publishedMarks(data, selection.metric, state.over, state.series === state.over ? -1 : state.series),
    }, width),
    table: () => groupsTable(title(), ['line', keyTitle(overNow())],
      seriesNow().flatMap((one) => one.groups.map((stats, at) => [[one.name, overNow().values[at]], stats]))),
  });
}

function mapFigure(data, selection) {
  const down = firstKey(data.keys, (key) => key.name === 'layout', (key) => !key.is_number, () => true);
  const state = { down, across: firstKey(data.keys, (key) => key.name === 'machine.cpus', (key, at) => at !== down && key.is_number, (key, at) => at !== down) };
  const keysNow = () => [state.across, state.down].map((key) => statedOf(data.keys[key]));
  const cellsNow = () => {
    const [across, rows] = keysNow();
    const [column, row] = [placeIn(data, state.across), placeIn(data, state.down)];
    return selection.groups(selection.metric, across.values.length * rows.values.length,
      (point) => (row(point) === null || column(point) === null ? null : row(point) * across.values.length + column(point)));
  };
  const title = () => metricTitle(data.metrics[selection.metric]);
  return chosenFigure({
    title: 'Over two keys', name: 'hitm-sweep-map', state, note: 'Means of all chosen runs, from light (least) to dark or bright (most).',
    choices: [['Across', 'across', keyOptions(data)], ['Down', 'down', keyOptions(data)]],
    draw: (width) => drawMap({ across: keysNow()[0], down: keysNow()[1], cells: cellsNow(), title: title() }, width),
    table: () => {
      const [across, rows] = keysNow();
      return groupsTable(title(), [keyTitle(rows), keyTitle(across)], cellsNow().map((stats, at) => (
        [[rows.values[Math.floor(at / across.values.length)], across.values[at % across.values.length]], stats])));
    },
  });
}

function boxFigure(data, selection) {
  const state = { key: firstKey(data.keys, (key) => key.name === 'layout', (key) => !key.is_number, () => true) };
  const keyNow = () => statedOf(data.keys[state.key]);
  const groupsNow = () => selection.groups(selection.metric, keyNow().values.length, placeIn(data, state.key));
  const title = () => metricTitle(data.metrics[selection.metric]);
  return chosenFigure({
    title: 'Spread of the runs', name: 'hitm-sweep-box', state,
    note: 'A box from quartile to quartile with the median, whiskers to the ends. With one value of each other key it is the spread over the seeds.',
    choices: [['Of', 'key', keyOptions(data)]],
    draw: (width) => drawBoxes({ key: keyNow(), groups: groupsNow(), title: title() }, width),
    table: () => groupsTable(title(), [keyTitle(keyNow())], groupsNow().map((stats, at) => [[keyNow().values[at]], stats])),
  });
}

function frontFigure(data, selection) {
  const state = { key: firstKey(data.keys, (key) => key.name === 'layout', (key) => !key.is_number, () => true), against: data.metrics.length > 1 ? 1 : 0, better: 0 };
  const signs = [[1, 1], [1, -1], [-1, 1], [-1, -1]];
  const pointsNow = () => {
    const key = statedOf(data.keys[state.key]);
    const groups = (metric) => selection.groups(metric, key.values.length, placeIn(data, state.key));
    const [xs, ys] = [groups(state.against), groups(selection.metric)];
    return key.values.map((value, at) => xs[at] && ys[at] && { name: String(value), x: xs[at].mean, y: ys[at].mean }).filter(Boolean);
  };
  const titles = () => [state.against, selection.metric].map((metric) => metricTitle(data.metrics[metric]));
  return chosenFigure({
    title: 'One metric against another', name: 'hitm-sweep-front', state,
    note: 'Filled points are on the front: no other is better in one metric and as good in the other.',
    choices: [
      ['Points', 'key', keyOptions(data)], ['Against', 'against', data.metrics.map((metric, at) => [String(at), metric.id])],
      ['Better', 'better', [['0', 'less of both'], ['1', 'less across, more up'], ['2', 'more across, less up'], ['3', 'more of both']]]],
    draw: (width) => {
      const points = pointsNow();
      return drawFront({ points, front: frontOf(points, signs[state.better]), titles: titles() }, width);
    },
    table: () => {
      const points = pointsNow();
      const front = frontOf(points, signs[state.better]);
      return textTable(`${titles()[1]} against ${titles()[0]}`, [[data.keys[state.key].name, false], [titles()[0], true], [titles()[1], true], ['front', false]],
        points.map((point) => [point.name, digits(point.x), digits(point.y), front.includes(point) ? 'yes' : 'no']));
    },
  });
}

/** The choice of runs above all pictures. */
function runChoices(data, selection, onChange) {
  const status = h('p', { class: 'legend', 'aria-live': 'polite' });
  const show = () => {
    const isIn = (point) => selection.chosen.every((value, key) => value === null || point[key] === value);
    const count = data.points.filter((point, at) => isIn(point) && data.values[selection.metric][at].length > 0).length;
    status.replaceChildren(`${grouped(count)} of ${grouped(data.points.length)} points have this metric and are chosen.`);
    onChange();
  };
  const metric = choice('Metric', data.metrics.map((one, at) => [String(at), metricTitle(one)]), String(selection.metric), (value) => {
    selection.metric = Number(value);
    show();
  });
  const filters = data.keys.map((key, at) => choice(key.name, [['', 'all'], ...key.values.map((value, index) => [String(index), valueName(value)])], '', (value) => {
    selection.chosen[at] = value === '' ? null : Number(value);
    show();
  }));
  const element = h('div', { class: 'run-choices' }, h('div', { class: 'controls' }, metric, filters), status);
  show();
  return element;
}

/** The page of a sweep. */
function sweepPage(data) {
  const run = objects(data.run.fields, data.run.rows)[0];
  const counts = `${grouped(run.run_count)} runs at ${grouped(run.point_count)} points${run.failed_count > 0 ? `, ${grouped(run.failed_count)} failed` : ''}.`;
  const selection = selectionOf(data);
  const canDraw = data.metrics.length > 0 && data.keys.length > 0;
  const drawn = !canDraw ? [] : [
    curveFigure(data, selection), data.keys.length > 1 ? mapFigure(data, selection) : null, boxFigure(data, selection), frontFigure(data, selection),
  ].filter(Boolean);
  const tables = [['Keys', data.key_table], ['Metrics', data.metric_table], ['Keys that explain the spread of a metric', data.effects], ['Failures', data.failures]];
  return [
    pageHead(data.title, counts),
    notes(data.notes),
    canDraw ? section('Figures', 'figures', runChoices(data, selection, redrawAll), drawn.map((one) => one.element)) : null,
    section('Tables', 'tables', tables.filter(([, table]) => table.rows.length > 0)
      .map(([caption, table]) => h('div', { class: 'tall' }, fieldTable(table.fields, table.rows, { caption })))),
  ].flat();
}

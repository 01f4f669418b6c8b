// Hand-overs from CPU to CPU, folded to cores, caches, nodes or packages, with the machine as brackets.

const LEVELS = ['cpu', 'core', 'llc', 'node', 'package'];
const LEVEL_NAMES = { cpu: 'CPU', core: 'core', llc: 'LLC', node: 'node', package: 'package' };
const MATRIX_METRICS = [['hitm_count', 'hitm', 'HITM'], ['count', 'reads', 'hand-overs'], ['lost_cycles', 'lost', 'lost cycles']];
const MATRIX_PARTS_MAX = 96;

/** Sums of tables at a level, by giver and taker. Tables folded further than the level have no part in it. */
function foldedPairs(tables, fields, level, topology) {
  const pairs = new Map();
  for (const table of tables) {
    const up = upwards(topology, table.level, level);
    for (const pair of objects(fields, table.rows)) {
      const key = `${up.get(pair.giver)} ${up.get(pair.taker)}`;
      const sum = pairs.get(key) || { giver: up.get(pair.giver), taker: up.get(pair.taker), count: 0, hitm_count: 0, lost_cycles: 0 };
      for (const [metric] of MATRIX_METRICS) sum[metric] += pair[metric];
      pairs.set(key, sum);
    }
  }
  return [...pairs.values()];
}

/** Parts of one level to the parts of a coarser one that hold them. */
function upwards(topology, from, to) {
  return new Map(topology[from].map((part, cpu) => [part, topology[to][cpu]]));
}

/** Levels that the tables can be shown at: those with at least two parts, each other than the one before. */
function levelsOf(tables, topology) {
  const finest = Math.max(0, ...tables.map((table) => LEVELS.indexOf(table.level)));
  let last = 0;
  return LEVELS.slice(finest).filter((level) => {
    const size = new Set(topology[level]).size;
    const isNew = size > 1 && size !== last;
    last = size;
    return isNew;
  });
}

/** The picture of a set of scopes, each with a name and its tables. */
function transferMatrix(transfers, topology, scopes) {
  let scope = scopes[0];
  let metric = MATRIX_METRICS[0];
  let level = null;
  const levelBox = h('span');
  const legend = h('div');
  const pickLevel = () => {
    const levels = levelsOf(scope.tables, topology);
    const active = (one) => activeParts(foldedPairs(scope.tables, transfers.fields, one, topology), topology, one).length;
    if (!levels.includes(level)) level = levels.find((one) => active(one) <= 32) || levels[levels.length - 1] || 'package';
    levelBox.replaceChildren(choice('Fold to', levels.map((one) => [one, LEVEL_NAMES[one]]), level, (value) => {
      level = value;
      one.redraw();
    }));
  };
  const pairsNow = () => foldedPairs(scope.tables, transfers.fields, level, topology);
  const draw = (width) => {
    const drawn = drawMatrix({ pairs: pairsNow(), topology, level, metric, scope }, width);
    const unknown = scope.tables.reduce((sum, table) => (
      sum + objects(transfers.unknown_fields, [table.unknown])[0].count), 0);
    legend.replaceChildren(rampLegend(metric[1], drawn.largest, metric[2]),
      unknown > 0 ? h('p', { class: 'legend' }, `${grouped(unknown)} ${unknown === 1 ? 'hand-over has' : 'hand-overs have'} no known giver.`) : '');
    return drawn.svg;
  };
  const table = () => {
    const pairs = pairsNow().sort((a, b) => b[metric[0]] - a[metric[0]]);
    return textTable(`Hand-overs, ${scope.name}`, [['from', false], ['to', false],
      ...MATRIX_METRICS.map(([, , text]) => [text, true])],
    pairs.map((pair) => [`${LEVEL_NAMES[level]} ${pair.giver}`, `${LEVEL_NAMES[level]} ${pair.taker}`,
      ...MATRIX_METRICS.map(([key]) => grouped(pair[key]))]));
  };
  const groups = ['run', 'object', 'line'].map((kind) => ({
    group: { run: 'Run', object: 'Objects', line: 'Lines' }[kind],
    options: scopes.map((one, at) => [one, at]).filter(([one]) => one.kind === kind).map(([one, at]) => [String(at), one.name]),
  })).filter((group) => group.options.length > 0);
  const show = (at) => {
    scope = scopes[at];
    pickLevel();
    one.redraw();
  };
  const controls = [
    scopes.length > 1 ? choice('Of', groups, '0', (value) => show(Number(value))) : null,
    levelBox,
    choice('Colour', MATRIX_METRICS.map(([key, , text]) => [key, text]), metric[0], (value) => {
      metric = MATRIX_METRICS.find(([key]) => key === value);
      one.redraw();
    })];
  const one = figure({
    title: scopes.length > 1 ? 'Who gives lines to whom' : `Who gives it to whom: ${scope.name}`,
    note: 'A row for each part of the machine that had a line, a column for each that took it. Brackets join parts of one larger part.',
    name: `hitm-transfers-${scope.kind}`, draw, table, controls: controls.filter(Boolean),
  });
  pickLevel();
  one.element.querySelector('.canvas').after(legend);
  return one;
}

/** Parts that give or take, in the order of the machine; parts that do neither have no row. */
function activeParts(pairs, topology, level) {
  const used = new Set(pairs.flatMap((pair) => [pair.giver, pair.taker]));
  const order = new Map();
  topology[level].forEach((part, cpu) => {
    if (used.has(part) && !order.has(part)) {
      order.set(part, [topology.package[cpu], topology.node[cpu], topology.llc[cpu], topology.core[cpu], part]);
    }
  });
  const byPlace = (a, b) => {
    const [x, y] = [order.get(a), order.get(b)];
    const at = x.findIndex((number, index) => number !== y[index]);
    return at < 0 ? 0 : x[at] - y[at];
  };
  return [...order.keys()].sort(byPlace);
}

/** Coarser levels with brackets of more than one kind, the coarsest first. */
function bracketLevels(parts, topology, level) {
  const found = [];
  const seen = new Set([parts.join()]);
  for (const coarser of LEVELS.slice(LEVELS.indexOf(level) + 1).reverse()) {
    const up = upwards(topology, level, coarser);
    const groups = parts.map((part) => up.get(part));
    if (new Set(groups).size > 1 && new Set(groups).size < parts.length && !seen.has(groups.join())) {
      seen.add(groups.join());
      found.push([coarser, groups]);
    }
  }
  return found;
}

function drawMatrix({ pairs, topology, level, metric, scope }, width) {
  const parts = activeParts(pairs, topology, level);
  if (parts.length === 0 || parts.length > MATRIX_PARTS_MAX) {
    const text = parts.length === 0 ? 'No line was handed over.' : `${parts.length} parts are too many for a picture: fold further, or read the table.`;
    return { svg: picture(width, 28, text, label(0, 18, text)), largest: 0 };
  }
  const groups = bracketLevels(parts, topology, level);
  const names = parts.map((part) => `${LEVEL_NAMES[level]} ${part}`);
  const margin = 18 * groups.length;
  const left = margin + Math.max(...names.map((text) => widthOf(text, 11))) + 8;
  const top = margin + 20;
  const size = Math.max(7, Math.min(46, (width - left - 2) / parts.length));
  const place = new Map(parts.map((part, at) => [part, at]));
  const largest = Math.max(0, ...pairs.map((pair) => pair[metric[0]]));
  const drawn = groups.map(([coarser, numbers], depth) => groupBrackets(coarser, numbers, { depth, left, top, size }));
  drawn.push(label(left, top - 6, 'to', { 'font-size': 11, fill: plain('--muted') }));
  const step = Math.max(1, Math.ceil(14 / size));
  parts.forEach((part, at) => {
    if (at % step !== 0) return;
    const middle = at * size + size / 2;
    drawn.push(label(left - 6, top + middle + 4, names[at], { 'text-anchor': 'end', 'font-size': 11 }));
    if (size >= 20) drawn.push(label(left + middle, top - 6, part, { 'text-anchor': 'middle', 'font-size': 11 }));
  });
  drawn.push(s('rect', {
    x: left, y: top, width: parts.length * size, height: parts.length * size, fill: plain('--cell'),
  }));
  for (const pair of pairs) {
    drawn.push(matrixCell(pair, metric, largest, {
      x: left + place.get(pair.taker) * size, y: top + place.get(pair.giver) * size, size, level,
    }));
  }
  const svg = picture(width, top + parts.length * size + 4, `${metric[2]} from part to part of the machine, ${scope.name}`, drawn);
  return { svg, largest };
}

function matrixCell(pair, metric, largest, { x, y, size, level }) {
  const value = pair[metric[0]];
  const colours = ramp(metric[1], largest > 0 ? value / largest : 0);
  const text = compact(value);
  const one = LEVEL_NAMES[level];
  const tip = `${one} ${pair.giver} to ${one} ${pair.taker}\n${grouped(pair.count)} hand-overs, ${grouped(pair.hitm_count)} HITM\n`
    + `${grouped(pair.lost_cycles)} cycles lost`;
  const gap = size > 14 ? 1 : 0.5;
  return s('g', { 'data-tip': tip },
    s('rect', { x: x + gap, y: y + gap, width: size - 2 * gap, height: size - 2 * gap, rx: size > 14 ? 2 : 0, fill: colours.fill }),
    widthOf(text, 10.5) <= size - 4
      ? label(x + size / 2, y + size / 2 + 4, text, { 'text-anchor': 'middle', 'font-size': 10.5, fill: colours.ink }) : null);
}

/** Brackets of one level at the top and at the left. */
function groupBrackets(level, numbers, { depth, left, top, size }) {
  const drawn = [];
  for (let from = 0; from < numbers.length;) {
    let to = from;
    while (to + 1 < numbers.length && numbers[to + 1] === numbers[from]) to += 1;
    const [a, b] = [from * size + 2, (to + 1) * size - 2];
    const text = `${LEVEL_NAMES[level]} ${numbers[from]}`;
    const shown = widthOf(text, 10.5) <= b - a ? text : widthOf(String(numbers[from]), 10.5) <= b - a ? String(numbers[from]) : '';
    const middle = (a + b) / 2;
    const y = depth * 18 + 12;
    drawn.push(s('g', { 'data-tip': text },
      s('path', { d: `M${left + a} ${y + 6}V${y + 3}H${left + b}V${y + 6}`, fill: 'none', stroke: plain('--muted') }),
      label(left + middle, y, shown, { 'text-anchor': 'middle', 'font-size': 10.5, fill: plain('--muted') })));
    const x = depth * 18 + 12;
    drawn.push(s('g', { 'data-tip': text },
      s('path', { d: `M${x + 6} ${top + a}H${x + 3}V${top + b}H${x + 6}`, fill: 'none', stroke: plain('--muted') }),
      label(0, 0, shown, {
        'text-anchor': 'middle', 'font-size': 10.5, fill: plain('--muted'), transform: `translate(${x} ${top + middle}) rotate(-90)`,
      })));
    from = to + 1;
  }
  return drawn;
}

// The four pictures of a sweep: a curve with its spread, a map over two keys, boxes, and a front.

const PLOT = { left: 58, top: 30, height: 300 };
const SERIES_HUES = ['--reads', '--hitm', '--locked', '--writes', '--lost', '--muted'];
const SERIES_DASHES = ['', '7 3', '2 3', '9 3 2 3', '4 2', '1 3'];
const MAP_CELLS_MAX = 4000;

/** Mean, ends and quartiles of values. */
function statsOf(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share) => {
    const place = share * (sorted.length - 1);
    const low = Math.floor(place);
    return sorted[low] + (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]) * (place - low);
  };
  return {
    count: sorted.length, mean: sorted.reduce((sum, one) => sum + one, 0) / sorted.length,
    least: sorted[0], most: sorted[sorted.length - 1], low: at(0.25), middle: at(0.5), high: at(0.75),
  };
}

/** What the tip of a group says. */
function statsText(name, stats) {
  return `${name}\nmean ${digits(stats.mean)}, ${digits(stats.least)} to ${digits(stats.most)} in ${grouped(stats.count)} runs`;
}

/** The names of lines above a plot, each with its dash. Returns the height that they take. */
function seriesLegend(names, width) {
  const parts = [];
  let [x, y] = [0, 12];
  names.forEach((name, index) => {
    const text = clipped(name, width - 40, 12);
    const taken = widthOf(text, 12) + 48;
    if (x > 0 && x + taken > width) [x, y] = [0, y + 18];
    parts.push(s('line', { x1: x, x2: x + 24, y1: y - 4, y2: y - 4, 'stroke-width': 2.5, stroke: plain(SERIES_HUES[index]), 'stroke-dasharray': SERIES_DASHES[index] }),
      label(x + 30, y, text));
    x += taken;
  });
  return { parts, height: names.length > 0 ? y + 10 : 0 };
}

/** Published figures beside the points of their lines: hollow, from the least to the largest. */
function drawMarks(marks, series, over, axis) {
  return marks.map((mark) => {
    const index = series.findIndex((one) => one.name === mark.name);
    if (index < 0) return null;
    const [x, top, bottom] = [over.x(mark.at), axis.y(mark.most) - 5, axis.y(mark.least) + 5];
    const middle = (top + bottom) / 2;
    const range = mark.most > mark.least ? `${digits(mark.least)} to ${digits(mark.most)}` : digits(mark.least);
    return s('g', { 'data-tip': `published: ${range}\n${mark.text}` }, s('path', {
      d: `M${x} ${top}L${x + 6} ${middle}L${x} ${bottom}L${x - 6} ${middle}Z`,
      fill: plain('--page'), 'fill-opacity': 0.6, stroke: plain(SERIES_HUES[index]), 'stroke-width': 1.5,
    }));
  });
}

/** Means over a key as a line for each series, with a band from the least to the largest, and published `marks`. */
function drawCurve({ key, series, title, marks }, width) {
  const legend = seriesLegend(series.length > 1 ? series.map((one) => one.name) : [], width);
  const frame = { left: PLOT.left, right: width - 8, top: legend.height + PLOT.top, bottom: legend.height + PLOT.height, title };
  const every = series.flatMap((one) => one.groups.filter(Boolean));
  const ends = [...every.flatMap((stats) => [stats.least, stats.most]), ...marks.flatMap((mark) => [mark.least, mark.most])];
  const axis = verticalAxis(extentOf(ends), frame);
  const over = keyAxis(key, frame);
  const parts = [...legend.parts, ...axis.parts, ...over.parts];
  series.forEach((one, index) => {
    const colour = plain(SERIES_HUES[index]);
    const drawn = one.groups.map((stats, at) => [stats, over.x(at), at]).filter(([stats]) => stats);
    const path = (points) => points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join('L');
    const band = [...drawn.map(([stats, x]) => [x, axis.y(stats.most)]), ...drawn.map(([stats, x]) => [x, axis.y(stats.least)]).reverse()];
    if (drawn.length > 1) {
      parts.push(s('path', { d: `M${path(band)}Z`, fill: colour, 'fill-opacity': 0.14 }),
        s('path', { d: `M${path(drawn.map(([stats, x]) => [x, axis.y(stats.mean)]))}`, fill: 'none', stroke: colour, 'stroke-width': 2, 'stroke-dasharray': SERIES_DASHES[index] }));
    }
    for (const [stats, x, at] of drawn) {
      const name = `${one.name ? `${one.name}, ` : ''}${key.name} ${key.values[at]}`;
      parts.push(s('g', { 'data-tip': statsText(name, stats) }, s('circle', { cx: x, cy: axis.y(stats.mean), r: 3.5, fill: colour })));
    }
  });
  return picture(width, frame.bottom + over.height, title, [...parts, ...drawMarks(marks, series, over, axis)]);
}

/** Means over two keys as colours, the figure in each cell where there is room. */
function drawMap({ across, down, cells, title }, width) {
  if (across.values.length * down.values.length > MAP_CELLS_MAX) {
    const text = 'Too many cells for a picture: choose other keys, or read the table.';
    return picture(width, 28, text, label(0, 18, text));
  }
  const names = down.values.map((value) => (down.is_number ? digits(value) : String(value)));
  const left = Math.min(width * 0.36, Math.max(...names.map((name) => widthOf(name, 11)), widthOf(keyTitle(down), 11)) + 12);
  const height = Math.max(12, Math.min(30, 480 / names.length));
  const bottom = PLOT.top + height * names.length;
  const columns = { ...across, is_number: false, values: across.values.map((value) => (across.is_number ? digits(value) : value)) };
  const over = keyAxis(columns, { left, right: width - 2, bottom });
  const means = cells.filter(Boolean).map((stats) => stats.mean);
  const [low, high] = [Math.min(...means), Math.max(...means)];
  const parts = [...over.parts, label(0, 14, clipped(`${title}, by ${keyTitle(down)}`, width, 12), { fill: plain('--muted') })];
  names.forEach((name, row) => {
    // The largest number stands at the top, the first text does.
    const line = down.is_number ? names.length - 1 - row : row;
    const y = PLOT.top + line * height;
    parts.push(label(left - 6, y + height / 2 + 4, clipped(name, left - 8, 11), { 'text-anchor': 'end', 'font-size': 11 }));
    across.values.forEach((value, column) => {
      const stats = cells[row * across.values.length + column];
      if (!stats) return;
      const colours = tint('reads', 0.06 + 0.86 * (high > low ? (stats.mean - low) / (high - low) : 0.5));
      const fits = (text) => height >= 14 && widthOf(text, 10.5) <= over.step - 4;
      const text = [digits(stats.mean), digits(Number(stats.mean.toPrecision(2)))].find(fits);
      parts.push(s('g', { 'data-tip': statsText(`${across.name} ${value}, ${down.name} ${down.values[row]}`, stats) },
        s('rect', { x: over.x(column) - over.step / 2 + 0.5, y: y + 0.5, width: Math.max(0.5, over.step - 1), height: height - 1, fill: colours.fill }),
        text ? label(over.x(column), y + height / 2 + 4, text, { 'text-anchor': 'middle', 'font-size': 10.5, fill: colours.ink }) : null));
    });
  });
  return picture(width, bottom + over.height, title, parts);
}

/** Boxes from quartile to quartile, whiskers to the ends. */
function drawBoxes({ key, groups, title }, width) {
  const frame = { left: PLOT.left, right: width - 8, top: PLOT.top, bottom: PLOT.height, title };
  const used = groups.filter(Boolean);
  const axis = verticalAxis(extentOf(used.flatMap((stats) => [stats.least, stats.most])), frame);
  const values = key.values.map((value) => (key.is_number ? digits(value) : String(value)));
  const over = keyAxis({ ...key, is_number: false, values }, frame);
  const half = Math.max(1, Math.min(22, over.step * 0.32));
  const parts = [...axis.parts, ...over.parts];
  groups.forEach((stats, at) => {
    if (!stats) return;
    const [x, y] = [over.x(at), axis.y];
    const stroke = plain('--reads');
    parts.push(s('g', { 'data-tip': `${statsText(`${key.name} ${key.values[at]}`, stats)}\nmedian ${digits(stats.middle)}, quartiles ${digits(stats.low)} and ${digits(stats.high)}` },
      s('path', {
        d: `M${x} ${y(stats.least)}V${y(stats.low)}M${x} ${y(stats.high)}V${y(stats.most)}M${x - half / 2} ${y(stats.least)}H${x + half / 2}M${x - half / 2} ${y(stats.most)}H${x + half / 2}`,
        stroke, 'stroke-width': 1.5, fill: 'none',
      }),
      s('rect', { x: x - half, y: y(stats.high), width: 2 * half, height: Math.max(1, y(stats.low) - y(stats.high)), fill: css(mixed(themed('--cell'), themed('--reads'), 0.3)), stroke }),
      s('line', { x1: x - half, x2: x + half, y1: y(stats.middle), y2: y(stats.middle), stroke: plain('--text'), 'stroke-width': 2 })));
  });
  return picture(width, frame.bottom + over.height, title, parts);
}

/** Points of a front: no other point is better in one figure and as good in the other. Signs: 1 where less is better. */
function frontOf(points, [signX, signY]) {
  const order = [...points].sort((a, b) => signX * (a.x - b.x) || signY * (a.y - b.y));
  let best = Infinity;
  return order.filter((point) => {
    if (signY * point.y >= best) return false;
    best = signY * point.y;
    return true;
  });
}

/** One metric against another, a point for each value of a key. */
function drawFront({ points, front, titles }, width) {
  const frame = { left: PLOT.left, right: width - 8, top: PLOT.top, bottom: PLOT.height + 40, title: titles[1] };
  const axis = verticalAxis(extentOf(points.map((point) => point.y)), frame);
  const [low, high] = extentOf(points.map((point) => point.x));
  const x = (value) => frame.left + ((value - low) / (high - low)) * (frame.right - frame.left);
  const parts = [...axis.parts, s('line', { x1: frame.left, x2: frame.right, y1: frame.bottom + 0.5, y2: frame.bottom + 0.5, stroke: plain('--muted') })];
  for (const [tick, text] of ticksOf(low, high, Math.max(2, Math.floor(width / 130)))) {
    parts.push(label(x(tick), frame.bottom + 16, text, { 'text-anchor': x(tick) > frame.right - 24 ? 'end' : 'middle', 'font-size': 11, fill: plain('--muted') }));
  }
  parts.push(label((frame.left + frame.right) / 2, frame.bottom + 36, clipped(titles[0], frame.right - frame.left, 12), { 'text-anchor': 'middle', fill: plain('--muted') }));
  const path = front.map((point) => `${x(point.x).toFixed(1)} ${axis.y(point.y).toFixed(1)}`);
  if (path.length > 1) parts.push(s('path', { d: `M${path.join('L')}`, fill: 'none', stroke: plain('--muted'), 'stroke-dasharray': '4 3' }));
  const taken = [];
  for (const point of points) {
    const [px, py] = [x(point.x), axis.y(point.y)];
    const isOn = front.includes(point);
    parts.push(s('g', { 'data-tip': `${point.name}\n${digits(point.x)}, ${digits(point.y)}${isOn ? '\non the front' : ''}` },
      s('circle', { cx: px, cy: py, r: 5, fill: isOn ? plain('--hitm') : plain('--page'), stroke: plain('--hitm'), 'stroke-width': 1.5 })));
    const isRight = px > (frame.left + frame.right) / 2;
    const room = isRight ? px - frame.left - 12 : frame.right - px - 12;
    const text = clipped(point.name, room, 11);
    if (!text || taken.some(([right, y]) => right === isRight && Math.abs(y - py) < 13)) continue;
    taken.push([isRight, py]);
    parts.push(label(isRight ? px - 9 : px + 9, py + 4, text, { 'text-anchor': isRight ? 'end' : 'start', 'font-size': 11 }));
  }
  return picture(width, frame.bottom + 44, `${titles[1]} against ${titles[0]}`, parts);
}

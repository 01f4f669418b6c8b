// Axes of plots: scales, ticks, and figures with few digits.

/** A figure with four significant digits. */
function digits(value) {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) return value.toExponential(2);
  if (size >= 10000) return `${value < 0 ? '-' : ''}${compact(size)}`;
  const decimals = Math.max(0, Math.min(7, 3 - Math.floor(Math.log10(size))));
  return String(Number(value.toFixed(decimals)));
}

/** Round numbers between two ends, about `count` of them, each as [number, text]. */
function ticksOf(low, high, count) {
  const span = high - low || Math.abs(high) || 1;
  const raw = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw);
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) ticks.push(at * step);
  return ticks.map((tick) => [tick, tickText(tick, step)]);
}

/** A tick with as many digits as tell it from the next one. */
function tickText(tick, step) {
  const size = Math.abs(tick);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return tick.toExponential(2);
  const [suffix, scale] = [['G', 1e9], ['M', 1e6], ['k', 1e3]].find((one) => size >= 10 * one[1]) || ['', 1];
  const decimals = Math.max(0, Math.min(7, Math.ceil(-Math.log10(step / scale) - 1e-9)));
  return `${(tick / scale).toFixed(decimals)}${suffix}`;
}

/** The least and the largest of lists, with a margin. */
function extentOf(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return [0, 1];
  const margin = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
  return [low >= 0 ? Math.max(0, low - margin) : low - margin, high + margin];
}

/** A vertical axis of figures: maps values, and draws rules and texts. */
function verticalAxis([low, high], { left, right, top, bottom, title }) {
  const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
  const parts = [label(left, top - 10, clipped(title, right - left, 12), { 'font-size': 12, fill: plain('--muted') })];
  for (const [tick, text] of ticksOf(low, high, Math.max(2, Math.floor((bottom - top) / 48)))) {
    parts.push(s('line', { x1: left, x2: right, y1: y(tick), y2: y(tick), stroke: plain('--rule') }),
      label(left - 6, y(tick) + 4, text, { 'text-anchor': 'end', 'font-size': 11, fill: plain('--muted') }));
  }
  return { y, parts };
}

/** A horizontal axis over a key: by number where it has numbers, else one place for each value. */
function keyAxis(key, { left, right, bottom }) {
  const numbers = key.values;
  const isByNumber = key.is_number && numbers.length > 1;
  const [first, last] = [numbers[0], numbers[numbers.length - 1]];
  const isLog = isByNumber && first > 0 && last / first >= 20;
  const of = (value) => (isLog ? Math.log(value / first) / Math.log(last / first) : (value - first) / (last - first));
  const inset = isByNumber ? 8 : 0;
  const room = right - left - 2 * inset;
  const step = room / numbers.length;
  const x = (index) => left + inset + (isByNumber ? of(numbers[index]) * room : (index + 0.5) * step);
  const parts = [s('line', { x1: left, x2: right, y1: bottom + 0.5, y2: bottom + 0.5, stroke: plain('--muted') })];
  const name = isLog ? `${keyTitle(key)}, logarithmic` : keyTitle(key);
  const isTilted = !isByNumber && numbers.some((value) => widthOf(String(value), 11) > step - 6);
  parts.push(isTilted ? tiltedTexts(key, x, bottom, step) : levelTexts(key, x, bottom));
  const height = isTilted ? Math.min(180, 22 + Math.max(...numbers.map((value) => widthOf(String(value), 11)))) : 20;
  parts.push(label((left + right) / 2, bottom + height + 14, name, { 'text-anchor': 'middle', fill: plain('--muted') }));
  return { x, step, parts, height: height + 22, isByNumber };
}

/** Texts side by side; those without room are left out. */
function levelTexts(key, x, bottom) {
  let end = -Infinity;
  return key.values.map((value, index) => {
    const text = key.is_number ? digits(value) : String(value);
    const half = widthOf(text, 11) / 2;
    if (x(index) - half < end + 6) return null;
    end = x(index) + half;
    return label(x(index), bottom + 15, text, { 'text-anchor': 'middle', 'font-size': 11, fill: plain('--muted') });
  });
}

/** Long texts upright, each below its place. */
function tiltedTexts(key, x, bottom, step) {
  const every = Math.max(1, Math.ceil(13 / step));
  return key.values.map((value, index) => (index % every !== 0 ? null : s('g', { 'data-tip': String(value) },
    label(0, 0, clipped(String(value), 158, 11), {
      'text-anchor': 'end', 'font-size': 11, fill: plain('--muted'), transform: `translate(${x(index) + 4} ${bottom + 8}) rotate(-90)`,
    }))));
}

/** A key with its unit. */
function keyTitle(key) {
  return key.unit ? `${key.name} (${key.unit})` : key.name;
}

/** A metric with its unit. */
function metricTitle(metric) {
  return metric.unit ? `${metric.id} (${metric.unit})` : metric.id;
}

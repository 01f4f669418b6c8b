// Lost cycles over virtual time, and the window that other pictures show.

const TIME = { height: 96, scale: 20, left: 46 };

/** Cycles of each bucket: sums over stacks. */
function bucketSums(times, count) {
  const sums = new Array(count).fill(0);
  for (const one of times) for (const [bucket, lost] of one) sums[bucket] += lost;
  return sums;
}

/** Cycles of a stack within a window of buckets, both ends in it. */
function lostWithin(times, [from, to]) {
  let sum = 0;
  for (const [bucket, lost] of times) if (bucket >= from && bucket <= to) sum += lost;
  return sum;
}

/** The picture. `onWindow` gets [first, last] bucket, or null for the whole run. */
function timeAxis({ times, count, bucketCycles, clockKhz }, onWindow) {
  const sums = bucketSums(times, count);
  const first = Math.max(0, sums.findIndex((lost) => lost > 0));
  let window = [first, count - 1];
  let highlighted = null;
  const nanosOf = (bucket) => (bucket * bucketCycles * 1e6) / clockKhz;
  const status = h('p', { class: 'legend', 'aria-live': 'polite' });
  const slider = (title, at) => {
    const id = freshId('range');
    const input = h('input', {
      id, type: 'range', min: first, max: count - 1, step: 1, value: window[at],
      input: () => {
        const next = [...window];
        next[at] = Number(input.value);
        setWindow(at === 0 ? [Math.min(next[0], next[1]), next[1]] : [next[0], Math.max(next[0], next[1])]);
      },
    });
    return [h('span', { class: 'choice' }, h('label', { for: id }, title), input), input];
  };
  const [fromBox, fromInput] = slider('From', 0);
  const [toBox, toInput] = slider('To', 1);
  const reset = h('button', { type: 'button', class: 'quiet', click: () => setWindow([first, count - 1]) }, 'Whole run');
  const setWindow = (next) => {
    window = next;
    [fromInput.value, toInput.value] = window;
    const isWhole = window[0] === first && window[1] === count - 1;
    const lost = sums.slice(window[0], window[1] + 1).reduce((sum, one) => sum + one, 0);
    status.replaceChildren(`${timeText(nanosOf(window[0]))} to ${timeText(nanosOf(window[1] + 1))}: ${grouped(lost)} cycles lost`
      + `${isWhole ? ', the whole run' : '. Lines and stacks below are those of this window.'}`);
    one.redraw();
    onWindow(isWhole ? null : window);
  };
  const draw = (width) => drawTime({ sums, first, window, highlighted, nanosOf, setWindow, bucketCycles }, width);
  const table = () => textTable('Lost cycles over virtual time', [['from', true], ['lost cycles', true]],
    sums.map((lost, bucket) => [bucket, lost]).filter(([bucket]) => bucket >= first)
      .map(([bucket, lost]) => [timeText(nanosOf(bucket)), grouped(lost)]));
  const one = figure({
    title: 'When cycles are lost', name: 'hitm-time', draw, table, controls: [fromBox, toBox, reset],
    note: `Virtual time from left to right, a bar for each ${timeText(nanosOf(1))}. Drag over the bars, or move the two sliders, to look at a part.`,
  });
  one.element.querySelector('.canvas').after(status);
  one.highlight = (ofLine) => {
    highlighted = ofLine && bucketSums(ofLine, count);
    one.redraw();
  };
  setWindow(window);
  return one;
}

function drawTime({ sums, first, window, highlighted, nanosOf, setWindow }, width) {
  const count = sums.length - first;
  const unit = (width - TIME.left) / count;
  const largest = Math.max(1, ...sums);
  const x = (bucket) => TIME.left + (bucket - first) * unit;
  const y = (lost) => TIME.height - (lost / largest) * (TIME.height - 8);
  const parts = [
    s('line', { x1: TIME.left, x2: width, y1: TIME.height + 0.5, y2: TIME.height + 0.5, stroke: plain('--muted') }),
    label(TIME.left - 6, 14, compact(largest), { 'text-anchor': 'end', 'font-size': 11, fill: plain('--muted') }),
    label(TIME.left - 6, TIME.height, '0', { 'text-anchor': 'end', 'font-size': 11, fill: plain('--muted') })];
  sums.forEach((lost, bucket) => {
    if (bucket < first || lost === 0) return;
    const isIn = bucket >= window[0] && bucket <= window[1];
    const tip = `${timeText(nanosOf(bucket))}: ${grouped(lost)} cycles lost`;
    const bar = (value, fill) => s('rect', {
      x: x(bucket), y: y(value), width: Math.max(0.6, unit - (unit > 3 ? 1 : 0)), height: TIME.height - y(value), fill,
    });
    const base = isIn ? (highlighted ? mixed(themed('--cell'), themed('--lost'), 0.35) : themed('--lost')) : mixed(themed('--cell'), themed('--muted'), 0.35);
    parts.push(s('g', { 'data-tip': tip }, bar(lost, css(base)),
      highlighted && highlighted[bucket] > 0 ? bar(highlighted[bucket], isIn ? plain('--lost') : plain('--muted')) : null));
  });
  const ticks = Math.max(2, Math.min(8, Math.floor(width / 110)));
  for (let tick = 0; tick <= ticks; tick += 1) {
    const bucket = first + (count * tick) / ticks;
    const anchor = tick === 0 ? 'start' : tick === ticks ? 'end' : 'middle';
    parts.push(label(x(bucket), TIME.height + 15, timeText(nanosOf(bucket)), { 'text-anchor': anchor, 'font-size': 11, fill: plain('--muted') }));
  }
  const [a, b] = [x(window[0]), x(window[1] + 1)];
  parts.push(s('path', { d: `M${a} 2V${TIME.height}M${b - 1} 2V${TIME.height}`, stroke: plain('--accent'), 'stroke-width': 2 }));
  const svg = picture(width, TIME.height + TIME.scale, 'Lost cycles over virtual time', parts);
  installBrush(svg, { x, unit, first, count, setWindow });
  return svg;
}

/** Dragging over the bars makes a window. The picture is drawn anew while it goes on, so the page listens. */
function installBrush(svg, { unit, first, count, setWindow }) {
  svg.setAttribute('class', 'brush');
  svg.addEventListener('pointerdown', (event) => {
    event.preventDefault();
    const left = svg.getBoundingClientRect().left + TIME.left;
    const bucketAt = (clientX) => Math.max(first, Math.min(first + count - 1, first + Math.floor((clientX - left) / unit)));
    const start = bucketAt(event.clientX);
    const move = (one) => {
      const now = bucketAt(one.clientX);
      setWindow([Math.min(start, now), Math.max(start, now)]);
    };
    const stop = () => {
      document.removeEventListener('pointermove', move);
      document.removeEventListener('pointerup', stop);
    };
    document.addEventListener('pointermove', move);
    document.addEventListener('pointerup', stop);
  });
}

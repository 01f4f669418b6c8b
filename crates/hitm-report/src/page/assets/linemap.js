// The bytes of a line: a box for each member, a row for each thread, coloured by what the thread does.

const CELL_METRICS = [
  ['hitm', 'HITM', (cell) => cell.hitm_count],
  ['reads', 'reads', (cell) => cell.load_count],
  ['writes', 'writes', (cell) => cell.store_count],
  ['locked', 'locked operations', (cell) => cell.locked_count],
  ['lost', 'lost cycles', (cell) => cell.lost_cycles],
];

const MAP = { seatHeight: 26, boxHeight: 30, bracketHeight: 20, scaleHeight: 18, small: 11 };

/** Letters for what was done: a reader needs no colour to tell. */
function cellLetters(cell) {
  return [[cell.load_count, 'R'], [cell.store_count, 'W'], [cell.locked_count, 'L']]
    .filter(([count]) => count > 0).map(([, letter]) => letter).join('');
}

function boxName(box) {
  return `${box.object || ''}${box.member || ''}` || `without a name, +${box.offset}`;
}

function seatName(seat) {
  return seat.name || `${seat.thread_count} more threads`;
}

/** The picture of one line. */
function lineMap(title, fields, map, name) {
  const boxes = objects(fields.boxes, map.boxes);
  const seats = objects(fields.seats, map.seats);
  const cells = objects(fields.cells, map.cells);
  let metric = CELL_METRICS.find(([, , of]) => cells.some((cell) => of(cell) > 0)) || CELL_METRICS[1];
  const legend = h('div');
  const draw = (width) => {
    const drawn = drawLineMap({ boxes, seats, cells, metric, title }, width);
    legend.replaceChildren(rampLegend(metric[0], drawn.largest, metric[1]),
      h('p', { class: 'legend' }, meaningOf('R, W, L')));
    return drawn.svg;
  };
  const table = () => textTable(`${title}: accesses by thread and member`,
    [['thread', false], ['CPUs', false], ['offset', true], ['member', false], ['reads', true], ['writes', true],
      ['locked', true], ['HITM', true], ['lost cycles', true]],
    cells.map((cell) => {
      const [seat, box] = [seats[cell.seat], boxes[cell.place]];
      const counts = [cell.load_count, cell.store_count, cell.locked_count, cell.hitm_count, cell.lost_cycles];
      return [seatName(seat), ranges(seat.cpus), `0x${box.offset.toString(16)}`, boxName(box), ...counts.map(grouped)];
    }));
  const pick = choice('Colour', CELL_METRICS.map(([key, text]) => [key, text]), metric[0], (key) => {
    metric = CELL_METRICS.find(([one]) => one === key);
    one.redraw();
  });
  const one = figure({
    title, name, draw, table, controls: [pick],
    note: meaningOf('line map'),
  });
  one.element.querySelector('.canvas').after(legend);
  return one;
}

/** A thread with its CPUs where they fit; else its name, from its number on where that is all that fits. */
function seatLabel(name, withCpus, width) {
  if (widthOf(withCpus, 12) <= width) return withCpus;
  return shortened(name, width, 12) || clipped(name, width, 12);
}

function drawLineMap({ boxes, seats, cells, metric, title }, width) {
  const labels = seats.map((seat) => `${seatName(seat)}${seat.cpus.length ? ` · CPU ${ranges(seat.cpus)}` : ''}`);
  const widest = Math.max(...labels.map((text) => widthOf(text, 12)), 40);
  const left = Math.min(widest + 12, Math.max(84, width * 0.26));
  const unit = (width - left - 1) / 64;
  const x = (byte) => left + byte * unit;
  const top = MAP.bracketHeight + MAP.boxHeight;
  const first = top + MAP.scaleHeight;
  const numbered = [];
  const parts = [brackets(boxes, x), scale(x, top)];
  boxes.forEach((box) => {
    const fits = drawBox(parts, box, x, unit, numbered.length + 1);
    if (!fits) numbered.push(`${boxName(box)}, byte ${box.offset}`);
  });
  const largest = Math.max(0, ...cells.map(metric[2]));
  seats.forEach((seat, row) => {
    const y = first + row * MAP.seatHeight;
    const text = seatLabel(seatName(seat), labels[row], left - 10);
    parts.push(s('g', { 'data-tip': `${labels[row]}\n${grouped(seat.lost_cycles)} cycles lost` },
      label(0, y + 17, text)));
    parts.push(s('line', {
      x1: left, x2: x(64), y1: y + MAP.seatHeight - 1, y2: y + MAP.seatHeight - 1, stroke: plain('--rule'),
    }));
  });
  cells.forEach((cell) => parts.push(drawCell(cell, boxes[cell.place], {
    x, y: first + cell.seat * MAP.seatHeight, metric, largest, seat: labels[cell.seat],
  })));
  const end = first + seats.length * MAP.seatHeight + 2;
  numbered.forEach((text, row) => {
    const shown = shortened(text, width - 24, MAP.small, MONO) || clipped(text, width - 24, MAP.small, MONO);
    parts.push(s('g', { 'data-tip': text }, label(0, end + row * 17 + 14, row + 1, { 'font-size': MAP.small }),
      label(22, end + row * 17 + 14, shown, { 'font-size': MAP.small, 'font-family': MONO })));
  });
  const height = end + (numbered.length > 0 ? numbered.length * 17 + 4 : 0);
  return { svg: picture(width, height, `${title}: ${metric[1]} of each thread by member`, parts), largest };
}

/** A name over all boxes of one object. */
function brackets(boxes, x) {
  const runs = [];
  for (const box of boxes) {
    const last = runs[runs.length - 1];
    const end = box.offset + box.size_bytes;
    if (last && last.object === box.object && last.end === box.offset) last.end = end;
    else if (box.object) runs.push({ object: box.object, from: box.offset, end });
  }
  return runs.map(({ object, from, end }) => {
    const [a, b] = [x(from) + 1, x(end) - 1];
    const text = clipped(object, b - a, 12, MONO);
    return s('g', { 'data-tip': object },
      s('path', { d: `M${a} 20V17H${b}V20`, fill: 'none', stroke: plain('--muted') }),
      label((a + b) / 2, 12, text, { 'text-anchor': 'middle', 'font-family': MONO }));
  });
}

/** Offsets under the boxes. */
function scale(x, y) {
  const step = x(8) - x(0) < 26 ? 16 : 8;
  const marks = [];
  for (let byte = 0; byte <= 64; byte += step) {
    const anchor = byte === 64 ? 'end' : byte === 0 ? 'start' : 'middle';
    marks.push(label(x(byte), y + 13, byte, {
      'font-size': MAP.small, 'text-anchor': anchor, fill: plain('--muted'),
    }));
  }
  return marks;
}

/** Draws a member's box; false when it has a number in the place of its name. */
function drawBox(parts, box, x, unit, number) {
  const [a, width] = [x(box.offset), box.size_bytes * unit];
  const named = (box.member || box.object || '').replace(/^\./, '');
  const own = named || (box.is_accessed ? `+${box.offset}` : '');
  const text = own && shortened(own, width - 6, MAP.small, MONO);
  const tip = `${boxName(box)}\nbytes ${box.offset} to ${box.offset + box.size_bytes - 1}${box.is_accessed ? '' : ', not accessed'}`;
  const isEmpty = own === '' && !box.is_accessed;
  parts.push(s('g', { 'data-tip': tip },
    s('rect', {
      x: a + 0.5, y: MAP.bracketHeight + 2.5, width: Math.max(1, width - 1), height: MAP.boxHeight - 5, rx: 2,
      fill: box.is_accessed ? plain('--box') : plain('--page'), stroke: plain('--muted'),
      'stroke-dasharray': box.is_accessed ? null : '2 2',
    }),
    isEmpty ? null : label(a + width / 2, MAP.bracketHeight + 19, text || (box.is_accessed && named ? number : ''), {
      'text-anchor': 'middle', 'font-size': MAP.small, 'font-family': text ? MONO : SANS,
      fill: box.is_accessed ? plain('--text') : plain('--muted'),
    })));
  return isEmpty || named === '' || Boolean(text) || !box.is_accessed;
}

function drawCell(cell, box, { x, y, metric, largest, seat }) {
  const value = metric[2](cell);
  const colours = ramp(metric[0], largest > 0 ? value / largest : 0);
  const [a, b] = [x(box.offset), x(box.offset + box.size_bytes)];
  const letters = cellLetters(cell);
  const texts = [[`${letters} ${compact(value)}`, MAP.small], [letters, MAP.small], [letters, 8]];
  const [text, size] = texts.find(([one, height]) => widthOf(one, height) <= b - a - 2) || ['', 8];
  const tip = `${seat}\n${boxName(box)}\nreads ${grouped(cell.load_count)}, writes ${grouped(cell.store_count)}, `
    + `locked ${grouped(cell.locked_count)}\nHITM ${grouped(cell.hitm_count)}, lost cycles ${grouped(cell.lost_cycles)}`;
  return s('g', { 'data-tip': tip },
    s('rect', { x: a + 0.5, y: y + 2, width: Math.max(1, b - a - 1), height: MAP.seatHeight - 5, rx: 2, fill: colours.fill }),
    label((a + b) / 2, y + 17, text, { 'text-anchor': 'middle', 'font-size': size, fill: colours.ink }));
}

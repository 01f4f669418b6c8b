// The bytes of a line: a box for each member, a row for each thread, coloured by what the thread does.

const CELL_METRICS = [
  ['lost', 'lost cycles', (cell) => cell.lost_cycles],
  ['hitm', 'HITM', (cell) => cell.hitm_count],
  ['reads', 'reads', (cell) => cell.load_count],
  ['writes', 'writes', (cell) => cell.store_count],
  ['locked', 'locked operations', (cell) => cell.locked_count],
];

const MAP = { seatHeight: 26, boxHeight: 30, bracketHeight: 20, scaleHeight: 18, small: 11, seatsMax: 8, columnMin: 92 };

/** What maps of a report need: the fields of their parts, and the cycles of all threads, 0 where they are unknown. */
function mapContext({ report, pictures }) {
  const totals = objects(report.totals.fields, report.totals.rows)[0];
  return {
    fields: { boxes: pictures.box_fields, seats: pictures.seat_fields, cells: pictures.cell_fields },
    whole: report.is_sampled ? 0 : totals.thread_cycles || 0,
    isSampled: report.is_sampled,
  };
}

/** A map of the data as objects. `bytes` is its width; `columns` are the lines of a map of several. */
function readMap({ fields }, map) {
  return {
    boxes: objects(fields.boxes, map.boxes), seats: objects(fields.seats, map.seats), cells: objects(fields.cells, map.cells),
    bytes: 64, columns: [],
  };
}

/** Several lines side by side as one map: threads of one name share a row. */
function joinedMaps(context, lines) {
  const joined = { boxes: [], seats: [], cells: [], bytes: 64 * lines.length, columns: [] };
  const seatOf = new Map();
  lines.forEach(({ line, map }, at) => {
    const own = readMap(context, map);
    const first = joined.boxes.length;
    joined.boxes.push(...own.boxes.map((box) => ({ ...box, offset: box.offset + 64 * at })));
    const seats = own.seats.map((seat) => {
      if (!seatOf.has(seat.name)) seatOf.set(seat.name, joined.seats.push({ ...seat, thread_count: 0, cpus: [], lost_cycles: 0 }) - 1);
      const place = seatOf.get(seat.name);
      const sum = joined.seats[place];
      sum.thread_count = Math.max(sum.thread_count, seat.thread_count);
      sum.cpus = united(sum.cpus, seat.cpus);
      sum.lost_cycles += seat.lost_cycles;
      return place;
    });
    joined.cells.push(...own.cells.map((cell) => ({ ...cell, seat: seats[cell.seat], place: first + cell.place })));
    joined.columns.push({ at: 64 * at, name: columnName(own.boxes, line) });
  });
  return sortedSeats(joined);
}

/** The elements of an array that a line has, or its address. */
function columnName(boxes, line) {
  const elements = boxes.filter((box) => box.is_accessed).map(elementOf).filter(Boolean);
  const [first, last] = [elements[0], elements[elements.length - 1]];
  if (!first) return line.address;
  return first === last ? first : `${first} to ${last}`;
}

/** The element of an array that a box is in: `[3]`. */
function elementOf(box) {
  const match = boxName(box).match(/\[\d+\]/);
  return match ? match[0] : '';
}

function united(some, others) {
  return [...new Set([...some, ...others])].sort((a, b) => a - b);
}

/** The same map with the rows that lost most first; threads that share a row stand last. */
function sortedSeats(map) {
  const order = map.seats.map((seat, at) => at).sort((a, b) => (
    (map.seats[a].name === null) - (map.seats[b].name === null) || map.seats[b].lost_cycles - map.seats[a].lost_cycles || a - b));
  const places = new Map(order.map((from, to) => [from, to]));
  return { ...map, seats: order.map((at) => map.seats[at]), cells: map.cells.map((cell) => ({ ...cell, seat: places.get(cell.seat) })) };
}

/** The same map with a row for all threads beyond the first ones together. */
function foldedSeats(map) {
  if (map.seats.length <= MAP.seatsMax + 1) return map;
  const others = map.seats.slice(MAP.seatsMax);
  const sum = (of) => others.reduce((all, seat) => all + of(seat), 0);
  const together = {
    name: null, thread_count: sum((seat) => seat.thread_count), lost_cycles: sum((seat) => seat.lost_cycles),
    cpus: others.reduce((all, seat) => united(all, seat.cpus), []),
  };
  const merged = new Map();
  for (const cell of map.cells.filter((one) => one.seat >= MAP.seatsMax)) {
    const known = merged.get(cell.place) || { seat: MAP.seatsMax, place: cell.place };
    for (const key of Object.keys(cell)) if (key !== 'seat' && key !== 'place') known[key] = (known[key] || 0) + cell[key];
    merged.set(cell.place, known);
  }
  return {
    ...map, seats: [...map.seats.slice(0, MAP.seatsMax), together],
    cells: [...map.cells.filter((cell) => cell.seat < MAP.seatsMax), ...merged.values()],
  };
}

/** Letters for what was done: a reader needs no colour to tell. */
function cellLetters(cell) {
  return [[cell.load_count, 'R'], [cell.store_count, 'W'], [cell.locked_count, 'L']]
    .filter(([count]) => count > 0).map(([, letter]) => letter).join('');
}

function boxName(box) {
  return `${box.object || ''}${box.member || ''}` || `without a name, +${box.offset % 64}`;
}

function seatName(seat) {
  return seat.name || `${seat.thread_count} more threads`;
}

/** A figure of a metric: lost cycles as a part of the run where that is known. */
function cellFigure(metric, value, whole) {
  if (metric[0] !== 'lost' || whole === 0) return compact(value);
  const share = (value / whole) * 100;
  return `${share.toFixed(share >= 0.095 || value === 0 ? 1 : 2)}%`;
}

/** The picture of one line, or of several side by side. */
function lineMap({ title, name, note, map, context }) {
  const folded = foldedSeats(map);
  const canUnfold = folded !== map;
  const order = context.isSampled ? ['hitm', 'reads', 'writes'] : CELL_METRICS.map(([key]) => key);
  const has = ([, , of]) => map.cells.some((cell) => of(cell) > 0);
  let metric = order.map((key) => CELL_METRICS.find(([one]) => one === key)).find(has) || CELL_METRICS[2];
  let shown = folded;
  const legend = h('div');
  const draw = (width) => {
    const drawn = drawLineMap({ ...shown, metric, title, whole: context.whole }, width);
    const unit = metric[0] === 'lost' && context.whole > 0 ? 'of the run lost' : metric[1];
    legend.replaceChildren(rampLegend(metric[0], cellFigure(metric, drawn.largest, context.whole), unit),
      h('p', { class: 'legend' }, meaningOf('R, W, L')));
    return drawn.svg;
  };
  const table = () => textTable(`${title}: accesses by thread and member`,
    [['thread', false], ['CPUs', false], ['offset', true], ['member', false], ['reads', true], ['writes', true],
      ['locked', true], ['HITM', true], ['lost cycles', true]],
    map.cells.map((cell) => {
      const [seat, box] = [map.seats[cell.seat], map.boxes[cell.place]];
      const counts = [cell.load_count, cell.store_count, cell.locked_count, cell.hitm_count, cell.lost_cycles];
      return [seatName(seat), ranges(seat.cpus), `0x${box.offset.toString(16)}`, boxName(box), ...counts.map(grouped)];
    }));
  const pick = choice('Colour', CELL_METRICS.map(([key, text]) => [key, text]), metric[0], (key) => {
    metric = CELL_METRICS.find(([one]) => one === key);
    one.redraw();
  });
  const unfold = h('button', {
    type: 'button', class: 'quiet', 'aria-pressed': 'false',
    click: () => {
      shown = shown === map ? folded : map;
      unfold.setAttribute('aria-pressed', String(shown === map));
      one.redraw();
    },
  }, 'All threads');
  const one = figure({ title, name, draw, table, controls: [pick, canUnfold ? unfold : null], note });
  one.element.querySelector('.canvas').after(legend);
  return one;
}

/** The picture of one line of a report. */
function mapOfLine(data, line, at) {
  const context = mapContext(data);
  return lineMap({
    title: `Line ${line.rank}: ${line.name}`, name: `hitm-line-${line.rank}`, context, map: readMap(context, data.pictures.maps[at]),
    note: 'The 64 bytes of the line from left to right, a row for each thread, the one that lost most first.',
  });
}

/** A thread with its CPUs where they fit; else its name, from its number on where that is all that fits. */
function seatLabel(name, withCpus, width) {
  if (widthOf(withCpus, 12) <= width) return withCpus;
  return shortened(name, width, 12) || clipped(name, width, 12);
}

function drawLineMap({ boxes, seats, cells, bytes, columns, metric, title, whole }, room) {
  const labels = seats.map((seat) => `${seatName(seat)}${seat.cpus.length ? ` · CPU ${ranges(seat.cpus)}` : ''}`);
  const widest = Math.max(...labels.map((text) => widthOf(text, 12)), 40);
  const left = Math.min(widest + 12, Math.max(84, room * 0.26));
  const width = Math.max(room, left + columns.length * MAP.columnMin);
  const unit = (width - left - 1) / bytes;
  const x = (byte) => left + byte * unit;
  const top = MAP.bracketHeight + MAP.boxHeight;
  const first = top + MAP.scaleHeight;
  const end = first + seats.length * MAP.seatHeight + 2;
  const numbered = [];
  const parts = [brackets(boxes, x), columns.length > 0 ? columnMarks(columns, x, { top, end }) : scale(x, top)];
  const elements = columns.length > 0 ? [] : boxes.map(elementOf);
  boxes.forEach((box) => {
    const fits = drawBox(parts, box, { x, unit, number: numbered.length + 1, elements, isOfMany: columns.length > 0 });
    if (!fits) numbered.push(`${boxName(box)}, byte ${box.offset}`);
  });
  const ofOne = cells.filter((cell) => seats[cell.seat].name !== null);
  const largest = Math.max(0, ...(ofOne.length > 0 ? ofOne : cells).map(metric[2]));
  seats.forEach((seat, row) => {
    const y = first + row * MAP.seatHeight;
    const text = seatLabel(seatName(seat), labels[row], left - 10);
    parts.push(s('g', { 'data-tip': `${labels[row]}\n${grouped(seat.lost_cycles)} cycles lost` },
      label(0, y + 17, text)));
    parts.push(s('line', {
      x1: left, x2: x(bytes), y1: y + MAP.seatHeight - 1, y2: y + MAP.seatHeight - 1, stroke: plain('--rule'),
    }));
  });
  cells.forEach((cell) => parts.push(drawCell(cell, boxes[cell.place], {
    x, y: first + cell.seat * MAP.seatHeight, metric, largest, whole, seat: labels[cell.seat],
  })));
  numbered.forEach((text, row) => {
    const shown = shortened(text, width - 24, MAP.small, MONO) || clipped(text, width - 24, MAP.small, MONO);
    parts.push(s('g', { 'data-tip': text }, label(0, end + row * 17 + 14, row + 1, { 'font-size': MAP.small }),
      label(22, end + row * 17 + 14, shown, { 'font-size': MAP.small, 'font-family': MONO })));
  });
  const height = end + (numbered.length > 0 ? numbered.length * 17 + 4 : 0);
  return { svg: picture(width, height, `${title}: ${metric[1]} of each thread by member`, parts), largest };
}

/** Names of the lines side by side, and rules between them. */
function columnMarks(columns, x, { top, end }) {
  const room = x(64) - x(0) - 6;
  return columns.map(({ at, name }) => [
    at === 0 ? null : s('line', { x1: x(at), x2: x(at), y1: MAP.bracketHeight - 4, y2: end, stroke: plain('--muted') }),
    s('g', { 'data-tip': name }, label((x(at) + x(at + 64)) / 2, top + 13,
      shortened(name, room, MAP.small) || clipped(name, room, MAP.small),
      { 'font-size': MAP.small, 'text-anchor': 'middle', fill: plain('--muted') }))]);
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

/** The element of an array as the name of the only box that it has, in brackets where they fit. */
function elementText(box, width, elements) {
  const element = elementOf(box);
  if (!element || elements.filter((one) => one === element).length > 1) return null;
  return [element, element.slice(1, -1)].find((text) => widthOf(text, MAP.small, MONO) <= width);
}

/** Draws a member's box; false when it has a number in the place of its name. Of many lines none has a number. */
function drawBox(parts, box, { x, unit, number, elements, isOfMany }) {
  const [a, width] = [x(box.offset), box.size_bytes * unit];
  const named = (box.member || box.object || '').replace(/^\./, '');
  const own = named || (box.is_accessed ? `+${box.offset % 64}` : '');
  const text = own && (shortened(own, width - 6, MAP.small, MONO) || elementText(box, width - 2, elements));
  const tip = `${boxName(box)}\nbytes ${box.offset % 64} to ${(box.offset % 64) + box.size_bytes - 1}${box.is_accessed ? '' : ', not accessed'}`;
  const isEmpty = own === '' && !box.is_accessed;
  const isNumbered = box.is_accessed && named && !isOfMany;
  parts.push(s('g', { 'data-tip': tip },
    s('rect', {
      x: a + 0.5, y: MAP.bracketHeight + 2.5, width: Math.max(1, width - 1), height: MAP.boxHeight - 5, rx: 2,
      fill: box.is_accessed ? plain('--box') : plain('--page'), stroke: plain('--muted'),
      'stroke-dasharray': box.is_accessed ? null : '2 2',
    }),
    isEmpty ? null : label(a + width / 2, MAP.bracketHeight + 19, text || (isNumbered ? number : ''), {
      'text-anchor': 'middle', 'font-size': MAP.small, 'font-family': text ? MONO : SANS,
      fill: box.is_accessed ? plain('--text') : plain('--muted'),
    })));
  return isEmpty || Boolean(text) || !isNumbered;
}

function drawCell(cell, box, { x, y, metric, largest, whole, seat }) {
  const value = metric[2](cell);
  const colours = ramp(metric[0], largest > 0 ? value / largest : 0);
  const [a, b] = [x(box.offset), x(box.offset + box.size_bytes)];
  const letters = cellLetters(cell);
  const full = value > 0 ? `${letters} ${cellFigure(metric, value, whole)}` : letters;
  const texts = [[full, MAP.small], [letters, MAP.small], [letters, 8]];
  const [text, size] = texts.find(([one, height]) => widthOf(one, height) <= b - a - 2) || ['', 8];
  const ofRun = whole > 0 ? `, ${cellFigure(CELL_METRICS[0], cell.lost_cycles, whole)} of the run` : '';
  const tip = `${seat}\n${boxName(box)}\nreads ${grouped(cell.load_count)}, writes ${grouped(cell.store_count)}, `
    + `locked ${grouped(cell.locked_count)}\nHITM ${grouped(cell.hitm_count)}, lost cycles ${grouped(cell.lost_cycles)}${ofRun}`;
  return s('g', { 'data-tip': tip },
    s('rect', { x: a + 0.5, y: y + 2, width: Math.max(1, b - a - 1), height: MAP.seatHeight - 5, rx: 2, fill: colours.fill }),
    label((a + b) / 2, y + 17, text, { 'text-anchor': 'middle', 'font-size': size, fill: colours.ink }));
}

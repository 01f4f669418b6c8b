// A structure as it is and as it is advised, line by line, with the cost of each line.

const LAYOUT = { rowHeight: 40, namesHeight: 16, labelWidth: 44, costWidth: 104, head: 24, linesMax: 16 };

/** The pictures of an advice, and its reasons. */
function layoutAdvice(advice, name) {
  const best = advice.candidates[0];
  if (!best) return h('p', null, `${advice.type}: ${advice.none}`);
  const title = `Layout of ${advice.type}: now and advised`;
  const sides = [
    { title: 'now', members: advice.now.members, size: advice.now.size_bytes, weighed: advice.original },
    { title: 'advised', members: best.members, size: best.size_bytes, weighed: best.weighed },
  ];
  return h('div', null,
    layoutFigure(title, name, () => sides, best.words).element,
    h('ul', { class: 'reasons' }, best.moves.map((move) => h('li', null, `${move.reason}.`))));
}

/** Two layouts of one structure beside each other, or one below the other where there is no room. */
function layoutFigure(title, name, sidesOf, note, controls) {
  const draw = (width) => {
    const sides = sidesOf();
    const before = offsets(sides[0]);
    const isWide = width >= 720;
    const each = isWide ? (width - 32) / 2 : width;
    const largest = Math.max(1, ...sides.flatMap((side) => [...lineCosts(side).values()].map((cost) => cost.cycles)));
    const drawn = sides.map((side) => drawLayout(side, before, each, largest));
    const second = isWide ? [each + 32, 0] : [0, drawn[0].height + 16];
    const height = isWide ? Math.max(drawn[0].height, drawn[1].height) : drawn[0].height + 16 + drawn[1].height;
    return picture(width, height, `${title}. ${note || ''}`, [
      drawn[0].parts, s('g', { transform: `translate(${second.join(' ')})` }, drawn[1].parts)]);
  };
  const table = () => {
    const sides = sidesOf();
    const [before, after] = sides.map(offsets);
    const gone = sides[0].members.filter((member) => !after.has(member.name));
    const offset = (places, member) => (places.has(member.name) ? places.get(member.name) : '-');
    return textTable(title,
      [['member', false], ['size', true], [`offset ${sides[0].title}`, true], [`offset ${sides[1].title}`, true]],
      [...sides[1].members, ...gone].map((member) => [member.name, member.size_bytes, offset(before, member), offset(after, member)]));
  };
  return figure({ title, name, draw, table, note, controls });
}

/** Offsets of a layout's members by name. */
function offsets(side) {
  return new Map(side.members.map((member) => [member.name, member.offset_bytes]));
}

/** Cost and members of each line that is touched, over all instances. */
function lineCosts(side) {
  const costs = new Map();
  for (const line of side.weighed ? side.weighed.per_line : []) {
    const known = costs.get(line.line) || { cycles: 0, members: new Set() };
    known.cycles += line.cycles;
    line.members.forEach((member) => known.members.add(member.split(/[.\[]/)[0]));
    costs.set(line.line, known);
  }
  return costs;
}

const UNTOUCHED = { cycles: 0, members: new Set() };

/** The lines of a structure that are touched, or `lines` of the side, each with its members and its cost. */
function drawLayout(side, before, width, largest) {
  const costs = lineCosts(side);
  const all = [...(side.lines || costs.keys())].sort((a, b) => a - b);
  const lines = all.slice(0, LAYOUT.linesMax);
  const unit = (width - LAYOUT.labelWidth - LAYOUT.costWidth - 8) / 64;
  const count = Math.ceil(side.size / 64);
  const parts = [label(0, 14, `${side.title}: ${count} ${count === 1 ? 'line' : 'lines'}`, { 'font-weight': 600 })];
  if (side.weighed) {
    parts.push(label(width, 14, `${grouped(side.weighed.cycles)} cycles by the model`, { 'text-anchor': 'end', 'font-weight': 600 }));
  }
  let y = LAYOUT.head;
  lines.forEach((line) => {
    parts.push(label(0, y + 20, line * 64, { fill: plain('--muted'), 'font-size': 11 }));
    parts.push(s('rect', {
      x: LAYOUT.labelWidth + 0.5, y: y + 0.5, width: unit * 64, height: LAYOUT.rowHeight - 9,
      fill: plain('--page'), stroke: plain('--rule'),
    }));
    const cost = costs.get(line) || UNTOUCHED;
    const touched = side.weighed ? cost.members : null;
    const unnamed = [];
    for (const member of side.members) {
      parts.push(drawMember(member, line, { y, unit, touched, before, unnamed }));
    }
    if (cost !== UNTOUCHED) parts.push(costBar(cost.cycles, largest, width - LAYOUT.costWidth, y));
    y += LAYOUT.rowHeight;
    if (unnamed.length > 0) {
      const names = `narrow: ${unnamed.join(', ')}`;
      const shown = clipped(names, width - LAYOUT.labelWidth, 11, MONO);
      parts.push(s('g', { 'data-tip': names }, label(LAYOUT.labelWidth, y + 4, shown, { 'font-size': 11, 'font-family': MONO })));
      y += LAYOUT.namesHeight;
    }
  });
  const left = all.length - lines.length;
  if (left > 0) parts.push(label(0, y + 12, `${left} more lines in the table`));
  return { parts, height: y + (left > 0 ? 18 : 0) };
}

function costBar(cycles, largest, x, y) {
  return s('g', { 'data-tip': `${grouped(cycles)} cycles` },
    s('rect', { x: x + 4, y: y + 22, width: Math.max(1, (cycles / largest) * (LAYOUT.costWidth - 4)), height: 6, fill: plain('--hitm') }),
    label(x + LAYOUT.costWidth, y + 16, `${compact(cycles)} cycles`, { 'text-anchor': 'end', 'font-size': 11 }));
}

/**
 * The part of a member that lies in a line; none when no part does. Adds its name to `unnamed` when it is
 * touched and too narrow for a name. `touched` is null where nobody knows.
 */
function drawMember(member, line, { y, unit, touched, before, unnamed }) {
  const from = Math.max(member.offset_bytes, line * 64);
  const to = Math.min(member.offset_bytes + member.size_bytes, line * 64 + 64);
  if (to <= from) return null;
  const isTouched = touched === null || touched.has(member.name);
  const hasMoved = before.get(member.name) !== member.offset_bytes;
  const [x, width] = [LAYOUT.labelWidth + (from - line * 64) * unit, (to - from) * unit];
  const text = shortened(member.name, width - 4, 11, MONO) || clipped(member.name, width - 4, 11, MONO);
  if (text === '' && touched !== null && isTouched) unnamed.push(member.name);
  const fill = isTouched ? tint(hasMoved ? '--accent' : '--writes', hasMoved ? 0.32 : 0.22) : { fill: plain('--page'), ink: plain('--muted') };
  const tip = `${member.name}\nbytes ${member.offset_bytes} to ${member.offset_bytes + member.size_bytes - 1}`
    + `${hasMoved ? `\n${before.has(member.name) ? `moved from ${before.get(member.name)}` : 'added'}` : ''}${isTouched ? '' : '\nnot touched'}`;
  return s('g', { 'data-tip': tip },
    s('rect', { x: x + 1, y: y + 2, width: Math.max(1, width - 1), height: LAYOUT.rowHeight - 12, rx: 2, fill: fill.fill, stroke: plain('--muted'), 'stroke-dasharray': isTouched ? null : '2 2' }),
    label(x + width / 2 + 0.5, y + 20, text, { 'text-anchor': 'middle', 'font-size': 11, 'font-family': MONO, fill: fill.ink }));
}

// Lost cycles by stack: a box for each frame, as wide as what was lost below it.

const FLAME = { rowHeight: 22, narrowest: 1.5 };
const FRAME_TINTS = { thread: ['--muted', 0.22], function: ['--writes', 0.24], source: ['--reads', 0.2], member: ['--hitm', 0.26], other: ['--muted', 0.1] };

/** A tree of stacks; `weight` is what a stack counts. */
function stackTree(stacks, frames, weight) {
  const root = { name: 'all lost cycles', kind: 'other', total: 0, children: new Map(), depth: 0, parent: null };
  for (const stack of stacks) {
    const lost = weight(stack);
    if (!(lost > 0)) continue;
    root.total += lost;
    let node = root;
    for (const frame of stack.frames) {
      let child = node.children.get(frame);
      if (!child) {
        child = { ...frames[frame], total: 0, children: new Map(), depth: node.depth + 1, parent: node };
        node.children.set(frame, child);
      }
      child.total += lost;
      node = child;
    }
  }
  return root;
}

function nodePath(node) {
  const names = [];
  for (let one = node; one.parent; one = one.parent) names.push(one.name || '?');
  return names.reverse();
}

/** The picture. `setWeight` shows other cycles of the same stacks. */
function flameGraph(stacks, frames, { title, note, name }) {
  let root = stackTree(stacks, frames, (stack) => stack.lost_cycles);
  let top = root;
  let focused = null;
  const path = h('p', { class: 'legend', 'aria-live': 'polite' });
  const reset = h('button', { type: 'button', class: 'quiet', click: () => zoom(root) }, 'Whole graph');
  const zoom = (node) => {
    top = node;
    focused = node;
    one.redraw();
    const box = one.element.querySelector('[tabindex="0"][data-depth]');
    if (box && node !== root) box.focus();
  };
  const say = (node) => path.replaceChildren(`${nodePath(node).join(' › ') || root.name}: ${grouped(node.total)} cycles`);
  const draw = (width) => drawFlame({ root, top, focused, zoom, say, title }, width);
  const table = () => {
    const rows = [];
    const walk = (node) => {
      if (node.children.size === 0 && node.parent) rows.push([nodePath(node).join(' › '), node.total]);
      for (const child of node.children.values()) walk(child);
    };
    walk(root);
    rows.sort((a, b) => b[1] - a[1]);
    return textTable(title, [['stack', false], ['lost cycles', true]], rows.map(([text, lost]) => [text, grouped(lost)]));
  };
  const one = figure({ title, note, name, draw, table, controls: [reset] });
  one.element.querySelector('.canvas').after(path);
  one.setWeight = (weight) => {
    root = stackTree(stacks, frames, weight);
    top = root;
    focused = null;
    path.replaceChildren('');
    one.redraw();
  };
  return one;
}

function drawFlame({ root, top, focused, zoom, say, title }, width) {
  const drawn = [];
  const boxes = new Map();
  let depth = 0;
  const place = (node, x, each) => {
    if (each < FLAME.narrowest) return;
    depth = Math.max(depth, node.depth);
    const box = flameBox(node, x, each, { zoom, say });
    boxes.set(node, box);
    drawn.push(box);
    let at = x;
    for (const child of childrenOf(node)) {
      const part = (child.total / Math.max(1, node.total)) * each;
      place(child, at, part);
      at += part;
    }
  };
  // What is above the top stays, over the whole width.
  const above = [];
  for (let node = top.parent; node; node = node.parent) above.unshift(node);
  above.forEach((node) => {
    const box = flameBox(node, 0, width, { zoom, say });
    boxes.set(node, box);
    drawn.push(box);
  });
  place(top, 0, width);
  const current = boxes.get(focused) || boxes.get(root);
  if (current) current.setAttribute('tabindex', '0');
  const height = (depth + 1) * FLAME.rowHeight + 1;
  const svg = picture(width, height, `${title}. Arrow keys move, Enter zooms.`, drawn, 'group');
  svg.addEventListener('keydown', (event) => moveInFlame(event, boxes));
  return svg;
}

function childrenOf(node) {
  return [...node.children.values()].sort((a, b) => b.total - a.total || (a.name < b.name ? -1 : 1));
}

function flameBox(node, x, width, { zoom, say }) {
  const [hue, share] = FRAME_TINTS[node.kind] || FRAME_TINTS.other;
  const colours = tint(hue, share);
  const y = node.depth * FLAME.rowHeight;
  const name = node.name || '?';
  const text = node.kind === 'member' || node.kind === 'source'
    ? shortened(name, width - 8, 11.5) || clipped(name, width - 8, 11.5) : clipped(name, width - 8, 11.5);
  const tip = `${name}\n${grouped(node.total)} cycles lost`;
  return s('g', {
    'data-tip': tip, 'data-depth': node.depth, role: 'button', tabindex: '-1',
    'aria-label': `${node.kind} ${name}: ${grouped(node.total)} cycles`,
    click: () => zoom(node), focus: () => say(node),
    keydown: (event) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      zoom(node);
    },
  },
  s('rect', { x: x + 0.5, y: y + 0.5, width: Math.max(1, width - 1), height: FLAME.rowHeight - 2, rx: 2, fill: colours.fill }),
  label(x + 5, y + 15, text, { 'font-size': 11.5, fill: colours.ink }));
}

/** Arrow keys: up to the caller, down to the largest part, left and right to what is beside. */
function moveInFlame(event, boxes) {
  const entries = [...boxes.entries()];
  const found = entries.find(([, box]) => box === event.target);
  if (!found) return;
  const [node] = found;
  const drawn = (list) => list.filter((one) => boxes.has(one));
  const beside = node.parent ? drawn(childrenOf(node.parent)) : [node];
  const at = beside.indexOf(node);
  const to = {
    ArrowUp: node.parent, ArrowDown: drawn(childrenOf(node))[0], ArrowLeft: beside[at - 1], ArrowRight: beside[at + 1],
  }[event.key];
  if (!to || !boxes.has(to)) return;
  event.preventDefault();
  event.target.setAttribute('tabindex', '-1');
  boxes.get(to).setAttribute('tabindex', '0');
  boxes.get(to).focus();
}
